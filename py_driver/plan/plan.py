"""manifest x matrix -> plan: the variants, and the groups that each compiles. Pure; takes milliseconds."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.errors import Code, Diagnostic, DriverError
from py_driver.manifest.model import TVM_FFI, values
from py_driver.matrix.backends import BUILT, arch_order, backend_of, version_of
from py_driver.matrix.configurations import USUAL_CPU, Configuration, spell
from py_driver.matrix.toolkits import Archs, numbers
from py_driver.plan.candidates import Candidate, candidates, describe
from py_driver.plan.compile_groups import compiles, source_groups
from py_driver.plan.cpus import sections_for
from py_driver.plan.device_links import DeviceLink, device_links, mixed
from py_driver.plan.groups import Group, chosen_archs, make_group, sections_of
from py_driver.plan.identity import make_identity
from py_driver.plan.metadata import make_metadata
from py_driver.plan.project import load
from py_driver.plan.staging import own_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from py_driver.errors import Note, Span
    from py_driver.manifest.model import Kernel, Manifest
    from py_driver.matrix.matrix import Matrix
    from py_driver.matrix.pythons import Python
    from py_driver.matrix.releases import Releases
    from py_driver.plan.ahead import TritonTarget
    from py_driver.plan.compile_groups import SourceGroup
    from py_driver.plan.identity import Identity
    from py_driver.plan.project import Project

_LATER = "every kernel section requires a later"
"""The prefix of the reason if a release is too old for all sections."""


class Slice(NamedTuple):
    """The part of a variant in a slice.

    Attributes:
        name: the capability as part of a directory's or branch's name: `sm90`, `gfx942`.
        archs: the architectures of the slice's device code, by target.
    """

    name: str
    archs: Mapping[str, tuple[str, ...]]


class Variant(NamedTuple):
    """A variant that is built.

    Attributes:
        configuration: its configuration.
        needs: the variant with the torch release and the C++ ABI that it is compiled against, which a stable variant's
            identifier does not contain.
        default: whether it is built by default.
        groups: the names of its linked groups.
        archs: its GPU architectures, sorted as text as in upstream, or None.
        identity: the name of the identity's target.
        metadata: its metadata.json without the id and the digest.
        suffix: distinguishes variants of the same configuration, see `py_driver.plan.overrides`; usually empty.
        more_flags: the name of one of its groups and further options for it, see `py_driver.plan.overrides`.
        module: the dotted name, if it is an extension module of a setup.py; empty for a package.
        binding: whether the module's functions are bound by PYBIND11_MODULE.
        link_order: the sources of a module, as its objects are linked; empty for the order of the groups.
        library_suffix: the suffix of the module's library: `.so`, `.abi3.so`; empty with a binding. For a package, only
            if it is for one Python.
        python: the Python that it is for; None for every Python.
        triton: the name of the target with Triton's compiled code; empty if there is none.
        slice: the part of the variant in a slice, see `py_driver.plan.slices`; None for a variant with all device code.
    """

    configuration: Configuration
    needs: Configuration
    default: bool
    groups: tuple[str, ...]
    archs: tuple[str, ...] | None
    identity: str
    metadata: Mapping[str, Any]
    suffix: str = ""
    more_flags: tuple[str, ...] = ()
    module: str = ""
    binding: bool = False
    library_suffix: str = ""
    link_order: tuple[str, ...] = ()
    python: Python | None = None
    triton: str = ""
    slice: Slice | None = None

    @property
    def name(self) -> str:
        """The variant's identifier, and the suffix."""
        return f"{spell(self.configuration)}{self.suffix}"

    @property
    def identifier(self) -> str:
        """The name of its directory for the `kernels` client, without the suffix of a slice or a Python."""
        return spell(self.configuration) if self.slice or (self.python and not self.module) else self.name

    @property
    def shown_archs(self) -> str:
        """Its archs for output: ascending, or `-` if it has none."""
        return " ".join(sorted(self.archs, key=arch_order)) if self.archs else "-"

    @property
    def exact_archs(self) -> tuple[str, ...]:
        """Its archs, if they have features, which metadata.json omits; else empty."""
        archs = self.archs or ()
        return archs if any(BUILT[self.configuration.family].plain(arch) != arch for arch in archs) else ()


class Excluded(NamedTuple):
    """A variant of the matrix that is not built, and the reason."""

    configuration: Configuration
    reason: str


class Plan(NamedTuple):
    """Everything that is built of a project.

    Attributes:
        name: the project's name.
        module: the Python package's name.
        python_root: the package's directory.
        python: its files.
        identities: the identities, by backend, in the order of the variants.
        groups: the bindings and kernel sections.
        variants: the variants, default ones first.
        excluded: the variants of its backends that are not built.
        notes: the notes.
        only_archs: the only GPU architectures to build for; empty for all of the sections'.
        is_changed: whether it differs from build.toml in another way; see `py_driver.plan.overrides`.
        cpus: the default CPUs.
        generated: the paths of input files outside of the project's directory, which a setup.py has created, by name.
        shown: the project's directory in messages, if the real one is in the cache; else empty.
        triton: Triton's ahead-of-time compiles, by backend.
    """

    name: str
    module: str
    python_root: str
    python: tuple[str, ...]
    identities: tuple[Identity, ...]
    groups: tuple[Group, ...]
    variants: tuple[Variant, ...]
    excluded: tuple[Excluded, ...]
    notes: tuple[Note, ...]
    only_archs: tuple[str, ...] = ()
    is_changed: bool = False
    cpus: tuple[str, ...] = (USUAL_CPU,)
    generated: Mapping[str, Path] = MappingProxyType({})
    shown: str = ""
    triton: tuple[TritonTarget, ...] = ()

    @property
    def sources(self) -> set[tuple[str, str]]:
        """The compiled sources, each with the name of its group."""
        return {(group.name, source) for group in self.groups for source in group.sources}

    @property
    def device_links(self) -> Mapping[str, DeviceLink]:
        """The device link of each variant that needs one, by the name of the variant."""
        return device_links(self.groups, {variant.name: variant.groups for variant in self.variants})

    @property
    def files(self) -> frozenset[str]:
        """All input files of variants, relative to the project, without build.toml."""
        return frozenset(name for identity in self.identities for name in identity.files)

    def path_of(self, directory: Path, name: str) -> Path:
        """The path of a file.

        Args:
            directory: the project's directory.
            name: relative to the project.
        """
        return self.generated.get(name) or directory / name

    @property
    def own_names(self) -> Mapping[str, str]:
        """The paths in a variant of the files that have another path in Bazel, by that path."""
        return own_names(self.python_root, self.python)


def plan_directory(directory: Path, releases: Releases, *, strict_archs: bool = False, pybind: bool = False) -> Plan:
    """The plan of the project in a directory.

    Args:
        directory: the project's directory.
        releases: the releases to build for.
        strict_archs: as in `make_plan`.
        pybind: as in `load`.

    Raises:
        DriverError: all that `load` and `make_plan` raise.
    """
    return make_plan(load(directory, releases, pybind=pybind), releases.matrix, strict_archs=strict_archs)


def make_plan(project: Project, matrix: Matrix, *, strict_archs: bool = False) -> Plan:
    """Plan the build of a project.

    Args:
        project: a project with checked files.
        matrix: the releases to build for.
        strict_archs: whether every arch of a section must be built in each of its variants.

    Raises:
        DriverError: NO_VARIANTS if no variant is left; ARCH_DROPPED, one diagnostic for each arch, if `strict_archs`;
            BAD_FLAG if sections cannot be linked together.
    """
    manifest = project.manifest
    variants, excluded = _variants(manifest, matrix)
    compiled_ahead = {target.family: target.name for target in project.triton}
    variants = tuple(
        variant._replace(triton=compiled_ahead.get(variant.configuration.family, "")) for variant in variants
    )
    if not variants:
        reasons = "; ".join(_reasons(excluded)) or "none of its backends is built yet"
        message = f"nothing to build for `{manifest.name.value}`: {reasons}"
        raise DriverError([Diagnostic(code=Code.NO_VARIANTS, message=message, span=manifest.framework.span)])
    families = tuple(dict.fromkeys(variant.configuration.family for variant in variants))
    compiled = tuple(family for family in families if compiles(manifest, family))
    groups = tuple(group for family in compiled for group in _groups(project, family, variants, matrix))
    if strict_archs and (failures := _dropped(manifest, groups)):
        raise DriverError(failures)
    plan = Plan(
        name=manifest.name.value,
        module=manifest.module,
        python_root=project.python_root,
        python=project.python,
        identities=tuple(make_identity(project, family, compiled=family in compiled) for family in families),
        groups=groups,
        variants=variants,
        excluded=excluded,
        notes=project.notes,
        cpus=matrix.cpus,
        triton=tuple(target for target in project.triton if target.family in families),
    )
    if problems := _mixed(manifest, plan):
        raise DriverError(problems)
    return plan


def _mixed(manifest: Manifest, plan: Plan) -> list[Diagnostic]:
    """BAD_FLAG for each section that is linked with another section whose device code is optimised at link time."""
    return [
        Diagnostic(
            code=Code.BAD_FLAG,
            message=f"the device code of {group.title} is linked with that of {other}, which has `-dlto`",
            span=next((kernel.span for kernel in manifest.kernels if kernel.target == group.name), None),
            help="give `-dlto` to both, or to none",
        )
        for name, other in mixed(plan.device_links.values()).items()
        for group in plan.groups
        if group.name == name
    ]


def _dropped(manifest: Manifest, groups: Iterable[Group]) -> list[Diagnostic]:
    """ARCH_DROPPED for each arch of a section that is not built for a CUDA version."""
    found: dict[tuple[Span | None, str, str], list[str]] = {}
    for group in groups:
        section = next((kernel for kernel in manifest.kernels if kernel.target == group.name), None)
        asked = section.architectures if section else None
        spans = {arch.value: arch.span for arch in asked.value} if asked else {}
        for backend, archs in group.archs.items():
            for dropped in archs.dropped:
                reason = dropped.reason.replace(f" {version_of(backend)} ", " ")
                found.setdefault((spans.get(dropped.arch), dropped.arch, reason), []).append(backend)
    return [
        Diagnostic(
            code=Code.ARCH_DROPPED,
            message=f"the architecture {arch} is not built for {', '.join(backends)}",
            span=span,
            label=reason,
        )
        for (span, arch, reason), backends in sorted(found.items(), key=lambda item: _place(item[0][0]))
    ]


def _place(span: Span | None) -> tuple[int, int]:
    return (span.line, span.column) if span else (0, 0)


def _variants(manifest: Manifest, matrix: Matrix) -> tuple[tuple[Variant, ...], tuple[Excluded, ...]]:
    """The built variants, default ones first and noarch ones last, and the excluded ones."""
    variants, excluded = [], []
    aot = {backend for backend in manifest.built if compiles(manifest, backend)}
    chosen_for: dict[tuple[str, str | None], list[Archs | None]] = {}
    compiled: dict[tuple[str, str | None], tuple[str, ...]] = {}
    for candidate in candidates(manifest.framework, matrix, aot):
        configuration = candidate.configuration
        sections, other_cpu = sections_for(manifest, sections_of(manifest, configuration), configuration.cpu)
        if reason := candidate.reason or other_cpu or _why_not(manifest, configuration, sections, matrix):
            excluded.append(Excluded(configuration=configuration, reason=reason))
            continue
        key = configuration.backend, configuration.cpu
        if key not in chosen_for:
            chosen_for[key] = chosen_archs(manifest, configuration, sections, matrix)
        chosen = chosen_for[key]
        if empty := next(
            (s for s, choice in zip(sections, chosen, strict=False) if choice is not None and not choice.kept), None
        ):
            reason = f"{empty.title} has no GPU architecture that {_toolkit(configuration.backend)} compiles for"
            excluded.append(Excluded(configuration=configuration, reason=reason))
            continue
        archs = sorted({arch for choice in chosen if choice for arch in choice.kept}) or None
        if key not in compiled:
            compiled[key] = tuple(group.target for group in source_groups(manifest, configuration.family, sections))
        variants.append(_variant(manifest, candidate, groups=compiled[key], archs=archs))
    for backend in manifest.built:
        if backend not in aot and manifest.framework.table != TVM_FFI:
            configuration = Configuration(backend=backend)
            archs = sorted(values(manifest.framework.archs(backend))) or None
            variant = _variant(
                manifest,
                Candidate(configuration=configuration, needs=configuration, default=True),
                groups=(),
                archs=archs,
            )
            variants.insert(sum(known.default for known in variants), variant)
    return tuple(variants), tuple(excluded)


def _reasons(excluded: Iterable[Excluded]) -> list[str]:
    """The unique reasons of exclusions; only the latest of the releases that are too old for every section."""
    reasons = list(dict.fromkeys(exclusion.reason for exclusion in excluded))
    old: dict[str, list[str]] = {}
    for reason in reasons:
        if reason.startswith(_LATER):
            start, _, version = reason.rpartition(" ")
            old.setdefault(start, []).append(version)
    latest = [f"{start} {max(versions, key=numbers)}" for start, versions in old.items()]
    return [*(reason for reason in reasons if not reason.startswith(_LATER)), *latest]


def _toolkit(backend: str) -> str:
    """The toolkit of a backend: `CUDA 13.0`."""
    known = backend_of(backend)
    return f"{known.title} {known.version_of(backend)}" if known else backend


def _why_not(manifest: Manifest, configuration: Configuration, sections: tuple[Kernel, ...], matrix: Matrix) -> str:
    """The reason why a variant is not built, apart from torch, or an empty text."""
    version, bounds, title = (
        version_of(configuration.backend),
        manifest.bounds(configuration.family),
        BUILT[configuration.family].title,
    )
    if version and not bounds.admit(numbers(version)):
        return describe(title, bounds)
    if not sections and manifest.sections(configuration.family):
        return f"{_LATER} {title} than {version}"
    if version and configuration.family == "cuda":
        return _too_old(version, sections, matrix)
    return ""


def _too_old(cuda: str, sections: tuple[Kernel, ...], matrix: Matrix) -> str:
    """The reason if a library of a user's matrix needs a later CUDA, or an empty text."""
    for section in sections:
        for name in values(section.depends):
            if (minimum := matrix.libraries.get(name, "")) and numbers(cuda) < numbers(minimum):
                return f"{section.title} depends on {name}, which needs CUDA {minimum}"
    return ""


def _variant(manifest: Manifest, candidate: Candidate, *, groups: tuple[str, ...], archs: list[str] | None) -> Variant:
    configuration = candidate.configuration
    return Variant(
        configuration=configuration,
        needs=candidate.needs,
        default=candidate.default,
        groups=groups,
        archs=None if archs is None else tuple(archs),
        identity=f"{configuration.family}_id",
        metadata=make_metadata(manifest, configuration.family, archs),
    )


def _groups(project: Project, family: str, variants: Iterable[Variant], matrix: Matrix) -> tuple[Group, ...]:
    """The groups of a backend, in all its variants."""
    manifest = project.manifest
    configurations = {
        (variant.configuration.backend, variant.configuration.cpu or ""): variant.configuration
        for variant in variants
        if variant.configuration.family == family
    }
    admitted = {
        key: sections_for(manifest, sections_of(manifest, configuration), configuration.cpu)[0]
        for key, configuration in sorted(configurations.items())
    }
    found: dict[str, SourceGroup] = {}
    linked: dict[str, list[Configuration]] = {}
    for group in source_groups(manifest, family, manifest.sections(family)):
        found[group.target] = group
    for key, sections in admitted.items():
        for source_group in source_groups(manifest, family, sections):
            found.setdefault(source_group.target, source_group)
            linked.setdefault(source_group.target, []).append(configurations[key])
    return tuple(
        make_group(project, family, source_group, linked.get(name, ()), matrix) for name, source_group in found.items()
    )
