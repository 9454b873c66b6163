"""The manifest: a build.toml in one form for all editions, each value with its position."""

from __future__ import annotations

import re
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from py_driver.manifest.targets import section_target
from py_driver.matrix.backends import BUILT, UNIVERSAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from py_driver.errors import Span

T_co = TypeVar("T_co", covariant=True)

CURRENT = 5
"""The edition that `driver upgrade` writes: the newest that a released `kernels` reads (0.17.2, November 2026)."""

NEWEST = 6
"""The newest edition that is read: that of upstream's sources since autumn 2026 (kernels-common/src/config/v6.rs)."""

TORCH = "torch"
"""The dependency that lets sources include torch's headers, and the usual framework table."""

NOARCH = "torch-noarch"
"""The framework table of projects of Python files."""

TVM_FFI = "tvm-ffi"
"""The framework table of projects that are bound with tvm-ffi."""

CPP = "cpp"
"""The language of the kernel sections that are built: C++, with CUDA or HIP."""

DEPENDS = (
    TORCH,
    *(f"cutlass_{version}" for version in ("2_10", "3_5", "3_6", "3_8", "3_9", "4_0", "4_4", "4_5")),
    "sycl_tla",
    "metal-cpp",
)
"""The dependencies of kernel sections, after upstream's kernels-data/src/config/deps.rs of August 2026."""

Version = tuple[int, ...]
"""A version as written: `"2.10"` is (2, 10). A bound does not restrict components that it does not have."""

STABLE_SINCE = (2, 9)
"""The first torch release with headers for a stable ABI (torch/csrc/stable)."""


class Located(NamedTuple, Generic[T_co]):
    """A value and its position in build.toml."""

    value: T_co
    span: Span


Text = Located[str]
Texts = tuple[Text, ...]


def values(texts: Texts) -> tuple[str, ...]:
    """The values of texts, without their positions."""
    return tuple(text.value for text in texts)


class Bounds(NamedTuple):
    """The versions that a project admits, inclusive; None for an open end."""

    minver: Located[Version] | None = None
    maxver: Located[Version] | None = None

    def admit(self, version: Version) -> bool:
        """Whether a version is within. Only the components that both have are compared: 2.12 admits 2.12.1."""
        low = self.minver.value if self.minver else ()
        high = self.maxver.value if self.maxver else ()
        return version[: len(low)] >= low[: len(version)] and version[: len(high)] <= high[: len(version)]


class KernelDepend(NamedTuple):
    """A kernel that the project loads at run time.

    Attributes:
        repo_id: its repository on the Hub.
        version: its major version, or None with `revision`.
        revision: its git revision, or None with `version`.
    """

    repo_id: str
    version: int | None
    revision: str | None


class Depends(NamedTuple):
    """The run-time dependencies of a project, for all backends or for one."""

    python: tuple[str, ...] = ()
    kernels: tuple[KernelDepend, ...] = ()


class Hub(NamedTuple):
    """Where a project is published.

    Attributes:
        repo_id: the repository on the Hub, or None.
        branch: the branch instead of `v<version>`, or None.
    """

    repo_id: str | None = None
    branch: str | None = None


class Framework(NamedTuple):
    """The framework table.

    Attributes:
        span: its header.
        table: TORCH, NOARCH or TVM_FFI. A universal project has NOARCH.
        src: the sources and headers of the binding.
        include: the include directories of the binding.
        pyext: extensions, without a dot, of the files that belong to the Python package; None for the default.
        cxx_flags: flags for the C++ sources of the binding.
        bounds: the admitted torch versions.
        stable_abi: the torch version whose stable ABI it is built against, by backend.
        capabilities: for a noarch project: the CUDA capabilities of its metadata; never compiled for.
        rocm_archs: for a noarch project: the AMD architectures of its metadata.
    """

    span: Span
    table: str = TORCH
    src: Texts = ()
    include: Texts = ()
    pyext: Located[Texts] | None = None
    cxx_flags: Texts = ()
    bounds: Bounds = Bounds()
    stable_abi: Mapping[str, Located[Version]] = MappingProxyType({})
    capabilities: Located[Texts] | None = None
    rocm_archs: Located[Texts] | None = None

    @property
    def extensions(self) -> tuple[str, ...]:
        """The extensions, without a dot, of the files that belong to the Python package."""
        return ("py", "pyi") if self.pyext is None else values(self.pyext.value)

    def archs(self, backend: str) -> Texts:
        """For a noarch project: the GPU architectures that it names for a backend."""
        found = {"cuda": self.capabilities, "rocm": self.rocm_archs}.get(backend)
        return found.value if found else ()

    @property
    def noarch(self) -> bool:
        """Whether nothing is compiled."""
        return self.table == NOARCH


@cache
def _section_title(name: str) -> str:
    """The header of a kernel section."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f"[kernel.{name}]" if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f'[kernel."{escaped}"]'


class Kernel(NamedTuple):
    """A `[kernel.<name>]` section.

    Attributes:
        name: its label.
        span: its header.
        backend: one of KERNEL_BACKENDS, with its position.
        gencode: the GPU architectures that `-gencode` in `cuda-flags` adds to `capabilities`, in the same spelling.
        language: its language: `cpp`, or `rust`, which is read and not built.
        depends: the libraries that its sources include.
        src: sources and headers.
        include: include directories.
        cxx_flags: flags for C++ sources.
        cuda_flags: flags for nvcc.
        hip_flags: flags for the HIP compiler.
        sycl_flags: flags for the SYCL compiler.
        capabilities: the requested CUDA capabilities, e.g. `8.0`, `9.0a`, `12.0+PTX`; None for the default list.
        rocm_archs: the requested AMD architectures; None for the default list.
        cuda_minver: the CUDA version below which the section is excluded.
    """

    name: Text
    span: Span
    backend: Text
    depends: Texts
    src: Texts
    include: Texts = ()
    cxx_flags: Texts = ()
    cuda_flags: Texts = ()
    hip_flags: Texts = ()
    sycl_flags: Texts = ()
    capabilities: Located[Texts] | None = None
    rocm_archs: Located[Texts] | None = None
    cuda_minver: Located[Version] | None = None
    gencode: Texts = ()
    language: str = CPP

    @property
    def title(self) -> str:
        """The section as its header names it."""
        return _section_title(self.name.value)

    @property
    def target(self) -> str:
        """Its Bazel target."""
        return section_target(self.name.value)

    @property
    def requested(self) -> tuple[str, ...] | None:
        """The requested GPU architectures, without their positions; None for the default list."""
        archs = self.architectures
        return values(archs.value) if archs else None

    @property
    def architectures(self) -> Located[Texts] | None:
        """The requested CUDA capabilities or AMD architectures; None for the default list."""
        return self.capabilities or self.rocm_archs

    @property
    def bounds(self) -> Bounds:
        """The versions of its backend's toolkit that it admits."""
        return Bounds(minver=self.cuda_minver)


class Manifest(NamedTuple):
    """A build.toml.

    Attributes:
        file: its path for messages.
        edition: 0 to NEWEST.
        name: the project's name.
        framework: the framework table.
        python_root: the directory of the Python package, relative to the project.
        version: the major version of the kernel's interface; 1 if absent, as in upstream's migration.
        license: the Hub's identifier of the licence; `unknown`, which is a valid identifier, if absent, since
            metadata.json requires the key.
        upstream: the git URL of the kernel's origin.
        source: the git URL of this project.
        backends: the requested backends: a part of BACKENDS, or UNIVERSAL alone.
        kernels: the kernel sections, in the order of the file; also those that are not built.
        depends: run-time dependencies by backend; those of every backend under "".
        cuda: the admitted CUDA versions.
        hub: the repository on the Hub.
    """

    file: str
    edition: int
    name: Text
    framework: Framework
    python_root: str
    version: int = 1
    license: str = "unknown"
    upstream: str | None = None
    source: str | None = None
    backends: Texts = ()
    kernels: tuple[Kernel, ...] = ()
    depends: Mapping[str, Depends] = MappingProxyType({})
    cuda: Bounds = Bounds()
    hub: Hub = Hub()

    @property
    def built(self) -> tuple[str, ...]:
        """The backends that are built, in the order of the file."""
        return tuple(backend.value for backend in self.backends if backend.value in (*BUILT, UNIVERSAL))

    @property
    def module(self) -> str:
        """The name of the Python package: the project's name with `_` for `-`."""
        return self.name.value.replace("-", "_")

    def bounds(self, backend: str) -> Bounds:
        """The admitted versions of a backend's toolkit."""
        return self.cuda if backend == "cuda" else Bounds()

    def sections(self, backend: str) -> tuple[Kernel, ...]:
        """The kernel sections of a backend."""
        return tuple(kernel for kernel in self.kernels if kernel.backend.value == backend)
