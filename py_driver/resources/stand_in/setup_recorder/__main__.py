"""Builds a wheel through a project's build backend, with stand-ins, and writes down what happened.

The argument is the path of job.json:
`project`, `result`, `wheel`, `backend`, `backend_path`, `cpu`, `answers`, `never`.
"""

from __future__ import annotations

import fnmatch
import importlib
import importlib.metadata
import json
import os
import sys
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from torch.utils.cpp_extension import _NAMED_ARCHS

from . import linked
from .compiling import Modules
from .places import Places
from .steady import hold
from .wanted import Wanted


def _backend(job: dict[str, Any]) -> Any:  # noqa: ANN401  (a module or an object in one)
    """The build backend that pyproject.toml names."""
    sys.path[:0] = [os.path.join(job["project"], path) for path in job["backend_path"]]  # noqa: PTH118
    module, _, path = job["backend"].partition(":")
    found: Any = importlib.import_module(module)
    for name in path.split(".") if path else ():
        found = getattr(found, name)
    return found


def _missing(requirements: list[str], never: list[str]) -> list[str]:
    """The requirements that are not installed, without those that never are."""
    found = []
    for text in requirements:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            found.append(text)
            continue
        if any(fnmatch.fnmatchcase(requirement.name.lower(), pattern) for pattern in never):
            continue
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            found.append(text)
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            found.append(text)
    return found


def _described(problem: BaseException, places: Places) -> dict[str, Any]:
    """An exception, as the driver reports it: of one that distutils made a message of, the first."""
    shown = problem
    if isinstance(problem, SystemExit) and isinstance(problem.code, str) and problem.__context__ is not None:
        shown = problem.__context__
    exits = isinstance(shown, SystemExit)
    found = places.raised(shown) or places.raised(problem)
    message = str(shown.code) if isinstance(shown, SystemExit) and shown.code is not None else str(shown)
    if isinstance(shown, SyntaxError) and shown.lineno and shown.filename:
        message = shown.msg
        found = [*found, *places.of_file("setup.py" if shown.filename == "<string>" else shown.filename, shown.lineno)]
    return {
        "type": type(shown).__name__,
        "module": type(shown).__module__,
        "message": message,
        "exits": exits,
        "missing": getattr(shown, "name", None) if isinstance(shown, ModuleNotFoundError) else None,
        "places": found,
    }


def _requirements(job: dict[str, Any], wanted: Wanted) -> None:
    """Ask the backend what it needs besides; what is not there ends the process."""
    hook = getattr(_backend(job), "get_requires_for_build_wheel", None)
    needs = _missing(list(hook(None)), job["never"]) if hook else []
    if needs:
        _write(job, wanted, needs=needs)
        _end(1)


def _write(job: dict[str, Any], wanted: Wanted, **result: Any) -> None:  # noqa: ANN401
    arch_list = os.environ.get("TORCH_CUDA_ARCH_LIST", "").replace("native", "")
    for name, archs in _NAMED_ARCHS.items():
        arch_list = arch_list.replace(name, archs)
    Path(job["result"]).write_text(
        json.dumps({**result, "asked": wanted.notes, "arch_list": arch_list}), encoding="utf-8"
    )


def _first(job: dict[str, Any], places: Places, wanted: Wanted) -> int:
    """The exit code of the first hook, in a process of its own as pip has it; that of a signal is negative."""
    child = os.fork()
    if child == 0:
        try:
            _requirements(job, wanted)
        except BaseException as problem:  # noqa: BLE001  (whatever a setup.py raises is what is reported)
            _write(job, wanted, failure=_described(problem, places))
            _end(1)
        _end(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _end(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    """Run the hooks of the backend."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    os.chdir(job["project"])
    hold(job["cpu"])
    places = Places(job["project"])
    wanted = Wanted(places, job["answers"])
    modules = Modules(places)
    modules.install()
    wanted.watch()
    sys.argv = ["setup.py"]
    if code := _first(job, places, wanted):
        if code < 0:
            os.kill(os.getpid(), -code)
        _end(code)
    try:
        name = _backend(job).build_wheel(job["wheel"], None, None)
        _write(job, wanted, wheel=name, modules=linked.modules_of(Path(job["wheel"]) / name, modules.noted, places))
    except BaseException as problem:  # noqa: BLE001  (as above)
        _write(job, wanted, failure=_described(problem, places))
        _end(1)
    _end(0)


if __name__ == "__main__":
    main()
