"""Runs one workload of a project's benchmarks once, in a range that a profiler is told to look at.

`driver profile` starts it under a profiler, in the Python that has torch; its argument is a file of JSON that says what
to run.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rules_torch_kernels.bench import instance, workloads
from rules_torch_kernels.loading import load_variant

RANGE = "driver"
"""The name of the range, of NVTX."""

_WARM_UP = 3


def main() -> int:
    """Run the workload; its name is one that `rules_torch_kernels.bench` gives."""
    import torch

    asked = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    kernel = load_variant(asked["variant"])
    workload = workloads([Path(script) for script in asked["scripts"]])[asked["workload"]]
    benchmark = instance(workload, kernel, "cuda")
    call = getattr(benchmark, f"benchmark_{workload.name}")
    for _ in range(_WARM_UP):
        call()
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_push(RANGE)
    call()
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_pop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
