"""A notebook of Jupyter's own kernel: `load` shows the progress of a build and the compiler's errors as plain text."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from clone import CPU

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.venv import ensure_venv

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

pytestmark = pytest.mark.e2e

_NEEDED = ("ipykernel==7.*", "nbclient==0.11.*")
_TWICE = "torch::Tensor twice(torch::Tensor x) { return 2 * x; }"
_RUN = """
import json, sys, nbclient, nbformat
cells = [nbformat.v4.new_code_cell(source) for source in json.load(sys.stdin)]
notebook = nbformat.v4.new_notebook(cells=cells)
nbclient.NotebookClient(notebook, timeout=600, allow_errors=True, kernel_name="python3").execute()
print(json.dumps([cell.outputs for cell in notebook.cells]))
"""


def _streams(outputs: list[dict[str, Any]], name: str) -> str:
    return "".join(output["text"] for output in outputs if output.get("name") == name)


def test_load_in_a_notebook(clone: Driver, base: Path, tmp_path: Path) -> None:
    project = base / "notebook" / "cell-silu"
    clone.run("init", project, "--template=elementwise", "--backends=cpu")
    with_torch = python_for([parse(CPU)], Releases(), Output())
    python = ensure_venv("notebook", _NEEDED, Output(), python=str(with_torch), inherit=True)
    client = str(clone.root / "py_driver" / "client")
    first = f"import sys; sys.path.append({client!r}); import torch; from rules_torch_kernels import load"
    source = project / "csrc" / "cell_silu.cpp"
    edited = f"open(file := {str(source)!r}).read().replace('from[i] * vec', 'unheard * vec')"
    edit = f"text = {edited}; open(file, 'w').write(text)"
    build = f"kernel = load({str(project)!r}, backend='cpu')"
    use = "print(kernel.cell_silu(torch.zeros(2)).tolist())"
    environ = {
        "RULES_TORCH_KERNELS_DRIVER": shlex.join(clone.command),
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "JUPYTER_PLATFORM_DIRS": "1",
    }
    magics = [
        "%load_ext rules_torch_kernels",
        f"%%cpp twice\n{_TWICE}",
        "print(twice(torch.ones(2)).tolist())",
        f"%%cpp twice\n{_TWICE.replace('2 * x', 'unheard')}",
        f"%%cpp thrice\n{_TWICE}",
    ]
    command = [str(python), "-c", _RUN]
    done = subprocess.run(
        command,
        input=json.dumps([first, build, use, edit, build, *magics]),
        env=clone.environment(environ),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    _, built, used, _, failed, *of_magics = json.loads(done.stdout)
    _, _, twice, unheard, thrice = of_magics
    assert _streams(twice, "stdout") == "[2.0, 2.0]\n"
    assert "main.cpp:2:" in _streams(unheard, "stderr")
    assert "use of undeclared identifier 'unheard'" in _streams(unheard, "stderr")
    assert "the cell defines no function `thrice`" in _streams(thrice, "stderr")
    assert _streams(used, "stdout") == "[0.0, 0.0]\n"
    progress = _streams(built, "stderr")
    assert progress.startswith("building cell-silu ...\n")
    assert re.search(rf"^_cell_silu_cpu_\w+ for {CPU}: \d+ actions ran", progress, re.MULTILINE)
    errors = _streams(failed, "stderr")
    assert f"{source}:" in errors
    assert "'unheard' was not declared in this scope" in errors
    assert [sign for sign in progress + errors if not sign.isprintable() and sign not in "\n\t"] == []
    [raised] = [output for output in failed if output["output_type"] == "error"]
    assert (raised["ename"], "failed with exit code 5" in raised["evalue"]) == ("BuildError", True)
