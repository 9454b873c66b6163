"""Compilers' messages about device code of another source, which requires relocatable device code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.actions.phases import kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from py_driver.actions.author_paths import AuthorPaths, BuiltProject
    from py_driver.diagnosing.compiler_text import Severity

_CALLED: Final = re.compile(r"Unresolved extern (?:function|variable) '(?P<name>\w+)'")
_COPIED: Final = re.compile(
    r"extern declaration of the entity \"?(?P<name>[\w:]+)\"? is treated as a static definition", re.IGNORECASE
)
_LLD: Final = re.compile(r"undefined (?:\w+ )?symbol: (?P<name>.+)$")
_NVLINK: Final = re.compile(
    r"Undefined reference to '(?P<name>\w+)' in '(?P<object>[^']+)'|^expected (?P<runtime>libcudadevrt) object"
)
_LAUNCHES: Final = re.compile(
    r"libcudadevrt|_*cuda(?:CDP|GetParameterBuffer|LaunchDevice|Device(?:Synchronize|Get))\w*"
)
_TWICE: Final = re.compile(r"redefinition of '(?P<name>\w+)'")
_EXTERN: Final = re.compile(r"\bextern\b.*__(?:device|constant|managed)__")
_FEW: Final = 3
_DEVICE_LINK: Final = "CudaDeviceLink"
_HELP: Final = (
    "    help: put its definition into a header that each source includes (`inline` or `static`), or what uses it into "
    "the source that has it"
)
_HELP_CUDA: Final = f"{_HELP}; or compile both with `-rdc=true`, and their device code is linked"
_HELP_LINK: Final = "    help: compile the source that defines it with `-rdc=true`, too"
_HELP_LAUNCH: Final = (
    "    help: build for CUDA 13.0 or newer, on a machine with the CPU of the variant: others have no libcudadevrt"
)


class Place(NamedTuple):
    """The place of a compiler's message.

    Attributes:
        project: the compiled project.
        file: the file, as on the command line; empty without a place.
        line: the line in that file; 0 if unknown.
        mnemonic: the mnemonic of the action.
    """

    project: BuiltProject
    file: str
    line: int
    mnemonic: str


class Explained(NamedTuple):
    """An explained message.

    Attributes:
        message: the explanation in one line.
        line: the line in the file.
        lines: the lines to show.
    """

    message: str
    line: int
    lines: tuple[str, ...]


def explained(
    message: str, severity: Severity, lines: Sequence[str], place: Place, paths: AuthorPaths
) -> Explained | None:
    """Explain a message about device code of another source, with the author's names; None for any other message.

    Args:
        message: the message of a compiler.
        severity: its severity.
        lines: its lines that are shown.
        place: its place.
        paths: the paths of the build.
    """
    elsewhere = kind(place.mnemonic).elsewhere
    described = _said(message, elsewhere)
    if described is None:
        return None
    name, text = described
    word = re.split(r"[<(\[]", name)[0].rpartition("::")[2]
    project = place.project
    # A linker names the code of the source that has the reference.
    user = paths.made(used["object"]) if (used := _NVLINK.search(message)) and used["object"] else None
    of_place = str(project.shown / user.source) if user else place.file
    file = next((listed for listed in project.plan.files if str(project.shown / listed) == of_place), "")
    with_name = {listed: numbers for listed in project.plan.files if (numbers := paths.lines_of(project, listed, word))}
    if elsewhere == "twice" and not any(
        _EXTERN.search(paths.text_of(project, listed, number) or "")
        for listed, numbers in with_name.items()
        for number in numbers
    ):
        return None
    line = place.line or next(iter(with_name.get(file, ())), 0)
    others = [str(project.shown / listed) for listed in with_name if listed != file]
    if place.mnemonic.startswith("Hip"):
        text, advice = f"{text}: that requires relocatable device code, which is linked only for CUDA", _HELP
    elif place.mnemonic == _DEVICE_LINK:
        advice = _HELP_LAUNCH if _LAUNCHES.fullmatch(name) else _HELP_LINK
    else:
        text, advice = f"{text}: that requires relocatable device code (`-rdc=true`)", _HELP_CUDA
    where = f"{of_place}:{line}: " if line and of_place else f"{of_place}: " if of_place else ""
    shown = [f"    {shown_line.removeprefix(f'{of_place}: ')}" for shown_line in lines]
    also = [f"    {', '.join(others[:_FEW])} {'has' if len(others) == 1 else 'have'} it too"] if others else []
    return Explained(message=text, line=line, lines=(f"{where}{severity}: {text}", *shown, *also, advice))


def _said(message: str, elsewhere: str) -> tuple[str, str] | None:
    """The name that another source defines, and an explanation; None for any other message."""
    if match := _NVLINK.search(message):
        name = plain(match["name"] or match["runtime"])
        if _LAUNCHES.fullmatch(name):
            return (
                name,
                "device code launches kernels, or is optimised at link time, and this toolkit has no libcudadevrt",
            )
        return name, f"`{name}` is device code that no source with `-rdc=true` defines"
    if match := (_LLD if elsewhere == "undefined" else _CALLED).search(message):
        name = plain(match["name"])
        return name, f"`{name}` is device code that this source calls and does not define"
    if match := _COPIED.search(message):
        return match["name"], f"`{match['name']}` is a separate variable here, all zeros, not that of another source"
    if elsewhere == "twice" and (match := _TWICE.search(message)):
        return match["name"], f"`{match['name']}` is a variable of device code that is declared `extern`"
    return None


def plain(name: str) -> str:
    """A name without C++ mangling, unless it has template parameters: `ns::curve`."""
    match = re.match(r"_Z(?:L?(?=\d)|N[rVKRO]*(?=\d))", name)
    if match is None:
        return name
    parts, rest = [], name[match.end() :]
    while digits := re.match(r"\d+", rest):
        length, at = int(digits[0]), digits.end()
        parts.append(rest[at : at + length])
        rest = rest[at + length :]
        if not name.startswith("_ZN"):
            break
    return "::".join(parts)
