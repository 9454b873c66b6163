"""Builds a CUDA variant of a project for inspection: for one architecture, with PTX, also without a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from py_driver.authoring.local_variant import local_variant
from py_driver.authoring.machine import this_machine
from py_driver.building.build import Options, build
from py_driver.building.selection import choose
from py_driver.building.variant_dir import DEV
from py_driver.errors import Code, DriverError, error
from py_driver.matrix.backends import arch_order, version_of
from py_driver.matrix.toolkits import numbers
from py_driver.plan.overrides import with_cuda_flags, with_ptx
from py_driver.plan.plan import plan_directory
from py_driver.system.files import keep_from_git

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from py_driver.bazel.invocation import Choices
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Plan, Variant

_CUDA: Final = "cuda"
_PLACE: Final = "code"
"""The directory beside the builds for this machine."""

_LINES: Final = "-lineinfo"


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeBuild:
    """A variant that was built for inspection.

    Attributes:
        variant: its identifier.
        archs: the architectures of its machine code.
        path: its directory.
        sources: the project's files that it is built from, by path.
    """

    variant: str
    archs: tuple[str, ...]
    path: Path
    sources: tuple[str, ...]


def code_build(  # noqa: PLR0913  (the project, the variant, the options, and the output)
    directory: Path,
    releases: Releases,
    output: Output,
    choices: Choices,
    *,
    pattern: str = "",
    archs: Sequence[str] = (),
    lines: bool = False,
) -> CodeBuild:
    """Build a variant for inspection.

    Args:
        directory: the project's directory.
        releases: the releases to build for.
        output: shows progress.
        choices: the options of the build.
        pattern: the variant; if empty, the variant for this machine's GPU, or without a GPU the newest.
        archs: GPU architectures to build for; if empty, this machine's GPU, or without a GPU the variant's latest.
        lines: whether its code has line information.

    Raises:
        DriverError: NO_SUCH_VARIANT if there is no such variant with CUDA code; all that `build` raises.
    """
    plan = plan_directory(directory, releases)
    variant, own = _chosen(plan, pattern)
    wanted = tuple(archs) or own or _latest(plan, variant)
    flags = (_LINES,) if lines else ()
    options = Options(
        archs=wanted,
        local=True,
        into=_PLACE,
        change=lambda plan: with_ptx(with_cuda_flags(plan, flags)),
        choices=choices,
    )
    done = build(directory, [variant.name], releases, output, options)
    keep_from_git(directory / DEV)
    [built] = done.variants
    return CodeBuild(variant=variant.name, archs=wanted, path=built.path, sources=tuple(sorted(plan.files)))


def _chosen(plan: Plan, pattern: str) -> tuple[Variant, tuple[str, ...]]:
    """A variant with CUDA code, and the architectures of this machine's GPUs if the variant is for them.

    Raises:
        DriverError: NO_SUCH_VARIANT if no variant, or several, match the pattern.
    """
    known = [variant for variant in plan.variants if _latest(plan, variant)]
    if not known:
        message = f"`{plan.name}` has no CUDA code"
        advice = 'this command shows the code of sections [kernel.NAME] with backend = "cuda"'
        raise error(Code.NO_SUCH_VARIANT, message, help=advice)
    if pattern:
        found = [variant for variant in choose(plan, [pattern]) if variant in known]
        if len(found) == 1:
            return found[0], ()
        several = f"{len(found)} variants with CUDA code match `{pattern}`"
        names = ", ".join(variant.name for variant in (found or known)[:5])
        raise error(Code.NO_SUCH_VARIANT, several, help=f"name a single variant, e.g. of {names}")
    try:
        machine = this_machine()
        if machine.archs and (mine := local_variant(plan, machine.torch, machine.archs, _CUDA)) in known:
            return mine, machine.archs
    except DriverError:
        pass  # no torch, or one that the project has no variant for
    return max(
        known, key=lambda variant: (variant.default, numbers(variant.configuration.torch or "0"), _toolkit(variant))
    ), ()


def _toolkit(variant: Variant) -> tuple[int, ...]:
    return numbers(version_of(variant.configuration.backend) or "0")


def _latest(plan: Plan, variant: Variant) -> tuple[str, ...]:
    """The latest architecture of a variant; empty if it has no CUDA code."""
    groups = {group.name: group for group in plan.groups if group.backend == _CUDA}
    chosen = (groups[name].archs.get(variant.configuration.backend) for name in variant.groups if name in groups)
    archs = {arch.removesuffix("+PTX") for archs in chosen if archs for arch in archs.kept}
    ahead = (target for target in plan.triton if target.name == variant.triton and target.family == _CUDA)
    archs |= {arch for target in ahead for arch in target.archs}
    return (max(archs, key=arch_order),) if archs else ()
