"""The selection of a plan's variants, and the archives that they need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py_driver.errors import Code, Diagnostic, DriverError, error
from py_driver.matrix.backends import BUILT
from py_driver.matrix.configurations import CPUS, USUAL_CPU, spell
from py_driver.matrix.facts import facts
from py_driver.matrix.releases import openmp_file
from py_driver.matrix.select import ANY, means, narrow, select
from py_driver.matrix.torch_openmp import RUNTIME, key_of, read_file
from py_driver.plan.metadata import CXX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from py_driver.bazel.invocation import Choices
    from py_driver.fetch.entry import Entry
    from py_driver.matrix.lock import Lock
    from py_driver.matrix.matrix import Matrix
    from py_driver.matrix.releases import Releases
    from py_driver.matrix.select import Words
    from py_driver.plan.groups import Group
    from py_driver.plan.plan import Plan, Variant


def choose(plan: Plan, patterns: Sequence[str], words: Words = ANY) -> list[Variant]:
    """The variants of a plan that patterns and words select; without either the default variants.

    Args:
        plan: the plan of the project.
        patterns: globs of identifiers.
        words: torch releases, backends and CPUs; patterns match only variants that the words select.

    Raises:
        DriverError: NO_SUCH_VARIANT for a pattern or a word that matches nothing.
    """
    configurations = [variant.configuration for variant in plan.variants]
    default = {variant.configuration for variant in plan.variants if variant.default}
    cpus = words.cpus or plan.cpus
    near = [configuration for configuration in configurations if configuration.cpu in (None, *cpus)]
    far = [] if words.cpus else [configuration for configuration in configurations if configuration not in near]
    if not near and not (patterns and far):
        message = f"no variant is for the CPU `{cpus[0]}`"
        raise error(Code.NO_SUCH_VARIANT, message, help="`driver variants --explain` shows why")
    # On another CPU, a variant is a default one if it is on one of these.
    usual = {configuration._replace(cpu=None) for configuration in default}
    default |= {configuration for configuration in configurations if configuration._replace(cpu=None) in usual}
    is_default, others = (
        [configuration for configuration in near if (configuration in default) is wanted] for wanted in (True, False)
    )
    if words.torch or words.backends:
        is_default, others = narrow(words, is_default, others, default_first=not patterns)
        far = [configuration for configuration in far if means(words, configuration)]
    names, more = ([spell(configuration) for configuration in group] for group in (is_default, others))
    if patterns:
        rest = [
            [spell(configuration) for configuration in far if (configuration in default) is wanted]
            for wanted in (True, False)
        ]
        names = [*select(patterns, names, more, *rest)]
    elif words.torch or words.backends:
        names += more
    return [variant for variant in plan.variants if variant.name in names]


def unsplit(chosen: Iterable[Variant], matrix: Matrix) -> tuple[str, ...]:
    """The untested CUDA releases of variants: the phases of their nvcc are unknown."""
    asked = {variant.needs.backend for variant in chosen}
    untested = (toolkit for toolkit in matrix.toolkits if toolkit.backend in asked and not toolkit.tested)
    return tuple(toolkit.version for toolkit in untested if BUILT[toolkit.family].in_phases)


def check_split(chosen: Sequence[Variant], matrix: Matrix, choices: Choices) -> None:
    """Check that the device code of variants can be sliced, for which host and device code must be compiled separately.

    Args:
        chosen: the variants.
        matrix: the releases to build for.
        choices: the choices of the build.

    Raises:
        DriverError: USAGE if a variant cannot be sliced; NO_SUCH_VARIANT if no variant has device code.
    """
    if not any(variant.groups and variant.archs for variant in chosen):
        message = "none of the chosen variants has device code to slice"
        raise error(Code.NO_SUCH_VARIANT, message, help="choose a variant for CUDA or ROCm, or build without --slice")
    cuda = [variant for variant in chosen if variant.groups and variant.configuration.family == "cuda"]
    if cuda and not choices.split:
        message = "--slice: nvcc leaves device code in one object with the host code if it compiles monolithically"
        raise error(Code.USAGE, message, help="build with `--cuda-compile split`")
    if untested := unsplit(cuda, matrix):
        message = f"--slice: nvcc {untested[0]} compiles monolithically, as it is untested"
        raise error(Code.USAGE, message, help="choose variants of other CUDA releases with --variant")


def check_compression(chosen: Iterable[Variant], releases: Releases, compression: str) -> None:
    """Check that fatbinary of each CUDA release to build for supports the chosen compression.

    Args:
        chosen: the variants.
        releases: the releases to build for.
        compression: a value of `Compress`; empty for the default.

    Raises:
        DriverError: USAGE if a release does not.
    """
    if not compression:
        return
    asked = {variant.needs.backend for variant in chosen}
    known = facts("compression")["FATBINARY"]
    for row in releases.table["cuda"]:
        choices = known.get(row.get("compress-option"), ())
        if (backend := BUILT["cuda"].name_of(row["version"])) in asked and compression not in choices:
            message = f"fatbinary of CUDA {row['version']} cannot compress for `{compression}`"
            advice = f"choose {' or '.join(choices)}, or " if choices else ""
            raise error(Code.USAGE, f"--compress: {message}", help=f"{advice}build without {backend}")


def archives(
    plan: Plan, chosen: Sequence[Variant], lock: Lock, *, gcc: bool = False, read: bool = False
) -> list[Entry]:
    """The archives that building variants needs.

    Args:
        plan: the plan of the project.
        chosen: the variants.
        lock: the pinned archives.
        gcc: whether gcc compiles all C++, and not only sections with OpenMP.
        read: whether to return only archives whose contents enter the variants; see `Lock.entries_for`.

    Raises:
        DriverError: PLATFORM if no compiler runs on this machine; UNSUPPORTED if no compiler for a variant does.
    """
    linked = _linked(plan, chosen)
    if not read:
        _check_machine(chosen, lock)
    depends = [name for group in linked for name in group.depends]
    found = [*lock.entries_for((variant.needs for variant in chosen), read=read), *lock.library_entries(depends)]
    found += lock.cpython_entries(variant.python.key for variant in chosen if variant.python)
    ahead = {variant.triton for variant in chosen}
    found += lock.triton_entries(target.release for target in plan.triton if target.name in ahead)
    if linked and (gcc or any(group.openmp for group in linked)):
        found += lock.gcc_entries({variant.configuration.cpu or USUAL_CPU for variant in chosen})
    return list({entry.key: entry for entry in found}.values())


def made_from(plan: Plan, variant: Variant, metadata: Mapping[str, Any], lock: Lock) -> list[Entry]:
    """The archives that a built variant was made from, if the lock is unchanged since the build.

    Args:
        plan: the plan of the project.
        variant: a variant of the plan.
        metadata: the metadata.json of the variant.
        lock: the pinned archives.
    """
    return archives(plan, [variant], lock, gcc=CXX in metadata, read=True)


def _check_machine(chosen: Iterable[Variant], lock: Lock) -> None:
    """Check that compilers for variants run on this machine.

    Raises:
        DriverError: see `archives`.
    """
    if lock.machine not in CPUS:
        message = f"no locked compiler runs on this machine with the CPU {lock.machine}"
        raise error(Code.PLATFORM, message, help=f"build on a machine with one of {', '.join(CPUS)}")
    missing = lock.without_programs(variant.needs for variant in chosen)
    wrong = [
        Diagnostic(
            code=Code.UNSUPPORTED,
            message=f"the lock has no compiler for `{variant.name}` "
            f"that runs on this machine with the CPU {lock.machine}",
            help=f"build it on a machine with {USUAL_CPU}",
        )
        for variant in chosen
        if variant.needs.backend in missing
    ]
    if wrong:
        raise DriverError(wrong)


def other_openmp(plan: Plan, chosen: Iterable[Variant]) -> dict[str, str]:
    """The torch releases whose OpenMP runtime has another name than kernels with OpenMP need.

    Args:
        plan: the plan of the project.
        chosen: the variants.

    Returns:
        The name of the runtime in each release, by `key_of`; empty if unknown.
    """
    using = [variant for variant in chosen if any(group.openmp for group in _linked(plan, [variant]))]
    recorded = read_file(openmp_file()) if using else {}
    keys = [key_of(variant.needs.torch, variant.configuration.cpu) for variant in using if variant.needs.torch]
    names = {key: recorded.get(key, {}).get("soname", "") for key in keys}
    return {key: name for key, name in names.items() if name != RUNTIME}


def _linked(plan: Plan, chosen: Iterable[Variant]) -> list[Group]:
    """The sections that are compiled for variants."""
    names = {name for variant in chosen for name in variant.groups}
    return [group for group in plan.groups if group.name in names]
