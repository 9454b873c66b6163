"""What is saved with the ops of one build runs with another build, once that answers to the names of the first."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from clone import CPU, PROJECTS, copy_project

from py_driver.building.build import build
from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

_LOAD = """
import json, pathlib, pickle, re, sys, torch
from kernels import get_local_kernel
kernel = get_local_kernel(pathlib.Path(sys.argv[1]) / "build")
ops, answer_to = kernel._ops.ops, kernel._ops.answer_to
x = torch.ones(3)
"""
_SAVE = f"""{_LOAD}
class Plain(torch.nn.Module):
    def forward(self, x):
        y = ops.shifted(x, 2.0)
        ops.shift_(y, by=3.0)
        return y

class Lasting(torch.nn.Module):
    def forward(self, x):
        return torch.ops.lasting.shifted(x, 2.0)

answer_to("lasting")
answer_to("lasting")
plain, lasting = (torch.export.export(module, (x,)) for module in (Plain(), Lasting()))
torch.export.save(plain, "plain.pt2")
torch.export.save(plain.run_decompositions(), "plain_core.pt2")
torch.export.save(lasting, "lasting.pt2")
torch.export.save(lasting.run_decompositions(), "lasting_core.pt2")
torch.jit.trace(Plain(), (x,)).save("plain.pt")
torch.save(torch.fx.symbolic_trace(Plain()), "plain.fx.pt")
pathlib.Path("function.pickle").write_bytes(pickle.dumps(kernel.shifted))
print(json.dumps([ops.name]))
"""
_RUN = f"""{_LOAD}
def load(name):
    if name.endswith(".pt2"):
        return torch.export.load(name).module()
    return torch.load(name, weights_only=False) if ".fx." in name else torch.jit.load(name)

def run(name):
    try:
        return load(name)(x).tolist()
    except (RuntimeError, AttributeError):
        return None

names = ["plain.pt2", "plain_core.pt2", "plain.pt", "plain.fx.pt", "lasting.pt2", "lasting_core.pt2"]
ids_in = lambda name: re.findall(r"_saved_cpu_[0-9a-f]{{12}}", pathlib.Path(name).read_bytes().decode("latin-1"))
before = [run(name) for name in names]
[old] = set(ids_in("plain.pt2"))
for namespace in (old, ops.name, "lasting"):
    answer_to(namespace)
after = [run(name) for name in names]
leaf = torch.ones(3, requires_grad=True)
load("lasting.pt2")(leaf).sum().backward()
compiled = torch.compile(load("plain.pt2"), backend="aot_eager", fullgraph=True)(x).tolist()
try:
    pickle.loads(pathlib.Path("function.pickle").read_bytes())
except ModuleNotFoundError as error:
    missing = error.name
print(json.dumps([missing, before, after, leaf.grad.tolist(), compiled, ids_in("lasting_core.pt2"), old]))
"""
_BOTH = f"""{_LOAD}
other = get_local_kernel(pathlib.Path(sys.argv[2]) / "build")
said = []
for namespace in (other._ops.ops.name, "aten"):
    try:
        answer_to(namespace)
    except RuntimeError as error:
        said.append(str(error))
print(json.dumps([other._ops.ops.name, ops.name, said, ops.shifted(x).tolist()]))
"""


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two builds of one kernel that add another number each."""
    place = tmp_path_factory.mktemp("saved")
    projects = [copy_project(PROJECTS / "saved", place / name) for name in ("old", "new")]
    header = projects[1] / "csrc" / "shift.h"
    header.write_text(header.read_text().replace("SHIFT 1", "SHIFT 10"))
    for project in projects:
        build(project, [CPU], Releases(), Output())
    return projects


def _say(program: str, cwd: Path, *builds: Path) -> Any:  # noqa: ANN401  (JSON)
    python = python_for([parse(CPU)], Releases(), Output())
    env = curated(extra={"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"})
    command = [python, "-c", program, *map(str, builds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_saved_program_runs_with_another_build(builds: list[Path], tmp_path: Path) -> None:
    [id_of_old] = _say(_SAVE, tmp_path, builds[0])
    missing, before, after, gradient, compiled, left, found = _say(_RUN, tmp_path, builds[1])
    assert before == [None] * 6
    plain = [(1 * 2 + 10.0) * 3 + 10] * 3
    assert after == [plain] * 4 + [[12.0] * 3] * 2
    assert gradient == [2.0] * 3
    assert compiled == plain
    assert left == []
    assert found == missing == id_of_old


def test_no_build_answers_to_what_is_taken(builds: list[Path], tmp_path: Path) -> None:
    other, own, said, shifted = _say(_BOTH, tmp_path, *builds)
    assert said == [f"torch.ops.{taken} has ops of another build than {own}" for taken in (other, "aten")]
    assert shifted == [2.0] * 3
