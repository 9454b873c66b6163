"""The kernel beside torch.mul: `driver bench`, or `kernels benchmark`."""

import torch
from kernels.benchmark import Benchmark


class Float32(Benchmark):
    seed = 0

    def setup(self):
        elements = 1 << (20 if self.device == "cpu" else 26)
        self.x = torch.randn(elements, device=self.device)

    def benchmark_twice(self):
        self.out = self.kernel.[[ module ]](self.x)

    def verify_twice(self):
        return self.x * 2

    def bytes_twice(self):
        return 2 * self.x.nbytes
