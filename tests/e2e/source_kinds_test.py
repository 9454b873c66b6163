"""Sources that are no C++: C, assembly with a preprocessor, what they include, and bytes that they take in."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from clone import BINDING, CPU, CU130, PROJECTS, ROCM, Built, Driver, action_counts, copy_project, planned

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

_CALL = """
import sys
from pathlib import Path
from kernels import get_local_kernel
print(get_local_kernel(Path(sys.argv[1]), backend="cpu").ops.get())
"""


@pytest.fixture(scope="module")
def kinds(clone: Driver, base: Path) -> Built:
    project = copy_project(PROJECTS / "kinds", base / "kinds")
    return Built(driver=clone, project=project, result=clone.build(project, CPU, CU130, ROCM))


def test_c_and_assembly_are_compiled_and_called(kinds: Built) -> None:
    assert action_counts(kinds.result) == (3 * (2 + BINDING), 0, 0)
    assert planned(kinds.result) == action_counts(kinds.result)
    python = python_for([parse(CPU)], Releases(), Output())
    environment = curated(extra={"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1", "LD_BIND_NOW": "1"})
    command = [python, "-c", _CALL, str(kinds.build)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd="/")
    assert done.stdout == "92\n", done.stderr


def test_what_they_read_is_watched(kinds: Built, base: Path) -> None:
    project = copy_project(kinds.project, base / "kinds-edited")
    kinds.driver.build(project, CPU)
    (project / "k" / "bytes.bin").write_bytes(b"\x29\x00")
    changed = kinds.driver.build(project, CPU)
    # Both sources, since each may read the bytes; the binding, which may too, is preprocessed and gets the new id.
    assert action_counts(changed)[0] == 4
    (project / "k" / "bytes.bin").write_bytes(b"\x28\x00")
    assert action_counts(kinds.driver.build(project, CPU))[0] == 0


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("add.S", "  nonsense %eax", "k/add.S:{line}: error: invalid instruction mnemonic 'nonsense'"),
        ("add.S", '  .incbin "/etc/passwd"', "k/add.S:{line}: error: Could not find incbin file '/etc/passwd'"),
        ("one.c", "int wrong = undeclared;", "k/one.c:{line}:13: error: use of undeclared identifier 'undeclared'"),
    ],
)
def test_errors_name_the_source(kinds: Built, base: Path, name: str, text: str, said: str) -> None:
    project = copy_project(kinds.project, base / f"kinds-{text.split()[0]}")
    source = project / "k" / name
    source.write_text(f"{source.read_text()}{text}\n")
    failed = kinds.driver.run("build", project, f"--variant={CPU}", code=5)
    assert said.format(line=len(source.read_text().splitlines())) in failed.stderr
