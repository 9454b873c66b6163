[% extends "projects/gemm-wmma/benchmarks/benchmark.py" %]
[% block workloads %]


class Large(_Product, Benchmark):
    rows, columns, depth, dtype = 8192, 8192, 8192, torch.bfloat16


class LargeTransposed(_Product, Benchmark):
    rows, columns, depth, dtype = 8192, 8192, 8192, torch.bfloat16

    def setup(self):
        super().setup()
        self.b = self.b.t().contiguous().t()
[% endblock %]
