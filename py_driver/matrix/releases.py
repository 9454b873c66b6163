"""toolchains/matrix.toml: the releases that are built for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import tomli

from py_driver.matrix.cells import Cell
from py_driver.matrix.installation import module_root, user_matrix
from py_driver.matrix.user_matrix import extended

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Torch(NamedTuple):
    """A torch release.

    Attributes:
        version: major and minor, e.g. `2.13`.
        cxx_standard: the C++ standard that its headers need, e.g. 20.
        release: the release that is locked, e.g. `2.13.0`.
        abis: the C++ ABIs it exists with.
        backends: what it exists for: `cpu`, `cu130`, ...
        named: backends that it exists for too, but with which it is never built by default.
        bundled: whether it is built by default; if not, it is built when named.
    """

    version: str
    cxx_standard: int
    release: str
    abis: tuple[str, ...]
    backends: tuple[str, ...]
    named: tuple[str, ...]
    bundled: bool


class Cuda(NamedTuple):
    """A CUDA release.

    Attributes:
        version: major and minor, e.g. `13.0`.
        archs: the GPU architectures that its nvcc compiles for, ascending, e.g. `8.0`.
        default_capabilities: what a kernel section without `cuda-capabilities` asks for.
        host: the version of zig whose clang its nvcc calls.
        run_here: whether this project compiled with it; if not, it is declared only.
    """

    version: str
    archs: tuple[str, ...]
    default_capabilities: tuple[str, ...]
    host: str
    run_here: bool

    @property
    def backend(self) -> str:
        """The backend of its cells: `cu130`."""
        return f"cu{self.version.replace('.', '')}"


class Rocm(NamedTuple):
    """A ROCm release.

    Attributes:
        version: major and minor, e.g. `7.2`.
        archs: the GPU architectures that its compiler and device libraries know, ascending, e.g. `gfx942`.
        default_archs: what a kernel section without `rocm-archs` asks for.
        host: the version of zig whose clang compiles.
        run_here: whether this project compiled with it; if not, it is declared only.
    """

    version: str
    archs: tuple[str, ...]
    default_archs: tuple[str, ...]
    host: str
    run_here: bool

    @property
    def backend(self) -> str:
        """The backend of its cells: `rocm72`."""
        return f"rocm{self.version.replace('.', '')}"


class Matrix(NamedTuple):
    """The releases that are built for, and the one platform.

    Attributes:
        torch: the torch releases, in the order of the file.
        cuda: the CUDA releases, in the order of the file.
        rocm: the ROCm releases, in the order of the file.
        clangs: the major version of the clang in each zig, by the version of zig.
        capabilities: every CUDA capability that some nvcc knows or has known: `8.0`, `9.0a`, `10.0f`.
        amd_archs: every AMD architecture that some clang knows or has known: `gfx942`.
        amd_features: which of them have a feature that can be switched on or off, by its name: `sramecc`, `xnack`.
        cpu: the processor architecture.
        os: the operating system.
    """

    torch: tuple[Torch, ...]
    cuda: tuple[Cuda, ...]
    rocm: tuple[Rocm, ...]
    clangs: Mapping[str, int]
    capabilities: tuple[str, ...]
    amd_archs: tuple[str, ...]
    amd_features: Mapping[str, tuple[str, ...]]
    cpu: str
    os: str

    def cuda_release(self, version: str) -> Cuda:
        """The CUDA release of a version; it must be in the matrix."""
        return next(cuda for cuda in self.cuda if cuda.version == version)

    def rocm_release(self, version: str) -> Rocm:
        """The ROCm release of a version; it must be in the matrix."""
        return next(rocm for rocm in self.rocm if rocm.version == version)

    def cells(self) -> Iterator[tuple[Cell, bool]]:
        """Every compiled cell with whether it is bundled: bundled ones first, then by torch, ABI and backend."""
        found = [
            (Cell(torch=torch.version, abi=abi, backend=backend, cpu=self.cpu, os=self.os), bundled)
            for torch in self.torch
            for abi in torch.abis
            for backends, bundled in ((torch.backends, torch.bundled), (torch.named, False))
            for backend in backends
        ]
        yield from sorted(found, key=lambda pair: not pair[1])


def read_table() -> dict[str, Any]:
    """The driver's own matrix.toml, in which a mistake is a plain Python error, with the user's releases in it.

    Raises:
        DriverError: SET_UP if the installation has none; what is wrong with the user's, see `extended`.
    """
    table = tomli.loads((module_root() / "toolchains" / "matrix.toml").read_text(encoding="utf-8"))
    own = user_matrix()
    return extended(table, own) if own else table


def read_matrix() -> Matrix:
    """The driver's own matrix, with the user's releases in it.

    Raises:
        DriverError: see `read_table`.
    """
    table = read_table()
    return Matrix(
        torch=tuple(
            Torch(
                version=one["version"],
                cxx_standard=one["cxx-standard"],
                release=one["release"],
                abis=tuple(one["abis"]),
                backends=tuple(one["backends"]),
                named=tuple(one.get("named", ())),
                bundled=one["bundled"],
            )
            for one in table["torch"]
        ),
        cuda=tuple(
            Cuda(
                version=one["version"],
                archs=tuple(one["archs"]),
                default_capabilities=tuple(one["default-capabilities"]),
                host=one["host"],
                run_here=one["run-here"],
            )
            for one in table["cuda"]
        ),
        rocm=tuple(
            Rocm(
                version=one["version"],
                archs=tuple(one["archs"]),
                default_archs=tuple(one["default-archs"]),
                host=one["host"],
                run_here=one["run-here"],
            )
            for one in table["rocm"]
        ),
        clangs=table["cc"]["zig"],
        capabilities=_capabilities(table["capabilities"]),
        amd_archs=tuple(table["amd-archs"]["all"]),
        amd_features={name: tuple(archs) for name, archs in table["amd-archs"]["features"].items()},
        cpu=table["platform"]["cpu"],
        os=table["platform"]["os"],
    )


def _capabilities(table: dict[str, list[str]]) -> tuple[str, ...]:
    return (
        *table["plain"],
        *(f"{arch}a" for arch in table["architecture-specific"]),
        *(f"{arch}f" for arch in table["family-specific"]),
    )
