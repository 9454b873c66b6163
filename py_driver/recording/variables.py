"""The variables of the environment that a build gets: those that it names; and the date, if it uses the time."""

from __future__ import annotations

import ast
import fnmatch
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.errors import Note, Span
from py_driver.recording.build_requirements import normalized
from py_driver.recording.build_system import SETUP
from py_driver.recording.facts import facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_NAMED: Final = re.compile(r"""(["'])([A-Z][A-Z0-9_]{2,})\1""")
_FORCE_BUILD: Final = re.compile(r"""(["'])([A-Z][A-Z0-9_]*_FORCE_BUILD)\1""")
_OF_CMAKE: Final = re.compile(r"\bENV\{([A-Z][A-Z0-9_]{2,})\}")
_CMAKE_FILES: Final = ("CMakeLists.txt", "*.cmake", "cmake/**/*.cmake")
_ASKED: Final = re.compile(r"""\b(?:getenv\(|environ(?:\.get\(|\[))\s*(["'])([A-Za-z][A-Za-z0-9_]+)\1""")
"""How Python reads a variable: `os.getenv`, `os.environ.get` or `os.environ`, each with a name in quotes."""

_TIME: Final = re.compile(r"\b(?:datetime|strftime|gmtime|localtime|time\.time(?:_ns)?\(\))")
"""Python's ways to get the time; a version may contain the date."""

_CMAKE_ARGS: Final = "CMAKE_ARGS"
_MOST_BYTES: Final = 4 << 20


def scripts(directory: Path) -> list[Path]:
    """The Python files that may run in a build, setup.py first.

    They are those in the project's directory itself, and the files of the project that these import.

    Args:
        directory: the directory of the project.
    """
    own = sorted(path for path in directory.glob("*.py") if path.is_file())
    found = dict.fromkeys(sorted(own, key=lambda path: path.name != SETUP))
    waiting = list(found)
    while waiting:
        new = [path for path in _imported(waiting.pop(), directory) if path not in found]
        found.update(dict.fromkeys(new))
        waiting += new
    return list(found)


def _imported(script: Path, directory: Path) -> Iterator[Path]:
    """The files of a project that a script imports, with the `__init__.py` of their packages."""
    try:
        tree = ast.parse(script.read_bytes()[:_MOST_BYTES])
    except (SyntaxError, ValueError, OSError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = script.parents[node.level - 1] if node.level else directory
            head = node.module.split(".") if node.module else []
            names = [[*head, alias.name] for alias in node.names]
        elif isinstance(node, ast.Import):
            base, names = directory, [alias.name.split(".") for alias in node.names]
        else:
            continue
        if base == directory or directory in base.parents:
            for parts in names:
                for count in range(1, len(parts) + 1):
                    module = Path(base, *parts[:count])
                    yield from filter(Path.is_file, (module.with_suffix(".py"), module / "__init__.py"))


def passed(directory: Path, requires: Iterable[str] = (), environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of the user's environment that a project or its build tools name, without secrets; sorted.

    Args:
        directory: the directory of the project.
        requires: its build requirements.
        environ: the environment; the process's own if None.
    """
    environ = os.environ if environ is None else environ
    text = _text(directory)
    named = {name for _, name in _NAMED.findall(text)} | _named_for_cmake(directory)
    tools = {normalized(requirement) for requirement in requires}
    for tool, patterns in facts()["variables"]["of"].items():
        if tool in tools or re.search(rf"""["']{tool.replace("-", "[-_]")}\b""", text):
            named.update(name for name in environ if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns))
    found = {name: environ[name] for name in sorted(named) if name in environ and _may_pass(name)}
    return found | ({_CMAKE_ARGS: _portable(found[_CMAKE_ARGS])} if _CMAKE_ARGS in found else {})


def _portable(text: str) -> str:
    """CMAKE_ARGS without words that name compilers and directories of this machine."""
    patterns = facts()["variables"]["cmake-args"]
    return " ".join(
        word for word in text.split() if not any(fnmatch.fnmatchcase(word, pattern) for pattern in patterns)
    )


def forced(directory: Path) -> dict[str, str]:
    """The variables that tell a project to build instead of looking for a prebuilt wheel, sorted."""
    return dict.fromkeys(sorted({name for _, name in _FORCE_BUILD.findall(_text(directory))}), "TRUE")


def unset_note(directory: Path, environ: Mapping[str, str] | None = None) -> Note | None:
    """The note on a setup.py without extension modules, if its environment may be the reason; else None.

    Many a setup.py builds its modules if a variable is set alone: `BUILD_CUDA_EXTENSIONS` for fairscale 0.4.13.

    Args:
        directory: of the project.
        environ: the variables; those of the process if None.
    """
    environ = os.environ if environ is None else environ
    script = directory / SETUP
    if not script.is_file():
        return None
    text = script.read_bytes()[:_MOST_BYTES].decode(errors="replace")
    found = [(name, text.count("\n", 0, match.start()) + 1) for match in _ASKED.finditer(text) for name in [match[2]]]
    unset = {name: line for name, line in reversed(found) if name not in environ and _may_pass(name)}
    if not unset:
        return None
    names = ", ".join(f"`{name}`" for name in sorted(unset))
    message = f"{SETUP} has no extension module, and these variables are not set: {names}"
    return Note(message=message, span=Span(str(script), min(unset.values()), 1))


def day(directory: Path, now: float | None = None) -> str:
    """The local and the UTC date, if the scripts of a project use the time; else empty.

    Args:
        directory: the directory of the project.
        now: the time in seconds since 1970; the system's time if None.
    """
    if not _TIME.search(_text(directory)):
        return ""
    return " ".join(time.strftime("%Y-%m-%d", split(now)) for split in (time.localtime, time.gmtime))


def _text(directory: Path) -> str:
    return _texts(scripts(directory))


def _named_for_cmake(directory: Path) -> set[str]:
    """The variables in a project's CMake files: `$ENV{WITH_FEATURE}`."""
    return set(_OF_CMAKE.findall(_texts(path for pattern in _CMAKE_FILES for path in directory.glob(pattern))))


def _texts(paths: Iterable[Path]) -> str:
    texts = [path.read_bytes()[:_MOST_BYTES].decode(errors="replace") for path in paths if path.is_file()]
    return "\n".join(texts)


def _may_pass(name: str) -> bool:
    table = facts()["variables"]
    return name not in table["never"] and not any(part in name for part in table["secret"])
