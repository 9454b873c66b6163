"""Errors about the includes of a source, and their messages."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, NamedTuple

from py_driver.errors import Code
from py_driver.manifest.model import TORCH, TVM_FFI
from py_driver.manifest.paths import SOURCES
from py_driver.plan.compile_groups import REGISTRATION
from py_driver.plan.includes import PYTHON_HEADERS, TORCH_FOLDERS
from py_driver.plan.toolchain_headers import may_be_of_a_toolchain

if TYPE_CHECKING:
    from py_driver.manifest.section import Findings
    from py_driver.plan.includes import Include
    from py_driver.plan.project_files import ProjectFiles
    from py_driver.plan.section_search import Section


class Wrong(NamedTuple):
    """An error about an include.

    Attributes:
        code: the error code.
        message: its message.
        advice: its help.
        doubt: why the include may be valid, as the end of a sentence, which makes the error a note; else empty.
    """

    code: Code
    message: str
    advice: str
    doubt: str = ""


PYBIND11 = "PYBIND11_MODULE"

NO_PYBIND11 = Wrong(
    Code.UNSUPPORTED,
    f"`{PYBIND11}` builds for a single Python version; kernels must use the limited API",
    'include "registration.h", register the ops with `TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) { ops.def(...);'
    " }` and add `REGISTER_EXTENSION(TORCH_EXTENSION_NAME)`; see docs/build-toml.md. Or make wheels alone, one for each"
    " Python: `driver wheel --binding pybind`",
)


class Seen(NamedTuple):
    """An include of a file.

    Attributes:
        path: the path of the file.
        certain: whether the compiler reads the file in any case.
        include: the include.
    """

    path: str
    certain: bool
    include: Include


def complain(files: ProjectFiles, seen: Seen, wrong: Wrong, findings: Findings) -> None:
    """Collect the error about an include, once even if several sections reach it.

    Args:
        files: the files of the project.
        seen: the include and its position.
        wrong: the error.
        findings: gets the error.
    """
    path, certain, include = seen
    note = wrong.doubt
    if not note and (include.conditional or not certain):
        here = "this `#if`" if include.conditional else "the `#if` that leads here"
        where = "this is an error" if wrong.code is Code.UNSUPPORTED else "the compiler will not find it"
        note = f"; where {here} holds, {where}"
    if not files.complains(path, include.start, error=not note):
        return
    span = files.span(path, include)
    if note:
        findings.note(f"{wrong.message}{note}", span, wrong.code if wrong.doubt else None)
    else:
        findings.add(wrong.code, wrong.message, span, advice=wrong.advice)


def note_source(files: ProjectFiles, seen: Seen, source: str, findings: Findings) -> None:
    """Collect a note for an include of a file that the section compiles too, once even if several sections reach it.

    Args:
        files: the files of the project.
        seen: the include and its position.
        source: the included file.
        findings: gets the note.
    """
    path, _, include = seen
    if not files.complains(path, include.start, error=False):
        return
    findings.note(
        f"`{source}` is included here, and as a source in `src` it is compiled by itself too: what it defines is there"
        " twice, unless it is `static` or `inline`; what is only included has the name of a header, as `.cuh`, `.inl`",
        files.span(path, include),
    )


def problem(files: ProjectFiles, section: Section, target: str | None, seen: Seen) -> Wrong | None:
    """The error about an include that reaches no listed file, if there is one.

    Args:
        files: the files of the project.
        section: the section of the including file.
        target: the file of the project that is meant, if it exists.
        seen: the include and its position.
    """
    include = seen.include
    if section.tvm_ffi and target is None and include.path.startswith(TORCH_FOLDERS):
        message = f"`{include.path}` is included here, but torch's headers are not available in a [{TVM_FFI}] project"
        advice = f"bind the kernel with [{TORCH}], or use the types of DLPack and tvm-ffi"
        return Wrong(Code.UNSUPPORTED, message, advice)
    if include.path.startswith("/"):
        message = f"`{include.path}` is included here by a path that is not relative to the project"
        return Wrong(Code.PATH_ESCAPES, message, "include a copy in the project")
    if target is not None:
        return _unlisted(files, section, target, seen)
    if include.quoted and not include.path.startswith(section.libraries) and not may_be_of_a_toolchain(include.path):
        return _not_found(files, section, seen)
    return None


def _unlisted(files: ProjectFiles, section: Section, target: str, seen: Seen) -> Wrong | None:
    """The error about an include of a file of the project that no `src` lists, if there is one."""
    if target == REGISTRATION or target in files.unusable:
        return None
    message = f"`{target}` is included here, but no `src` lists it"
    library = section.library(seen.path, target, seen.include)
    doubt = f": the compiler uses the file of {library}, if it exists there" if library else ""
    root, suffix = posixpath.splitext(target)
    if suffix not in SOURCES:
        return Wrong(Code.UNLISTED_HEADER, message, f'add "{target}" to `src` in {section.title}', doubt)
    header = f"{root}{'.cuh' if suffix == '.cu' else '.inl'}"
    advice = f'rename it, e.g. to "{header}", and add "{header}" to `src` in {section.title}'
    return Wrong(Code.UNLISTED_HEADER, message, f"{advice}: a source there is compiled by itself too", doubt)


def _not_found(files: ProjectFiles, section: Section, seen: Seen) -> Wrong | None:
    """The error about an include in quotes that leads to no file of the project, if there is one."""
    path, _, include = seen
    here = posixpath.normpath(include.path)
    if files.has(here) or files.exists(here):
        message = f"`{here}` is included here, but no directory of `include` in {section.title} leads to it"
        advice = 'add "." to `include`' if section.include else 'write include = ["."]'
        listed = "" if files.has(here) else f', and add "{here}" to `src`'
        return Wrong(Code.UNLISTED_HEADER, message, f"{advice} in {section.title}{listed}")
    if include.conditional or PYTHON_HEADERS.fullmatch(include.path):
        return None
    folder = include.path.partition("/")[0] if "/" in include.path else ""
    places = [posixpath.normpath(posixpath.join(base, folder)) for base in section.folders(path, include)]
    ours = folder in {".", ".."} or (folder != "" and any(map(files.has_folder, places)))
    if section.foreign and not ours:
        return None
    message = f"`{include.path}` is included here, and no file of the project has this path"
    advice = files.suggestion(posixpath.normpath(posixpath.join(posixpath.dirname(path), include.path)))
    advice = advice or "correct the path, or add the file and list it in `src`"
    return Wrong(Code.UNLISTED_HEADER, message, advice, "" if ours else "; no toolchain is known to have it")
