"""`driver variants`: lists the cells of a project, and why an arch or a cell is not built."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from py_driver.cli import VERBS, sentence
from py_driver.errors import ExitCode

if TYPE_CHECKING:
    import argparse

    from py_driver.cli import Subparsers
    from py_driver.output import Output
    from py_driver.plan import Plan, Variant


def add(subparsers: Subparsers) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("variants", help=VERBS["variants"], description=sentence("variants"))
    parser.add_argument(
        "directory", metavar="DIR", nargs="?", type=Path, default=Path(), help="the project (default: .)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--explain", action="store_true", help="say what is not built, and why")


def run(args: argparse.Namespace, output: Output) -> int:
    """Print the variants; the exit code.

    Raises:
        DriverError: all that `project.load` and `make_plan` raise.
    """
    from py_driver.plan import make_plan  # noqa: PLC0415  (`driver --help` needs none of these)
    from py_driver.project import load  # noqa: PLC0415
    from py_driver.variants.capabilities import order  # noqa: PLC0415
    from py_driver.variants.matrix import read_matrix  # noqa: PLC0415

    plan = make_plan(load(args.directory), read_matrix())
    if args.json:
        output.json(_as_json(plan))
        return ExitCode.OK
    rows = [
        [one.name, "yes" if one.bundled else "when named", " ".join(sorted(one.archs or (), key=order)) or "-"]
        for one in plan.variants
    ]
    output.table(["variant", "default", "archs"], rows)
    if args.explain:
        _explain(plan, output)
    return ExitCode.OK


def _dropped(plan: Plan, variant: Variant) -> list[dict[str, str]]:
    """The archs that the sections of a variant asked for and do not get."""
    return [
        {"section": group.name, "arch": dropped.arch, "reason": dropped.reason}
        for group in plan.groups
        if group.name in variant.groups and variant.cell.backend in group.archs
        for dropped in group.archs[variant.cell.backend].dropped
    ]


def _as_json(plan: Plan) -> dict[str, Any]:
    variants = [
        {
            "variant": one.name,
            "default": one.bundled,
            "torch": one.cell.torch,
            "abi": one.cell.abi,
            "backend": one.cell.backend,
            "archs": None if one.archs is None else list(one.archs),
            "dropped": _dropped(plan, one),
        }
        for one in plan.variants
    ]
    from py_driver.variants.names import spell  # noqa: PLC0415

    left = [{"variant": spell(one.cell), "reason": one.reason} for one in plan.left]
    notes = [
        {"file": one.span.file, "line": one.span.line, "column": one.span.column, "message": one.message}
        for one in plan.notes
    ]
    return {"name": plan.name, "variants": variants, "left": left, "notes": notes}


def _explain(plan: Plan, output: Output) -> None:
    """Print what is not built: archs, cells, and what the manifest has for other backends."""
    from py_driver.variants.names import spell  # noqa: PLC0415

    lines = dict.fromkeys(
        f"{one.cell.backend}: [kernel.{dropped['section']}] {dropped['arch']} is not built: {dropped['reason']}"
        for one in plan.variants
        for dropped in _dropped(plan, one)
    )
    lines |= dict.fromkeys(f"{spell(one.cell)} is not built: {one.reason}" for one in plan.left)
    lines |= dict.fromkeys(f"{one.span.file}:{one.span.line}:{one.span.column}: {one.message}" for one in plan.notes)
    output.data("")
    for line in lines or ["everything that build.toml asks for is built"]:
        output.data(line)
