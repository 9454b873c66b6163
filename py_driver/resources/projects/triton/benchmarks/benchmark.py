"""SwiGLU beside torch's two kernels: `driver bench`, or `kernels benchmark`."""

import torch
from kernels.benchmark import Benchmark


class _SwiGlu:
    seed = 0
    dtype: torch.dtype
    case = None  # and `config`: set by `driver tune`, see tuning/swiglu.toml
    config = None

    def setup(self):
        count = self.case["count"] if self.case else 1 << 26
        self.gate = torch.randn(count, device=self.device, dtype=self.dtype)
        self.up = torch.randn_like(self.gate)
        self.out = torch.empty_like(self.gate)

    def benchmark_swiglu(self):
        self.kernel.[[ module ]](self.gate, self.up, self.out, config=self.config)

    def verify_swiglu(self):
        return torch.nn.functional.silu(self.gate) * self.up

    def bytes_swiglu(self):
        return 3 * self.gate.nbytes


class Float32(_SwiGlu, Benchmark):
    dtype = torch.float32


class Float16(_SwiGlu, Benchmark):
    dtype = torch.float16
