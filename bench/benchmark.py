# ruff: noqa: INP001  (a program of its own)
"""The cost of a matrix, compared with other tools: python bench/benchmark.py [KERNEL...] --work DIR --out FILE.

Every column builds the same variants of a kernel of bench/projects with the same compilers, from the same state through
the same changes. Peers compile objects only; ours also link, check and assemble. CPU seconds are of all processes; ours
include Bazel's own, and those of sccache its server's. A row that fails in a column is noted, and the others go on.

Two rows are no whole builds:

- "critical path of one source" is what one source of one variant takes where all cores are free. It is worked out, so
  it holds on a machine with few cores too. Ours: the source was edited; its actions ran one at a time, and Bazel's
  profile says how long each took. The chain is preprocessing and then the longer of two: cicc and ptxas for the longest
  architecture, with the fatbinary; cudafe++, or cicc as that writes what launches kernels, with the host's compiler. As
  a whole, nvcc is the chain. Peers: one call of nvcc for the same edited source, with nothing beside it, through the
  cache that the column has. sccache runs several phases of it at once, as far as cores are free.
- "same bytes from two directories" compares what the last states of "an architecture more" and "another directory"
  made. A column that found all of it in its cache has made it once.

Needs `ninja` on PATH, and for their columns `cmake`, `ccache` and `sccache`; a column without its program is left out.
The driver must have built something before, so that its own cache has a Bazel and the archives.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from columns import MODES, ROOT, Column, Ours, sources
from peers import PEERS

if TYPE_CHECKING:
    from collections.abc import Callable

KERNELS = ROOT / "bench" / "projects"
VARIANTS = [f"torch{torch}-cxx11-{cuda}-x86_64-linux" for torch in ("213", "215") for cuda in ("cu130", "cu132")]
MORE = "torch214-cxx11-cu130-x86_64-linux"
LAST_ARCH, NEW_ARCH = "9.0", "10.0"
SAME_ARCH = {"light_torch": "8.7"}
"""The added architecture for a kernel with all of upstream's architectures: its text is that of 8.6."""
ROWS = [
    "cold matrix",
    "no change",
    "comment in a shared file",
    "edit of one kernel",
    "edit of the binding",
    "a torch version more",
    "an architecture more",
    "another directory",
    "same bytes from two directories",
    "critical path of one source",
]
_COLUMNS = [*(f"ours, {mode}" for mode in MODES), *(peer.name for peer in PEERS)]
_PROGRAMS = {"cmake": "cmake", "ninja + ccache": "ccache", "ninja + sccache": "sccache"}
_MADE = shutil.ignore_patterns("build", "objects", "CMakeLists.txt")
EXPECTED = (OSError, subprocess.SubprocessError, ValueError, LookupError, StopIteration)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """The cost of a row in a column.

    Attributes:
        cpu: the CPU seconds of all processes.
        wall: the elapsed seconds.
        actions: the number of compile actions that ran; a whole nvcc is a single action, and so is one phase of it.
    """

    cpu: float
    wall: float
    actions: int


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    if old not in text:
        raise ValueError(f"{path.name} has no {old!r}")
    path.write_text(text.replace(old, new, 1))


def _edit_kernel(project: Path, name: str = "another") -> None:
    with sources(project)[0].open("a") as file:
        file.write(f"\n__global__ void {name}(int* out) {{ *out = 1; }}\n")


def _edit_comment(project: Path) -> None:
    header = next(iter(sorted(project.glob("csrc/*.cuh")) or sources(project)))
    _replace(header, "namespace {\n", "namespace {  // a comment\n")


def _edit_host(project: Path) -> None:
    _replace(project / "torch-ext" / "torch_binding.cpp", "is_contiguous()", "is_contiguous() && true")


def _add_arch(project: Path) -> None:
    new = SAME_ARCH.get(project.name, NEW_ARCH)
    _replace(project / "build.toml", f'"{LAST_ARCH}"]', f'"{LAST_ARCH}", "{new}"]')


def measure(column: Column, work: Callable[[], int]) -> dict[str, Any]:
    """The cost of work in a column, which returns its number of actions; the keys are the fields of `Cost`."""
    cpu, wall = column.cpu(), time.monotonic()
    actions = work()
    cost = Cost(cpu=round(column.cpu() - cpu, 2), wall=round(time.monotonic() - wall, 2), actions=actions)
    return asdict(cost)


def failure(problem: BaseException) -> dict[str, Any]:
    """The entry of a failed row in the results; details go only to the terminal, because they contain local paths."""
    if isinstance(problem, subprocess.CalledProcessError):
        print(*(problem.stdout, problem.stderr), sep="\n", file=sys.stderr)  # noqa: T201
        return {"error": f"{Path(problem.cmd[0]).name} ended with {problem.returncode}"}
    print(repr(problem), file=sys.stderr)  # noqa: T201
    return {"error": type(problem).__name__}


def _copy(project: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(project, to, ignore=_MADE)
    return to


def rows_of(
    column: Column, kernel: str, work: Path, variants: list[str], last: str = ROWS[-1]
) -> dict[str, dict[str, Any]]:
    """The rows of a column for a kernel, in a matrix of variants, up to the last row."""
    project = _copy(KERNELS / kernel, work / "here" / kernel)
    elsewhere = work / "another" / "directory" / kernel
    rows: dict[str, dict[str, Any]] = {}

    def row(name: str, result: Callable[[], dict[str, Any]]) -> None:
        if last in rows:
            return
        try:
            rows[name] = result()
        except EXPECTED as problem:
            rows[name] = failure(problem)
        print(column.name, kernel, name, rows[name], sep=" | ", file=sys.stderr, flush=True)  # noqa: T201

    def built(name: str, change: Callable[[Path], None] | None, wanted: list[str]) -> None:
        def result() -> dict[str, Any]:
            if change:
                change(project)
            return measure(column, lambda: column.build(project, wanted))

        row(name, result)

    def moved() -> dict[str, Any]:
        _copy(project, elsewhere)
        return measure(column, lambda: column.build(elsewhere, variants))

    def alone() -> dict[str, Any]:
        place = _copy(KERNELS / kernel, work / "alone" / kernel)
        _edit_kernel(place, "once_more")
        seconds, actions = column.alone(place, variants[0])
        return asdict(Cost(cpu=round(seconds, 2), wall=round(seconds, 2), actions=actions))

    def same() -> dict[str, Any]:
        return {"same": column.digests(project, variants) == column.digests(elsewhere, variants)}

    cold, nothing, comment, kernel_edit, host_edit, torch, arch, directory, digests, critical = ROWS
    built(cold, None, variants)
    built(nothing, None, variants)
    built(comment, _edit_comment, variants)
    built(kernel_edit, _edit_kernel, variants)
    built(host_edit, _edit_host, variants)
    built(torch, None, [MORE])
    built(arch, _add_arch, variants)
    row(directory, moved)
    row(digests, same)
    row(critical, alone)
    return rows


def machine() -> dict[str, Any]:
    """The machine of the measurement."""
    model = next(
        (x.partition(": ")[2] for x in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in x), ""
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory-gib": round(memory / 2**30),
        "system": platform.platform(),
        "date": time.strftime("%Y-%m-%d"),
    }


def programs(columns: list[str]) -> dict[str, str]:
    """The version outputs of the columns' programs, by name."""
    found = {}
    for name in ("ninja", *(_PROGRAMS[column] for column in columns if column in _PROGRAMS)):
        said = subprocess.run([name, "--version"], check=True, capture_output=True, text=True).stdout
        found[name] = said.splitlines()[0].split()[-1]
    return found


def warm(column: Ours, kernels: list[str], work: Path, variants: list[str]) -> None:
    """Build another project in a column of ours, so that Bazel runs and has all toolchains of the kernels."""
    project = _copy(KERNELS / "light", work / "warm" / "light")
    manifests = [tomllib.loads((KERNELS / kernel / "build.toml").read_text()) for kernel in kernels]
    depends = {name for manifest in manifests for section in manifest["kernel"].values() for name in section["depends"]}
    _replace(project / "build.toml", "depends = []", f"depends = {json.dumps(sorted(depends - {'torch'}))}")
    _replace(project / "build.toml", '"light"', '"warm"')
    (project / "torch-ext" / "light").rename(project / "torch-ext" / "warm")
    column.build(project, variants)
    shutil.rmtree(project)


def _arguments() -> argparse.Namespace:
    known = sorted(path.name for path in KERNELS.iterdir())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=f"of {', '.join(known)} (default: all)")
    parser.add_argument("--work", type=Path, required=True, help="an empty directory, not below /tmp")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write or add to")
    parser.add_argument(
        "--variants", nargs="+", metavar="VARIANT", default=VARIANTS, help=f"of {', '.join(VARIANTS)} (default: all)"
    )
    parser.add_argument(
        "--columns", nargs="+", metavar="NAME", default=_COLUMNS, help=f"of {'; '.join(_COLUMNS)} (default: all)"
    )
    parser.add_argument(
        "--last",
        metavar="ROW",
        choices=ROWS,
        default=ROWS[-1],
        help=f"of {'; '.join(ROWS)}: stop there (default: the last)",
    )
    args = parser.parse_args()
    for chosen, names in ((args.kernels, known), (args.variants, VARIANTS), (args.columns, _COLUMNS)):
        for name in set(chosen) - set(names):
            parser.error(f"`{name}` is not one of {'; '.join(names)}")
    args.kernels = args.kernels or known
    if args.work.exists() and any(args.work.iterdir()):
        parser.error(f"{args.work} is not empty: remove it, or name another directory")
    if not shutil.which("ninja"):
        parser.error("ninja is not on PATH; cmake, ccache and sccache are wanted there too, for their columns")
    for name in [name for name in args.columns if name in _PROGRAMS and not shutil.which(_PROGRAMS[name])]:
        print(f"the column `{name}` is left out: {_PROGRAMS[name]} is not on PATH", file=sys.stderr)  # noqa: T201
        args.columns = [column for column in args.columns if column != name]
    return args


def main() -> None:
    """Measure, and write JSON."""
    args = _arguments()
    work = args.work.resolve()
    variants = [*args.variants, MORE]
    result = json.loads(args.out.read_text()) if args.out.is_file() else {}
    result["more"] = MORE
    machines = result.setdefault("machines", {})
    known = programs(args.columns)
    ours = [Ours(work, mode) for mode in MODES]
    every: list[Column] = [*ours, *(peer(work, ours[0]) for peer in PEERS)]
    columns = [column for column in every if column.name in args.columns]
    try:
        for own_column in ours:
            if own_column in columns or own_column is ours[0]:
                warm(own_column, args.kernels, work, variants)
        for kernel in args.kernels:
            machines[kernel] = {**machine(), "variants": args.variants, "programs": known}
            for column in columns:
                result.setdefault(kernel, {})[column.name] = rows_of(column, kernel, work, args.variants, args.last)
                args.out.write_text(json.dumps(result, indent=1) + "\n")
    finally:
        for column in every:
            column.close()


if __name__ == "__main__":
    main()
