# ruff: noqa: INP001  (a program of its own)
"""The templates of `driver init` and the model on a GPU: python bench/templates.py DIR [NAME...].

Each template becomes a project in DIR, unless it is there. `driver test` runs for all, then `driver bench` for one
after the other, and for `transformer` also the model of examples/transformer. templates.json keeps the results, for a
table of docs/kernels.md. DRIVER is the command to call (default: the driver of this checkout). The exit code is 1 if a
test, a result or a comparison is wrong.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = Path(__file__).resolve().parent.parent
RECORDS: Final = Path(__file__).resolve().parent / "templates.json"
MODEL: Final = "transformer"

_COUNTS: Final = re.compile(r"(\d+) (passed|failed|errors?|skipped)")
_DRIVER: Final = shlex.split(os.environ.get("DRIVER", str(ROOT / "driver")))
_AT_ONCE: Final = 4
"""Projects whose tests run at the same time; benchmarks run one after the other."""

_OTHER_GPUS: Final = ("all-reduce",)
"""Templates without a workload, since one GPU does not show what they do."""


def _driver(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the driver; its stderr goes to ours."""
    return subprocess.run([*_DRIVER, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=False)


def project_of(name: str, directory: Path) -> Path:
    """The project of a template, made anew if it is not there.

    Raises:
        CalledProcessError: `driver init` failed.
    """
    if name == MODEL:
        return ROOT / "examples" / MODEL
    project = directory / f"my-{name}"
    if not project.exists():
        _driver("init", project, "--name", f"me/my-{name}", "--template", name).check_returncode()
    return project


def tested(project: Path) -> dict[str, Any]:
    """The outcomes of a project's tests."""
    done = _driver("test", project, "--", "-q")
    sys.stdout.write(f"{project.name}: {' '.join(done.stdout.strip().splitlines()[-1:])}\n")
    counts = {outcome.removesuffix("s"): int(count) for count, outcome in _COUNTS.findall(done.stdout)}
    return {"date": datetime.now(UTC).strftime("%Y-%m-%d"), "tests": counts, "right": done.returncode == 0}


def timed(project: Path) -> dict[str, Any]:
    """The machine, and the workloads of a project."""
    done = _driver("bench", project, "--json")
    result = json.loads(done.stdout)
    workloads = [_workload(workload) for workload in result["results"]]
    return {"machine": result["machineInfo"], "workloads": workloads, "right": done.returncode == 0}


def _workload(workload: Mapping[str, Any]) -> dict[str, Any]:
    """What a table shows of a workload, with times in microseconds."""
    if "times" not in workload:
        return {"name": workload["workload"], "problem": workload.get("problem", "")}
    found = {"name": workload["workload"], "us": workload["times"]["median_us"]}
    if "reference" in workload:
        found["reference_us"] = workload["reference"]["median_us"]
    if "host_us" in workload["times"]:
        found["launch_us"] = workload["times"]["host_us"]
    for key in ("bytes", "flops", "of_peak"):
        if key in workload:
            found[key] = workload[key]
    peers = {peer["name"]: peer["median_us"] for peer in workload.get("peers", ()) if "median_us" in peer}
    return {**found, "peers": peers} if peers else found


def rows(records: Mapping[str, Mapping[str, Any]]) -> Iterator[list[str]]:
    """The table: a heading, then a row for each workload; the first one of a template has its name and its tests."""
    yield ["template", "tests", "workload", "median us", "reference us", "speed", "of peak", "launch us"]
    for name, record in records.items():
        tests = record["tests"]
        begin = [name, f"{tests.get('passed', 0)} of {sum(tests.values()) - tests.get('skipped', 0)}"]
        for workload in record.get("workloads", ()) or [{"name": ""}]:
            yield [*begin, *_cells(workload)]
            begin = ["", ""]


def _cells(workload: Mapping[str, Any]) -> list[str]:
    """The cells of a workload."""
    if "us" not in workload:
        return [workload["name"], "failed" if "problem" in workload else "", *[""] * 4]
    us, reference = workload["us"], workload.get("reference_us")
    return [
        workload["name"],
        f"{us:.1f}",
        f"{reference:.1f}" if reference else "",
        f"{reference / us:.2f}" if reference else "",
        f"{workload['of_peak']:.0%}" if "of_peak" in workload else "",
        f"{workload['launch_us']:.1f}" if "launch_us" in workload else "",
    ]


def machine(records: Mapping[str, Mapping[str, Any]]) -> str:
    """The GPUs, torch releases and dates of the records."""
    machines = sorted(
        {
            f"{record['machine']['gpu']}, torch {record['machine']['pytorchVersion']}, {record['machine']['backend']}, "
            f"{record['date']}"
            for record in records.values()
            if "machine" in record
        }
    )
    return "; ".join(machines)


def main() -> int:
    """Measure templates; the exit code."""
    directory, *names = sys.argv[1:]
    listed = json.loads(_driver("init", "--list", "--json").stdout)["templates"]
    names = names or [*(template["name"] for template in listed), MODEL]
    projects = {name: project_of(name, Path(directory).absolute()) for name in names}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        records = dict(zip(projects, pool.map(tested, projects.values()), strict=True))
    for name, record in records.items():
        results = [record]
        if name not in _OTHER_GPUS:
            results.append(timed(projects[name]))
        if name == MODEL:
            script = projects[name] / "example.py"
            compared = subprocess.run([*_DRIVER, "run", projects[name], "--", "python", script], check=False)
            results.append({"right": compared.returncode == 0})
        right = all(result["right"] for result in results)
        merged = {key: value for result in results for key, value in result.items()} | {"right": right}
        earlier = json.loads(RECORDS.read_text(encoding="utf-8")) if RECORDS.exists() else {}
        RECORDS.write_text(json.dumps({**earlier, name: merged}, indent=1) + "\n", encoding="utf-8")
        sys.stdout.write(f"{name}: {'right' if right else 'WRONG'}\n")
        sys.stdout.flush()
        records[name] = merged
    return 0 if all(record["right"] for record in records.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
