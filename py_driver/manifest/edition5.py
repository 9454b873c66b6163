"""Reads edition 5 of build.toml, upstream's current one (kernels-data/src/config/v5.rs, August 2026)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from py_driver.errors import Code
from py_driver.manifest.flags import check_cuda_flags, check_cxx_flags
from py_driver.manifest.model import (
    BACKENDS,
    BUILT,
    Bounds,
    Depends,
    Framework,
    Kernel,
    KernelDepend,
    Located,
    Manifest,
)
from py_driver.manifest.names import check_section_name, project_name
from py_driver.manifest.sources import read_capabilities, read_depends, read_extensions
from py_driver.spelling import did_you_mean

if TYPE_CHECKING:
    from py_driver.manifest.section import Section

_GIT_URL = re.compile(r"(https?|git|ssh|git\+(ssh|https?))://\S+|[^@\s/:]+@[^:\s]+:\S+")
_FRAMEWORKS = ("torch", "torch-noarch", "tvm-ffi")
_PYTHON = {
    "": ("einops", "helion", "tvm-ffi"),
    "cuda": ("nvidia-cutlass-dsl",),
    "neuron": ("nki",),
    "tpu": (),
    "xpu": ("onednn",),
}
"""The Python packages that the `kernels` client lets a kernel need, by backend (its python_depends.json)."""

_COMMON_KEYS = ("backend", "depends", "src", "include", "cxx-flags")
_KERNEL_KEYS = {
    "cpu": _COMMON_KEYS,
    "cuda": (*_COMMON_KEYS, "cuda-capabilities", "cuda-flags", "cuda-minver"),
    "metal": _COMMON_KEYS,
    "rocm": (*_COMMON_KEYS, "rocm-archs", "hip-flags"),
    "xpu": (*_COMMON_KEYS, "sycl-flags"),
}


def read_edition5(root: Section, file: str) -> Manifest:
    """The manifest of an edition-5 file; errors are collected in the findings of `root`.

    Args:
        root: the whole file.
        file: its path as the user knows it.
    """
    general = root.section("general", required=True)
    if general is None:
        raise AssertionError("edition 5 is told by a key of [general]")
    name = project_name(general)
    version = general.integer("version", required=True)
    general.integer("edition", required=True)
    licence = general.text("license", required=True, expected='a string, e.g. "apache-2.0"')
    if licence and not licence.value.strip():
        general.findings.add(Code.BAD_VALUE, "`license` in [general] is empty", licence.span)
    backends = _backends(general)
    upstream, source = (_git_url(general, key) for key in ("upstream", "source"))
    depends = _depends(general, "")
    cuda, cuda_depends = _backend_tables(general)
    general.finish({"cuda-minver": "write it as `minver` in [general.cuda]"})
    framework = _framework(root)
    kernels = _kernels(root, backends)
    root.finish()
    return Manifest(
        file=file,
        edition=5,
        name=name,
        version=version or 0,
        license=licence.value if licence else "",
        upstream=upstream,
        source=source,
        backends=tuple(backend for backend in backends if backend in BUILT),
        framework=framework,
        kernels=kernels,
        depends=depends,
        cuda_depends=cuda_depends,
        cuda=cuda,
        notes=root.findings.notes(),
    )


def _backends(general: Section) -> tuple[str, ...]:
    """`backends`, all of them."""
    found: list[str] = []
    for backend in general.texts("backends", required=True, expected='a list such as ["cpu", "cuda"]') or ():
        if backend.value not in BACKENDS:
            label = did_you_mean(backend.value, BACKENDS) or f"one of {', '.join(BACKENDS)}"
            general.findings.add(Code.BAD_VALUE, f"unknown backend `{backend.value}`", backend.span, label=label)
        elif backend.value in found:
            general.findings.add(Code.BAD_VALUE, f"the backend `{backend.value}` is listed twice", backend.span)
        else:
            found.append(backend.value)
            if backend.value not in BUILT:
                general.findings.note(f"the backend `{backend.value}` is not built yet and is left out", backend.span)
    if not found and general.is_empty("backends"):
        general.findings.add(Code.BAD_VALUE, "`backends` in [general] is empty", general.value_span("backends"))
    return tuple(found)


def _git_url(general: Section, key: str) -> str | None:
    url = general.text(key, expected="a git URL")
    if url is None:
        return None
    if not _GIT_URL.fullmatch(url.value):
        advice = "schemes: https, http, git, ssh, git+ssh, git+https, git+http; or user@host:path"
        general.findings.add(Code.BAD_VALUE, f"`{key}` in [general] is not a git URL", url.span, advice=advice)
    return url.value


def _depends(table: Section, backend: str) -> Depends:
    """`python-depends` and `kernel-depends`; backend "" is [general] itself."""
    python = table.texts("python-depends") or ()
    admitted = _PYTHON[backend] if backend else _PYTHON[""]
    for depend in python:
        if depend.value not in admitted:
            elsewhere = next((name for name, known in _PYTHON.items() if name and depend.value in known), "")
            label = did_you_mean(depend.value, admitted) or (f"belongs in [general.{elsewhere}]" if elsewhere else "")
            message = f"the `kernels` client does not let a kernel need `{depend.value}`"
            advice = f"known here: {', '.join(admitted) or 'none'}"
            table.findings.add(Code.BAD_VALUE, message, depend.span, label=label, advice=advice)
    kernels = () if backend == "tpu" else tuple(_kernel_depend(one) for one in table.sections("kernel-depends"))
    return Depends(python=tuple(depend.value for depend in python), kernels=kernels)


def _kernel_depend(table: Section) -> KernelDepend:
    repo = table.text("repo-id", required=True, expected='a string, e.g. "owner/name"')
    version, revision = table.integer("version"), table.text("revision")
    if table.has("version") == table.has("revision"):
        message = "a kernel dependency has either `version` or `revision`"
        table.findings.add(Code.BAD_VALUE, message, table.span)
    table.finish()
    return KernelDepend(
        repo_id=repo.value if repo else "", version=version, revision=revision.value if revision else None
    )


def _backend_tables(general: Section) -> tuple[Bounds, Depends]:
    """[general.cuda], and the checks of the tables of other backends and of [general.hub]."""
    bounds, depends = Bounds(), Depends()
    if cuda := general.section("cuda"):
        bounds = _bounds(cuda)
        depends = _depends(cuda, "cuda")
        cuda.finish()
    for backend in ("neuron", "tpu", "xpu"):
        if table := general.section(backend):
            _depends(table, backend)
            table.finish()
    if hub := general.section("hub"):
        hub.text("repo-id")
        hub.text("branch")
        hub.finish()
    return bounds, depends


def _bounds(table: Section) -> Bounds:
    bounds = Bounds(minver=table.version("minver"), maxver=table.version("maxver"))
    if bounds.minver and bounds.maxver and bounds.minver.value > bounds.maxver.value:
        span = bounds.maxver.span
        if not bounds.admit(bounds.minver.value):
            table.findings.add(Code.BAD_VALUE, f"`maxver` in {table.title} is below `minver`", span)
    return bounds


def _framework(root: Section) -> Framework:
    """The one framework table."""
    present = [key for key in _FRAMEWORKS if root.has(key)]
    if not present:
        advice = "add [torch] for compiled kernels, [torch-noarch] for Python files only"
        root.findings.add(Code.MISSING_KEY, "there is no framework table", root.span, advice=advice)
    for key in present[1:]:
        message = f"[{present[0]}] and [{key}] are both there; a project has one framework table"
        root.findings.add(Code.BAD_VALUE, message, root.value_span(key))
    if "tvm-ffi" in present:
        message = "[tvm-ffi] is not supported yet"
        advice = "only [torch] and [torch-noarch] are"
        root.findings.add(Code.UNSUPPORTED, message, root.key_span("tvm-ffi"), advice=advice)
    if "torch-noarch" in present and (table := root.section("torch-noarch")):
        return _noarch(table)
    if "torch" in present and (table := root.section("torch")):
        return _torch(table)
    return Framework(span=root.span)


def _torch(torch: Section) -> Framework:
    if torch.has("stable-abi"):
        advice = "take it away to build one variant for each torch version"
        torch.findings.add(
            Code.UNSUPPORTED, "`stable-abi` is not supported yet", torch.key_span("stable-abi"), advice=advice
        )
    framework = Framework(
        span=torch.span,
        src=torch.texts("src") or (),
        include=torch.texts("include") or (),
        pyext=read_extensions(torch),
        cxx_flags=torch.texts("cxx-flags") or (),
        bounds=_bounds(torch),
    )
    check_cxx_flags(torch.findings, framework.cxx_flags)
    torch.finish({"universal": "is a key of the early form; write [torch-noarch]"})
    return framework


def _noarch(table: Section) -> Framework:
    capabilities = read_capabilities(table, "cuda_capabilities")
    table.texts("rocm_archs")
    framework = Framework(
        span=table.span,
        noarch=True,
        pyext=read_extensions(table),
        cuda_capabilities=capabilities.value if capabilities else None,
    )
    underscore = "did you mean `{}`? This table alone spells it with `_`"
    table.finish({key.replace("_", "-"): underscore.format(key) for key in ("cuda_capabilities", "rocm_archs")})
    return framework


def _kernels(root: Section, backends: tuple[str, ...]) -> tuple[Kernel, ...]:
    """The [kernel.*] sections that are built; the others are checked and left out with a note."""
    kernels = root.section("kernel")
    found = []
    for section in [] if kernels is None else [kernels.section(key) for key in kernels.names()]:
        if section and (kernel := _kernel(section)):
            if kernel.backend in backends:
                found.append(kernel)
            else:
                message = f"{section.title} is left out: `backends` in [general] does not list `{kernel.backend}`"
                section.findings.note(message, section.span)
    return tuple(found)


def _kernel(section: Section) -> Kernel | None:
    """A [kernel.*] section; None if its backend is not built."""
    findings = section.findings
    name = str(section.path[-1])
    key = findings.key(section.path)
    check_section_name(findings, name, key)
    backend = section.text("backend", required=True, expected=f"one of {', '.join(_KERNEL_KEYS)}")
    if backend is None:
        return None
    if backend.value not in _KERNEL_KEYS:
        label = did_you_mean(backend.value, _KERNEL_KEYS) or f"one of {', '.join(_KERNEL_KEYS)}"
        findings.add(Code.BAD_VALUE, f"{section.title} cannot be for `{backend.value}`", backend.span, label=label)
        return None
    built = backend.value in BUILT
    is_cuda = backend.value == "cuda"
    kernel = Kernel(
        name=Located(value=name, span=key),
        span=section.span,
        backend=backend.value,
        torch=read_depends(section, built=built),
        src=section.texts("src", required=True) or (),
        include=section.texts("include") or (),
        cxx_flags=section.texts("cxx-flags") or (),
        cuda_flags=(section.texts("cuda-flags") or ()) if is_cuda else (),
        capabilities=read_capabilities(section, "cuda-capabilities") if is_cuda else None,
        cuda_minver=section.version("cuda-minver") if is_cuda else None,
    )
    for other in ("rocm-archs", "hip-flags", "sycl-flags"):
        if other in _KERNEL_KEYS[backend.value]:
            section.texts(other)
    if built:
        check_cxx_flags(findings, kernel.cxx_flags)
        check_cuda_flags(findings, kernel.cuda_flags)
    else:
        findings.note(f"{section.title} is left out: the backend `{backend.value}` is not built yet", section.span)
    every = {known for keys in _KERNEL_KEYS.values() for known in keys}
    section.finish(dict.fromkeys(every, f"not a key of a section for `{backend.value}`"))
    return kernel if built else None
