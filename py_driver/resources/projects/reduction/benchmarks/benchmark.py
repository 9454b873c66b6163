"""Softmax beside torch's, for few long rows and for many short ones: `driver bench`, or `kernels benchmark`."""

import torch
from kernels.benchmark import Benchmark


class _Softmax:
    seed = 0
    dtype = torch.float32
    rows: int
    columns: int
    case = None  # set by `driver tune`: see tuning/softmax.toml

    def setup(self):
        shape = self.case or {"rows": self.rows, "columns": self.columns}
        rows = max(1, shape["rows"] >> 6) if self.device == "cpu" else shape["rows"]
        self.x = torch.randn(rows, shape["columns"], device=self.device, dtype=self.dtype)
        self.out = torch.empty_like(self.x)

    def benchmark_softmax(self):
        self.kernel.[[ module ]](self.x, self.out)

    def verify_softmax(self):
        return torch.softmax(self.x, dim=-1)

    def bytes_softmax(self):
        return 2 * self.x.nbytes


class ManyShortRows(_Softmax, Benchmark):
    rows, columns = 262144, 128


class Square(_Softmax, Benchmark):
    rows, columns = 8192, 4096


class FewLongRows(_Softmax, Benchmark):
    rows, columns = 256, 131072


class SquareFloat16(_Softmax, Benchmark):
    rows, columns, dtype = 8192, 4096, torch.float16
