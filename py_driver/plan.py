"""manifest x matrix -> plan: which cells, and what each compiles. Pure, and a matter of milliseconds."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py_driver.errors import Code, Diagnostic, DriverError
from py_driver.manifest.model import UNIVERSAL
from py_driver.manifest.paths import HEADERS
from py_driver.variants.capabilities import Archs, choose
from py_driver.variants.names import Cell, cuda_version, spell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from py_driver.manifest.model import Bounds, Kernel, KernelDepend, Manifest, Note, Texts, Version
    from py_driver.project import Project
    from py_driver.variants.matrix import Matrix

ALL = "all_variants"
"""The name of the target that bundles every default cell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """What the unique id of a backend's variants is made from.

    Attributes:
        name: of its target, e.g. `cuda_id`.
        backend: `cpu`, `cuda` or `universal`.
        config: SHA-256, in hex, of the configuration that is the same in every cell.
        files: every file that belongs to the backend, sorted.
    """

    name: str
    backend: str
    config: str
    files: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Files that are compiled with the same flags: the binding or a kernel section.

    Attributes:
        name: of its target.
        backend: `cpu` or `cuda`.
        sources: files to compile, sorted.
        headers: files to include, sorted.
        includes: directories to include from.
        cxx_flags: flags for C++.
        cuda_flags: flags for nvcc.
        torch: whether torch's headers may be included.
        archs: for a CUDA kernel section: what became of its archs, by backend (`cu130`).
        identity: the name of the identity's target, if the sources need the unique id; else "".
    """

    name: str
    backend: str
    sources: tuple[str, ...]
    headers: tuple[str, ...]
    includes: tuple[str, ...]
    cxx_flags: tuple[str, ...]
    cuda_flags: tuple[str, ...]
    torch: bool
    archs: Mapping[str, Archs]
    identity: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """A cell that is built.

    Attributes:
        cell: which.
        bundled: whether it is built by default.
        groups: the names of the groups that it links.
        archs: the GPU architectures that it has, sorted as text as upstream does, or None.
        identity: the name of the identity's target.
        metadata: what its metadata.json says besides the id and the digest.
    """

    cell: Cell
    bundled: bool
    groups: tuple[str, ...]
    archs: tuple[str, ...] | None
    identity: str
    metadata: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The cell's identifier."""
        return spell(self.cell)


@dataclass(frozen=True, kw_only=True, slots=True)
class Left:
    """A cell of the matrix that the project does not build, and why."""

    cell: Cell
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """All that is built of a project.

    Attributes:
        name: the project's name.
        module: the Python package's name.
        python_root: the package's directory.
        python: its files.
        identities: by backend, in the order of the variants.
        groups: bindings and kernel sections.
        variants: bundled ones first.
        left: the cells that are not built although their backend is.
        notes: what the manifest's reader had to say.
    """

    name: str
    module: str
    python_root: str
    python: tuple[str, ...]
    identities: tuple[Identity, ...]
    groups: tuple[Group, ...]
    variants: tuple[Variant, ...]
    left: tuple[Left, ...]
    notes: tuple[Note, ...]


def canonical(value: object) -> str:
    """A value as JSON with sorted keys, no blanks and ASCII characters only: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def make_plan(project: Project, matrix: Matrix) -> Plan:
    """Plan what to build of a project.

    Args:
        project: with checked files.
        matrix: the releases to build for.

    Raises:
        DriverError: EMPTY_ARCHS for each section that no arch is left for in some cell; MISSING_KEY if there is nothing
            to bind; BAD_NAME for a section that is named like another target; NO_VARIANTS if no cell is left.
    """
    manifest = project.manifest
    variants, left = _variants(manifest, matrix)
    if not variants:
        reasons = "; ".join(dict.fromkeys(one.reason for one in left)) or "none of its backends is built yet"
        message = f"nothing to build for `{manifest.name.value}`: {reasons}"
        raise DriverError([Diagnostic(code=Code.NO_VARIANTS, message=message, span=manifest.framework.span)])
    families = tuple(dict.fromkeys(variant.cell.family for variant in variants))
    compiled = tuple(family for family in families if not manifest.framework.noarch and manifest.sections(family))
    groups = tuple(group for family in compiled for group in _groups(manifest, family, variants, matrix))
    identities = tuple(_identity(project, family, family in compiled) for family in families)
    _check_names(manifest, {*(one.name for one in variants), *(one.name for one in identities)})
    return Plan(
        name=manifest.name.value,
        module=manifest.module,
        python_root=project.python_root,
        python=project.python,
        identities=identities,
        groups=groups,
        variants=variants,
        left=left,
        notes=manifest.notes,
    )


def _parse(version: str) -> Version:
    return tuple(int(part) for part in version.split("."))


def _describe(what: str, bounds: Bounds) -> str:
    low, high = (".".join(map(str, one.value)) if one else "" for one in (bounds.minver, bounds.maxver))
    return f"{what} must be " + " and ".join([f"at least {low}"] * bool(low) + [f"at most {high}"] * bool(high))


def _variants(manifest: Manifest, matrix: Matrix) -> tuple[tuple[Variant, ...], tuple[Left, ...]]:
    """The cells that are built, bundled ones first and noarch ones last, and those that are not."""
    variants, left, failures = [], [], []
    aot = {one for one in manifest.backends if not manifest.framework.noarch and manifest.sections(one)}
    if aot and not _split(manifest.framework.src)[0]:
        message = "`src` in [torch] has no source that registers the operators"
        raise DriverError([Diagnostic(code=Code.MISSING_KEY, message=message, span=manifest.framework.span)])
    for cell, bundled in matrix.cells():
        if cell.family not in aot:
            continue
        sections = _sections(manifest, cell)
        if reason := _why_not(manifest, cell, sections):
            left.append(Left(cell=cell, reason=reason))
            continue
        chosen = [_choose(section, cell, matrix) for section in sections]
        failures += [
            _empty(section, cell, archs)
            for section, archs in zip(sections, chosen, strict=True)
            if archs is not None and not archs.kept
        ]
        archs = sorted({arch for one in chosen if one for arch in one.kept}) if cell.family == "cuda" else None
        groups = (f"binding_{cell.family}", *(section.name.value for section in sections))
        variants.append(_variant(manifest, cell, bundled=bundled, groups=groups, archs=archs))
    if failures:
        first = {(one.span, one.message): one for one in failures}
        raise DriverError(first.values())
    for backend in manifest.backends:
        if backend not in aot:
            cell = Cell(backend=backend)
            noarch = manifest.framework.cuda_capabilities if backend == "cuda" else None
            archs = sorted(noarch) if noarch else None
            variants.insert(
                sum(one.bundled for one in variants), _variant(manifest, cell, bundled=True, groups=(), archs=archs)
            )
    return tuple(variants), tuple(left)


def _sections(manifest: Manifest, cell: Cell) -> tuple[Kernel, ...]:
    """The kernel sections that a cell has."""
    version = cuda_version(cell.backend)
    return tuple(
        section
        for section in manifest.sections(cell.family)
        if version is None or section.cuda_minver is None or _parse(version) >= section.cuda_minver.value
    )


def _why_not(manifest: Manifest, cell: Cell, sections: tuple[Kernel, ...]) -> str:
    """Why a cell is not built, or nothing."""
    if not manifest.framework.bounds.admit(_parse(cell.torch or "0")):
        return _describe("torch", manifest.framework.bounds)
    version = cuda_version(cell.backend)
    if version and not manifest.cuda.admit(_parse(version)):
        return _describe("CUDA", manifest.cuda)
    if not sections:
        return f"every kernel section asks for a later CUDA than {version}"
    return ""


def _choose(section: Kernel, cell: Cell, matrix: Matrix) -> Archs | None:
    version = cuda_version(cell.backend)
    if version is None:
        return None
    requested = section.capabilities.value if section.capabilities else None
    return choose(requested, matrix.cuda_release(version))


def _empty(section: Kernel, cell: Cell, archs: Archs) -> Diagnostic:
    version = cuda_version(cell.backend)
    reasons = "; ".join(f"{one.arch}: {one.reason}" for one in archs.dropped)
    return Diagnostic(
        code=Code.EMPTY_ARCHS,
        message=f"[kernel.{section.name.value}] has no GPU architecture that CUDA {version} compiles for",
        span=section.capabilities.span if section.capabilities else section.span,
        help=reasons,
    )


def _variant(
    manifest: Manifest, cell: Cell, *, bundled: bool, groups: tuple[str, ...], archs: list[str] | None
) -> Variant:
    return Variant(
        cell=cell,
        bundled=bundled,
        groups=groups,
        archs=None if archs is None else tuple(archs),
        identity=f"{cell.family}_id",
        metadata=_metadata(manifest, cell.family, archs),
    )


def _metadata(manifest: Manifest, family: str, archs: list[str] | None) -> dict[str, Any]:
    """What metadata.json says of a backend, but for the id and the digest.

    The `kernels` client takes names without `_` only, and has no universal backend: such a variant says `cpu`,
    which the client reads and does not act on.
    """
    extra = (manifest.cuda_depends,) if family == "cuda" else ()
    depends = (manifest.depends, *extra)
    backend: dict[str, Any] = {"type": "cpu" if family == UNIVERSAL else family}
    if archs is not None:
        backend["archs"] = archs
    metadata: dict[str, Any] = {
        "name": manifest.name.value.replace("_", "-"),
        "version": manifest.version,
        "license": manifest.license,
        "python-depends": [name for one in depends for name in one.python],
        "kernel-depends": [_kernel_depend(kernel) for one in depends for kernel in one.kernels],
        "backend": backend,
    }
    places = {"upstream": manifest.upstream, "source": manifest.source}
    return metadata | {key: value for key, value in places.items() if value is not None}


def _kernel_depend(kernel: KernelDepend) -> dict[str, str | int]:
    if kernel.version is not None:
        return {"repo-id": kernel.repo_id, "version": kernel.version}
    return {"repo-id": kernel.repo_id, "revision": kernel.revision or ""}


def _split(files: Texts) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sources and headers, each sorted: the order in build.toml means nothing."""
    names = sorted(text.value for text in files)
    headers = tuple(name for name in names if name.endswith(HEADERS))
    return tuple(name for name in names if name not in headers), headers


def _values(texts: Texts) -> tuple[str, ...]:
    return tuple(text.value for text in texts)


def _includes(texts: Texts, files: Iterable[str]) -> tuple[str, ...]:
    """The include directories that have any of the files below them: those of other backends have none."""
    listed = list(files)
    return tuple(t.value for t in texts if t.value == "." or any(f.startswith(f"{t.value}/") for f in listed))


def _groups(manifest: Manifest, family: str, variants: Iterable[Variant], matrix: Matrix) -> tuple[Group, ...]:
    """The binding of a backend, which may include every header of it, and its kernel sections."""
    framework = manifest.framework
    sources, headers = _split(framework.src)
    offered = {header for section in manifest.sections(family) for header in _split(section.src)[1]}
    binding = Group(
        name=f"binding_{family}",
        backend=family,
        sources=sources,
        headers=tuple(sorted({*headers, *offered})),
        includes=_includes(framework.include, (*sources, *headers, *offered)),
        cxx_flags=_values(framework.cxx_flags),
        cuda_flags=(),
        torch=True,
        archs={},
        identity=f"{family}_id",
    )
    return (binding, *(_group(section, variants, matrix) for section in manifest.sections(family)))


def _group(section: Kernel, variants: Iterable[Variant], matrix: Matrix) -> Group:
    sources, headers = _split(section.src)
    cells = {one.cell.backend: one.cell for one in variants if section.name.value in one.groups}
    chosen = {backend: _choose(section, cell, matrix) for backend, cell in sorted(cells.items())}
    return Group(
        name=section.name.value,
        backend=section.backend,
        sources=sources,
        headers=headers,
        includes=_includes(section.include, (*sources, *headers)),
        cxx_flags=_values(section.cxx_flags),
        cuda_flags=_values(section.cuda_flags),
        torch=section.torch,
        archs={backend: archs for backend, archs in chosen.items() if archs is not None},
        identity="",
    )


def _identity(project: Project, family: str, compiled: bool) -> Identity:  # noqa: FBT001  (one caller)
    manifest = project.manifest
    sections = manifest.sections(family) if compiled else ()
    binding = manifest.framework.src if compiled else ()
    files = {*project.python, *_values(binding), *(name for one in sections for name in _values(one.src))}
    framework = manifest.framework
    config = {
        "name": manifest.name.value,
        "version": manifest.version,
        "backend": family,
        "binding": [sorted(_values(binding)), _values(framework.include), _values(framework.cxx_flags)],
        "kernels": [_section_config(section) for section in sorted(sections, key=lambda one: one.name.value)],
    }
    digest = hashlib.sha256(canonical(config).encode("ascii")).hexdigest()
    return Identity(name=f"{family}_id", backend=family, config=digest, files=tuple(sorted(files)))


def _section_config(section: Kernel) -> dict[str, Any]:
    """All of a section that decides what is compiled, apart from what the files hold."""
    return {
        "name": section.name.value,
        "torch": section.torch,
        "src": sorted(_values(section.src)),
        "include": _values(section.include),
        "cxx-flags": _values(section.cxx_flags),
        "cuda-flags": _values(section.cuda_flags),
        "capabilities": sorted(section.capabilities.value) if section.capabilities else None,
        "cuda-minver": section.cuda_minver.value if section.cuda_minver else None,
    }


def _check_names(manifest: Manifest, generated: set[str]) -> None:
    """Raise BAD_NAME for each kernel section that is named like a target of ours."""
    taken = generated | {ALL, "binding_cpu", "binding_cuda"}
    clashes = [
        Diagnostic(
            code=Code.BAD_NAME,
            message=f"a kernel section cannot be named `{kernel.name.value}`",
            span=kernel.name.span,
            label="a target of the generated BUILD.bazel has this name",
        )
        for kernel in manifest.kernels
        if kernel.name.value in taken
    ]
    if clashes:
        raise DriverError(clashes)
