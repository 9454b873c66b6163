"""`driver cache serve`: a remote cache for this user's builds on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.cli import COMMANDS, sentence
from py_driver.cli.build import positive

if TYPE_CHECKING:
    from py_driver.cli import Subparsers
    from py_driver.output import Output

_SIZE = 20


def port(text: str) -> int:
    """A number of a port from the command line."""
    if not (text.isascii() and text.isdigit() and 0 < int(text[:6]) < 1 << 16):
        raise argparse.ArgumentTypeError(f"`{text}` is not a number from 1 to 65535")
    return int(text)


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = subparsers.add_parser("cache", help=COMMANDS["cache"], description=sentence("cache"))
    parser.add_argument("action", choices=["serve"], help="serve until Ctrl-C")
    parser.add_argument(
        "--port",
        metavar="N",
        type=port,
        help="also listen on this loopback port, for processes of this user (default: listen on a socket only)",
    )
    parser.add_argument(
        "--directory", metavar="DIR", type=Path, help="keep results there (default: `served` in the driver's cache)"
    )
    parser.add_argument(
        "--size",
        metavar="GB",
        type=positive,
        default=_SIZE,
        help=f"keep at most this many gigabytes (default: {_SIZE})",
    )
    parser.add_argument(
        "--execute", action="store_true", help="run actions too, each in a root of its own, with bubblewrap"
    )
    parser.add_argument(
        "--jobs", metavar="N", type=positive, help="run at most N actions at once (default: one for each processor)"
    )


def run(args: argparse.Namespace, output: Output) -> int:
    """Serve; the server's exit code.

    Raises:
        DriverError: see `py_driver.bazel.cache_server.serve`.
    """
    import os  # noqa: PLC0415  (`driver --help` needs none of these)

    from py_driver.bazel.cache_server import Serving, serve  # noqa: PLC0415
    from py_driver.system.cache import cache_root  # noqa: PLC0415

    serving = Serving(
        directory=(args.directory or cache_root() / "served").absolute(),
        port=args.port,
        size=args.size,
        execute=args.execute,
        jobs=args.jobs or os.cpu_count() or 1,
    )
    return serve(serving, output)
