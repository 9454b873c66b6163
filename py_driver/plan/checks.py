"""What is wrong with a manifest as a whole, or worth a note, once each of its values is right. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from py_driver.errors import Code
from py_driver.manifest.model import CURRENT, STABLE_SINCE, TORCH, TVM_FFI, Bounds
from py_driver.manifest.paths import HEADERS
from py_driver.matrix.archs import base, choose, choose_amd, plain_amd
from py_driver.matrix.backends import BUILT, UNIVERSAL
from py_driver.matrix.cells import ALL, is_identifier
from py_driver.matrix.libraries import locked
from py_driver.plan.candidates import numbers
from py_driver.spelling import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable

    from py_driver.manifest.model import Kernel, Located, Manifest, Texts, Version
    from py_driver.manifest.section import Findings
    from py_driver.matrix.archs import Archs
    from py_driver.matrix.releases import Cuda, Matrix, Rocm

_FEATURES = r"(:sramecc[+-])?(:xnack[+-])?"
"""What may follow an AMD architecture, in clang's order."""

_TARGETS = (ALL, *(f"{one}_id" for one in (*BUILT, UNIVERSAL)), *(f"binding_{one}" for one in BUILT))


class _Releases(NamedTuple):
    """The toolkits of the cells that are built by default."""

    cuda: list[Cuda]
    rocm: list[Rocm]


def check(manifest: Manifest, matrix: Matrix, findings: Findings) -> None:
    """Collect what the values of a manifest say together: errors and notes.

    Args:
        manifest: what was read; stand-ins in it lead to no error here.
        matrix: the releases to build for.
        findings: gets UNKNOWN_ARCH, EMPTY_ARCHS, UNSUPPORTED, BAD_NAME, BAD_VALUE, MISSING_KEY, and the notes.
    """
    _check_framework(manifest, findings)
    default = {cell.backend for cell, bundled in matrix.cells() if bundled}
    releases = _Releases(
        cuda=[release for release in matrix.cuda if release.backend in default],
        rocm=[release for release in matrix.rocm if release.backend in default],
    )
    for kernel in manifest.kernels:
        _check_name(kernel, findings)
        if kernel.backend.value in BUILT and kernel.backend.value in manifest.built and not manifest.framework.noarch:
            _check_sources(kernel, findings)
        known = _check_archs(kernel.capabilities.value if kernel.capabilities else (), matrix, findings)
        known &= _check_amd_archs(kernel.rocm_archs.value if kernel.rocm_archs else (), matrix, findings)
        known = known and (kernel.architectures is None or findings.is_right(kernel.architectures.span))
        if known and kernel.backend.value in manifest.built:
            _check_some_arch_is_left(manifest, kernel, releases, findings)
        if kernel.backend.value in BUILT:
            _check_depends(kernel, findings)
    if capabilities := manifest.framework.capabilities:
        _check_archs(capabilities.value, matrix, findings)
    if archs := manifest.framework.rocm_archs:
        _check_amd_archs(archs.value, matrix, findings)
    _note_backends(manifest, findings)
    if manifest.edition < CURRENT and manifest.license == "unknown":
        findings.note("the file names no licence; metadata.json will say `unknown`", manifest.name.span)


def _check_framework(manifest: Manifest, findings: Findings) -> None:
    framework = manifest.framework
    if framework.table == TVM_FFI:
        advice = "only [torch] and [torch-noarch] are"
        findings.add(Code.UNSUPPORTED, "[tvm-ffi] is not supported", framework.span, advice=advice)
    stable = [framework.stable_abi[one] for one in BUILT if one in framework.stable_abi and one in manifest.built]
    for version in dict.fromkeys(stable):
        if findings.is_right(version.span):
            _check_stable_abi(version, findings)
    if (pyext := framework.pyext) and "py" not in framework.extensions and findings.is_right(pyext.span):
        message = f"`pyext` in [{framework.table}] does not have `py`: `__init__.py` would not be shipped"
        findings.add(Code.BAD_VALUE, message, pyext.span, advice='add "py"')
    compiled = any(kernel.backend.value in manifest.built for kernel in manifest.kernels)
    table, src = (TORCH,), (TORCH, "src")
    said = findings.has(table) and findings.value(table) == framework.span
    if said and compiled and not _has_source(framework.src):
        span = findings.value(src)
        if not findings.has(src) or findings.is_right(span):
            message = "`src` in [torch] has no source that registers the operators"
            advice = 'list it, e.g. src = ["torch-ext/torch_binding.cpp"]'
            findings.add(Code.MISSING_KEY, message, span, advice=advice)


def _check_stable_abi(version: Located[Version], findings: Findings) -> None:
    text = ".".join(map(str, version.value))
    if len(version.value) > len(STABLE_SINCE):
        message = f"`stable-abi` has two numbers, and {text} has {len(version.value)}"
        findings.add(Code.BAD_VALUE, message, version.span, advice="a release has the same ABI as its patch releases")
    elif version.value < STABLE_SINCE:
        advice = f"write {'.'.join(map(str, STABLE_SINCE))} or later, or take `stable-abi` away"
        findings.add(Code.BAD_VALUE, f"torch {text} has no stable ABI", version.span, advice=advice)


def _has_source(files: Texts) -> bool:
    return any(not text.value.endswith(HEADERS) for text in files)


def _check_sources(kernel: Kernel, findings: Findings) -> None:
    """Collect MISSING_KEY for a section in which there is nothing to compile."""
    span = findings.value(("kernel", kernel.name.value, "src"))
    if not _has_source(kernel.src) and findings.is_right(span):
        message = f"`src` in {kernel.title} has no source, so there is nothing to compile"
        advice = "list one; headers belong in the section whose sources include them"
        findings.add(Code.MISSING_KEY, message, span, advice=advice)


def _check_name(kernel: Kernel, findings: Findings) -> None:
    name = kernel.name.value
    if name in _TARGETS or is_identifier(name):
        message = f"a kernel section cannot be named `{name}`"
        label = "a target of the generated BUILD.bazel has this name"
        findings.add(Code.BAD_NAME, message, kernel.name.span, label=label)


def _check_archs(capabilities: Texts, matrix: Matrix, findings: Findings) -> bool:
    """Whether every capability is one that some nvcc knows; those that are not are collected."""
    known = matrix.capabilities
    good = True
    for capability in capabilities:
        arch = capability.value.removesuffix("+PTX")
        if arch not in known:
            good = False
            message = f"no nvcc compiles for the capability `{arch}`"
            plain = base(arch)
            label = f"`{plain}` has no variant with `{arch[-1]}`" if plain in known else ""
            if not label and (near := [one for one in known if one.split(".")[0] == plain.split(".")[0]]):
                label = f"there are {', '.join(near)}"
            findings.add(Code.UNKNOWN_ARCH, message, capability.span, label=label)
    return good


def _check_amd_archs(archs: Texts, matrix: Matrix, findings: Findings) -> bool:
    """Whether every AMD architecture is one that some clang knows; those that are not are collected."""
    good = True
    for arch in archs:
        plain = plain_amd(arch.value)
        if plain not in matrix.amd_archs:
            good = False
            near = did_you_mean(plain, matrix.amd_archs)
            findings.add(Code.UNKNOWN_ARCH, f"no clang compiles for the architecture `{plain}`", arch.span, label=near)
        elif problem := _feature_problem(arch.value, [one.value for one in archs], matrix):
            good = False
            message = f"`{arch.value}` is no architecture with features that can be compiled for"
            findings.add(Code.UNKNOWN_ARCH, message, arch.span, label=problem)
    return good


def _feature_problem(arch: str, archs: Iterable[str], matrix: Matrix) -> str:
    """What is wrong with the features of an AMD architecture, or nothing."""
    plain, *features = arch.split(":")
    names = [feature[:-1] for feature in features]
    if not re.fullmatch(_FEATURES, arch.removeprefix(plain)):
        return "only `:sramecc` and `:xnack`, in this order, each with `+` or `-`, may follow"
    if lacks := [name for name in names if plain not in matrix.amd_features[name]]:
        return f"{plain} has no `{lacks[0]}`"
    for other in archs:
        if plain_amd(other) == plain and [one[:-1] for one in other.split(":")[1:]] != names:
            return f"it stands beside `{other}`: name the same features of one architecture, or none"
    return ""


def _check_some_arch_is_left(manifest: Manifest, kernel: Kernel, releases: _Releases, findings: Findings) -> None:
    """Collect EMPTY_ARCHS for each release that a section for GPUs has nothing for."""
    chosen: dict[str, Archs] = {}
    if kernel.backend.value == "cuda":
        for cuda in releases.cuda:
            version = numbers(cuda.version)
            if manifest.cuda.admit(version) and Bounds(minver=kernel.cuda_minver).admit(version):
                chosen[f"CUDA {cuda.version}"] = choose(kernel.requested, cuda)
    elif kernel.backend.value == "rocm":
        chosen = {f"ROCm {rocm.version}": choose_amd(kernel.requested, rocm) for rocm in releases.rocm}
    for toolkit, archs in chosen.items():
        if not archs.kept:
            span = kernel.architectures.span if kernel.architectures else kernel.span
            reasons = "; ".join(f"{one.arch}: {one.reason}" for one in archs.dropped)
            message = f"{kernel.title} has no GPU architecture that {toolkit} compiles for"
            findings.add(Code.EMPTY_ARCHS, message, span, advice=reasons)


def _check_depends(kernel: Kernel, findings: Findings) -> None:
    for depend in kernel.depends:
        name, *version = depend.value.split("_")
        if name == "cutlass" and kernel.backend.value == "rocm":
            message, advice = "CUTLASS is for CUDA alone", "take it out of `depends`"
        elif depend.value == TORCH or depend.value in locked():
            continue
        elif name == "cutlass":
            message = f"CUTLASS {'.'.join(version)} is not locked: it is known, but there is no digest of its archive"
            advice = f"locked are {', '.join(locked())}; a matrix of your own can lock it, see docs/toolchains.md"
        else:
            message = f"the dependency `{depend.value}` is not supported"
            advice = "headers of your own can be listed in `src`"
        findings.add(Code.UNSUPPORTED, message, depend.span, advice=advice)


def _note_backends(manifest: Manifest, findings: Findings) -> None:
    """Note what is read and not built, and where `backends` and the sections disagree."""
    asked = [backend.value for backend in manifest.backends]
    for backend in manifest.backends:
        if backend.value not in (*BUILT, UNIVERSAL):
            findings.note(f"the backend `{backend.value}` is not built yet and is left out", backend.span)
        elif manifest.framework.table == TORCH and not manifest.sections(backend.value):
            message = (
                f"no [kernel.*] section is for `{backend.value}`: torch-{backend.value} will have Python files only"
            )
            findings.note(message, backend.span)
    for kernel in _outside(manifest.kernels, asked):
        message = f"{kernel.title} is left out: `backends` in [general] does not list `{kernel.backend.value}`"
        findings.note(message, kernel.span)
    if manifest.framework.noarch:
        for kernel in manifest.kernels:
            if kernel.backend.value in asked:
                findings.note(f"{kernel.title} is left out: the project has Python files only", kernel.span)


def _outside(kernels: Iterable[Kernel], backends: list[str]) -> list[Kernel]:
    return [kernel for kernel in kernels if kernel.backend.value not in backends]
