# ruff: noqa: INP001  (a program of its own)
"""What a matrix costs, beside what people use today: python bench/benchmark.py KERNEL... [--out FILE].

Every column builds the same cells of a kernel of bench/kernels with the same compilers, from the same state through the
same changes. Peers compile objects only; ours also link, check and assemble. CPU seconds are of all processes; ours
include Bazel's own. Needs CUDA cells that the driver has built once, `ninja` and, for its column, `ccache` on PATH.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent
CELLS = [
    f"torch{torch}-cxx11-{cuda}-x86_64-linux" for torch, cuda in (("213", "cu130"), ("215", "cu130"), ("213", "cu132"))
]
MORE = "torch214-cxx11-cu130-x86_64-linux"
ARCHS = ("8.0", "8.6", "8.9", "9.0")
NEW_ARCH = "10.0"
_COLUMNS = ["ours, split", "ours, monolithic", "ninja", "ninja + ccache"]
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """What a row cost in a column.

    Attributes:
        cpu: seconds of CPU time, of all processes.
        wall: seconds.
        steps: compile steps that ran; a whole nvcc is one, a phase of it is one too.
    """

    cpu: float
    wall: float
    steps: int


class Column(Protocol):
    """A way to build."""

    name: str

    def build(self, project: Path, cells: list[str]) -> int:
        """Build cells; how many compile steps ran."""

    def cpu(self) -> float:
        """CPU seconds that its processes have taken up to now."""


class Ours:
    """`driver build`, with a cache and a Bazel of its own.

    Args:
        work: directory for them.
        mode: `split` or `monolithic`.
    """

    def __init__(self, work: Path, mode: str) -> None:
        self.name = f"ours, {mode}"
        self._mode = mode
        self._output = work / mode / "output"
        cache = work / mode / "cache"
        cache.mkdir(parents=True)
        shared = Path(os.environ.get("RULES_TORCH_KERNELS_CACHE", Path.home() / ".cache" / "rules_torch_kernels"))
        for name in ("bazel", "store", "venvs"):
            (cache / name).symlink_to(shared / name)
        self._environ = {
            **os.environ,
            "RULES_TORCH_KERNELS_CACHE": str(cache),
            "RULES_TORCH_KERNELS_OUTPUT_USER_ROOT": str(self._output),
        }

    def build(self, project: Path, cells: list[str]) -> int:
        """Build cells; how many compile steps ran."""
        variants = [f"--variant={cell}" for cell in cells]
        command = [ROOT / "driver", "build", project, "--json", f"--cuda-compile={self._mode}", *variants]
        done = subprocess.run(command, env=self._environ, check=True, capture_output=True, text=True)
        return sum(one["steps"]["run"] for one in json.loads(done.stdout)["variants"])

    def cpu(self) -> float:
        """CPU seconds of the driver and of Bazel's server with all that it ran."""
        server = 0.0
        for file in self._output.glob("*/server/server.pid.txt"):
            stat = Path("/proc", file.read_text().strip(), "stat")
            if stat.exists():
                server += sum(map(int, stat.read_text().rpartition(")")[2].split()[11:15])) / _TICKS
        return server + _children()

    def external(self, name: str) -> Path:
        """A repository of the toolchains, in this column's Bazel."""
        return next(path for path in self._output.glob(f"*/external/*torch_kernels_{name}") if path.is_dir())


class Ninja:
    """One nvcc for each file and cell, as torch.utils.cpp_extension writes its build.ninja.

    Args:
        work: directory for the builds.
        toolchains: whose compilers and headers to use.
        launcher: what to put before compilers, e.g. `ccache`; nothing if empty.
    """

    def __init__(self, work: Path, toolchains: Ours, launcher: str) -> None:
        self.name = f"ninja + {launcher}" if launcher else "ninja"
        self._work = work / (launcher or "ninja")
        self._toolchains = toolchains
        self._launcher = f"{shutil.which(launcher)} " if launcher else ""
        self._environ = {**os.environ, "CCACHE_DIR": str(self._work / "ccache"), "CCACHE_NOCOMPRESS": "1"}

    def build(self, project: Path, cells: list[str]) -> int:
        """Build cells, one after another; how many compilers ran, or were asked for."""
        before = self._compiled()
        commands = 0
        for cell in cells:
            directory = self._work / project.parent.name / project.name / cell
            directory.mkdir(parents=True, exist_ok=True)
            text = self._text(project, cell)
            file = directory / "build.ninja"
            if not file.is_file() or file.read_text() != text:
                file.write_text(text)
            done = subprocess.run(
                ["ninja", "-v"], cwd=directory, env=self._environ, check=True, capture_output=True, text=True
            )
            commands += sum(line.startswith("[") for line in done.stdout.splitlines())
        return self._compiled() - before if self._launcher else commands

    def cpu(self) -> float:
        """CPU seconds of ninja and all that it ran."""
        return _children()

    def _compiled(self) -> int:
        """How often ccache had to run a compiler."""
        if not self._launcher:
            return 0
        command = [*shlex.split(self._launcher), "--print-stats"]
        said = subprocess.run(command, env=self._environ, check=True, capture_output=True, text=True).stdout
        counts = dict(line.split("\t") for line in said.splitlines())
        return int(counts.get("cache_miss", 0))

    def _text(self, project: Path, cell: str) -> str:
        torch, _, cuda = cell.split("-")[:3]
        toolkit = self._toolchains.external(f"cuda_{cuda[2:4]}_{cuda[4:]}")
        headers = self._toolchains.external(f"torch_{torch[5]}_{torch[6:]}") / "include"
        host = self._toolchains.external("cc") / "clang++"
        manifest = (project / "build.toml").read_text()
        archs = [arch for arch in (*ARCHS, NEW_ARCH) if f'"{arch}"' in manifest]
        numbers = [arch.replace(".", "") for arch in archs]
        codes = " ".join(f"-gencode=arch=compute_{one},code=sm_{one}" for one in numbers)
        registration = ROOT / "rules" / "private" / "include"
        includes = f"-isystem {headers} -isystem {headers}/torch/csrc/api/include -I{registration} -I{project}"
        torch_free = "depends = []" in manifest
        standard = "-std=c++20"
        common = f"-DTORCH_EXTENSION_NAME=bench -D_GLIBCXX_USE_CXX11_ABI=1 -O3 -DNDEBUG -fPIC {standard}"
        nvcc = f"-ccbin {host} --expt-relaxed-constexpr --expt-extended-lambda --compiler-options -fPIC"
        flags = common.replace("-fPIC ", "")
        lines = [
            "ninja_required_version = 1.3",
            f"rule cxx\n  command = {self._launcher}{host} -MMD -MF $out.d {common} {includes} "
            f"-isystem {toolkit}/include -c $in -o $out\n  depfile = $out.d\n  deps = gcc",
            f"rule cuda\n  command = {self._launcher}{toolkit}/bin/nvcc -MD -MF $out.d "
            f"{nvcc} {flags} {'' if torch_free else includes} {codes} -c $in -o $out"
            "\n  depfile = $out.d\n  deps = gcc",
        ]
        lines += [f"build {source.stem}.o: cuda {source}" for source in sorted(project.glob("csrc/*.cu"))]
        lines += [f"build binding.o: cxx {project}/torch-ext/torch_binding.cpp", ""]
        return "\n".join(lines)


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    if old not in text:
        raise ValueError(f"{path} has no {old!r}")
    path.write_text(text.replace(old, new, 1))


def _first_source(project: Path) -> Path:
    return sorted(project.glob("csrc/*.cu"))[0]


def _edit_kernel(project: Path) -> None:
    with _first_source(project).open("a") as file:
        file.write("\n__global__ void another(int* out) { *out = 1; }\n")


def _edit_comment(project: Path) -> None:
    header = next(iter(sorted(project.glob("csrc/*.cuh")) or [_first_source(project)]))
    _replace(header, "namespace {\n", "namespace {  // a comment\n")


def _edit_host(project: Path) -> None:
    _replace(project / "torch-ext" / "torch_binding.cpp", "is_contiguous()", "is_contiguous() && true")


def _add_arch(project: Path) -> None:
    _replace(project / "build.toml", f'"{ARCHS[-1]}"]', f'"{ARCHS[-1]}", "{NEW_ARCH}"]')


def _measure(column: Column, work: Callable[[], int]) -> Cost:
    cpu, wall = column.cpu(), time.monotonic()
    steps = work()
    return Cost(cpu=round(column.cpu() - cpu, 2), wall=round(time.monotonic() - wall, 2), steps=steps)


def rows_of(column: Column, kernel: str, work: Path, cells: list[str]) -> dict[str, Cost]:
    """All rows of one column for one kernel, in a matrix of some cells."""
    project = work / "here" / kernel
    shutil.rmtree(project, ignore_errors=True)
    shutil.copytree(ROOT / "bench" / "kernels" / kernel, project)
    found = {}

    def row(
        name: str, change: Callable[[Path], None] | None, place: Path = project, wanted: list[str] | None = None
    ) -> None:
        if change:
            change(place)
        found[name] = _measure(column, lambda: column.build(place, wanted or cells))
        print(column.name, kernel, name, found[name], file=sys.stderr, flush=True)  # noqa: T201

    row("cold matrix", None)
    row("no change", None)
    row("comment in a shared file", _edit_comment)
    row("edit of one kernel", _edit_kernel)
    row("edit of the binding", _edit_host)
    row("a torch version more", None, wanted=[MORE])
    row("an architecture more", _add_arch)
    elsewhere = work / "another" / "directory" / kernel
    shutil.rmtree(elsewhere, ignore_errors=True)
    shutil.copytree(project, elsewhere, ignore=shutil.ignore_patterns("build"))
    row("another directory", None, elsewhere)
    return found


def machine() -> dict[str, Any]:
    """Where this was measured."""
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


def main() -> None:
    """Measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", nargs="+", choices=sorted(p.name for p in (ROOT / "bench" / "kernels").iterdir()))
    parser.add_argument("--work", type=Path, required=True, help="an empty directory, not below /tmp")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write or add to")
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=CELLS, help="the matrix (default: all of these)")
    parser.add_argument("--columns", nargs="+", choices=_COLUMNS, default=_COLUMNS, help="default: all")
    args = parser.parse_args()
    work = args.work.resolve()
    ours = [Ours(work, "split"), Ours(work, "monolithic")]
    for column in [one for one in ours if one.name in args.columns or one is ours[0]]:
        warm = work / "warm" / "light"
        shutil.copytree(ROOT / "bench" / "kernels" / "light", warm, dirs_exist_ok=True)
        _replace(warm / "build.toml", '"light"', '"warm"')
        (warm / "torch-ext" / "light").rename(warm / "torch-ext" / "warm")
        column.build(warm, [*args.cells, MORE])
        shutil.rmtree(warm)
    columns: list[Column] = [*ours, Ninja(work, ours[0], "")]
    columns += [Ninja(work, ours[0], "ccache")] if shutil.which("ccache") else []
    columns = [column for column in columns if column.name in args.columns]
    result = json.loads(args.out.read_text()) if args.out.is_file() else {}
    result["machine"] = machine()
    result["cells"] = [*args.cells, MORE]
    for kernel in args.kernels:
        result[kernel] = {}
        for column in columns:
            rows = rows_of(column, kernel, work, args.cells)
            result[kernel][column.name] = {row: asdict(cost) for row, cost in rows.items()}
            args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
