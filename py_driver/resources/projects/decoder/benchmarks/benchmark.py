"""The kernels beside torch's ops, in the sizes of Llama: `driver bench`, or `kernels benchmark`."""

import torch
from kernels.benchmark import Benchmark


class _Work:
    seed = 0
    dtype = torch.bfloat16
    rows = 16384
    columns = 4096

    def tensors(self, count, columns=None):
        rows = self.rows >> 6 if self.device == "cpu" else self.rows
        made = {"device": self.device, "dtype": self.dtype}
        return [torch.randn(rows, columns or self.columns, **made) for _ in range(count)]


class _Norm(_Work):
    """RMSNorm of x + residual, and the sum."""

    def setup(self):
        # Whole numbers, so that torch's sum is not rounded before its norm.
        self.x, self.residual = (x.round() for x in self.tensors(2))
        self.weight = torch.randn(self.columns, device=self.device, dtype=self.dtype)

    def benchmark_norm(self):
        self.out, _ = self.kernel.add_rms_norm(self.x, self.residual, self.weight, 1e-6)

    def verify_norm(self):
        return torch.nn.functional.rms_norm(self.x + self.residual, (self.columns,), self.weight, 1e-6)

    def bytes_norm(self):
        return 4 * self.x.nbytes


class Norm4096(_Norm, Benchmark):
    pass


class Norm8192(_Norm, Benchmark):
    columns = 8192


class Norm4096Float32(_Norm, Benchmark):
    dtype = torch.float32


class NormGradients(_Work, Benchmark):
    """The gradients of the norm of a sum: of x, which is also that of residual, and of weight."""

    def setup(self):
        self.dtype = torch.float32 if self.device == "cpu" else self.dtype
        self.x, self.grad = self.tensors(2)
        self.weight = torch.randn(self.columns, device=self.device, dtype=self.dtype)
        self.rstd = (self.x.float().square().mean(-1) + 1e-6).rsqrt()
        self.nothing = torch.zeros_like(self.x)
        self.leaves = [tensor.clone().requires_grad_() for tensor in (self.x, self.weight)]
        self.expected = torch.nn.functional.rms_norm(self.leaves[0], (self.columns,), self.leaves[1], 1e-6)

    def benchmark_gradients(self):
        given = (self.grad, self.nothing, self.x, self.rstd, self.weight)
        self.out, _ = self.kernel._ops.ops.rms_norm_backward(*given)

    def verify_gradients(self):
        own, _ = torch.autograd.grad(self.expected, self.leaves, self.grad, retain_graph=True)
        return own + self.nothing

    def bytes_gradients(self):
        return 4 * self.x.nbytes


class _Swiglu(_Work):
    """silu(gate) * up, for what one product leaves: rows of both."""

    columns = 14336

    def setup(self):
        [self.both] = self.tensors(1, 2 * self.columns)
        self.gate, self.up = self.both.chunk(2, -1)

    def benchmark_swiglu(self):
        self.out = self.kernel.swiglu(self.both)

    def verify_swiglu(self):
        return torch.nn.functional.silu(self.gate) * self.up

    def bytes_swiglu(self):
        return self.both.nbytes * 3 // 2


class SwigluPacked(_Swiglu, Benchmark):
    pass


class SwigluTwo(_Swiglu, Benchmark):
    def setup(self):
        super().setup()
        self.gate, self.up = self.gate.contiguous(), self.up.contiguous()

    def benchmark_swiglu(self):
        self.out = self.kernel.swiglu(self.gate, self.up)


class SwigluGradients(_Swiglu, Benchmark):
    def setup(self):
        self.dtype = torch.float32 if self.device == "cpu" else self.dtype
        super().setup()
        self.grad = torch.randn_like(self.gate)
        self.leaf = self.both.clone().requires_grad_()
        gate, up = self.leaf.chunk(2, -1)
        self.expected = torch.nn.functional.silu(gate) * up

    def benchmark_swiglu(self):
        self.out = self.kernel._ops.ops.swiglu_packed_backward(self.grad, self.both)

    def verify_swiglu(self):
        return torch.autograd.grad(self.expected, self.leaf, self.grad, retain_graph=True)[0]

    def bytes_swiglu(self):
        return self.both.nbytes * 5 // 2


class _Rope(_Work):
    """Queries of 32 heads and keys of 8, as a projection leaves them in memory."""

    interleaved = False

    def setup(self):
        tokens = self.rows >> 6 if self.device == "cpu" else self.rows
        made = {"device": self.device, "dtype": self.dtype}
        # Whole numbers and quarters, so that torch rounds neither its products nor the table that it has in 16 bits.
        self.q, self.k = (torch.randn(1, tokens, heads, 128, **made).round().transpose(1, 2) for heads in (32, 8))
        angles = torch.randn(1, tokens, 64, device=self.device)
        self.cos, self.sin = ((4 * x).round() / 4 for x in (angles.cos(), angles.sin()))
        twice = (lambda x: x.repeat_interleave(2, -1)) if self.interleaved else (lambda x: torch.cat((x, x), -1))
        self.both = [twice(x).to(self.dtype)[:, None] for x in (self.cos, self.sin)]

    def benchmark_rope(self):
        self.out, _ = self.kernel.rope(self.q, self.k, self.cos, self.sin, self.interleaved)

    def verify_rope(self):
        q, _ = (x * self.both[0] + self._other(x) * self.both[1] for x in (self.q, self.k))
        return q

    def _other(self, x):
        if self.interleaved:
            return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
        return torch.cat((-x[..., 64:], x[..., :64]), -1)

    def bytes_rope(self):
        return 2 * (self.q.nbytes + self.k.nbytes)


class RopeHalves(_Rope, Benchmark):
    pass


class RopeInterleaved(_Rope, Benchmark):
    interleaved = True
