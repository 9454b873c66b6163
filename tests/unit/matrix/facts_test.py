"""The facts that Starlark and the driver share, and what a further backend takes besides a row of them."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tree import write_files

from py_driver.actions.phases import phases
from py_driver.errors import Code, DriverError
from py_driver.matrix import facts as facts_module
from py_driver.matrix.backends import BUILT
from py_driver.matrix.facts import facts

ROOT = Path(__file__).parents[3]
FILES = sorted(path.stem for path in (ROOT / "rules" / "facts").glob("*.bzl"))

ROW = """
    "xpu": {
        "defines": ["USE_XPU=1"],
        "device_arch": "architecture",
        "dispatch_keys": ["XPU"],
        "example": "pvc",
        "flags": "sycl_flags",
        "languages": {"sycl": "SYCL"},
        "macro": "XPU_KERNEL",
        "newer_toolkits": True,
        "prefix": "xpu",
        "rewriter": "",
        "title": "oneAPI",
        "torch_attribute": "xpu",
        "torch_build": "+xpu",
        "torch_libraries": ["libtorch_xpu.so"],
        "way": "sycl",
    },
}
"""
PHASES = """
    "SyclCompile": {
        "archs": "all",
        "memory": [400, 800, 1200],
        "seconds": [3.0, 6.0, 9.0],
        "ways": ["sycl"],
        "work": "the device compile",
    },
}
"""
MODULE = '''
"""Intel's GPUs."""

from typing import ClassVar

from py_driver.matrix.backends.backend import Backend


class Xpu(Backend):
    """Intel's GPUs."""

    family: ClassVar[str] = "xpu"
    compiler: ClassVar[str] = "icpx"
    digits: ClassVar[str] = r"(\\d{4})(\\d)"
    example: ClassVar[str] = "2025.3"
    arch: ClassVar[str] = r"pvc|bmg"
    defaults: ClassVar[str] = "default-archs"
'''
RELEASES = """
[[xpu]]
version = "2025.3"
archs = ["bmg", "pvc"]
default-archs = ["bmg", "pvc"]
host = "0.14.1"
runtime = "libsycl.so.8"
run-here = true
archives = []
"""
PROJECT = {
    "build.toml": """\
[general]
name = "far"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cpu", "xpu"]
[torch]
src = ["torch-ext/binding.cpp"]
[kernel.near]
backend = "cpu"
depends = []
src = ["near.cpp"]
[kernel.far]
backend = "xpu"
depends = ["torch"]
src = ["far.sycl"]
""",
    "torch-ext/binding.cpp": '#include "registration.h"\nREGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n',
    "torch-ext/far/__init__.py": "",
    "near.cpp": "",
    "far.sycl": "#include <torch/all.h>\n",
}


@pytest.mark.parametrize("file", FILES)
def test_a_file_is_literals_after_its_description(file: str) -> None:
    first, *others = ast.parse((ROOT / "rules" / "facts" / f"{file}.bzl").read_text(encoding="utf-8")).body
    assert isinstance(first, ast.Expr)
    assert all(isinstance(other, ast.Assign) for other in others)
    assert len(facts(file)) == len(others)


def test_each_row_has_all_facts_and_a_module() -> None:
    rows = facts("backends")["BACKENDS"]
    assert len({frozenset(row) for row in rows.values()}) == 1
    assert list(BUILT) == list(rows)


def test_each_way_of_a_phase_is_that_of_a_backend() -> None:
    ways = {way.partition("-")[0] for phase in phases().values() for way in phase.ways}
    assert ways == {backend.way for backend in BUILT.values()} | {"triton"}


@pytest.fixture(scope="module")
def further(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The driver with a further backend: a row of facts, a phase, a module with its line, and releases."""
    root = tmp_path_factory.mktemp("further")
    ignored = shutil.ignore_patterns("__pycache__", "client", "*.symbols")
    for name in ("py_driver", "rules/facts", "rules/private/policy", "toolchains"):
        shutil.copytree(ROOT / name, root / name, ignore=ignored)

    def edit(file: str, old: str, new: str) -> None:
        text = (root / file).read_text(encoding="utf-8")
        assert old in text
        (root / file).write_text(text.replace(old, new, 1), encoding="utf-8")

    edit("rules/facts/backends.bzl", "\n}\n", ROW)
    edit("rules/facts/phases.bzl", "\n}\n", PHASES)
    (root / "py_driver/matrix/backends/xpu.py").write_text(MODULE, encoding="utf-8")
    backends = "py_driver/matrix/backends/__init__.py"
    edit(backends, "import Rocm\n", "import Rocm\nfrom py_driver.matrix.backends.xpu import Xpu\n")
    edit(backends, "(Cpu, Cuda, Rocm)", "(Cpu, Cuda, Rocm, Xpu)")
    edit("toolchains/matrix.toml", '"cu132", "rocm72"]', '"cu132", "rocm72", "xpu20253"]')
    with (root / "toolchains/matrix.toml").open("a", encoding="utf-8") as matrix:
        matrix.write(RELEASES)
    (root / "toolchains/lock/xpu.json").write_text('{"2025.3": {"archives": []}}', encoding="utf-8")
    return root


def _driver(root: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "py_driver", *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


def test_a_further_backend_is_planned(further: Path) -> None:
    project = further / "project"
    write_files(project, PROJECT)
    name = "torch213-cxx11-xpu20253-x86_64-linux"
    _driver(further, "gen", str(project))
    text = (project / "BUILD.bazel").read_text(encoding="utf-8")
    [section] = [rule for rule in text.split("\n\n") if '    name = "far",' in rule]
    assert '    backend = "xpu",' in section
    assert 'archs={"xpu20253":["bmg","pvc",],},' in "".join(section.split())
    [variant] = [rule for rule in text.split("\n\n") if f'    name = "{name}",' in rule]
    assert '    backend = "xpu20253",' in variant
    assert '        ":far",' in variant
    [bundle] = [rule for rule in text.split("\n\n") if rule.startswith("kernel_bundle(")]
    assert f'":{name}"' in bundle
    planned = json.loads(_driver(further, "build", "--dry-run", "--json", "--variant", name, str(project)))
    binding = len([phase for phase in phases().values() if "cxx" in phase.ways])
    assert planned["plan"]["run"] == binding + 1
    assert planned["variants"][0]["archs"] == ["bmg", "pvc"]


@pytest.mark.parametrize("content", [None, b"", b"BACKENDS = {", b"BACKENDS = load()\n", b"# \xff\n"])
def test_a_file_that_is_missing_or_damaged_is_an_error_of_the_installation(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts_module, "module_root", lambda: tmp_path)
    file = tmp_path / "rules" / "facts" / "damaged.bzl"
    file.parent.mkdir(parents=True)
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(DriverError) as caught:
        facts("damaged")
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == [Code.SET_UP]
    assert str(file) in caught.value.diagnostics[0].message
