"""The product beside torch's, which is cuBLAS: `driver bench`, or `kernels benchmark`."""

from functools import partial

import torch
from kernels.benchmark import Benchmark


class _Product:
    seed = 0
    dtype = torch.bfloat16
    by_columns = False
    rows: int
    columns: int
    depth: int

    def setup(self):
        self.a = torch.randn(self.rows, self.depth, device=self.device, dtype=self.dtype) * 0.1
        self.b = torch.randn(self.depth, self.columns, device=self.device, dtype=self.dtype) * 0.1
        if self.by_columns:
            self.b = self.b.t().contiguous().t()
        self.out = torch.empty(self.rows, self.columns, device=self.device, dtype=self.dtype)

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
        return 2 * self.rows * self.columns * self.depth


class Large(_Product, Benchmark):
    rows, columns, depth = 8192, 8192, 8192


class LargeTransposed(_Product, Benchmark):
    rows, columns, depth, by_columns = 8192, 8192, 8192, True


class SquareFloat16(_Product, Benchmark):
    rows, columns, depth, dtype = 4096, 4096, 4096, torch.float16


class Tall(_Product, Benchmark):
    rows, columns, depth = 65536, 256, 512


class Small(_Product, Benchmark):
    rows, columns, depth = 1024, 1024, 1024


class FewRows(_Product, Benchmark):
    rows, columns, depth = 16, 4096, 4096


class NoMultipleOf8(_Product, Benchmark):
    rows, columns, depth = 4095, 4093, 4091


class LargeInt8(_Product, Benchmark):
    def peers_product(self):
        return {}  # torch multiplies int8 by cuBLASLt alone

    rows, columns, depth, dtype, by_columns = 8192, 8192, 8192, torch.int8, True

    def setup(self):
        self.a = torch.randint(-128, 128, (self.rows, self.depth), device=self.device, dtype=self.dtype)
        self.b = torch.randint(-128, 128, (self.columns, self.depth), device=self.device, dtype=self.dtype).t()
        self.out = torch.empty(self.rows, self.columns, device=self.device, dtype=torch.int32)

    def verify_product(self):
        return torch._int_mm(self.a, self.b)
