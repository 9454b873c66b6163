"""Releases of the package index on a command line: `NAME==VERSION` instead of a directory."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from py_driver.errors import Code, error
from py_driver.spelling import near_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from py_driver.cli import ArgumentGroup, Parser
    from py_driver.output import Output
    from py_driver.recording.source_archive import Source

_NAME: Final = re.compile(r"[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?", re.ASCII)
"""A valid name of a project on the index, which is also a valid name of a directory."""


def add_hash(arguments: Parser | ArgumentGroup) -> None:
    """Add the option that restricts the source archives."""
    arguments.add_argument(
        "--hash",
        metavar="sha256:HEX",
        action="append",
        default=[],
        help="refuse a source archive of the package index with another digest; repeatable, as in a requirements file",
    )


def located(words: Iterable[Path], hashes: Sequence[str], output: Output) -> list[Path | Source]:
    """Resolve the words of a command line: directories, and fetched releases of the package index.

    An existing path is a directory, whatever its name.

    Args:
        words: the words of the command line.
        hashes: the digests of allowed source archives, from `--hash`; any archive if empty.
        output: where progress is shown.

    Raises:
        DriverError: NO_MANIFEST for a word that is neither; USAGE if `--hash` has no release to apply to; see
            `fetch_source`.
    """
    from py_driver.recording.requirement import has_one_equals_sign, looks_like_requirement
    from py_driver.recording.source_archive import fetch_source

    found: list[Path | Source] = []
    for word in words:
        text = str(word)
        if os.path.lexists(word):
            found.append(word)
        elif looks_like_requirement(text) or has_one_equals_sign(text):
            found.append(fetch_source(text, output, hashes=hashes))
        elif _NAME.fullmatch(text):
            advice = f"to build {text} from the package index, name a version: {text}==1.0"
            raise error(Code.NO_MANIFEST, f"there is no directory `{text}`", help=near_path(word) or advice)
        else:
            found.append(word)
    if hashes and not any(_is_source(item) for item in found):
        advice = "leave it out, or name a release: `NAME==VERSION`"
        raise error(Code.USAGE, "--hash is for releases of the package index", help=advice)
    return found


def _is_source(item: Path | Source) -> bool:
    from py_driver.recording.source_archive import Source

    return isinstance(item, Source)
