"""The layer beside torch's, which is cuBLAS and a kernel for ReLU: `driver bench`, or `kernels benchmark`."""

import torch
from kernels.benchmark import Benchmark


class _Layer:
    seed = 0
    rows: int
    columns: int
    depth: int

    def setup(self):
        def values(*shape):
            return torch.randn(*shape, device=self.device, dtype=torch.float16) * 0.1

        self.a, self.b = values(self.rows, self.depth), values(self.depth, self.columns)
        self.bias = values(self.columns)
        self.out = values(self.rows, self.columns)

    def benchmark_layer(self):
        self.kernel.[[ module ]](self.a, self.b, self.bias, self.out)

    def verify_layer(self):
        return torch.relu(torch.addmm(self.bias, self.a, self.b))

    def flops_layer(self):
        return 2 * self.rows * self.columns * self.depth


class Square(_Layer, Benchmark):
    rows, columns, depth = 4096, 4096, 4096


class Tall(_Layer, Benchmark):
    rows, columns, depth = 65536, 256, 512
