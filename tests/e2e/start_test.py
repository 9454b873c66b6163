"""docs/start.md, done as it says: its variant for the CPU built, loaded, tested, published, and loaded from there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from clone import CPU, ROOT
from hub import served
from pages import files
from tree import write_files

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from clone import Driver

pytestmark = pytest.mark.e2e

PAGE = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ALL = "driver build scale"
"""This command builds with every toolkit, which other tests do."""
LOGIN = "hf auth login"
"""It asks a person; HF_TOKEN says the same."""
AUTHOR = {f"GIT_{who}_{what}": "me@here" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def section(title: str) -> list[tuple[str, str]]:
    """The code blocks of a section: the language, and the text."""
    [body] = re.findall(rf"^## {title}$(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    return FENCE.findall(body)


def commands(title: str) -> list[str]:
    """The lines of a section's commands, without comments."""
    lines = [line for language, body in section(title) if language == "sh" for line in body.splitlines()]
    return [re.sub(r"\s+# .*", "", line) for line in lines]


def script(title: str) -> str:
    [found] = [text for kind, text in section(title) if kind == "python" and "kernels.get_" in text]
    return found


@pytest.fixture(scope="module")
def here(base: Path) -> Path:
    """The directory in which the page's project is."""
    return write_files(base / "start", files("docs/start.md"))


@pytest.fixture(scope="module")
def python() -> str:
    """What the page has people install: a Python with torch and the client."""
    return python_for([parse(CPU)], Releases(), Output())


def loaded(python: str, text: str, here: Path, extra: dict[str, str]) -> str:
    env = curated(extra={**extra, "PYTHONDONTWRITEBYTECODE": "1"})
    done = subprocess.run([python, "-c", text], cwd=here, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_from_an_empty_directory_to_a_published_kernel(
    installed: Driver, here: Path, python: str, tmp_path: Path
) -> None:
    def driver(command: str, env: dict[str, str]) -> str:
        return installed.run(*shlex.split(command)[1:], cwd=here, env=env).stdout

    said = {line: driver(line, {}) for line in commands("Build it") if line != ALL}
    assert [line.split()[1] for line in said] == ["check", "variants", "build"]
    assert [path.name for path in (here / "scale" / "build").iterdir()] == [CPU]
    assert loaded(python, script("Load it"), here, {"HF_HUB_OFFLINE": "1"}) == "tensor([10., 20., 30.])\n"

    path = {"PATH": f"{Path(python).parent}:{os.environ['PATH']}"}
    [test] = commands("Test it")
    assert "= 2 passed in " in driver(test, path)

    with served() as hub:
        environ = {"HF_ENDPOINT": hub.address, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path / "hf")}
        *steps, dry, login, publish = commands("Publish it")
        assert login == LOGIN
        for step in steps:  # a shell runs them: one writes a file
            subprocess.run(["/bin/sh", "-c", step], cwd=here, env={**os.environ, **AUTHOR}, check=True)
        planned = driver(dry, environ)
        assert f"build/{CPU}/metadata.json" in planned
        assert hub.repositories == {}
        driver(publish, {**environ, "HF_TOKEN": "hf_token"})
        assert set(hub.repositories["owner/scale"].branches) == {"main", "v1"}
        assert loaded(python, script("Publish it"), here, environ) == "tensor([100., 200., 300.])\n"
