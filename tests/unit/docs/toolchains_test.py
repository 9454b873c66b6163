"""docs/toolchains.md: its tables are what the matrix and the lock say; UPDATE_EXPECTED=1 writes them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from py_driver.fetch.entry import Origin
from py_driver.matrix.cells import parse, spell
from py_driver.matrix.installation import module_root
from py_driver.matrix.releases import Releases, openmp_file
from py_driver.matrix.select import select
from py_driver.matrix.torch_openmp import read_file

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "toolchains.md"
TEXT = PAGE.read_text(encoding="utf-8")
RELEASES = Releases()
MATRIX = RELEASES.matrix
CLANGS = RELEASES.table["cc"]["zig"]
LOCK = json.loads((module_root() / "toolchains" / "lock" / "cuda.json").read_text(encoding="utf-8"))

BLOCK = re.compile(r"(<!-- generated: (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
NVCC = {"nvidia-cuda-nvcc": "wheels", "nvidia-cuda-toolkit": "Debian", "cuda_nvcc": "NVIDIA's archive"}
"""Where nvcc comes from, by the name of the archive."""
HIP = {"libamdhip64-dev": "Debian", "hip-dev": "AMD"}
"""Where HIP's headers come from, by the name of the archive."""
SIZES = {
    "torch213-*-cpu-*": "torch 2.13, CPU",
    "torch213-*-cu130-*": "torch 2.13, CUDA 13.0",
    "*": "the default variants",
}
SEED = "torch2{4,5}-*-cu{118,124}-*"


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def heading(*cells: str) -> str:
    return row(*cells) + "|" + "---|" * len(cells) + "\n"


def variants() -> str:
    tested = {one.backend: one.tested for one in MATRIX.toolkits}
    backends = ["cpu", *tested]
    lines = [heading("torch", "release", "C++", "ABI", *backends)]
    for torch in MATRIX.torch:
        words = []
        for backend in backends:
            if backend in torch.backends and torch.bundled:
                words.append("default")
            elif backend in (*torch.backends, *torch.named):
                words.append("on request" if tested.get(backend, True) else "untested")
            else:
                words.append("")
        lines.append(row(torch.version, torch.release, str(torch.cxx_standard), ", ".join(torch.abis), *words))
    return "".join(lines)


def cuda() -> str:
    lines = [heading("CUDA", "nvcc", "from", "host compiler", "newest", "tested", "architectures")]
    for release in MATRIX.toolkits_of("cuda"):
        entry = LOCK[release.version]
        [nvcc] = [archive for archive in entry["archives"] if archive["name"] in NVCC]
        clang = f"clang {CLANGS[release.host]} (zig {release.host})"
        status = "yes" if release.tested else "no"
        lines.append(
            row(
                release.version,
                nvcc["version"].partition("~")[0],
                NVCC[nvcc["name"]],
                clang,
                str(entry["max_clang"]),
                status,
                " ".join(release.archs),
            )
        )
    return "".join(lines)


def rocm() -> str:
    lines = [heading("ROCm", "HIP", "from", "compiler", "tested", "architectures")]
    lock = json.loads((module_root() / "toolchains" / "lock" / "rocm.json").read_text(encoding="utf-8"))
    for release in MATRIX.toolkits_of("rocm"):
        [hip] = [one for one in lock[release.version]["archives"] if one["name"] in HIP]
        clang = f"clang {CLANGS[release.host]} (zig {release.host})"
        status = "yes" if release.tested else "no"
        version = hip["version"].partition("-")[0]
        lines.append(row(release.version, version, HIP[hip["name"]], clang, status, " ".join(release.archs)))
    return "".join(lines)


def openmp() -> str:
    lines = [heading("torch", "file in the wheel", "SONAME", "symbols up to")]
    for version, one in read_file(openmp_file()).items():
        newest = ", ".join(f"{family} {number}" for family, number in one["newest"].items())
        lines.append(row(version, f"`{one['file']}`", f"`{one['soname']}`", newest))
    return "".join(lines)


def test_the_size_of_gcc() -> None:
    lock = Releases().lock
    more = set(lock.gcc_entries(["x86_64"])) - set(lock.entries_for([]))
    assert len(more) == 9
    assert f"nine\narchives of {sum(one.size for one in more) / 1e6:.0f} MB" in TEXT


def test_the_tables_are_fresh() -> None:
    tables = {"variants": variants, "cuda": cuda, "rocm": rocm, "openmp": openmp}
    text = BLOCK.sub(lambda found: f"{found[1]}\n{tables[found[2]]()}\n{found[4]}", TEXT)
    if os.environ.get("UPDATE_EXPECTED") == "1":
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text
    assert {found[1] for found in BLOCK.findall(TEXT)} == set(tables)


@pytest.mark.parametrize("pattern", [*SIZES, SEED])
def test_the_counts_of_archives_and_whole_sizes(pattern: str) -> None:
    found = [(spell(cell), bundled) for cell, bundled in MATRIX.cells()]
    default, others = ([name for name, bundled in found if bundled is wanted] for wanted in (True, False))
    names = select([pattern], default, others)
    entries = Releases().lock.entries_for(map(parse, names))
    whole = f"{sum(entry.size for entry in entries) / 1e6:.0f} MB"
    title = SIZES.get(pattern, "torch {2.4, 2.5} x {cxx11, cxx98} x {CUDA 11.8, 12.4}")
    [line] = [one.strip("| ").split(" | ") for one in TEXT.splitlines() if one.startswith(f"| {title} |")]
    assert [line[1], line[2], line[5]] == [str(len(names)), str(len(entries)), whole]


def test_every_origin_is_explained() -> None:
    assert re.findall(r"^\| `([\w-]+)` \| [^|]* \| [^|]* \|$", TEXT, re.MULTILINE) == [one.value for one in Origin]
