"""The verbs that only read load nothing that they do not need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fuzz import CORPUS, make_project

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "numpy", "huggingface_hub", "jinja2", "rich", "tomlkit", "jsonschema", "kernels", "difflib")
SLOW = ("dataclasses", "inspect", "hashlib", "subprocess", "http.client")
"""Modules of Python itself that would take a third of the time that `check` and `variants` have."""

_PROGRAM = """
import sys
from py_driver.__main__ import main
code = main(sys.argv[2:])
print(code, sorted(set(sys.modules) & set(sys.argv[1].split(","))), file=sys.stderr)
"""


@pytest.mark.parametrize("verb", [["check"], ["check", "--json"], ["variants"], ["gen", "--check"]], ids=" ".join)
def test_no_heavy_module(verb: list[str], tmp_path: Path) -> None:
    project = make_project(tmp_path)
    (project / "build.toml").write_bytes((CORPUS / "edition5.toml").read_bytes())
    subprocess.run([sys.executable, "-m", "py_driver", "gen", project], cwd=ROOT, capture_output=True, check=True)
    command = [
        sys.executable,
        "-c",
        _PROGRAM,
        ",".join(HEAVY if verb[0] == "gen" else HEAVY + SLOW),
        *verb,
        str(project),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "0 []"
