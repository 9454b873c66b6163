"""The modules of a record, from the notes of a run, which are checked since a setup.py may have written them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from py_driver.errors import Code, Diagnostic, DriverError, Span, error
from py_driver.recording.record import Module
from py_driver.spelling import near_path
from py_driver.system.files import contains, is_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from py_driver.recording.paths import Paths

_TEXTS = ("cxx_flags", "nvcc_flags", "dlink_flags", "runtime_library_dirs", "extra_objects", "extra_link_args")
_KINDS = ("cpp", "cuda")
_BUILDERS = ("torch", "setuptools")
_UNKNOWN = "pyproject.toml"


def span_of(project: Path, shown: str, location: Sequence[Any] | None) -> Span | None:
    """The span for a location in a project.

    Args:
        project: the directory with its files.
        shown: its directory, as on the command line.
        location: the file, relative to the project, and the line.
    """
    if not location:
        return None
    file, line = str(location[0]), int(location[1])
    path = project / file
    own = contains(os.path.realpath(project), os.path.realpath(path)) and is_file(path)
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n") if own else []
    text = lines[line - 1].rstrip("\r") if 0 < line <= len(lines) else ""
    column = len(text) - len(text.lstrip()) + 1
    return Span(f"{shown}/{file}", line, column, max(len(text.strip()), 1), text)


def modules_of(noted: Sequence[dict[str, Any]], project: Path, shown: str, paths: Paths) -> tuple[Module, ...]:
    """The modules in the notes of a run.

    Args:
        noted: the notes, as the recorder writes them.
        project: the directory of the project after the run.
        shown: the project's directory, as on the command line.
        paths: the paths of the run.

    Raises:
        DriverError: FILE_MISSING for a source that does not exist; UNSUPPORTED for a source outside of the project.
    """
    faults: list[Diagnostic] = []
    found = []
    for value in noted:
        span = span_of(project, shown, value["place"])
        sources = tuple(paths.relative(source) for source in value["sources"])
        faults += [fault for source in sources for fault in _source_faults(project, source, str(value["name"]), span)]
        script, line = value["place"] or (_UNKNOWN, 0)
        found.append(
            Module(
                name=value["name"],
                kind=value["kind"] if value["kind"] in _KINDS else _KINDS[0],
                file=value["file"],
                script=script,
                line=line,
                sources=sources,
                include_dirs=tuple(paths.relative(path) for path in value["include_dirs"]),
                define_macros=tuple(
                    (name, None if text is None else paths.in_text(text)) for name, text in value["define_macros"]
                ),
                undef_macros=tuple(value["undef_macros"]),
                libraries=tuple(value["libraries"]),
                library_dirs=tuple(paths.relative(path) for path in value["library_dirs"]),
                limited_api=value["limited_api"],
                dlink=value["dlink"],
                builder=value.get("builder", "") if value.get("builder") in _BUILDERS else "",
                **{key: tuple(paths.in_text(text) for text in value[key]) for key in _TEXTS},
            )
        )
    if faults:
        raise DriverError(faults)
    names = [module.name for module in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise error(Code.UNSUPPORTED, f"two extension modules have the name `{twice}`", help="give each its own")
    return tuple(found)


def _source_faults(project: Path, source: str, module: str, span: Span | None) -> list[Diagnostic]:
    if source.startswith(("/", "../")) or ":" in source:
        message = f"`{source}`, a source of `{module}`, is not a file of the project"
        return [Diagnostic(Code.UNSUPPORTED, message, span, help="copy it into the project")]
    if is_file(project / source):
        return []
    message = f"`{source}`, a source of `{module}`, does not exist"
    advice = near_path(project / source, project) or "add the file; an archive may have been made without it"
    return [Diagnostic(Code.FILE_MISSING, message, span, help=advice)]
