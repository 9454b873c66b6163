"""The product beside torch's with weights of 16 bits: `driver bench`, or `kernels benchmark`."""

import torch
from kernels.benchmark import Benchmark


class _Product:
    seed = 0
    dtype = torch.float16
    rows: int
    columns, depth, group = 8192, 8192, 128

    def setup(self):
        part = 16 if self.device == "cpu" else 1
        columns, depth = self.columns // part, self.depth // part
        made = {"device": self.device, "dtype": self.dtype}
        self.x = torch.randn(self.rows, depth, **made)
        self.weight, self.scales = self.kernel.quantize(torch.randn(columns, depth, **made) * 0.1, self.group)
        halves = torch.stack((self.weight & 15, self.weight >> 4), -1).flatten(1).to(torch.int8)
        values = torch.where(halves > 7, halves - 16, halves).to(self.dtype)
        self.wide = (values.unflatten(1, (-1, self.group)) * self.scales[..., None]).flatten(1)
        self.out = torch.empty(self.rows, columns, **made)

    def benchmark_product(self):
        self.kernel.[[ module ]](self.x, self.weight, self.scales, self.out)

    def verify_product(self):
        return self.x @ self.wide.T

    def bytes_product(self):
        return sum(one.nbytes for one in (self.x, self.weight, self.scales, self.out))

    def flops_product(self):
        return 2 * self.out.numel() * self.x.shape[1]


class OneRow(_Product, Benchmark):
    rows = 1


class SixteenRows(_Product, Benchmark):
    rows = 16


class HundredRows(_Product, Benchmark):
    rows = 100


class ManyRows(_Product, Benchmark):
    rows = 1024
