"""The parts of a build.toml that the readers of all editions share: framework tables, kernel sections, dependencies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.errors import Code
from py_driver.manifest.flags import read_cuda_flags, read_cxx_flags, read_hip_flags
from py_driver.manifest.gencode import take_gencode
from py_driver.manifest.model import NOARCH, TORCH, TVM_FFI, Bounds, Depends, Framework, Kernel, KernelDepend, Located
from py_driver.manifest.names import check_section_name
from py_driver.manifest.paths import without_dots
from py_driver.manifest.tables import table
from py_driver.matrix.backends import BACKENDS, BUILT, LANGUAGES
from py_driver.spelling import did_you_mean

if TYPE_CHECKING:
    from py_driver.manifest.model import Text, Texts
    from py_driver.manifest.section import Section

PYTHON_PACKAGES = {
    "": ("einops", "helion", "tvm-ffi"),
    "cuda": ("nvidia-cutlass-dsl",),
    "neuron": ("nki",),
    "tpu": (),
    "xpu": ("onednn",),
}
"""The Python packages that the `kernels` client admits as dependencies, by backend; "" for all backends.

Source: kernels-data/src/python_dependencies.json of upstream, August 2026.
"""


_INCLUDE = "include"
_LANGUAGE = 6
"""The first edition whose kernel sections have `language` instead of `backend`."""


def read_bounds(table: Section, low: str = "minver", high: str = "maxver") -> Bounds:
    """The versions that two keys of a table admit."""
    bounds = Bounds(minver=table.version(low), maxver=table.version(high))
    if bounds.minver and bounds.maxver and bounds.minver.value > bounds.maxver.value:
        span = bounds.maxver.span
        if not bounds.admit(bounds.minver.value):
            table.findings.add(Code.BAD_VALUE, f"`{high}` in {table.title} is below `{low}`", span)
    return bounds


def _paths(table: Section, name: str) -> Texts:
    """A list of paths in their shortest form."""
    texts = table.texts(name) or ()
    return tuple(text._replace(value=without_dots(text.value, directory=name == _INCLUDE)) for text in texts)


def read_framework(table: Section, kind: str) -> Framework:
    """An existing framework table.

    Args:
        table: the table.
        kind: TORCH, NOARCH or TVM_FFI.
    """
    pyext = table.texts("pyext")
    framework = Framework(
        span=table.span,
        table=kind,
        src=_paths(table, "src"),
        include=_paths(table, _INCLUDE),
        pyext=None if pyext is None else Located(value=pyext, span=table.value_span("pyext")),
        cxx_flags=table.texts("cxx-flags") or (),
        bounds=read_bounds(table) if kind == TORCH else Bounds(),
        stable_abi=table.versions("stable-abi", BACKENDS) if kind == TORCH else {},
        capabilities=_either(table, "cuda-capabilities", "cuda_capabilities") if kind == NOARCH else None,
        rocm_archs=_either(table, "rocm-archs", "rocm_archs") if kind == NOARCH else None,
    )
    table.finish()
    return framework._replace(cxx_flags=read_cxx_flags(table.findings, framework.cxx_flags))


def _either(table: Section, name: str, other: str) -> Located[Texts] | None:
    """A list whose key has two spellings."""
    if table.has(name) and table.has(other):
        message = f"`{name}` and `{other}` in {table.title} are the same key"
        table.findings.add(Code.BAD_VALUE, message, table.key_span(other), advice="remove one of them")
    return read_archs(table, other if table.has(other) else name)


def read_archs(table: Section, name: str) -> Located[Texts] | None:
    """A list of unique GPU architectures, in the order of the file; None if the key is absent."""
    found = table.texts(name)
    if found is None:
        return None
    if table.findings.value((*table.path, name, 0)) == table.value_span(name):
        advice = f"remove `{name}` to get the default list"
        table.findings.add(Code.BAD_VALUE, f"{table.where(name)} is empty", table.value_span(name), advice=advice)
    unique = {arch.value: arch for arch in reversed(found)}
    return Located(value=tuple(unique[value] for value in reversed(unique)), span=table.value_span(name))


def read_kernel(
    section: Section, backend: Text, capabilities: str = "cuda-capabilities", *, built: bool = True
) -> Kernel:
    """A kernel section; the caller calls `finish`.

    Args:
        section: the section.
        backend: its backend, with the position.
        capabilities: the key of its CUDA capabilities.
        built: whether the project is built for the backend; the flags of other sections are not checked.
    """
    name = str(section.path[-1])
    key = section.findings.key(section.path)
    check_section_name(section.findings, name, key)
    own = {key.name for key in table("kernel.*").keys if backend.value in key.backends}
    kernel = Kernel(
        name=Located(value=name, span=key),
        span=section.span,
        backend=backend,
        depends=section.texts("depends") or (),
        src=_paths(section, "src"),
        include=_paths(section, _INCLUDE),
        cxx_flags=section.texts("cxx-flags") or (),
        cuda_flags=(section.texts("cuda-flags") or ()) if "cuda-flags" in own else (),
        hip_flags=(section.texts("hip-flags") or ()) if "hip-flags" in own else (),
        sycl_flags=(section.texts("sycl-flags") or ()) if "sycl-flags" in own else (),
        capabilities=read_archs(section, capabilities) if "cuda-capabilities" in own else None,
        rocm_archs=read_archs(section, "rocm-archs") if "rocm-archs" in own else None,
        cuda_minver=section.version("cuda-minver") if "cuda-minver" in own else None,
    )
    if backend.value not in BUILT or not built:
        return kernel
    gencode, cuda_flags = take_gencode(section.findings, kernel.cuda_flags)
    return kernel._replace(
        gencode=gencode,
        cxx_flags=read_cxx_flags(section.findings, kernel.cxx_flags),
        cuda_flags=read_cuda_flags(section.findings, cuda_flags),
        hip_flags=read_hip_flags(section.findings, kernel.hip_flags),
    )


def read_tagged_kernels(root: Section, backends: Texts | None = None) -> tuple[Kernel, ...]:
    """The kernel sections of editions 2 and later, which name their backend, since edition 6 through their language.

    Args:
        root: the file.
        backends: the backends of the project; None if its sections determine them.
    """
    kernels = []
    for section in root.named_sections("kernel", "kernel.*"):
        tag = section.text("language" if section.edition >= _LANGUAGE else "backend")
        if tag:
            backend = tag._replace(value=LANGUAGES.get(tag.value, tag.value))
            built = backends is None or any(listed.value == backend.value for listed in backends)
            kernel = read_kernel(section, backend, built=built)
            kernels.append(kernel._replace(language=tag.value.partition("-")[0]) if tag.value in LANGUAGES else kernel)
            section.text("cargo-manifest")
            section.finish(backend.value)
        else:
            check_section_name(section.findings, str(section.path[-1]), section.findings.key(section.path))
            section.finish()
    return tuple(kernels)


def read_depends(table: Section, backend: str) -> Depends:
    """`python-depends` and `kernel-depends` of [general], for backend "", or of a backend's table."""
    python = table.texts("python-depends") or ()
    check_python_depends(table, python, PYTHON_PACKAGES[backend])
    kernels = tuple(_kernel_depend(section) for section in table.sections("kernel-depends"))
    return Depends(python=tuple(depend.value for depend in python), kernels=kernels)


def check_python_depends(table: Section, python: Texts, admitted: tuple[str, ...]) -> None:
    """Collect an error for each Python package that the client does not admit here."""
    for depend in python:
        if depend.value not in admitted:
            elsewhere = next((name for name, known in PYTHON_PACKAGES.items() if name and depend.value in known), "")
            belongs = f"belongs in [general.{elsewhere}]" if elsewhere and table.edition > 2 else ""  # noqa: PLR2004  (an edition)
            label = did_you_mean(depend.value, admitted) or belongs
            message = f"the `kernels` client does not allow a kernel to depend on `{depend.value}`"
            advice = f"known here: {', '.join(admitted) or 'none'}"
            table.findings.add(Code.BAD_VALUE, message, depend.span, label=label, advice=advice)


def _kernel_depend(table: Section) -> KernelDepend:
    repo = table.text("repo-id")
    version, revision = table.integer("version"), table.text("revision")
    if table.has("version") == table.has("revision"):
        message = "a kernel dependency has either `version` or `revision`"
        table.findings.add(Code.BAD_VALUE, message, table.span)
    table.finish()
    return KernelDepend(
        repo_id=repo.value if repo else "", version=version, revision=revision.value if revision else None
    )


def frameworks(root: Section) -> list[str]:
    """The framework tables of a file, in order."""
    return [name for name in root.names() if name in {TORCH, NOARCH, TVM_FFI}]
