"""The peak throughput of a GPU: copying memory and multiplying matrices, measured once for each GPU and torch."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any, Final

from py_driver.errors import Code, error
from py_driver.system.cache import cache_root, storage_errors
from py_driver.system.client import CLIENT
from py_driver.system.files import write

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from py_driver.authoring.dev_build import DevBuild
    from py_driver.output import Output

COPY: Final = "copy"
"""The name of the bandwidth of a copy among the ceilings, in bytes per second; the others are in operations per second
and named after their type."""

_WORKER: Final = "rules_torch_kernels.ceilings"
_TERA: Final = 1e12


def ceilings(build: DevBuild, python: str, output: Output) -> Mapping[str, float]:
    """The ceilings of this machine's GPU; empty if the variant is for the CPU.

    Args:
        build: the build to compare with them.
        python: the interpreter, with torch.
        output: shows progress.

    Raises:
        DriverError: see `measured`.
    """
    return {} if build.backend == "cpu" else measured(python, output)


def measured(python: str, output: Output, *, again: bool = False) -> Mapping[str, float]:
    """The ceilings of this machine's GPU, by name: measured now, or by an earlier run.

    Args:
        python: an interpreter with torch.
        output: shows progress.
        again: whether to measure again.

    Raises:
        DriverError: LOAD_FAILED if they cannot be measured; NO_SPACE or PERMISSION if the cache cannot be written.
    """
    key = gpu_facts(python)["name"]
    file = _file()
    known = _known(file)
    if key not in known or again:
        with output.task("measuring the peak throughput of the GPU") as task:
            known[key] = _ask(python)
            task.done("done")
        with storage_errors(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            write(file, json.dumps(known, indent=2).encode())
    return known[key]


def gpu_facts(python: str) -> dict[str, Any]:
    """The facts that torch reports about this machine's GPU.

    The keys are `name` with the torch, `gpu`, `capability` (90 for 9.0), `multiprocessors`, and in bytes
    `shared_bytes`, the maximum of a block, and `l2_bytes`.

    Args:
        python: an interpreter with torch.

    Raises:
        DriverError: LOAD_FAILED if torch has no GPU.
    """
    return _ask(python, "--facts")


def _known(file: Path) -> dict[str, dict[str, float]]:
    """The earlier measurements; empty if they cannot be read."""
    try:
        found: dict[str, dict[str, float]] = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return found


def _file() -> Path:
    return cache_root() / "ceilings.json"


def _ask(python: str, *options: str) -> dict[str, Any]:
    """The worker's output."""
    # Isolated from the user's variables, with only our package on the path.
    program = (
        f"import runpy, sys; sys.path.insert(0, {str(CLIENT)!r}); runpy.run_module({_WORKER!r}, run_name='__main__')"
    )
    done = subprocess.run([python, "-c", program, *options], capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise error(Code.LOAD_FAILED, f"the GPU cannot be measured: {last}", help=f"see whether {python} can use it")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def rate_of(workload: Mapping[str, Any], peaks: Mapping[str, float]) -> str:
    """A workload's rate of its limiting resource, e.g. `3.91 TB/s`; empty without bytes and operations.

    Args:
        workload: the workload with its times; `flops` takes precedence over `bytes`, unless `bytes` is nearer to its
            ceiling.
        peaks: see `ceilings`.
    """
    seconds = workload["times"]["median_us"] / 1e6
    what = _limit(workload, peaks)
    return _shown(workload[what] / seconds, "FLOP/s" if what == "flops" else "B/s") if what else ""


def _shown(value: float, unit: str) -> str:
    return f"{value / _TERA:.2f} T{unit}" if value >= _TERA / 10 else f"{value / _TERA * 1000:.2f} G{unit}"


def share_of(workload: Mapping[str, Any], peaks: Mapping[str, float]) -> str:
    """`nearest_share` as text, e.g. `93%`; empty if it is unknown."""
    share = nearest_share(workload, peaks)
    return "" if share is None else f"{share:.0%}"


def nearest_share(workload: Mapping[str, Any], peaks: Mapping[str, float]) -> float | None:
    """The share of the GPU's ceiling that a workload achieves, e.g. 0.93; None if either is unknown.

    Args:
        workload: see `rate_of`; the larger share counts, since that ceiling is the nearer one.
        peaks: see `ceilings`.
    """
    return _shares(workload, peaks).get(_limit(workload, peaks))


def _shares(workload: Mapping[str, Any], peaks: Mapping[str, float]) -> dict[str, float]:
    """The shares of the known ceilings, by `flops` or `bytes`."""
    seconds = workload["times"]["median_us"] / 1e6
    ceiling = {"flops": peaks.get(str(workload.get("dtype"))), "bytes": peaks.get(COPY)}
    return {what: workload[what] / seconds / peak for what, peak in ceiling.items() if what in workload and peak}


def _limit(workload: Mapping[str, Any], peaks: Mapping[str, float]) -> str:
    """The limit of a workload: `flops` or `bytes`; empty if it states neither."""
    shares = _shares(workload, peaks)
    known = [what for what in ("flops", "bytes") if what in workload]
    return max(known, key=lambda what: shares.get(what, 0.0), default="")
