"""A variant of the matrix and its identifier, e.g. `torch213-cxx11-cu130-x86_64-linux`: the model and its spelling."""

from __future__ import annotations

import re
from typing import NamedTuple

from py_driver.errors import Code, error
from py_driver.matrix.backends import BACKENDS, BUILT, UNIVERSAL, backend_of

# Compiled at the first use, which `driver check` does not need.
_BACKEND = "|".join(family.spelling for family in BUILT.values())
_TORCH = (
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
"""The CPUs of variants and of build machines."""

USUAL_CPU = CPUS[0]
"""The default CPU of variants."""

ALL = "all_variants"
"""The name of the target that bundles every default variant."""


class Configuration(NamedTuple):
    """One variant of the matrix.

    A noarch variant, with only Python files, has a backend and nothing else.

    Attributes:
        backend: `cpu`, `cu130`, `rocm72`, ...; in a noarch variant `cpu`, `cuda`, ... or `universal`.
        torch: the torch release as `2.13`, or None; in a stable variant the first release that it fits.
        stable: whether the variant is for torch's stable ABI, and so for all later releases as well.
        abi: the C++ ABI, `cxx11` or `cxx98`, or None; a stable variant has none.
        cpu: the processor architecture, or None.
        os: the operating system, or None.
        tvm_ffi: the release of tvm-ffi as `0.1`, for variants that are bound with it instead of torch; else None.
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
        """Whether the variant has only Python files."""
        return self.torch is None and self.tvm_ffi is None

    @property
    def family(self) -> str:
        """The backend without its version: `cuda` for `cu130`."""
        known = backend_of(self.backend)
        return known.family if known else self.backend


def spell(configuration: Configuration) -> str:
    """The identifier of a variant, as the `kernels` client reads it."""
    if configuration.tvm_ffi:
        number = configuration.tvm_ffi.replace(".", "")
        return f"tvm-ffi{number}-{configuration.backend}-{configuration.cpu}-{configuration.os}"
    if configuration.torch is None:
        return f"torch-{configuration.backend}"
    number = configuration.torch.replace(".", "")
    framework = f"torch-stable-abi{number}" if configuration.stable else f"torch{number}-{configuration.abi}"
    return f"{framework}-{configuration.backend}-{configuration.cpu}-{configuration.os}"


def is_identifier(text: str) -> bool:
    """Whether a text is the identifier of a variant."""
    return any(re.fullmatch(pattern, text) for pattern in (_TORCH, _STABLE, _TVM_FFI, _NOARCH))


def parse(identifier: str) -> Configuration:
    """The variant that an identifier spells.

    Raises:
        DriverError: NO_SUCH_VARIANT if it is not the identifier of a variant.
    """
    if found := re.fullmatch(_NOARCH, identifier):
        return Configuration(backend=found["backend"])
    if found := re.fullmatch(_TORCH, identifier) or re.fullmatch(_STABLE, identifier):
        parts = found.groupdict()
        torch = f"{parts.pop('major')}.{parts.pop('minor')}"
        return Configuration(torch=torch, stable="abi" not in parts, **parts)
    if found := re.fullmatch(_TVM_FFI, identifier):
        version = f"{found['major']}.{found['minor']}"
        return Configuration(tvm_ffi=version, backend=found["backend"], cpu=found["cpu"], os=found["os"])
    raise error(
        Code.NO_SUCH_VARIANT,
        f"`{identifier}` is not the identifier of a variant",
        help="identifiers look like torch213-cxx11-cu130-x86_64-linux or torch-cpu",
    )
