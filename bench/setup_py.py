# ruff: noqa: INP001  (a program of its own)
"""What the wheels of a setup.py cost, beside what people use today: python bench/setup_py.py DIR... --work W --out F.

Each DIR is an unpacked source archive with a setup.py, e.g. causal-conv1d 1.7.0. The matrix is 2 torch releases x 2
CUDA releases x 4 Pythons, so 16 wheels for the peers. All columns use the same nvcc, host compiler, headers and flags:
those that `driver` records of the setup.py, with what torch.utils.cpp_extension adds, for the architectures of
`--archs`.

What favours the peers: their columns only compile, in one ninja for each wheel. Their setup.py does not run, and
nothing is linked, checked or packed. clang compiles their C++ sources, also those with OpenMP; ours takes gcc for
those. Ours is the whole command: it records the setup.py, compiles, links, checks, and `driver wheel` packs.

CPU seconds are of all processes, as in benchmark.py. Needs `ninja`, `ccache` and `sccache` on PATH, and `--headers`:
directories with the Python.h of two Pythons that are not in the lock. The first joins the matrix, the second is
"a Python more". The driver must have built something before, as for benchmark.py.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark import EXPECTED, failure, machine, measure, programs
from columns import ROOT, Ours
from peers import Ccache, Ninja, Sccache, put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_TORCHES, _CUDAS = ("213", "215"), ("cu130", "cu132")
_LOCKED = ("311", "313", "314")
"""Pythons whose headers are in the lock; a pybind11 module of `_WARM` brings them."""
_MORE_TORCH = "214"
_COMMON = tomllib.loads((ROOT / "py_driver" / "resources" / "recording.toml").read_text())["nvcc"]["common-flags"]
_MATRIX = tomllib.loads((ROOT / "toolchains" / "matrix.toml").read_text())
_RULES = """ninja_required_version = 1.3

rule cc
  command = {launcher}{host} -MMD -MF $out.d $flags -c $in -o $out
  depfile = $out.d
  deps = gcc

rule nvcc
  command = {launcher}{toolkit}/bin/nvcc -MD -MF $out.d $flags -ccbin {host} -c $in -o $out
  depfile = $out.d
  deps = gcc

"""
_WARM = """from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

flags = {{"cxx": {flags}}}
setup(
    name="warm",
    version="1",
    ext_modules=[CUDAExtension("warm", ["warm.cpp", "warm_kernel.cu"], extra_compile_args=flags)],
    cmdclass={{"build_ext": BuildExtension}},
)
"""
_WARM_CPP = '#include <torch/extension.h>\n\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.attr("one") = 1; }\n'
_SHARED = ("build-requirements", "pythons", "sources")
"""Of the driver's cache, beside what Ours takes: the packages that setup.py files run with."""


class Ourselves(Ours):
    """`driver build` and `driver wheel` of a setup.py.

    Args:
        work: directory for the cache and Bazel.
        archs: architectures, e.g. 9.0.
    """

    def __init__(self, work: Path, archs: str) -> None:
        super().__init__(work, "split")
        self.name = "ours"
        self._archs = archs
        for name in _SHARED:
            shared = self.shared / name
            shared.mkdir(exist_ok=True)
            (self._cache / name).symlink_to(shared)

    def build(self, project: Path, variants: list[str]) -> int:
        """Build and pack the wheels that serve all of these; how many compile actions ran."""
        cells = sorted({wheel.rpartition("-")[0] for wheel in variants})
        names = [f"--variant={cell}" for cell in cells]
        done = self._driver("build", str(project), "--json", f"--archs={self._archs}", *names)
        self._driver("wheel", str(project), f"--archs={self._archs}", *names, f"--out={project / 'dist'}")
        return sum(variant["actions"]["run"] for variant in json.loads(done)["variants"])

    def warm(self, place: Path, torches: list[str]) -> None:
        """Build something else, so that Bazel runs and has all toolchains and the headers of the locked Pythons."""
        cells = [f"--variant=torch{torch}-{cuda}" for torch in torches for cuda in _CUDAS]
        pythons = [f"--python={python[0]}.{python[1:]}" for python in _LOCKED]
        for name, flags, options in (
            ("gcc", ["-fopenmp"], cells),
            ("pythons", [], [cells[0], "--binding=pybind", *pythons]),
        ):
            project = place / name
            project.mkdir(parents=True)
            (project / "setup.py").write_text(_WARM.format(flags=flags))
            (project / "warm.cpp").write_text(_WARM_CPP)
            (project / "warm_kernel.cu").write_text("__global__ void one(int* out) { *out = 1; }\n")
            self._driver("build", str(project), f"--archs={self._archs}", *options)

    def prepare(self, project: Path) -> None:
        """Record the setup.py of a project for the peers; ours builds from another directory, so it records again."""
        place = self._cache.parent / "recorded" / project.name
        shutil.copytree(project, place)
        self._driver("check", str(place))

    def record(self, cuda: str) -> dict[str, Any]:
        """What the setup.py of the project asks for with a CUDA release, whatever the torch."""
        records = [json.loads(path.read_text()) for path in self._cache.glob("recordings/*/record.json")]
        return next(record for record in records if record["name"] != "warm" and record["backend"] == cuda)

    def _driver(self, *arguments: str) -> str:
        command = [str(ROOT / "driver"), *arguments]
        return subprocess.run(command, env=self._environ, check=True, capture_output=True, text=True).stdout


class _Wheels(Ninja):
    """The build.ninja of a wheel; its variants are a torch, a CUDA and a Python, e.g. torch213-cu130-cp311."""

    def __init__(self, work: Path, toolchains: Ourselves, archs: str, headers: dict[str, Path]) -> None:
        super().__init__(work, toolchains)
        self._ours, self._archs, self._headers = toolchains, archs, headers

    def build(self, project: Path, variants: list[str]) -> int:
        """Build wheels; how many compilers ran.

        Caches get every chance: the first Python's wheels of a torch are built before those of the next torch, and both
        before the wheels of all other Pythons. Wheels of a step are built at once, which many cores need, and without a
        cache all of them.
        """
        before = self._actions()
        torches = dict.fromkeys(variant.partition("-")[0] for variant in variants)
        first = variants[0].rpartition("-")[2]
        steps = [[name for name in variants if name.startswith(torch) and name.endswith(first)] for torch in torches]
        steps.append([name for name in variants if not name.endswith(first)])
        for step in filter(None, steps if self.launcher else [variants]):
            jobs = max(1, (os.cpu_count() or 1) // len(step))
            with ThreadPoolExecutor(len(step)) as pool:
                list(pool.map(lambda wheel: self._run(project, self._prepare(project, wheel), f"-j{jobs}"), step))  # noqa: B023
        return self._actions() - before

    def _prepare(self, project: Path, variant: str) -> Path:
        torch, cuda, python = variant.split("-")
        ours = self._ours
        toolkit = ours.external(f"cuda_{cuda[2:4]}_{cuda[4:]}")
        include = ours.external(f"torch_{torch[5]}_{torch[6:]}") / "include"
        version = f"{torch[5]}.{torch[6:]}"
        standard = next(release["cxx-standard"] for release in _MATRIX["torch"] if release["version"] == version)
        system = [include, include / "torch/csrc/api/include", toolkit / "include", *self._python(python[2:])]
        codes = [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in self._archs.replace(".", "").split(",")]
        launcher = f"{shutil.which(self.launcher)} " if self.launcher else ""
        host = ours.external("cc") / "clang++"
        text = _RULES.format(launcher=launcher, host=host, toolkit=toolkit)
        for module in ours.record(cuda)["modules"]:
            macros = [f"-D{macro[0]}" + (f"={macro[1]}" if macro[1] else "") for macro in module["define_macros"]]
            name = module["name"].rpartition(".")[2]
            common = [f"-DTORCH_EXTENSION_NAME={name}", "-DTORCH_API_INCLUDE_EXTENSION_H", *macros]
            common += [f"-I{project / path}" for path in module["include_dirs"]] + [
                f"-isystem {path}" for path in system
            ]
            of_cxx = [*common, "-fPIC", "-O3", "-DNDEBUG", *module["cxx_flags"]]
            of_nvcc = [*common, *_COMMON, "--compiler-options", "-fPIC", *_plain(module["nvcc_flags"]), *codes]
            for source in module["sources"]:
                device = source.endswith(".cu")
                flags = _with_standard(of_nvcc if device else of_cxx, standard)
                if "-fopenmp" in flags:
                    flags.append(f"-I{ours.external('gcc') / 'openmp'}")
                rule = "nvcc" if device else "cc"
                text += f"build {name}/{source}.o: {rule} {project / source}\n  flags = {' '.join(flags)}\n"
        directory = project / "objects" / variant
        directory.mkdir(parents=True, exist_ok=True)
        put(directory / "build.ninja", text)
        return directory

    def _python(self, python: str) -> list[Path]:
        """Where Python.h is; Debian's includes another file by its place below /usr/include."""
        if python in self._headers:
            return [self._headers[python]]
        version = f"{python[0]}.{python[1:]}"
        sdk = self._ours.external(f"cpython_{version.replace('.', '_')}")
        file = next(sdk.rglob(f"python{version}/Python.h"))
        return [file.parent, file.parents[1]]


class NinjaWheels(_Wheels):
    """ninja."""


class CcacheWheels(_Wheels, Ccache):
    """ninja with ccache."""


class SccacheWheels(_Wheels, Sccache):
    """ninja with sccache."""


_PEERS = (NinjaWheels, CcacheWheels, SccacheWheels)
COLUMNS = ["ours", *(peer.name for peer in _PEERS)]


def _plain(flags: list[str]) -> list[str]:
    """Flags of nvcc without its architectures, which `--archs` chooses, and without how many threads it has."""
    text = re.sub(r"(^| )(-gencode|--generate-code|--threads|-t)[ =]\S+", " ", " ".join(flags))
    return text.split()


def _with_standard(flags: list[str], standard: int) -> list[str]:
    """Flags with torch's C++ standard if they have none, as BuildExtension adds it."""
    return [*flags] if any(flag.startswith("-std=") for flag in flags) else [*flags, f"-std=c++{standard}"]


def _edit_kernel(project: Path, sources: list[str]) -> None:
    last = project / max(source for source in sources if source.endswith(".cu"))
    last.chmod(0o644)
    with last.open("a") as file:
        file.write("\n__global__ void another(int* out) { *out = 1; }\n")


def rows_of(
    column: Ourselves | _Wheels, project: Path, sources: list[str], matrix: list[str], python: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a column: their names, and what each cost, or its error."""
    more_python = sorted({f"{wheel.rpartition('-')[0]}-cp{python}" for wheel in matrix})
    more_torch = sorted({f"torch{_MORE_TORCH}-{_CUDAS[0]}-{wheel.rpartition('-')[2]}" for wheel in matrix})
    steps: dict[str, tuple[Callable[[Path], None] | None, list[str]]] = {
        f"{len(matrix)} wheels": (None, matrix),
        "no change": (None, matrix),
        "a Python more": (None, more_python),
        "edit of one kernel": (partial(_edit_kernel, sources=sources), matrix),
        "a torch more": (None, more_torch),
    }
    for name, (change, wheels) in steps.items():
        try:
            if change:
                change(project)
            row = measure(column, partial(column.build, project, wheels))
        except EXPECTED as problem:
            row = failure(problem)
        print(column.name, project.name, name, row, sep=" | ", file=sys.stderr, flush=True)  # noqa: T201
        yield name, row


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("projects", nargs="+", type=Path, metavar="DIR", help="unpacked source archive")
    parser.add_argument("--work", type=Path, required=True, help="an empty directory, not below /tmp")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write or add to")
    parser.add_argument("--archs", default="9.0", metavar="LIST", help="architectures, with commas (default: 9.0)")
    parser.add_argument("--columns", nargs="+", choices=COLUMNS, default=COLUMNS, help="(default: all)")
    parser.add_argument(
        "--headers", nargs=2, type=Path, required=True, metavar="DIR", help="with python3.N as its name"
    )
    parser.add_argument("--rows", type=int, default=5, metavar="N", help="the first N rows alone (default: all 5)")
    parser.add_argument("--few", action="store_true", help="2 wheels alone: one torch, one CUDA, two Pythons")
    args = parser.parse_args()
    if args.work.exists() and any(args.work.iterdir()):
        parser.error(f"{args.work} is not empty: remove it, or name another directory")
    for directory in args.headers:
        if not (directory / "Python.h").is_file() or not re.fullmatch(r"python3\.\d+", directory.name):
            parser.error(f"{directory} is no directory python3.N with a Python.h")
    for name in ("ninja", "ccache", "sccache"):
        if not shutil.which(name):
            parser.error(f"{name} is not on PATH")
    return args


def main() -> None:
    """Measure, and write JSON."""
    args = _arguments()
    result: dict[str, Any] = json.loads(args.out.read_text()) if args.out.is_file() else {}
    headers = {path.name.removeprefix("python").replace(".", ""): path.resolve() for path in args.headers}
    joined, more = headers
    pythons = [*_LOCKED, joined]
    count = 1 if args.few else None
    cells = [f"torch{torch}-{cuda}" for torch in _TORCHES[:count] for cuda in _CUDAS[:count]]
    matrix = [f"{cell}-cp{python}" for cell in cells for python in pythons[: 2 if args.few else None]]
    for source in args.projects:
        work = args.work.resolve() / source.name
        ours = Ourselves(work, args.archs)
        columns: list[Ourselves | _Wheels] = [ours, *(peer(work, ours, args.archs, headers) for peer in _PEERS)]
        found = result.setdefault(source.name, {})
        found |= {"machine": machine(), "archs": args.archs, "programs": programs(COLUMNS)}
        try:
            ours.warm(work / "warm", [*_TORCHES, _MORE_TORCH])
            ours.prepare(source)
            sources = [source for module in ours.record(_CUDAS[0])["modules"] for source in module["sources"]]
            for column in [column for column in columns if column.name in args.columns]:
                place = work / column.name.replace(" + ", "-") / source.name
                shutil.copytree(source, place)
                for name, row in islice(rows_of(column, place, sources, matrix, more), args.rows):
                    found.setdefault(column.name, {})[name] = row
                    args.out.write_text(json.dumps(result, indent=1) + "\n")
        finally:
            for column in columns:
                column.close()


if __name__ == "__main__":
    main()
