"""`driver build` on a terminal: what a user sees while it runs, after it, and after Ctrl-C."""

from __future__ import annotations

import os
import re
import sys
import time
from typing import TYPE_CHECKING

import pytest
from clone import CPU, PROJECTS, ROOT, copy_project
from terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

_ACTION = re.compile(r"  Compiling csrc/one\.cpp .*  \d+ s")
_BAR = re.compile(r"\[#* *\] \d+ of \d+ actions, about \d+ s left")
_COMMAND = [sys.executable, "-m", "py_driver", "build", "--torch=2.13", "--backend=cpu"]
_SECONDS = 300


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The tiny project, whose source takes some seconds and is in no cache."""
    made = copy_project(PROJECTS / "tiny", tmp_path / "tiny")
    with (made / "csrc" / "one.cpp").open("a", encoding="utf-8") as source:
        source.write(
            "template <unsigned N> struct Slow { static constexpr unsigned value = Slow<N - 1>::value * 3 + N; };\n"
            "template <> struct Slow<0> { static constexpr unsigned value = 1; };\n"
            f"constexpr unsigned long spin() {{ unsigned long x = {time.time_ns()}ul;\n"
            "  for (unsigned i = 0; i != 3000000; ++i) { x = x * 3 + i; }\n  return x; }\n"
            "static_assert(spin() != 7);\n"
        )
    manifest = made / "build.toml"
    text = manifest.read_text(encoding="utf-8")
    flags = 'src = ["csrc/one.cpp", "csrc/one.h"]\ncxx-flags = ["-fconstexpr-steps=1000000000"]'
    manifest.write_text(text.replace('src = ["csrc/one.cpp", "csrc/one.h"]', flags), encoding="utf-8")
    return made


def _seen(terminal: Terminal) -> bool:
    """Whether a user sees a compile action with its seconds, and the bar below it."""
    lines = terminal.shown()
    return bool(lines) and any(_ACTION.fullmatch(line) for line in lines) and bool(_BAR.fullmatch(lines[-1]))


def test_a_build(project: Path) -> None:
    with Terminal(160, 40) as terminal:
        program = terminal.start([*_COMMAND, str(project)], ROOT, os.environ)
        terminal.read_until(lambda: _seen(terminal) or program.poll() is not None, _SECONDS)
        assert program.poll() is None
        terminal.read_until(lambda: program.poll() is not None, _SECONDS)
        lines = terminal.shown()
        assert program.returncode == 0, lines
        assert lines[0].startswith("plan: 1 variant, 4 compile actions: at most ")
        table = [line for line in lines[1:] if not re.match(r"loading |1 variant not loaded ", line)]
        assert table[0].split() == ["variant", "size", "GPU", "archs", "run", "shared", "cached", "seconds"]
        assert [line.split()[0] for line in table[1:]] == [CPU, "total", "1"]
        assert terminal.screen.cursor.x == 0
        assert not terminal.screen.cursor.hidden


def test_an_error_stands_above(project: Path) -> None:
    with (project / "csrc" / "one.cpp").open("a", encoding="utf-8") as source:
        source.write("int broken() { return nothing; }\n")
    with Terminal(160, 40) as terminal:
        program = terminal.start([*_COMMAND, str(project)], ROOT, os.environ)
        terminal.read_until(lambda: program.poll() is not None, _SECONDS)
        lines = terminal.shown()
        assert program.returncode == 5, lines
        assert any(re.search(r"csrc/one\.cpp:\d+:\d+: error: .*'nothing'", line) for line in lines), lines
        assert any(line.startswith("error[E401]: ") for line in lines)
        assert not any(_BAR.search(line) or _ACTION.search(line) for line in lines)


def test_ctrl_c(project: Path) -> None:
    with Terminal(160, 40) as terminal:
        program = terminal.start([*_COMMAND, str(project)], ROOT, os.environ)
        terminal.read_until(lambda: _seen(terminal) or program.poll() is not None, _SECONDS)
        terminal.type(b"\x03")
        terminal.read_until(lambda: program.poll() is not None, _SECONDS)
        lines = terminal.shown()
        assert program.returncode == 130, lines
        assert lines[0].startswith("plan: ")
        assert lines[1:] == ["Stopping Bazel ...", "interrupted"]
        assert terminal.screen.cursor.x == 0
        assert not terminal.screen.cursor.hidden
