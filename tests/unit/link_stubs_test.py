"""toolchains/cc/link_stubs.py: what the stubs of libraries define, and what is said where one cannot be made."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

SCRIPT = Path(__file__).parents[2] / "toolchains" / "cc" / "link_stubs.py"
TABLE = "CUDA 13.0\n[libone.so.1] one 1.0 00\nfirst\nsecond\n[libtwo.so] two 2.0 11\nthird\n"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("link_stubs", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, loaded)
    spec.loader.exec_module(loaded)
    return loaded


def zig(directory: Path, text: str) -> str:
    """A program in place of zig that shows how it was called."""
    program = directory / "zig"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return str(program)


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", "-B", str(SCRIPT), *arguments]
    return subprocess.run(command, cwd=place, check=False, capture_output=True, text=True)


def test_a_table_has_the_symbols_of_each_library(module: ModuleType) -> None:
    assert module.defined(TABLE) == {"libone.so.1": ["first", "second"], "libtwo.so": ["third"]}
    assert module.defined("CUDA 13.0\n") == {}


def test_the_source_defines_each_symbol_as_a_function(module: ModuleType) -> None:
    lines = [".text", ".globl f", ".type f, @function", "f:", ".globl g", ".type g, @function", "g:", ""]
    assert module.assembly(["f", "g"]).split("\n") == lines


def test_each_library_is_compiled_and_linked_with_its_symbols_and_nothing_else_is_left(tmp_path: Path) -> None:
    (tmp_path / "symbols").write_text(TABLE)
    # Compiled: the target and the source. Linked: the name and what was compiled.
    compiler = zig(
        tmp_path, 'if [ $1 = clang ]; then { echo "$2"; cat "$4"; } >"$6"; else { echo "$5"; cat "$6"; } >"$8"; fi'
    )
    done = run(tmp_path, compiler, "x86_64-linux-gnu", "lib", "symbols", "libtwo.so", "libnone.so")
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in (tmp_path / "lib").iterdir()) == ["libnone.so", "libtwo.so"]
    head = "{}\n--target=x86_64-linux-gnu\n.text\n"
    assert (tmp_path / "lib/libnone.so").read_text() == head.format("libnone.so")
    symbols = ".globl third\n.type third, @function\nthird:\n"
    assert (tmp_path / "lib/libtwo.so").read_text() == head.format("libtwo.so") + symbols


def test_a_linker_that_fails_is_shown_with_its_words(tmp_path: Path) -> None:
    compiler = zig(tmp_path, 'if [ $1 = ld.lld ]; then echo "no room" >&2; exit 3; fi')
    done = run(tmp_path, compiler, "aarch64-linux-gnu", "lib", "", "libone.so.1")
    assert done.returncode == 1
    assert f"{compiler} ld.lld -shared" in done.stderr
    assert done.stderr.endswith("no room\n\n")
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "lib").iterdir())
