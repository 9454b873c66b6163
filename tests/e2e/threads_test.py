"""Variables of threads, what is done once, and torch's threads beside OpenMP's, all in one extension."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from clone import CPU, PROJECTS, copy_project

from py_driver import __main__
from py_driver.building.build import build
from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

_CALLS = """
import json, sys, threading, torch
from pathlib import Path
from kernels import get_local_kernel
kernel = get_local_kernel(Path(sys.argv[1]))
torch.set_num_threads(4)
steps = []
def count():
    mine = [kernel.step() for _ in range(3)]
    steps.append(mine)
threads = [threading.Thread(target=count) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
count()
print(json.dumps([steps, kernel.once(), kernel.once(), kernel.parallel(1000), kernel.openmp(1000)]))
"""

_TEAMS = """
import json, os, sys, threading, torch
from pathlib import Path
from kernels import get_local_kernel
kernel = get_local_kernel(Path(sys.argv[1]))
x = torch.rand(1_000_000)
teams, outs = [], set()
def count():
    before = set(os.listdir("/proc/self/task"))
    out = kernel.twice(x)
    teams.append(1 + len(set(os.listdir("/proc/self/task")) - before))
    outs.add(out.numpy().tobytes())
for number in (3, 1, 2, 5):
    torch.set_num_threads(number)
    thread = threading.Thread(target=count)
    thread.start()
    thread.join()
print(json.dumps([teams, len(outs)]))
"""


def _printed(program: str, project: Path, **variables: str) -> object:
    """The JSON that a Python program prints, which gets the directory of a project's variants."""
    python = python_for([parse(CPU)], Releases(), Output())
    env = curated(extra={"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1", **variables})
    done = subprocess.run(
        [python, "-c", program, project / "build"], capture_output=True, text=True, check=False, env=env, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_each_thread_has_its_own(tmp_path: Path) -> None:
    project = copy_project(PROJECTS / "threads", tmp_path / "threads")
    build(project, [CPU], Releases(), Output())
    assert _printed(_CALLS, project, LD_BIND_NOW="1") == [[[101, 202, 303]] * 4, 1, 1, 1000, 1003]


@pytest.mark.parametrize(
    ("template", "variant"), [("elementwise", CPU), ("stable-abi", "torch-stable-abi29-cpu-x86_64-linux")]
)
def test_a_new_thread_has_the_number_that_torch_was_given_in_another_one(
    tmp_path: Path, template: str, variant: str
) -> None:
    project = tmp_path / template
    assert __main__.main(["init", str(project), "--name=me/twice", f"--template={template}"]) == 0
    build(project, [variant], Releases(), Output())
    assert _printed(_TEAMS, project, OMP_NUM_THREADS="3") == [[3, 1, 2, 5], 1]
