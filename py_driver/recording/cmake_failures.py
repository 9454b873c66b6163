"""CMake's error messages, and the lines of the project that they refer to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_ERROR: Final = re.compile(
    r"^CMake Error(?: at (?P<file>\S+?):(?P<line>\d+) \(\w+\)| in (?P<lists>\S+?))?:(?P<text>.*\n(?:[ \t]+.*\n|\n)*)"
    r"(?:Call Stack \(most recent call first\):\n(?P<stack>(?:  .*\n)*))?",
    re.MULTILINE,
)
_CALL: Final = re.compile(r"^  (\S+?):(\d+) \(\w+\)$", re.MULTILINE)
_OURS: Final = re.compile(r"recording: (.*)")
_FETCH: Final = "FetchContent of "
_GENERATED: Final = re.compile(r"(^|/)(_deps|CMakeFiles)/")


class CMakeFault(NamedTuple):
    """The first error of a configuration.

    Attributes:
        file: a file relative to the project; empty if the error names none.
        line: the line in that file.
        message: the message, on one line.
        fetches: whether the project tries to download what the message names.
    """

    file: str
    line: int
    message: str
    fetches: bool


def fault(output: str, project: str) -> CMakeFault | None:
    """The first error in CMake's output; None if there is none.

    Args:
        output: the output of a run.
        project: the directory of the project in the run.
    """
    found = list(_ERROR.finditer(output))
    if not found:
        return None
    lines = [line for error in found for line in _places(error, project)]
    file, line = next(iter(lines), ("", 0))
    message = " ".join(found[0]["text"].split())
    if ours := _OURS.search(message):
        message = ours[1]
    return CMakeFault(file, line, message, message.startswith(_FETCH))


def _places(error: re.Match[str], project: str) -> Iterator[tuple[str, int]]:
    """The lines of the project that an error names, the innermost first, without files that CMake wrote."""
    calls = [(error["file"] or error["lists"] or "", error["line"] or "1"), *_CALL.findall(error["stack"] or "")]
    for path, line in calls:
        inner = path.removeprefix(f"{project}/")  # CMake shortens paths below the source directory
        if inner and not inner.startswith(("/", "../")) and not _GENERATED.search(inner):
            yield inner, int(line)
