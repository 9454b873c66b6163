"""The command line for repository rules."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from py_driver.errors import Code, DriverError, ExitCode, error
from py_driver.fetch.entry import parse_entry
from py_driver.fetch.fetcher import Fetcher
from py_driver.fetch.unpacking import Selection, unpack
from py_driver.output import Output

if TYPE_CHECKING:
    from collections.abc import Sequence


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise error(Code.USAGE, f"{self.prog}: {message}", help=f"see `{self.prog} --help`")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line.

    Args:
        arguments: the command line (default: the process's own).

    Returns:
        The exit code, by the class of the error.
    """
    output = Output()
    try:
        _get(_parser().parse_args(arguments), output)
    except DriverError as failure:
        output.fail(failure)
        return failure.exit_code
    except OSError as wrong:
        output.fail(error(Code.SET_UP, f"the machine refused: {wrong}"))
        return ExitCode.ENVIRONMENT
    except KeyboardInterrupt:
        output.fail(error(Code.INTERRUPTED, "interrupted", help="run it again to continue"))
        return ExitCode.INTERRUPT
    return ExitCode.OK


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="fetch", description="Fetch pinned archives into the cache and unpack them.")
    commands = parser.add_subparsers(dest="command", required=True)
    get = commands.add_parser("get", help="fetch an archive and unpack it")
    get.add_argument("--mirror", type=Path, help="directory of archives to search first")
    get.add_argument("--entry", required=True, help="the lock entry, as JSON")
    get.add_argument("--dest", type=Path, required=True, help="directory to unpack into")
    get.add_argument("--strip-prefix", default="", help="directory to strip from the names")
    get.add_argument(
        "--include", action="append", default=[], help="file or directory to unpack; repeatable (default: all)"
    )
    get.add_argument("--exclude", action="append", default=[], help="file or directory not to unpack; repeatable")
    return parser


def _get(options: argparse.Namespace, output: Output) -> None:
    try:
        value = json.loads(options.entry)
    except ValueError as wrong:
        raise error(Code.USAGE, f"--entry is not JSON: {wrong}") from wrong
    if not isinstance(value, dict):
        raise error(Code.USAGE, "--entry is not a JSON object")
    entry = parse_entry(value)
    fetched = Fetcher(mirror=options.mirror).fetch(entry)
    if fetched.replaced:
        output.warn(fetched.warning)
    unpack(
        fetched.path,
        entry,
        options.dest,
        Selection(include=tuple(options.include), exclude=tuple(options.exclude), strip_prefix=options.strip_prefix),
    )
    answer = {
        "bytes_fetched": fetched.bytes_fetched,
        "from": fetched.source,
        "seconds": round(fetched.seconds, 3),
    }
    output.data(json.dumps(answer))
