"""Bandwidth of relu as a share of a device-to-device copy; needs a CUDA device and the built variants."""

import sys
from pathlib import Path

import kernels
import torch

ELEMENTS = 1 << 30
WARM_UP, ROUNDS = 5, 30

if not (torch.version.cuda and torch.cuda.is_available()):
    sys.exit("this benchmark needs a CUDA device")
relu = kernels.get_local_kernel(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "build"))


def bytes_per_second(work, moved):
    """The median rate of `work`, which reads and writes `moved` bytes in all."""
    for _ in range(WARM_UP):
        work()
    rates = []
    for _ in range(ROUNDS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        rates.append(moved / (start.elapsed_time(end) / 1000))
    return sorted(rates)[len(rates) // 2]


def measure(dtype):
    """One line of figures for a type of elements."""
    x = torch.randn(ELEMENTS, device="cuda", dtype=dtype)
    out = torch.empty_like(x)
    moved = 2 * x.numel() * x.element_size()
    copy = bytes_per_second(lambda: out.copy_(x), moved)
    ours = bytes_per_second(lambda: relu.relu(x, out), moved)
    theirs = bytes_per_second(lambda: torch.relu_(out), moved)
    return f"{dtype}: {ours / 1e12:.2f} TB/s, {ours / copy:.1%} of a copy; torch.relu_ {theirs / copy:.1%}"


print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {ROUNDS} rounds, medians")
for each in (torch.float32, torch.float16, torch.bfloat16):
    print(measure(each))
