"""Runs a project's benchmarks with variants that were built for this machine, and collects the results."""

from __future__ import annotations

import json
import shlex
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py_driver.authoring.ceilings import nearest_share
from py_driver.authoring.session import environment
from py_driver.errors import Code, error
from py_driver.output import counted
from py_driver.publishing.card_files import BENCHMARKS
from py_driver.publishing.timings import checked
from py_driver.spelling import near_path
from py_driver.system.files import reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from py_driver.authoring.dev_build import DevBuild
    from py_driver.errors import DriverError
    from py_driver.output import Output

_WORKER: Final = "rules_torch_kernels.bench"


@dataclass(frozen=True, kw_only=True, slots=True)
class Benchmarks:
    """The results of a project's benchmarks.

    Attributes:
        machine: GPU, torch and the rest, with the `kernels` client's names.
        unique_id: the unique id of the variant.
        workloads: the worker's result of each workload, in the order of the run.
    """

    machine: Mapping[str, Any]
    unique_id: str
    workloads: tuple[Mapping[str, Any], ...]

    @property
    def wrong(self) -> tuple[str, ...]:
        """The workloads with a wrong result, or without one."""
        return tuple(workload["workload"] for workload in self.workloads if workload.get("problem"))

    def as_json(self) -> dict[str, Any]:
        """The result as a value for JSON, in the form of `kernels benchmark --output`, with additional keys."""
        return {
            "results": [_client_form(workload) for workload in self.workloads],
            "machineInfo": {**self.machine},
            "kernelCommitSha": self.unique_id.rpartition("_")[2],
            "benchmarkScriptPath": BENCHMARKS,
        }


def scripts_of(directory: Path) -> list[Path]:
    """The benchmark scripts of a project, as `kernels benchmark` runs them.

    Raises:
        DriverError: FILE_MISSING if there is no script.
    """
    scripts = directory / BENCHMARKS
    found = sorted(scripts.glob("benchmark*.py")) if scripts.is_dir() else []
    if not found:
        advice = "write one with subclasses of kernels.benchmark.Benchmark, as `driver init` does"
        raise error(Code.FILE_MISSING, f"{scripts} has no benchmark*.py", help=near_path(scripts) or advice)
    return [path.absolute() for path in found]


def titles_of(build: DevBuild, scripts: Sequence[Path], python: str) -> list[str]:
    """The titles of a project's workloads, in the order of the run.

    Args:
        build: a build of the project.
        scripts: the benchmarks.
        python: the interpreter, with torch and the `kernels` client.

    Raises:
        DriverError: LOAD_FAILED if the variant or a script cannot be loaded; FILE_MISSING if no script has a workload.
    """
    with tempfile.TemporaryDirectory(prefix="driver-") as name:
        results = Path(name, "results")
        results.touch()
        code, text = _worker(python, build, {**_asked([build], scripts, results, []), "list": True})
        values = _values(results)
    titles = next((value["titles"] for value in values if "titles" in value), None)
    if titles is None:
        raise error(Code.LOAD_FAILED, f"the benchmarks cannot run: {_last(text, code)}", help=_again(build))
    if not titles:
        raise _empty(build)
    return [*titles]


def _asked(builds: Sequence[DevBuild], scripts: Sequence[Path], results: Path, done: Sequence[str]) -> dict[str, Any]:
    """The worker's input."""
    return {
        "variants": [dev_build.as_json() for dev_build in builds],
        "scripts": [str(script) for script in scripts],
        "results": str(results),
        "done": [*done],
    }


def _values(results: Path) -> list[dict[str, Any]]:
    """The worker's output.

    Raises:
        DriverError: LOAD_FAILED if it could not import a script.
    """
    *lines, _ = results.read_text(encoding="utf-8").split("\n")  # the process may have ended within the last line
    values = [json.loads(line) for line in lines]
    for value in values:
        if "refused" in value:
            raise error(Code.LOAD_FAILED, f"a benchmark cannot be imported: {value['refused']}")
    return values


def _empty(build: DevBuild) -> DriverError:
    message = f"{build.directory / BENCHMARKS} has no class with a benchmark_NAME"
    return error(Code.FILE_MISSING, message, help="write subclasses of kernels.benchmark.Benchmark there")


def run_benchmarks(
    builds: Sequence[DevBuild], scripts: Sequence[Path], python: str, output: Output, *, compiled: bool = False
) -> Benchmarks:
    """Run benchmarks: every workload with each of the builds, side by side.

    Args:
        builds: the build in question, and others to compare it with.
        scripts: the benchmarks.
        python: the interpreter, with torch and the `kernels` client.
        output: shows progress.
        compiled: whether each reference is timed with torch.compile, too.

    Raises:
        DriverError: LOAD_FAILED if the variant or a script cannot be loaded; FILE_MISSING if no script has a workload.
    """
    machine: dict[str, Any] = {}
    found: dict[str, Mapping[str, Any]] = {}
    done: list[str] = []
    excluded: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory(prefix="driver-") as name, output.task("running the benchmarks") as task:
        results = Path(name, "results")
        while True:
            results.write_bytes(b"")
            asked = {**_asked(builds, scripts, results, done), "compile": compiled, "excluded": excluded}
            code, text = _worker(python, builds[0], asked)
            started, finished = "", None
            peers: list[str] = []
            for value in _values(results):
                machine = machine or value.get("machine", {})
                started = value.get("started", started)
                peers = value.get("peers", [] if "started" in value else peers)
                finished = value.get("finished", finished)
                if "workload" in value:
                    found[value["workload"]] = value
            if finished is not None:
                break
            if started in done or not started:
                raise error(Code.LOAD_FAILED, f"the benchmarks cannot run: {_last(text, code)}", help=_again(builds[0]))
            if peers and started not in found:
                # The process died in one of these peers: the workload runs again without them.
                together = f"; timed were {', '.join(peers)}" if len(peers) > 1 else ""
                why = f"{_last(text, code)}{together}"
                excluded.setdefault(started, {}).update(dict.fromkeys(peers, why))
                done = [*found]
                task.update(f"{' or '.join(peers)} ended the process of {started}; going on without it")
                continue
            # A failure of the GPU is permanent in the process; the remaining workloads get a new one.
            found.setdefault(started, {"workload": started, "verified": False, "problem": _last(text, code)})
            done = [*found]
            task.update(f"{started} failed; going on with the next one")
        task.done(counted(len(found), "workload"))
    if not found:
        raise _empty(builds[0])
    return Benchmarks(machine=machine, unique_id=builds[0].unique_id, workloads=tuple(found.values()))


def _worker(python: str, build: DevBuild, asked: Mapping[str, Any]) -> tuple[int, str]:
    """Run the worker; returns its exit code and its stderr."""
    done = subprocess.run(
        [python, "-m", _WORKER],
        input=json.dumps(asked) + "\n",
        env=environment(build, python),
        cwd=build.directory,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    return done.returncode, done.stderr


def _last(text: str, code: int) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ended = f"the process ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}"
    return f"{ended}; its last output: {lines[-1]}" if lines else ended


def _again(build: DevBuild) -> str:
    directory = shlex.quote(str(build.directory))
    return f"check the import: driver run {directory} -- python -c 'import {build.module}'"


def compared(now: Benchmarks, earlier: Mapping[str, Mapping[str, Any]]) -> Benchmarks:
    """Benchmarks with the times of an earlier run.

    Args:
        now: the new results.
        earlier: the earlier times by workload; see `times_of`.
    """
    names = {workload["workload"] for workload in now.workloads} & earlier.keys()
    with_base = [
        {**workload, "base": earlier[workload["workload"]]} if workload["workload"] in names else workload
        for workload in now.workloads
    ]
    return Benchmarks(machine=now.machine, unique_id=now.unique_id, workloads=tuple(with_base))


def with_shares(done: Benchmarks, peaks: Mapping[str, float]) -> Benchmarks:
    """Benchmarks with each known share of the GPU's peak, as `of_peak`.

    Args:
        done: the results.
        peaks: see `ceilings`.
    """
    shares = [nearest_share(workload, peaks) if "times" in workload else None for workload in done.workloads]
    workloads = tuple(
        workload if share is None else {**workload, "of_peak": round(share, 4)}
        for workload, share in zip(done.workloads, shares, strict=True)
    )
    return Benchmarks(machine=done.machine, unique_id=done.unique_id, workloads=workloads)


def times_of(path: Path) -> dict[str, Mapping[str, Any]]:
    """The times of an earlier run, by workload.

    Args:
        path: a file that `driver bench --output` wrote.

    Raises:
        DriverError: WRONG_TYPE for another file; PERMISSION.
    """
    with reading(path):
        text = path.read_bytes()
    try:
        found = {
            result["workload"]: checked(result["times"]) for result in json.loads(text)["results"] if "times" in result
        }
    except (ValueError, LookupError, TypeError, RecursionError):
        advice = "name a file that `driver bench --output` wrote"
        raise error(Code.WRONG_TYPE, f"{path} has no benchmarks of `driver bench`", help=advice) from None
    if not found:
        raise error(Code.WRONG_TYPE, f"{path} has no workload with times", help="write it again: driver bench --output")
    return found


def _client_form(workload: Mapping[str, Any]) -> dict[str, Any]:
    """A workload in the client's form, in milliseconds, with additional keys."""
    own = {key: value for key, value in workload.items() if key not in {"samples_us", "trace"}}
    if "times" not in workload:
        return own
    samples = sorted(value / 1000 for value in workload["samples_us"])
    mean = sum(samples) / len(samples)
    quarter = len(samples) // 4
    low, high = samples[quarter], samples[-quarter - 1]
    timing = {
        "mean_ms": mean,
        "std_ms": (sum((value - mean) ** 2 for value in samples) / len(samples)) ** 0.5,
        "min_ms": samples[0],
        "max_ms": samples[-1],
        "q1_ms": low,
        "q3_ms": high,
        "iqr_ms": high - low,
        "outliers": sum(value < low - 1.5 * (high - low) or value > high + 1.5 * (high - low) for value in samples),
        "iterations": len(samples),
    }
    return {**own, "timingResults": {key: round(value, 6) for key, value in timing.items()}}
