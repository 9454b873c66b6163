"""What the sources of a project tell before they are compiled: which files they reach, and whether they find them.

A section sees every file that some section lists, as in the one tree in which upstream compiles. What it reaches of
those is what its actions get.
"""

from __future__ import annotations

import os
import posixpath
import re
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from py_driver.errors import Code
from py_driver.manifest.locate import Source
from py_driver.manifest.model import TORCH, TVM_FFI, values
from py_driver.manifest.paths import SOURCES, is_plain, path_problem
from py_driver.manifest.targets import binding_target
from py_driver.matrix.backends import BUILT
from py_driver.plan.includes import CUTLASS_FOLDERS, PYTHON_HEADERS, TORCH_FOLDERS, first_use, is_opaque, scan, use
from py_driver.plan.units import REGISTRATION, listers, split
from py_driver.system.files import contains, is_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from py_driver.errors import Span
    from py_driver.manifest.model import Kernel, Manifest, Text, Texts
    from py_driver.manifest.section import Findings
    from py_driver.matrix.backends.backend import Backend
    from py_driver.plan.includes import Include

_TREES = ("torch-ext/", "tests/")
"""Of these upstream's tree has the files with an extension of `pyext` (nix-builder/lib/source-set.nix)."""

_SIZE_LIMIT = 4 * 1024 * 1024
_PYTHON = "python"
"""What a section depends on that includes Python's headers; upstream has them in sight of every source."""

_PYBIND11 = "PYBIND11_MODULE"
_TELLS = re.compile(rf"-[DU] ?({'|'.join(macro for one in BUILT.values() for macro in one.macros)})(=| |$)")
_BINDS = ("REGISTER_EXTENSION", "PyInit_")
_ALWAYS = "csrc"
"""Searched for every source of an extension, after the directories of its section: `define_gpu_extension_target` of
upstream's generated CMake (kernel-builder, templates/utils.cmake)."""

_NO_PYBIND11 = (
    f"`{_PYBIND11}` makes an extension for one version of Python, and a kernel has one for all of them",
    'include "registration.h", register the ops with `TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) { ops.def(...);'
    " }` and add `REGISTER_EXTENSION(TORCH_EXTENSION_NAME)`; see docs/build-toml.md",
)


class Reach(NamedTuple):
    """What the sources of a section need that it does not say.

    Attributes:
        files: that they include, themselves or through others, sorted; also those that the section lists.
        includes: directories to include from, besides its own.
        depends: values of `depends` that it lacks.
    """

    files: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    depends: tuple[str, ...] = ()


def check_includes(
    directory: Path, manifest: Manifest, python: Iterable[str], unusable: set[str], findings: Findings
) -> Mapping[str, Reach]:
    """What the binding of each backend and each section that is compiled reach, by the names of their targets.

    An include that stands inside an `#if` gives a note instead of an error: the compiler may never see it. Each file
    that nvcc sees and that uses the list of architectures gives one too.

    Args:
        directory: the project's.
        manifest: what it says.
        python: the files of its Python package.
        unusable: files that sections list and that cannot be read.
        findings: gets UNLISTED_HEADER, PATH_ESCAPES and notes, of which some are TORCH_NOT_DECLARED.
    """
    compiled = [one for one in manifest.kernels if one.backend.value in manifest.built and one.backend.value in BUILT]
    framework = manifest.framework
    if framework.noarch or not compiled:
        return {}
    src = {*values(framework.src), *(name for one in manifest.kernels for name in values(one.src))}
    src -= {REGISTRATION, *unusable}
    plain = {name for name in python if all(map(is_plain, name.split("/")))}
    files = _Files(directory, src, plain, framework.extensions)
    cutlass = sorted(name for one in compiled for name in values(one.depends) if name.startswith("cutlass"))
    bound = framework.table
    flags = values(framework.cxx_flags)
    binding = _Section(f"[{bound}]", (framework.src, framework.include), (TORCH,), bound, cutlass, flags)
    backends = dict.fromkeys(one.backend.value for one in compiled)
    found = {binding_target(one): _reach(files, binding, one, findings) for one in backends}
    directories = _directories(manifest, backends)
    for one in compiled:
        flags = (*values(one.cxx_flags), *values(one.cuda_flags), *values(one.hip_flags))
        shared = {
            text.value: text for name in split(one.src)[0] for text in directories[one.backend.value, name].values()
        }
        include = tuple({**{text.value: text for text in one.include}, **shared}.values())
        section = _Section(one.title, (one.src, include), values(one.depends), bound, cutlass, flags)
        found[one.target] = _reach(files, section, one.backend.value, findings)
    for path, backend in dict.fromkeys(
        (path, BUILT[one.backend.value])
        for one in compiled
        if BUILT[one.backend.value].arch_list_macro
        for path in (*_device_sources(one), *found[one.target].files)
    ):
        _check_arch_list(files, path, backend, findings)
    binds = framework.src and bound == TORCH
    if binds and not any(word in files.text(text.value) for text in framework.src for word in _BINDS):
        message = "no file of `src` in [torch] has REGISTER_EXTENSION(TORCH_EXTENSION_NAME); Python cannot import it"
        findings.note(message, framework.src[0].span)
    if text := next((one for one in framework.src if one.value == REGISTRATION), None):
        findings.note(f"`{REGISTRATION}` is not used: the rules bring their own", text.span)
    return found


def _directories(manifest: Manifest, backends: Iterable[str]) -> Mapping[tuple[str, str], Mapping[str, Text]]:
    """What is searched for a source of a backend: what all include that list it, since it is compiled once."""
    framework = manifest.framework
    bound = dict.fromkeys(split(framework.src)[0], framework.include)
    return {
        (backend, source): {
            text.value: text
            for include in (*(one.include for one in sections), bound.get(source, ()))
            for text in include
        }
        for backend in backends
        for source, sections in listers(manifest, backend).items()
    }


def _device_sources(kernel: Kernel) -> list[str]:
    """The sources of a section that only its backend's compiler takes."""
    return [name for name in values(kernel.src) if name.endswith(BUILT[kernel.backend.value].sources)]


class _Section:
    """What decides which headers the files of a section find.

    Attributes:
        told: whether its flags define, or undefine, a macro by which `Include.backends` tells backends apart.
    """

    def __init__(  # noqa: PLR0913  (what a section says, and what others do)
        self,
        title: str,
        files: tuple[Texts, Texts],
        depends: tuple[str, ...],
        bound: str,
        cutlass: list[str],
        flags: Iterable[str],
    ) -> None:
        self.src, include = files
        self.title = title
        self.tvm_ffi = bound == TVM_FFI
        self.torch = TORCH in depends and not self.tvm_ffi
        self.told = _TELLS.search(" ".join(flags)) is not None
        self.include = [text.value for text in include]
        self.cutlass = next((one for one in depends if one.startswith("cutlass")), "")
        self.others = "" if self.cutlass else next(iter(cutlass), "")
        self.libraries = (*(TORCH_FOLDERS if self.torch else ()), *(CUTLASS_FOLDERS if self.cutlass else ()))


class _Files:
    """The files of a project, each read once.

    Args:
        directory: the project's.
        src: the files that a section lists.
        python: those of its Python package that can be included.
        extensions: of files, without a dot, that need not be listed below `_TREES`.
    """

    def __init__(self, directory: Path, src: set[str], python: set[str], extensions: Iterable[str]) -> None:
        self._directory = directory
        self._real = os.path.realpath(directory)
        self._listed = src | python
        self._endings = tuple(f".{one}" for one in extensions)
        self.others = sorted(name for name in src if not name.endswith(SOURCES))
        self._large: set[str] = set()
        self.complained: set[tuple[str, int]] = set()
        self._texts: dict[str, str] = {}
        self._sources: dict[str, Source] = {}
        self._includes: dict[str, tuple[Include, ...]] = {}
        self._exists: dict[str, bool] = {}

    def has(self, path: str) -> bool:
        """Whether upstream's tree has a file: if a section lists it, or it need not be listed."""
        if path in self._listed:
            return True
        if not path.startswith(_TREES) or not path.endswith(self._endings) or path == REGISTRATION:
            return False
        shown = all(is_plain(part) and not part.startswith(".") for part in path.split("/"))
        return shown and self.exists(path) and contains(self._real, os.path.realpath(self._directory / path))

    def text(self, path: str) -> str:
        """The text of a file; nothing if it cannot be read or is none of the project's."""
        if path not in self._texts:
            self._texts[path] = ""
            real = self._directory / path
            with suppress(OSError):
                if path_problem(path) is None and is_file(real):
                    if real.stat().st_size <= _SIZE_LIMIT:
                        self._texts[path] = real.read_text(encoding="utf-8", errors="replace")
                    else:
                        self._large.add(path)
        return self._texts[path]

    def is_opaque(self, path: str) -> bool:
        """Whether nobody can tell what a file includes."""
        return is_opaque(self.text(path)) or path in self._large

    def includes(self, path: str) -> tuple[Include, ...]:
        """What a file includes."""
        if path not in self._includes:
            self._includes[path] = scan(self.text(path))
        return self._includes[path]

    def exists(self, path: str) -> bool:
        """Whether the project has a regular file at a path."""
        if path not in self._exists:
            self._exists[path] = path_problem(path) is None and is_file(self._directory / path)
        return self._exists[path]

    def span(self, path: str, include: Include) -> Span:
        """Where a file names what it includes."""
        if path not in self._sources:
            self._sources[path] = Source(self.shown(path), self.text(path))
        return self._sources[path].span(include.start, include.start + len(include.path))

    def shown(self, path: str) -> str:
        """A path as the user knows it."""
        return str(self._directory / path)


def _reach(files: _Files, section: _Section, backend: str, findings: Findings) -> Reach:
    """What the sources of a section reach for a backend; collects what they will not find.

    What includes more than can be told may reach all but the sources; of that nothing is collected.
    """
    found: dict[str, None] = {}
    includes: dict[str, None] = {}
    depends: dict[str, None] = {}
    todo = dict.fromkeys(split(section.src, backend)[0])
    waiting = list(todo)
    perhaps: set[str] = set()
    for path in waiting:
        if files.is_opaque(path):
            perhaps |= set(files.others) - todo.keys()
            found |= dict.fromkeys(files.others)
            waiting += sorted(perhaps - todo.keys())
            todo |= dict.fromkeys(files.others)
            below = any(one.startswith(f"{_ALWAYS}/") for one in files.others)
            includes |= {_ALWAYS: None} if below and _ALWAYS not in section.include else {}
        if (module := use(files.text(path), _PYBIND11)) and backend in module.backends:
            _complain(files, path, module, (Code.UNSUPPORTED, *_NO_PYBIND11), findings)
        for include in files.includes(path):
            if backend not in include.backends and not section.told:
                continue
            target, always = _target(files, section, path, include)
            if target is not None and files.has(target):
                found[target] = None
                includes |= {_ALWAYS: None} if always else {}
                waiting += [target] if target not in todo else []
                todo[target] = None
                continue
            if target is None and PYTHON_HEADERS.fullmatch(include.path):
                depends[_PYTHON] = None
            needed = _undeclared(section, include) if target is None else ""
            if needed and needed not in depends:
                depends[needed] = None
                message = f"a header of {needed} is included here; {section.title} is compiled with it"
                span = files.span(path, include)
                findings.note(f"{message}, although its `depends` does not name it", span, Code.TORCH_NOT_DECLARED)
            elif not needed and path not in perhaps and (wrong := _problem(files, section, target, include)):
                _complain(files, path, include, wrong, findings)
    return Reach(files=tuple(sorted(found)), includes=tuple(includes), depends=tuple(depends))


def _undeclared(section: _Section, include: Include) -> str:
    """The value of `depends` that a section lacks for an include, or nothing."""
    if include.path.startswith(TORCH_FOLDERS) and not section.torch and not section.tvm_ffi:
        return TORCH
    return section.others if include.path.startswith(CUTLASS_FOLDERS) else ""


def _complain(files: _Files, path: str, include: Include, wrong: tuple[Code, str, str], findings: Findings) -> None:
    """Collect what is wrong with an include, once however many sections reach it."""
    if (path, include.start) in files.complained:
        return
    files.complained.add((path, include.start))
    code, message, advice = wrong
    span = files.span(path, include)
    if include.conditional:
        where = "this is an error" if code is Code.UNSUPPORTED else "the compiler will not find it"
        findings.note(f"{message}; where this `#if` holds, {where}", span)
    else:
        findings.add(code, message, span, advice=advice)


def _check_arch_list(files: _Files, path: str, backend: Backend, findings: Findings) -> None:
    """Collect a note for the first use of the list of architectures in a file."""
    text, macro = files.text(path), backend.arch_list_macro
    if (start := first_use(text, macro)) is not None:
        span = Source(files.shown(path), text).span(start, start + len(macro))
        message = f"`{macro}` names all architectures that {backend.compiler} knows, not those of the section"
        findings.note(f"{message}; under `driver build --cuda-compile monolithic` it names the latter", span)


def _problem(files: _Files, section: _Section, target: str | None, include: Include) -> tuple[Code, str, str] | None:
    """What is wrong with an include that reaches no listed file, if anything: which error, its message, and help."""
    if section.tvm_ffi and target is None and include.path.startswith(TORCH_FOLDERS):
        message = f"`{include.path}` is included here, and no header of torch is in sight of a [{TVM_FFI}] project"
        return Code.UNSUPPORTED, message, f"bind the kernel with [{TORCH}], or use DLPack's types and those of tvm-ffi"
    if include.path.startswith("/"):
        message = f"`{include.path}` is included here by a path that is not relative to the project"
        return Code.PATH_ESCAPES, message, "include a copy in the project"
    if target == REGISTRATION:
        return None
    if target is not None:
        message = f"`{target}` is included here, but no `src` lists it"
        return Code.UNLISTED_HEADER, message, f'add "{target}" to `src` in {section.title}'
    here = posixpath.normpath(include.path)
    known = files.has(here) or files.exists(here)
    if known and include.quoted and not include.path.startswith(section.libraries):
        message = f"`{here}` is included here, but no directory of `include` in {section.title} leads to it"
        advice = 'add "." to `include`' if section.include else 'write include = ["."]'
        listed = "" if files.has(here) else f', and add "{here}" to `src`'
        return Code.UNLISTED_HEADER, message, f"{advice} in {section.title}{listed}"
    return None


def _target(files: _Files, section: _Section, path: str, include: Include) -> tuple[str | None, bool]:
    """The file of the project that an include means, or None if it means none; and whether `_ALWAYS` leads to it."""
    folders = [*([posixpath.dirname(path)] if include.quoted else []), *section.include]
    paths = [posixpath.normpath(posixpath.join(folder, include.path)) for folder in (*folders, _ALWAYS)]
    listed = next((place for place, one in enumerate(paths) if files.has(one)), None)
    there = (place for place, one in enumerate(paths) if files.exists(one))  # what no `src` lists is no input
    place = next(there, None) if listed is None else listed
    return (None, False) if place is None else (paths[place], place == len(folders))
