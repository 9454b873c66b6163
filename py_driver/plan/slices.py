"""plan x variants -> plan: slices, each a variant with the device code of one GPU capability. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.matrix.backends import BUILT, arch_order
from py_driver.plan.metadata import SLICE
from py_driver.plan.plan import Slice

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from py_driver.plan.device_links import DeviceLink
    from py_driver.plan.groups import Group
    from py_driver.plan.plan import Plan, Variant


def sliced(plan: Plan, variants: Iterable[Variant]) -> Plan:
    """A plan with additional slices: one for each capability of a variant's device code.

    They share the compile actions and the id of the variant. A section keeps the code that a GPU of the capability
    would run in the variant, as 8.0 on 8.6; a section without such code keeps its lowest architecture, since it would
    not link without any.

    Args:
        plan: the plan of the project.
        variants: variants of the plan; a variant without device code has no slices.
    """
    groups = {group.name: group for group in plan.groups}
    links = plan.device_links
    slices = tuple(
        _slice(variant, capability, groups, links.get(variant.name))
        for variant in variants
        for capability in _capabilities(variant)
    )
    return plan._replace(variants=(*plan.variants, *slices), is_changed=True) if slices else plan


def slices_of(plan: Plan, name: str) -> tuple[Variant, ...]:
    """The slices of a plan for a capability, in the order of their variants.

    Args:
        plan: a plan with slices.
        name: the capability.
    """
    return tuple(variant for variant in plan.variants if variant.slice and variant.slice.name == name)


def slice_names(plan: Plan) -> tuple[str, ...]:
    """The capabilities of a plan's slices, ascending: `sm80`, `sm90`."""
    found = {variant.slice.name: variant.archs for variant in plan.variants if variant.slice}
    return tuple(sorted(found, key=lambda name: (not name.startswith("sm"), len(name), name)))


def _capabilities(variant: Variant) -> tuple[str, ...]:
    """The GPU capabilities of a variant's device code, ascending; empty without an extension."""
    if not variant.groups or not variant.archs:
        return ()
    backend = BUILT[variant.configuration.family]
    return tuple(sorted({backend.capability(arch) for arch in variant.archs}, key=arch_order))


def _slice(variant: Variant, capability: str, groups: Mapping[str, Group], link: DeviceLink | None) -> Variant:
    """The slice of a variant for a capability."""
    configuration = variant.configuration
    backend = BUILT[configuration.family]
    archs: dict[str, tuple[str, ...]] = {}
    for name in variant.groups:
        choice = groups[name].archs.get(configuration.backend)
        if choice and choice.kept:
            archs[name] = backend.serving(choice.kept, [capability]) or choice.kept[:1]
    kept = sorted({arch for listed in archs.values() for arch in listed})
    if link:
        linked = [arch for group in link.groups for arch in archs.get(group.name, ())]
        archs[link.name] = tuple(dict.fromkeys(arch.removesuffix("+PTX") for arch in linked))
    stated = {**variant.metadata["backend"], "archs": sorted({backend.plain(arch) for arch in kept})}
    name = backend.label(capability).replace("_", "")
    return variant._replace(
        archs=tuple(kept),
        default=False,
        metadata={**variant.metadata, "backend": stated, SLICE: name},
        slice=Slice(name, archs),
        suffix=f"-{name}",
    )
