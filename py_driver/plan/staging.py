"""Files of the Python package whose names Bazel's labels do not carry: Bazel has them under others.

Labels have no blanks and no letters outside of ASCII; Bazel opens such files only under some locales of the machine;
and quotes and brackets mean something to shells. So such a file is copied into the workspace under a name that says
nothing, is built into the variant under that, and gets its own back when the variant leaves Bazel's output tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.manifest.paths import is_plain
from py_driver.system.files import sha256

if TYPE_CHECKING:
    from collections.abc import Iterable

_PREFIX = ".staged-"
"""Nothing in a Python package that begins with a dot is shipped, so no other file is called so."""

_DIGITS = 24


def staged(path: str) -> str:
    """The path under which Bazel has a file: its own, with another name for each part that is not plain.

    Args:
        path: of the file, or the end of it after a `/`.
    """
    return "/".join(part if is_plain(part) else _other_name(part) for part in path.split("/"))


def _other_name(part: str) -> str:
    return _PREFIX + sha256(part.encode())[:_DIGITS]


def own_names(root: str, files: Iterable[str]) -> dict[str, str]:
    """The paths, within a package, of the files that Bazel has under others, by those others.

    Args:
        root: the directory of the package.
        files: of the package.
    """
    names = (path.removeprefix(f"{root}/") for path in files)
    return {other: name for name in names if (other := staged(name)) != name}
