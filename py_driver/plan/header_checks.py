"""Static checks of a project's includes: which files the sources reach, and whether the compiler will find them.

A section can include every file that any section lists, as in upstream's single source tree. Its actions get the files
that it reaches.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, NamedTuple

from py_driver.errors import Code
from py_driver.manifest.locate import Source
from py_driver.manifest.model import TORCH, values
from py_driver.manifest.paths import is_plain
from py_driver.manifest.targets import binding_target
from py_driver.matrix.backends import BUILT
from py_driver.plan.compile_groups import REGISTRATION, compiles, listers, split
from py_driver.plan.include_problems import NO_PYBIND11, PYBIND11, Seen, complain, note_source, problem
from py_driver.plan.includes import PYTHON_HEADERS, first_use, named, use, uses_python
from py_driver.plan.module_checks import check_module
from py_driver.plan.op_checks import OpChecker
from py_driver.plan.project_files import ProjectFiles
from py_driver.plan.section_search import ALWAYS, OPENMP, Section

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from py_driver.manifest.model import Kernel, Manifest, Text, Texts
    from py_driver.manifest.section import Findings
    from py_driver.matrix.backends.backend import Backend
    from py_driver.plan.links import Links

_EXTENSION_NAME = "TORCH_EXTENSION_NAME"
"""The macro of the unique id; upstream defines it for every source of an extension."""

_ONCE = "#pragma once"

_PYTHON = "python"
"""The dependency of a section that includes Python's headers; in upstream every source can include them."""


class Reach(NamedTuple):
    """Undeclared needs of a section's sources.

    Attributes:
        files: the files that they include directly or indirectly, sorted, including files that the section lists.
        includes: further include directories.
        depends: missing values of `depends`.
        named: whether a source or an included file uses TORCH_EXTENSION_NAME.
    """

    files: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    depends: tuple[str, ...] = ()
    named: bool = False


def check_includes(  # noqa: PLR0913  (the project's parts, its binding, and the findings)
    manifest: Manifest,
    python: Iterable[str],
    links: Links,
    unusable: set[str],
    findings: Findings,
    *,
    pybind: bool = False,
) -> Mapping[str, Reach]:
    """The reach of each backend's binding and of each compiled section, by the names of their targets.

    An include inside an `#if` leads to a note instead of an error: the compiler may never see it. A file for nvcc that
    uses the list of architectures leads to a note too.

    Args:
        manifest: the project's build.toml.
        python: the files of the Python package.
        links: the project's.
        unusable: listed files that cannot be read.
        findings: gets UNLISTED_HEADER, PATH_ESCAPES, OP_REGISTRATION and notes, also with TORCH_NOT_DECLARED.
        pybind: whether pybind11 binds it, for one Python each; otherwise PYBIND11_MODULE is UNSUPPORTED.
    """
    compiled = [
        kernel
        for kernel in manifest.kernels
        if kernel.backend.value in manifest.built and kernel.backend.value in BUILT
    ]
    framework = manifest.framework
    bound_alone = (backend for backend in manifest.built if compiles(manifest, backend))
    backends = dict.fromkeys([*(kernel.backend.value for kernel in compiled), *bound_alone])
    if not backends:
        return {}
    src = {*values(framework.src), *(name for kernel in manifest.kernels for name in values(kernel.src))}
    src -= {REGISTRATION, *unusable}
    plain = {name for name in python if all(map(is_plain, name.split("/")))}
    files = ProjectFiles(links, src, plain, unusable, framework.extensions)
    cutlass = sorted(name for kernel in compiled for name in values(kernel.depends) if name.startswith("cutlass"))
    bound = framework.table
    flags = values(framework.cxx_flags)
    directories = _directories(manifest, backends)
    found = {}
    for backend in backends:
        include = _searched(framework.src, framework.include, backend, directories)
        binding = Section(f"[{bound}]", (framework.src, include), (TORCH,), bound, cutlass, flags)
        found[binding_target(backend)] = _Walk(files, binding, backend, findings, pybind=pybind).go()
    for kernel in compiled:
        flags = (*values(kernel.cxx_flags), *values(kernel.cuda_flags), *values(kernel.hip_flags))
        include = _searched(kernel.src, kernel.include, kernel.backend.value, directories)
        section = Section(kernel.title, (kernel.src, include), values(kernel.depends), bound, cutlass, flags)
        found[kernel.target] = _Walk(files, section, kernel.backend.value, findings, pybind=pybind).go()
    for reach in found.values():
        _note_links(files, reach.files, findings)
    for path, compiled_by in dict.fromkeys(
        (path, BUILT[kernel.backend.value])
        for kernel in compiled
        if BUILT[kernel.backend.value].arch_list_macro
        for path in (*_device_sources(kernel), *found[kernel.target].files)
    ):
        _check_arch_list(files, path, compiled_by, findings)
    if split(framework.src)[0] and bound == TORCH:
        by_backend = _compiled_for(manifest, found)
        ops = OpChecker(files, by_backend, python, findings)
        if pybind:
            check_module(files, by_backend, framework.src[0].span, findings)
        elif not unusable.intersection(values(framework.src)):
            ops.check_import(values(framework.src), framework.src[0].span)
        ops.check_ops()
    if text := next((source for source in framework.src if source.value == REGISTRATION), None):
        findings.note(f"`{REGISTRATION}` is not used: the rules provide their own", text.span)
    return found


def _directories(manifest: Manifest, backends: Iterable[str]) -> Mapping[tuple[str, str], Mapping[str, Text]]:
    """The include directories for each source of a backend: those of all sections that list it."""
    framework = manifest.framework
    bound = dict.fromkeys(split(framework.src)[0], framework.include)
    return {
        (backend, source): {
            text.value: text
            for include in (*(section.include for section in sections), bound.get(source, ()))
            for text in include
        }
        for backend in backends
        for source, sections in listers(manifest, backend).items()
    }


def _compiled_for(manifest: Manifest, found: Mapping[str, Reach]) -> dict[str, dict[str, None]]:
    """The files that are compiled for each backend, and the files that they include."""
    by_backend: dict[str, dict[str, None]] = {}
    bound = {binding_target(family): (family, manifest.framework.src) for family in BUILT}
    sections = {kernel.target: (kernel.backend.value, kernel.src) for kernel in manifest.kernels}
    for target, reach in found.items():
        backend, src = {**bound, **sections}[target]
        by_backend.setdefault(backend, {}).update(dict.fromkeys((*split(src, backend)[0], *reach.files)))
    return by_backend


def _searched(
    src: Texts, include: Texts, backend: str, directories: Mapping[tuple[str, str], Mapping[str, Text]]
) -> Texts:
    """The include directories for the sources of a section or the binding: its own, and those of `_directories`."""
    shared = (text for name in split(src)[0] for text in directories.get((backend, name), {}).values())
    return tuple({text.value: text for text in (*include, *shared)}.values())


def _device_sources(kernel: Kernel) -> list[str]:
    """The sources of a section that only its backend's compiler compiles."""
    return [name for name in values(kernel.src) if name.endswith(BUILT[kernel.backend.value].sources)]


class _Waiting:
    """The files that are still to be visited: first those that the compiler certainly reads."""

    def __init__(self, sources: Iterable[str]) -> None:
        self._certain = dict.fromkeys(sources)
        self._doubtful: dict[str, None] = {}
        self._seen: set[str] = set()

    def add(self, path: str, *, certain: bool) -> None:
        """Add a file, unless it has been visited."""
        if path not in self._seen and path not in self._certain:
            (self._certain if certain else self._doubtful)[path] = None

    def __iter__(self) -> Iterator[tuple[str, bool]]:
        """Each file once, and whether the compiler certainly reads it."""
        while self._certain or self._doubtful:
            certain = bool(self._certain)
            path = next(iter(self._certain or self._doubtful))
            self._certain.pop(path, None)
            self._doubtful.pop(path, None)
            self._seen.add(path)
            yield path, certain


class _Walk:
    """A walk through all files that the sources of a section reach for a backend.

    Attributes:
        found: the included files.
        includes: include directories besides the section's.
        depends: values that the section's `depends` lacks.
        named: whether a file uses TORCH_EXTENSION_NAME.
    """

    def __init__(
        self, files: ProjectFiles, section: Section, backend: str, findings: Findings, *, pybind: bool
    ) -> None:
        self._files = files
        self._pybind = pybind
        self._section = section
        self._backend = backend
        self._findings = findings
        self._sources = split(section.src, backend)[0]
        self._waiting = _Waiting(self._sources)
        self._reached = set(self._sources)
        self._perhaps: set[str] = set()
        self.found: dict[str, None] = {}
        self.includes: dict[str, None] = {}
        self.depends: dict[str, None] = {}
        self.named = False

    def go(self) -> Reach:
        """The reach; collects includes that will not be found."""
        for path, certain in self._waiting:
            if self._files.is_opaque(path):
                self._reach_all()
            sure = certain or path in self._perhaps
            module = None if self._pybind else use(self._files.text(path), PYBIND11)
            if module and self._backend in module.backends:
                complain(self._files, Seen(path, sure, module), NO_PYBIND11, self._findings)
            name = use(self._files.text(path), _EXTENSION_NAME, tests=True)
            self.named = self.named or (name is not None and self._backend in name.backends)
            for include in self._files.includes(path):
                if self._backend in include.backends or self._section.told:
                    self._follow(Seen(path, certain, include))
            for include in named(self._files.text(path)):
                if self._backend in include.backends or self._section.told:
                    self._see(Seen(path, certain, include))
        return Reach(tuple(sorted(self.found)), tuple(self.includes), tuple(self.depends), self.named)

    def _reach_all(self) -> None:
        """Reach all files except sources: the included ones are unknown, so no errors are collected about them."""
        others = self._files.others
        self._perhaps |= set(others) - self._reached
        self._reached |= set(others)
        self.found |= dict.fromkeys(others)
        for other in others:
            self._waiting.add(other, certain=False)
        if any(path.startswith(f"{ALWAYS}/") for path in others) and ALWAYS not in self._section.include:
            self.includes[ALWAYS] = None

    def _follow(self, seen: Seen) -> None:
        """Reach the file that an include means, or collect its error."""
        path, certain, include = seen
        section = self._section
        target, always = section.target(self._files, path, include)
        if target is not None and self._files.has(target):
            if target != path and target in self._sources:
                note_source(self._files, seen, target, self._findings)
            self.found[target] = None
            self.includes |= {ALWAYS: None} if always else {}
            self._reached.add(target)
            self._waiting.add(target, certain=certain and not include.conditional)
            return
        own = target == REGISTRATION or (target is None and include.path == posixpath.basename(REGISTRATION))
        if own and uses_python(self._files.text(path)):
            self.depends[_PYTHON] = None
        if target is None and PYTHON_HEADERS.fullmatch(include.path):
            self.depends[_PYTHON] = None
        if target is None and section.needs_openmp(include, self._sources):
            self.depends[OPENMP] = None
        needed = self._need(seen, "included")
        if not needed and path not in self._perhaps and (wrong := problem(self._files, section, target, seen)):
            complain(self._files, seen, wrong, self._findings)

    def _see(self, seen: Seen) -> None:
        """Make a header visible that a file names without an `#include`."""
        target, always = self._section.target(self._files, seen.path, seen.include)
        if target is None:
            if PYTHON_HEADERS.fullmatch(seen.include.path):
                self.depends[_PYTHON] = None
            self._need(seen, "named")
        elif self._files.has(target):
            self.found[target] = None
            self.includes |= {ALWAYS: None} if always else {}

    def _need(self, seen: Seen, how: str) -> str:
        """The value of `depends` that a section lacks for a header, noted for the first one; or an empty text."""
        needed = self._section.undeclared(seen.include)
        if needed and needed not in self.depends:
            self.depends[needed] = None
            message = f"a header of {needed} is {how} here; {self._section.title} is compiled with it"
            span = self._files.span(seen.path, seen.include)
            self._findings.note(f"{message}, although its `depends` does not name it", span, Code.TORCH_NOT_DECLARED)
        return needed


def _note_links(files: ProjectFiles, paths: Iterable[str], findings: Findings) -> None:
    """Collect a note for each header that a section reaches by two names, if it relies on `#pragma once`.

    The rules copy files, so a compiler cannot see that both names mean the same file.
    """
    reached = frozenset(paths)
    for path in sorted(reached):
        start = files.text(path).find(_ONCE)
        if start < 0 or (other := files.behind(path)) not in reached or not files.complains(path, start, error=False):
            continue
        message = f"`{path}` is a link to `{other}`, and a section reads both: `{_ONCE}` does not hold for two names"
        findings.note(f"{message}; use an include guard", files.place(path, start, start + len(_ONCE)))


def _check_arch_list(files: ProjectFiles, path: str, backend: Backend, findings: Findings) -> None:
    """Collect a note for the first use of the list of architectures in a file."""
    text, macro = files.text(path), backend.arch_list_macro
    if (start := first_use(text, macro)) is not None:
        span = Source(files.shown(path), text).span(start, start + len(macro))
        message = f"`{macro}` names all architectures that {backend.compiler} knows, not those of the section"
        findings.note(f"{message}; under `driver build --cuda-compile monolithic` it names the latter", span)
