"""The choice of a project's variant for this machine. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from py_driver.building.installed_torch import fits
from py_driver.errors import Code, DriverError, error
from py_driver.matrix.backends import BUILT, UNIVERSAL, backend_of, version_of
from py_driver.matrix.toolkits import numbers
from py_driver.system.machine import machine_cpu

if TYPE_CHECKING:
    from collections.abc import Sequence

    from py_driver.building.installed_torch import Torch
    from py_driver.plan.plan import Plan, Variant

_CPU = "cpu"


def usable_archs(torch: Torch, archs: Sequence[str]) -> tuple[str, ...]:
    """The architectures of this machine's GPUs that a torch can use: those of its backend.

    Args:
        torch: the torch.
        archs: GPU architectures as build.toml spells them.
    """
    backend = backend_of(torch.backend)
    return tuple(arch for arch in archs if backend and backend.arch and re.fullmatch(backend.arch, arch))


def local_variant(plan: Plan, torch: Torch, archs: Sequence[str], family: str = "") -> Variant:
    """The variant of a project that a torch loads on this machine.

    It is a variant for GPUs if the torch can use any and the project has such a variant, otherwise a variant for the
    CPU. A variant for exactly this torch release is preferred to one for the stable ABI, and then the latest toolkit.

    Args:
        plan: the plan of the project.
        torch: the torch that will load it.
        archs: GPU architectures of this machine, as build.toml spells them; empty without a GPU.
        family: the required backend, `cpu`, `cuda` or `rocm`; any if empty.

    Raises:
        DriverError: NO_SUCH_VARIANT if no variant fits; its help names the nearest ones.
    """
    gpu = torch.backend if usable_archs(torch, archs) else ""
    for wanted in (gpu, _CPU):
        known = backend_of(wanted)
        if known is None or family not in ("", known.family):
            continue
        # A torch for GPUs also runs variants for the CPU.
        seen = replace(torch, backend=wanted)
        if found := [variant for variant in plan.variants if _loads(seen, variant, known.family)]:
            return max(found, key=_preference)
    raise _nothing(plan, torch, gpu, family)


def has_device_code(plan: Plan, variant: Variant) -> bool:
    """Whether a variant is compiled for GPUs; a variant with only Python files is not.

    Args:
        plan: the plan of its project.
        variant: the variant.
    """
    groups = {group.name: group for group in plan.groups}
    return bool(variant.triton) or any(groups[name].archs.get(variant.configuration.backend) for name in variant.groups)


def _loads(torch: Torch, variant: Variant, family: str) -> bool:
    """Whether a torch loads a variant; a variant with only Python files fits every release."""
    configuration = variant.configuration
    return configuration.backend in (family, UNIVERSAL) if configuration.is_noarch else fits(torch, configuration)


def _preference(variant: Variant) -> tuple[bool, bool, tuple[int, ...], bool]:
    """The sort key of suitable variants, the preferred one last."""
    configuration = variant.configuration
    toolkit = numbers(version_of(configuration.backend) or "0")
    return not configuration.is_noarch, not configuration.stable, toolkit, configuration.abi == "cxx11"


def _nothing(plan: Plan, torch: Torch, gpu: str, family: str) -> DriverError:
    """The error for a project without a variant for this machine."""
    title = f" with {BUILT[family].title}" if family in BUILT else ""
    message = f"`{plan.name}` has no variant for torch {torch.version} ({torch.backend}){title} on this machine"
    if family not in ("", _CPU) and not gpu:
        advice = _switch(plan, able=_family(torch.backend) == family)
        return error(Code.NO_SUCH_VARIANT, f"{message}: no GPU that this torch can use is found", help=advice)
    order = sorted(
        {numbers(variant.configuration.torch) for variant in plan.variants if variant.configuration.torch}
        | {numbers(torch.version)}
    )
    asked = order.index(numbers(torch.version))

    def distance(variant: Variant) -> tuple[bool, int]:
        at = order.index(numbers(variant.configuration.torch)) if variant.configuration.torch else asked
        return variant.configuration.family != (family or _family(gpu)), abs(at - asked)

    here = [variant for variant in plan.variants if variant.configuration.cpu in (None, machine_cpu())]
    nearest = [variant.name for variant in sorted(here, key=distance)[:3]]
    way = "install a torch for one of them" if torch.python else "name the torch of a variant with --torch"
    advice = f"the nearest are {', '.join(nearest)}; {way}, or see `driver variants --all`"
    return error(Code.NO_SUCH_VARIANT, message, help=advice)


def _switch(plan: Plan, *, able: bool) -> str:
    """The help if there is no GPU, and a torch that is able to use one or not."""
    has_cpu = any(variant.configuration.family in (_CPU, UNIVERSAL) for variant in plan.variants)
    other = "use --backend cpu" if has_cpu else "build it with `driver build`, and run it where a GPU is"
    here = ", or name architectures by --archs or, for a setup.py or cpp_extension, by TORCH_CUDA_ARCH_LIST"
    return other + here if able else other


def _family(backend: str) -> str:
    known = backend_of(backend)
    return known.family if known else _CPU
