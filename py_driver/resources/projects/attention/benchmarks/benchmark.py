"""Attention beside torch's: `driver bench`, or `kernels benchmark`."""

from functools import partial
from itertools import accumulate

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


class _Varlen:
    seed = 0
    causal = True
    lengths = (1024,) * 32
    heads, kv_heads, width = 16, 16, 128

    def setup(self):
        on_cpu = self.device == "cpu"
        lengths = [max(1, length >> 6) for length in self.lengths] if on_cpu else self.lengths
        made = {"device": self.device, "dtype": torch.float32 if on_cpu else torch.bfloat16}
        self.q = torch.randn(sum(lengths), self.heads, self.width, **made)
        self.k, self.v = (torch.randn(sum(lengths), self.kv_heads, self.width, **made) for _ in range(2))
        begins = torch.tensor([0, *accumulate(lengths)], device=self.device, dtype=torch.int32)
        self.sequences = (begins, begins, max(lengths), max(lengths), self.causal)
        self.parts = self.split(lengths, self.q, self.k, self.v)

    def split(self, lengths, *tensors):
        """Each sequence as a batch of its own."""
        return [tuple(part.transpose(0, 1)[None] for part in tensor.split(lengths)) for tensor in tensors]

    def flops(self):
        pairs = sum(part.shape[2] ** 2 for part in self.parts[0])
        return 4 * pairs * self.heads * self.width // (2 if self.causal else 1)

    def attend(self, parts):
        """What torch computes, sequence by sequence."""
        grouped = self.heads != self.kv_heads
        attend = partial(torch.nn.functional.scaled_dot_product_attention, is_causal=self.causal, enable_gqa=grouped)
        return torch.cat([attend(*part)[0].transpose(0, 1) for part in zip(*parts)])


class _VarlenForward(_Varlen):
    def benchmark_forward(self):
        self.out = self.kernel.[[ module ]]_varlen(self.q, self.k, self.v, *self.sequences)

    def verify_forward(self):
        return self.attend(self.parts)

    def peers_forward(self):
        return {} if self.device == "cpu" else {"FlashAttention": self._by_flash_attention}

    def _by_flash_attention(self):
        begins, _, longest, _, causal = self.sequences
        return torch.ops.aten._flash_attention_forward(
            self.q, self.k, self.v, begins, begins, longest, longest, 0.0, causal, False
        )[0]

    def bytes_forward(self):
        return sum(tensor.numel() * tensor.element_size() for tensor in (self.q, self.k, self.v, self.q))

    def flops_forward(self):
        return self.flops()


class VarlenEqual(_VarlenForward, Benchmark):
    pass


class VarlenMixed(_VarlenForward, Benchmark):
    lengths = (8192, 130, 4000, 257, 1024, 6000, 64, 3000, 2048, 511, 5000, 900, 1642)


class VarlenShort(_VarlenForward, Benchmark):
    lengths = (128, 40, 97, 128) * 64


class VarlenGradients(_Varlen, Benchmark):
    def setup(self):
        super().setup()
        # A quarter, since the check allows 0.01: gradients of 4 by two ways in bfloat16 are up to 0.03 apart, each half
        # of that away from float64's.
        self.grad = torch.randn_like(self.q) / 4
        self.result, self.lse = self.kernel.[[ module ]]_varlen(
            self.q, self.k, self.v, *self.sequences, return_lse=True
        )
        self.leaves = [tensor.clone().requires_grad_() for tensor in (self.q, self.k, self.v)]
        lengths = [part.shape[2] for part in self.parts[0]]
        self.expected = self.attend(self.split(lengths, *self.leaves))

    def benchmark_gradients(self):
        given = (self.grad, self.q, self.k, self.v, self.result, self.lse, *self.sequences, self.width**-0.5)
        self.out, _, _ = self.kernel._ops.ops.[[ module ]]_varlen_backward(*given)

    def verify_gradients(self):
        return torch.autograd.grad(self.expected, self.leaves, self.grad, retain_graph=True)[0]

    def flops_gradients(self):
        return self.flops() * 5 // 2
