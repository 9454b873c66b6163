"""The class path of Debian's Bazel: its jars lie in /usr/share/java and name further jars in their manifests."""

from __future__ import annotations

import re
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_CLASS_PATH = re.compile(r"^Class-Path: (.*)$", re.MULTILINE)
_FOLDED = re.compile(r"\r?\n ")


def any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    """A pattern that matches whatever any of the patterns matches."""
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))


def close(tree: Path, root: Path, listing: str, jars: str) -> None:
    """Rewrite a class path so that it is complete and names files of a private directory.

    Args:
        tree: the directory of the unpacked packages.
        root: their final directory.
        listing: the file with the class path, a jar on each line, relative to `tree`.
        jars: directory of the jars, relative to `tree`.
    """
    todo = (tree / listing).read_text().split()
    own = [jar for jar in todo if not jar.startswith("/")]
    found: dict[str, None] = {}
    for jar in todo:
        inside = jar.lstrip("/")
        if jar in own or inside in found or not (tree / inside).is_file():
            continue
        found[inside] = None
        todo += [name if name.startswith("/") else f"/{jars}/{name}" for name in _named_by(tree / inside)]
    (tree / listing).write_text("".join(f"{jar}\n" for jar in [*(str(root / jar) for jar in found), *own]))


def _named_by(jar: Path) -> list[str]:
    """The class path in a jar's manifest."""
    with zipfile.ZipFile(jar) as archive:
        try:
            manifest = archive.read("META-INF/MANIFEST.MF").decode()
        except KeyError:
            return []
    match = _CLASS_PATH.search(_FOLDED.sub("", manifest).replace("\r", ""))
    return match[1].split() if match else []
