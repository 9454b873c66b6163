"""Checks of the sources in a user's own matrix: CUTLASS releases and libraries of headers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from py_driver.errors import Code, Diagnostic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PACKAGE: Final = re.compile("[^=]+==[^=]+")
"""A package of an index with its exact version."""

_PINS: Final = {"wheel": PACKAGE, "sdist": PACKAGE, "sha256": re.compile("[0-9a-f]{64}")}
_TAKEN: Final = {"cpython", "openmp", "python", "sycl_tla", "torch", "tvm_ffi"}
_NAME: Final = re.compile("[a-z][a-z0-9_]*")
_ROOT: Final = re.compile(r"(?!\.\.?(/|$))[\w.+-]+(/(?!\.\.?(/|$))[\w.+-]+)*")


def cutlass_faults(release: Mapping[str, Any], origin: str) -> Iterator[Diagnostic]:
    """The errors of a CUTLASS release of a user's matrix; `origin` is its position for messages."""
    pins = [key for key in _PINS if key in release]
    if len(pins) != 1 or not _PINS[pins[0]].fullmatch(release[pins[0]]):
        message = f"{origin} must have one of `wheel`, `sdist` and `sha256`"
        advice = '`wheel = "nvidia-cutlass==3.6.0.0"`, or the SHA-256 of the archive of its git tag, 64 hex digits'
        yield Diagnostic(code=Code.BAD_VALUE, message=message, help=advice)
    elif "root" not in release:
        if pins == ["sdist"]:
            advice = 'the directory with `include` in the archive: `root = "flash_attn-2.8.3/csrc/cutlass"`'
            yield Diagnostic(code=Code.MISSING_KEY, message=f"{origin}: `root` is missing", help=advice)
    elif pins == ["sha256"]:
        advice = "remove it: the archive of a git tag has its own"
        yield Diagnostic(code=Code.BAD_VALUE, message=f"{origin}: `root` goes with `wheel` and `sdist`", help=advice)
    elif not _ROOT.fullmatch(release["root"]):
        yield Diagnostic(code=Code.BAD_VALUE, message=f"{origin}: `root` must be a directory in the archive")


def library_faults(library: Mapping[str, Any], origin: str) -> Iterator[Diagnostic]:
    """The errors of a library of headers of a user's matrix; `origin` is its position for messages."""
    if not _NAME.fullmatch(library["name"]) or library["name"] in _TAKEN or library["name"].startswith("cutlass_"):
        advice = "lower-case letters, digits and `_`, and none of the names that `depends` has already"
        yield Diagnostic(code=Code.BAD_NAME, message=f"{origin}: a library cannot have this name", help=advice)
    if not re.fullmatch(r"https://\S+\.(tar(\.\w+)?|tgz)", library["url"]):
        message = f"{origin}: `url` must be the https address of a tar archive"
        yield Diagnostic(code=Code.BAD_VALUE, message=message)
    if not _PINS["sha256"].fullmatch(library["sha256"]):
        yield Diagnostic(code=Code.BAD_VALUE, message=f"{origin}: `sha256` must be 64 lower-case hexadecimal digits")
    for key, paths in (("root", [library["root"]]), ("include", library["include"])):
        if wrong := [path for path in paths if not _ROOT.fullmatch(path) and (key, path) != ("include", ".")]:
            message = f"{origin}: `{wrong[0]}` in `{key}` is not a directory in the archive"
            yield Diagnostic(code=Code.BAD_VALUE, message=message)
    if not re.fullmatch(r"[1-9][0-9]\.[0-9]{1,2}", library.get("minimum-cuda", "12.3")):
        yield Diagnostic(code=Code.BAD_VALUE, message=f"{origin}: `minimum-cuda` must be a major and a minor number")
