"""What CMake prints of a fault, and the line of the project that it is about."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_ERROR: Final = re.compile(r"^CMake Error at (?P<file>\S+?):(?P<line>\d+) \((?P<command>\w+)\):\n(?P<text>(?:[ \t]+.*\n|\n)+)", re.M)
_PLAIN: Final = re.compile(r"^CMake Error(?: in (?P<file>\S+))?:(?P<text>.*\n(?:[ \t]+.*\n|\n)*)", re.M)
_CALL: Final = re.compile(r"^  (\S+?):(\d+) \((\w+)\)$", re.M)
_STACK: Final = "Call Stack (most recent call first):\n"
_OURS: Final = re.compile(r"recording: (.*)")
_FETCH: Final = "FetchContent of "


class CMakeFault(NamedTuple):
    """The first error of a configuration.

    Attributes:
        file: of the project, relative to it; empty if none is part of the error.
        line: in that file.
        message: as one line.
        fetches: whether the project wants to download what the message names.
    """

    file: str
    line: int
    message: str
    fetches: bool


def fault(output: str, project: str) -> CMakeFault | None:
    """The first error that CMake printed; None if it printed none.

    Args:
        output: of a run.
        project: the directory of the project in the run.
    """
    found = _ERROR.search(output) or _PLAIN.search(output)
    if found is None:
        return None
    groups = found.groupdict()
    text = groups["text"]
    calls = [(groups.get("file") or "", int(groups.get("line") or 0))]
    rest = output[found.end() :]
    if rest.startswith(_STACK):
        calls += [(name, int(line)) for name, line, _ in _CALL.findall(rest.partition("\n\n")[0])]
    own = [(name, line) for path, line in calls if (name := _within(path, project))]
    message = " ".join(text.split())
    ours = _OURS.search(message)
    message = ours[1] if ours else message
    file, line = own[0] if own else ("", 0)
    return CMakeFault(file, line, message, message.startswith(_FETCH))


def _within(path: str, project: str) -> str:
    """A path of the project, relative to it; CMake prints paths relative to the source directory where it can."""
    if path.startswith(f"{project}/"):
        return path[len(project) + 1 :]
    return "" if path.startswith(("/", "../")) else path
