"""Types of two versions of a kernel are two types in one process, and are otherwise what the author wrote."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from clone import CPU, CU130, PROJECTS, copy_project
from elftools.elf.elffile import ELFFile

from py_driver.building.build import build
from py_driver.building.installed_torch import python_for
from py_driver.errors import DriverError
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e

_CLASSES = ["Named", "Hidden", "Box", "BoxOfHidden", "Native", "HiddenNative", "Local"]

_LOAD = """
import pathlib, sys, torch
from kernels import get_local_kernel
kernels = [get_local_kernel(pathlib.Path(path) / "build") for path in sys.argv[1:]]
"""
_CASE = f"""{_LOAD}
said = []
for kernel in kernels:
    ops = kernel._ops.ops
    counter = ops.make()
    said.append((ops.version(), counter.next(), ops.step(counter), getattr(torch.classes, ops.name).Counter().next()))
print(said)
"""
_TYPES = f"""{_LOAD}
said, objects = [], []
for kernel in kernels:
    ops, counted = kernel.ops, []
    for name in {_CLASSES}:
        made, created = getattr(ops, f"make_{{name}}")(), getattr(kernel.classes, name)()
        counted += [made.next(), getattr(ops, f"step_{{name}}")(made), created.next()]
    objects.append(ops.make_Named())
    raised = []
    for how in ("own", "value", "index", "other"):
        try:
            ops.fail(how)
        except Exception as error:
            raised.append((type(error).__name__, str(error).splitlines()[0]))
    said.append((counted, ops.wrong(), [ops.value_of(one) for one in objects], raised))
print(said)
for kernel in kernels:
    other = next(one for one in kernels if one is not kernel)
    try:
        kernel.ops.step_Named(other.ops.make_Named())
    except RuntimeError as error:
        print("refused")
"""


@pytest.fixture(scope="module")
def python() -> str:
    return python_for([parse(CPU)], Releases(), Output())


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two versions of a kernel with types of all kinds, built for the CPU; the first also for CUDA."""
    place = tmp_path_factory.mktemp("types")
    projects = [copy_project(PROJECTS / "types", place / f"v{version}") for version in (1, 2)]
    header = projects[1] / "csrc" / "types.h"
    header.write_text(header.read_text().replace("#define VERSION 1", "#define VERSION 2"))
    for project, variants in zip(projects, ([CPU, CU130], [CPU]), strict=True):
        build(project, variants, Releases(), Output())
    return projects


def _say(python: str, program: str, *paths: Path) -> list[str]:
    env = curated(extra={"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"})
    command = [python, "-c", program, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def _expected(version: int, before: int) -> Any:  # noqa: ANN401  (what the program prints)
    counted = [100 * version + 1, 100 * version + 2, 100 * version + 1]
    raised = [
        ("RuntimeError", f"a failure of {version}"),
        ("ValueError", "a bad value"),
        ("IndexError", "a bad index"),
        ("RuntimeError", "an error"),
    ]
    return (counted * len(_CLASSES), "", [-1] * before + [100 * version], raised)


def test_classes_of_two_versions_do_not_meet(python: str, tmp_path: Path) -> None:
    projects = [copy_project(PROJECTS / "torchbind-two-versions" / name, tmp_path / name) for name in ("v1", "v2")]
    for project in projects:
        build(project, [CPU], Releases(), Output())
    first, second = (1, 101, 102, 101), (2, 201, 202, 201)
    assert ast.literal_eval(_say(python, _CASE, *projects)[0]) == [first, second]
    assert ast.literal_eval(_say(python, _CASE, *reversed(projects))[0]) == [second, first]
    # Something else has linked the second one, so its types have the names that compilers give them.
    plain = shutil.copytree(projects[1], tmp_path / "plain")
    [library] = (plain / "build" / CPU).glob("*.abi3.so")
    content, count = re.subn(rb"\*([^\0]*)B\d+%b([^\0]*)\0" % _id(plain).encode(), _without_tag, library.read_bytes())
    assert count > 0
    library.write_bytes(content)
    mixed = [projects[0], plain]
    assert ast.literal_eval(_say(python, _CASE, *mixed)[0]) == [first, second]
    assert ast.literal_eval(_say(python, _CASE, *reversed(mixed))[0]) == [second, first]


def _id(project: Path) -> str:
    """The id of a kernel that was built for the CPU."""
    return str(json.loads((project / "build" / CPU / "metadata.json").read_text())["id"])


def _without_tag(name: re.Match[bytes]) -> bytes:
    """The name of a type as a compiler writes it, in the same place."""
    return (name[1] + name[2]).ljust(len(name[0]), b"\0")


@pytest.mark.slow
def test_types_of_all_kinds_do_not_meet(versions: list[Path], python: str) -> None:
    forward, *refused = _say(python, _TYPES, *versions)
    assert ast.literal_eval(forward) == [_expected(1, 0), _expected(2, 1)]
    assert refused == ["refused", "refused"]
    backward, *refused = _say(python, _TYPES, *reversed(versions))
    assert ast.literal_eval(backward) == [_expected(2, 0), _expected(1, 1)]
    assert refused == ["refused", "refused"]


def _type_names(library: Path) -> Iterator[tuple[str, str]]:
    """Of each type that a library has a name of: its mangled name, and the name as it stands there."""
    with library.open("rb") as file:
        elf = ELFFile(file)
        symbols: Any = elf.get_section_by_name(".symtab")
        for symbol in symbols.iter_symbols():
            index = symbol["st_shndx"]
            if symbol.name.startswith("_ZTS") and isinstance(index, int):
                section = elf.get_section(index)
                data = section.data()[symbol["st_value"] - section["sh_addr"] :]
                yield symbol.name.removeprefix("_ZTS"), data[: data.index(0)].decode()


def test_host_code_of_cuda_sources_has_own_types(versions: list[Path]) -> None:
    [library] = (versions[0] / "build" / CU130).glob("*.abi3.so")
    names = dict(_type_names(library))
    name = json.loads((library.parent / "metadata.json").read_text())["id"]
    tag = f"B{len(name)}{name}"
    assert names["5Named"] == f"*5Named{tag}"
    assert names["3BoxISt6vectorI5NamedSaIS1_EEE"] == f"*3Box{tag}ISt6vectorI5NamedSaIS1_EEE"
    assert names["St8functionIFvRK5Named4KindEE"] == f"*St8function{tag}IFvRK5Named4KindEE"
    assert names["N2at10TensorBaseE"] == "N2at10TensorBaseE"


_ELEMENT = """
struct Element {
  long value;
};
namespace caffe2 {
CAFFE_KNOWN_TYPE(Element)
}
"""


def test_no_own_type_becomes_a_type_of_elements(tmp_path: Path) -> None:
    project = copy_project(PROJECTS / "torchbind-two-versions" / "v1", tmp_path / "v1")
    with (project / "torch-ext" / "torch_binding.cpp").open("a") as file:
        file.write(_ELEMENT)
    with pytest.raises(DriverError, match="CAFFE_KNOWN_TYPE is not allowed for a type of the project"):
        build(project, [CPU], Releases(), Output())
