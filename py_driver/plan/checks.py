"""Cross-field checks of a valid manifest. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.errors import Code
from py_driver.manifest.model import CPP, CURRENT, STABLE_SINCE, TORCH, TVM_FFI, values
from py_driver.manifest.paths import CXX_SOURCES, SOURCES
from py_driver.matrix.backends import BUILT, UNIVERSAL
from py_driver.matrix.toolkits import numbers
from py_driver.output import joined
from py_driver.plan.compile_groups import archs_of, compiles

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from py_driver.manifest.model import Kernel, Located, Manifest, Texts, Version
    from py_driver.manifest.section import Findings
    from py_driver.matrix.matrix import Matrix
    from py_driver.matrix.releases import Releases
    from py_driver.matrix.toolkits import Toolkit
    from py_driver.plan.present_files import PresentFiles


def check(manifest: Manifest, releases: Releases, present: PresentFiles, findings: Findings) -> None:
    """Collect errors and notes about combinations of values.

    Args:
        manifest: the manifest; its placeholders for invalid values lead to no error here.
        releases: the releases to build for.
        present: the files that the project has.
        findings: gets UNKNOWN_ARCH, EMPTY_ARCHS, UNSUPPORTED, BAD_NAME, BAD_VALUE, MISSING_KEY, and the notes.
    """
    _check_framework(manifest, present, findings)
    matrix = releases.matrix
    default = {configuration.backend for configuration, is_default in matrix.configurations() if is_default}
    toolkits = [toolkit for toolkit in matrix.toolkits if toolkit.backend in default]
    for kernel in manifest.kernels:
        if kernel.language != CPP:
            _check_language(kernel, manifest, findings)
        elif kernel.backend.value in BUILT and kernel.backend.value in manifest.built and not manifest.framework.noarch:
            _check_sources(kernel, manifest, present, findings)
        asked = kernel.architectures
        archs = (*(asked.value if asked else ()), *kernel.gencode)
        known = _check_archs(kernel.backend.value, archs, matrix, findings)
        known = known and (asked is None or findings.is_right(asked.span))
        if known and kernel.backend.value in manifest.built:
            _check_some_arch_is_left(manifest, kernel, toolkits, findings)
        if kernel.backend.value in BUILT:
            _check_depends(kernel, manifest.framework.table, releases, findings)
    for backend in BUILT:
        _check_archs(backend, manifest.framework.archs(backend), matrix, findings)
    _note_backends(manifest, matrix, findings)
    if manifest.edition < CURRENT and manifest.license == "unknown":
        findings.note("the licence is missing; metadata.json will have `unknown`", manifest.name.span)


def _check_framework(manifest: Manifest, present: PresentFiles, findings: Findings) -> None:
    framework = manifest.framework
    stable = [
        framework.stable_abi[family] for family in BUILT if family in framework.stable_abi and family in manifest.built
    ]
    for version in dict.fromkeys(stable):
        if findings.is_right(version.span):
            _check_stable_abi(version, findings)
    if (pyext := framework.pyext) and "py" not in framework.extensions and findings.is_right(pyext.span):
        message = f"`pyext` in [{framework.table}] does not have `py`: `__init__.py` would not be shipped"
        findings.add(Code.BAD_VALUE, message, pyext.span, advice='add "py"')
    compiled = any(kernel.backend.value in manifest.built for kernel in manifest.kernels)
    table, src = (framework.table,), (framework.table, "src")
    is_stated = findings.has(table) and findings.value(table) == framework.span
    if is_stated and compiled and not framework.noarch and not _has_source(framework.src):
        span = findings.value(src)
        if not findings.has(src) or findings.is_right(span):
            message = f"`src` in [{framework.table}] has no source that registers the operators"
            folder = manifest.python_root.partition("/")[0]
            binding = present.source(CXX_SOURCES, _listed(manifest), folder)
            example = binding or f"{folder}/{framework.table.replace('-', '_')}_binding.cpp"
            advice = f'list it{"" if binding else ", e.g."}: src = ["{example}"]'
            findings.add(Code.MISSING_KEY, message, span, advice=advice)


def _check_language(kernel: Kernel, manifest: Manifest, findings: Findings) -> None:
    """Collect UNSUPPORTED for a section in another language than C++."""
    if kernel.backend.value in manifest.built:
        advice = "only C++ with CUDA and HIP is compiled; use that, or build with kernel-builder"
        message = f"{kernel.title} is written in {kernel.language}, which is not supported"
        findings.add(Code.UNSUPPORTED, message, kernel.backend.span, advice=advice)


def _check_stable_abi(version: Located[Version], findings: Findings) -> None:
    text = ".".join(map(str, version.value))
    if len(version.value) > len(STABLE_SINCE):
        message = f"`stable-abi` has two numbers, and {text} has {len(version.value)}"
        findings.add(Code.BAD_VALUE, message, version.span, advice="a release has the same ABI as its patch releases")
    elif version.value < STABLE_SINCE:
        advice = f"write {'.'.join(map(str, STABLE_SINCE))} or later, or remove `stable-abi`"
        findings.add(Code.BAD_VALUE, f"torch {text} has no stable ABI", version.span, advice=advice)


def _has_source(files: Texts) -> bool:
    return any(text.value.endswith(SOURCES) for text in files)


def _listed(manifest: Manifest) -> set[str]:
    """The files that sections list."""
    return {
        text.value for src in (manifest.framework.src, *(kernel.src for kernel in manifest.kernels)) for text in src
    }


def _check_sources(kernel: Kernel, manifest: Manifest, present: PresentFiles, findings: Findings) -> None:
    """Collect MISSING_KEY for a section without files, and a note for a section with only headers."""
    span = findings.value(("kernel", kernel.name.value, "src"))
    if kernel.src and not _has_source(kernel.src):
        findings.note(f"`src` in {kernel.title} has no source: nothing is compiled for it", span, Code.MISSING_KEY)
    elif not kernel.src and findings.is_right(span):
        message = f"`src` in {kernel.title} has no source, so there is nothing to compile"
        source = present.source(BUILT[kernel.backend.value].sources or CXX_SOURCES, _listed(manifest))
        advice = f"list {f'`{source}`' if source else 'a source'}, or remove the section"
        findings.add(Code.MISSING_KEY, message, span, advice=advice)


def _check_archs(backend: str, archs: Texts, matrix: Matrix, findings: Findings) -> bool:
    """Whether a compiler supports an architecture of a list; collect the unknown ones, as notes if so."""
    problems = [BUILT[backend].arch_problem(arch.value, values(archs), matrix.known[backend]) for arch in archs]
    good = not archs or None in problems
    for arch, problem in zip(archs, problems, strict=True):
        if problem and good:
            remark = f" ({problem[1]})" if problem[1] else ""
            findings.note(f"{problem[0]}; it is not built{remark}", arch.span, Code.UNKNOWN_ARCH)
        elif problem:
            findings.add(Code.UNKNOWN_ARCH, problem[0], arch.span, label=problem[1])
    return good


def _check_some_arch_is_left(
    manifest: Manifest, kernel: Kernel, toolkits: Iterable[Toolkit], findings: Findings
) -> None:
    """Collect EMPTY_ARCHS once if a section has no architecture for one or more toolkits."""
    backend = BUILT[kernel.backend.value]
    empty = []
    for toolkit in toolkits:
        version = numbers(toolkit.version)
        admitted = manifest.bounds(backend.family).admit(version) and kernel.bounds.admit(version)
        if toolkit.family == backend.family and admitted and not archs_of(kernel, toolkit).kept:
            empty.append(toolkit)
    if not empty:
        return
    releases: dict[tuple[str, ...], list[str]] = {}
    for toolkit in empty:
        releases.setdefault(tuple(toolkit.archs), []).append(toolkit.version)
    supported = [
        f"{backend.title} {joined(versions)} {'supports' if len(versions) == 1 else 'support'} {', '.join(archs)}"
        for archs, versions in releases.items()
    ]
    span = kernel.architectures.span if kernel.architectures else kernel.span
    versions = joined([toolkit.version for toolkit in empty])
    verb = "supports" if len(empty) == 1 else "support"
    message = f"{kernel.title} has no GPU architecture that {backend.title} {versions} {verb}"
    findings.add(Code.EMPTY_ARCHS, message, span, advice="; ".join(supported))


def _check_depends(kernel: Kernel, bound: str, releases: Releases, findings: Findings) -> None:
    for depend in kernel.depends:
        if depend.value == TORCH:
            if bound == TVM_FFI:
                message = f"`torch` in `depends` of {kernel.title} has no effect: torch's headers are not available"
                findings.note(f"{message} of a [{TVM_FFI}] project", depend.span)
            continue
        locked = releases.lock.libraries
        name, *version = depend.value.split("_")
        if name in BUILT[kernel.backend.value].without:
            message, advice = "CUTLASS is for CUDA only", "remove it from `depends`"
        elif depend.value in locked:
            if upstream := locked[depend.value].get("upstream"):
                here = f"{locked[depend.value]['release']}, as {locked[depend.value]['vendored_by']} has it"
                message = f"`{depend.value}` is CUTLASS {here}; kernel-builder uses {upstream}"
                findings.note(message, depend.span)
            continue
        elif name == "cutlass":
            message = f"CUTLASS {'.'.join(version)} is not locked: no known Python package contains it"
            advice = f"the lock has {', '.join(locked)}; a matrix of your own can lock it, see docs/toolchains.md"
        else:
            message = f"the dependency `{depend.value}` is not supported"
            advice = "list headers of your own in `src`"
        findings.add(Code.UNSUPPORTED, message, depend.span, advice=advice)


def _of_tvm_ffi(manifest: Manifest, backend: str, families: Collection[str]) -> bool:
    """Whether a project that is bound with tvm-ffi has variants for a backend."""
    return backend in families and compiles(manifest, backend)


def _note_backends(manifest: Manifest, matrix: Matrix, findings: Findings) -> None:
    """Note backends and sections that are not built, and contradictions between `backends` and the sections."""
    families = {configuration.family for configuration, _ in matrix.tvm_ffi_configurations()}
    asked = [backend.value for backend in manifest.backends]
    for backend in manifest.backends:
        if backend.value not in (*BUILT, UNIVERSAL):
            findings.note(f"the backend `{backend.value}` is excluded: the driver does not build it yet", backend.span)
        elif manifest.framework.table == TVM_FFI and not _of_tvm_ffi(manifest, backend.value, families):
            why = _nothing_for(manifest, "it") if backend.value in families else "tvm-ffi has no variant for it"
            findings.note(f"the backend `{backend.value}` is excluded: {why}", backend.span)
        elif manifest.framework.table == TORCH and not compiles(manifest, backend.value):
            why = _nothing_for(manifest, f"`{backend.value}`")
            bound = next((f", not `{source.value}`" for source in manifest.framework.src if _has_source((source,))), "")
            findings.note(f"{why}: torch-{backend.value} will have Python files only{bound}", backend.span)
    for kernel in _outside(manifest.kernels, asked):
        message = f"{kernel.title} is excluded: `backends` in [general] does not list `{kernel.backend.value}`"
        findings.note(message, kernel.span)
    if manifest.framework.noarch:
        for kernel in manifest.kernels:
            if kernel.backend.value in asked:
                findings.note(f"{kernel.title} is excluded: the project has Python files only", kernel.span)


def _nothing_for(manifest: Manifest, backend: str) -> str:
    """The reason why nothing is compiled for a backend."""
    if manifest.kernels or not _has_source(manifest.framework.src):
        return f"no [kernel.*] section is for {backend}"
    return f"no source of [{manifest.framework.table}] is for {backend}"


def _outside(kernels: Iterable[Kernel], backends: list[str]) -> list[Kernel]:
    return [kernel for kernel in kernels if kernel.backend.value not in backends]
