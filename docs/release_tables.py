# ruff: noqa: INP001  (a part of a program of its own)
"""The tables of docs/toolchains.md and README.md: releases of torch, CUDA and ROCm."""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

from docs.tables import ROOT, heading, releases, row
from py_driver.matrix.releases import openmp_file
from py_driver.matrix.torch_openmp import read_file

if TYPE_CHECKING:
    from py_driver.matrix.toolkits import Toolkit

_LOCK = ROOT / "toolchains" / "lock"
_NVCC = {"nvidia-cuda-nvcc": "wheels", "nvidia-cuda-toolkit": "Debian", "cuda_nvcc": "NVIDIA's archive"}
"""The source of nvcc, by the name of the archive."""
_HIP = {"libamdhip64-dev": "Debian", "hip-dev": "AMD"}
"""The source of HIP's headers, by the name of the archive."""


def variants() -> str:
    """The torch releases with their backends."""
    matrix = releases().matrix
    tested = {toolkit.backend: toolkit.tested for toolkit in matrix.toolkits}
    backends = ["cpu", *tested]
    lines = [heading("torch", "release", "C++", "ABI", *backends)]
    for torch in matrix.torch:
        words = []
        for backend in backends:
            if backend in torch.backends and torch.default:
                words.append("default")
            elif backend in (*torch.backends, *torch.on_request):
                words.append("on request" if tested.get(backend, True) else "untested")
            else:
                words.append("")
        lines.append(row(torch.version, torch.release, str(torch.cxx_standard), ", ".join(torch.abis), *words))
    return "".join(lines)


def _locked(toolkit: Toolkit, names: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The entry of a toolkit in the lock, and its archive with one of some names."""
    entry = json.loads((_LOCK / f"{toolkit.family}.json").read_text(encoding="utf-8"))[toolkit.version]
    [archive] = [archive for archive in entry["archives"] if archive["name"] in names]
    return entry, archive


def _clang(toolkit: Toolkit) -> str:
    return f"clang {releases().table['cc']['zig'][toolkit.host]} (zig {toolkit.host})"


def cuda() -> str:
    """The CUDA releases."""
    lines = [heading("CUDA", "nvcc", "from", "host compiler", "newest", "tested", "architectures")]
    for release in releases().matrix.toolkits_of("cuda"):
        entry, nvcc = _locked(release, _NVCC)
        version, newest = nvcc["version"].partition("~")[0], str(entry["max_clang"])
        tested = "yes" if release.tested else "no"
        facts = (version, _NVCC[nvcc["name"]], _clang(release), newest, tested, " ".join(release.archs))
        lines.append(row(release.version, *facts))
    return "".join(lines)


def rocm() -> str:
    """The ROCm releases."""
    lines = [heading("ROCm", "HIP", "from", "compiler", "tested", "architectures")]
    for release in releases().matrix.toolkits_of("rocm"):
        _, hip = _locked(release, _HIP)
        version, tested = hip["version"].partition("-")[0], "yes" if release.tested else "no"
        facts = (version, _HIP[hip["name"]], _clang(release), tested, " ".join(release.archs))
        lines.append(row(release.version, *facts))
    return "".join(lines)


def openmp() -> str:
    """The OpenMP runtime of each torch wheel."""
    lines = [heading("torch", "file in the wheel", "SONAME", "symbols up to")]
    for version, runtime in read_file(openmp_file()).items():
        newest = ", ".join(f"{family} {number}" for family, number in runtime["newest"].items())
        lines.append(row(version, f"`{runtime['file']}`", f"`{runtime['soname']}`", newest))
    return "".join(lines)


def cells() -> str:
    """The last step of each torch release and backend."""
    matrix, program = releases().matrix, importlib.import_module("cells")
    records = program.read()
    ours = {"cpu": "CPU", **{toolkit.backend: toolkit.backend for toolkit in matrix.toolkits}}
    more = [backend for backend in program.backends_of(records) if backend not in ours]
    columns = {**ours, **{backend: f"{backend} (own)" for backend in more}}
    torches = [(torch.version, abi) for torch in matrix.torch for abi in torch.abis]
    head, *rows = program.table(records, torches, dict(sorted(columns.items(), key=lambda pair: pair[0])))
    return heading(*head) + "".join(row(*words) for words in rows)


def support() -> str:
    """The releases by status."""
    matrix = releases().matrix
    default = {backend for torch in matrix.torch if torch.default for backend in torch.backends}
    newest = {abi: torch for torch in matrix.torch for abi in torch.abis}

    def toolkits(family: str) -> list[tuple[str, int]]:
        found = matrix.toolkits_of(family)
        return [(kit.version, int(kit.backend not in default) if kit.tested else 2) for kit in found]

    statuses = {
        "torch": [(torch.version, int(not torch.default)) for torch in matrix.torch],
        "CUDA": toolkits("cuda"),
        "ROCm": toolkits("rocm"),
        "C++ ABI": [
            (abi, 0) if torch == matrix.torch[-1] else (f"{abi}, up to torch {torch.version}", 1)
            for abi, torch in newest.items()
        ],
    }
    lines = [heading("", "built by default", "built on request", "untested")]
    for title, found in statuses.items():
        columns = (", ".join(name for name, status in found if status == column) for column in range(3))
        lines.append(row(title, *columns))
    return "".join(lines)
