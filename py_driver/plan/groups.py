"""The groups of a backend: files that are compiled with the same flags, with their dependencies."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from py_driver.manifest.linking import link_flags
from py_driver.manifest.model import TORCH, TVM_FFI, values
from py_driver.manifest.openmp import asks_for_openmp, gpu_asks_for_openmp
from py_driver.manifest.targets import binding_target
from py_driver.matrix.backends import BUILT, version_of
from py_driver.matrix.matrix import TVM_FFI_PART
from py_driver.matrix.toolkits import Archs, numbers
from py_driver.plan.compile_groups import archs_of, split, united
from py_driver.plan.section_search import OPENMP

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from py_driver.manifest.model import Kernel, Manifest
    from py_driver.matrix.configurations import Configuration
    from py_driver.matrix.matrix import Matrix
    from py_driver.plan.compile_groups import SourceGroup
    from py_driver.plan.project import Project


class Group(NamedTuple):
    """Files that are compiled with the same flags: the binding or a kernel section.

    Attributes:
        name: its target's name.
        title: its name in messages: `[kernel.relu]`.
        backend: `cpu`, `cuda` or `rocm`.
        sources: the files to compile, sorted.
        headers: the files to include, sorted.
        includes: the include directories.
        cxx_flags: flags for C++.
        cuda_flags: flags for nvcc.
        hip_flags: flags for HIP's compiler.
        depends: the libraries that may be included: `torch`, `cutlass_3_6`, sorted.
        archs: the architectures of a kernel section for GPUs, by backend (`cu130`, `rocm72`).
        identity: the name of the identity's target, if the sources need the unique id; else "".
        link_flags: flags for nvcc for linking the device code of several groups.
        precompiled: whether C++ sources are compiled with a precompiled header, which changes no object.
    """

    name: str
    title: str
    backend: str
    sources: tuple[str, ...]
    headers: tuple[str, ...]
    includes: tuple[str, ...]
    cxx_flags: tuple[str, ...]
    cuda_flags: tuple[str, ...]
    hip_flags: tuple[str, ...]
    depends: tuple[str, ...]
    archs: Mapping[str, Archs]
    identity: str
    link_flags: tuple[str, ...] = ()
    precompiled: bool = False

    @property
    def gcc(self) -> bool:
        """Whether gcc compiles its C++: its flags ask for OpenMP, or its sources include OpenMP's header."""
        return asks_for_openmp(self.cxx_flags) or OPENMP in self.depends

    @property
    def openmp(self) -> bool:
        """Whether its objects may call OpenMP's runtime."""
        return self.gcc or gpu_asks_for_openmp(self.cuda_flags, self.hip_flags)


def sections_of(manifest: Manifest, configuration: Configuration) -> tuple[Kernel, ...]:
    """The kernel sections of a variant."""
    version = version_of(configuration.backend)
    return tuple(
        section
        for section in manifest.sections(configuration.family)
        if version is None or section.bounds.admit(numbers(version))
    )


def chosen_archs(
    manifest: Manifest, configuration: Configuration, sections: Sequence[Kernel], matrix: Matrix
) -> list[Archs | None]:
    """The GPU architectures of each section in a variant; the default ones if there is only a binding."""
    if sections or not _device_sources(split(manifest.framework.src, configuration.family)[0], configuration.family):
        return [_choose(section, configuration, matrix) for section in sections]
    toolkit = matrix.toolkit(configuration.backend)
    return [BUILT[configuration.family].choose(None, toolkit)] if toolkit else []


def _device_sources(sources: Iterable[str], family: str) -> list[str]:
    """The sources that only a backend's compiler compiles."""
    return [source for source in sources if BUILT[family].sources and source.endswith(BUILT[family].sources)]


def _choose(section: Kernel, configuration: Configuration, matrix: Matrix) -> Archs | None:
    toolkit = matrix.toolkit(configuration.backend)
    return archs_of(section, toolkit) if toolkit else None


def make_group(
    project: Project, family: str, group: SourceGroup, configurations: Iterable[Configuration], matrix: Matrix
) -> Group:
    """The group of sources, for one variant of each backend that links it.

    The binding may include every header of its backend.

    Args:
        project: a project with checked files.
        family: the backend.
        group: its sources, and the sections that list them.
        configurations: a configuration for each version of the backend that links it.
        matrix: the releases to build for.
    """
    manifest, framework = project.manifest, project.manifest.framework
    targets = [*([binding_target(family)] if group.binding else []), *(section.target for section in group.sections)]
    reach = [project.reach[target] for target in targets]
    lists = [*([framework.src] if group.binding else []), *(section.src for section in group.sections)]
    offered = manifest.sections(family) if group.binding else ()
    headers = {header for src in (*lists, *(section.src for section in offered)) for header in split(src)[1]}
    # hipify reads all sources of a group in any case.
    known = set(group.sources) if BUILT[family].rewriter and not group.binding else set()
    headers |= {file for walked in reach for file in walked.files} - known
    includes = [*([framework.include] if group.binding else []), *(section.include for section in group.sections)]
    # Upstream overwrites the directories of a source for each section that lists it, so the last section counts.
    ordered = [*reversed([values(include) for include in includes]), *(walked.includes for walked in reach)]
    reached = [name for walked in reach for name in walked.depends]
    device = group.sections or _device_sources(group.sources, family)
    chosen = {
        configuration.backend: _archs(manifest, group, configuration, matrix)
        for configuration in configurations
        if device
    }
    return Group(
        name=group.target,
        title=group.title,
        backend=family,
        sources=group.sources,
        headers=tuple(sorted(headers)),
        includes=_includes([path for group_paths in ordered for path in group_paths], (*group.sources, *headers)),
        cxx_flags=(*(values(framework.cxx_flags) if group.binding else ()), *_joined(group, "cxx_flags")),
        cuda_flags=_joined(group, "cuda_flags"),
        hip_flags=_joined(group, "hip_flags"),
        depends=_depends(manifest, [*([TORCH] if group.binding else []), *_joined(group, "depends"), *reached]),
        archs={backend: archs for backend, archs in chosen.items() if archs is not None},
        identity=f"{family}_id" if group.binding or any(walked.named for walked in reach) else "",
        link_flags=link_flags(_joined(group, "cuda_flags")),
    )


def _joined(group: SourceGroup, key: str) -> tuple[str, ...]:
    """The concatenated lists of a group's sections for a key."""
    return tuple(value for section in group.sections for value in values(getattr(section, key)))


def _depends(manifest: Manifest, depends: Iterable[str]) -> tuple[str, ...]:
    """The dependencies of a group: in a project with tvm-ffi, every group has tvm-ffi instead of torch."""
    if manifest.framework.table == TVM_FFI:
        depends = {TVM_FFI_PART, *depends} - {TORCH}
    return tuple(sorted(set(depends)))


def _includes(directories: Iterable[str], files: Iterable[str]) -> tuple[str, ...]:
    """The include directories that contain any of the files: directories of other backends do not."""
    listed = list(files)
    return tuple(
        directory
        for directory in dict.fromkeys(directories)
        if directory == "." or any(file.startswith(f"{directory}/") for file in listed)
    )


def _archs(manifest: Manifest, group: SourceGroup, configuration: Configuration, matrix: Matrix) -> Archs | None:
    """The GPU architectures of a group in a variant: from the sections that list its sources, or from all sections."""
    found = chosen_archs(manifest, configuration, group.sections or sections_of(manifest, configuration), matrix)
    archs = [choice for choice in found if choice is not None]
    return united(archs) if archs else None
