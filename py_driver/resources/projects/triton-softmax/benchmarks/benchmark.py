"""Softmax beside torch's: `driver bench`, or `kernels benchmark`."""

import torch
from kernels.benchmark import Benchmark


class _Softmax:
    seed = 0
    dtype = torch.float32
    rows, columns = 8192, 4096
    case = None  # and `config`: set by `driver tune`, see tuning/softmax.toml
    config = None

    def setup(self):
        columns = self.case["columns"] if self.case else self.columns
        self.x = torch.randn(self.rows * self.columns // columns, columns, device=self.device, dtype=self.dtype)
        self.out = torch.empty_like(self.x)

    def benchmark_softmax(self):
        self.kernel.[[ module ]](self.x, out=self.out, config=self.config)

    def verify_softmax(self):
        return torch.softmax(self.x, dim=-1)

    def bytes_softmax(self):
        return 2 * self.x.nbytes


class Float32(_Softmax, Benchmark):
    pass


class Float16(_Softmax, Benchmark):
    dtype = torch.float16


class ShortRows(_Softmax, Benchmark):
    rows, columns = 262144, 128


class LongRows(_Softmax, Benchmark):
    rows, columns = 256, 131072


class Gradient(_Softmax, Benchmark):
    def setup(self):
        super().setup()
        self.grad = torch.randn_like(self.x)
        self.y = torch.softmax(self.x, dim=-1)

    def benchmark_softmax(self):
        self.out = self.kernel._ops.ops.[[ module ]]_backward(self.grad, self.y, 1.0)

    def verify_softmax(self):
        return torch._softmax_backward_data(self.grad, self.y, -1, self.dtype)

    def bytes_softmax(self):
        return 3 * self.x.nbytes
