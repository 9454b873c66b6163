"""Loads each new variant if an installed torch can: wrong registrations fail only then.

No torch is installed for it. A variant that was loaded before is not loaded again. Each extension module of a setup.py
is loaded by itself, without the packages around it: their `__init__.py` may need a GPU.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.building.installed_torch import fits, importable_torch
from py_driver.building.loader import loading
from py_driver.building.made import LOADED, remember_load
from py_driver.errors import Code, error
from py_driver.matrix.installed_python import find_interpreter, version_of
from py_driver.output import counted
from py_driver.plan.metadata import METADATA
from py_driver.system.cache import cache_root, storage_errors
from py_driver.system.venv import made

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from py_driver.building.build import Built
    from py_driver.building.installed_torch import Torch
    from py_driver.building.loader import Loaded
    from py_driver.matrix.pythons import Python
    from py_driver.output import Output

_CPU: Final = "cpu"
_ABI3: Final = ".abi3.so"
_SOURCE: Final = ".py"
_FREE_THREADED: Final = "t"


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
    of_torch: dict[Torch, list[tuple[Built, Path, Path]]] = {}
    for built, extension, mark in new:
        torch = next((torch for torch in found if _fits(torch, built)), None)
        if torch is None:
            rest.append(built)
        else:
            of_torch.setdefault(torch, []).append((built, extension, mark))
    for torch, loadable in of_torch.items():
        with loading(torch, [_arguments(built, extension) for built, extension, _ in loadable]) as results:
            for built, _, mark in loadable:
                if _wait(built, torch, results, output, help).lacks:
                    continue  # it may be there the next time
                with storage_errors(mark):
                    mark.parent.mkdir(parents=True, exist_ok=True)
                    mark.touch()
    if rest:
        of_setup, of_python = rest[0].variant.module, any(built.variant.python for built in rest)
        lacking = "their Python with a matching torch" if of_python else "a matching torch"
        advice = "" if of_setup or of_python else "; `driver demo` loads one"
        number = counted(len(rest), "module" if of_setup else "variant")
        output.say(f"{number} not loaded here for lack of {lacking}{advice}")


def _wait(built: Built, torch: Torch, results: Iterator[Loaded], output: Output, advice: str) -> Loaded:
    """Wait until a variant is loaded; LOAD_FAILED, with this help, if that fails."""
    with output.task(f"loading {built.variant.name} in torch {torch.version} ({torch.backend})") as task:
        loaded = next(results)
        task.done("failed" if loaded.wrong else loaded.lacks or "done")
    message = f"{built.variant.name} cannot be loaded in torch {torch.version}: {loaded.wrong}" if loaded.wrong else ""
    if not built.variant.module:  # an extension module is shipped only by the command that loads it
        remember_load(built.path, built.variant.identifier, message)
    if message:
        raise error(Code.LOAD_FAILED, message, help=advice or f"it stays in {built.path}; do not publish it")
    return loaded


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
        yield extension, cache_root() / LOADED / digest.hexdigest()


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


def _arguments(built: Built, extension: Path) -> list[str]:
    """How `resources/load.py` loads a variant: a module; or its library, and the Python package if it is for the CPU.

    Only the `kernels` client can import a package that depends on other kernels.
    """
    configuration = built.variant.configuration
    alone = configuration.family == _CPU and not built.variant.metadata.get("kernel-depends")
    part = "module" if built.variant.module else "package" if alone else "library"
    return [str(extension.absolute()), part, configuration.abi or "", *filter(None, [built.variant.module])]
