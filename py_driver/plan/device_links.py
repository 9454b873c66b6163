"""groups -> device links: a target for each set of groups whose device code a variant links. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from py_driver.manifest.linking import linking_of
from py_driver.manifest.model import TORCH
from py_driver.manifest.targets import DEVICE_LINK
from py_driver.matrix.backends import BUILT
from py_driver.plan.identity import canonical
from py_driver.system.files import sha256

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from py_driver.plan.groups import Group

_CUDA = "cuda"
_DIGITS = 8


class DeviceLink(NamedTuple):
    """Groups whose device code is linked together.

    Attributes:
        name: the target's name.
        groups: the groups, in link order.
        flags: nvcc's flags for the link: those that all groups have.
    """

    name: str
    groups: tuple[Group, ...]
    flags: tuple[str, ...]

    @property
    def depends(self) -> tuple[str, ...]:
        """`torch`, if a group depends on it; without it, all releases of torch share the linked code."""
        return (TORCH,) if any(TORCH in group.depends for group in self.groups) else ()

    @property
    def identity(self) -> str:
        """The name of the identity's target, if a group sees it; else empty."""
        return next((group.identity for group in self.groups if group.identity), "")

    @property
    def optimized(self) -> bool:
        """Whether the device code is optimised when it is linked."""
        return any(linking_of(group.cuda_flags).optimized for group in self.groups)

    def archs(self, backend: str) -> tuple[str, ...]:
        """The architectures that it is linked for: the union of the groups'.

        Args:
            backend: the backend, e.g. `cu130`.
        """
        kept = [arch for group in self.groups if backend in group.archs for arch in group.archs[backend].kept]
        return tuple(dict.fromkeys(arch.removesuffix("+PTX") for arch in kept))


def device_links(groups: Iterable[Group], variants: Mapping[str, Sequence[str]]) -> Mapping[str, DeviceLink]:
    """The device link of each variant that needs one, by the name of the variant.

    Args:
        groups: the groups of a plan.
        variants: the names of each variant's groups, by the variant's name.
    """
    relocatable = {group.name: group for group in groups if _is_relocatable(group)}
    listed = {variant: tuple(name for name in names if name in relocatable) for variant, names in variants.items()}
    linked = {variant: names for variant, names in listed.items() if names}
    several = len({*linked.values()}) > 1
    return {
        variant: _link(tuple(relocatable[name] for name in names), several=several) for variant, names in linked.items()
    }


def mixed(links: Iterable[DeviceLink]) -> Mapping[str, str]:
    """Groups whose device code is linked without optimisation with another group's, which is optimised at link time.

    Args:
        links: the device links of a plan.

    Returns:
        The title of the other group, by the name of the group.
    """
    found: dict[str, str] = {}
    for link in links:
        optimized = [group for group in link.groups if linking_of(group.cuda_flags).optimized]
        others = [group.name for group in link.groups if group not in optimized]
        found |= {name: group.title for group in optimized[:1] for name in others}
    return found


def _is_relocatable(group: Group) -> bool:
    """Whether a group has relocatable device code."""
    has_code = any(source.endswith(BUILT[_CUDA].sources) for source in group.sources)
    return group.backend == _CUDA and has_code and linking_of(group.cuda_flags).relocatable


def _link(groups: tuple[Group, ...], *, several: bool) -> DeviceLink:
    names = [group.name for group in groups]
    shared = [flag for flag in groups[0].link_flags if all(flag in group.link_flags for group in groups)]
    digest = f".{sha256(canonical(names).encode())[:_DIGITS]}" if several else ""
    return DeviceLink(f"{DEVICE_LINK}{digest}", groups, tuple(shared))
