"""Which GPU architectures a section gets of those that it asks for: upstream's loose intersection, with reasons.

The rule comes from vLLM and is kernel-builder's `cuda_archs_loose_intersection` (templates/utils.cmake). For each
arch of the toolkit, ascending, it takes the highest requested arch that is not above it and has the same major
version; one with `+PTX` may serve a higher major. `X.Ya` and `X.Yf` are kept if the toolkit has `X.Y`, and take its
place.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from py_driver.matrix.releases import Cuda, Rocm

_PTX = "+PTX"
_AMD = "gfx"


class Dropped(NamedTuple):
    """An arch that was asked for and is not built, and why."""

    arch: str
    reason: str


class Archs(NamedTuple):
    """What became of the archs that were asked for.

    Attributes:
        requested: what was asked for, in that order.
        kept: what is compiled, ascending.
        dropped: the rest, in the order asked for.
    """

    requested: tuple[str, ...]
    kept: tuple[str, ...]
    dropped: tuple[Dropped, ...] = ()


def base(arch: str) -> str:
    """An arch without `+PTX` and without its `a` or `f`: `9.0` for `9.0a+PTX`."""
    return arch.removesuffix(_PTX).rstrip("af")


def plain_amd(arch: str) -> str:
    """An AMD arch without the features that are switched on or off: `gfx942` for `gfx942:xnack-`."""
    return arch.partition(":")[0]


@lru_cache
def order(arch: str) -> tuple[int, int, str]:
    """The key that sorts archs as numbers: `8.0` before `10.0`, `gfx942` before `gfx1030`."""
    if arch.startswith(_AMD):
        return len(plain_amd(arch)), 0, arch
    major, minor = base(arch).split(".")
    return int(major), int(minor), arch


def loose_intersection(requested: Sequence[str], toolkit: Sequence[str]) -> Archs:
    """Upstream's loose intersection.

    Args:
        requested: what a section asks for, e.g. `8.0`, `9.0a`, `12.0+PTX`.
        toolkit: plain archs, e.g. `8.0`.
    """
    ptx = {arch.removesuffix(_PTX) for arch in requested if arch.endswith(_PTX)}
    wanted = list(dict.fromkeys(arch.removesuffix(_PTX) for arch in requested))
    specific = [arch for arch in wanted if arch[-1] in "af" and base(arch) in toolkit]
    taken = {base(arch): arch for arch in specific}
    plain = sorted((arch for arch in wanted if arch[-1] not in "af"), key=order)
    kept = set(specific)
    for target in toolkit:
        if target in taken:
            continue
        at_most = [arch for arch in plain if order(arch)[:2] <= order(target)[:2]]
        serving = [arch for arch in at_most if arch in ptx or arch.split(".")[0] == target.split(".")[0]]
        kept.update(serving[-1:])
    dropped = [
        Dropped(arch=_with_ptx(arch, ptx), reason=_reason(arch, taken, toolkit)) for arch in wanted if arch not in kept
    ]
    archs = tuple(_with_ptx(arch, ptx) for arch in sorted(kept, key=order))
    return Archs(requested=tuple(requested), kept=archs, dropped=tuple(dropped))


def _with_ptx(arch: str, ptx: set[str]) -> str:
    return arch + _PTX if arch in ptx else arch


def _reason(arch: str, taken: dict[str, str], toolkit: Sequence[str]) -> str:
    if arch in taken:
        return f"{taken[arch]} takes its place"
    if base(arch) not in toolkit:
        return f"the toolkit does not compile for {base(arch)}"
    return "another requested arch is nearer"


def choose_amd(requested: Sequence[str] | None, rocm: Rocm) -> Archs:
    """What a section is compiled for with a ROCm release: what both name, as upstream has it.

    Args:
        requested: what the section asks for; None for the release's default list.
        rocm: the release.
    """
    asked = rocm.default_archs if requested is None else tuple(requested)
    kept = tuple(sorted({arch for arch in asked if plain_amd(arch) in rocm.archs}, key=order))
    dropped = tuple(
        Dropped(arch=arch, reason=f"ROCm {rocm.version} does not compile for {plain_amd(arch)}")
        for arch in asked
        if arch not in kept
    )
    return Archs(requested=asked, kept=kept, dropped=dropped)


def choose(requested: Sequence[str] | None, cuda: Cuda) -> Archs:
    """What a section is compiled for with a CUDA release.

    The loose intersection may keep an arch that nvcc has dropped, e.g. 7.0 where the toolkit starts at 7.5;
    such a one is dropped here, since nvcc would refuse it.

    Args:
        requested: what the section asks for; None for the release's default list.
        cuda: the release.
    """
    return _choose(cuda.default_capabilities if requested is None else tuple(requested), cuda)


@lru_cache(maxsize=1024)
def _choose(requested: tuple[str, ...], cuda: Cuda) -> Archs:
    """See `choose`; many sections ask for the same."""
    loose = loose_intersection(requested, cuda.archs)
    gone = tuple(
        Dropped(arch=arch, reason=f"nvcc {cuda.version} does not compile for {base(arch)}")
        for arch in loose.kept
        if base(arch) not in cuda.archs
    )
    lost = {one.arch for one in gone}
    kept = tuple(arch for arch in loose.kept if arch not in lost)
    return Archs(requested=loose.requested, kept=kept, dropped=loose.dropped + gone)
