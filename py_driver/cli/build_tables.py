"""Tables and JSON of builds: their estimates and results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py_driver.output import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from py_driver.actions.estimate import Estimate
    from py_driver.building.build import Built, Prepared
    from py_driver.building.dry_run import Planned
    from py_driver.cli.projects import Outcome
    from py_driver.output import Output

HEADER = ("variant", "size", "GPU archs", "run", "shared", "cached", "seconds")
"""The columns of the table of a build."""

NUMBERS = (1, 3, 4, 5, 6)
"""The columns of the table that hold numbers."""


def figures(variants: Sequence[Built], archs: str, size: int | None = None) -> list[str]:
    """The columns after the first for several variants together.

    Args:
        variants: the built variants.
        archs: the text of the column of GPU architectures.
        size: the size in bytes; the sum of the variants' sizes if None.
    """
    counts = (sum(getattr(variant.actions, kind) for variant in variants) for kind in ("run", "shared", "cached"))
    seconds = sum(variant.actions.seconds for variant in variants)
    total = sum(variant.size for variant in variants) if size is None else size
    return [f"{total / 1000:.1f} kB", archs, *map(str, counts), f"{seconds:.1f}"]


def actions_as_json(variants: Sequence[Built]) -> dict[str, Any]:
    """The actions of several variants together as values for JSON: their counts and seconds."""
    counts = ("run", "shared", "cached")
    return {
        "actions": {kind: sum(getattr(variant.actions, kind) for variant in variants) for kind in counts},
        "seconds": round(sum(variant.actions.seconds for variant in variants), 3),
    }


def estimate_as_json(ahead: Estimate) -> dict[str, Any]:
    """An estimate of a build as a value for JSON."""
    return {
        "run": ahead.run,
        "shared": ahead.shared,
        "cached": ahead.cached,
        "seconds": round(ahead.seconds, 1),
        "memory-mb": ahead.memory,
        "measured": ahead.measured,
    }


def show_plan(  # noqa: PLR0913  (the plan, and how it is shown)
    expected: Estimate,
    planned: Sequence[Planned],
    failed: Sequence[Outcome[Prepared]],
    args: argparse.Namespace,
    output: Output,
    *,
    alone: bool,
) -> None:
    """Print the plan of a build.

    Args:
        expected: the estimate for all projects together.
        planned: the estimate for each project.
        failed: the projects that cannot be planned.
        args: the command line.
        output: where to print.
        alone: whether there is only one project.
    """
    rows = [(plan.directory, variant, part) for plan in planned for variant, part in plan.variants]
    if args.json:
        variants = [
            {
                "directory": str(directory),
                "variant": variant.name,
                "archs": list(variant.archs or ()),
                "actions": {"run": part.run, "shared": part.shared, "cached": part.cached},
                "seconds": round(part.seconds, 1),
            }
            for directory, variant, part in rows
        ]
        errors = [outcome.as_json(lambda _: {}) for outcome in failed]
        output.json(
            {"plan": estimate_as_json(expected), "variants": variants, **({"projects": errors} if errors else {})}
        )
    elif rows:
        header = (*([] if alone else ["project"]), "variant", *HEADER[2:])
        first = [[] if alone else [printable(str(directory))] for directory, _, _ in rows]
        table = [
            [*own, variant.name, variant.shown_archs, *map(str, part[:3]), f"{part.seconds:.1f}"]
            for own, (_, variant, part) in zip(first, rows, strict=True)
        ]
        output.table(header, table, right=tuple(range(len(header) - 4, len(header))))
