"""toolchains/fetch.py: what repository rules run finds the driver's package wherever the module lies."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from py_driver.errors import ExitCode

ROOT = Path(__file__).parents[2]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory of packages that have the names of modules that Python brings along."""
    shutil.copytree(ROOT / "py_driver", tmp_path / "py_driver", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("argparse", "hashlib", "json"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} of another Python')\n")
    return tmp_path


@pytest.mark.parametrize("module", [".", "py_driver/module"], ids=["checkout", "wheel"])
def test_it_finds_the_driver_and_nothing_beside_it(site: Path, module: str) -> None:
    program = site / module / "toolchains" / "fetch.py"
    program.parent.mkdir(parents=True)
    shutil.copy(ROOT / "toolchains" / "fetch.py", program)
    link = site / "link"
    link.symlink_to(site / module)
    command = [sys.executable, "-I", str(link / "toolchains" / "fetch.py"), "get", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: fetch get ")
    assert not list(site.rglob("__pycache__"))


def test_a_module_without_the_driver_is_an_error_in_one_line(tmp_path: Path) -> None:
    program = tmp_path / "module" / "toolchains" / "fetch.py"
    program.parent.mkdir(parents=True)
    shutil.copy(ROOT / "toolchains" / "fetch.py", program)
    command = [sys.executable, "-I", str(program), "get", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.ENVIRONMENT
    assert done.stderr.startswith("error[E308]: ")
    assert done.stderr.count("\n") == 1
