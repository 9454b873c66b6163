"""plan x overrides -> plan: with more flags, other headers of torch, or PTX beside machine code. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from py_driver.plan.plan import Plan, Variant

_CUDA = "cuda"
_PTX = "+PTX"


def with_cuda_flags(plan: Plan, flags: Sequence[str]) -> Plan:
    """A plan whose CUDA sources are compiled with further flags, under a different id.

    Args:
        plan: the plan of a project.
        flags: flags of nvcc; an empty list changes nothing.
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
    """A plan whose variants for the stable ABI are compiled against the headers of a release, under a different id.

    Args:
        plan: the plan of a project; unchanged if it has no such variants.
        backend: the backend of the variants, e.g. `cpu`.
        torch: the release, `2.13`; not older than the first release that the variants fit.
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
    """A plan with several variants instead of one: each compiles a kernel section with its own further flags.

    They are built together, share everything else, and each has its own id.

    Args:
        plan: the plan of the project.
        variant: the variant to replace, which has the section.
        section: its name in build.toml.
        flags: the flags of all compilers, by the suffix of the new variant's name.
    """
    variants = [
        variant._replace(suffix=f"-{name}", more_flags=(section, *flag), default=False) for name, flag in flags.items()
    ]
    return plan._replace(variants=tuple(variants), is_changed=True)


def with_ptx(plan: Plan) -> Plan:
    """A plan whose CUDA libraries also contain the PTX of their machine code, for each architecture."""
    groups = []
    for group in plan.groups:
        archs = {backend: arch._replace(kept=_with_ptx(arch.kept)) for backend, arch in group.archs.items()}
        groups.append(group._replace(archs=archs) if group.backend == _CUDA else group)
    return plan._replace(groups=tuple(groups), variants=tuple(map(_variant, plan.variants)), is_changed=True)


def _variant(variant: Variant) -> Variant:
    """The variant with PTX in its architectures."""
    if variant.configuration.family != _CUDA or not variant.archs:
        return variant
    archs = _with_ptx(variant.archs)
    backend = {**variant.metadata["backend"], "archs": sorted(archs)}
    return variant._replace(archs=archs, metadata={**variant.metadata, "backend": backend})


def _with_ptx(archs: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(f"{arch.removesuffix(_PTX)}{_PTX}" for arch in archs))
