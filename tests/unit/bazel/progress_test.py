"""How far Bazel is: the lines as a pure function, and on a terminal."""

from __future__ import annotations

import io
import os
import shutil
import sys
import time
from pathlib import Path

import pytest
from clone import make_cache
from terminal import Terminal

from py_driver.bazel.console import Console
from py_driver.bazel.progress import Progress, Running, picture, seconds_left
from py_driver.errors import ExitCode
from py_driver.output import Output, Size, Task, cut
from py_driver.system.cache import cache_root

_ROOT = Path(__file__).parents[3]
_RELU = Running("Compiling csrc/relu.cu for 9.0", 12)
_GELU = Running("Compiling csrc/gelu.cu for 10.0", 75)
_UP = "\x1b[1A\x1b[K"


@pytest.mark.parametrize(
    ("progress", "size", "lines"),
    [
        (
            Progress(37, 60, (_RELU, _GELU), 20.4),
            Size(80, 24),
            [
                "  Compiling csrc/relu.cu for 9.0  12 s",
                "  Compiling csrc/gelu.cu for 10.0  1 min 15 s",
                "[############        ] 37 of 60 actions, about 20 s left",
            ],
        ),
        (Progress(0, 0), Size(80, 24), ["[                    ] 0 of 0 actions"]),
        (Progress(1204, 1204, (), 0.0), Size(36, 24), ["1,204 of 1,204 actions, about 0 s..."]),
        (Progress(1, 2, (_RELU,)), Size(24, 24), ["  Compiling csr...  12 s", "[###    ] 1 of 2 actions"]),
        (Progress(1, 2, (_RELU,)), Size(8, 24), ["..  12 s", "1 of ..."]),
        (Progress(1, 2, (_RELU,)), Size(2, 24), ["..", ".."]),
        (
            Progress(1, 9, (_RELU, _GELU, _RELU, _GELU)),
            Size(60, 8),
            [
                "  Compiling csrc/relu.cu for 9.0  12 s",
                "  Compiling csrc/gelu.cu for 10.0  1 min 15 s",
                "  and 2 more",
                "[##                  ] 1 of 9 actions",
            ],
        ),
        (
            Progress(0, 1, (Running("a\x1b[2Jb.cu", 0),)),
            Size(40, 24),
            ["  a\\u001b[2Jb.cu  0 s", "[" + " " * 20 + "] 0 of 1 actions"],
        ),
    ],
    ids=["two", "none", "no bar", "narrow", "very narrow", "two columns", "low", "escapes"],
)
def test_lines(progress: Progress, size: Size, lines: list[str]) -> None:
    assert picture(progress, size) == lines


@pytest.mark.parametrize("columns", range(1, 70))
def test_no_line_is_too_wide(columns: int) -> None:
    progress = Progress(37, 60, (_RELU, _GELU, Running("Compiling größe_大きい.cu", 3)), 20.0)
    for line in picture(progress, Size(columns, 24)):
        assert cut(line, columns) == line


def test_what_is_left() -> None:
    assert seconds_left(60, 0, 0, 10) == 60
    assert seconds_left(60, 30, 5, 10) == 30
    assert seconds_left(60, 100, 5, 10) == 50  # it takes longer than was planned
    assert seconds_left(60, 10, 10, 10) == seconds_left(60, 0, 0, 0) - 60 == 0


def _console(terminal: Terminal, planned: float = 0.0) -> tuple[Console, Output, Task]:
    output = Output(io.StringIO(), terminal.open(), {"TERM": "xterm"})
    task = Task(output, "building relu")
    task._is_due = lambda: True  # type: ignore[method-assign]  # noqa: SLF001  (every frame counts here)
    return Console(output, task, planned), output, task


def _show(terminal: Terminal) -> list[str]:
    while terminal.read():
        pass
    return terminal.shown()


def test_what_bazel_writes_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    with Terminal() as terminal:
        console, output, _ = _console(terminal, planned=30)
        console.feed("Analyzing: 2 targets (55 packages loaded)")
        assert _show(terminal) == ["building relu: analyzing 2 targets (55 packages loaded)  [0 s]"]
        console.feed("[21 / 1,028] 3 actions, 2 running")
        console.feed("    Compiling csrc/relu.cu for 9.0; 12s disk-cache, linux-sandbox")
        console.feed("    [Prepa] Compiling csrc/gelu.cu for 9.0")
        console.feed("    Compiling csrc/silu.cu; 3s disk-cache, linux-sandbox")
        bar = "[                    ] 21 of 1,028 actions, about 30 s left"
        two = ["  Compiling csrc/relu.cu for 9.0  12 s", "  Compiling csrc/silu.cu  3 s", bar]
        assert _show(terminal) == two
        output.warn("here")
        assert _show(terminal) == ["warning: here", *two]
        console.feed(f"\r{_UP}\r{_UP}\r{_UP}\r{_UP}WARNING: too")
        console.feed("[1,027 / 1,028] Linking //relu:a; 1s linux-sandbox")
        one = ["  Linking //relu:a  1 s", "[################### ] 1,027 of 1,028 actions, about 0 s left"]
        assert _show(terminal) == ["warning: here", "warning: too", *one]
        console.feed(f"\r{_UP}[1,028 / 1,028] no actions running")
        assert _show(terminal)[2:] == ["[####################] 1,028 of 1,028 actions, about 0 s left"]
        output.line("")
        output.say("done")
        assert _show(terminal) == ["warning: here", "warning: too", "done"]
        assert console.errors == ()
        assert not terminal.screen.cursor.hidden


def test_an_error_between_two_pictures_is_kept_whole() -> None:
    with Terminal() as terminal:
        console, _, _ = _console(terminal)
        for line in (
            "[1 / 4] 2 actions, 2 running",
            "    Compiling a.cc; 1s local",
            "    Compiling b.cc; 1s local",
            f"\r{_UP}\r{_UP}\r{_UP}ERROR: /w/BUILD.bazel:5:11: Compiling a.cc failed: (Exit 1): clang failed",
            "a.cc:1:2: error: no",
            "    1 | int a; 3s",
            "[2 / 4] 1 action running",
            "    Compiling b.cc; 2s local",
        ):
            console.feed(line)
        [block] = console.errors
        assert block.endswith("clang failed\na.cc:1:2: error: no\n    1 | int a; 3s")
        assert _show(terminal) == ["  Compiling b.cc  2 s", "[##########          ] 2 of 4 actions"]


def test_a_window_that_gets_narrower_is_not_wrapped() -> None:
    with Terminal(60, 10) as terminal:
        console, _, _ = _console(terminal)
        for columns in (60, 20, 40):
            terminal.resize(columns, 10)
            console.feed("[1 / 4] Compiling csrc/relu.cu for 9.0; 1s local")
            lines = _show(terminal)
            assert len(lines) == 2
            assert all(len(line) <= columns - 3 for line in lines)


def test_at_most_ten_pictures_a_second() -> None:
    with Terminal() as terminal:
        output = Output(io.StringIO(), terminal.open(), {"TERM": "xterm"})
        start = time.monotonic()
        with output.task("building") as task:
            console = Console(output, task)
            while time.monotonic() < start + 0.55:
                console.feed("[1 / 4] Compiling a.cc; 1s local")
        _show(terminal)
        assert 2 <= terminal.raw.count(b"1 of 4") <= 6


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {"TERM": "dumb", "CLICOLOR_FORCE": "1"}], ids=str)
def test_a_dumb_terminal_gets_plain_lines(environ: dict[str, str]) -> None:
    with Terminal() as terminal:
        output = Output(io.StringIO(), terminal.open(), environ)
        with output.task("building relu") as task:
            Console(output, task).feed("[1 / 4] Compiling a.cc; 1s local")
        assert _show(terminal) == ["building relu ..."]
        assert b"\x1b" not in terminal.raw


@pytest.mark.parametrize(
    ("environ", "coloured"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, False),
        ({"CLICOLOR": "0"}, False),
        ({"CLICOLOR": "0", "CLICOLOR_FORCE": "1"}, True),
        ({"CLICOLOR": "1"}, True),
        ({"TERM": "dumb"}, False),
    ],
    ids=str,
)
def test_colours_of_a_terminal(environ: dict[str, str], coloured: bool) -> None:  # noqa: FBT001  (of a table)
    with Terminal() as terminal:
        Output(io.StringIO(), terminal.open(), environ).warn("no")
        _show(terminal)
        assert (b"\x1b[33m" in terminal.raw) is coloured


@pytest.mark.parametrize(("force", "coloured"), [("1", True), ("0", False), ("", False)])
def test_colours_of_a_pipe(force: str, coloured: bool) -> None:  # noqa: FBT001  (of a table)
    err = io.StringIO()
    Output(io.StringIO(), err, {"CLICOLOR_FORCE": force}).warn("no")
    assert ("\x1b[33m" in err.getvalue()) is coloured


_BAZEL = """\
#!/bin/sh
test "$1" = --version && echo "bazel 7.7.1" && exit
case "$*" in *--curses=yes*) ;; *) exit 2 ;; esac
trap 'exit 8' INT
printf '[3 / 9] Compiling csrc/relu.cu for 9.0; 12s linux-sandbox\\n' >&2
while :; do sleep .05; done
"""


@pytest.mark.timeout(200)
def test_ctrl_c_leaves_a_clean_terminal(tmp_path: Path) -> None:
    program = tmp_path / "bazel"
    program.write_text(_BAZEL)
    program.chmod(0o755)
    project = shutil.copytree(_ROOT / "tests" / "e2e" / "projects" / "universal", tmp_path / "project")
    cache = make_cache(tmp_path / "cache", {"store": cache_root() / "store"})
    own = {"RULES_TORCH_KERNELS_BAZEL": str(program), "RULES_TORCH_KERNELS_CACHE": str(cache)}
    with Terminal() as terminal:
        command = [sys.executable, "-m", "py_driver", "build", str(project)]
        driver = terminal.start(command, _ROOT, {**os.environ, **own})
        bar = "[######              ] 3 of 9 actions"
        terminal.read_until(lambda: terminal.shown()[-2:] == ["  Compiling csrc/relu.cu for 9.0  12 s", bar], 120)
        terminal.type(b"\x03")
        terminal.read_until(lambda: driver.poll() is not None, 60)
        lines = terminal.shown()
        assert driver.returncode == ExitCode.INTERRUPT, lines
        assert lines[-2:] == ["Stopping Bazel ...", "interrupted"]
        assert not any("Compiling" in line or "actions" in line for line in lines[1:])
        assert terminal.screen.cursor.x == 0
        assert not terminal.screen.cursor.hidden
