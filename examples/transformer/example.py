# /// script
# dependencies = ["transformers==5.21.1"]
# ///
"""A decoder of `transformers` with random weights, before and after `kernels.kernelize` puts our layers into it.

    driver run examples/transformer -- python examples/transformer/example.py

It compares logits and gradients with float64, counts the calls of our ops, and measures prefill and decode.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import os
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from types import MethodType
from typing import NamedTuple

import kernels
import torch
import torch._inductor.config
from kernels import KernelizeFallback, LocalLayerRepository, Mode
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NAME = "kernels-community/transformer"
LAYERS = {"RMSNorm": "RMSNorm", "rotary_pos_emb": "RotaryEmbedding", "LlamaMLP": "SwigluMLP"}
"""The names that models give to layers, and ours. `transformers` gives none to the MLP, so this script does."""

FACTOR = 2.0
"""How far from float64 the model with our kernels may be, measured by how far eager torch is.

Both models have the same matrix products and attention. In between, eager rounds after each op, e.g. four times for an
element of RoPE, and our kernels round once, from float32. So their expected error is at most eager's. Both errors are
sums of many roundings of random sign, of which a maximum or norm is compared: 2 is for what differs by chance.
"""


class Calls(TorchDispatchMode):
    """Counts the ops of our kernels that run."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace.startswith("_transformer_"):
            self.counts[function._schema.name.partition("::")[2]] += 1
        return function(*args, **(kwargs or {}))


class Step(NamedTuple):
    """What a training step gives: the loss, and the gradients by their names."""

    loss: torch.Tensor
    gradients: dict[str, torch.Tensor]


class Times(NamedTuple):
    """Milliseconds: of the prompt, of each further token, and of one in a CUDA graph, which no Python waits for."""

    prefill: float
    decode: float
    graph: float | None


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    large = DEVICE == "cuda"
    sizes = {
        "hidden": 4096 if large else 128,
        "intermediate": 14336 if large else 352,
        "layers": 8 if large else 2,
        "heads": 32 if large else 4,
        "kv-heads": 8 if large else 2,
        "vocabulary": 32000 if large else 500,
        "batch": 1,
        "tokens": 2048 if large else 48,
        "new": 64 if large else 8,
        "checked": 256 if large else 48,
    }
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default here: {default}")
    parser.add_argument(
        "--dtype", choices=["float32", "float16", "bfloat16"], default="bfloat16" if large else "float32"
    )
    parser.add_argument("--attention", default="sdpa", help="a name that transformers knows, or that you registered")
    parser.add_argument("--repository", type=Path, default=repository(), help="directory of built variants")
    compiling = parser.add_mutually_exclusive_group()
    compiling.add_argument("--compile", action="store_true", default=large, help="measure torch.compile, too")
    compiling.add_argument("--no-compile", dest="compile", action="store_false")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    return parser.parse_args()


def repository():
    """Where the variants are: `driver run` says so, `driver build` writes into build/."""
    entries = [entry.partition("=") for entry in os.environ.get("LOCAL_KERNELS", "").split(":")]
    return Path({name: path for name, _, path in entries}.get(NAME, Path(__file__).resolve().parent / "build"))


def decoder(args):
    """The model, with random weights."""
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=args.hidden,
        intermediate_size=args.intermediate,
        num_hidden_layers=args.layers,
        num_attention_heads=args.heads,
        num_key_value_heads=args.kv_heads,
        vocab_size=args.vocabulary,
        max_position_embeddings=args.tokens + args.new,
        attn_implementation=args.attention,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = LlamaForCausalLM(config).to(DEVICE, getattr(torch, args.dtype)).eval()
    for name, parameter in model.named_parameters():
        if "norm" in name:  # all are 1 at first, which would hide a kernel that leaves them out
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    return model


def exact(model):
    """The model in float64. Its norms are replaced, since those of `transformers` compute in float32."""
    wide = copy.deepcopy(model).double()
    wide.set_attn_implementation("sdpa")

    def norm(self, x):
        return torch.nn.functional.rms_norm(x, x.shape[-1:], self.weight, self.variance_epsilon)

    for module in wide.modules():
        if isinstance(module, LlamaRMSNorm):
            module.forward = MethodType(norm, module)
    return wide


def kernelize(model, path, mode):
    """Put our layers into the model, with the client's own means."""
    kernels.replace_kernel_forward_from_hub(
        LlamaMLP, "LlamaMLP", condition=lambda module: module.config.hidden_act == "silu"
    )
    layers = {name: {DEVICE: LocalLayerRepository(path, layer_name=layer)} for name, layer in LAYERS.items()}
    with kernels.use_kernel_mapping(layers, inherit_mapping=False):
        # A model may have layers of other names, of which the client warns, such as its activation; ours must not fall
        # back.
        logging.getLogger("kernels.layer.layer").setLevel(logging.ERROR)
        kernels.kernelize(model, mode=mode, device=DEVICE, use_fallback=KernelizeFallback.NO_LAYER)


@torch.no_grad()
def logits(model, tokens):
    """What the model says of the token after each."""
    return model(tokens, use_cache=False).logits


def train(model, tokens):
    """A training step without its last part: the loss, and the gradients."""
    model.zero_grad(set_to_none=True)
    # One sum for all: the loss of `transformers` is computed in float32, also in a model of float64.
    out = model(tokens[:, :-1], use_cache=False).logits
    wide = out.double() if out.dtype == torch.float64 else out.float()
    loss = torch.nn.functional.cross_entropy(wide.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    found = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    return Step(loss.detach(), found)


def errors(step, right):
    """How far each gradient is from the right one, relative to its length."""
    return {
        name: ((step.gradients[name].double() - grad).norm() / grad.norm()).item()
        for name, grad in right.gradients.items()
    }


def now():
    """The time in milliseconds, when the device has done all that it was given."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() * 1e3


@torch.no_grad()
def measure(model, tokens, new, *, compiled, rounds=5):
    """Medians of several rounds: the prompt as a whole, then token by token."""
    call = torch.compile(model, dynamic=False) if compiled else model
    step = tokens[:, :1].clone()
    prefills, decodes = [], []
    for turn in range(rounds + 2):  # two to warm up
        cache = StaticCache(config=model.config, max_cache_len=tokens.shape[1] + new)
        start = now()
        call(tokens, past_key_values=cache, logits_to_keep=1)
        filled = now()
        for _ in range(new):
            call(step, past_key_values=cache, logits_to_keep=1)
        end = now()
        if turn >= 2:
            prefills.append(filled - start)
            decodes.append((end - filled) / new)
    graph = in_a_graph(call, model.config, tokens, new, rounds) if DEVICE == "cuda" else None
    return Times(statistics.median(prefills), statistics.median(decodes), graph)


def in_a_graph(call, config, tokens, new, rounds):
    """The time of a token if its kernels are launched as one CUDA graph, as servers do it."""
    cache = StaticCache(config=config, max_cache_len=tokens.shape[1] + new)
    step = tokens[:, :1].clone()

    def token():
        call(step, past_key_values=cache, logits_to_keep=1)

    call(tokens, past_key_values=cache, logits_to_keep=1)
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        token()  # what allocates or compiles at first does so outside of the graph
        token()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        token()
    times = []
    for _ in range(rounds):
        cache.reset()
        call(tokens, past_key_values=cache, logits_to_keep=1)
        start = now()
        for _ in range(new):
            graph.replay()
        times.append((now() - start) / new)
    return statistics.median(times)


def main():
    """Compare, measure, print; the exit code is 1 if something is wrong."""
    args = arguments()
    model = decoder(args)
    size = sum(parameter.numel() for parameter in model.parameters())
    device = torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu"
    print(
        f"torch {torch.__version__}, kernels {kernels.__version__}, {device}, {args.dtype}: {size / 1e6:.1f}M weights"
    )
    prompt = torch.randint(args.vocabulary, (args.batch, args.tokens), device=DEVICE)
    checked = prompt[:, : args.checked]

    # All of eager comes first: `transformers` has one object for RoPE, so ours is in all models once it is in one.
    wide = exact(model)
    right, right_step = logits(wide, checked), train(wide, checked)
    del wide
    plain, plain_step = logits(model, checked), train(model, checked)
    times = {"eager": measure(model, prompt, args.new, compiled=False)}
    if args.compile:
        # The processes that compile beside this one would go on while the next model is measured.
        torch._inductor.config.compile_threads = 1
        times["torch.compile"] = measure(model, prompt, args.new, compiled=True)
        torch._dynamo.reset()

    kernelize(model, args.repository, Mode.TRAINING | Mode.TORCH_COMPILE)
    with Calls() as calls:
        ours = logits(model, checked)
    forward = dict(calls.counts)
    with Calls() as calls:
        our_step = train(model, checked)
    training = dict(calls.counts)
    times["kernels"] = measure(model, prompt, args.new, compiled=False)
    if args.compile:
        times["torch.compile with kernels"] = measure(model, prompt, args.new, compiled=True)

    norms = 2 * args.layers + 1
    wanted = {"rms_norm": norms, "rope": args.layers, "swiglu": args.layers}
    twice = {**wanted, "rope": 2 * args.layers, "rms_norm_backward": norms, "swiglu_backward": args.layers}
    apart = [(found.double() - right).abs().max().item() for found in (plain, ours)]
    of_plain, of_ours = errors(plain_step, right_step), errors(our_step, right_step)
    worst = max(of_ours, key=lambda name: of_ours[name] / of_plain[name])
    checks = {
        "the kernels were called for each layer": forward == wanted and training == twice,
        "logits are within the bound": apart[1] <= FACTOR * apart[0],
        "gradients are within the bound": all(of_ours[name] <= FACTOR * of_plain[name] for name in of_ours),
    }
    print(f"calls in a forward: {forward}; in a training step: {training}")
    print(f"logits, largest distance from float64: eager {apart[0]:.3g}, kernels {apart[1]:.3g}")
    print(f"loss: float64 {right_step.loss:.6f}, eager {plain_step.loss:.6f}, kernels {our_step.loss:.6f}")
    print(f"gradients, worst beside eager: {worst}: eager {of_plain[worst]:.3g}, kernels {of_ours[worst]:.3g}")
    print(f"\n| {args.batch} x {args.tokens} tokens | prefill ms | tokens/s | decode ms | tokens/s | in a graph ms |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, found in times.items():
        rates = [args.batch * args.tokens / found.prefill * 1e3, args.batch / found.decode * 1e3]
        graph = "" if found.graph is None else f"{found.graph:.2f}"
        print(f"| {name} | {found.prefill:.2f} | {rates[0]:.0f} | {found.decode:.2f} | {rates[1]:.0f} | {graph} |")
    if args.json:
        result = {
            "device": device,
            "calls": {"forward": forward, "training": training},
            "logits": dict(zip(("eager", "kernels"), apart, strict=True)),
            "gradients": {name: [of_plain[name], of_ours[name]] for name in of_ours},
            "times": {name: found._asdict() for name, found in times.items()},
            "checks": checks,
        }
        args.json.write_text(json.dumps(result, indent=2) + "\n")
    print()
    for name, passed in checks.items():
        print(f"{'yes' if passed else 'NO'}: {name}")
    return not all(checks.values())


if __name__ == "__main__":
    sys.exit(main())
