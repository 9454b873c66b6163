"""toolchains/matrix.toml: the releases that are built for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tomli

from py_driver.layout import module_root
from py_driver.variants.names import Cell

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, kw_only=True, slots=True)
class Torch:
    """A torch release.

    Attributes:
        version: major and minor, e.g. `2.13`.
        cxx_standard: the C++ standard that its headers need, e.g. 20.
        abis: the C++ ABIs it exists with.
        backends: what it exists for: `cpu`, `cu130`, ...
        bundled: whether it is built by default; if not, it is built when named.
    """

    version: str
    cxx_standard: int
    abis: tuple[str, ...]
    backends: tuple[str, ...]
    bundled: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Cuda:
    """A CUDA release.

    Attributes:
        version: major and minor, e.g. `13.0`.
        archs: the GPU architectures that its nvcc compiles for, ascending, e.g. `8.0`.
        default_capabilities: what a kernel section without `cuda-capabilities` asks for.
    """

    version: str
    archs: tuple[str, ...]
    default_capabilities: tuple[str, ...]

    @property
    def backend(self) -> str:
        """The backend of its cells: `cu130`."""
        return f"cu{self.version.replace('.', '')}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Matrix:
    """The releases that are built for, and the one platform.

    Attributes:
        torch: the torch releases, in the order of the file.
        cuda: the CUDA releases, in the order of the file.
        capabilities: every CUDA capability that some nvcc knows or has known: `8.0`, `9.0a`, `10.0f`.
        cpu: the processor architecture.
        os: the operating system.
    """

    torch: tuple[Torch, ...]
    cuda: tuple[Cuda, ...]
    capabilities: tuple[str, ...]
    cpu: str
    os: str

    def cuda_release(self, version: str) -> Cuda:
        """The CUDA release of a version; it must be in the matrix."""
        return next(cuda for cuda in self.cuda if cuda.version == version)

    def cells(self) -> Iterator[tuple[Cell, bool]]:
        """Every compiled cell with whether it is bundled: bundled ones first, then by torch, ABI and backend."""
        for torch in sorted(self.torch, key=lambda release: not release.bundled):
            for abi in torch.abis:
                for backend in torch.backends:
                    cell = Cell(torch=torch.version, abi=abi, backend=backend, cpu=self.cpu, os=self.os)
                    yield cell, torch.bundled


def parse_matrix(text: str) -> Matrix:
    """Read the text of a matrix.toml; it is part of the driver, so a mistake in it is a plain Python error."""
    table: dict[str, Any] = tomli.loads(text)
    return Matrix(
        torch=tuple(
            Torch(
                version=one["version"],
                cxx_standard=one["cxx-standard"],
                abis=tuple(one["abis"]),
                backends=tuple(one["backends"]),
                bundled=one["bundled"],
            )
            for one in table["torch"]
        ),
        cuda=tuple(
            Cuda(
                version=one["version"],
                archs=tuple(one["archs"]),
                default_capabilities=tuple(one["default-capabilities"]),
            )
            for one in table["cuda"]
        ),
        capabilities=_capabilities(table["capabilities"]),
        cpu=table["platform"]["cpu"],
        os=table["platform"]["os"],
    )


def _capabilities(table: dict[str, list[str]]) -> tuple[str, ...]:
    return (
        *table["plain"],
        *(f"{arch}a" for arch in table["architecture-specific"]),
        *(f"{arch}f" for arch in table["family-specific"]),
    )


def read_matrix() -> Matrix:
    """The driver's own matrix.

    Raises:
        DriverError: SET_UP if the installation has none.
    """
    return parse_matrix((module_root() / "toolchains" / "matrix.toml").read_text(encoding="utf-8"))
