"""CUDA: its names, its capabilities, and their choice for a section: upstream's loose intersection, with reasons.

The rule comes from vLLM and is kernel-builder's `cuda_archs_loose_intersection` (templates/utils.cmake). For each arch
of the toolkit, ascending, it chooses the highest requested arch that is not above it and has the same major version; an
arch with `+PTX` may serve a higher major version. `X.Ya` and `X.Yf` are kept if the toolkit has `X.Y`, and replace it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from py_driver.matrix.backends.backend import Backend, zigs
from py_driver.matrix.facts import facts
from py_driver.matrix.toolkits import Archs, Dropped, Known

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from py_driver.matrix.toolkits import Toolkit

CAPABILITY = r"[1-9][0-9]?\.[0-9][af]?(\+PTX)?"
"""The pattern of a CUDA capability: `8.0`, `9.0a`, `10.0f`, `12.0+PTX`."""

_PTX = "+PTX"


class Cuda(Backend):
    """NVIDIA's GPUs."""

    family: ClassVar[str] = "cuda"
    compiler: ClassVar[str] = "nvcc"
    digits: ClassVar[str] = r"([1-9]\d)(\d|[1-9]\d)"  # each major version since 10 has two digits, so `cu1310` is 13.10
    example: ClassVar[str] = "13.0"
    arch: ClassVar[str] = CAPABILITY
    defaults: ClassVar[str] = "default-capabilities"
    release_keys: ClassVar[Mapping[str, type]] = MappingProxyType(
        {"default-capabilities": list, "max-clang": int, "compress": str, "compress-option": str}
    )
    locked_keys: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "archs": "archs",
            "compress": "compress",
            "compress-option": "compress_option",
            "run-here": "split",
            "host": "host",
            "max-clang": "max_clang",
            "runtime": "runtime",
        }
    )
    recorded: ClassVar[tuple[str, ...] | None] = ("libtorch_cuda_linalg.so",)
    in_phases: ClassVar[bool] = True
    splits_paths: ClassVar[bool] = True
    arch_list_macro: ClassVar[str] = "__CUDA_ARCH_LIST__"

    def known(self, table: Mapping[str, Any]) -> Known:
        """See Backend."""
        lists = table["capabilities"]
        specific = (f"{arch}a" for arch in lists["architecture-specific"])
        families = {family: tuple(members) for family, members in lists["families"].items()}
        archs = (*lists["plain"], *specific, *(f"{arch}f" for arch in lists["family-specific"]))
        return Known(archs=archs, families=families)

    def capability(self, arch: str) -> str:
        """See Backend."""
        return base(arch)

    def label(self, arch: str) -> str:
        """See Backend."""
        return f"sm_{arch.removesuffix(_PTX).replace('.', '')}"

    def arch_of_directory(self, name: str) -> str:
        """See Backend: `sm_90a` for `90a`."""
        return f"sm_{name}"

    def order(self, arch: str) -> tuple[int, int, str]:
        """As numbers: `8.0` before `10.0`."""
        return _order(arch)

    def choose(self, requested: Sequence[str] | None, toolkit: Toolkit) -> Archs:
        """See Backend; the loose intersection.

        The loose intersection may keep an arch that nvcc has dropped, e.g. 7.0 where the toolkit starts at 7.5; it is
        dropped here, since nvcc would reject it.
        """
        return _choose(toolkit.default_archs if requested is None else tuple(requested), toolkit)

    def serving(self, kept: Sequence[str], archs: Sequence[str]) -> tuple[str, ...]:
        """See Backend; the loose intersection, with the GPUs instead of a toolkit's architectures."""
        ours, theirs = ([arch for arch in listed if re.fullmatch(CAPABILITY, arch)] for listed in (kept, archs))
        found = loose_intersection(ours, sorted({base(their) for their in theirs}, key=_order)).kept
        return tuple(sorted({*found, *(our for our in ours if _is_family_of(our, theirs))}, key=_order))

    def arch_problem(self, arch: str, asked: Sequence[str], known: Known) -> tuple[str, str] | None:
        """See Backend; the remark names similar capabilities."""
        del asked
        capability = arch.removesuffix(_PTX)
        if capability in known.archs:
            return None
        plain = base(arch)
        remark = f"`{plain}` has no variant with `{capability[-1]}`" if plain in known.archs else ""
        if not remark and (near := [arch for arch in known.archs if arch.split(".")[0] == plain.split(".")[0]]):
            remark = f"there are {', '.join(near)}"
        return f"no nvcc compiles for the capability `{capability}`", remark

    def release_problems(self, row: Mapping[str, Any], clangs: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        """See Backend."""
        for key, form in (("archs", r"[1-9][0-9]?\.[0-9]"), (self.defaults, CAPABILITY)):
            if wrong := [value for value in row[key] if not re.fullmatch(form, value)]:
                yield f"`{key}`: `{wrong[0]}` is no architecture", ""
        clang = clangs.get(row["host"])
        if clang is None or clang > row["max-clang"]:
            yield f"`host` must be a zig whose clang is at most {row['max-clang']}", zigs(clangs)
        option, choice = row.get("compress-option"), row.get("compress")
        known = facts("compression")["FATBINARY"]
        if option is not None and option not in known:
            yield f"`compress-option` is one of {', '.join(known)}", ""
        elif choice is not None and choice not in known.get(option, ()):
            of_option = ", ".join(known.get(option, ())) or "`compress-option` first"
            yield f"`compress`: fatbinary has no choice `{choice}`", f"name {of_option}"


def _is_family_of(arch: str, archs: Sequence[str]) -> bool:
    """Whether code for a family, e.g. `10.0f`, runs on one of the GPUs: the same major version, and not older."""
    major, minor, _ = _order(arch)
    places = map(_order, archs)
    return arch.endswith("f") and any(numbers[0] == major and numbers[1] >= minor for numbers in places)


def base(arch: str) -> str:
    """An arch without `+PTX` and without its `a` or `f`: `9.0` for `9.0a+PTX`."""
    return arch.removesuffix(_PTX).rstrip("af")


@lru_cache
def _order(arch: str) -> tuple[int, int, str]:
    major, minor = base(arch).split(".")
    return int(major), int(minor), arch


def loose_intersection(requested: Sequence[str], toolkit: Sequence[str]) -> Archs:
    """Upstream's loose intersection.

    Args:
        requested: a section's architectures, e.g. `8.0`, `9.0a`, `12.0+PTX`.
        toolkit: plain archs, e.g. `8.0`.
    """
    ptx = {arch.removesuffix(_PTX) for arch in requested if arch.endswith(_PTX)}
    wanted = list(dict.fromkeys(arch.removesuffix(_PTX) for arch in requested))
    specific = [arch for arch in wanted if arch[-1] in "af" and base(arch) in toolkit]
    taken = {base(arch): arch for arch in specific}
    plain = sorted((arch for arch in wanted if arch[-1] not in "af"), key=_order)
    kept = set(specific)
    for target in toolkit:
        if target in taken:
            continue
        at_most = [arch for arch in plain if _order(arch)[:2] <= _order(target)[:2]]
        serving = [arch for arch in at_most if arch in ptx or arch.split(".")[0] == target.split(".")[0]]
        kept.update(serving[-1:])
    dropped = [
        Dropped(arch=_with_ptx(arch, ptx), reason=_reason(arch, taken, toolkit)) for arch in wanted if arch not in kept
    ]
    archs = tuple(_with_ptx(arch, ptx) for arch in sorted(kept, key=_order))
    return Archs(requested=tuple(requested), kept=archs, dropped=tuple(dropped))


def _with_ptx(arch: str, ptx: set[str]) -> str:
    return arch + _PTX if arch in ptx else arch


def _reason(arch: str, taken: dict[str, str], toolkit: Sequence[str]) -> str:
    if arch in taken:
        return f"replaced by {taken[arch]}"
    if base(arch) not in toolkit:
        return f"the toolkit does not compile for {base(arch)}"
    return "another requested architecture is closer"


@lru_cache(maxsize=1024)
def _choose(requested: tuple[str, ...], toolkit: Toolkit) -> Archs:
    """See `Cuda.choose`; cached, since many sections have the same architectures."""
    loose = loose_intersection(requested, toolkit.archs)
    gone = tuple(
        Dropped(arch=arch, reason=f"nvcc {toolkit.version} does not compile for {base(arch)}")
        for arch in loose.kept
        if base(arch) not in toolkit.archs
    )
    lost = {dropped.arch for dropped in gone}
    kept = tuple(arch for arch in loose.kept if arch not in lost)
    return Archs(requested=loose.requested, kept=kept, dropped=loose.dropped + gone)
