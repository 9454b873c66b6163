"""Attention beside torch's: `driver bench`, or `kernels benchmark`."""

from functools import partial

import torch
from kernels.benchmark import Benchmark
from torch.nn.attention import SDPBackend, sdpa_kernel


class _Attention:
    seed = 0
    dtype = torch.bfloat16
    causal = False
    batch, heads, kv_heads, rows, width = 1, 16, 16, 16384, 128
    queries = None  # as many as rows

    def setup(self):
        rows = max(1, self.rows >> 6) if self.device == "cpu" else self.rows
        made = {"device": self.device, "dtype": torch.float32 if self.device == "cpu" else self.dtype}
        self.q = torch.randn(self.batch, self.heads, self.queries or rows, self.width, **made)
        self.k, self.v = (torch.randn(self.batch, self.kv_heads, rows, self.width, **made) for _ in range(2))

    def flops(self):
        return 4 * self.q.numel() * self.k.shape[2] // (2 if self.causal else 1)


class _Forward(_Attention):
    def benchmark_forward(self):
        self.out = self.kernel.[[ module ]](self.q, self.k, self.v, self.causal)

    def verify_forward(self):
        return torch.nn.functional.scaled_dot_product_attention(
            self.q, self.k, self.v, is_causal=self.causal, enable_gqa=self.heads != self.kv_heads
        )

    def peers_forward(self):
        names = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FlashAttention": SDPBackend.FLASH_ATTENTION}
        return {} if self.device == "cpu" else {name: partial(self._by, backend) for name, backend in names.items()}

    def _by(self, backend):
        with sdpa_kernel(backend):
            return self.verify_forward()

    def bytes_forward(self):
        # The output is as large as q.
        return sum(tensor.numel() * tensor.element_size() for tensor in (self.q, self.k, self.v, self.q))

    def flops_forward(self):
        return self.flops()


class Tokens16k(_Forward, Benchmark):
    pass


class Tokens16kCausal(_Forward, Benchmark):
    causal = True


class Tokens4kCausalGrouped(_Forward, Benchmark):
    batch, heads, kv_heads, rows, causal = 4, 32, 8, 4096, True


class Width64(_Forward, Benchmark):
    heads, kv_heads, width = 32, 32, 64


class Width256(_Forward, Benchmark):
    heads, kv_heads, width = 8, 8, 256


class OneQuery(_Forward, Benchmark):
    batch, heads, kv_heads, queries = 8, 32, 8, 1


class Gradients(_Attention, Benchmark):
    def setup(self):
        super().setup()
        self.grad = torch.randn_like(self.q)
        self.scale = self.width**-0.5
        self.result, self.lse = self.kernel.[[ module ]](self.q, self.k, self.v, self.causal, return_lse=True)
        self.leaves = [tensor.clone().requires_grad_() for tensor in (self.q, self.k, self.v)]
        self.expected = torch.nn.functional.scaled_dot_product_attention(*self.leaves, is_causal=self.causal)

    def benchmark_gradients(self):
        given = (self.grad, self.q, self.k, self.v, self.result, self.lse, self.causal, self.scale)
        self.out, _, _ = self.kernel._ops.ops.[[ module ]]_backward(*given)

    def verify_gradients(self):
        return torch.autograd.grad(self.expected, self.leaves, self.grad, retain_graph=True)[0]

    def flops_gradients(self):
        return self.flops() * 5 // 2
