"""docs/start.md, done as it says: its files written, its variant for the CPU built, loaded and called."""

from __future__ import annotations

import re
import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest
from clone import CPU, ROOT

from py_driver.building.installed_torch import python_for
from py_driver.matrix.cells import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

pytestmark = pytest.mark.e2e

PAGE = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_from_an_empty_directory_to_a_loaded_kernel(installed: Driver, base: Path) -> None:
    here = base / "start"
    commands, scripts = [], []
    for language, body in FENCE.findall(PAGE):
        head, _, rest = body.partition("\n")
        if found := re.fullmatch(r"(?:#|//) (scale/\S+)", head):
            (here / found[1]).parent.mkdir(parents=True, exist_ok=True)
            (here / found[1]).write_text(rest, encoding="utf-8")
        elif language == "sh":
            commands += [shlex.split(line, comments=True) for line in body.splitlines()]
        elif "get_local_kernel" in body:
            scripts.append(body)
    [build] = [one for one in commands if one[:3] == ["driver", "build", "scale"] and "torch213-*-cpu-*" in one]
    installed.run(*build[1:], cwd=here)
    assert [path.name for path in (here / "scale" / "build").iterdir()] == [CPU]
    [script] = scripts
    python = python_for([parse(CPU)], Releases(), Output())
    env = curated(extra={"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"})
    done = subprocess.run([python, "-c", script], cwd=here, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "tensor([10., 20., 30.])\n"), done.stderr
