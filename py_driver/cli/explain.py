"""`driver explain`: explains an error, from `resources/codes.toml`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from py_driver.cli import add_command
from py_driver.errors import Code, ExitCode, error
from py_driver.resources import resource
from py_driver.spelling import did_you_mean

if TYPE_CHECKING:
    import argparse

    from py_driver.cli import Subparsers
    from py_driver.output import Output

_FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(subparsers, "explain", "E108", "unknown-key")
    parser.add_argument("code", metavar="CODE", nargs="?", help="code or name of an error (default: list all errors)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace, output: Output) -> int:
    """Print the explanation of an error, or the list of all errors; returns the exit code.

    Raises:
        DriverError: USAGE if there is no such error.
    """
    texts = read_texts()
    if args.code is None:
        entries = [_as_json(code, texts) for code in Code]
        if args.json:
            output.json(entries)
        else:
            rows = [[code.number, spell(code), _exit_of(code), texts[code]["title"]] for code in Code]
            output.table(["code", "name", "exit", "meaning"], rows)
        return ExitCode.OK
    code = find(args.code)
    if args.json:
        output.json(_as_json(code, texts))
    else:
        output.data(f"{code.number} {spell(code)}: {texts[code]['title']}\n")
        output.data(f"{_FENCE.sub(_indented, texts[code]['text'])}\n\nexit code: {_exit_of(code)}")
    return ExitCode.OK


def read_texts() -> dict[Code, dict[str, str]]:
    """The `title` and the `text` of every error; the text is Markdown, without line breaks at its ends."""
    import tomli

    tables = tomli.loads(resource("codes.toml"))
    return {
        code: {"title": tables[code.number]["title"], "text": tables[code.number]["text"].strip("\n")} for code in Code
    }


def spell(code: Code) -> str:
    """The name of an error in messages and JSON: `unknown-key`."""
    return code.name.lower().replace("_", "-")


def find(text: str) -> Code:
    """Find an error by number or name, in any case.

    Raises:
        DriverError: USAGE if no error has that number or name.
    """
    wanted = text.lower().replace("_", "-")
    known = {word: code for code in Code for word in (code.number.lower(), spell(code))}
    if wanted not in known:
        if re.fullmatch(r"e?\d+", wanted):
            numbers = [code.number for code in Code]
            alike = [number for number in numbers if number.startswith(text[:2].upper())]
            near = did_you_mean(text.upper(), alike or numbers)
        else:
            near = did_you_mean(wanted, [spell(code) for code in Code])
        advice = f"{near}{' ' if near else ''}`driver explain` lists all errors"
        raise error(Code.USAGE, f"unknown error `{text}`", help=advice)
    return known[wanted]


def _exit_of(code: Code) -> str:
    return f"{code.exit_code.value} {code.exit_code.name}"


def _indented(block: re.Match[str]) -> str:
    """A block of code for a terminal: indented instead of fenced."""
    return "\n".join(f"    {line}".rstrip() for line in block[1].splitlines())


def _as_json(code: Code, texts: dict[Code, dict[str, str]]) -> dict[str, Any]:
    """An error as a value for JSON."""
    return {
        "code": code.number,
        "name": spell(code),
        "exit": {"code": code.exit_code.value, "name": code.exit_code.name},
        **texts[code],
    }
