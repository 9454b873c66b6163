"""The kernels beside torch's ops: `driver bench examples/transformer`, or `kernels benchmark`.

On a GPU the tensors are larger than its cache, so that memory is what all wait for.
"""

import torch
from kernels.benchmark import Benchmark


class _Work:
    seed = 0
    dtype = torch.float16
    rows = 16384
    columns = 4096

    def tensors(self, count):
        rows = self.rows >> 6 if self.device == "cpu" else self.rows
        return [torch.randn(rows, self.columns, device=self.device, dtype=self.dtype) for _ in range(count)]


class Norm(_Work, Benchmark):
    """RMSNorm of rows."""

    def setup(self):
        [self.x] = self.tensors(1)
        self.weight = torch.randn(self.columns, device=self.device, dtype=self.dtype)

    def benchmark_norm(self):
        self.out = self.kernel.rms_norm(self.x, self.weight, 1e-6)

    def verify_norm(self):
        return torch.nn.functional.rms_norm(self.x, (self.columns,), self.weight, 1e-6)

    def bytes_norm(self):
        return 2 * self.x.nbytes


class NormOfSum(_Work, Benchmark):
    """RMSNorm of x + residual, and the sum."""

    def setup(self):
        # Whole numbers, so that torch's sum is not rounded before its norm.
        self.x, self.residual = (x.round() for x in self.tensors(2))
        self.weight = torch.randn(self.columns, device=self.device, dtype=self.dtype)

    def benchmark_sum(self):
        self.out, _ = self.kernel.add_rms_norm(self.x, self.residual, self.weight, 1e-6)

    def verify_sum(self):
        return torch.nn.functional.rms_norm(self.x + self.residual, (self.columns,), self.weight, 1e-6)

    def bytes_sum(self):
        return 4 * self.x.nbytes


class Swiglu(_Work, Benchmark):
    """silu(gate) * up."""

    columns = 14336

    def setup(self):
        self.gate, self.up = self.tensors(2)

    def benchmark_swiglu(self):
        self.out = self.kernel.swiglu(self.gate, self.up)

    def verify_swiglu(self):
        return torch.nn.functional.silu(self.gate) * self.up

    def bytes_swiglu(self):
        return 3 * self.gate.nbytes


class Rope(_Work, Benchmark):
    """Queries of 32 heads and keys of 8, as a projection leaves them in memory."""

    def setup(self):
        tokens = self.rows >> 6 if self.device == "cpu" else self.rows
        made = {"device": self.device, "dtype": self.dtype}
        self.q, self.k = (torch.randn(1, tokens, heads, 128, **made).transpose(1, 2) for heads in (32, 8))
        angles = torch.randn(1, tokens, 64, device=self.device)
        self.cos, self.sin = (torch.cat((x, x), -1).to(self.dtype) for x in (angles.cos(), angles.sin()))

    def benchmark_rope(self):
        self.out, _ = self.kernel.rope(self.q, self.k, self.cos, self.sin)

    def verify_rope(self):
        q, _ = (self._turned(x) for x in (self.q, self.k))
        return q

    def _turned(self, x):
        other = torch.cat((-x[..., 64:], x[..., :64]), -1)
        return x * self.cos[:, None] + other * self.sin[:, None]

    def bytes_rope(self):
        return 2 * (self.q.nbytes + self.k.nbytes)
