"""`driver variants`: lists the variants of a project, and why architectures and variants are excluded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.cli import add_command
from py_driver.cli.arguments import add_variants, releases_of, words_of
from py_driver.cli.bindings import EVERY, add_bindings, all_pythons, bindings_of, pythons_of_build_toml
from py_driver.cli.projects import exit_code, for_each, projects_of, summary
from py_driver.errors import ExitCode
from py_driver.output import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from py_driver.cli import Subparsers
    from py_driver.matrix.releases import Releases
    from py_driver.matrix.select import Words
    from py_driver.matrix.toolkits import Archs
    from py_driver.output import Output
    from py_driver.plan.for_pythons import Pythons
    from py_driver.plan.plan import Plan, Variant

_HEADER = ("variant", "default", "archs")
_WHEEL = "wheel"


class _Listed(NamedTuple):
    """The variants of a project to list.

    Attributes:
        plan: the plan with the variants.
        wheels: the wheels that contain each variant, by its name, if the project is bound by pybind11; else None.
    """

    plan: Plan
    wheels: Mapping[str, Sequence[str]] | None = None


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(subparsers, "variants", "relu --torch 2.13 --backend cuda", "relu --explain")
    add_variants(parser, "the default variants", several=True)
    parser.add_argument("--all", action="store_true", help="also list variants that are built only on request")
    parser.add_argument("--json", action="store_true", help="print all variants as JSON")
    parser.add_argument(
        "--explain",
        action="store_true",
        help="show the requested, built and excluded architectures of each section, with reasons",
    )
    add_bindings(parser, EVERY)


def run(args: argparse.Namespace, output: Output) -> int:
    """Print the variants; returns the exit code.

    Raises:
        DriverError: what `plan_directory` and `_for_pythons` raise; USAGE for options that have no meaning with a
            build.toml; with several projects only errors that concern all.
    """
    from py_driver.plan.plan import plan_directory

    projects = projects_of(args)
    releases = releases_of(args)
    words = words_of(args, several=projects is not None)
    pythons = bindings_of(args, releases.matrix, all_pythons).pythons if pythons_of_build_toml(args) else None

    def planned(path: Path) -> _Listed:
        if pythons is not None:
            return _for_pythons(path, releases, words, pythons, args)
        plan = plan_directory(path, releases, strict_archs=args.strict_archs)
        return _Listed(_narrowed(plan, args.variant, words) if words.given or args.variant else plan)

    header = [*_HEADER, *([] if pythons is None else [_WHEEL])]
    if projects is None:
        listed = planned(args.directories[0])
        if args.json:
            output.json(_as_json(listed))
        else:
            output.table(header, _rows(listed, args))
            _show_rest([listed], args, output)
        return ExitCode.OK
    outcomes = for_each(projects, planned, output)
    if args.json:
        output.json({"projects": [outcome.as_json(_as_json) for outcome in outcomes]})
    else:
        found = [(str(outcome.directory), outcome.value) for outcome in outcomes if outcome.value]
        if found:
            rows = [[printable(name), *row] for name, listed in found for row in _rows(listed, args)]
            output.table(["project", *header], rows)
        _show_rest([listed for _, listed in found], args, output)
        output.say(summary(outcomes, "planned"))
    return exit_code(outcomes)


def _for_pythons(
    directory: Path, releases: Releases, words: Words, pythons: Pythons, args: argparse.Namespace
) -> _Listed:
    """The variants that `driver wheel --binding pybind` builds of a project, and their wheels.

    Args:
        directory: the directory of the project.
        releases: the releases to build for.
        words: the selection of the command line, besides globs.
        pythons: the Pythons to build for.
        args: the command line.

    Raises:
        DriverError: what reading the project raises; NO_SUCH_VARIANT; UNSUPPORTED for a project that pybind11 cannot
            bind, or
            for variants for several CPUs.
    """
    from py_driver.building.selection import choose
    from py_driver.plan.for_pythons import for_pythons
    from py_driver.plan.plan import make_plan
    from py_driver.plan.project import load
    from py_driver.publishing.python_wheels import python_wheels

    project = load(directory, releases, pybind=True)
    plan = make_plan(project, releases.matrix, strict_archs=args.strict_archs)
    every = args.all and not args.variant
    chosen = _narrowed(plan, (), words).variants if every else choose(plan, args.variant, words)
    plan = for_pythons(plan, chosen, releases.matrix, pythons)
    wheels: dict[str, list[str]] = {}
    for wheel in python_wheels(project.manifest, plan.variants):
        for variant in wheel.variants:
            wheels.setdefault(variant.name, []).append(wheel.name)
    return _Listed(plan, wheels)


def _narrowed(plan: Plan, patterns: Sequence[str], words: Words) -> Plan:
    """A plan with the variants that patterns select, or with those that words select, by default and on request.

    Raises:
        DriverError: NO_SUCH_VARIANT for a pattern or a word that matches nothing.
    """
    from py_driver.building.selection import choose
    from py_driver.matrix.select import means

    chosen = choose(plan, patterns, words)
    if patterns:
        return plan._replace(variants=tuple(chosen))
    cpus = {variant.configuration.cpu for variant in chosen}
    variants = [
        variant
        for variant in plan.variants
        if variant.configuration.cpu in cpus and means(words, variant.configuration)
    ]
    return plan._replace(variants=tuple(variants))


def _shown(listed: _Listed, args: argparse.Namespace) -> list[Variant]:
    """The default variants of a project; all with `--all` or patterns, in wheels, or if there is no default variant."""
    plan, wheels = listed
    default = [variant for variant in plan.variants if variant.default]
    every = args.all or args.variant or wheels is not None or not default
    return list(plan.variants) if every else default


def _rows(listed: _Listed, args: argparse.Namespace) -> list[list[str]]:
    """The rows of the table, for the variants of a project."""
    rows = []
    for variant in _shown(listed, args):
        row = [variant.name, "yes" if variant.default else "on request", variant.shown_archs]
        rows += [row] if listed.wheels is None else [[*row, wheel] for wheel in listed.wheels[variant.name]]
    return rows


def _show_rest(projects: Sequence[_Listed], args: argparse.Namespace, output: Output) -> None:
    """Print what follows the table: the number of variants that are not in it, and explanations of the plans."""
    if more := sum(len(listed.plan.variants) - len(_shown(listed, args)) for listed in projects):
        output.say(f"{more} more on request: `driver variants --all` lists them")
    for listed in projects if args.explain else ():
        if len(projects) > 1:
            output.data(f"\n{listed.plan.name}")
        _explain(listed.plan, _shown(listed, args), output)


def _sections(plan: Plan, variant: Variant) -> list[tuple[str, Archs]]:
    """The kernel sections of a variant for GPUs, each with its architectures."""
    groups = {group.name: group for group in plan.groups}
    found = [(name, groups[name].archs.get(variant.configuration.backend)) for name in variant.groups]
    return [(name, archs) for name, archs in found if archs is not None]


def _as_json(listed: _Listed) -> dict[str, Any]:
    from py_driver.matrix.configurations import spell

    plan, wheels = listed
    variants = [
        {
            "variant": variant.name,
            "default": variant.default,
            "torch": variant.configuration.torch,
            "abi": variant.configuration.abi,
            "tvm-ffi": variant.configuration.tvm_ffi,
            "backend": variant.configuration.backend,
            "archs": None if variant.archs is None else list(variant.archs),
            "sections": [
                {
                    "section": name,
                    "requested": list(archs.requested),
                    "kept": list(archs.kept),
                    "dropped": [{"arch": dropped.arch, "reason": dropped.reason} for dropped in archs.dropped],
                }
                for name, archs in _sections(plan, variant)
            ],
            **({} if wheels is None else {"wheels": wheels[variant.name]}),
        }
        for variant in plan.variants
    ]
    excluded = [{"variant": spell(exclusion.configuration), "reason": exclusion.reason} for exclusion in plan.excluded]
    return {"name": plan.name, "variants": variants, "left": excluded, "notes": [note.as_json() for note in plan.notes]}


def _explain(plan: Plan, shown: Sequence[Variant], output: Output) -> None:
    """Print requested and built architectures of the shown variants, grouped if equal, then excluded variants."""
    from py_driver.matrix.configurations import spell

    alike: dict[tuple[str, ...], list[str]] = {}
    for variant in shown:
        if variant.groups:
            alike.setdefault(tuple(_archs_of(plan, variant)), []).append(variant.name)
    for lines, names in alike.items():
        for line in ("", *names, *lines):
            output.data(line)
    rest = [f"{spell(excluded.configuration)}: {excluded.reason}" for excluded in plan.excluded]
    rest += [printable(str(note)) for note in plan.notes]
    if rest:
        for line in ("", "excluded variants, and notes:", *(f"  {note}" for note in rest)):
            output.data(line)


def _archs_of(plan: Plan, variant: Variant) -> list[str]:
    """The lines that explain a variant's architectures."""
    lines = []
    titles = {group.name: group.title for group in plan.groups}
    for name, archs in _sections(plan, variant):
        lines.append(f"  {titles[name]}")
        lines.append(f"    requested  {' '.join(archs.requested)}")
        lines.append(f"    kept       {' '.join(archs.kept)}")
        lines += [f"    excluded   {dropped.arch}: {dropped.reason}" for dropped in archs.dropped]
    return lines or ["  no device code"]
