"""Files of the Python package with names that Bazel's labels do not support: they get other names in Bazel.

Labels support no blanks and no letters outside of ASCII; Bazel opens such files only under some locales; and quotes and
brackets are special in shells. So such a file is copied into the workspace under a generated name, is built into the
variant under it, and gets its own name back when the variant leaves Bazel's output tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.manifest.paths import is_plain
from py_driver.system.files import sha256

if TYPE_CHECKING:
    from collections.abc import Iterable

_PREFIX = ".staged-"
"""Files of a Python package that begin with a dot are not shipped, so no other file has such a name."""

_DIGITS = 24


def staged(path: str) -> str:
    """The path of a file in Bazel: its own, with a generated name for each part that is not plain.

    Args:
        path: the path of the file, or its end after a `/`.
    """
    return "/".join(part if is_plain(part) else _other_name(part) for part in path.split("/"))


def _other_name(part: str) -> str:
    return _PREFIX + sha256(part.encode())[:_DIGITS]


def own_names(root: str, files: Iterable[str]) -> dict[str, str]:
    """The paths in a package of the files that have another path in Bazel, by that path.

    Args:
        root: the directory of the package.
        files: the files of the package.
    """
    names = (path.removeprefix(f"{root}/") for path in files)
    return {other: name for name in names if (other := staged(name)) != name}
