"""Tests end: where Ctrl-C is ignored, where they wait for ever, and with what they have started."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SLEEP = f"3{os.getpid()}"


def _pytest(*arguments: str, ignoring: str = "") -> subprocess.CompletedProcess[str]:
    """Run tests in a pytest of their own."""
    env = ["env", f"--ignore-signal={ignoring}"] if ignoring else []
    command = [*env, sys.executable, "-m", "pytest", "-q", "-c", str(ROOT / "pyproject.toml"), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def _running(word: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if word.encode() in path.read_bytes():
                return True
    return False


def test_where_signals_are_ignored() -> None:
    done = _pytest("tests/unit/bazel/run_test.py", "-k", "test_ctrl_c", ignoring="INT,TERM,QUIT")
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


def test_that_waits_for_ever(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import subprocess, pytest\n"
        "@pytest.mark.timeout(1)\n"
        "def test_it():\n"
        f"    with subprocess.Popen(['sleep', '{SLEEP}'], start_new_session=True) as process: process.wait()\n"
    )
    done = _pytest(str(tmp_path))
    assert done.returncode == 1
    assert "Timeout" in done.stdout
    assert not _running(SLEEP)


def test_that_leaves_a_process(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import subprocess\n"
        "def test_it():\n"
        f"    subprocess.run(['setsid', '--fork', 'sleep', '{SLEEP}'], check=True)\n"
        "def test_other():\n"
        "    pass\n"
    )
    done = _pytest(str(tmp_path))
    assert done.returncode == 1
    assert f"left behind: ['sleep {SLEEP} ']" in done.stdout
    assert "2 passed, 1 error" in done.stdout
    assert not _running(SLEEP)


@pytest.mark.thorough
@pytest.mark.parametrize("workers", ["0", "2"])
def test_long_one_that_leaves_a_process(tmp_path: Path, workers: str) -> None:
    (tmp_path / "test_it.py").write_text(
        "import subprocess, pytest\n"
        "@pytest.mark.e2e\n"
        "def test_it():\n"
        f"    subprocess.run(['setsid', '--fork', 'sleep', '{SLEEP}'], check=True)\n"
    )
    done = _pytest("-n", workers, str(tmp_path))
    assert done.returncode == 1
    assert f"left behind: ['sleep {SLEEP} ']" in done.stdout
    assert "1 passed" in done.stdout
    assert not _running(SLEEP)
