"""Experts of a layer beside a loop over them in torch: `driver bench`, or `kernels benchmark`."""

import torch
from kernels.benchmark import Benchmark


class _Layer:
    """Sizes of Mixtral: 8 experts, two for each token."""

    seed = 0
    dtype = torch.bfloat16
    tokens, hidden, inner, count, k = 4096, 4096, 14336, 8, 2

    def setup(self):
        part = 16 if self.device == "cpu" else 1
        tokens, hidden, inner = (max(1, size // part) for size in (self.tokens, self.hidden, self.inner))
        made = {"device": self.device, "dtype": self.dtype}
        self.x = torch.randn(tokens, hidden, **made)
        self.weights = torch.randn(self.count, hidden, inner, **made) * 0.02
        self.logits = torch.randn(tokens, self.count, device=self.device)
        self.routing = self.kernel.route(self.logits, self.k)


class _Product(_Layer):
    """The rows of each expert times its weights."""

    def benchmark_product(self):
        self.out = self.kernel.grouped_product(self.x, self.weights, self.routing.offsets, self.routing.sources)

    def verify_product(self):
        rows = self.x[self.routing.sources.long()]
        ends = self.routing.offsets.tolist()
        parts = [rows[begin:end] @ self.weights[i] for i, (begin, end) in enumerate(zip(ends, ends[1:]))]
        return torch.cat(parts)

    def peers_product(self):
        # Its rows have to lie in order already.
        if self.device == "cpu" or not hasattr(torch.nn.functional, "grouped_mm"):
            return {}
        rows, ends = self.x[self.routing.sources.long()], self.routing.offsets[1:]
        return {"grouped_mm": lambda: torch.nn.functional.grouped_mm(rows, self.weights, offs=ends)}

    def flops_product(self):
        return 2 * self.routing.sources.numel() * self.weights[0].numel()


class Product(_Product, Benchmark):
    pass


class ProductManyExperts(_Product, Benchmark):
    """Sizes of Qwen3: 128 experts, eight for each token."""

    tokens, hidden, inner, count, k = 4096, 2048, 1536, 128, 8


class ProductFewTokens(_Product, Benchmark):
    tokens = 16

    def setup(self):
        super().setup()
        self.logits = self.logits[:16]

    def bytes_product(self):
        return self.weights.nbytes


class Route(_Layer, Benchmark):
    """Which experts compute which tokens."""

    tokens, hidden, inner, count, k = 16384, 64, 64, 128, 8

    def benchmark_route(self):
        self.out = self.kernel.route(self.logits, self.k).weights

    def verify_route(self):
        weights, experts = self.logits.softmax(-1).topk(self.k)
        pairs = experts.flatten()
        order = pairs.argsort(stable=True)
        places = torch.empty_like(order)
        places[order] = torch.arange(len(order), device=self.device)
        torch.bincount(pairs, minlength=self.count).cumsum(0)
        return weights / weights.sum(-1, keepdim=True)


class Combine(_Layer, Benchmark):
    """The weighted sums of what experts computed."""

    tokens, hidden, inner, count, k = 16384, 4096, 64, 8, 2

    def setup(self):
        super().setup()
        self.values = torch.randn(self.x.shape[0] * self.k, self.x.shape[1], device=self.device, dtype=self.dtype)

    def benchmark_combine(self):
        self.out = self.kernel.combine(self.values, self.routing.weights, self.routing.places)

    def verify_combine(self):
        rows = self.values[self.routing.places.long()]
        return (rows * self.routing.weights[..., None]).sum(1).to(self.dtype)

    def bytes_combine(self):
        return self.values.nbytes + self.x.nbytes
