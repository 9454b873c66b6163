"""The stand-ins of a configuration: torch, a toolkit, and programs that only report their version."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py_driver.matrix.backends import backend_of
from py_driver.recording.facts import facts
from py_driver.recording.sandbox import interpreter
from py_driver.resources import resource, resources_below

if TYPE_CHECKING:
    from py_driver.matrix.configurations import Configuration
    from py_driver.matrix.releases import Releases

_STAND_IN: Final = "stand_in"
_CXX98: Final = "cxx98"
_CUDA: Final = "cuda"
_ROCM: Final = "rocm"
_NUMBER: Final = re.compile(r"(\d+)\.(\d)[af]?(?:\+PTX)?")

PROJECT: Final = "project"
STAND_IN: Final = "stand_in"
TOOLKIT: Final = "toolkit"
PROGRAMS: Final = "bin"
PYTHON: Final = "python"
OUT: Final = "out"
"""The directories of a recording, below `sandbox.inside`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Torch:
    """The torch that the stand-ins represent.

    Attributes:
        version: e.g. `2.13.0+cu130`.
        cuda: the version of CUDA, e.g. `13.0`; None without CUDA.
        hip: the version of ROCm; None without ROCm.
        build: the version of nvcc or of ROCm in full; empty without either.
        cxx11: whether it has the C++11 ABI.
        arch_list: the GPU architectures of the run; empty for the CPU.
    """

    version: str
    cuda: str | None
    hip: str | None
    build: str
    cxx11: bool
    arch_list: str

    @property
    def archs(self) -> tuple[str, ...]:
        """The architectures in the list, without `+PTX`."""
        return tuple(arch.partition("+")[0] for arch in re.split(r"[; ]+", self.arch_list) if arch)


def torch_of(configuration: Configuration, arch_list: str, releases: Releases) -> Torch:
    """The torch of a configuration.

    Args:
        configuration: a configuration of the matrix, with a torch release.
        arch_list: the GPU architectures, in the form of TORCH_CUDA_ARCH_LIST.
        releases: the matrix and the lock.

    Raises:
        DriverError: SET_UP if the installation is broken.
    """
    release = next(torch.release for torch in releases.matrix.torch if torch.version == configuration.torch)
    backend = backend_of(configuration.backend)
    version = (backend.version_of(configuration.backend) if backend else None) or ""
    family = configuration.family
    if family == _CUDA:
        locked = releases.lock.parts[family].get(version, {}).get("archives", [])
        builds = [str(archive.get("version", "")) for archive in locked if "nvcc" in str(archive.get("name", ""))]
        build = next((text for text in builds if text.startswith(f"{version}.")), f"{version}.0")
        return Torch(
            version=f"{release}+{configuration.backend}",
            cuda=version,
            hip=None,
            build=build,
            cxx11=configuration.abi != _CXX98,
            arch_list=arch_list,
        )
    rocm = {row["version"]: row["release"] for row in releases.table[_ROCM]}.get(version, "") if family == _ROCM else ""
    return Torch(
        version=f"{release}+{f'rocm{version}' if rocm else 'cpu'}",
        cuda=None,
        hip=rocm or None,
        build=rocm,
        cxx11=configuration.abi != _CXX98,
        arch_list=arch_list if rocm else "",
    )


def write(scratch: Path, base: str, torch: Torch, *, compiles: bool) -> None:
    """Write the stand-ins of a torch.

    Args:
        scratch: the parent of the directories of a recording.
        base: the path of that directory for a program in the run.
        torch: see `torch_of`.
        compiles: whether compilers record what they would compile; else they fail.
    """
    for name in resources_below(_STAND_IN):
        path = scratch / STAND_IN / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(resource(f"{_STAND_IN}/{name}"), encoding="utf-8")
    release, _, local = torch.version.partition("+")
    numbers = sorted((int(found[1]), int(found[2])) for arch in torch.archs if (found := _NUMBER.fullmatch(arch)))
    archs = [f"sm_{arch.replace('.', '')}" if torch.cuda else arch for arch in torch.archs]
    values = {
        "release": release,
        "local": local,
        "cuda": torch.cuda,
        "hip": torch.hip,
        "cxx11": torch.cxx11,
        "arch_list": torch.arch_list,
        "archs": archs,
        "capabilities": numbers,
        "home": f"{base}/{TOOLKIT}",
        "openmp": True,
        "common_nvcc_flags": facts()["nvcc"]["common-flags"],
        "gcc": facts()["answers"]["gcc"]["short"].strip(),
    }
    (scratch / STAND_IN / "torch" / "configuration.json").write_text(json.dumps(values), encoding="utf-8")
    information = scratch / STAND_IN / f"torch-{torch.version}.dist-info"
    information.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: torch\nVersion: {torch.version}\n"
    (information / "METADATA").write_text(metadata, encoding="utf-8")
    for name in ("include/torch/csrc/api/include", "lib"):
        (scratch / STAND_IN / "torch" / name).mkdir(parents=True)
    _toolkit(scratch, torch)
    _programs(scratch, base, torch, compiles=compiles)
    _python(scratch / PYTHON)


def answers(torch: Torch) -> dict[str, str]:
    """The answers of the stand-in programs, for people, by name."""
    return {name: table["answer"].format(**_versions(torch)) for name, table in _answering(torch).items()}


def _versions(torch: Torch) -> dict[str, str]:
    return {"cuda": torch.cuda or "", "rocm": torch.hip or "", "build": torch.build}


def _answering(torch: Torch) -> dict[str, dict[str, Any]]:
    """The programs of a configuration, without the compilers of other backends."""
    left_out = {_CUDA: torch.cuda is None, _ROCM: torch.hip is None}
    return {
        name: table
        for kind, table in facts()["answers"].items()
        if not left_out.get(kind, False)
        for name in table["names"]
    }


def recorded(name: str, base: str) -> str:
    """The script of a compiler that records what it would compile.

    Args:
        name: the name of the program.
        base: the path of the recording's directory for a program in the run.
    """
    recorder = f"{base}/{STAND_IN}/setup_recorder/compiler.py"
    return f'#!/bin/sh\nexec "{base}/{PYTHON}/bin/python" -I -S "{recorder}" {name} "$@"\n'


def _programs(scratch: Path, base: str, torch: Torch, *, compiles: bool) -> None:
    toolkit = {*facts()["answers"][_CUDA]["names"], *facts()["answers"][_ROCM]["names"]}
    (scratch / PROGRAMS).mkdir()
    for name, table in _answering(torch).items():
        text, short = (table[key].lstrip("\n").format(**_versions(torch)) for key in ("text", "short"))
        lines = ["#!/bin/sh", 'case "$1" in']
        lines += [f"--version | -V | -v) cat << 'END'\n{text}END\n;;"]
        lines += [f"-dumpversion | -dumpfullversion) cat << 'END'\n{short}END\n;;"] if short else []
        refusal = f'echo "{name}: nothing is compiled while a setup.py is recorded" >&2; exit 1'
        does = recorded(name, base).splitlines()[1] if compiles else refusal
        lines += [f"*) {does} ;;", "esac", ""]
        for directory in (PROGRAMS, f"{TOOLKIT}/bin") if name in toolkit else (PROGRAMS,):
            path = scratch / directory / name
            path.write_text("\n".join(lines), encoding="utf-8")
            path.chmod(0o755)

    for name, words in facts()["done"].items():
        path = scratch / PROGRAMS / name
        lines = ["#!/bin/sh", 'case "$1" in', f"{' | '.join(words)}) exit 0 ;;"]
        lines += [f'*) echo "{name}: nothing is installed while a setup.py is recorded" >&2; exit 1 ;;', "esac", ""]
        path.write_text("\n".join(lines), encoding="utf-8")
        path.chmod(0o755)


def _toolkit(scratch: Path, torch: Torch) -> None:
    root = scratch / TOOLKIT
    for name in ("bin", "include", "lib64", "lib", "nvvm"):
        (root / name).mkdir(parents=True)
    if torch.cuda:
        major, minor = torch.cuda.split(".")
        header = f"#define CUDA_VERSION {int(major) * 1000 + int(minor) * 10}\n"
        (root / "include" / "cuda.h").write_text(header, encoding="utf-8")
        runtime = f"#define CUDART_VERSION {int(major) * 1000 + int(minor) * 10}\n"
        (root / "include" / "cuda_runtime_api.h").write_text(runtime, encoding="utf-8")
        part = {"name": "CUDA SDK", "version": torch.build}
        nvcc = {"name": "CUDA NVCC", "version": torch.build}
        (root / "version.json").write_text(json.dumps({"cuda": part, "cuda_nvcc": nvcc}), encoding="utf-8")
    if torch.hip:
        (root / ".info").mkdir()
        (root / ".info" / "version").write_text(f"{torch.hip}\n", encoding="utf-8")


def site_packages() -> str:
    """The directory of the interpreter's packages in a recording, below `PYTHON`."""
    import sys  # noqa: PLC0415

    return f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


def _python(root: Path) -> None:
    """A virtual environment, whose packages are only those that are mounted into it."""
    (root / "bin").mkdir(parents=True)
    (root / site_packages()).mkdir(parents=True)
    for name in ("python", "python3"):
        (root / "bin" / name).symlink_to(interpreter())
    settings = f"home = {Path(interpreter()).parent}\ninclude-system-site-packages = false\n"
    (root / "pyvenv.cfg").write_text(settings, encoding="utf-8")
    shutil.rmtree(root / "lib64", ignore_errors=True)
