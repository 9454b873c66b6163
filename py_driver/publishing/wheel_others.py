"""The kernels in a wheel that its own kernel depends on, and their variants."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from py_driver.errors import Code, error
from py_driver.matrix.backends import UNIVERSAL, version_of
from py_driver.matrix.configurations import Configuration, parse
from py_driver.matrix.toolkits import numbers
from py_driver.publishing.wheel_loader import Here, refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from py_driver.manifest.model import Manifest
    from py_driver.publishing.release import BuiltVariant
    from py_driver.publishing.wheel_loader import Backend, Variant


class Other(NamedTuple):
    """A kernel on which others in a wheel depend.

    Attributes:
        manifest: the manifest of its project.
        repositories: the repositories under which others depend on it.
        built: its variants.
    """

    manifest: Manifest
    repositories: tuple[str, ...]
    built: Sequence[BuiltVariant]


def depends_of(built: Sequence[BuiltVariant]) -> tuple[str, ...]:
    """The repositories of the kernels that variants depend on, sorted.

    Args:
        built: the variants.
    """
    listed = {kernel["repo-id"] for variant in built for kernel in variant.metadata.get("kernel-depends", ())}
    return tuple(sorted(listed))


def serving(
    names: Sequence[str], other: str, variants: Sequence[Variant], backends: Mapping[str, Backend]
) -> frozenset[str]:
    """The variants of another kernel that a wheel needs: those that load wherever one of its own does.

    Args:
        names: the wheel's own variants.
        other: the name of the other kernel.
        variants: the variants of the other kernel.
        backends: the backends with toolkits, by family.

    Raises:
        DriverError: FILE_MISSING if it has none for one of `names`.
    """
    found: set[str] = set()
    for name in names:
        configuration = parse(name)
        fitting = [variant.name for variant in variants if _serves(variant, configuration, backends)]
        if not fitting:
            message = f"{name} depends on {other}, of which no built variant loads where {name} does"
            raise error(Code.FILE_MISSING, message, help=f"build {other} for it first: driver build")
        found.update(fitting)
    return frozenset(found)


def _serves(variant: Variant, own: Configuration, backends: Mapping[str, Backend]) -> bool:
    """Whether a variant loads where a configuration does; anywhere it may, if nothing is compiled for that."""
    if own.torch is None:
        return UNIVERSAL in {own.family, variant.family} or own.family == variant.family
    toolkit = version_of(own.backend)
    here = Here(
        version=own.torch,
        family=own.family,
        torch=numbers(own.torch),
        abi=own.abi or variant.abi,
        toolkit=numbers(toolkit) if toolkit else (),
        platform=f"{own.cpu}-{own.os}",
        abi3=True,
        backends=backends,
    )
    return not refusal(variant, here)
