"""The command line for repository rules and for writing locks."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from py_driver.errors import Code, DriverError, ExitCode, error
from py_driver.fetch.debian import resolve_debian
from py_driver.fetch.entry import parse_entry
from py_driver.fetch.fetcher import Fetcher
from py_driver.fetch.resolution import resolve, resolve_slim
from py_driver.fetch.unpacking import Selection, unpack
from py_driver.output import Output

if TYPE_CHECKING:
    from collections.abc import Sequence


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise error(Code.USAGE, f"{self.prog}: {message}", help=f"see `{self.prog} --help`")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb.

    Args:
        arguments: the command line (default: the process's own).

    Returns:
        The exit code, by the class of the error.
    """
    output = Output()
    try:
        _run(_parser().parse_args(arguments), output)
    except DriverError as failure:
        output.fail(failure)
        return failure.exit_code
    except OSError as wrong:
        output.fail(error(Code.SET_UP, f"the machine refused: {wrong}"))
        return ExitCode.ENVIRONMENT
    except KeyboardInterrupt:
        output.fail(error(Code.INTERRUPTED, "interrupted", help="run it again: it goes on where it was"))
        return ExitCode.INTERRUPT
    return ExitCode.OK


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="fetch", description="Fetch pinned archives into the cache and unpack them.")
    parser.add_argument("--mirror", type=Path, help="directory with archives to look into first")
    verbs = parser.add_subparsers(dest="verb", required=True)
    get = verbs.add_parser("get", help="fetch an archive and unpack it")
    get.add_argument(
        "--mirror", type=Path, default=argparse.SUPPRESS, help="directory with archives to look into first"
    )
    get.add_argument("--entry", required=True, help="the lock entry, as JSON")
    get.add_argument("--dest", type=Path, required=True, help="directory to unpack into")
    get.add_argument("--strip-prefix", default="", help="directory to take off the names")
    get.add_argument("--include", action="append", default=[], help="file or directory to unpack; may be given again")
    get.add_argument("--exclude", action="append", default=[], help="one not to unpack; may be given again")
    wheel = verbs.add_parser("resolve", help="print the lock entry of a wheel")
    wheel.add_argument("name")
    wheel.add_argument("version")
    wheel.add_argument("--python-tag", default="py3", help="e.g. cp312 (default: py3)")
    wheel.add_argument("--cpu", default="x86_64", help="as in platform tags (default: x86_64)")
    wheel.add_argument("--slim", action="store_true", help="pin some members only; needs --include")
    wheel.add_argument("--include", action="append", default=[], help="prefix of members wanted; may be given again")
    wheel.add_argument("--exclude", action="append", default=[], help="regular expression of members not wanted")
    deb = verbs.add_parser("resolve-deb", help="print the lock entries of Debian packages, one a line")
    deb.add_argument("names", nargs="+")
    deb.add_argument("--suite", required=True, help="e.g. bookworm")
    deb.add_argument("--component", action="append", default=[], help="default: main; may be given again")
    deb.add_argument("--architecture", default="amd64", help="default: amd64")
    return parser


def _run(options: argparse.Namespace, output: Output) -> None:
    if options.verb == "get":
        _get(options, output)
    elif options.verb == "resolve":
        if options.slim != bool(options.include):
            raise error(Code.USAGE, "--slim and --include go together")
        fetcher = Fetcher(mirror=options.mirror)
        entry = resolve(fetcher, options.name, options.version, python_tag=options.python_tag, cpu=options.cpu)
        if options.slim:
            entry = resolve_slim(fetcher, entry, options.include, options.exclude)
        output.data(json.dumps(entry.to_json()))
    else:
        components = options.component or ["main"]
        for entry in resolve_debian(
            options.names, options.suite, components=components, architecture=options.architecture
        ):
            output.data(json.dumps(entry.to_json()))


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
