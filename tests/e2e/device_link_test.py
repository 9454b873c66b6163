"""Device code of several sources: the same as what nvcc links of them, and what is linked again after which change."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from clone import (
    BINDING,
    CU130,
    PROJECTS,
    Built,
    Driver,
    action_counts,
    copy_project,
    cuda_actions,
    digests,
    make_cache,
    planned,
)
from dry_runs import expect_known_commands
from halves import sdks

pytestmark = pytest.mark.e2e

_LINK = 3
"""The actions that link: one for each of two architectures, and what registers the result."""
_SOURCE = cuda_actions(2)
_EVERY = 3 * _SOURCE + cuda_actions(1) + _LINK + BINDING
_MONOLITHIC = "--//rules/settings:cuda_compile=monolithic"
_ALLOCATED = 2
_NOBITS = 8
_OTHERS = ("torch25-cxx11-cu118", "torch25-cxx11-cu124", "torch213-cxx11-cu132", "torch215-cxx11-cu135")


@pytest.fixture(scope="module")
def linked(clone: Driver) -> Built:
    project = copy_project(PROJECTS / "linked", clone.root / "examples" / "linked")
    clone.run("gen", project)
    return Built(driver=clone, project=project, result=clone.build(project, CU130))


class _Section(NamedTuple):
    name: str
    kind: int
    flags: int
    size: int
    content: bytes


def _loaded(library: bytes) -> list[_Section]:
    return [section for section in _sections(library) if section.flags & _ALLOCATED]


def _sections(elf: bytes) -> list[_Section]:
    """The sections of a file, but for the notes of its makers' options; layout: System V ABI, chapter 4."""
    (start,) = struct.unpack_from("<Q", elf, 40)
    count, names = struct.unpack_from("<HH", elf, 60)
    headers = [struct.unpack_from("<IIQQQQ", elf, start + 64 * i) for i in range(count)]
    found = []
    for name, kind, flags, _, offset, size in headers:
        at = headers[names][4] + name
        title = elf[at : elf.index(b"\0", at)].decode()
        if not title.startswith(".note.nv.tkinfo"):
            content = b"" if kind == _NOBITS else elf[offset : offset + size]
            found.append(_Section(title, kind, flags, size, content))
    return found


def _files(clone: Driver, label: str, targets: str, *options: str) -> list[Path]:
    """What targets that a variant is linked from have made for it."""
    query = f'filter(":({targets})$", deps({label}))'
    lines = clone.bazel("cquery", *options, "--output=files", query).splitlines()
    root = Path(clone.bazel("info", "execution_root").strip())
    return [root / line for line in lines]


def _library(clone: Driver, label: str, *options: str) -> bytes:
    clone.bazel("build", *options, label)
    [library] = clone.place(label, *options).glob("*.so")
    return library.read_bytes()


def _expect_what_nvcc_links(clone: Driver, variant: str, package: str, directory: Path, *options: str) -> None:
    """nvcc itself links the objects that it made as a whole; each phase an action, the result is the same."""
    label = f"//examples/{package}:{variant}"
    split = _library(clone, label)
    [linked] = [path for path in _files(clone, label, "device_link.*") if path.name == "linked.o"]
    ours = {path.parent.name: _sections(path.read_bytes()) for path in linked.parent.glob("*/linked.cubin")}
    assert sorted(ours) == ["80", "90"]
    whole = _library(clone, label, _MONOLITHIC)
    assert _loaded(split) == _loaded(whole)
    # In the order in which they are linked: nvlink writes sections in it.
    objects = sorted(_files(clone, label, "curve|nested", _MONOLITHIC))
    assert len(objects) == (2 if _version(variant) < "13" else 3)
    for name in ("_relocatable", "_device_link"):
        expect_known_commands(clone, _version(variant), directory, name)
    cuda, host = sdks(clone, _version(variant))
    archs = [f"-gencode=arch=compute_{number},code=sm_{number}" for number in sorted(ours)]
    command: list[str | Path] = [
        cuda / "bin" / "nvcc",
        "-ccbin",
        host / "clang++",
        "-Xcompiler=-fPIC",
        "--keep",
        *archs,
    ]
    command += [*options, f"-L{cuda}/lib", "-dlink", *objects, "-o", "theirs.o"]
    subprocess.run(command, cwd=directory, env={"PATH": "/nonexistent", "LANG": "C"}, check=True)
    for number, sections in ours.items():
        [theirs] = directory.glob(f"theirs.compute_{number}*.cubin")
        assert sections == _sections(theirs.read_bytes())
    registered = re.findall(r"^DEFINE_REGISTER_FUNC\((\w+)\)", (directory / "theirs.reg.c").read_text(), re.MULTILINE)
    assert sorted(registered) == sorted(name.decode() for name in re.findall(rb"def (_\w+)\0", split))


def _version(variant: str) -> str:
    """The CUDA release of `torch213-cxx11-cu130`."""
    number = variant.partition("-cu")[2].split("-")[0]
    return f"{number[:2]}.{number[2:]}"


@pytest.mark.slow
def test_device_code_is_what_nvcc_links(linked: Built, tmp_path: Path) -> None:
    _expect_what_nvcc_links(linked.driver, CU130, "linked", tmp_path, "-maxrregcount=32")


@pytest.mark.slow
@pytest.mark.parametrize("variant", _OTHERS)
def test_device_code_is_what_every_nvcc_links(linked: Built, variant: str, tmp_path: Path) -> None:
    name = f"{variant}-x86_64-linux"
    _expect_what_nvcc_links(linked.driver, name, "linked", tmp_path, "-maxrregcount=32")


@pytest.mark.slow
@pytest.mark.parametrize("variant", [CU130, f"{_OTHERS[2]}-x86_64-linux"])
def test_optimized_device_code_is_what_nvcc_links(linked: Built, variant: str, tmp_path: Path) -> None:
    package = f"optimized{_version(variant).replace('.', '_')}"
    project = copy_project(linked.project, linked.project.with_name(package))
    manifest = project / "build.toml"
    text = re.sub(r'"-(rdc=true|dc)", "-maxrregcount=32"', '"-dlto", "-lineinfo"', manifest.read_text())
    manifest.write_text(text)
    linked.driver.run("gen", project)
    _expect_what_nvcc_links(linked.driver, variant, package, tmp_path, "-dlto")


def test_linking_is_counted_and_done_once(linked: Built) -> None:
    assert action_counts(linked.result) == (_EVERY, 0, 0)
    assert planned(linked.result) == (_EVERY, 0, 0)
    again = linked.driver.build(linked.project, CU130)
    assert action_counts(again) == planned(again) == (0, 0, _EVERY)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "edit", "ran"),
    [
        # Every action of the source runs, and all that link. The text of the binding gets the new id.
        ("curve.cu", ("return x * table[i % 8];", "return x * table[i % 8] + 1.0f;"), _SOURCE + _LINK + 1),
        ("alone.cu", ("values[i] *= 2.0f;", "values[i] *= 4.0f;"), _SOURCE + 1),
    ],
)
def test_a_change_links_what_it_is_part_of(
    linked: Built, base: Path, name: str, edit: tuple[str, str], ran: int
) -> None:
    project = copy_project(linked.project, base / "linked" / name)
    linked.driver.build(project, CU130)
    source = project / "csrc" / name
    text = source.read_text()
    assert edit[0] in text
    source.write_text(text.replace(*edit))
    result = linked.driver.build(project, CU130)
    assert action_counts(result) == (ran, 0, _EVERY - ran)
    assert planned(result)[0] >= ran


@pytest.mark.slow
def test_linked_device_code_is_the_same_in_another_directory(linked: Built, base: Path, tmp_path: Path) -> None:
    here = base / "linked-output" / "a" / "deeper"
    links = {name: linked.driver.cache / name for name in ("bazel", "store", "venvs")}
    cache = make_cache(here / "cache", links)
    there = Driver(command=linked.driver.command, root=linked.driver.root, cache=cache, output=here / "output")
    for flag in ("-rdc=true", "-dlto"):
        project = copy_project(linked.project, base / "linked-here" / flag)
        manifest = project / "build.toml"
        manifest.write_text(re.sub(r'"-(rdc=true|dc)", "-maxrregcount=32"', f'"{flag}", "-g"', manifest.read_text()))
        linked.driver.run("gen", project)
        linked.driver.build(project, CU130)
        other = copy_project(project, base / "other" / "place" / tmp_path.name / flag)
        shutil.rmtree(other / "build", ignore_errors=True)
        assert action_counts(there.build(other, CU130))[0] > 0
        assert digests(other / "build") == digests(project / "build")
