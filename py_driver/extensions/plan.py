"""records x matrix -> plan: a variant for each extension module and configuration, and its targets. Pure."""

from __future__ import annotations

import posixpath
import re
from itertools import chain, count
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.errors import Code, DriverError, Span
from py_driver.extensions.binding import LIBRARY, PYBIND, find_reason
from py_driver.extensions.checks import check_module
from py_driver.extensions.flags import SetupFindings, asked, is_device, read_flags
from py_driver.extensions.for_python import for_python, with_cpython
from py_driver.extensions.for_rocm import family_of
from py_driver.extensions.headers import BINDING, OF_PYTHON, PYTHON, ProjectTree
from py_driver.extensions.libraries import is_known_library
from py_driver.extensions.library import link_order, suffix_of
from py_driver.extensions.link_arguments import check_link_arguments
from py_driver.manifest.openmp import asks_for_openmp, gpu_asks_for_openmp
from py_driver.matrix.backends import BUILT
from py_driver.matrix.backends.cuda import CAPABILITY
from py_driver.matrix.pythons import check_torch
from py_driver.output import joined
from py_driver.plan.groups import Group
from py_driver.plan.identity import Identity, canonical
from py_driver.plan.plan import Plan, Variant
from py_driver.system.files import sha256

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from py_driver.extensions.binding import Bindings
    from py_driver.extensions.flags import Flags
    from py_driver.extensions.headers import Reached
    from py_driver.manifest.section import Findings
    from py_driver.matrix.configurations import Configuration
    from py_driver.matrix.matrix import Matrix
    from py_driver.matrix.pythons import Python
    from py_driver.matrix.toolkits import Archs
    from py_driver.recording.record import Module, Record

_DIGITS = 8
_LIMITED_API = ("-UPy_LIMITED_API", "-DPy_LIMITED_API=0x03090000")
"""A wheel for every Python has the tag `cp39-abi3`, so the limited API is that of 3.9 unless flags choose another."""

_OTHERS = ("cuda:", "rocm:", "torch:", "python:", "pybind11:")
"""The prefixes of toolchains' include directories in a record: the rules provide these themselves."""


class ConfigurationRecord(NamedTuple):
    """A configuration with its record of setup.py.

    Attributes:
        configuration: the configuration.
        default: whether it is a default one.
        record: the record of setup.py.
    """

    configuration: Configuration
    default: bool
    record: Record


def plan_extensions(
    records: Sequence[ConfigurationRecord],
    tree: ProjectTree,
    matrix: Matrix,
    spans: Mapping[str, Span],
    bindings: Bindings,
) -> Plan:
    """Plan the build of a project with extension modules.

    Args:
        records: the records of the configurations to build; at least one.
        tree: the files of the project.
        matrix: the releases to build for.
        spans: the call that created a module, by the module's name; the key "" has the location of the project.
        bindings: how modules are to be bound.

    Raises:
        DriverError: setup.py requests something that is not possible: BAD_FLAG, PATH_ESCAPES, FILE_MISSING, FILE_KIND,
            UNSUPPORTED, EMPTY_ARCHS.
    """
    findings = SetupFindings(spans[""])
    planner = _Planner(tree, matrix, spans, findings, bindings)
    for recorded in records:
        planner.add(recorded)
    planner.finish()
    if diagnostics := findings.diagnostics():
        raise DriverError(diagnostics)
    name = records[0].record.name
    return Plan(
        name=name,
        module=name.replace("-", "_").replace(".", "_"),
        python_root="",
        python=(),
        identities=tuple(planner.identities.values()),
        groups=tuple(planner.groups.values()),
        variants=tuple(sorted(planner.variants, key=lambda variant: not variant.default)),
        excluded=(),
        notes=findings.notes(),
        cpus=matrix.cpus,
    )


class _Unit(NamedTuple):
    """Sources of a module that are compiled with the same flags and visible headers of toolchains."""

    sources: tuple[str, ...]
    headers: tuple[str, ...]
    depends: tuple[str, ...]
    device: bool


class _Targets(NamedTuple):
    """The targets of a module.

    Attributes:
        groups: the groups of its sources.
        binds: whether PYBIND11_MODULE binds its functions on torch::Library.
        for_one: whether it is built for each Python.
    """

    groups: list[Group]
    binds: bool
    for_one: bool


class _Planner:
    """Collects the targets of all configurations; equal targets are merged."""

    def __init__(
        self, tree: ProjectTree, matrix: Matrix, spans: Mapping[str, Span], findings: Findings, bindings: Bindings
    ) -> None:
        self._bindings = bindings
        self._tree = tree
        self._matrix = matrix
        self._spans = spans
        self._findings = findings
        self.identities: dict[str, Identity] = {}
        self._without: dict[tuple[str, Span], dict[str, None]] = {}
        self.groups: dict[str, Group] = {}
        self.variants: list[Variant] = []

    def add(self, recorded: ConfigurationRecord) -> None:
        """Plan the modules of a configuration."""
        configuration, record = recorded.configuration, recorded.record
        built = [self._module(module, configuration, record) for module in record.modules]
        files = sorted({file for own in built for group in own.groups for file in (*group.sources, *group.headers)})
        family = configuration.family
        settings = {
            "name": record.name,
            "version": record.version,
            "backend": family,
            "modules": [_settings(module) for module in record.modules],
        }
        identity = Identity(
            name=f"{family}_id.{sha256(canonical(settings).encode())[:_DIGITS]}",
            backend=family,
            settings=settings,
            files=tuple(files),
        )
        known = self.identities.get(identity.name, identity)
        self.identities[identity.name] = known._replace(files=tuple(sorted({*known.files, *files})))
        pythons = self._pythons(configuration) if any(own.for_one for own in built) else ()
        for module, own in zip(record.modules, built, strict=True):
            archs = sorted({arch for group in own.groups for arch in _kept(group, configuration)}) or None
            variant = Variant(
                configuration=configuration,
                needs=configuration,
                default=recorded.default,
                groups=tuple(group.name for group in own.groups),
                archs=None if archs is None else tuple(archs),
                identity=identity.name,
                metadata=_metadata(record, family, archs),
                suffix=f"-{module.name}",
                module=module.name,
                binding=own.binds,
                library_suffix="" if own.binds else suffix_of(module),
                link_order=link_order(module, own.groups),
            )
            self.variants += [for_python(variant, module, python) for python in pythons] if own.for_one else [variant]

    def finish(self) -> None:
        """Collect EMPTY_ARCHS, once for all CUDA releases."""
        for (message, span), releases in self._without.items():
            advice = "name others with `--archs`"
            self._findings.add(Code.EMPTY_ARCHS, f"{message} {joined([*releases])}", span, advice=advice)

    def _pythons(self, configuration: Configuration) -> tuple[Python, ...]:
        """The Pythons to build for."""
        pythons = self._bindings.pythons(configuration)
        for python in pythons:
            check_torch(self._matrix, configuration.torch or "", python)
        return pythons

    def _module(self, module: Module, configuration: Configuration, record: Record) -> _Targets:
        """The targets of a module."""
        span = self._spans.get(module.name, self._spans[""])
        family = family_of(module, configuration.family)
        standard = next(torch.cxx_standard for torch in self._matrix.torch if torch.version == configuration.torch)
        flags = read_flags(module, configuration.family, standard, span, self._findings)
        includes = {
            False: self._include_dirs(module, (*module.include_dirs, *flags.cxx_includes), span),
            True: self._include_dirs(module, (*module.include_dirs, *flags.cuda_includes), span),
        }
        check_module(module, configuration.family, self._tree, span, self._findings)
        check_link_arguments(module, is_known_library, span, self._findings)
        reached = {
            source: self._tree.reached(
                source,
                includes[is_device(source, family)],
                openmp=gpu_asks_for_openmp(flags.cuda, ()) if is_device(source, family) else asks_for_openmp(flags.cxx),
            )
            for source in dict.fromkeys(module.sources)
            if self._tree.exists(source)
        }
        device = any(is_device(source, family) for source in reached)
        archs = self._archs(flags, configuration, record, span) if device else None
        binds = self._binds(module, reached, span)
        for_one = self._is_for_one(module, reached, binds=binds)
        if for_one:
            reached = {source: with_cpython(found) for source, found in reached.items()}
        elif source := next((source for source, found in reached.items() if PYTHON in found.depends), ""):
            self._say_limits(module, source, span, binds=binds)
        groups = [
            self._group(module, unit, flags, includes[unit.device], archs, configuration)
            for unit in _units(reached, family)
        ]
        return _Targets(groups, binds=binds and not for_one, for_one=for_one)

    def _is_for_one(self, module: Module, reached: Mapping[str, Reached], *, binds: bool) -> bool:
        """Whether a module is built for each Python; a note gives the reason."""
        of_python = {source: found for source, found in reached.items() if OF_PYTHON.intersection(found.depends)}
        if not of_python or self._bindings.way == LIBRARY:
            return False
        if self._bindings.way == PYBIND:
            return True
        if module.limited_api and not binds:
            return False
        first = [found.binds for found in of_python.values() if found.binds]
        paths = dict.fromkeys([*first, *of_python, *(file for found in of_python.values() for file in found.files)])
        reason = find_reason({path: self._tree.text(path) for path in paths}, binds=binds)
        if reason is not None:
            span = reason.span._replace(file=str(PurePath(self._spans[""].file).parent / reason.span.file))
            message = f"{module.name} is bound by pybind11, once for each Python: `{reason.word}` needs one"
            self._findings.note(message, span)
        return reason is not None

    def _say_limits(self, module: Module, source: str, span: Span, *, binds: bool) -> None:
        """Note which functions a source that includes Python.h can call in a module for every Python."""
        message = f"`{source}` of {module.name} includes Python.h"
        if binds:
            self._findings.note(f"{message}; functions are bound without Python, so it cannot call Python", span)
        elif not module.limited_api:
            self._findings.note(f"{message}; it can call only Python's limited API", span)

    def _include_dirs(self, module: Module, directories: Iterable[str], span: Span) -> tuple[str, ...]:
        """The include directories of a module that are in the project."""
        found = []
        for directory in directories:
            if directory.startswith("/") or posixpath.normpath(directory).split("/")[0] == "..":
                message = f"`include_dirs` of {module.name} names `{directory}`, which is not in the project"
                note = "ignored: the toolchains bring their own headers"
                self._findings.note(f"{message}; {note}", span)
            elif directory.startswith("numpy:"):
                self._findings.note(f"{module.name} includes numpy's headers, which are not in sight", span)
            elif not directory.startswith(_OTHERS):
                found.append(posixpath.normpath(directory))
        return tuple(dict.fromkeys(found))

    def _archs(self, flags: Flags, configuration: Configuration, record: Record, span: Span) -> Archs | None:
        """The GPU architectures of a module in a configuration."""
        toolkit = self._matrix.toolkit(configuration.backend)
        if toolkit is None:
            return None
        wanted = asked(flags.archs, record.arch_list)
        unknown = [arch for arch in wanted if configuration.family == "cuda" and not re.fullmatch(CAPABILITY, arch)]
        for arch in unknown:
            message = f"`{arch}` in TORCH_CUDA_ARCH_LIST is no architecture"
            self._findings.add(Code.BAD_VALUE, message, span, advice="write it as `9.0`, `9.0a` or `9.0+PTX`")
        if unknown:
            return None
        chosen = BUILT[configuration.family].choose(wanted, toolkit)
        for dropped in chosen.dropped:
            message = f"the architecture {dropped.arch} is not built: {dropped.reason}"
            self._findings.note(message, span, Code.ARCH_DROPPED)
        if not chosen.kept:
            compiler = BUILT[configuration.family].compiler
            message = f"none of the architectures {' '.join(wanted) or '(none)'} is compiled by {compiler}"
            self._without.setdefault((message, span), {})[toolkit.version] = None
        return chosen

    def _binds(self, module: Module, reached: Mapping[str, Reached], span: Span) -> bool:
        """Whether a file of a module has PYBIND11_MODULE."""
        binding = list(dict.fromkeys(found.binds for found in reached.values() if found.binds))
        if len(binding) > 1:
            message = f"{module.name} has {BINDING} in {' and in '.join(binding)}"
            self._findings.note(f"{message}: one of them must be hidden by an `#if`", span)
        return bool(binding)

    def _group(  # noqa: PLR0913  (what, and how)
        self,
        module: Module,
        unit: _Unit,
        flags: Flags,
        includes: Sequence[str],
        archs: Archs | None,
        configuration: Configuration,
    ) -> Group:
        """The target of sources; an equal target of another configuration gets its architectures."""
        listed = (*unit.sources, *unit.headers)
        in_use = tuple(
            directory
            for directory in includes
            if directory == "." or any(file.startswith(f"{directory}/") for file in listed)
        )
        kind = "cuda" if unit.device else "cpp"
        limited = _LIMITED_API if PYTHON in unit.depends else ()
        group = Group(
            name="",
            title=module.name,
            backend=family_of(module, configuration.family),
            sources=unit.sources,
            headers=unit.headers,
            includes=in_use,
            cxx_flags=() if unit.device else (*limited, *flags.cxx),
            cuda_flags=flags.cuda if unit.device else (),
            hip_flags=flags.hip if unit.device else (),
            depends=unit.depends,
            archs={configuration.backend: archs} if unit.device and archs else {},
            identity="",
            link_flags=flags.link if unit.device else (),
        )
        digest = sha256(canonical([*group[2:3], *group[5:10]]).encode())[:_DIGITS]
        name = f"{module.name}.{kind}.{digest}"
        candidates = chain([name], (f"{name}.{number}" for number in count(2)))
        named = (group._replace(name=candidate) for candidate in candidates)
        found = next(found for own in named if (found := _merged(self.groups.get(own.name, own), own)) is not None)
        self.groups[found.name] = found
        return found


def _merged(group: Group, other: Group) -> Group | None:
    """A target with the architectures of two otherwise equal targets; None if they differ."""
    if group._replace(archs={}) != other._replace(archs={}):
        return None
    if any(group.archs[backend] != archs for backend, archs in other.archs.items() if backend in group.archs):
        return None
    return group._replace(archs={**group.archs, **other.archs})


def _units(reached: Mapping[str, Reached], family: str) -> list[_Unit]:
    """Group sources into targets: of the same kind, with the same visible headers of toolchains."""
    by_kind: dict[tuple[bool, tuple[str, ...]], list[str]] = {}
    for source, found in reached.items():
        by_kind.setdefault((is_device(source, family), found.depends), []).append(source)
    return [
        _Unit(
            sources=tuple(sorted(sources)),
            headers=tuple(sorted({file for source in sources for file in reached[source].files})),
            depends=depends,
            device=device,
        )
        for (device, depends), sources in sorted(by_kind.items())
    ]


def _kept(group: Group, configuration: Configuration) -> Iterable[str]:
    archs = group.archs.get(configuration.backend)
    return archs.kept if archs else ()


def _settings(module: Module) -> dict[str, Any]:
    """The settings of a module that enter its id: neither its location in setup.py nor its name for one Python."""
    known = {"file", "line", "script"}
    return {key: getattr(module, key) for key in module.__slots__ if key not in known}


def _metadata(record: Record, family: str, archs: list[str] | None) -> dict[str, Any]:
    """The metadata.json of a module, without its id and digest."""
    backend: dict[str, Any] = {"type": family}
    if archs is not None:
        backend["archs"] = sorted({BUILT[family].plain(arch) for arch in archs})
    return {
        "name": record.name.replace("_", "-"),
        "version": record.version,
        "license": "unknown",
        "python-depends": [],
        "kernel-depends": [],
        "backend": backend,
    }
