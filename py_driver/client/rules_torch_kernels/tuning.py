"""Checks and times configurations of a kernel side by side, and says what came of each on each case.

`driver tune` starts it in the Python that has torch. A line of JSON on stdin says what to run: `variants`, one for each
configuration, which is its `config`; `scripts` and `workload` of the benchmarks; `cases`; for each case the `todo`,
numbers of variants; and `results`, the file to which each line that it writes is a value of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rules_torch_kernels.bench import differs, instance, machine, named, workloads
from rules_torch_kernels.loading import load_variant
from rules_torch_kernels.timing import measure

if TYPE_CHECKING:
    from collections.abc import Callable

    from rules_torch_kernels.bench import Workload


def main() -> int:
    """Run what stdin asks for; 0 if it came to its end."""
    asked = json.loads(sys.stdin.readline())
    variants, kernels = asked["variants"], dict[int, Any]()
    workload = workloads([Path(script) for script in asked["scripts"]]).get(asked["workload"])
    with Path(asked["results"]).open("a", encoding="utf-8") as results:

        def say(value: dict[str, Any]) -> None:
            results.write(json.dumps(value) + "\n")
            results.flush()

        if workload is None:
            say({"unknown": asked["workload"]})
            return 1
        say({"machine": machine("cpu" if variants[0]["backend"] == "cpu" else "cuda")})
        for number, (case, todo) in enumerate(zip(asked["cases"], asked["todo"], strict=True)):
            if todo:
                _run(workload, case, {number: variants[number] for number in todo}, kernels, _at(number, say))
        say({"finished": True})
    return 0


def _at(number: int, say: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    """What says things of one case."""
    return lambda value: say({"case": number, **value})


def _run(
    workload: Workload,
    case: dict[str, int],
    variants: dict[int, dict[str, Any]],
    kernels: dict[int, Any],
    say: Callable[[dict[str, Any]], None],
) -> None:
    """Check and time configurations on one case; `kernels` gets those that are loaded."""
    device = "cpu" if next(iter(variants.values()))["backend"] == "cpu" else "cuda"
    workload.owner.case = case  # type: ignore[attr-defined]
    benchmark = instance(workload, None, device)
    reference = getattr(benchmark, f"verify_{workload.name}", None)
    expected = reference() if reference is not None else None
    calls: dict[int, Callable[[], Any]] = {}
    for number, variant in variants.items():
        say({"config": number, "started": "check"})
        try:
            kernels.setdefault(number, None)
            kernels[number] = kernels[number] or load_variant(variant)
            calls[number] = _call(benchmark, workload, kernels[number], variant["config"])
            _poison(benchmark)
            calls[number]()
            if device == "cuda":
                _synchronize()
            outcome, reason = "correctness", differs(benchmark.out, expected) if expected is not None else ""
        except (Exception, SystemExit) as problem:  # noqa: BLE001  (the user's own code)
            outcome, reason = "runtime", named(problem)
        if reason:
            calls.pop(number, None)
            say({"config": number, "outcome": outcome, "reason": reason})
            if device == "cuda":
                _synchronize()  # raises, and ends the process, if nothing runs on the GPU any more
    if calls:
        say({"started": "timing"})
        for number, times in zip(calls, measure([*calls.values()], device), strict=True):
            say({"config": number, "outcome": "correct", **times.as_json()})


def _call(
    benchmark: Any,  # noqa: ANN401  (the user's own objects)
    workload: Workload,
    kernel: Any,  # noqa: ANN401
    config: dict[str, int],
) -> Callable[[], Any]:
    """A call of the benchmark with one of the kernels, and one configuration."""
    method = getattr(benchmark, f"benchmark_{workload.name}")

    def call() -> None:
        benchmark.kernel, benchmark.config = kernel, config
        method()

    return call


def _poison(benchmark: Any) -> None:  # noqa: ANN401
    """Fill the output, unless it is an input, so that what an earlier configuration wrote does not count."""
    import torch

    out = getattr(benchmark, "out", None)
    if not isinstance(out, torch.Tensor):
        return
    others = (value for name, value in vars(benchmark).items() if name != "out" and isinstance(value, torch.Tensor))
    if out.data_ptr() in {other.data_ptr() for other in others}:
        return
    out.fill_(float("nan") if out.dtype.is_floating_point or out.dtype.is_complex else 0x5A)


def _synchronize() -> None:
    import torch

    torch.cuda.synchronize()


if __name__ == "__main__":
    sys.exit(main())
