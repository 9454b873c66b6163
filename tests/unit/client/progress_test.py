"""Where the progress of a build is seen: by whoever waits for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from rules_torch_kernels import BuildError, load
from terminal import Terminal

CLIENT = Path(__file__).resolve().parents[3] / "py_driver" / "client"
INSTALLED = """
import os, subprocess, sys
program = "from rules_torch_kernels.progress import past_the_installer as show; show('building fast-silu ...\\\\n')"
done = subprocess.run([sys.executable, "-c", program], stdin=subprocess.DEVNULL, capture_output=True, text=True)
sys.exit(done.stderr != "building fast-silu ...\\n")
"""
FAILS = "echo building >&2; echo 'a.cpp:1:1: error: unheard' >&2; exit 5"


def _in_terminal(program: str, *words: str) -> tuple[list[str], int]:
    """What a Python program shows in a terminal of its own, and its exit code."""
    with Terminal() as terminal:
        command = [sys.executable, "-c", program, *words]
        process = terminal.start(command, Path.cwd(), {**os.environ, "PYTHONPATH": str(CLIENT)})
        terminal.read_until(lambda: process.poll() is not None, 20)
        return terminal.shown(), process.returncode


@pytest.fixture
def failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project; a driver that fails to build it."""
    monkeypatch.setenv("RULES_TORCH_KERNELS_DRIVER", f'sh -c "{FAILS}"')
    (tmp_path / "build.toml").touch()
    return tmp_path


def test_pip_shows_the_progress_that_it_captures() -> None:
    shown, code = _in_terminal(INSTALLED)
    assert code == 0
    assert "building fast-silu ..." in shown


def test_load_shows_progress_in_a_terminal(failing: Path) -> None:
    program = (
        "import sys\nfrom rules_torch_kernels import load, BuildError\ntry: load(sys.argv[1])\nexcept BuildError: pass"
    )
    shown, code = _in_terminal(program, str(failing))
    assert code == 0
    assert shown == ["building", "a.cpp:1:1: error: unheard"]


def test_load_shows_nothing_elsewhere_and_the_error_has_all(failing: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BuildError, match=r"failed with exit code 5:\nbuilding\na\.cpp:1:1: error: unheard$"):
        load(failing)
    assert capfd.readouterr() == ("", "")


def test_load_shows_progress_in_a_notebook(
    failing: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    with pytest.raises(BuildError, match=r"failed with exit code 5$"):
        load(failing)
    assert capsys.readouterr().err == "building\na.cpp:1:1: error: unheard\n"
