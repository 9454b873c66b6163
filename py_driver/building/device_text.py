"""What compilers of device code say of names that another source defines, which takes relocatable device code."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from py_driver.building.author_paths import AuthorPaths, Project
    from py_driver.building.findings import Finding

_CALLED: Final = re.compile(r"Unresolved extern (?:function|variable) '(?P<name>\w+)'")
_COPIED: Final = re.compile(
    r"extern declaration of the entity \"?(?P<name>[\w:]+)\"? is treated as a static definition", re.IGNORECASE
)
_LLD: Final = re.compile(r"undefined (?:\w+ )?symbol: (?P<name>.+)$")
_TWICE: Final = re.compile(r"redefinition of '(?P<name>\w+)'")
_HIP, _HOST = "HipLink", "CudaHostCompile"
_FEW: Final = 3
_HELP: Final = (
    "    help: put its definition into a header that each source includes (`inline` or `static`), or what uses it into "
    "the source that has it"
)


def explained(found: Finding, mnemonic: str, paths: AuthorPaths, project: Project | None) -> Finding:
    """A finding about device code of another source, told with the author's names; any other as it is.

    Args:
        found: what a compiler said.
        mnemonic: of its action.
        paths: of the build.
        project: that is built.
    """
    said = _said(found, mnemonic)
    if said is None or project is None:
        return found
    name, message = said
    word = re.split(r"[<(\[]", name)[0].rpartition("::")[2]
    file = next((one for one in project.plan.files if str(project.directory / one) == found.file), "")
    with_name = {one: numbers for one in project.plan.files if (numbers := paths.lines_of(project, one, word))}
    if mnemonic == _HOST and not any(
        re.search(r"\bextern\b.*__(?:device|constant|managed)__", paths.text_of(project, one, number) or "")
        for one, numbers in with_name.items()
        for number in numbers
    ):
        return found
    line = found.line or next(iter(with_name.get(file, ())), 0)
    others = [str(project.directory / one) for one in with_name if one != file]
    message += ": that takes relocatable device code (`-rdc=true`), which is not linked"
    place = f"{found.file}:{line}" if line and found.file else found.file
    also = [f"    {', '.join(others[:_FEW])} {'has' if len(others) == 1 else 'have'} it too"] if others else []
    head = f"{place}: {found.severity}: {message}" if place else f"{found.severity}: {message}"
    shown = [f"    {one.removeprefix(f'{found.file}: ')}" for one in found.lines]
    return replace(found, message=message, line=line, lines=(head, *shown, *also, _HELP))


def _said(found: Finding, mnemonic: str) -> tuple[str, str] | None:
    """The name that another source defines, and what that means here; None of another message."""
    if match := (_LLD if mnemonic == _HIP else _CALLED).search(found.message):
        name = plain(match["name"])
        return name, f"`{name}` is device code that this source calls and does not define"
    if match := _COPIED.search(found.message):
        return match["name"], f"`{match['name']}` is another variable here, all zeros, and not that of another source"
    if mnemonic == _HOST and (match := _TWICE.search(found.message)):
        return match["name"], f"`{match['name']}` is a variable of device code that is declared `extern`"
    return None


def plain(name: str) -> str:
    """A name without what C++ compilers make of it, as far as it has no parameters of templates: `ns::curve`."""
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
