"""plan x GPU architectures -> plan: device code for these architectures alone, for a quick build. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.errors import Code, error
from py_driver.matrix.backends import BUILT, arch_order
from py_driver.matrix.toolkits import Archs, Dropped
from py_driver.plan.metadata import ONLY_ARCHS
from py_driver.plan.plan import Excluded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from py_driver.plan.ahead import TritonTarget
    from py_driver.plan.groups import Group
    from py_driver.plan.plan import Plan, Variant


def narrowed(plan: Plan, archs: Sequence[str]) -> Plan:
    """A plan with only the device code that GPUs of the given architectures run.

    A section keeps its architectures that serve one of them, as `9.0a` serves 9.0, and 8.0 serves 8.6 if the section
    has no 8.6. If no architecture does, it keeps the lowest one, since the extension would not link without any. A
    variant is excluded if none of its sections has code for these GPUs. The metadata of the other variants records that
    device code is missing; variants without device code are unchanged, and so is a plan with only such variants.
    Triton's ahead-of-time compiles are narrowed likewise; Triton compiles everything else where the kernel runs.

    Args:
        plan: the plan of the project.
        archs: as build.toml spells them. Raises:
        DriverError: NO_VARIANTS if the plan has device code, but none for one of these architectures.
    """
    groups = {group.name: group for group in plan.groups}
    asked = _compiled(plan)
    if plan.triton:
        plan = plan._replace(triton=tuple(_target(target, archs) for target in plan.triton), only_archs=tuple(archs))
    if not asked:
        return plan
    if unserved := [arch for arch in archs if not _serving(asked, [arch])]:
        has = ", ".join(sorted(asked, key=arch_order))
        message = f"`{plan.name}` has no device code for the architecture `{unserved[0]}`"
        raise error(Code.NO_VARIANTS, message, help=f"it has device code for {has}, as build.toml says")
    new = {name: _group(group, archs) for name, group in groups.items()}
    variants, excluded = [], []
    for variant in plan.variants:
        before = _sections(variant, groups)
        if before and not any(_serving(choice.kept, archs) for choice in before):
            reason = f"it has no device code for {' or '.join(archs)}"
            excluded.append(Excluded(configuration=variant.configuration, reason=reason))
        else:
            variants.append(
                _variant(variant, {arch for section in _sections(variant, new) for arch in section.kept}, archs)
            )
    return plan._replace(
        groups=tuple(new.values()),
        variants=tuple(variants),
        excluded=(*plan.excluded, *excluded),
        only_archs=tuple(archs),
    )


def served(plan: Plan, archs: Sequence[str]) -> tuple[str, ...]:
    """The architectures among the given ones whose GPUs run device code of a plan.

    Args:
        plan: the plan of the project.
        archs: as build.toml spells them.
    """
    compiled = _compiled(plan)
    return tuple(arch for arch in archs if _serving(compiled, [arch]))


def _compiled(plan: Plan) -> set[str]:
    """The architectures of a plan's device code."""
    groups = {group.name: group for group in plan.groups}
    return {arch for variant in plan.variants for section in _sections(variant, groups) for arch in section.kept}


def _serving(kept: Iterable[str], archs: Sequence[str]) -> tuple[str, ...]:
    """The architectures, of any backend, that serve one of the given GPUs."""
    listed = [*kept]
    return tuple(arch for family in BUILT.values() if family.arch for arch in family.serving(listed, archs))


def _sections(variant: Variant, groups: Mapping[str, Group]) -> list[Archs]:
    """The architectures of each section for GPUs in a variant."""
    sections = (groups[name].archs.get(variant.configuration.backend) for name in variant.groups)
    return [section for section in sections if section is not None]


def _group(group: Group, archs: Sequence[str]) -> Group:
    reason = f"`--archs {','.join(archs)}` does not need it"
    new = {}
    for backend, choice in group.archs.items():
        kept = BUILT[group.backend].serving(choice.kept, archs) or choice.kept[:1]
        dropped = tuple(Dropped(arch=arch, reason=reason) for arch in choice.kept if arch not in kept)
        new[backend] = Archs(requested=choice.requested, kept=kept, dropped=(*choice.dropped, *dropped))
    return group._replace(archs=new)


def _target(target: TritonTarget, archs: Sequence[str]) -> TritonTarget:
    """Triton's compiles for the given architectures; for its first one if it serves none of them."""
    return target._replace(archs=BUILT[target.family].serving(target.archs, archs) or target.archs[:1])


def _variant(variant: Variant, kept: set[str], archs: Sequence[str]) -> Variant:
    """A variant narrowed to architectures; a variant without device code is unchanged."""
    if not kept:
        return variant
    plain = BUILT[variant.configuration.family].plain
    backend = {**variant.metadata["backend"], "archs": sorted({plain(arch) for arch in kept})}
    metadata = {**variant.metadata, "backend": backend, ONLY_ARCHS: list(archs)}
    return variant._replace(archs=tuple(sorted(kept)), metadata=metadata)
