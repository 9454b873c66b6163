"""The files of a project that its card is made from: its binding, Python files, tests and benchmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from py_driver.plan.links import Links
from py_driver.publishing.release import make_file
from py_driver.system.files import is_file, reading

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.plan.project import Project
    from py_driver.publishing.release import File

BENCHMARKS: Final = "benchmarks"
"""The directory of a project with benchmark scripts, and with reports of `kernels benchmark --output FILE.json`."""

TESTS: Final = "tests"
"""The directory of a project with its tests."""

_LARGE: Final = 1 << 20


def texts(project: Project) -> dict[str, str]:
    """The texts that the card is made from, by path: the binding, Python files, and reports of benchmarks.

    Raises:
        DriverError: PATH_ESCAPES or PERMISSION; see `benchmarks`.
    """
    names = {source.value for source in project.manifest.framework.src} | {
        p for p in project.python if p.endswith(".py")
    }
    names |= {file.path for file in benchmarks(project.directory, "*.json")[0]}
    return _read(project.directory, names)


def texts_of_tests(directory: Path) -> dict[str, str]:
    """The texts of a project's test files, by path: those that pytest collects.

    Raises:
        DriverError: PATH_ESCAPES or PERMISSION; see `benchmarks`.
    """
    found = {file.path for pattern in ("**/test_*.py", "**/*_test.py") for file in _own(directory, TESTS, pattern)[0]}
    return _read(directory, found)


def benchmarks(directory: Path, pattern: str) -> tuple[list[File], list[str]]:
    """Files of a project's benchmarks, and a note for each file that is hidden or large.

    Args:
        directory: the directory of the project.
        pattern: a glob of file names.

    Raises:
        DriverError: PATH_ESCAPES if a link leads to something that is not a file of the project; PERMISSION if a file
            cannot be read.
    """
    return _own(directory, BENCHMARKS, pattern)


def _read(directory: Path, names: set[str]) -> dict[str, str]:
    found = {}
    for name in sorted(names):
        path = directory / name
        with reading(path):
            found[name] = path.read_text(encoding="utf-8-sig", errors="replace")
    return found


def _own(directory: Path, folder: str, pattern: str) -> tuple[list[File], list[str]]:
    """Files of a directory of a project, and a note for each file that is hidden or large."""
    found, notes = [], []
    links = Links(directory)
    for path in sorted((directory / folder).glob(pattern)):
        name = path.relative_to(directory).as_posix()
        if not is_file(path):
            continue
        if any(part.startswith(".") for part in path.relative_to(directory).parts):
            notes.append(f"{name} is not published: it is hidden")
            continue
        links.check(name)
        if path.stat().st_size > _LARGE:
            notes.append(f"{name} is not published: it is larger than {_LARGE >> 20} MiB")
        else:
            found.append(make_file(name, path))
    return found, notes
