"""The expectations of a build, before Bazel runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from py_driver.actions.begun import known_history
from py_driver.actions.estimate import Estimate, describe, doubt, estimate
from py_driver.actions.expected import Settings, expected_actions
from py_driver.bazel.invocation import HEADERS, Choices, Headers, kept_results
from py_driver.building.selection import other_openmp, unsplit
from py_driver.matrix.facts import facts
from py_driver.matrix.installation import module_root, rules_digest
from py_driver.system.machine import machine_cpu

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from py_driver.actions.estimate import History
    from py_driver.actions.expected import ExpectedAction
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Plan, Variant


_FIRST_TOOLCHAIN: Final = "torch_kernels_cc"
"""The end of the name of a repository that every build needs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ahead:
    """The expectations for the build of a project.

    Attributes:
        actions: its compile actions.
        history: the results of its earlier builds.
        estimate: the estimate for this build.
    """

    actions: Sequence[ExpectedAction]
    history: History
    estimate: Estimate


def say_untested(chosen: Sequence[Variant], releases: Releases, output: Output, choices: Choices) -> None:
    """Report nvcc releases that compile monolithically although the others do not."""
    untested = unsplit(chosen, releases.matrix) if choices.split else ()
    if untested:
        output.say(
            f"note: nvcc {', '.join(untested)} compiles monolithically: it is untested, and its phases are unknown"
        )


def say_openmp(plan: Plan, chosen: Sequence[Variant], output: Output) -> None:
    """Report torch releases that may load a second OpenMP runtime because of a plan's variants."""
    for version, name in other_openmp(plan, chosen).items():
        fact = f"calls its OpenMP runtime `{name}`" if name else "has an OpenMP runtime that is not in the lock"
        second = "the kernel may load a second OpenMP runtime with its own thread pool"
        output.say(f"note: torch {version} {fact}; {second}")


def say_unused_archs(archs: Sequence[str], chosen: Sequence[Variant], output: Output) -> None:
    """Report that requested architectures have no effect, if no chosen variant has device code."""
    if archs and not any(variant.archs or variant.triton for variant in chosen):
        output.say(f"note: --archs {','.join(archs)} has no effect: the chosen variants have no device code")


def say_unused_choices(choices: Choices, chosen: Sequence[Variant], output: Output) -> None:
    """Report choices about CUDA code that have no effect, if no chosen variant has any."""
    if any(variant.configuration.family == "cuda" and variant.archs for variant in chosen):
        return
    options = {"--cuda-compile": choices.cuda_compile, "--compress": choices.compress}
    for option in (option for option, value in options.items() if value is not None):
        output.say(f"note: {option} has no effect: the chosen variants have no CUDA code")


def say_plan(ahead: Estimate, variants: int, jobs: int, memory: int | None, output: Output) -> None:
    """Print the estimate for a build of variants, and warn if the machine may have too little memory."""
    output.say(describe(ahead, variants, jobs))
    if note := doubt(ahead, jobs, memory):
        output.say(note)


def say_preparation(base: Path | None, output: Output) -> None:
    """Report the work of the first build that no estimate includes.

    Args:
        base: the directory of Bazel's unpacked archives and outputs; None if unknown.
        output: where to print.
    """
    if base is None or not any((base / "external").glob(f"*{_FIRST_TOOLCHAIN}")):
        compiled = "" if _has_programs() else " and the rules' programs compiled"
        output.say(f"note: this is the first build here: toolchains are unpacked{compiled}, too")


def _has_programs() -> bool:
    """Whether the module contains the rules' programs compiled for this machine, as a release does."""
    programs = facts("programs")
    compiled = module_root() / "rules" / "private" / "tools" / programs["PREBUILT"] / machine_cpu()
    return all((compiled / name).is_file() for name in programs["MAIN"])


def look_ahead(  # noqa: PLR0913  (what, for whom and how)
    directory: Path, plan: Plan, chosen: Sequence[Variant], releases: Releases, choices: Choices, memory: int | None
) -> Ahead:
    """The expectations for a build.

    Args:
        directory: the directory of the project.
        plan: the plan of the project.
        chosen: the variants to build.
        releases: the releases to build for.
        releases: the releases to build for.
        choices: how to build.
        memory: the memory for all its actions together, in megabytes; None if unknown.
    """
    actions = _expected(directory, plan, chosen, releases, choices)
    history = known_history(plan.module) if kept_results().is_dir() else {}
    return Ahead(
        actions=actions, history=history, estimate=estimate(actions, history, jobs=choices.at_once(), memory=memory)
    )


def _expected(
    directory: Path, plan: Plan, chosen: Sequence[Variant], releases: Releases, choices: Choices
) -> list[ExpectedAction]:
    """The compile actions that a build will need."""
    chosen_settings = Settings(
        split=choices.split,
        whole=unsplit(chosen, releases.matrix),
        needed=(choices.headers or HEADERS) is Headers.NEEDED,
        gcc=choices.gcc,
        compress=choices.compression,
        standards={torch.version: torch.cxx_standard for torch in releases.matrix.torch},
        toolchains=releases.toolchain_digests,
        rules=rules_digest(),
    )
    return expected_actions(
        plan, chosen, {name: plan.path_of(directory, name).read_bytes() for name in plan.files}, chosen_settings
    )
