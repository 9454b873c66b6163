"""What the built libraries ask of a machine, show to others and hold inside, read from the files."""

from __future__ import annotations

import json
import re
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from amd import code_objects
from clone import RELU
from elftools.elf.elffile import ELFFile

from py_driver.matrix.backends import arch_order
from py_driver.matrix.configurations import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clone import Built

pytestmark = pytest.mark.e2e

_MAX_SYMBOL_VERSIONS = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}
_NEEDED = re.compile(
    r"libtorch(_\w+)?\.so|libc10(_\w+)?\.so|libcudart\.so\.13|libamdhip64\.so\.7|libstdc\+\+\.so\.6|libgcc_s\.so\.1|libc\.so\.6|libm\.so\.6"
    r"|libpthread\.so\.0|libdl\.so\.2|librt\.so\.1|ld-linux-x86-64\.so\.2"
)
_FATBIN_MAGIC = struct.pack("<I", 0xBA55ED50)
_PTX, _ELF = 1, 2
_LEAKS = (b"/tmp", b"sandbox", b"tmpxft_", b"execroot", b"bazel-out", b"/proc/", b".cache", b"/home/")


class Library:
    """A shared library; all that the tests ask of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = path.read_bytes()
        with path.open("rb") as file:
            elf = ELFFile(file)
            dynamic: Any = elf.get_section_by_name(".dynamic")
            table: Any = elf.get_section_by_name(".dynsym")
            versions: Any = elf.get_section_by_name(".gnu.version_r")
            self.tags = [(tag.entry.d_tag, tag.entry.d_val) for tag in dynamic.iter_tags()]
            self.needed = [tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"]
            symbols = list(table.iter_symbols())[1:]
            self.defined = [s.name for s in symbols if s["st_shndx"] != "SHN_UNDEF"]
            self.undefined = [s.name for s in symbols if s["st_shndx"] == "SHN_UNDEF"]
            self.bindings = {s["st_info"]["bind"] for s in symbols}
            self.versions = [(a.name, v.name) for a, group in versions.iter_versions() for v in group]
            self.segments = {s["p_type"]: s["p_flags"] for s in elf.iter_segments()}
            self.sections = [s.name for s in elf.iter_sections()]


@pytest.fixture(scope="module", params=RELU)
def library(relu: Built, request: pytest.FixtureRequest) -> Library:
    [path] = (relu.build / request.param).glob("*.so")
    return Library(path)


def test_versions_of_symbols_are_those_of_old_systems(library: Library) -> None:
    assert library.versions
    for file, version in library.versions:
        family, _, number = version.partition("_")
        assert family in _MAX_SYMBOL_VERSIONS, (file, version)
        assert tuple(map(int, number.split("."))) <= _MAX_SYMBOL_VERSIONS[family], (file, version)


def test_needs_nothing_that_torch_does_not_bring(library: Library) -> None:
    assert [name for name in library.needed if not _NEEDED.fullmatch(name)] == []
    family = parse(library.path.parent.name).family
    assert ("libcudart.so.13" in library.needed, "libamdhip64.so.7" in library.needed) == (
        family == "cuda",
        family == "rocm",
    )


def test_searches_nowhere(library: Library) -> None:
    assert {tag for tag, _ in library.tags} & {"DT_RPATH", "DT_RUNPATH", "DT_TEXTREL", "DT_SONAME"} == set()


def test_exports_its_entry_point_only(library: Library) -> None:
    assert library.defined == [f"PyInit_{library.path.name.removesuffix('.abi3.so')}"]


def test_has_no_unique_symbols(library: Library) -> None:
    assert "STB_LOOS" not in library.bindings
    assert library.bindings <= {"STB_GLOBAL", "STB_WEAK"}


def test_is_hardened(library: Library) -> None:
    executable = 1
    assert not library.segments["PT_GNU_STACK"] & executable
    assert "PT_GNU_RELRO" in library.segments
    flags = dict(library.tags)
    bind_now, now = 8, 1
    assert flags.get("DT_FLAGS", 0) & bind_now or flags.get("DT_FLAGS_1", 0) & now or "DT_BIND_NOW" in flags
    assert [name for name in library.sections if name.startswith(".debug")] == []


def test_uses_the_limited_python_api_only(library: Library) -> None:
    assert [name for name in library.undefined if name.startswith(("Py", "_Py"))] == ["PyModule_Create2"]


def _device_code(data: bytes) -> Iterator[tuple[int, int]]:
    """Kind and architecture of each part of each fat binary."""
    at = 0
    while (at := data.find(_FATBIN_MAGIC, at)) >= 0:
        _, _, header, size = struct.unpack_from("<IHHQ", data, at)
        at += header
        end = at + size
        while at < end:
            kind, _, header, size = struct.unpack_from("<HHIQ", data, at)
            (arch,) = struct.unpack_from("<I", data, at + 28)
            yield kind, arch
            at += header + size


def test_has_device_code_for_exactly_the_declared_capabilities(library: Library) -> None:
    backend = json.loads((library.path.parent / "metadata.json").read_text())["backend"]
    if backend["type"] == "rocm":
        assert [code_object.named for code_object in code_objects(library.data)] == sorted(
            backend["archs"], key=arch_order
        )
        return
    declared = set()
    for capability in backend.get("archs", []):
        arch = int(capability.removesuffix("+PTX").replace(".", ""))
        declared |= {(_ELF, arch)} | ({(_PTX, arch)} if capability.endswith("+PTX") else set())
    assert bool(declared) == (backend["type"] == "cuda")
    assert set(_device_code(library.data)) == declared


def test_nothing_of_the_machine_is_inside(relu: Built) -> None:
    leaks = [*_LEAKS, bytes(relu.driver.root), bytes(relu.driver.output)]
    leaks += [name.encode() for name in (socket.gethostname(), Path.home().name) if len(name) > 5]
    for path in relu.build.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert [leak for leak in leaks if leak in content] == [], path
