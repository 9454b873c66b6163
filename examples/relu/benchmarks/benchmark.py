"""Relu beside a copy, which moves the same bytes and computes nothing: `kernels benchmark examples/relu`.

The tensors are large, so that memory is what both wait for.
"""

import torch
from kernels.benchmark import Benchmark

ELEMENTS = 1 << 29


class _Work:
    """Both workloads for one type of elements."""

    seed = 0
    dtype: torch.dtype

    def setup(self):
        self.x = torch.randn(ELEMENTS, device=self.device, dtype=self.dtype)
        self.out = torch.empty_like(self.x)

    def benchmark_relu(self):
        self.kernel.relu(self.x, self.out)

    def verify_relu(self):
        return torch.relu(self.x)

    def benchmark_copy(self):
        self.out.copy_(self.x)


class Float32(_Work, Benchmark):
    """Tensors of float32."""

    dtype = torch.float32


class Float16(_Work, Benchmark):
    """Tensors of float16."""

    dtype = torch.float16


class BFloat16(_Work, Benchmark):
    """Tensors of bfloat16."""

    dtype = torch.bfloat16
