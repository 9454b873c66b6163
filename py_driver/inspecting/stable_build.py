"""A project's interface, built for this CPU before and after it is moved to torch's stable ABI."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

from py_driver.authoring.dev_build import dev_build
from py_driver.authoring.extension_session import install_extension
from py_driver.authoring.machine import this_machine
from py_driver.bazel.invocation import Choices
from py_driver.building.extension import candidates
from py_driver.errors import Code, error
from py_driver.inspecting.recorded_symbols import Recorded
from py_driver.inspecting.release_changes import release_changes
from py_driver.inspecting.release_facts import release_facts
from py_driver.matrix.toolkits import numbers
from py_driver.plan.overrides import compiled_against
from py_driver.plan.project import load
from py_driver.plan.projects import is_extension
from py_driver.system.machine import machine_cpu

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from py_driver.inspecting.release_changes import ReleaseChange
    from py_driver.inspecting.release_facts import ReleaseFacts
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output

_CPU: Final = "cpu"
_ABI: Final = "cxx11"
_COMPARED: Final = ("op", "function", "export")
_OF_TORCH: Final = re.compile(r": _Z.*(?:2at|3c10|5torch|6caffe2)")
"""Exports that are inline functions of torch's headers, or contain a type of torch in their names."""


def cpu_releases(directory: Path, releases: Releases, since: str = "") -> tuple[str, ...]:
    """The torch releases that a project may be compiled against for this machine's CPU, `2.13`, in order.

    Args:
        directory: the project's directory, with a build.toml or a setup.py.
        releases: the releases to build for.
        since: the first release with everything that the sources use; `stable-abi` of build.toml applies if it is
            later.

    Raises:
        DriverError: NO_SUCH_VARIANT if there is no such release; the errors of a build.toml.
    """
    configurations = [variant.configuration for variant in candidates(directory, releases.matrix).variants]
    low = numbers(since or "0")
    if not is_extension(directory):
        framework = load(directory, releases).manifest.framework
        if _CPU in framework.stable_abi:
            low = max(low, framework.stable_abi[_CPU].value)
        configurations = [each for each in configurations if framework.bounds.admit(numbers(each.torch or "0"))]
    found = {
        each.torch
        for each in configurations
        if each.torch
        and (each.backend, each.cpu, each.abi) == (_CPU, machine_cpu(), _ABI)
        and numbers(each.torch) >= low
    }
    if not found:
        message = f"{directory} can be compiled against no torch release for this machine's CPU"
        raise error(Code.NO_SUCH_VARIANT, message, help="see `driver variants --all`; --fix alone builds nothing")
    return tuple(sorted(found, key=numbers))


def cpu_facts(directory: Path, torch: str, releases: Releases, output: Output) -> ReleaseFacts:
    """A project's interface on this machine's CPU, compiled now against the headers of a torch release.

    Args:
        directory: the project's directory, with a build.toml or a setup.py.
        torch: the release, `2.13`.
        releases: the releases to build for.
        output: shows progress.

    Raises:
        DriverError: see `dev_build` and `install_extension`.
    """
    machine = this_machine(torch, _CPU)
    if is_extension(directory):
        path = install_extension(directory, machine, releases, output, Choices(), python=sys.executable).path
    else:
        path = dev_build(
            directory,
            machine,
            releases,
            output,
            Choices(),
            change=lambda plan: compiled_against(plan, _CPU, torch),
            kind=f"headers-{torch}",
        ).path
    return release_facts(path, Recorded(releases))


def differences(before: ReleaseFacts, after: ReleaseFacts) -> Iterator[str]:
    """The differences between the ops, Python functions and exports of two builds, in words.

    Args:
        before: the build of the original sources.
        after: the build of the rewritten sources.
    """
    for change in release_changes(before, after):
        if change.kind in _COMPARED and not (change.kind == "export" and _OF_TORCH.search(change.subject)):
            yield f"the {change.kind} {change.subject} {_became(change)}"


def _became(change: ReleaseChange) -> str:
    """A change in words."""
    if not change.before:
        return "is new"
    if not change.after:
        return "is gone"
    return f"was `{change.before}` and is `{change.after}`"


def unloadable(facts: ReleaseFacts, every: Sequence[str]) -> Iterator[str]:
    """The torch releases that the libraries of a build do not load with, in words.

    Args:
        facts: the facts about a build against the first release.
        every: the releases that it is for, in order.
    """
    for name, library in facts.libraries.items():
        for torch in every:
            if f"torch {torch} {_ABI} {_CPU}" not in library.loads:
                yield f"{name}, compiled against torch {every[0]}, does not load with torch {torch}"
