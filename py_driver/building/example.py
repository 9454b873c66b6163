"""Runs a project's example on a variant that was just built, with the real `kernels` client and a real torch."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import tomli

from py_driver.errors import Code, error
from py_driver.matrix.backends import TOOLKITS, backend_of
from py_driver.matrix.toolkits import numbers
from py_driver.resources import resource
from py_driver.system.environment import curated
from py_driver.system.venv import ensure_venv

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from py_driver.matrix.cells import Cell
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output

EXAMPLE = "example.py"
"""The script of a project that loads its kernel from `build/` and uses it."""

_PROBE = """
import json, sys, torch
print(json.dumps([torch.__version__, *(getattr(torch.version, name, None) for name in sys.argv[1:])]))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Torch:
    """A torch that can be imported.

    Attributes:
        python: the interpreter that imports it.
        version: `2.13`, without patch release and local part.
        backend: `cpu`, or `cu130` for a build with CUDA 13.0, `rocm72` for one with ROCm 7.2.
    """

    python: str
    version: str
    backend: str


def importable_torch() -> Torch | None:
    """The torch of the first python3 on PATH that has one, if any."""
    for python in dict.fromkeys(filter(None, (shutil.which("python3"), sys.executable))):
        command = [python, "-c", _PROBE, *(one.torch_attribute for one in TOOLKITS)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
        if done.returncode:
            continue
        version, *toolkits = (_minor(one) for one in json.loads(done.stdout.splitlines()[-1]))
        named = (one.name_of(toolkit) for one, toolkit in zip(TOOLKITS, toolkits, strict=True) if toolkit)
        return Torch(python=python, version=version, backend=next(named, "cpu"))
    return None


def _minor(version: str | None) -> str:
    """A version without its patch release and local part."""
    return ".".join((version or "").split(".")[:2])


def fits(torch: Torch, cell: Cell) -> bool:
    """Whether a torch can load a cell, by the client's rules.

    The release is the same, or not older where the cell is for the stable ABI; of the backend see `runs_with`.
    """
    if cell.torch is None or (torch.version != cell.torch and not cell.stable):
        return False
    if numbers(torch.version) < numbers(cell.torch):
        return False
    ours, theirs = backend_of(cell.backend), backend_of(torch.backend)
    return ours is not None and ours is theirs and ours.runs_with(cell.backend, torch.backend)


def python_for(cells: Sequence[Cell], releases: Releases, output: Output) -> str:
    """An interpreter with the `kernels` client and a torch for which something was built.

    Args:
        cells: what was built; a torch that is installed is of the first release among them, or of the usual one.
        releases: with the lock, which says what release a version of torch is.
        output: where progress is shown.

    Returns:
        The interpreter: of an environment on top of a torch that is there and fits, or with a torch of its own.

    Raises:
        DriverError: the environment cannot be made; see `ensure_venv`.
    """
    facts = tomli.loads(resource("load.toml"))
    requirements = [f"kernels=={facts['kernels']}", *facts["requirements"]]
    requirements += sorted({releases.lock.tvm_ffi_requirement(cell.tvm_ffi) for cell in cells if cell.tvm_ffi})
    there = importable_torch()
    if there and any(fits(there, cell) for cell in cells):
        return str(ensure_venv("load", requirements, output, python=there.python, inherit=True))
    version = next((cell.torch for cell in cells if cell.torch and not cell.stable), facts["torch"])
    return str(ensure_venv("load", [f"torch=={releases.lock.torch_release(version)}", *requirements], output))


def run_example(directory: Path, python: str) -> str:
    """Run a project's example.

    Args:
        directory: of the project.
        python: the interpreter.

    Returns:
        What it printed.

    Raises:
        DriverError: FILE_MISSING if there is no example; LOAD_FAILED if it fails.
    """
    script = directory / EXAMPLE
    if not script.is_file():
        raise error(
            Code.FILE_MISSING,
            f"{script} is missing",
            help="write one: kernels.get_local_kernel(Path(__file__).parent / 'build'), then use the kernel",
        )
    # No bytecode: build/ is what is published, and holds what was built.
    environment = curated(extra={"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"})
    done = subprocess.run([python, str(script)], capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()
        message = f"{script} failed: {last[-1] if last else f'exit code {done.returncode}'}"
        raise error(Code.LOAD_FAILED, message, help=f"to see all of it, run {python} {script}")
    return done.stdout.rstrip()
