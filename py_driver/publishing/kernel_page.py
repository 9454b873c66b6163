"""The page of a kernel: all known facts for its users, in one self-contained file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver import __version__
from py_driver.errors import Code, error
from py_driver.matrix.backends import BUILT, arch_order, backend_of
from py_driver.matrix.configurations import CPUS
from py_driver.publishing.described import State
from py_driver.publishing.markdown import pieces
from py_driver.publishing.release import BUILDER
from py_driver.reporting.html import check_place, draw
from py_driver.resources import resource
from py_driver.system.files import is_file, reading, write

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from py_driver.matrix.configurations import Configuration
    from py_driver.publishing.described import Described, DescribedVariant

_OURS: Final = '<meta name="generator" content="rules_torch_kernels '
"""The text that identifies a page as written by the driver."""

_HEAD: Final = 1000
_UNITS: Final = ("bytes", "kB", "MB", "GB")
_THOUSAND: Final = 1000


class Line(NamedTuple):
    """A row of the matrix.

    Attributes:
        title: the torch of its variants.
        fields: the variants of each column: at most one for each CPU.
    """

    title: str
    fields: tuple[tuple[DescribedVariant, ...], ...]


class Matrix(NamedTuple):
    """The variants, by torch and backend.

    Attributes:
        columns: the backends.
        lines: the rows, the newest torch first.
        cpus: the CPUs of the variants.
    """

    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    cpus: tuple[str, ...]


class DeviceCode(NamedTuple):
    """The GPU architectures of a backend.

    Attributes:
        backend: its name.
        archs: all architectures of its variants, each with whether a built variant has it.
    """

    backend: str
    archs: tuple[tuple[str, bool], ...]


def check_page(page: Path) -> None:
    """Create the parent directory of a page; refuse a path that cannot hold a page, or holds another file.

    Raises:
        DriverError: FOREIGN_FILE or PERMISSION.
    """
    check_place(page)
    if is_file(page):
        with reading(page), page.open("rb") as file:
            head = file.read(_HEAD)
        if _OURS.encode() not in head:
            message = f"{page} exists, and `driver card` did not write it"
            raise error(Code.FOREIGN_FILE, message, help="move it away, or choose another name for the page")


def write_page(page: Path, kernel: Described) -> None:
    """Write the page of a kernel.

    Args:
        page: its path.
        kernel: the description of the kernel.

    Raises:
        DriverError: see `check_page` and `system.files.write`.
    """
    check_page(page)
    write(page, as_html(kernel).encode())


def as_html(kernel: Described) -> str:
    """The page of a kernel.

    Args:
        kernel: the description of the kernel.
    """
    manifest = kernel.facts.manifest
    return draw(
        resource("kernel.html.j2"),
        kernel=kernel,
        facts=kernel.facts,
        manifest=manifest,
        matrix=matrix_of(kernel.variants),
        pieces=pieces,
        codes=codes_of(kernel.variants),
        links=[
            (title, url)
            for title, url in (("source", manifest.source), ("upstream", manifest.upstream))
            if url is not None
        ],
        kernels=[
            f"{needed.repo_id} {needed.version if needed.version is not None else needed.revision}"
            for depends in manifest.depends.values()
            for needed in depends.kernels
        ],
        largest=max((variant.size for variant in kernel.variants), default=0),
        total=sum(variant.size for variant in kernel.variants),
        amount=amount,
        State=State,
        builder=BUILDER,
        version=__version__,
    )


def amount(size: int) -> str:
    """A number of bytes for people: `56.0 kB`."""
    value, unit = float(size), 0
    while value >= _THOUSAND and unit + 1 < len(_UNITS):
        value, unit = value / _THOUSAND, unit + 1
    return f"{value:.{1 if unit else 0}f} {_UNITS[unit]}"


def matrix_of(variants: Iterable[DescribedVariant]) -> Matrix:
    """The variants of a project, by torch and backend.

    Args:
        variants: all of them.
    """
    placed = [(configuration, variant) for variant in variants if (configuration := variant.row.configuration)]
    columns = sorted({configuration.backend for configuration, _ in placed}, key=_by_backend)
    titles = dict.fromkeys(
        _title(configuration)
        for configuration in sorted((configuration for configuration, _ in placed), key=_by_torch, reverse=True)
    )
    lines = []
    for title in titles:
        fields = (
            tuple(
                variant
                for configuration, variant in placed
                if (_title(configuration), configuration.backend) == (title, column)
            )
            for column in columns
        )
        lines.append(Line(title=title, fields=tuple(fields)))
    cpus = tuple(cpu for cpu in CPUS if any(configuration.cpu == cpu for configuration, _ in placed))
    return Matrix(columns=tuple(columns), lines=tuple(lines), cpus=cpus)


def codes_of(variants: Iterable[DescribedVariant]) -> list[DeviceCode]:
    """The GPU architectures of each backend of a project.

    Args:
        variants: all of them.
    """
    found: dict[str, dict[str, bool]] = {}
    for variant in variants:
        if variant.row.configuration and variant.row.archs:
            archs = found.setdefault(variant.row.configuration.backend, {})
            for arch in variant.row.archs:
                archs[arch] = archs.get(arch, False) or variant.built is not None
    return [
        DeviceCode(
            backend=backend,
            archs=tuple((arch, found[backend][arch]) for arch in sorted(found[backend], key=arch_order)),
        )
        for backend in sorted(found, key=_by_backend)
    ]


def _title(configuration: Configuration) -> str:
    """The name of the row of a variant: its torch."""
    if configuration.tvm_ffi:
        return f"tvm-ffi {configuration.tvm_ffi}"
    if configuration.torch is None:
        return "any torch"
    if configuration.stable:
        return f"{configuration.torch} and later (stable ABI)"
    return configuration.torch if configuration.abi == "cxx11" else f"{configuration.torch} ({configuration.abi})"


def _by_torch(configuration: Configuration) -> tuple[bool, list[int], bool]:
    """The sort key of rows: variants that fit many releases last, and so first in the matrix."""
    release = [int(part) for part in (configuration.torch or configuration.tvm_ffi or "0").split(".")]
    return configuration.stable or configuration.is_noarch, release, configuration.abi == "cxx11"


def _by_backend(backend: str) -> tuple[int, list[int]]:
    """The sort key of columns: the backends in their usual order, the newest version first."""
    known = backend_of(backend)
    families = list(BUILT)
    if known is None:
        return len(families), []
    version = known.version_of(backend) or "0"
    return families.index(known.family), [-int(part) for part in version.split(".")]
