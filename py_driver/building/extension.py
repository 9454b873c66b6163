"""Extension modules of a setup.py, built: recorded for each configuration, planned, and built like kernels."""

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
from py_driver.errors import Code, DriverError, Span, error
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
from py_driver.reporting.report_page import check_page
from py_driver.system.cache import cache_root
from py_driver.system.files import is_file, path_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from py_driver.building.build import Built, Options
    from py_driver.errors import Diagnostic, Note
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
"""Those of them that are built only where they are named: most projects were written for CUDA alone."""

_SKIPPED: Final = ("build", "dist", "__pycache__")


@dataclass(frozen=True, kw_only=True, slots=True)
class Configured:
    """A configuration of a project with extension modules, recorded.

    Attributes:
        variant: without a module: its configuration, and whether it is a default one.
        recording: what setup.py builds for it.
    """

    variant: Variant
    recording: Recorded


@dataclass(frozen=True, kw_only=True, slots=True)
class Extension:
    """A project with extension modules that can be built.

    Attributes:
        directory: of the project.
        configured: the configurations to build, default ones first.
        plans: of the modules; one for all configurations whose generated files are equal.
    """

    directory: Path
    configured: tuple[Configured, ...]
    plans: tuple[Plan, ...]

    @property
    def notes(self) -> tuple[Note, ...]:
        """What is worth knowing and no error, each once."""
        asked = [line for part in self.configured for line in part.recording.record.asked]
        modules = any(part.recording.record.modules for part in self.configured)
        found = filter(
            None, [unseen_repository(self.directory, asked), None if modules else unset_note(self.directory)]
        )
        return tuple(dict.fromkeys([*found, *(note for plan in self.plans for note in plan.notes)]))


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltExtension:
    """A configuration that was built.

    Attributes:
        directory: of the project.
        configured: which.
        parts: what was built of each module, with the plan that it was part of.
        python: the one that it is for; None for every Python.
    """

    directory: Path
    configured: Configured
    parts: tuple[tuple[Plan, Built], ...]
    python: Python | None = None

    @property
    def name(self) -> str:
        """The identifier of the variant, with the Python if it is for one: `torch213-cxx11-cpu-x86_64-linux-cp313`."""
        name = self.configured.variant.name
        return f"{name}-{self.python.tag}" if self.python else name

    @property
    def record(self) -> Record:
        """What setup.py builds for it."""
        return self.configured.recording.record

    @property
    def modules(self) -> list[Built]:
        """Its modules."""
        return [built for _, built in self.parts]

    @property
    def shown_archs(self) -> str:
        """The GPU architectures of its modules, for people."""
        archs = {arch for built in self.modules for arch in built.variant.archs or ()}
        return " ".join(sorted(archs, key=arch_order)) or "-"

    def files(self, module: str) -> dict[str, Path]:
        """The files of a module, by their paths where it is installed.

        Args:
            module: its dotted name.
        """
        [directory] = [built.path for built in self.modules if built.variant.module == module]
        return {
            path.relative_to(directory).as_posix(): path
            for path in sorted(directory.rglob("*"))
            if path.is_file() and path != directory / METADATA
        }


def plan_extension(  # noqa: PLR0913  (whose, which, and how)
    directory: Path,
    patterns: Sequence[str],
    releases: Releases,
    output: Output,
    options: Options,
    bindings: Bindings,
    *,
    shown: str = "",
) -> Extension:
    """Record a project for the configurations that are meant, and plan its modules.

    Args:
        directory: of the project.
        patterns: globs of identifiers; none means the default configurations.
        releases: to build for.
        output: where progress is shown.
        options: how.
        bindings: how modules are to be bound.
        shown: what messages call the directory, if it is one of the cache.

    Raises:
        DriverError: NO_SUCH_VARIANT; what `record_project` and `plan_extensions` raise.
    """
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
    plans = [narrowed(plan, options.archs) if options.archs else plan for plan in plans]
    return Extension(directory=directory, configured=tuple(configured), plans=tuple(plans))


def all_of(failures: Iterable[tuple[bool, DriverError]]) -> DriverError:
    """What is wrong with configurations of a project, each once; that of the CPU is last, which many have nothing for.

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
    """What is built of a project, each part by one call of Bazel."""
    return [
        Prepared(
            directory=extension.directory,
            plan=plan,
            chosen=plan.variants,
            report=options.report,
            destination=cache_root() / "extensions" / f"{plan.module}.{path_digest(extension.directory.resolve())}",
        )
        for plan in extension.plans
        if plan.variants
    ]


def build_extension(extension: Extension, releases: Releases, output: Output, options: Options) -> list[BuiltExtension]:
    """Build the modules of a project into the cache; each configuration in its order.

    Raises:
        DriverError: USAGE for slices; what the builds raise.
    """
    if options.slices:
        message = f"--slice: {extension.directory} has a setup.py, and no slices"
        raise error(Code.USAGE, message, help="build for one capability: --archs 9.0")
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
    """What was built of a project, each configuration in its order.

    Args:
        extension: the project.
        modules: all that was built, with the plan that it was part of.
    """
    return [built for configured in extension.configured for built in _for_each_python(extension, configured, modules)]


def _for_each_python(
    extension: Extension, configured: Configured, modules: Sequence[tuple[Plan, Built]]
) -> list[BuiltExtension]:
    """What was built of a configuration: once for each Python if some of its modules are for one, with all others."""
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
    """A plan with a variant for each configuration that a setup.py can be recorded for, and nothing in them.

    Args:
        directory: of the project.
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
"""Files that a setup.py has created, with their contents; one Bazel package holds configurations with equal ones."""


def _created(recording: Recorded) -> _Created:
    return tuple((name, (recording.tree / name).read_bytes()) for name in recording.record.files)


class _Planner:
    """Plans configurations of a project, whose files are read once for all that have the same.

    Args:
        directory: of the project.
        matrix: the releases to build for.
        bindings: how modules are to be bound.
        shown: what messages call the directory, if it is one of the cache.
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
        """The files of the project with those that setup.py has created, and where the latter are."""
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
    """The call in a file of the project that created each module; under "" the beginning of the first script."""
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
