"""Measures what this machine's GPU does at best, and prints it as JSON: the driver's `device --measure` and `bench`."""

from __future__ import annotations

import json
import sys
from typing import Any

from rules_torch_kernels.timing import measure

_BYTES = 1 << 30
_SIZE = 8192


def _products() -> dict[str, Any]:
    """A large product of matrices for each type that this GPU and torch have."""
    import torch

    def floats(dtype: Any) -> Any:  # noqa: ANN401  (torch's types)
        a = torch.randn(_SIZE, _SIZE, device="cuda").to(dtype)
        return lambda: a @ a

    def integers() -> Any:  # noqa: ANN401
        a = torch.randint(-8, 8, (_SIZE, _SIZE), device="cuda", dtype=torch.int8)
        return lambda: torch._int_mm(a, a)  # noqa: SLF001  (torch has no public product of int8)

    def fp8() -> Any:  # noqa: ANN401
        a = torch.randn(_SIZE, _SIZE, device="cuda").to(torch.float8_e4m3fn)
        scale = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(a, a.t(), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16)  # noqa: SLF001

    products = {str(dtype).removeprefix("torch."): (lambda dtype=dtype: floats(dtype))
            for dtype in (torch.float32, torch.float16, torch.bfloat16)}  # fmt: skip
    return {**products, "int8": integers, "float8_e4m3fn": fp8}


def main() -> int:
    """Print what torch says of the GPU with `--facts`, else its ceilings."""
    import torch

    if "--facts" in sys.argv:
        built = torch.version.cuda or torch.version.hip
        gpu = torch.cuda.get_device_properties(0)
        facts = {
            "name": f"{gpu.name}, torch {torch.__version__}, {built}",
            "gpu": gpu.name,
            "capability": 10 * gpu.major + gpu.minor,
            "shared_bytes": getattr(gpu, "shared_memory_per_block_optin", 0),
            "multiprocessors": gpu.multi_processor_count,
            "l2_bytes": getattr(gpu, "L2_cache_size", None),
        }
        print(json.dumps(facts))
        return 0
    source = torch.empty(_BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    [times] = measure([lambda: target.copy_(source)], "cuda")
    found = {"copy": 2 * _BYTES / times.median * 1e6}
    for name, make in _products().items():
        try:
            [times] = measure([make()], "cuda")
        except (RuntimeError, AttributeError, NotImplementedError):
            continue
        found[name] = 2 * _SIZE**3 / times.median * 1e6
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
