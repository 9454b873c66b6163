"""The kernel beside torch.nn.functional.silu: `driver bench`, or `kernels benchmark`."""

import torch
from kernels.benchmark import Benchmark


class _Silu:
    seed = 0
    dtype: torch.dtype

    def setup(self):
        elements = 1 << (20 if self.device == "cpu" else 26)
        self.x = torch.randn(elements, device=self.device, dtype=self.dtype)
        self.out = torch.empty_like(self.x)

    def benchmark_silu(self):
        self.kernel.[[ module ]](self.x, self.out)

    def verify_silu(self):
        return torch.nn.functional.silu(self.x)

    def bytes_silu(self):
        return 2 * self.x.nbytes


class Float32(_Silu, Benchmark):
    dtype = torch.float32


class Float16(_Silu, Benchmark):
    dtype = torch.float16


class BFloat16(_Silu, Benchmark):
    dtype = torch.bfloat16
