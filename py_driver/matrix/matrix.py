"""The releases that are built for: toolchains/matrix.toml as a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.matrix.backends import BUILT, TOOLKITS
from py_driver.matrix.configurations import Configuration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from py_driver.matrix.toolkits import Known, Toolkit


_CPU = "cpu"

TVM_FFI_PART = "tvm_ffi"
"""The part of the lock with the release of tvm-ffi, and the dependency of groups that use its headers."""

CPYTHON_PART = "cpython"
"""The part of the lock with Pythons for modules that pybind11 binds, and the dependency of groups that use them."""

TRITON_PART = "triton"
"""The part of the lock with releases of Triton."""

MACHINES_PART = "machines"
"""The part of the lock with programs for machines whose CPU is not the default one."""


class Torch(NamedTuple):
    """A torch release.

    Attributes:
        version: major and minor, e.g. `2.13`.
        cxx_standard: the C++ standard that its headers need, e.g. 20.
        release: the locked release, e.g. `2.13.0`.
        abis: the C++ ABIs of its builds.
        backends: the backends of its builds: `cpu`, `cu130`, ...
        on_request: further backends, which are never built by default.
        default: whether it is built by default; if not, it is built on request.
        cross: the backends of its builds for CPUs other than the matrix's, by CPU.
        pythons: the Pythons of its wheels: `3.13`, `3.13t` for a free-threaded one; empty if unknown.
    """

    version: str
    cxx_standard: int
    release: str
    abis: tuple[str, ...]
    backends: tuple[str, ...]
    on_request: tuple[str, ...]
    default: bool
    cross: Mapping[str, tuple[str, ...]]
    pythons: tuple[str, ...] = ()


class TvmFfi(NamedTuple):
    """The release of tvm-ffi.

    Attributes:
        version: major and minor, e.g. `0.1`.
        backends: the backends that are built by default: `cpu`, `cu130`, ...
        on_request: the backends that are built on request.
    """

    version: str
    backends: tuple[str, ...]
    on_request: tuple[str, ...]


class Triton(NamedTuple):
    """A release of Triton.

    Attributes:
        version: major and minor, e.g. `3.9`.
        capabilities: the default capabilities of CUDA for an aot.toml.
    """

    version: str
    capabilities: tuple[str, ...]


class Matrix(NamedTuple):
    """The releases that are built for, and the CPUs.

    Attributes:
        torch: the torch releases, in the order of the file.
        toolkits: the releases of CUDA, then those of ROCm, in the order of the file.
        known: the GPU architectures that compilers know, by backend: `cuda`, `rocm`.
        libraries: the libraries of a user's matrix, each with the oldest supported CUDA, or an empty text.
        cpu: the CPU of the build machine.
        cpus: the CPUs of default variants.
        os: the operating system.
        tvm_ffi: the release of tvm-ffi.
        cpython: the locked Pythons, ascending: `3.11`.
        triton: the releases of Triton, ascending.
    """

    torch: tuple[Torch, ...]
    toolkits: tuple[Toolkit, ...]
    known: Mapping[str, Known]
    libraries: Mapping[str, str]
    cpu: str
    cpus: tuple[str, ...]
    os: str
    tvm_ffi: TvmFfi
    cpython: tuple[str, ...] = ()
    triton: tuple[Triton, ...] = ()

    def pythons_of(self, torch: str) -> tuple[str, ...]:
        """The Pythons of a torch release's wheels; empty if unknown.

        Args:
            torch: the release, as `2.13`.
        """
        return next((release.pythons for release in self.torch if release.version == torch), ())

    def toolkits_of(self, family: str) -> tuple[Toolkit, ...]:
        """The toolkits of a backend: `cuda`, `rocm`."""
        return tuple(toolkit for toolkit in self.toolkits if toolkit.family == family)

    def toolkit(self, backend: str) -> Toolkit | None:
        """The toolkit of a variant's backend, such as `cu130`, which must be in the matrix; None for the CPU."""
        return None if backend in BUILT else next(toolkit for toolkit in self.toolkits if toolkit.backend == backend)

    def configurations(self) -> Iterator[tuple[Configuration, bool]]:
        """Every variant that is compiled against torch, with whether it is a default one; default ones first."""
        is_default = self.cpu in self.cpus
        found = [
            (
                Configuration(torch=torch.version, abi=abi, backend=backend, cpu=self.cpu, os=self.os),
                default and is_default,
            )
            for torch in self.torch
            for abi in torch.abis
            for backends, default in ((torch.backends, torch.default), (torch.on_request, False))
            for backend in backends
        ]
        for torch in self.torch:
            for cpu, backends in torch.cross.items():
                for abi in torch.abis:
                    for backend in backends:
                        configuration = Configuration(
                            torch=torch.version, abi=abi, backend=backend, cpu=cpu, os=self.os
                        )
                        found.append((configuration, torch.default and backend in torch.backends and cpu in self.cpus))
        yield from sorted(found, key=lambda pair: not pair[1])

    def tvm_ffi_configurations(self) -> Iterator[tuple[Configuration, bool]]:
        """Every variant that is compiled against tvm-ffi, with whether it is a default one; default ones first."""
        release = self.tvm_ffi
        for backends, default in ((release.backends, True), (release.on_request, False)):
            for backend in backends:
                configuration = Configuration(backend=backend, cpu=self.cpu, os=self.os, tvm_ffi=release.version)
                yield configuration, default and self.cpu in self.cpus


def make_matrix(table: Mapping[str, Any]) -> Matrix:
    """The matrix of a table.

    Args:
        table: the content of toolchains/matrix.toml; an error in it raises a plain Python exception.
    """
    compiled: dict[str, list[str]] = {}
    for backend in TOOLKITS:
        for release in table[backend.family]:
            for cpu in release.get("cross", ()):
                compiled.setdefault(cpu, []).append(backend.name_of(release["version"]))
    return Matrix(
        torch=tuple(
            Torch(
                version=release["version"],
                cxx_standard=release["cxx-standard"],
                release=release["release"],
                abis=tuple(release["abis"]),
                backends=tuple(release["backends"]),
                on_request=tuple(release.get("on-request", ())),
                default=release["default"],
                cross={
                    cpu: tuple(name for name in backends if name == _CPU or name in compiled.get(cpu, ()))
                    for cpu, backends in release.get("cross", {}).items()
                },
                pythons=tuple(release.get("pythons", ())),
            )
            for release in table["torch"]
        ),
        toolkits=tuple(backend.toolkit(release) for backend in TOOLKITS for release in table[backend.family]),
        known={backend.family: backend.known(table) for backend in BUILT.values()},
        libraries={library["name"]: library.get("minimum-cuda", "") for library in table.get("library", ())},
        cpu=table["platform"]["cpu"],
        cpus=tuple(table["platform"].get("cpus", [table["platform"]["cpu"]])),
        os=table["platform"]["os"],
        tvm_ffi=TvmFfi(
            version=table["tvm-ffi"]["version"],
            backends=tuple(table["tvm-ffi"]["backends"]),
            on_request=tuple(table["tvm-ffi"]["on-request"]),
        ),
        cpython=tuple(release["version"] for release in table["cpython"]),
        triton=tuple(
            Triton(
                version=release["version"],
                capabilities=tuple(release["capabilities"]),
            )
            for release in table["triton"]
        ),
    )
