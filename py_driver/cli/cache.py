"""`driver cache`: shows and removes the contents of the driver's cache, and serves a remote cache for this user."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.cli import add_command
from py_driver.cli.arguments import add_matrix, releases_of
from py_driver.cli.build import positive
from py_driver.errors import Code, ExitCode, error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from py_driver.cache.contents import Part
    from py_driver.cli import Parser, Subparsers
    from py_driver.output import Output

_SIZE = 20
_MEGABYTE = 1e6

_ACTIONS = {
    "info": "list the parts of the cache with their sizes, and what can be removed",
    "prune": "remove unused contents: archives no longer pinned, toolchains of deleted checkouts",
    "clean": "remove unused contents and all build results; keep pinned archives, Bazel and Python environments",
    "serve": "serve a remote cache on this machine until Ctrl-C",
}


def port(text: str) -> int:
    """A port number from the command line."""
    if not (text.isascii() and text.isdigit() and 0 < int(text[:6]) < 1 << 16):
        raise argparse.ArgumentTypeError(f"`{text}` is not a number from 1 to 65535")
    return int(text)


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(subparsers, "cache", "info", "prune --dry-run")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    parsers = {
        name: actions.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        for name, summary in _ACTIONS.items()
    }
    for name in ("info", "prune", "clean"):
        parsers[name].add_argument("--json", action="store_true", help="print the result as JSON")
        add_matrix(parsers[name])
    for name in ("prune", "clean"):
        parsers[name].add_argument("--dry-run", action="store_true", help="list what would be removed; remove nothing")
    _add_serve(parsers["serve"])


def _add_serve(parser: Parser) -> None:
    parser.add_argument(
        "--port",
        metavar="N",
        type=port,
        help="also listen on this loopback port, for processes of this user (default: only on a socket)",
    )
    parser.add_argument(
        "--directory",
        metavar="DIR",
        type=Path,
        help="directory of the results (default: `served` in the driver's cache)",
    )
    parser.add_argument(
        "--size",
        metavar="GB",
        type=positive,
        default=_SIZE,
        help=f"keep at most this many gigabytes (default: {_SIZE})",
    )
    parser.add_argument(
        "--execute", action="store_true", help="also run actions, each in its own root, with bubblewrap"
    )
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=positive,
        help="with --execute, run at most N actions at once (default: the number of processors)",
    )


def run(args: argparse.Namespace, output: Output) -> int:
    """Show, remove or serve; returns the exit code.

    Raises:
        DriverError: see `py_driver.cache.contents.free` and `py_driver.cache.server.serve`.
    """
    if args.action == "serve":
        return _serve(args, output)
    from py_driver.cache.contents import contents, free
    from py_driver.system.cache import cache_root

    root = cache_root()
    parts = contents(root, releases_of(args).lock)
    chosen = {"info": [], "prune": [_spare], "clean": [_spare, _made]}[args.action]
    paths = [path for part in parts for choice in chosen for path in choice(part)]
    described = [_described(part) for part in parts] if args.json else []
    freed = 0
    if paths and not getattr(args, "dry_run", False):
        with output.task("removing") as task:
            freed = free(root, paths)
            task.done(f"{len(paths)} files and directories, {_megabytes(freed)}")
    if args.json:
        output.json({"directory": str(root), "freed": freed, "parts": described})
        return ExitCode.OK
    if args.action == "info":
        _show(root, parts, output)
    elif args.dry_run:
        for path in paths:
            output.data(str(path))
    elif not paths:
        output.say("nothing to remove")
    return ExitCode.OK


def _spare(part: Part) -> Sequence[Path]:
    return part.spare


def _made(part: Part) -> Sequence[Path]:
    return part.made


def _described(part: Part) -> dict[str, object]:
    """A part of the cache as JSON."""
    from py_driver.cache.contents import size_of

    return {
        "name": part.name,
        "what": part.what,
        "bytes": part.size,
        "prune": {"bytes": size_of(part.spare), "paths": [str(path) for path in part.spare]},
        "clean": {"bytes": size_of(part.made), "paths": [str(path) for path in part.made]},
    }


def _show(root: Path, parts: Sequence[Part], output: Output) -> None:
    from py_driver.cache.contents import size_of

    spare, restorable = ([size_of(choice(part)) for part in parts] for choice in (_spare, _made))
    totals = [sum(part.size for part in parts), sum(spare), sum(spare) + sum(restorable)]
    rows = [
        [part.name, *map(_megabytes, (part.size, less, less + more)), part.what]
        for part, less, more in zip(parts, spare, restorable, strict=True)
    ]
    output.table(
        ["part", "size", "prune frees", "clean frees", "what it is"],
        [*rows, ["total", *map(_megabytes, totals), str(root)]],
        right=(1, 2, 3),
    )


def _megabytes(size: int) -> str:
    return f"{size / _MEGABYTE:.1f} MB" if size else "-"


def _serve(args: argparse.Namespace, output: Output) -> int:
    """Serve a cache until Ctrl-C; returns the exit code.

    Raises:
        DriverError: USAGE for --jobs without --execute; see `serve`.
    """
    import os

    from py_driver.cache.server import Serving, serve
    from py_driver.system.cache import cache_root

    if args.jobs is not None and not args.execute:
        raise error(Code.USAGE, "--jobs is for the actions of --execute", help="add --execute")
    serving = Serving(
        directory=(args.directory or cache_root() / "served").absolute(),
        port=args.port,
        size=args.size,
        execute=args.execute,
        jobs=args.jobs or os.cpu_count() or 1,
    )
    return serve(serving, output)
