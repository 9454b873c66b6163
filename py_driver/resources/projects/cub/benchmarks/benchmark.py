"""The running sum beside torch.cumsum: `driver bench`, or `kernels benchmark`."""

import torch
from kernels.benchmark import Benchmark


class _Sum:
    seed = 0
    dtype: torch.dtype

    def setup(self):
        self.x = torch.randint(-100, 100, (1 << 26,), device=self.device).to(self.dtype)
        self.out = torch.empty_like(self.x)

    def benchmark_sum(self):
        self.kernel.[[ module ]](self.x, self.out)

    def verify_sum(self):
        return torch.cumsum(self.x, 0, dtype=self.dtype)

    def bytes_sum(self):
        return 2 * self.x.nbytes


class Int32(_Sum, Benchmark):
    dtype = torch.int32


class Int64(_Sum, Benchmark):
    dtype = torch.int64
