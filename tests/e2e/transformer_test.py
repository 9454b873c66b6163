"""examples/transformer: a model of `transformers` on our kernels; `driver check` knows layers as the client does."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from clone import CPU
from layer_cases import CASES, HEAD

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

pytestmark = pytest.mark.e2e

_LAYERS = 2
_NORMS = 2 * _LAYERS + 1
_VALIDATE = """
import json, sys, torch
from kernels.layer.layer import _validate_layer
class Reference(torch.nn.Module):
    def forward(self, x):
        return x
def refused(text):
    names = {}
    exec(text, names)
    try:
        _validate_layer(check_cls=Reference, cls=names["L"], repo="`here`")
    except TypeError:
        return True
    return False
print(json.dumps({name: refused(text) for name, text in json.load(sys.stdin).items()}))
"""


@pytest.fixture(scope="module")
def project(clone: Driver) -> Path:
    return clone.root / "examples" / "transformer"


def _run(clone: Driver, project: Path, out: Path, *options: str, code: int = 0) -> dict[str, Any]:
    command = ["python", str(project / "example.py"), "--no-compile", "--json", str(out), *options]
    clone.run("run", project, "--torch=2.13", "--backend=cpu", "--", *command, code=code)
    found: dict[str, Any] = json.loads(out.read_text())
    return found


@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
def test_a_model_runs_on_the_kernels(clone: Driver, project: Path, tmp_path: Path, dtype: str) -> None:
    found = _run(clone, project, tmp_path / "found.json", f"--layers={_LAYERS}", f"--dtype={dtype}")
    forward = {"rms_norm": _NORMS, "rope": _LAYERS, "swiglu": _LAYERS}
    backward = {"rope": 2 * _LAYERS, "rms_norm_backward": _NORMS, "swiglu_backward": _LAYERS}
    assert found["calls"] == {"forward": forward, "training": {**forward, **backward}}
    assert 0 < found["logits"]["kernels"] <= 2 * found["logits"]["eager"]
    assert all(0 < ours <= 2 * eager for eager, ours in found["gradients"].values())
    assert {*found["times"]} == {"eager", "kernels"}


@pytest.mark.slow  # a second build, and all of the model again
def test_a_wrong_kernel_is_found(clone: Driver, project: Path, tmp_path: Path) -> None:
    """One sign in RoPE: the model still runs, and its numbers look like any others."""
    source = project / "csrc" / "transformer.cpp"
    text = source.read_text()
    right = "store(out[i], left * load(cos[i]) - right"
    assert text.count(right) == 1
    source.write_text(text.replace(right, right.replace(" - ", " + ")))
    try:
        found = _run(clone, project, tmp_path / "found.json", code=1)
    finally:
        source.write_text(text)
    assert found["checks"]["the kernels were called for each layer"]
    assert not found["checks"]["logits are within the bound"]
    assert not found["checks"]["gradients are within the bound"]


@pytest.mark.slow  # 250 comparisons with float64
def test_the_kernels_own_tests_pass(clone: Driver, project: Path) -> None:
    clone.run("test", project, "--torch=2.13", "--backend=cpu", "--", "-q")


def test_notes_on_layers_are_those_of_the_client() -> None:
    command = [python_for([parse(CPU)], Releases(), Output()), "-c", _VALIDATE]
    texts = json.dumps({name: HEAD + case.text for name, case in CASES.items()})
    done = subprocess.run(command, input=texts, capture_output=True, text=True, check=True, env=curated(extra={}))
    assert json.loads(done.stdout) == {name: case.refused for name, case in CASES.items()}
