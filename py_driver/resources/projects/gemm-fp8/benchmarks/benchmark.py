"""The product beside torch's, which is cuBLAS, and beside bfloat16: `driver bench`, or `kernels benchmark`."""

import torch
from kernels.benchmark import Benchmark


class _Product:
    seed = 0
    fast = False
    a_block: tuple[int, int]
    b_block: tuple[int, int]
    rows: int
    columns: int
    depth: int

    def setup(self):
        self.a, a_scales, self.wide_a = self._quantized(self.rows, self.a_block)
        b, b_scales, wide_b = self._quantized(self.columns, self.b_block)
        # torch wants the scales of blocks of a column by column, and those of b so too.
        self.a_scales, self.b, self.b_scales = a_scales.t().contiguous().t(), b.t(), b_scales.t()
        self.wide_b = wide_b.t()
        self.out = torch.empty(self.rows, self.columns, device=self.device, dtype=torch.bfloat16)

    def _quantized(self, rows, block):
        """A random matrix in float8, its scales, and what both stand for in bfloat16."""
        high, wide = (min(sizes) for sizes in zip(block, (rows, self.depth)))
        values, scales = self.kernel.quantize(torch.randn(rows, self.depth, device=self.device) * 0.03, (high, wide))
        repeated = scales.repeat_interleave(high, 0)[:rows].repeat_interleave(wide, 1)[:, : self.depth]
        return values, scales, (values.float() * repeated).bfloat16()

    def benchmark_product(self):
        self.out = self.kernel.[[ module ]](self.a, self.b, self.a_scales, self.b_scales, fast=self.fast)

    def verify_product(self):
        return torch._scaled_mm(
            self.a, self.b, self.a_scales, self.b_scales, out_dtype=torch.bfloat16, use_fast_accum=self.fast
        )

    def peers_product(self):
        return {"bfloat16": lambda: self.wide_a @ self.wide_b}

    def bytes_product(self):
        return sum(matrix.numel() * matrix.element_size() for matrix in (self.a, self.b, self.out))

    def flops_product(self):
        return 2 * self.rows * self.columns * self.depth


class _ByRows(_Product):
    a_block = b_block = (1, 1 << 30)


class _ByBlocks(_Product):
    a_block, b_block = (1, 128), (128, 128)


class Large(_ByRows, Benchmark):
    rows, columns, depth = 8192, 8192, 8192


class LargeFast(_ByRows, Benchmark):
    rows, columns, depth, fast = 8192, 8192, 8192, True


class LargeBlocks(_ByBlocks, Benchmark):
    rows, columns, depth = 8192, 8192, 8192


class SquareFast(_ByRows, Benchmark):
    rows, columns, depth, fast = 4096, 4096, 4096, True


class SquareBlocks(_ByBlocks, Benchmark):
    rows, columns, depth = 4096, 4096, 4096


class DownBlocks(_ByBlocks, Benchmark):
    rows, columns, depth = 4096, 7168, 2048


class FewBlocks(_ByBlocks, Benchmark):
    rows, columns, depth = 64, 7168, 2048
