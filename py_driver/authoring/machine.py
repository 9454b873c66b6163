"""The environment of a variant on this machine: a torch, GPUs, and an interpreter."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from py_driver.authoring.local_variant import usable_archs
from py_driver.building.installed_torch import Torch, importable_torch, python_on, python_with
from py_driver.errors import Code, DriverError, error
from py_driver.plan.narrow import served
from py_driver.system.gpus import native_archs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from py_driver.matrix.configurations import Configuration
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Plan

TORCH_PYTHON: Final = "RULES_TORCH_KERNELS_TORCH_PYTHON"
"""Environment variable with the path of the Python whose torch is used; `rules_torch_kernels.load` sets it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """The environment of a variant.

    Attributes:
        torch: the torch; its `python` has it installed, or is empty if the driver will install it.
        archs: the architectures of the GPUs that this torch can use, as build.toml spells them.
        family: the requested backend, `cpu`, `cuda` or `rocm`; any if empty.
    """

    torch: Torch
    archs: tuple[str, ...]
    family: str = ""


def this_machine(version: str = "", family: str = "") -> Machine:
    """The torch and the GPUs of this machine.

    Args:
        version: a torch release that the driver will install, e.g. `2.13`; if empty, torch must be installed.
        family: see `Machine`.

    Raises:
        DriverError: SET_UP if no torch is installed.
    """
    if version:
        return Machine(torch=Torch(python="", version=version, backend="cpu"), archs=(), family=family or "cpu")
    named = os.environ.get(TORCH_PYTHON, "")
    torch = importable_torch(named)
    if torch is None and named:
        raise error(Code.SET_UP, f"{named} has no torch", help="install torch into its environment")
    if torch is None:
        advice = "activate an environment that has torch, or let the driver install one: --torch 2.13"
        raise error(Code.SET_UP, "no python3 on PATH has torch", help=advice)
    archs = () if torch.backend == "cpu" or family == "cpu" else usable_archs(torch, _gpus())
    return Machine(torch=torch, archs=archs, family=family)


def _gpus() -> tuple[str, ...]:
    """The architectures of this machine's GPUs; empty without a GPU."""
    try:
        return native_archs()
    except DriverError:
        return ()


def archs_of_variables(
    plan: Plan, machine: Machine, listed: Mapping[str, Sequence[str]], output: Output | None
) -> tuple[str, ...]:
    """The architectures from variables for which this machine has GPUs and the project has device code.

    Args:
        plan: the plan of the project.
        machine: the machine.
        listed: architectures by the environment variable that names them.
        output: gets a note whether they are used; None for no note.
    """
    found: dict[str, None] = {}
    for variable, archs in listed.items():
        usable = usable_archs(machine.torch, archs) if machine.archs else ()
        own = served(plan, usable)
        if output and usable:
            taken = f"--archs {','.join(own)} comes from {variable}" if own else f"{variable} is not used"
            others = [arch for arch in usable if arch not in own]
            output.say(f"note: {taken}" + (f": no device code for {', '.join(others)}" if others else ""))
        found.update(dict.fromkeys(own))
    return tuple(found)


def python_of_torch(
    configurations: Sequence[Configuration],
    machine: Machine,
    releases: Releases,
    output: Output,
    more: Sequence[str] = (),
) -> str:
    """An interpreter with the machine's torch, the `kernels` client and pytest.

    Args:
        configurations: the configurations of the variants that it will load.
        machine: the machine, with its torch.
        releases: the releases, with the lock.
        output: shows progress.
        more: further requirements for pip.

    Raises:
        DriverError: the environment cannot be made; see `ensure_venv`.
    """
    if machine.torch.python:
        return python_on(machine.torch, configurations, releases, output, more=more)
    return python_with(machine.torch.version, configurations, releases, output, more=more)
