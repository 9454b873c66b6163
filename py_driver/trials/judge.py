"""Judges candidates' modules in the Python with torch."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import TYPE_CHECKING, Any, Final

from py_driver.authoring.session import exit_code, python_environment
from py_driver.errors import Code, error
from py_driver.system.client import CLIENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from py_driver.trials.build import Module
    from py_driver.trials.candidates import Candidate

_PROGRAM: Final = "rules_torch_kernels.judging"


def job_of(candidate: Candidate, module: Module, family: str, timeout: float) -> dict[str, Any]:
    """A candidate as `rules_torch_kernels.judging` reads it.

    Args:
        candidate: the candidate.
        module: its built module.
        family: the backend that it was built for.
        timeout: the time limit of its process, in seconds.
    """
    libraries = sorted(module.libraries.glob("*.so"))
    return {
        "id": candidate.id,
        "path": str(module.path.absolute()),
        "module": module.name,
        "library": "" if candidate.is_module else str(libraries[0].absolute()),
        "device": family,
        "check": dict(candidate.check),
        "timeout": timeout,
    }


def judged(jobs: Sequence[dict[str, Any]], python: str) -> Iterator[dict[str, Any]]:
    """The results of candidates, one after another.

    Args:
        jobs: the candidates.
        python: the interpreter.

    Raises:
        DriverError: LOAD_FAILED if torch cannot be imported, or the judging process itself ends early.
    """
    if not jobs:
        return
    process = subprocess.Popen(
        [python, "-m", _PROGRAM],
        env=python_environment(python, [CLIENT]),
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin  # noqa: S101  (it is a pipe)
    assert process.stdout  # noqa: S101  (likewise)
    told = 0
    try:
        with process.stdin:
            json.dump(jobs, process.stdin)
        for line in process.stdout:
            yield json.loads(line)
            told += 1
        process.wait()
    except BrokenPipeError:
        process.wait()
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait()
    if told < len(jobs):
        ended = exit_code(process.returncode)
        message = f"{told} of {len(jobs)} candidates were judged; then the judging process ended with exit code {ended}"
        raise error(Code.LOAD_FAILED, message, help=f"see whether torch can be imported: {python} -c 'import torch'")
