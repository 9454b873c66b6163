"""Loads each variant that was just built, where a torch is there that can: what registers wrongly fails only then.

No torch is installed for it. What has been loaded once is not loaded again.
"""

from __future__ import annotations

import hashlib
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.building.installed_torch import fits, importable_torch
from py_driver.errors import Code, error
from py_driver.matrix.installed_python import find_interpreter, version_of
from py_driver.output import counted
from py_driver.resources import resource
from py_driver.system.cache import cache_root, storage_errors
from py_driver.system.environment import curated
from py_driver.system.venv import made

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from py_driver.building.build import Built
    from py_driver.building.installed_torch import Torch
    from py_driver.matrix.pythons import Python
    from py_driver.output import Output

_CPU: Final = "cpu"
_ABI3: Final = ".abi3.so"
_PATIENCE: Final = 300
"""How many seconds torch and a variant may take to be imported."""

_OTHER_ABI: Final = 78
_LACKS: Final = 77
_WHAT: Final = "what():"
_THROWN_IN: Final = ("Exception raised from", "frame #")


class _Loaded(NamedTuple):
    """What became of loading a variant.

    Attributes:
        wrong: what failed; empty if nothing did.
        lacks: why its Python package was not imported, or nothing at all; empty if it was.
    """

    wrong: str = ""
    lacks: str = ""


def torches_here() -> list[Torch]:
    """The torches of this machine: that of the user's Python, then those of the environments that the driver has made.

    Each is asked in a process of its own.
    """
    return [*_torches(["", *map(str, made("load"))])]


def check_loads(
    variants: Sequence[Built],
    output: Output,
    torches: Callable[[], list[Torch]] = torches_here,
    interpreters: Sequence[str] = (),
) -> None:
    """Load variants.

    Args:
        variants: what was built.
        output: where it is told what was loaded, and what could not be.
        torches: finds those that may load them; it is called if something was not loaded before.
        interpreters: further ones that may have a torch, which are asked first.

    Raises:
        DriverError: LOAD_FAILED for the first that fails; NO_SPACE or PERMISSION if the cache cannot be written.
    """
    new = [
        (built, extension, mark) for built in variants for extension, mark in _extensions(built) if not mark.is_file()
    ]
    if not new:
        return
    pythons = dict.fromkeys(built.variant.python for built, _, _ in new if built.variant.python)
    further = dict.fromkeys([*interpreters, *_of_versions(pythons)])
    found = [*_torches(further), *torches()]
    rest = 0
    for built, extension, mark in new:
        torch = next((torch for torch in found if _fits(torch, built)), None)
        loaded = None
        if torch is not None:
            with output.task(f"loading {built.variant.name} in torch {torch.version} ({torch.backend})") as task:
                loaded = _load(built, extension, torch)
                task.done("failed" if loaded.wrong else loaded.lacks or "done")
            if loaded.wrong:
                message = f"{built.variant.name} cannot be loaded in torch {torch.version}: {loaded.wrong}"
                stays = f"it stays in {built.path}; do not publish it"
                raise error(Code.LOAD_FAILED, message, help="no wheel was written" if pythons else stays)
        if loaded is None:
            rest += 1
            continue
        with storage_errors(mark):
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
    if rest:
        lacking = "their Python with a matching torch" if pythons else "a matching torch; `driver demo` loads one"
        output.say(f"{counted(rest, 'variant')} not loaded here for lack of {lacking}")


def _extensions(built: Built) -> Iterator[tuple[Path, Path]]:
    """The library of a variant that Python imports, if it has one, and the file that says that it was loaded."""
    for extension in built.path.glob(f"*{built.variant.library_suffix or _ABI3}"):
        digest = hashlib.sha256(extension.read_bytes())
        for source in sorted(built.path.rglob("*.py")):
            digest.update(source.read_bytes())
        yield extension, cache_root() / "loaded" / digest.hexdigest()


def _torches(interpreters: Iterable[str]) -> Iterator[Torch]:
    """Those of interpreters; of the user's Python for an empty name."""
    for named in interpreters:
        if (torch := importable_torch(named)) is not None:
            yield torch


def _of_versions(pythons: Iterable[Python]) -> list[str]:
    """The interpreters that are installed for some Pythons."""
    found = [find_interpreter(python.version) for python in pythons]
    return [str(interpreter) for interpreter in found if interpreter]


def _fits(torch: Torch, built: Built) -> bool:
    """Whether a torch can load a variant; one that was built for GPUs loads what is for the CPU, too."""
    python = built.variant.python
    if python and version_of(Path(torch.python)) != python.version:
        return False
    configuration = built.variant.configuration
    return fits(replace(torch, backend=_CPU) if configuration.backend == _CPU else torch, configuration)


def _load(built: Built, extension: Path, torch: Torch) -> _Loaded:
    """Load a variant in a process of its own: its library, and the Python package if it is for the CPU.

    A package that depends on other kernels is imported by the `kernels` client alone.
    """
    configuration = built.variant.configuration
    alone = configuration.family == _CPU and not built.variant.metadata.get("kernel-depends")
    part = "package" if alone else "library"
    command = [torch.python, "-c", resource("load.py"), str(extension.absolute()), part, configuration.abi or ""]
    environment = curated(extra={"PYTHONDONTWRITEBYTECODE": "1", "LD_BIND_NOW": "1", "HF_HUB_OFFLINE": "1"})
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            cwd="/",
            env=environment,
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return _Loaded(wrong=f"it takes more than {_PATIENCE} s")
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    if done.returncode == -signal.SIGILL:
        return _Loaded(lacks="it has instructions that this machine's CPU lacks")
    if done.returncode in {_LACKS, _OTHER_ABI}:
        return _Loaded(lacks=lines[-1] if lines else "not loaded")
    if done.returncode < 0:
        died = f"the process died with {signal.Signals(-done.returncode).name}"
        return _Loaded(wrong="; ".join([died, *_thrown(lines)]))
    return _Loaded(wrong=lines[-1] if lines else f"exit code {done.returncode}") if done.returncode else _Loaded()


def _thrown(lines: Sequence[str]) -> list[str]:
    """What the exception says that ended a process, without where in torch it was thrown."""
    start = next((number for number, line in enumerate(lines) if line.lstrip().startswith(_WHAT)), len(lines))
    texts = [line.strip().removeprefix(_WHAT).strip() for line in lines[start:]]
    end = next((number for number, text in enumerate(texts) if text.startswith(_THROWN_IN)), len(texts))
    return texts[:end]
