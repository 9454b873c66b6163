"""Runs a project's example on a freshly built variant, with the `kernels` client and torch."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from py_driver.errors import Code, error
from py_driver.spelling import near_path
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLE = "example.py"
"""The script of a project that loads its kernel from `build/` and uses it."""


def run_example(directory: Path, python: str) -> str:
    """Run a project's example.

    Args:
        directory: of the project.
        python: the interpreter.

    Returns:
        Its output.

    Raises:
        DriverError: FILE_MISSING if there is no example; LOAD_FAILED if it fails.
    """
    script = directory / EXAMPLE
    if not script.is_file():
        raise error(
            Code.FILE_MISSING,
            f"{script} is missing",
            help=near_path(script)
            or "write one: kernels.get_local_kernel(Path(__file__).parent / 'build'), then use the kernel",
        )
    # No bytecode: build/ is published, and contains only build outputs.
    environment = curated(extra={"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"})
    done = subprocess.run(
        [python, str(script)], capture_output=True, text=True, errors="replace", check=False, env=environment
    )
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()
        message = f"{script} failed: {last[-1] if last else f'exit code {done.returncode}'}"
        raise error(Code.LOAD_FAILED, message, help=f"to see all of it, run {python} {script}")
    return done.stdout.rstrip()
