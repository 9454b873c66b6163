"""Loads each new variant if an installed torch can: wrong registrations fail only then.

No torch is installed for it. A variant that was loaded before is not loaded again. Each extension module of a setup.py
is loaded by itself, without the packages around it: their `__init__.py` may need a GPU.
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
from py_driver.matrix.library_symbols import DRIVER
from py_driver.output import counted
from py_driver.plan.metadata import METADATA
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
_SOURCE: Final = ".py"
_PATIENCE: Final = 300
"""The longest time, in seconds, for the import of torch and a variant."""

_OTHER_ABI: Final = 78
_LACKS: Final = 77
_NO_DRIVER: Final = f"{DRIVER}: cannot open shared object file"
"""The loader's message, on a machine without NVIDIA's driver, about a library that calls it."""

_FREE_THREADED: Final = "t"
_WHAT: Final = "what():"
_THROWN_IN: Final = ("Exception raised from", "frame #")


class _Loaded(NamedTuple):
    """The result of loading a variant.

    Attributes:
        wrong: the failure; empty if there was none.
        lacks: why its Python package, or the whole variant, was not imported; empty if it was.
    """

    wrong: str = ""
    lacks: str = ""


def torches_here() -> list[Torch]:
    """The torches of this machine: the user's, then those of the environments that the driver created.

    Each is asked in its own process.
    """
    return [*_torches(["", *map(str, made("load"))])]


def check_loads(
    variants: Sequence[Built],
    output: Output,
    torches: Callable[[], list[Torch]] = torches_here,
    interpreters: Sequence[str] = (),
    help: str = "",  # noqa: A002  (as of an error)
) -> None:
    """Load variants.

    Args:
        variants: the built packages, or the extension modules of a setup.py.
        output: where to report what was loaded, and what could not be.
        torches: finds torches to load with; called only if a variant was not loaded before.
        interpreters: further interpreters that may have a torch, which are asked first.
        help: the help of the error; if empty, the place of the variant.

    Raises:
        DriverError: LOAD_FAILED for the first variant that fails; NO_SPACE or PERMISSION if the cache cannot be
            written.
    """
    new = [
        (built, extension, mark) for built in variants for extension, mark in _extensions(built) if not mark.is_file()
    ]
    if not new:
        return
    pythons = dict.fromkeys(built.variant.python for built, _, _ in new if built.variant.python)
    further = dict.fromkeys([*interpreters, *_of_versions(pythons)])
    found = [*_torches(further), *torches()]
    rest: list[Built] = []
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
                raise error(Code.LOAD_FAILED, message, help=help or stays)
        if loaded is None:
            rest.append(built)
            continue
        with storage_errors(mark):
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
    if rest:
        of_setup, of_python = rest[0].variant.module, any(built.variant.python for built in rest)
        lacking = "their Python with a matching torch" if of_python else "a matching torch"
        advice = "" if of_setup or of_python else "; `driver demo` loads one"
        number = counted(len(rest), "module" if of_setup else "variant")
        output.say(f"{number} not loaded here for lack of {lacking}{advice}")


def _extensions(built: Built) -> Iterator[tuple[Path, Path]]:
    """The files of a variant that Python imports, each with the file that marks it as loaded.

    Equal bytes can load in one release of torch and fail in another, so the mark depends on the variant's name, too.
    """
    files = sorted(path for path in built.path.rglob("*") if path.is_file() and path != built.path / METADATA)
    for extension in _imported(built, files):
        digest = hashlib.sha256(built.variant.name.encode())
        for path in files:
            if path == extension or built.variant.module or path.suffix == _SOURCE:
                digest.update(path.read_bytes())
        yield extension, cache_root() / "loaded" / digest.hexdigest()


def _imported(built: Built, files: Sequence[Path]) -> list[Path]:
    """The files of a variant that Python imports: the library of a package; a module's file."""
    suffix = built.variant.library_suffix
    if module := built.variant.module:
        return [path for path in files if path.name == f"{module.rpartition('.')[2]}{suffix or _SOURCE}"]
    return [path for path in files if path.parent == built.path and path.name.endswith(suffix or _ABI3)]


def _torches(interpreters: Iterable[str]) -> Iterator[Torch]:
    """The torches of interpreters; an empty name means the user's Python."""
    for named in interpreters:
        if (torch := importable_torch(named)) is not None:
            yield torch


def _of_versions(pythons: Iterable[Python]) -> list[str]:
    """The installed interpreters of versions of Python."""
    found = [find_interpreter(python.version) for python in pythons]
    return [str(interpreter) for interpreter in found if interpreter]


def _fits(torch: Torch, built: Built) -> bool:
    """Whether a torch can load a variant; a torch for GPUs can also load variants for the CPU.

    A free-threaded Python has no limited API, which a module's library may call.
    """
    python, configuration = built.variant.python, built.variant.configuration
    if python and version_of(Path(torch.python)) != python.version:
        return False
    limited = built.variant.module and built.variant.library_suffix and not python
    if limited and version_of(Path(torch.python)).endswith(_FREE_THREADED):
        return False
    return fits(replace(torch, backend=_CPU) if configuration.backend == _CPU else torch, configuration)


def _load(built: Built, extension: Path, torch: Torch) -> _Loaded:
    """Load a variant in its own process: a module; or the library, and for the CPU also the Python package.

    Only the `kernels` client can import a package that depends on other kernels.
    """
    configuration = built.variant.configuration
    alone = configuration.family == _CPU and not built.variant.metadata.get("kernel-depends")
    part = "module" if built.variant.module else "package" if alone else "library"
    command = [torch.python, "-c", resource("load.py"), str(extension.absolute()), part, configuration.abi or ""]
    command += filter(None, [built.variant.module])
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
    if done.returncode > 0 and lines and _NO_DRIVER in lines[-1]:
        return _Loaded(lacks=f"it needs {DRIVER} of NVIDIA's driver, which is missing")
    if done.returncode < 0:
        died = f"the process died with {signal.Signals(-done.returncode).name}"
        return _Loaded(wrong="; ".join([died, *_thrown(lines)]))
    return _Loaded(wrong=lines[-1] if lines else f"exit code {done.returncode}") if done.returncode else _Loaded()


def _thrown(lines: Sequence[str]) -> list[str]:
    """The message of the exception that ended a process, without its origin in torch."""
    start = next((number for number, line in enumerate(lines) if line.lstrip().startswith(_WHAT)), len(lines))
    texts = [line.strip().removeprefix(_WHAT).strip() for line in lines[start:]]
    end = next((number for number, text in enumerate(texts) if text.startswith(_THROWN_IN)), len(texts))
    return texts[:end]
