"""plan x what is to be tried -> plan: with more flags, other headers of torch, or PTX beside machine code. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from py_driver.plan.plan import Plan, Variant

_CUDA = "cuda"
_PTX = "+PTX"


def with_cuda_flags(plan: Plan, flags: Sequence[str]) -> Plan:
    """A plan whose CUDA sources are compiled with more flags, under an id of its own.

    Args:
        plan: of a project.
        flags: of nvcc; none changes nothing.
    """
    if not flags:
        return plan
    identities = [
        identity._replace(settings={**identity.settings, "more-cuda-flags": [*flags]})
        if identity.backend == _CUDA
        else identity
        for identity in plan.identities
    ]
    groups = [
        group._replace(cuda_flags=(*group.cuda_flags, *flags)) if group.backend == _CUDA else group
        for group in plan.groups
    ]
    return plan._replace(groups=tuple(groups), identities=tuple(identities), is_changed=True)


def compiled_against(plan: Plan, backend: str, torch: str) -> Plan:
    """A plan whose variants for the stable ABI are compiled against the headers of one release, under an id of its own.

    Args:
        plan: of a project; it stays as it is without such variants.
        backend: whose variants, `cpu`.
        torch: the release, `2.13`; not before the first one that the variants fit.
    """
    chosen = [each.configuration.stable and each.configuration.backend == backend for each in plan.variants]
    if not any(chosen):
        return plan
    variants = [
        each._replace(needs=each.needs._replace(torch=torch)) if is_chosen else each
        for each, is_chosen in zip(plan.variants, chosen, strict=True)
    ]
    identities = [
        each._replace(settings={**each.settings, "compiled-against": torch}) if each.backend == backend else each
        for each in plan.identities
    ]
    return plan._replace(variants=tuple(variants), identities=tuple(identities), is_changed=True)


def with_configurations(plan: Plan, variant: Variant, section: str, flags: Mapping[str, Sequence[str]]) -> Plan:
    """A plan of several variants in the place of one: each compiles one kernel section with more flags of its own.

    They are built in one go, share all else, and each has an id of its own.

    Args:
        plan: of the project.
        variant: the one; it has the section.
        section: its name in build.toml.
        flags: of all compilers, by what a variant is to be called besides the name of the one.
    """
    variants = [
        variant._replace(suffix=f"-{name}", more_flags=(section, *flag), default=False) for name, flag in flags.items()
    ]
    return plan._replace(variants=tuple(variants), is_changed=True)


def with_ptx(plan: Plan) -> Plan:
    """A plan whose CUDA libraries have the PTX from which their machine code was made, for each architecture."""
    groups = []
    for group in plan.groups:
        archs = {backend: arch._replace(kept=_with_ptx(arch.kept)) for backend, arch in group.archs.items()}
        groups.append(group._replace(archs=archs) if group.backend == _CUDA else group)
    return plan._replace(groups=tuple(groups), variants=tuple(map(_variant, plan.variants)), is_changed=True)


def _variant(variant: Variant) -> Variant:
    """A variant that says that it has PTX, too."""
    if variant.configuration.family != _CUDA or not variant.archs:
        return variant
    archs = _with_ptx(variant.archs)
    backend = {**variant.metadata["backend"], "archs": sorted(archs)}
    return variant._replace(archs=archs, metadata={**variant.metadata, "backend": backend})


def _with_ptx(archs: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(f"{arch.removesuffix(_PTX)}{_PTX}" for arch in archs))
