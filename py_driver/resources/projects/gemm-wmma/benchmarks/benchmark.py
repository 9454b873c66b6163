"""The product beside torch's, which is cuBLAS on a GPU: `driver bench`, or `kernels benchmark`."""

from functools import partial

import torch
from kernels.benchmark import Benchmark


class _Product:
    seed = 0
    dtype = torch.float16
    rows: int
    columns: int
    depth: int

    def setup(self):
        part = 16 if self.device == "cpu" else 1
        self.sizes = tuple(max(1, one // part) for one in (self.rows, self.columns, self.depth))
        rows, columns, depth = self.sizes
        self.a = torch.randn(rows, depth, device=self.device, dtype=self.dtype) * 0.1
        self.b = torch.randn(depth, columns, device=self.device, dtype=self.dtype) * 0.1
        self.out = torch.empty(rows, columns, device=self.device, dtype=self.dtype)

    def benchmark_product(self):
        self.kernel.[[ module ]](self.a, self.b, self.out)

    def verify_product(self):
        return self.a @ self.b

    def peers_product(self):
        return {} if self.device == "cpu" else {name: partial(self._by, name) for name in ("cuBLAS", "cuBLASLt")}

    def _by(self, library):
        before = torch.backends.cuda.preferred_blas_library()
        torch.backends.cuda.preferred_blas_library(library.lower())
        try:
            return self.verify_product()
        finally:
            torch.backends.cuda.preferred_blas_library(before)

    def bytes_product(self):
        return sum(matrix.numel() * matrix.element_size() for matrix in (self.a, self.b, self.out))

    def flops_product(self):
        rows, columns, depth = self.sizes
        return 2 * rows * columns * depth


class Square(_Product, Benchmark):
    rows, columns, depth = 4096, 4096, 4096


class Tall(_Product, Benchmark):
    rows, columns, depth = 65536, 256, 512


class Narrow(_Product, Benchmark):
    rows, columns, depth = 16, 8192, 8192


class SquareBFloat16(_Product, Benchmark):
    rows, columns, depth, dtype = 4096, 4096, 4096, torch.bfloat16
[% block workloads %]
[% endblock %]
