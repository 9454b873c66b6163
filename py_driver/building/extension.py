"""Built extension modules of a setup.py: recorded for each configuration, planned, and built like kernels."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.building.ahead import say_openmp
from py_driver.building.build import Prepared, build_all
from py_driver.building.collect import check_place
from py_driver.building.selection import choose
from py_driver.building.variant_dir import BUILD
from py_driver.errors import Code, Diagnostic, DriverError, Span, error
from py_driver.extensions.headers import ProjectTree
from py_driver.extensions.plan import ConfigurationRecord, plan_extensions
from py_driver.matrix.backends import BUILT, arch_order
from py_driver.matrix.lock_update import check_user_lock
from py_driver.plan.metadata import METADATA
from py_driver.plan.narrow import narrowed
from py_driver.plan.plan import Plan, Variant
from py_driver.plan.projects import SCRIPTS
from py_driver.recording.recorder import record_project
from py_driver.recording.unseen_repository import unseen_repository
from py_driver.recording.variables import unset_note
from py_driver.reporting.report_page import check_page, own_page
from py_driver.system.cache import cache_root
from py_driver.system.files import is_file, path_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from py_driver.building.build import Built, Options
    from py_driver.errors import Note
    from py_driver.extensions.binding import Bindings
    from py_driver.matrix.configurations import Configuration
    from py_driver.matrix.matrix import Matrix
    from py_driver.matrix.pythons import Python
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.recording.record import Record
    from py_driver.recording.recorder import Recorded

FAMILIES: Final = ("cpu", "cuda", "rocm")
"""The backends that a setup.py is recorded for."""

_ON_REQUEST: Final = ("rocm",)
"""Backends that are built only on request: most projects were written only for CUDA."""

_SKIPPED: Final = ("build", "dist", "__pycache__")


@dataclass(frozen=True, kw_only=True, slots=True)
class Configured:
    """A recorded configuration of a project with extension modules.

    Attributes:
        variant: a variant without a module: the configuration, and whether it is a default one.
        recording: the recorded build of setup.py for it.
    """

    variant: Variant
    recording: Recorded


@dataclass(frozen=True, kw_only=True, slots=True)
class Extension:
    """A planned project with extension modules.

    Attributes:
        directory: the directory of the project.
        configured: the configurations to build, default ones first.
        plans: the plans of the modules; one for all configurations with equal generated files.
    """

    directory: Path
    configured: tuple[Configured, ...]
    plans: tuple[Plan, ...]

    @property
    def notes(self) -> tuple[Note, ...]:
        """Facts that are worth knowing and not errors, without duplicates."""
        asked = [line for part in self.configured for line in part.recording.record.asked]
        modules = any(part.recording.record.modules for part in self.configured)
        found = filter(
            None, [unseen_repository(self.directory, asked), None if modules else unset_note(self.directory)]
        )
        return tuple(dict.fromkeys([*found, *(note for plan in self.plans for note in plan.notes)]))


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltExtension:
    """A built configuration.

    Attributes:
        directory: the directory of the project.
        configured: the configuration.
        parts: each built module, with its plan.
        python: its Python; None for every Python.
    """

    directory: Path
    configured: Configured
    parts: tuple[tuple[Plan, Built], ...]
    python: Python | None = None

    @property
    def name(self) -> str:
        """The identifier of the variant, with its Python if there is one: `torch213-cxx11-cpu-x86_64-linux-cp313`."""
        name = self.configured.variant.name
        return f"{name}-{self.python.tag}" if self.python else name

    @property
    def record(self) -> Record:
        """The record of setup.py for it."""
        return self.configured.recording.record

    @property
    def modules(self) -> list[Built]:
        """Its built modules."""
        return [built for _, built in self.parts]

    @property
    def shown_archs(self) -> str:
        """The GPU architectures of its modules, for people."""
        archs = {arch for built in self.modules for arch in built.variant.archs or ()}
        return " ".join(sorted(archs, key=arch_order)) or "-"

    def files(self, module: str) -> dict[str, Path]:
        """The files of a module, by their installed paths.

        Args:
            module: its dotted name.
        """
        [directory] = [built.path for built in self.modules if built.variant.module == module]
        return {
            path.relative_to(directory).as_posix(): path
            for path in sorted(directory.rglob("*"))
            if path.is_file() and path != directory / METADATA
        }


def plan_extension(  # noqa: PLR0913  (the project, the selection, and how to build)
    directory: Path,
    patterns: Sequence[str],
    releases: Releases,
    output: Output,
    options: Options,
    bindings: Bindings,
    *,
    shown: str = "",
) -> Extension:
    """Record a project for the selected configurations, and plan its modules.

    Args:
        directory: the directory of the project.
        patterns: globs of identifiers; empty for the default configurations.
        releases: the releases to build for.
        output: where progress is shown.
        options: how to build.
        bindings: how modules are to be bound.
        shown: the name of the directory in messages, if it is in the cache.

    Raises:
        DriverError: USAGE for slices; NO_SUCH_VARIANT; ARCH_DROPPED; what `record_project` and `plan_extensions` raise.
    """
    if options.slices:
        message = f"--slice: {shown or directory} has a setup.py, and no slices"
        raise error(Code.USAGE, message, help="build for one capability: --archs 9.0")
    matrix = releases.matrix
    chosen = choose(candidates(directory, matrix, options.words.backends), patterns, options.words)
    strict = bool(patterns) or options.words.given
    planner = _Planner(directory, matrix, bindings, shown)
    configured, failures = [], list[tuple[bool, DriverError]]()
    for variant in chosen:
        arch_list = _arch_list(variant.configuration, matrix, options.archs)
        try:
            recording = record_project(directory, variant.configuration, arch_list, releases, output)
            part = Configured(variant=variant, recording=recording)
            if not strict:
                planner.plan([part])
        except DriverError as failure:
            if strict or failure.diagnostics[0].code in {Code.INTERRUPTED, Code.NO_NETWORK}:
                raise
            failures.append((variant.configuration.family == "cpu", failure))
            output.say(f"note: {variant.name} is excluded: {failure.diagnostics[0].message}")
            continue
        configured.append(part)
    if not configured and failures:
        raise all_of(failures)
    alike: dict[_Created, list[Configured]] = {}
    for part in configured:
        alike.setdefault(_created(part.recording), []).append(part)
    plans = [planner.plan(same) for same in alike.values()]
    dropped = dict.fromkeys(note for plan in plans for note in plan.notes if note.code is Code.ARCH_DROPPED)
    if options.strict_archs and dropped:
        raise DriverError(Diagnostic(Code.ARCH_DROPPED, note.message, note.span) for note in dropped)
    plans = [narrowed(plan, options.archs) if options.archs else plan for plan in plans]
    return Extension(directory=directory, configured=tuple(configured), plans=tuple(plans))


def all_of(failures: Iterable[tuple[bool, DriverError]]) -> DriverError:
    """The errors of several configurations without duplicates; those of the CPU, which many projects lack, come last.

    Args:
        failures: each with whether its configuration is for the CPU.
    """
    ordered = sorted(failures, key=lambda failure: failure[0])
    found: dict[tuple[str, Span | None], Diagnostic] = {}
    for _, failure in ordered:
        for fault in failure.diagnostics:
            found.setdefault((fault.message, fault.span), fault)
    return DriverError(found.values())


def prepare_extension(extension: Extension, options: Options) -> list[Prepared]:
    """The builds of a project, one for each call of Bazel, each with its own report."""
    plans, pages = [plan for plan in extension.plans if plan.variants], set[Path]()
    is_one, page = len(plans) == 1, options.report
    return [
        Prepared(
            directory=extension.directory,
            plan=plan,
            chosen=plan.variants,
            report=page if is_one or page is None else own_page(page, plan.module, pages),
            destination=cache_root() / "extensions" / f"{plan.module}.{path_digest(extension.directory.resolve())}",
        )
        for plan in plans
    ]


def build_extension(extension: Extension, releases: Releases, output: Output, options: Options) -> list[BuiltExtension]:
    """Build the modules of a project into the cache; returns the configurations in order.

    Raises:
        DriverError: what the builds raise.
    """
    if options.report is not None:
        check_page(options.report)
    check_user_lock(releases)
    check_place(extension.directory / BUILD)
    output.notes(extension.notes)
    for plan in extension.plans:
        say_openmp(plan, plan.variants, output)
    modules: list[tuple[Plan, Built]] = []
    for prepared in prepare_extension(extension, options):
        [result] = build_all([prepared], releases, output, options).values()
        if isinstance(result, DriverError):
            raise result
        modules += [(prepared.plan, built) for built in result.variants]
    return assemble(extension, modules)


def assemble(extension: Extension, modules: Sequence[tuple[Plan, Built]]) -> list[BuiltExtension]:
    """Assemble the built modules of a project, configuration by configuration.

    Args:
        extension: the project.
        modules: all built modules, each with its plan.
    """
    return [built for configured in extension.configured for built in _for_each_python(extension, configured, modules)]


def _for_each_python(
    extension: Extension, configured: Configured, modules: Sequence[tuple[Plan, Built]]
) -> list[BuiltExtension]:
    """The builds of a configuration: one for each Python that a module is built for, each with all other modules."""
    configuration = configured.variant.configuration
    parts = [(plan, built) for plan, built in modules if built.variant.configuration == configuration]
    pythons = dict.fromkeys(built.variant.python for _, built in parts if built.variant.python)
    return [
        BuiltExtension(
            directory=extension.directory,
            configured=configured,
            parts=tuple(part for part in parts if part[1].variant.python in {None, python}),
            python=python,
        )
        for python in pythons or [None]
    ]


def candidates(directory: Path, matrix: Matrix, named: Sequence[str] = ()) -> Plan:
    """A plan with an empty variant for each configuration that a setup.py can be recorded for.

    Args:
        directory: the directory of the project.
        matrix: the releases to build for.
        named: backends of the command line, such as `rocm`, `cu130`.
    """
    asleep = {family for family in _ON_REQUEST if not any(name.startswith(family) for name in named)}
    variants = [
        Variant(
            configuration=configuration,
            needs=configuration,
            default=default and configuration.family not in asleep,
            groups=(),
            archs=None,
            identity="",
            metadata={},
        )
        for configuration, default in matrix.configurations()
        if configuration.family in FAMILIES
    ]
    return Plan(
        name=directory.resolve().name,
        module="",
        python_root="",
        python=(),
        identities=(),
        groups=(),
        variants=tuple(sorted(variants, key=lambda variant: not variant.default)),
        excluded=(),
        notes=(),
        cpus=matrix.cpus,
    )


def _arch_list(configuration: Configuration, matrix: Matrix, archs: Sequence[str]) -> str:
    """TORCH_CUDA_ARCH_LIST for a configuration: the architectures of the command line, else the default ones.

    For ROCm it is PYTORCH_ROCM_ARCH.
    """
    toolkit = matrix.toolkit(configuration.backend)
    pattern = rf"{BUILT[configuration.family].arch}(\+PTX)?"
    own = [arch for arch in archs if re.fullmatch(pattern, arch)]
    return "" if toolkit is None else ";".join(own or toolkit.default_archs)


_Created = tuple[tuple[str, bytes], ...]
"""The files that a setup.py created, with their contents; configurations with equal files share a Bazel package."""


def _created(recording: Recorded) -> _Created:
    return tuple((name, (recording.tree / name).read_bytes()) for name in recording.record.files)


class _Planner:
    """Plans configurations of a project; equal sets of files are read only once.

    Args:
        directory: the directory of the project.
        matrix: the releases to build for.
        bindings: how modules are to be bound.
        shown: the name of the directory in messages, if it is in the cache.
    """

    def __init__(self, directory: Path, matrix: Matrix, bindings: Bindings, shown: str) -> None:
        self._bindings = bindings
        self._directory = directory
        self._matrix = matrix
        self._shown = shown
        self._trees: dict[_Created, tuple[ProjectTree, dict[str, Path]]] = {}

    def plan(self, configured: Sequence[Configured]) -> Plan:
        """The plan of configurations whose created files are equal."""
        recording = configured[0].recording
        key = _created(recording)
        if key not in self._trees:
            self._trees[key] = self._tree({name: recording.tree / name for name in recording.record.files})
        tree, generated = self._trees[key]
        records = [
            ConfigurationRecord(
                configuration=part.variant.configuration, default=part.variant.default, record=part.recording.record
            )
            for part in configured
        ]
        spans = _spans(self._directory, records, self._shown)
        plan = plan_extensions(records, tree, self._matrix, spans, self._bindings)
        in_use = {name: path for name, path in generated.items() if name in plan.files}
        return plan._replace(generated=in_use, shown=self._shown)

    def _tree(self, generated: dict[str, Path]) -> tuple[ProjectTree, dict[str, Path]]:
        """The files of the project with those created by setup.py, and the paths of the latter."""
        directory = self._directory

        def path_of(name: str) -> Path:
            return generated.get(name) or directory / name

        def all_files() -> Iterator[str]:
            yield from generated
            for path, names, files in os.walk(directory):
                names[:] = sorted(name for name in names if not name.startswith(".") and name not in _SKIPPED)
                yield from (os.path.relpath(os.path.join(path, file), directory) for file in files)  # noqa: PTH118

        return ProjectTree(path_of, all_files), generated


def _spans(directory: Path, records: Iterable[ConfigurationRecord], shown: str) -> dict[str, Span]:
    """The call in the project that created each module; the key "" has the beginning of the first script."""
    script = next((name for name in SCRIPTS if is_file(directory / name)), SCRIPTS[0])
    spans = {"": _span(directory, script, 1, shown)}
    for recorded in records:
        for module in recorded.record.modules:
            spans[module.name] = _span(directory, module.script or script, module.line or 1, shown)
    return spans


def _span(directory: Path, script: str, line: int, shown: str) -> Span:
    path = directory / script
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if is_file(path) else []
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    start = len(text) - len(text.lstrip())
    return Span(
        file=str(Path(shown, script) if shown else path),
        line=line,
        column=start + 1,
        length=max(1, len(text.strip())),
        text=text,
    )
