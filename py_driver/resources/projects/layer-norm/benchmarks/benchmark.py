"""The fused layer norm beside torch's ops: `driver bench`, or `kernels benchmark`."""

import torch
from kernels.benchmark import Benchmark


class _Norm:
    seed = 0
    dtype = torch.float16
    rows: int
    columns: int

    def setup(self):
        rows = max(1, self.rows >> 6) if self.device == "cpu" else self.rows
        made = {"device": self.device, "dtype": self.dtype}
        self.x, self.residual, self.grad = (torch.randn(rows, self.columns, **made) for _ in range(3))
        self.weight, self.bias = (torch.randn(self.columns, **made) for _ in range(2))
        self.shape = (self.columns,)


class _Forward(_Norm):
    def benchmark_forward(self):
        self.out, _ = self.kernel.[[ module ]](self.x, self.residual, self.weight, self.bias)

    def verify_forward(self):
        return torch.nn.functional.layer_norm(self.x + self.residual, self.shape, self.weight, self.bias)

    def bytes_forward(self):
        return 4 * self.x.nbytes


class ManyShortRows(_Forward, Benchmark):
    rows, columns = 262144, 256


class Hidden4096(_Forward, Benchmark):
    rows, columns = 16384, 4096


class Hidden4096Float32(_Forward, Benchmark):
    rows, columns, dtype = 16384, 4096, torch.float32


class LongRows(_Forward, Benchmark):
    rows, columns = 4096, 16384


class Gradients(_Norm, Benchmark):
    rows, columns = 16384, 4096

    def setup(self):
        self.dtype = torch.float32 if self.device == "cpu" else self.dtype
        super().setup()
        self.ops = self.kernel._ops.ops
        # Rounded twice, as torch's ops do it, a sum can be far from what is rounded once; with zeros it is the same.
        self.nothing = torch.zeros_like(self.x)
        _, self.sum, self.mean, self.rstd = self.ops.[[ module ]](self.x, self.residual, self.weight, self.bias, 1e-5)

    def benchmark_gradients(self):
        given = (self.grad, self.nothing, self.sum, self.mean, self.rstd, self.weight)
        self.out, _, _ = self.ops.[[ module ]]_backward(*given)

    def verify_gradients(self):
        given = (self.mean[:, None], self.rstd[:, None], self.weight, self.bias)
        own, _, _ = torch.ops.aten.native_layer_norm_backward(self.grad, self.sum, self.shape, *given, [True] * 3)
        return own + self.nothing

    def bytes_gradients(self):
        return 4 * self.x.nbytes
