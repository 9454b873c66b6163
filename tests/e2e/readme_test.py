"""README.md, done as it says: its lines for a setup.py, for a build.toml, and from Python."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from clone import CPU, ROOT
from scaled import FILES
from tree import write_files

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output

if TYPE_CHECKING:
    from clone import Driver

pytestmark = pytest.mark.e2e

LINES = 5
README = (ROOT / "README.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^## ([^\n]+)\n\n(?:[^`#\n]+\n\n)?```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = {title: text for title, _, text in SECTION.findall(README)}


def commands(title: str) -> list[list[str]]:
    """What follows `driver` in each line of a section."""
    words = [shlex.split(line, comments=True) for line in BLOCKS[title].splitlines()]
    assert {word[0] for word in words} == {"driver"}
    return [word[1:] for word in words]


@pytest.mark.parametrize("title", ["A setup.py", "A build.toml", "From Python"])
def test_a_beginning_has_five_lines(title: str) -> None:
    assert len([line for line in BLOCKS[title].splitlines() if line]) == LINES


@pytest.mark.slow
def test_the_lines_for_a_setup_py(installed: Driver, base: Path) -> None:
    here = base / "readme" / "setup_py"
    write_files(here / "my-extension", FILES)
    said = [installed.run(*words, cwd=here) for words in commands("A setup.py")]
    assert "2 passed" in said[1].stdout
    names = [f"+{cuda}.torch{torch}" for cuda in ("cu130", "cu132") for torch in ("213", "215")]
    wheels = {f"scaled_ops-1.2{local}-py3-none-manylinux_2_28_x86_64.whl" for local in ("", *names)}
    assert {path.name for path in (here / "dist").glob("*.whl")} == wheels
    index = (here / "dist" / "simple" / "scaled-ops" / "index.html").read_text(encoding="utf-8")
    assert index.count("<a ") == len(wheels)


@pytest.mark.slow
def test_the_lines_for_a_build_toml(installed: Driver, base: Path) -> None:
    here = base / "readme" / "build_toml"
    here.mkdir(parents=True)
    said = [installed.run(*words, cwd=here) for words in commands("A build.toml")]
    assert re.search(r"\d+ passed", said[2].stdout)
    backends = {path.name.split("-")[2] for path in (here / "silu" / "build").iterdir()}
    assert backends == {"cpu", "cu130", "cu132", "rocm72"}
    assert [path.suffix for path in (here / "dist").iterdir()] == [".whl"]


def test_the_lines_of_python(clone: Driver) -> None:
    python = python_for([parse(CPU)], Releases(), Output())
    environ = {
        "PYTHONPATH": str(clone.root / "py_driver" / "client"),
        "RULES_TORCH_KERNELS_DRIVER": shlex.join(clone.command),
        "PATH": f"{Path(python).parent}:{os.environ['PATH']}",
    }
    command = [python, "-c", BLOCKS["From Python"]]
    done = subprocess.run(command, env=clone.environment(environ), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "tensor([2., 2., 2.])\n"), done.stderr
