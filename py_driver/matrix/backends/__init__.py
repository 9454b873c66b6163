"""The backends: the known ones, and the built ones, each with its own module."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from py_driver.matrix.backends.cpu import Cpu
from py_driver.matrix.backends.cuda import Cuda
from py_driver.matrix.backends.rocm import Rocm
from py_driver.matrix.facts import facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from py_driver.matrix.backends.backend import Backend

UNIVERSAL = "universal"
"""The backend of Python-only projects that run on every backend (`universal = true`)."""

BUILT: Mapping[str, Backend] = {
    backend.family: backend(facts("backends")["BACKENDS"][backend.family]) for backend in (Cpu, Cuda, Rocm)
}
"""The backends that are built, by their names in build.toml."""

BACKENDS = tuple(sorted({*BUILT, "cann", "metal", "neuron", "tpu", "xpu"}))
"""The valid backends of build.toml; those that are not in BUILT are excluded with a note."""

KERNEL_BACKENDS = tuple(sorted({*BUILT, "metal", "xpu"}))
"""The backends that kernel sections can be for."""

LANGUAGES: Mapping[str, str] = {**{f"cpp-{backend}": backend for backend in KERNEL_BACKENDS}, "rust-cpu": "cpu"}
"""The values of `language` in kernel sections since edition 6, with the backend that each is for.

Source: `Kernel` in upstream's kernels-common/src/config/v6.rs, autumn 2026.
"""

TOOLKITS = tuple(family for family in BUILT.values() if family.prefix)
"""The backends that have toolkits, of which toolchains/matrix.toml names releases."""

ARCH = "|".join(family.arch for family in BUILT.values() if family.arch)
"""Regular expression of the GPU architectures of all backends."""


def owner_of(source: str) -> Backend | None:
    """The backend whose compiler a source needs, by its suffix; None for a C++ source."""
    return next((family for family in BUILT.values() if family.sources and source.endswith(family.sources)), None)


def meant_arch(word: str) -> str:
    """The capability that `90`, `sm_90` or `compute_90a` stands for, `9.0`; empty for other words."""
    found = re.fullmatch(r"(?:(?:sm|compute)_?)?([1-9][0-9]?)\.?([0-9])([af]?)", word)
    return f"{found[1]}.{found[2]}{found[3]}" if found else ""


def arch_order(arch: str) -> tuple[int, tuple[int, int, str]]:
    """The sort key of architectures, which `ARCH` matches: by backend, then ascending."""
    index = next(index for index, backend in enumerate(TOOLKITS) if re.fullmatch(backend.arch, arch))
    return index, TOOLKITS[index].order(arch)


@cache
def backend_of(name: str) -> Backend | None:
    """The backend that a name in an identifier means: CUDA's for `cu130`; None if it is not built."""
    return BUILT.get(name) or next((backend for backend in TOOLKITS if backend.version_of(name)), None)


def version_of(name: str) -> str | None:
    """The version of the toolkit that a name in an identifier means: `13.0` for `cu130`, None for `cpu`."""
    backend = backend_of(name)
    return backend.version_of(name) if backend else None
