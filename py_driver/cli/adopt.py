"""`driver adopt`: converts a project with a setup.py into a kernel with a build.toml."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.cli import add_command
from py_driver.cli.arguments import add_matrix, releases_of
from py_driver.cli.sources import add_hash, located
from py_driver.errors import ExitCode
from py_driver.output import counted, printable
from py_driver.recording.source_archive import Source

if TYPE_CHECKING:
    import argparse

    from py_driver.cli import Subparsers
    from py_driver.output import Output


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(
        subparsers,
        "adopt",
        "my-extension",
        "causal-conv1d==1.7.0 --output causal-conv1d",
        more="The kernel is compiled with the flags, macros and architectures of setup.py; functions that it binds "
        "become ops. What could not be converted is listed; exit code 1 if that is a function.",
    )
    parser.add_argument(
        "directory", metavar="DIR", type=Path, help="directory with a setup.py, or a release of the package index"
    )
    parser.add_argument(
        "--output",
        metavar="DIR",
        type=Path,
        help="write the kernel to DIR (default: DIR-kernel, or the name of the release)",
    )
    parser.add_argument("--force", action="store_true", help="overwrite files in the directory of the kernel")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_hash(parser)
    add_matrix(parser)


def run(args: argparse.Namespace, output: Output) -> int:
    """Write the kernel; returns the exit code.

    Raises:
        DriverError: see `located`, `adopted` and `write_adoption`.
    """
    from py_driver.adopting.recorded_project import adopted
    from py_driver.adopting.written_kernel import check_target, write_adoption

    [word] = located([args.directory], args.hash, output)
    source = word if isinstance(word, Source) else None
    directory = word.directory if isinstance(word, Source) else word
    target = args.output or (Path(source.name) if source else _beside(directory))
    check_target(directory, target, force=args.force)
    releases = releases_of(args)
    shown = f"{source.name}-{source.version}" if source else str(directory)
    adoption = adopted(directory, releases, output, shown)
    losses = [*adoption.losses, *write_adoption(adoption, target, releases)]
    missing = any(loss.missing for loss in losses)
    if args.json:
        values = {"directory": str(target), "name": adoption.name, "ops": list(adoption.ops)}
        output.json({**values, "losses": [loss.as_json() for loss in losses], "errors": []})
    else:
        for loss in sorted(losses, key=lambda loss: not loss.missing):
            kind = "not carried over" if loss.missing else "note"
            where = f"{loss.place}: " if loss.place else ""
            output.say(printable(f"{kind}: {where}{loss.reason}; {loss.advice}"))
        output.say(
            printable(f"{target} has {counted(len(adoption.files), 'file')}, {counted(len(adoption.ops), 'op')}")
        )
        output.data(printable(str(target)))
    return ExitCode.DIFFERENCE if missing else ExitCode.OK


def _beside(directory: Path) -> Path:
    """The default directory of the kernel."""
    resolved = directory.resolve()
    return resolved.with_name(f"{resolved.name}-kernel")
