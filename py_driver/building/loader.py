"""Loads built variants in an installed torch: a process that imports torch once, with a fork of it for each variant."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.matrix.library_symbols import DRIVER
from py_driver.resources import resource
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import IO

    from py_driver.building.installed_torch import Torch

_PATIENCE: Final = 300
"""Seconds that the import of torch, and that of each variant, may take."""

_OTHER_ABI: Final = 78
_LACKS: Final = 77
_NO_DRIVER: Final = f"{DRIVER}: cannot open shared object file"
"""The loader's text on a machine without NVIDIA's driver, for a library that calls it."""

_WHAT: Final = "what():"
_THROWN_IN: Final = ("Exception raised from", "frame #")


class Loaded(NamedTuple):
    """The result for a variant.

    Attributes:
        wrong: the failure; empty if the variant was loaded or something is missing.
        lacks: why its Python package, or all of it, was not loaded; empty if it was.
    """

    wrong: str = ""
    lacks: str = ""


@contextmanager
def loading(torch: Torch, variants: Sequence[Sequence[str]]) -> Iterator[Iterator[Loaded]]:
    """Load variants one after the other.

    Args:
        torch: the torch to load them in.
        variants: the arguments of each, as `resources/load.py` documents them.

    Yields:
        An iterator with the result for each variant, in order; the next variant is loaded meanwhile.
    """
    environment = curated(extra={"PYTHONDONTWRITEBYTECODE": "1", "LD_BIND_NOW": "1", "HF_HUB_OFFLINE": "1"})
    command = [torch.python, "-c", resource("load.py"), str(_PATIENCE)]
    with tempfile.TemporaryFile("w+") as asked, tempfile.TemporaryFile("w+", errors="replace") as err:
        json.dump([list(variant) for variant in variants], asked)
        asked.seek(0)
        process = subprocess.Popen(
            command,
            stdin=asked,
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
            cwd="/",
            env=environment,
            start_new_session=True,
        )
        with process:
            try:
                yield _results(process, [str(Path(variant[0]).parent) for variant in variants], err)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)


def _results(process: subprocess.Popen[str], directories: Sequence[str], err: IO[str]) -> Iterator[Loaded]:
    """The result for the variant in each directory; that of the process if it ends before."""
    lines = iter(process.stdout or ())
    for directory in directories:
        if line := next(lines, ""):
            code, text = json.loads(line)
        else:
            code = process.wait()
            err.seek(0)
            text = err.read()
        yield _judged(code, text, directory)


def _judged(code: int, text: str, directory: str) -> Loaded:
    """The result of a process with this exit code, and this text on stderr, for the variant in a directory."""
    lines = [line for line in text.splitlines() if line.strip()]
    if code == -signal.SIGALRM:
        return Loaded(wrong=f"it takes more than {_PATIENCE} s")
    if code == -signal.SIGILL:
        return Loaded(lacks="it has instructions that this machine's CPU lacks")
    if code in {_LACKS, _OTHER_ABI}:
        return Loaded(lacks=lines[-1] if lines else "not loaded")
    if code > 0 and lines and _NO_DRIVER in lines[-1]:
        return Loaded(lacks=f"it needs {DRIVER} of NVIDIA's driver, which is missing")
    if code < 0:
        died = f"the process died with {signal.Signals(-code).name}"
        return Loaded(wrong="; ".join([died, *_thrown(lines)]))
    last = f"{lines[-1]}{_raised_in(text, directory)}" if lines else f"exit code {code}"
    return Loaded(wrong=last) if code else Loaded()


def _raised_in(text: str, directory: str) -> str:
    """The last line of a Python file in a directory that a traceback names, as ` (FILE, line N)`; empty if none."""
    found = re.findall(rf'^ *File "{re.escape(directory)}/([^"]+\.py)", line ([0-9]+)', text, re.MULTILINE)
    return f" ({found[-1][0]}, line {found[-1][1]})" if found else ""


def _thrown(lines: Sequence[str]) -> list[str]:
    """The message of the exception that ended a process, without its place in torch."""
    start = next((number for number, line in enumerate(lines) if line.lstrip().startswith(_WHAT)), len(lines))
    texts = [line.strip().removeprefix(_WHAT).strip() for line in lines[start:]]
    end = next((number for number, text in enumerate(texts) if text.startswith(_THROWN_IN)), len(texts))
    return texts[:end]
