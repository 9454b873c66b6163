"""`driver diff` on pairs of wheels with one planted change each: breaks are found, other changes are no breaks."""

from __future__ import annotations

import functools
import json
import struct
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from py_driver import __main__
from py_driver.inspecting.call_breaks import breaks, op_call, python_call
from py_driver.inspecting.device_functions import device_functions
from py_driver.inspecting.recorded_symbols import Recorded
from py_driver.inspecting.release_changes import ReleaseChange, is_new_major, release_changes
from py_driver.inspecting.release_facts import LibraryFacts, ReleaseFacts, release_facts
from py_driver.matrix.releases import Releases
from py_driver.system.elf import Elf

RECORDED = Recorded(Releases())
NEW = "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
PYTHON = """
class Layer:
    def __init__(self, size, bias=True): ...
    def forward(self, x): ...
def relu(x, slope=0.1, *, out=None, **more): ...
def silu(x): ...
"""
OPS = ("relu(Tensor x, float slope=0.1, *, int n=1) -> Tensor", "silu(Tensor! out, Tensor x) -> ()")
SASS, PTX = 2, 1


@dataclass(frozen=True)
class Release:
    """What a wheel of the test has."""

    python: str = PYTHON
    ops: tuple[str, ...] = OPS
    exports: tuple[str, ...] = ("relu_entry", "silu_entry")
    takes: tuple[str, ...] = (NEW,)
    images: tuple[tuple[int, int], ...] = ((SASS, 80), (SASS, 90), (PTX, 90))
    library: str = "thing/_C.abi3.so"
    requires: str = "Requires-Python: >=3.10\nRequires-Dist: torch>=2.9\n"
    version: str = "1.0"
    glibc: str = ""
    registers: int = 32


def cubin(registers: int) -> bytes:
    """A cubin with the function `kernel`, which uses so many registers and 16 bytes of stack."""
    names = b"\0.nv.info\0kernel\0\0\0\0\0\0\0"
    symbols = bytes(24) + struct.pack("<IBBHQQ", 10, 0x12, 0, 1, 0, 0)
    attributes = struct.pack("<BBHIIBBHII", 4, 0x2F, 8, 1, registers, 4, 0x11, 8, 1, 16)
    parts, at, rows = [names, symbols, attributes], 64, [bytes(64)]
    for kind, name, link, part in zip((3, 2, 0x70000000), (0, 0, 1), (0, 1, 2), parts, strict=True):
        rows.append(struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, at, len(part), link, 0, 8, 0))
        at += len(part)
    head = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, at, 0, 64, 0, 0, 64, 4, 1)
    return head + b"".join(parts) + b"".join(rows)


def fatbin(images: tuple[tuple[int, int], ...], registers: int) -> bytes:
    """A fat binary with images of some kinds and architectures, as nvcc lays it out."""
    contents = {PTX: b".version", SASS: cubin(registers)}
    body = b"".join(
        struct.pack("<HHIQ", kind, 0x101, 64, len(contents[kind]))
        + bytes(12)
        + struct.pack("<I", arch)
        + bytes(32)
        + contents[kind]
        for kind, arch in images
    )
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


@functools.cache
def library(release: Release) -> bytes:
    """The library of a release, by gcc."""
    with tempfile.TemporaryDirectory() as work:
        source, path = Path(work, "source.c"), Path(work, "library.so")
        code = ",".join(map(str, fatbin(release.images, release.registers)))
        lines = [f"void {name}(void){{}}" for name in release.exports]
        lines += [f"void {name}(void);\nvoid call_{i}(void){{ {name}(); }}" for i, name in enumerate(release.takes)]
        lines += [f"const char op_{i}[] = {json.dumps(text)};" for i, text in enumerate(release.ops)]
        lines += [f'__attribute__((section(".nv_fatbin"), aligned(8))) const unsigned char fatbin[] = {{{code}}};']
        lines += [release.glibc]
        source.write_text("\n".join(lines))
        subprocess.run(["gcc", "-w", "-shared", "-fPIC", str(source), "-o", str(path)], check=True)
        return path.read_bytes()


def wheel(release: Release, directory: Path) -> Path:
    directory.mkdir()
    path = directory / f"thing-{release.version}-cp310-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("thing/__init__.py", release.python)
        if release.library:
            archive.writestr(release.library, library(replace(release, python="", library="", requires="", version="")))
        info = f"thing-{release.version}.dist-info/METADATA"
        archive.writestr(info, f"Metadata-Version: 2.1\nName: thing\nVersion: {release.version}\n{release.requires}")
    return path


def python(old: str, new: str) -> Release:
    assert old in PYTHON
    return Release(python=PYTHON.replace(old, new))


def op(old: str, new: str) -> Release:
    assert old in OPS[0]
    return Release(ops=(OPS[0].replace(old, new), OPS[1]))


BREAKS = {
    "a function is removed": ("function", python("def silu(x): ...", "")),
    "a parameter is removed": ("function", python("relu(x, slope=0.1, ", "relu(x, ")),
    "a parameter has another name": ("function", python("silu(x)", "silu(tensor)")),
    "parameters change places": ("function", python("self, size, bias=True", "self, bias=True, size=1")),
    "a parameter is new and required": ("function", python("silu(x)", "silu(x, slope)")),
    "a default is gone": ("function", python("bias=True", "bias")),
    "a default is another": ("function", python("slope=0.1", "slope=0.2")),
    "a parameter is a keyword only": ("function", python("slope=0.1, *,", "*, slope=0.1,")),
    "further keywords are refused": ("function", python(", **more", "")),
    "a method is removed": ("function", python("    def forward(self, x): ...\n", "")),
    "a method needs more": ("function", python("forward(self, x)", "forward(self, x, y)")),
    "an op is removed": ("op", Release(ops=OPS[:1])),
    "an op needs more": ("op", op("Tensor x,", "Tensor x, Tensor y,")),
    "an op takes another type": ("op", op("float slope=0.1", "int slope=1")),
    "an op returns something else": ("op", op("-> Tensor", "-> (Tensor, Tensor)")),
    "an op has another default": ("op", op("slope=0.1", "slope=0.2")),
    "an op mutates an argument": ("op", op("Tensor x", "Tensor(a!) x")),
    "an op's argument is a keyword only": ("op", op("float slope=0.1, *,", "*, float slope=0.1,")),
    "an export is removed": ("export", Release(exports=("relu_entry",))),
    "machine code is removed": ("architecture", Release(images=((SASS, 90), (PTX, 90)))),
    "PTX is removed": ("PTX", Release(images=((SASS, 80), (SASS, 90)))),
    "a newer torch is needed": ("loads with", Release(takes=(NEW, "torch_exception_get_what"))),
    "a newer glibc is needed": (
        "loads with",
        Release(glibc="int pthread_create(void*,void*,void*,void*);void t(void){pthread_create(0,0,0,0);}"),
    ),
    "one Python is needed": ("loads with", Release(library="thing/_C.cpython-312-x86_64-linux-gnu.so")),
    "a library is removed": ("library", Release(library="")),
    "another package is required": ("metadata", Release(requires=f"{Release.requires}Requires-Dist: more\n")),
    "a newer Python is required": (
        "metadata",
        Release(requires="Requires-Python: >=3.12\nRequires-Dist: torch>=2.9\n"),
    ),
}

KEEPS = {
    "a function is new": python("def silu(x): ...", "def silu(x): ...\ndef gelu(x): ..."),
    "a parameter is new and optional": python("silu(x)", "silu(x, slope=1)"),
    "a docstring is another": python("def silu(x): ...", 'def silu(x):\n    "Text."'),
    "an op is new": Release(ops=(*OPS, "gelu(Tensor x) -> Tensor")),
    "an op takes more types": op("int n=1", "SymInt n=1"),
    "an op takes None too": op("Tensor x", "Tensor? x"),
    "an op has an optional argument more": op("int n=1", "int n=1, bool fast=False"),
    "an op states its namespace": Release(ops=(f"thing::{OPS[0]}", OPS[1])),
    "an export is new": Release(exports=("relu_entry", "silu_entry", "gelu_entry")),
    "machine code is new": Release(images=((SASS, 80), (SASS, 90), (SASS, 100), (PTX, 90))),
    "a requirement is gone": Release(requires="Requires-Python: >=3.10\n"),
    "an extra requires more": Release(requires=f"{Release.requires}Requires-Dist: x; extra == 'a'\n"),
    "nothing changes": Release(),
}


MORE = """
import importlib
from typing import NamedTuple, overload
from .impl import *
from .impl import _hidden as shown
from thing.impl import gelu as absolute
from . import layers
if importlib:
    def maybe(x): ...
try:
    from .impl import tried
except ImportError:
    tried = None
alias = maybe
LIMIT = 3
async def later(x): ...
@overload
def many(x: int) -> int: ...
@overload
def many(x: str) -> str: ...
def many(x, y=1): ...
class Point(NamedTuple):
    x: int
    y: int = 0
class Derived(layers.Layer, Point):
    kind = 1
    @property
    def area(self): ...
    @staticmethod
    def of(x): ...
    def run(self, x, /, *rest): ...
"""
IMPL = """
def gelu(x, *args): ...
def _hidden(x): ...
def tried(x): ...
"""
LAYERS = """
__all__ = ["Layer"]
__all__ += ["Other"]
__all__.extend(["lazy"])
class Base:
    def apply(self, x): ...
class Layer(Base):
    def __call__(self, x): ...
class Other: ...
def __getattr__(name): ...
"""
AGAIN = """
import thing._private as _private
from dataclasses import dataclass, field
from . import _other
from ._C import bound
try_out = _private.try_out
deep = _other.deep
_LAZY = {"looked_up": "._private", "elsewhere": "far.away"}
def __getattr__(name):
    if name == "asked_for":
        return 1
    return __import__(_LAZY[name])
class Held:
    @classmethod
    def make(cls, a): ...
    def __init__(self, size):
        self.size = size
        self.register_buffer("scale", None)
class Empty: ...
@dataclass
class Wide(_private.Narrow):
    width: int = 1
    cache: dict = field(default_factory=dict)
class Inner(_private.Outer): ...
class Nest:
    class First:
        def run(self, x, y=1): ...
        @staticmethod
        def make(n): ...
        class Deep:
            level = 1
    class Second(First):
        async def wait(self, z): ...
    Far = _private.Far
    class Bare: ...
    class Hidden: ...
    class _Own:
        def own(self): ...
"""
PRIVATE = """
from dataclasses import dataclass
def try_out(x, y=1): ...
def looked_up(x): ...
@dataclass
class Narrow:
    height: int
class Root:
    def climb(self, x): ...
class Outer(Root): ...
class Far:
    def reach(self, q): ...
"""
DYNAMIC = """
__all__ = [name for name in dir() if not name.startswith("_")]
def listed(x): ...
"""
OPS_OF_PYTHON = """
import torch
@torch.library.custom_op("thing::mine", mutates_args=())
def mine(x: torch.Tensor, n: int = 1) -> torch.Tensor: ...
torch.library.define("thing::yours", "(Tensor x, int k=1) -> Tensor")
library = torch.library.Library("thing", "DEF")
library.define("theirs(Tensor x) -> Tensor")
"""
SOURCES = {"thing/__init__.py": MORE, "thing/impl.py": IMPL, "thing/layers.py": LAYERS, "alone.py": "def f(x): ...\n"}
SOURCES |= {"thing/again.py": AGAIN, "thing/_private.py": PRIVATE, "thing/_other.py": "def deep(x): ...\n"}
SOURCES |= {"thing/dynamic.py": DYNAMIC, "thing/_C.pyi": "def bound(x, y=1): ...\n", "thing/_ops.py": OPS_OF_PYTHON}
SOURCES |= {"thing-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n"}
SOURCES |= {"thing-1.0.dist-info/entry_points.txt": "[console_scripts]\nthing-run = thing:maybe\n"}
PYTHON_BREAKS = {
    "a name that a star brings": ("gelu(x, *args)", "_gelu(x, *args)"),
    "a further argument has a name": ("gelu(x, *args)", "gelu(x, y=1, *args)"),
    "a name under another one": ("_hidden(x)", "_hidden(y)"),
    "an absolute import": ("import gelu as absolute", "import gelu as other"),
    "a function under a condition": ("def maybe(x)", "def maybe(x, y)"),
    "an import that may fail": ("def tried(x)", "def tried(x, y)"),
    "an alias": ("alias = maybe", "alias_ = maybe"),
    "a value": ("LIMIT = 3", "_LIMIT = 3"),
    "a coroutine function": ("async def later", "def later"),
    "the function behind overloads": ("many(x, y=1)", "many(x)"),
    "a field of a named tuple": ("    y: int = 0", "    z: int = 0"),
    "a default of a field": ("    y: int = 0", "    y: int"),
    "a method of a base": ("def apply(self, x)", "def apply(self)"),
    "a method of a base is gone": ("def apply(self, x)", "def _apply(self, x)"),
    "a base": ("class Derived(layers.Layer, Point)", "class Derived(Point)"),
    "an attribute": ("    kind = 1", "    pass"),
    "a property": ("def area(self)", "def size(self)"),
    "a static method": ("def of(x)", "def of(y)"),
    "further arguments of a method": ("run(self, x, /, *rest)", "run(self, x, /)"),
    "a name of __all__": ('["Layer"]', "[]"),
    "a name that is added to __all__": ('+= ["Other"]', "+= []"),
    "a name that only __getattr__ knows": ('extend(["lazy"])', "extend([])"),
    "a special method": ("def __call__(self, x)", "def __call__(self, x, y)"),
    "a module beside packages": ("def f(x)", "def f()"),
    "a function becomes a value": ("def f(x): ...", "f = 1"),
    "a function of a private module by its full name": ("try_out(x, y=1)", "try_out(x)"),
    "a function of a private module by an attribute": ("def deep(x)", "def deep(x, y)"),
    "a name that is deleted": ("class Empty: ...", "class Empty: ...\ndel try_out"),
    "the function of a table of __getattr__": ("def looked_up(x)", "def looked_up(x, y)"),
    "a key of a table of __getattr__": (', "elsewhere": "far.away"', ""),
    "a name that __getattr__ compares with": ('name == "asked_for"', 'name == "_asked_for"'),
    "a class method": ("@classmethod\n    def make(cls, a)", "def make(self, a)"),
    "an attribute that __init__ sets": ("self.size = size", "self._size = size"),
    "a buffer": ('"scale"', '"_scale"'),
    "a class has an argument": ("class Empty: ...", "class Empty:\n    def __init__(self, x): ..."),
    "a field of a private base": ("    height: int", "    height: int\n    depth: int"),
    "a default of field()": (" = field(default_factory=dict)", " = field()"),
    "fields are keywords only": ("@dataclass\nclass Wide", "@dataclass(kw_only=True)\nclass Wide"),
    "a method of a base in another module": ("def climb(self, x)", "def climb(self)"),
    "a name behind an __all__ that is computed": ("def listed(x)", "def _listed(x)"),
    "a signature of a stub": ("def bound(x, y=1)", "def bound(x)"),
    "an op of Python by its function": ("def mine(x: torch.Tensor, n: int = 1)", "def mine(x: torch.Tensor)"),
    "an op of Python by its schema": ("int k=1", "int j=1"),
    "an op of a library of Python": ("theirs(Tensor x) ->", "theirs(Tensor x, Tensor y) ->"),
    "an op of Python is removed": ('library.define("theirs(Tensor x) -> Tensor")', "pass"),
    "a method of a class in a class": ("def run(self, x, y=1)", "def run(self, x)"),
    "a static method of a class in a class": ("def make(n)", "def make(m)"),
    "an attribute of a class in a class in a class": ("            level = 1", "            pass"),
    "a base beside it in a class": ("class Second(First)", "class Second"),
    "a coroutine function of a class in a class": ("async def wait(self, z)", "def wait(self, z)"),
    "a method of a class that another has under a name": ("def reach(self, q)", "def reach(self)"),
    "a class in a class has an argument": ("class Bare: ...", "class Bare:\n        def __init__(self, x): ..."),
    "a class in a class is gone": ("class Hidden: ...", "class _Hidden: ..."),
    "a class in a class becomes a value": ("class Hidden: ...", "Hidden = 1"),
    "a command": ("thing-run =", "thing-go ="),
}
PYTHON_KEEPS = {
    "a parameter by place has another name": ("run(self, x, /, *rest)", "run(self, y, /, *rest)"),
    "a method moves to a base": ("class Layer(Base):\n    def __call__(self, x): ...", "class Layer(Base): ..."),
    "a private function": ("class Other: ...\ndef __getattr__", "class Other: ...\ndef _other"),
    "a method becomes a class method": ("    def climb(self, x)", "    @classmethod\n    def climb(cls, x)"),
    "an empty class gets an optional argument": (
        "class Empty: ...",
        "class Empty:\n    def __init__(self, x=1): ...",
    ),
    "an op of Python has an optional argument more": ("int k=1", "int k=1, int j=1"),
    "a class in a class moves out": ("    class Bare: ...", "    Bare = Empty"),
    "a private class in a class": ("def own(self)", "def own(self, x)"),
    "a class in a class has an optional argument more": ("make(n)", "make(n, m=1)"),
    "an overload": ("def many(x: str) -> str", "def many(x: bytes) -> bytes"),
}


def python_wheel(directory: Path, old: str = "", new: str = "") -> Path:
    """A wheel of Python files, in which a text is another."""
    directory.mkdir()
    path = directory / "thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in SOURCES.items():
            changed = text.replace(old, new) if old else text
            if "def __call__" in old and "Layer(Base): ..." in new:
                changed = changed.replace(
                    "def apply(self, x): ...", "def apply(self, x): ...\n    def __call__(self, x): ..."
                )
            archive.writestr(name, changed)
    return path


@pytest.mark.parametrize("name", PYTHON_BREAKS)
def test_a_planted_break_of_python_is_found(name: str, tmp_path: Path) -> None:
    old, new = PYTHON_BREAKS[name]
    assert sum(text.count(old) for text in SOURCES.values()) == 1
    pair = python_wheel(tmp_path / "old"), python_wheel(tmp_path / "new", old, new)
    assert __main__.main(["diff", *map(str, pair), "--breaking"]) == 1


@pytest.mark.parametrize("name", PYTHON_KEEPS)
def test_a_change_of_python_that_breaks_nobody_is_no_break(name: str, tmp_path: Path) -> None:
    pair = python_wheel(tmp_path / "old"), python_wheel(tmp_path / "new", *PYTHON_KEEPS[name])
    assert __main__.main(["diff", *map(str, pair), "--breaking"]) == 0


def test_packages_of_one_wheel_are_apart(tmp_path: Path) -> None:
    for name, text in (("old", "def f(x): ...\n"), ("new", "def f(x, y): ...\n")):
        (tmp_path / name / "a").mkdir(parents=True)
        (tmp_path / name / "b").mkdir()
        (tmp_path / name / "a" / "__init__.py").write_text(text)
        (tmp_path / name / "b" / "__init__.py").write_text("def f(x): ...\n")
    assert __main__.main(["diff", str(tmp_path / "old"), str(tmp_path / "new"), "--breaking"]) == 1


def test_an_installed_package_is_compared_with_its_wheel(tmp_path: Path) -> None:
    path = python_wheel(tmp_path / "old")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "site")
    changes = _changes(path, tmp_path / "site" / "thing")
    assert {change.kind for change in changes if change.subject != "alone.f"} == {"metadata"}
    assert [change.subject for change in changes if change.breaking] == ["alone.f"]


def _changes(old: Path, new: Path) -> list[ReleaseChange]:
    return release_changes(release_facts(old, RECORDED), release_facts(new, RECORDED))


@pytest.mark.parametrize("text", ["[]", "{", "3", '"\\ud800"'])
def test_a_file_of_another_program_with_the_name_is_no_metadata(tmp_path: Path, text: str) -> None:
    (tmp_path / "thing").mkdir()
    (tmp_path / "thing" / "__init__.py").write_text("def f(x): ...\n")
    (tmp_path / "thing" / "metadata.json").write_text(text)
    assert __main__.main(["diff", str(tmp_path), str(tmp_path), "--breaking"]) == 0


@pytest.mark.parametrize("name", BREAKS)
def test_a_planted_break_is_found(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind, changed = BREAKS[name]
    old, new = wheel(Release(), tmp_path / "old"), wheel(changed, tmp_path / "new")
    assert __main__.main(["diff", str(old), str(new), "--breaking", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert kind in {change["kind"] for change in found["changes"]}
    assert found["breaking"] == len(found["changes"])


@pytest.mark.parametrize("name", KEEPS)
def test_a_change_that_breaks_nobody_is_no_break(name: str, tmp_path: Path) -> None:
    old, new = wheel(Release(), tmp_path / "old"), wheel(KEEPS[name], tmp_path / "new")
    facts = [release_facts(path, RECORDED) for path in (old, new)]
    changes = release_changes(*facts)
    assert [change for change in changes if change.breaking] == []
    assert bool(changes) == (name not in {"nothing changes", "a docstring is another", "an op states its namespace"})


def test_a_new_major_version_may_break(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = wheel(Release(), tmp_path / "old")
    new = wheel(replace(python("def silu(x): ...", ""), version="2.0"), tmp_path / "new")
    assert __main__.main(["diff", str(old), str(new), "--breaking"]) == 0
    assert "which a new major version may do" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "major"),
    [("1.2", "2.0", True), ("0.1", "0.2", True), ("1.2", "1.3", False), ("2.0", "1.0", False), ("", "2", False)],
)
def test_a_major_version_is_that_of_semver(old: str, new: str, *, major: bool) -> None:
    assert is_new_major(old, new) is major


def test_registers_of_device_functions_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    functions = [*device_functions(Elf(library(Release(images=((SASS, 80),)))))]
    assert functions == [("kernel", "8.0", (32, 16))]
    old, new = wheel(Release(), tmp_path / "old"), wheel(Release(registers=40), tmp_path / "new")
    assert __main__.main(["diff", str(old), str(new), "--breaking"]) == 0
    capsys.readouterr()
    assert __main__.main(["diff", str(old), str(new)]) == 0
    assert "40 registers, 16 bytes of stack" in capsys.readouterr().out


def test_a_call_is_compared_by_names_and_places() -> None:
    old, new = python_call("f(a, b, /, c=1)"), python_call("f(a, b, c=1, d=2)")
    assert old
    assert new
    assert [*breaks(old, new)] == []
    assert python_call("f(") is None
    assert op_call("no schema") is None


def test_what_is_no_release_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    broken = tmp_path / "broken.whl"
    broken.write_bytes(b"PK")
    for path, code in ((tmp_path / "empty", "E101"), (tmp_path / "none", "E101"), (broken, "E103")):
        assert __main__.main(["diff", str(path), str(path)]) not in {0, 1, 70}
        assert code in capsys.readouterr().err


def test_a_variant_for_the_stable_abi_stands_for_those_that_it_replaces() -> None:
    def facts(loads: set[str]) -> LibraryFacts:
        empty = frozenset[str]()
        return LibraryFacts(1, empty, empty, empty, empty, empty, empty, {}, frozenset(loads))

    old = {f"torch2{n}-cxx11-cpu-x86_64-linux/_x_ID.so": facts({f"torch 2.{n} cxx11 cpu"}) for n in (13, 15)}
    name = "torch-stable-abi210-cpu-x86_64-linux/_x_ID.so"
    every = {f"torch 2.{n} cxx11 cpu" for n in range(10, 16)}
    changes = release_changes(ReleaseFacts("1", {}, old, {}), ReleaseFacts("1", {}, {name: facts(every)}, {}))
    assert [change for change in changes if change.breaking] == []
    fewer = facts(every - {"torch 2.13 cxx11 cpu"})
    changes = release_changes(ReleaseFacts("1", {}, old, {}), ReleaseFacts("1", {}, {name: fewer}, {}))
    assert [change.subject for change in changes if change.breaking] == [next(iter(old))]


def test_a_variant_of_python_files_is_missed() -> None:
    stated = {
        f"torch-{backend}/metadata.json {key}": '"x"' for backend in ("cpu", "cuda") for key in ("name", "license")
    }
    fewer = {key: value for key, value in stated.items() if "cuda" not in key}
    changes = release_changes(ReleaseFacts("1", {"f": "f()"}, {}, stated), ReleaseFacts("1", {"f": "f()"}, {}, fewer))
    assert [(change.subject, change.breaking) for change in changes if change.breaking] == [
        ("torch-cuda/metadata.json name", "the variant is removed")
    ]


@pytest.mark.parametrize("key", ["python-depends", "kernel-depends"])
def test_a_further_package_that_a_variant_needs_is_a_break(key: str) -> None:
    def of(value: str) -> ReleaseFacts:
        return ReleaseFacts("1", {}, {}, {f"torch-cpu/metadata.json {key}": value})

    assert [change.breaking for change in release_changes(of('["a"]'), of('["a", "b"]'))] == [
        "another package is required"
    ]
    assert [change.breaking for change in release_changes(of('["a", "b"]'), of('["a"]'))] == [""]


def test_no_facts_have_no_changes() -> None:
    assert release_changes(ReleaseFacts("", {}, {}, {}), ReleaseFacts("", {}, {}, {})) == []
