"""The manifest: what a build.toml says, in one form for every edition, each value with its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from py_driver.errors import Span

T_co = TypeVar("T_co", covariant=True)

UNIVERSAL = "universal"
"""Stands for the backend of Python-only projects that run on every backend (`universal = true`)."""

BUILT = ("cpu", "cuda")
"""The backends that are built."""

BACKENDS = ("cann", "cpu", "cuda", "metal", "neuron", "rocm", "tpu", "xpu")
"""The backends that build.toml knows; those not in BUILT are read and left out with a note."""

Version = tuple[int, ...]
"""A version as written: `"2.10"` is (2, 10). A bound says nothing of the components that it does not have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Located(Generic[T_co]):
    """A value and where it stands in build.toml."""

    value: T_co
    span: Span


Text = Located[str]
Texts = tuple[Text, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """Something that the reader of build.toml should know and that is no error, e.g. a backend not built yet."""

    message: str
    span: Span


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """The versions that a project admits, both ends included; None where a side is open."""

    minver: Located[Version] | None = None
    maxver: Located[Version] | None = None

    def admit(self, version: Version) -> bool:
        """Whether a version lies within. Only the components that both have are compared: 2.12 admits 2.12.1."""
        low = self.minver.value if self.minver else ()
        high = self.maxver.value if self.maxver else ()
        return version[: len(low)] >= low[: len(version)] and version[: len(high)] <= high[: len(version)]


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelDepend:
    """Another kernel that the project loads at run time.

    Attributes:
        repo_id: its repository on the Hub.
        version: its major version, or None where `revision` is given.
        revision: its git revision, or None where `version` is given.
    """

    repo_id: str
    version: int | None
    revision: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Depends:
    """What a project needs at run time, for all backends or for one."""

    python: tuple[str, ...] = ()
    kernels: tuple[KernelDepend, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Framework:
    """The framework table: `[torch]` or `[torch-noarch]`.

    Attributes:
        span: its header.
        noarch: whether nothing is compiled at all.
        src: the sources and headers of the binding.
        include: directories that the binding includes from.
        pyext: extensions, without a dot, of the files that belong to the Python package.
        cxx_flags: flags for the C++ sources of the binding.
        bounds: the torch versions that are admitted.
        cuda_capabilities: for a noarch project: what its metadata should say; never compiled for.
    """

    span: Span
    noarch: bool = False
    src: Texts = ()
    include: Texts = ()
    pyext: tuple[str, ...] = ("py", "pyi")
    cxx_flags: Texts = ()
    bounds: Bounds = Bounds()
    cuda_capabilities: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """A `[kernel.<name>]` section of a backend that is built.

    Attributes:
        name: its label; also the name of the Bazel target.
        span: its header.
        backend: `cpu` or `cuda`.
        torch: whether its sources may include torch's headers (`depends = ["torch"]`).
        src: sources and headers.
        include: directories to include from.
        cxx_flags: flags for C++ sources.
        cuda_flags: flags for nvcc.
        capabilities: the GPU architectures asked for, e.g. `8.0`, `9.0a`, `12.0+PTX`; None for the default list.
        cuda_minver: the CUDA version below which the section is left out.
    """

    name: Text
    span: Span
    backend: str
    torch: bool
    src: Texts
    include: Texts = ()
    cxx_flags: Texts = ()
    cuda_flags: Texts = ()
    capabilities: Located[tuple[str, ...]] | None = None
    cuda_minver: Located[Version] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """A build.toml.

    Attributes:
        file: its path as the user knows it.
        edition: 1 for the early form, else 5.
        name: the project's name.
        version: major version of the kernel's interface; 1 in the early form, as upstream's migration has it.
        license: the Hub's identifier of the licence; `unknown`, which is one, in the early form: metadata.json must
            have the key and the early form has no place for it.
        upstream: where the kernel came from (git URL).
        source: where this project lives (git URL).
        backends: what to build for: a part of BUILT, or UNIVERSAL alone.
        framework: the framework table.
        kernels: the sections that are built, in the order of the file.
        depends: run-time dependencies of every backend.
        cuda_depends: further ones of the CUDA backend.
        cuda: the CUDA versions that are admitted.
        notes: what was read but is not built, in the order of the file.
    """

    file: str
    edition: int
    name: Text
    version: int = 1
    license: str = "unknown"
    upstream: str | None = None
    source: str | None = None
    backends: tuple[str, ...] = ()
    framework: Framework
    kernels: tuple[Kernel, ...] = ()
    depends: Depends = Depends()
    cuda_depends: Depends = Depends()
    cuda: Bounds = Bounds()
    notes: tuple[Note, ...] = ()

    @property
    def module(self) -> str:
        """The name of the Python package: the project's name with `_` for `-`."""
        return self.name.value.replace("-", "_")

    def sections(self, backend: str) -> tuple[Kernel, ...]:
        """The kernel sections of a backend."""
        return tuple(kernel for kernel in self.kernels if kernel.backend == backend)
