"""ROCm: its names, its architectures and their features."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from py_driver.matrix.backends.backend import Backend
from py_driver.matrix.toolkits import Known
from py_driver.spelling import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

GFX = r"gfx[0-9a-f]{3,4}(:[a-z]+[+-])*"
"""The pattern of an AMD architecture: `gfx942`, `gfx90a:xnack-`."""

_FEATURES = r"(:sramecc[+-])?(:xnack[+-])?"
"""The features that may follow an AMD architecture, in clang's order."""


class Rocm(Backend):
    """AMD's GPUs."""

    family: ClassVar[str] = "rocm"
    compiler: ClassVar[str] = "ROCm"
    digits: ClassVar[str] = r"([1-9])(\d|[1-9]\d)"  # each major version has one digit, so `rocm710` is 7.10
    example: ClassVar[str] = "7.2"
    arch: ClassVar[str] = GFX
    defaults: ClassVar[str] = "default-archs"
    release_keys: ClassVar[Mapping[str, type]] = MappingProxyType({"default-archs": list, "release": str})
    locked_keys: ClassVar[Mapping[str, str]] = MappingProxyType({key: key for key in ("archs", "host", "runtime")})
    identity_keys: ClassVar[tuple[str, ...]] = ("hip-flags", "rocm-archs")
    without: ClassVar[tuple[str, ...]] = ("cutlass",)
    shared: ClassVar[tuple[str, ...]] = ("hipify",)
    first_torch: ClassVar[tuple[int, ...] | None] = (2, 11)  # the first whose headers hipify derives from CUDA's alone

    def known(self, table: Mapping[str, Any]) -> Known:
        """See Backend."""
        lists = table["amd-archs"]
        return Known(
            archs=tuple(lists["all"]), features={name: tuple(feature) for name, feature in lists["features"].items()}
        )

    def plain(self, arch: str) -> str:
        """See Backend: without features: `gfx942` for `gfx942:xnack-` (kernels 0.17, archs.py)."""
        return arch.partition(":")[0]

    def arch_of_directory(self, name: str) -> str:
        """See Backend: `gfx942:xnack-` for `gfx942_xnackm`."""
        return re.sub(r"_(sramecc|xnack)([pm])", lambda match: f":{match[1]}{'+' if match[2] == 'p' else '-'}", name)

    def order(self, arch: str) -> tuple[int, int, str]:
        """See Backend: `gfx942` before `gfx1030`."""
        return len(self.plain(arch)), 0, arch

    def arch_problem(self, arch: str, asked: Sequence[str], known: Known) -> tuple[str, str] | None:
        """See Backend."""
        plain = self.plain(arch)
        if plain not in known.archs:
            return f"no clang compiles for the architecture `{plain}`", did_you_mean(plain, known.archs)
        remark = self._feature_problem(arch, asked, known)
        return (f"`{arch}` is not an architecture with valid features", remark) if remark else None

    def _feature_problem(self, arch: str, asked: Sequence[str], known: Known) -> str:
        """The error about the features of an architecture, or an empty text."""
        plain, *features = arch.split(":")
        names = [feature[:-1] for feature in features]
        if not re.fullmatch(_FEATURES, arch.removeprefix(plain)):
            return "only `:sramecc` and `:xnack`, in this order, each with `+` or `-`, may follow"
        if lacks := [name for name in names if plain not in known.features[name]]:
            return f"{plain} has no `{lacks[0]}`"
        for other in asked:
            if self.plain(other) == plain and [part[:-1] for part in other.split(":")[1:]] != names:
                return f"it conflicts with `{other}`: name the same features for an architecture everywhere, or none"
        return ""

    def release_problems(self, row: Mapping[str, Any], clangs: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        """See Backend."""
        for key in ("archs", self.defaults):
            if wrong := [value for value in row[key] if not re.fullmatch("gfx[0-9a-f]{3,4}", value)]:
                yield f"`{key}`: `{wrong[0]}` is no architecture", ""
        yield from super().release_problems(row, clangs)
