"""The user's cache: its location, and errors of writing to it."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.errors import Code, error
from py_driver.system.files import refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CACHE_VARIABLE: Final = "RULES_TORCH_KERNELS_CACHE"
"""Environment variable that names the cache directory."""


def cache_root(environ: Mapping[str, str] | None = None) -> Path:
    """The directory of everything the project caches for this user; not created yet.

    Args:
        environ: the environment (default: the process's own).

    Raises:
        DriverError: SET_UP if neither the cache variable, XDG_CACHE_HOME nor HOME is set.
    """
    environ = os.environ if environ is None else environ
    if own := environ.get(CACHE_VARIABLE):
        return Path(own).absolute()
    base = environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):  # the XDG specification: relative paths are ignored
        home = environ.get("HOME", "")
        if not home.startswith("/"):
            raise error(
                Code.SET_UP,
                "there is no place for the cache: HOME is not set",
                help=f"set HOME, or {CACHE_VARIABLE} to a directory with some gigabytes of space",
            )
        base = f"{home}/.cache"
    return Path(base, "rules_torch_kernels")


INLINE: Final = "inline"
"""The directory of the cache with modules of `cpp_extension`; the client's `inline_project.py` uses the same name."""

HEADERS: Final = "headers"
"""The directory of the cache with headers of toolchains for editors, a directory for each set of archives."""

SOURCES: Final = "sources"
"""The directory of the cache with source archives of the package index, and the digests of fetched archives."""

UNPACKED: Final = "unpacked"
"""The directory in `SOURCES` with unpacked archives: one for each, named after its SHA-256."""


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn errors of the file system below `path` into DriverErrors.

    Raises:
        DriverError: NO_SPACE if no space or quota is left; PERMISSION if writing is not allowed.
    """
    try:
        yield
    except OSError as wrong:
        code = refusal(wrong)
        if code is Code.NO_SPACE:
            raise error(
                code,
                f"no space left for {path}: {wrong.strerror}",
                help=f"free some space, or set {CACHE_VARIABLE} to a directory on a larger disk; "
                "fetched archives are kept",
            ) from wrong
        if code is Code.PERMISSION:
            raise error(
                code,
                f"cannot write {path}: {wrong.strerror}",
                help=f"make it writable, or set {CACHE_VARIABLE} to a directory that is",
            ) from wrong
        raise
