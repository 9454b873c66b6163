"""The packages that a project's build needs: installed as wheels from the package index into the cache."""

from __future__ import annotations

import fnmatch
import json
import re
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import distributions
from typing import TYPE_CHECKING, Final

from py_driver.errors import Code, error
from py_driver.recording.facts import facts
from py_driver.system.cache import cache_root, storage_errors
from py_driver.system.environment import curated
from py_driver.system.files import sha256
from py_driver.system.locks import locked
from py_driver.system.scratch import scratch, settle, sweep
from py_driver.system.venv import ensure_venv, pip_problem

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from py_driver.output import Output

_WITHOUT_WHEEL: Final = ("No matching distribution", "Could not find a version")
_FROM_INDEX: Final = re.compile(
    r"\s*[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\s*(?:\[[A-Za-z0-9._,\s-]*\])?\s*(?:[(=<>!~][^@;/:]*)?(?:;.*)?"
)
"""PEP 508 without URLs."""

_NAME: Final = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_LEAST: Final = re.compile(r"(?:>=|==|~=|>)\s*(\d+)")
_WITHOUT_PKG_RESOURCES: Final = 82
_PLACE: Final = "build-requirements"
_FORMAT: Final = "programs"
_ELF: Final = b"\x7fELF"


def normalized(requirement: str) -> str:
    """The normalized name of a requirement's distribution, as on indexes; empty if it has none."""
    found = _NAME.match(requirement)
    return re.sub(r"[-_.]+", "-", found[1]).lower() if found else ""


def is_stand_in(requirement: str) -> bool:
    """Whether a requirement is never installed: torch, or a package that comes with it."""
    name = normalized(requirement)
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in facts()["requirements"]["never"])


def check(requirements: Iterable[str]) -> None:
    """Reject requirements that pip would not resolve from the package index: options, addresses and directories.

    Raises:
        DriverError: UNSUPPORTED.
    """
    for requirement in requirements:
        if not _FROM_INDEX.fullmatch(requirement):
            message = f"`{requirement}` is not a build requirement from the package index"
            raise error(Code.UNSUPPORTED, message, help="name a distribution with versions, as `setuptools>=77`")


def chosen(requires: Iterable[str]) -> tuple[str, ...]:
    """The requirements to install for a project.

    Args:
        requires: the project's own requirements.

    Returns:
        Sorted: without torch, but with the requirements of every recording.
    """
    kept = {requirement.strip() for requirement in requires if not is_stand_in(requirement)}
    newer = any(
        found and int(found[1]) >= _WITHOUT_PKG_RESOURCES
        for requirement in kept
        if normalized(requirement) == "setuptools" and (found := _LEAST.search(requirement))
    )
    always = [name for name in facts()["requirements"]["always"] if not (newer and normalized(name) == "setuptools")]
    if any(normalized(requirement) in facts()["cmake"]["asked-by"] for requirement in kept):
        always += facts()["cmake"]["requirements"]
    return tuple(sorted({*kept, *always}))


def installed(requirements: tuple[str, ...], output: Output) -> tuple[Path, tuple[str, ...]]:
    """A directory with packages, filled by pip unless it exists.

    Args:
        requirements: requirements in pip's form.
        output: where progress is shown.

    Returns:
        The directory, and its packages: `setuptools==80.9.0`, sorted.

    Raises:
        DriverError: NO_NETWORK or SET_UP if pip fails; UNSUPPORTED if a package has no wheel; see `check`; NO_SPACE,
            PERMISSION.
    """
    check(requirements)
    key = sha256(json.dumps([requirements, sys.version, _FORMAT]).encode())[:16]
    root = cache_root() / _PLACE
    target = root / key
    with storage_errors(target):
        root.mkdir(parents=True, exist_ok=True)
        if not target.is_dir():
            with locked(root / f"{key}.lock"):
                if not target.is_dir():
                    sweep(root)
                    with scratch(root) as here:
                        _install(here / "packages", requirements, output)
                        settle(here / "packages", target)
    with suppress(OSError):  # a cache that is read-only
        (root / f"{key}.lock").touch()
    found = {f"{normalized(each.metadata['Name'])}=={each.version}" for each in distributions(path=[str(target)])}
    return target, tuple(sorted(found))


def _install(target: Path, requirements: tuple[str, ...], output: Output) -> None:
    python = ensure_venv("pip", ["pip"], output)
    with output.task(f"installing build requirements: {', '.join(requirements)}") as task:
        options = [
            "--disable-pip-version-check",
            "--progress-bar=off",
            "--no-input",
            "--no-compile",
            "--only-binary=:all:",
        ]
        command = [str(python), "-m", "pip", "install", *options, f"--target={target}", *requirements]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            env=curated(),
            cwd="/",
        )
        if done.returncode:
            problem = pip_problem(requirements, done.stdout)
            lacking = any(text in done.stdout for text in _WITHOUT_WHEEL)
            if lacking and problem.diagnostics[0].code is not Code.NO_NETWORK:
                raise error(
                    Code.UNSUPPORTED,
                    problem.diagnostics[0].message,
                    help="build requirements are installed only as wheels: building one would run its code unconfined",
                )
            raise problem
        _remove_scripts(target / "bin")
        task.done("done")


def _remove_scripts(directory: Path) -> None:
    """Remove scripts for an interpreter that a recording does not have; binary programs stay."""
    for path in directory.iterdir() if directory.is_dir() else ():
        with path.open("rb") as file:
            is_program = file.read(len(_ELF)) == _ELF
        if not is_program:
            path.unlink()
