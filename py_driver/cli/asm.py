"""`driver asm`: the machine code of a kernel, and the GPU resources that it uses."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from py_driver.building.variant_dir import DEV
from py_driver.cli import add_command
from py_driver.cli.arguments import add_directory, add_matrix, releases_of
from py_driver.cli.run import check_project, local_choices
from py_driver.errors import Code, ExitCode, error

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from py_driver.cli import Subparsers
    from py_driver.inspecting.assembly import Kernel
    from py_driver.inspecting.code_build import CodeBuild
    from py_driver.inspecting.disassembler import Disassembler
    from py_driver.output import Output

_HEADER = ("function", "arch", "registers", "shared", "stack", "spills", "instructions", "mix")
_NUMBERS = (2, 3, 4, 5, 6)
_KINDS = ("tensor cores", "copies without registers", "memory", "arithmetic")
"""The kinds of instructions in the table."""


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    from py_driver.cli.build import add_how, archs_of

    parser = add_command(subparsers, "asm", "--diff HEAD~1", ". relu_kernel --source --archs 9.0")
    add_directory(parser)
    parser.add_argument(
        "function",
        metavar="FUNCTION",
        nargs="?",
        help="show the code of this function, by its name or a part of it (default: list all functions)",
    )
    show, select = parser.group("show"), parser.group("select")
    form = show.add_mutually_exclusive_group()
    form.add_argument("--sass", action="store_true", help="show SASS, the machine code (default)")
    form.add_argument("--ptx", action="store_true", help="show PTX, the source of the machine code")
    form.add_argument("--source", action="store_true", help="show SASS interleaved with source lines")
    show.add_argument(
        "--diff",
        metavar="ID|REV",
        help="compare with an earlier build in .dev/, by its id, or with another revision of the project, e.g. HEAD~1",
    )
    select.add_argument(
        "--variant",
        metavar="GLOB",
        default="",
        help="inspect this variant (default: the variant for this machine's GPU; without a GPU the newest)",
    )
    select.add_argument(
        "--archs",
        metavar="LIST",
        type=archs_of,
        help="build for these GPU architectures, e.g. 9.0 (default: this machine's; without a GPU the latest)",
    )
    add_matrix(select)
    add_how(parser)
    parser.group("report").add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace, output: Output) -> int:
    """Show code; returns the exit code.

    Raises:
        DriverError: NO_SUCH_VARIANT if there is no CUDA code; USAGE if no function has the name; see `code_build`.
    """
    from py_driver.inspecting.assembly import matching
    from py_driver.inspecting.disassembler import Disassembler

    check_project(args.directory)
    if args.function is None and (args.ptx or args.sass or args.source):
        raise error(Code.USAGE, "no FUNCTION is given to show", help="list the functions: driver asm DIR")
    if args.diff is not None and (args.ptx or args.source):
        option = "--ptx" if args.ptx else "--source"
        raise error(Code.USAGE, f"--diff compares machine code; it cannot be combined with {option}")
    build = _built(args, args.directory, output)
    tools = Disassembler(output)
    kernels = tools.kernels(build.path, lines=args.source)
    chosen = matching(kernels, args.function) if args.function is not None else kernels
    if not chosen:
        advice = f"there are {', '.join(dict.fromkeys(kernel.plain for kernel in kernels))}"
        raise error(Code.USAGE, f"no function has `{args.function}` in its name", help=advice)
    if args.diff is not None:
        return _compare(args, chosen, tools, output)
    text = _text(args, build, chosen, tools) if args.function is not None else []
    if args.json:
        found = [section.as_json() for section in chosen]
        for value, code in zip(found, text, strict=False):
            value["code"] = code
        output.json({"variant": build.variant, "archs": [*build.archs], "functions": found})
    elif args.function is None or len({section.plain for section in chosen}) > 1:
        output.table(_HEADER, [_row(section) for section in chosen], right=_NUMBERS)
        output.say(f"{build.variant}; for its code name one function")
    else:
        for section, code in zip(chosen, text, strict=True):
            output.data(f"// {section.name}, {section.arch}: {_summary(section)}")
            output.data(code.rstrip("\n"))
    return ExitCode.OK


def _built(args: argparse.Namespace, directory: Path, output: Output) -> CodeBuild:
    """Build the code to show."""
    from py_driver.cli.build import named_archs
    from py_driver.inspecting.code_build import code_build

    return code_build(
        directory,
        releases_of(args),
        output,
        local_choices(args),
        pattern=args.variant,
        archs=named_archs(args),
        lines=args.source,
    )


def _text(args: argparse.Namespace, build: CodeBuild, chosen: Sequence[Kernel], tools: Disassembler) -> list[str]:
    """The code of functions, in the requested form."""
    from py_driver.inspecting.assembly import ptx_of, with_source

    if args.ptx:
        texts = tools.ptx(build.path)
        seen = Counter[tuple[str, str]]()
        found = []
        for section in chosen:
            found.append(ptx_of(texts.get(section.arch, ""), section.symbol, seen[section.arch, section.symbol]))
            seen[section.arch, section.symbol] += 1
        return found
    if args.source:
        lines = {
            name: (args.directory / name).read_text(encoding="utf-8", errors="replace").splitlines()
            for name in build.sources
            if (args.directory / name).is_file()
        }
        return [with_source(section.sass, lines) for section in chosen]
    return [section.sass for section in chosen]


def _compare(args: argparse.Namespace, chosen: Sequence[Kernel], tools: Disassembler, output: Output) -> int:
    """Show the differences from another build; DIFFERENCE if there are any."""
    from py_driver.inspecting.assembly import difference, matching, pairs
    from py_driver.publishing.git import checked_out

    with ExitStack() as places:
        earlier = (
            sorted((args.directory / DEV / args.diff).glob("*/metadata.json")) if args.diff.startswith("_") else []
        )
        if earlier:
            path = earlier[0].parent
        else:
            path = _built(args, places.enter_context(checked_out(args.directory, args.diff)), output).path
        old = tools.kernels(path)
    if args.function is not None:
        old = matching(old, args.function)
    rows, code = [], []
    for before, after in pairs(old, chosen):
        kernel = after or before
        assert kernel is not None  # noqa: S101  (at least one of the two exists)
        changes = _changes(before, after)
        if before and after:
            text = difference(before.sass, after.sass, (f"{args.diff}:{before.name}", after.name))
            code += [text] if text and args.function is not None else []
            changes = changes or (["other instructions"] if text else [])
        rows.append([kernel.plain, kernel.arch, ", ".join(changes) or "same"])
    differs = any(row[2] != "same" for row in rows)
    if args.json:
        output.json({"functions": [dict(zip(("name", "arch", "change"), row, strict=True)) for row in rows]})
    else:
        output.table(("function", "arch", "change"), rows)
        for text in code:
            output.data(text)
    return ExitCode.DIFFERENCE if differs else ExitCode.OK


def _changes(before: Kernel | None, after: Kernel | None) -> list[str]:
    """The differences between two builds of a function, for people."""
    if before is None or after is None:
        return ["new" if before is None else "gone"]
    found = []
    for name in ("registers", "shared", "stack", "spills", "instructions"):
        old, new = getattr(before, name), getattr(after, name)
        found += [f"{name} {old} -> {new}"] if old != new else []
    counts: list[dict[str, Any]] = [
        {k: n for kind in section.mix.values() for k, n in kind.items()} for section in (before, after)
    ]
    for name in dict.fromkeys([*counts[0], *counts[1]]):
        old, new = (count.get(name, 0) for count in counts)
        found += [f"{name} {old} -> {new}"] if old != new else []
    return found


def _row(kernel: Kernel) -> list[str]:
    """A function as a row of the table."""
    numbers = (kernel.registers, kernel.shared, kernel.stack, kernel.spills, kernel.instructions)
    return [kernel.plain, kernel.arch, *map(str, numbers), _mix(kernel)]


def _summary(kernel: Kernel) -> str:
    """A function on one line."""
    memory = f"{kernel.shared} bytes of shared memory, {kernel.stack} of stack, {kernel.spills} spills"
    return f"{kernel.registers} registers, {memory}, {kernel.instructions} instructions"


def _mix(kernel: Kernel) -> str:
    shown = (f"{name} {count}" for kind in _KINDS for name, count in kernel.mix.get(kind, {}).items())
    return ", ".join(shown)
