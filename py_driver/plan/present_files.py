"""The sources and headers in a project's directory, for messages about missing files."""

from __future__ import annotations

import os
import posixpath
from functools import cached_property
from typing import TYPE_CHECKING

from py_driver.manifest.paths import HEADERS, SOURCES, path_problem
from py_driver.spelling import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

_SEEN_LIMIT = 20_000
_KNOWN_LIMIT = 2_000
_SUGGESTION_LIMIT = 10


class PresentFiles:
    """The sources and headers below a directory, which is walked when a message first needs them.

    Args:
        directory: the project's directory.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._suggestions = 0

    def suggestion(self, path: str) -> str:
        """`did you mean ...?` for a missing file; only for the first files, since each search takes time.

        A file with the same name comes first, then the file with the most similar path.
        """
        self._suggestions += 1
        if self._suggestions > _SUGGESTION_LIMIT:
            return ""
        name = os.path.basename(path)  # noqa: PTH119  (no Path for each file)
        same = [file for file in self._files if file.rpartition("/")[2] == name]
        return did_you_mean(path, same) or (f"there is `{same[0]}`" if same else did_you_mean(path, self._files))

    def meant(self, path: str) -> str:
        """`write ...` for a malformed path that leads to a file or directory of the project, or an empty text."""
        plain = posixpath.normpath(path.replace("\\", "/")).lstrip("/")
        near = plain if plain != "." and not plain.startswith("..") and path_problem(plain) is None else ""
        return f"write `{near}`" if near and os.path.exists(self._directory / near) else ""  # noqa: PTH110  (as above)

    def directory(self, path: str) -> str:
        """`did you mean ...?` for a missing directory: one with sources or headers; empty if none is similar."""
        return did_you_mean(path, sorted({file.rpartition("/")[0] for file in self._files} - {""}))

    def source(self, suffixes: Collection[str], listed: Collection[str], folder: str = "") -> str:
        """The first source that no section lists; empty without one.

        Args:
            suffixes: the suffixes of the languages.
            listed: the files that sections list.
            folder: the directory to prefer; empty for none.
        """
        unlisted = [file for file in self._files if file.endswith(tuple(suffixes)) and file not in listed]
        return min(unlisted, key=lambda file: (not file.startswith(f"{folder}/"), file), default="")

    @cached_property
    def _files(self) -> list[str]:
        """The existing sources and headers; in a huge project the first ones."""
        found: list[str] = []
        seen = 0
        for where, directories, files in os.walk(self._directory):
            directories[:] = sorted(name for name in directories if not name.startswith((".", "bazel-")))
            named = sorted(name for name in files if name.endswith((*SOURCES, *HEADERS)))
            found += (os.path.relpath(os.path.join(where, name), self._directory) for name in named)  # noqa: PTH118  (no Path for each file)
            seen += len(files) + len(directories)
            if len(found) > _KNOWN_LIMIT or seen > _SEEN_LIMIT:
                break
        return found[:_KNOWN_LIMIT]
