"""Publication of slices: each capability has its own branch, and an index lists them beside the variants.

The index is `slices.json`; `rules_torch_kernels.get_kernel` reads it. It identifies a slice's variant by the SHA-256 of
the metadata.json: if the variant is published again without slices, the old slices are not used.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py_driver.building.variant_dir import directory_of
from py_driver.errors import Code, error
from py_driver.matrix.backends import ARCH, arch_order
from py_driver.plan.metadata import METADATA
from py_driver.plan.slices import slice_names, slices_of
from py_driver.publishing.release import read_to_ship
from py_driver.system.files import is_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from py_driver.matrix.lock import Lock
    from py_driver.plan.plan import Plan, Variant
    from py_driver.publishing.release import BuiltVariant

INDEX: Final = "slices.json"
"""The index, in the branch of the variants."""

_SCHEMA: Final = 1


class Sliced(NamedTuple):
    """The slices for a capability that are to be shipped.

    Attributes:
        name: the capability: `sm90`.
        variants: as planned.
        built: the built slices, in the same order.
    """

    name: str
    variants: tuple[Variant, ...]
    built: tuple[BuiltVariant, ...]

    @property
    def pairs(self) -> list[tuple[Variant, BuiltVariant]]:
        """Each slice as planned and as built."""
        return [*zip(self.variants, self.built, strict=True)]


def read_slices(directory: Path, plan: Plan, lock: Lock) -> list[Sliced]:
    """All slices of a plan, from a project's `build-slices/`.

    Args:
        directory: the directory of the project.
        plan: the plan with the expected slices.
        lock: the pinned archives.

    Raises:
        DriverError: FILE_MISSING if a slice does not exist, or the plan has none; see `read_to_ship`.
    """
    present_slices(plan, lambda variant: directory_of(directory, variant))
    found = []
    for name in slice_names(plan):
        variants = slices_of(plan, name)
        found.append(Sliced(name, variants, tuple(read_to_ship(directory, plan, variants, lock))))
    return found


def present_slices(
    plan: Plan, find: Callable[[Variant], Path], show: Callable[[Variant], str] | None = None
) -> list[Variant]:
    """All slices of a plan, after checking that each exists.

    Args:
        plan: the plan with the slices.
        find: the directory of a slice.
        show: the name of a published slice in messages; None for slices that were built here, named by their paths.

    Raises:
        DriverError: FILE_MISSING if a slice does not exist, or the plan has none.
    """
    slices = [variant for variant in plan.variants if variant.slice]
    if not slices:
        message = "none of the variants has device code to slice"
        raise error(Code.FILE_MISSING, message, help="choose a variant for CUDA or ROCm, or call without --slice")
    for variant in slices:
        if is_directory(directory := find(variant)):
            continue
        if show:
            advice = "publish the slices of these variants first: driver publish --slice; or select others"
            raise error(Code.FILE_MISSING, f"{show(variant)} does not exist", help=advice)
        advice = "build the slices of these variants first: driver build --slice"
        raise error(Code.FILE_MISSING, f"{directory} does not exist", help=advice)
    return slices


def slice_branch(variants: str, name: str) -> str:
    """The branch of the slices for a capability.

    Args:
        variants: the branch of the variants.
        name: the capability: `sm90`.
    """
    return f"{variants}-{name}"


def make_index(known: bytes | None, branch: str, wholes: Iterable[BuiltVariant], slices: Sequence[Sliced]) -> bytes:
    """The index of the slices of a branch.

    Args:
        known: the index on the branch, whose entries for other variants stay; None if there is none.
        branch: the branch of the variants.
        wholes: the variants that are published with slices.
        slices: the slices of these variants.
    """
    digests = {built.name: _digest(built) for built in wholes}
    listed = _entries(known)
    for entry in listed.values():
        entry["variants"] = {name: about for name, about in entry["variants"].items() if name not in digests}
    for part in slices:
        entry = listed.setdefault(part.name, {"branch": slice_branch(branch, part.name), "variants": {}})
        entry["variants"] |= {
            built.name: {
                "archs": sorted(built.metadata["backend"]["archs"]),
                "size": sum(file.size for file in built.files),
                "digest": _digest(built),
                "variant-digest": digests[built.name],
            }
            for built in part.built
        }
    kept = {name: entry for name, entry in listed.items() if entry["variants"]}
    return (json.dumps({"schema": _SCHEMA, "slices": kept}, indent=2, sort_keys=True) + "\n").encode()


class SliceRow(NamedTuple):
    """The slices for a capability, as a card lists them.

    Attributes:
        name: the capability: `sm90`.
        archs: the GPU architectures that they have code for, ascending.
        variants: how many variants have such a slice.
        smallest: the size of the smallest slice, in bytes.
        largest: the size of the largest.
    """

    name: str
    archs: tuple[str, ...]
    variants: int
    smallest: int
    largest: int


def slice_rows(index: bytes | None, built: Iterable[BuiltVariant]) -> list[SliceRow]:
    """The slices on a branch, by capability.

    Args:
        index: the index on the branch; None if there is none.
        built: variants that the branch has or will have. Slices of other builds of them are left out: nobody loads
            them.
    """
    digests = {variant.name: _digest(variant) for variant in built}
    rows = []
    entries = _entries(index)
    for name in sorted(entries, key=lambda name: (len(name), name)):
        own = [
            about
            for variant, about in entries[name]["variants"].items()
            if isinstance(about, dict)
            and isinstance(about.get("size"), int)
            and isinstance(about.get("archs"), list)
            and about.get("variant-digest") == digests.get(variant, about.get("variant-digest"))
        ]
        archs = {arch for about in own for arch in about["archs"] if re.fullmatch(ARCH, str(arch))}
        sizes = [about["size"] for about in own]
        if sizes and re.fullmatch(r"[a-z0-9]+", name):
            ordered = tuple(sorted(archs, key=arch_order))
            rows.append(SliceRow(name, ordered, len(own), min(sizes), max(sizes)))
    return rows


def _digest(built: BuiltVariant) -> str:
    """The SHA-256 of a variant's metadata.json, which contains the digests of all its files."""
    [metadata] = [file for file in built.files if file.path.endswith(f"/{built.name}/{METADATA}")]
    return metadata.sha256


def _entries(known: bytes | None) -> dict[str, Any]:
    """The slices in an index; empty if it has another form than that of `make_index`."""
    try:
        index = json.loads(known or b"{}")
        if index.get("schema") != _SCHEMA:
            return {}
        return {
            name: {"branch": str(entry["branch"]), "variants": dict(entry["variants"])}
            for name, entry in index["slices"].items()
        }
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}
