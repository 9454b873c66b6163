"""A cell of the matrix and its identifier, e.g. `torch213-cxx11-cu130-x86_64-linux`: the model and its spelling."""

from __future__ import annotations

import re
from typing import NamedTuple

from py_driver.errors import Code, error
from py_driver.matrix.backends import BACKENDS, BUILT, UNIVERSAL, backend_of

# Compiled when they are first used, which `driver check` never does.
_BACKEND = "|".join(one.spelling for one in BUILT.values())
_CELL = (
    rf"torch(?P<major>[1-9])(?P<minor>0|[1-9]\d*)-(?P<abi>cxx11|cxx98)-(?P<backend>{_BACKEND})"
    r"-(?P<cpu>x86_64|aarch64)-(?P<os>linux)"
)
_STABLE = (
    rf"torch-stable-abi(?P<major>[1-9])(?P<minor>0|[1-9]\d*)-(?P<backend>{_BACKEND})"
    r"-(?P<cpu>x86_64|aarch64)-(?P<os>linux)"
)
_TVM_FFI = rf"tvm-ffi(?P<major>\d)(?P<minor>0|[1-9]\d*)-(?P<backend>{_BACKEND})-(?P<cpu>x86_64|aarch64)-(?P<os>linux)"
_NOARCH = rf"torch-(?P<backend>{'|'.join((*BACKENDS, UNIVERSAL))})"


CPUS = ("x86_64", "aarch64")
"""The CPUs that variants may be for, and that machines may have which build."""

USUAL_CPU = CPUS[0]
"""The CPU of variants where nobody names one."""

ALL = "all_variants"
"""The name of the target that bundles every default cell."""


class Cell(NamedTuple):
    """One cell of the matrix.

    A noarch cell, which has Python files only, has a backend and nothing else.

    Attributes:
        backend: `cpu`, `cu130`, `rocm72`, ...; in a noarch cell `cpu`, `cuda`, ... or `universal`.
        torch: the torch release as `2.13`, or None; in a stable cell the first one that it fits.
        stable: whether the cell is for torch's stable ABI, and so for all later releases as well.
        abi: the C++ ABI, `cxx11` or `cxx98`, or None; a stable cell has none.
        cpu: the processor architecture, or None.
        os: the operating system, or None.
        tvm_ffi: the release of tvm-ffi as `0.1`, for what is bound with that and not with torch; else None.
    """

    backend: str
    torch: str | None = None
    stable: bool = False
    abi: str | None = None
    cpu: str | None = None
    os: str | None = None
    tvm_ffi: str | None = None

    @property
    def is_noarch(self) -> bool:
        """Whether the cell has Python files only."""
        return self.torch is None and self.tvm_ffi is None

    @property
    def family(self) -> str:
        """The backend without its version: `cuda` for `cu130`."""
        known = backend_of(self.backend)
        return known.family if known else self.backend


def spell(cell: Cell) -> str:
    """The identifier of a cell, as the `kernels` client reads it."""
    if cell.tvm_ffi:
        return f"tvm-ffi{cell.tvm_ffi.replace('.', '')}-{cell.backend}-{cell.cpu}-{cell.os}"
    if cell.torch is None:
        return f"torch-{cell.backend}"
    number = cell.torch.replace(".", "")
    framework = f"torch-stable-abi{number}" if cell.stable else f"torch{number}-{cell.abi}"
    return f"{framework}-{cell.backend}-{cell.cpu}-{cell.os}"


def is_identifier(text: str) -> bool:
    """Whether a text is the identifier of some cell."""
    return any(re.fullmatch(pattern, text) for pattern in (_CELL, _STABLE, _TVM_FFI, _NOARCH))


def parse(identifier: str) -> Cell:
    """The cell that an identifier spells.

    Raises:
        DriverError: NO_SUCH_VARIANT if it spells none.
    """
    if found := re.fullmatch(_NOARCH, identifier):
        return Cell(backend=found["backend"])
    if found := re.fullmatch(_CELL, identifier) or re.fullmatch(_STABLE, identifier):
        parts = found.groupdict()
        torch = f"{parts.pop('major')}.{parts.pop('minor')}"
        return Cell(torch=torch, stable="abi" not in parts, **parts)
    if found := re.fullmatch(_TVM_FFI, identifier):
        version = f"{found['major']}.{found['minor']}"
        return Cell(tvm_ffi=version, backend=found["backend"], cpu=found["cpu"], os=found["os"])
    raise error(
        Code.NO_SUCH_VARIANT,
        f"`{identifier}` is not the identifier of a variant",
        help="identifiers look like torch213-cxx11-cu130-x86_64-linux or torch-cpu",
    )
