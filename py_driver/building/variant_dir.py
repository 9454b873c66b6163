"""The directory of a built variant, `PROJECT/build/VARIANT`: its files and its metadata.json."""

from __future__ import annotations

import base64
import json
import shlex
import shutil
from typing import TYPE_CHECKING, Any, Final

from py_driver.building.selection import choose
from py_driver.errors import Code, Diagnostic, DriverError, error
from py_driver.matrix.configurations import CPUS
from py_driver.matrix.select import ANY
from py_driver.plan.metadata import METADATA, ONLY_ARCHS
from py_driver.system.files import is_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from py_driver.matrix.select import Words
    from py_driver.plan.plan import Plan, Variant

BUILD: Final = "build"
"""The directory of a project in which the `kernels` client looks for variants."""

SLICES: Final = "build-slices"
"""The directory of a project for slices: it has a directory for each GPU capability, with variants as in `build/`."""

DEV: Final = ".dev"
"""The directory of a project for variants that are built only for this machine."""

SIGNATURE: Final = f"{METADATA}.sigstore"
"""The sigstore bundle of metadata.json; the signer adds it, not the build."""

BYTECODE: Final = "__pycache__"
"""Python's bytecode from loading a variant, which runs instead of the source; it is not part of a variant."""


def present(
    directory: Path, plan: Plan, patterns: Sequence[str], name: str = "", *, words: Words = ANY
) -> list[Variant]:
    """The existing variants in `build/`.

    Args:
        directory: the directory of the project, or with a copy of its published files.
        plan: the plan of the project.
        patterns: globs of identifiers; empty for all existing variants.
        name: the name of `build/` in messages; empty for its path.
        words: torch releases, backends and CPUs; see `choose`. CPUs alone select the existing variants for them.

    Raises:
        DriverError: FILE_MISSING if no variant exists, or a selected one does not; FOREIGN_FILE if `build/` has other
            entries and nothing is selected; CHANGED_BUILD, with a diagnostic for each variant that was built with
            `--archs`.
    """
    build = directory / BUILD
    shown = name or str(build)
    command = f"driver build {shlex.quote(str(directory))}"
    advice = "publish it first: driver publish" if name else f"build it first: {command}"
    if patterns or words.torch or words.backends:
        chosen = choose(plan, patterns, words)
        if missing := [variant.name for variant in chosen if not is_directory(build / variant.name)]:
            exactly = "" if name else f" --variant {missing[0]}"
            raise error(Code.FILE_MISSING, f"{shown}/{missing[0]} does not exist", help=f"{advice}{exactly}")
        return _whole(chosen, build, shown)
    existing = (
        {path.name for path in build.iterdir() if not path.name.startswith(".")} if is_directory(build) else set()
    )
    if foreign := sorted(existing - {variant.name for variant in plan.variants}):
        choice = "remove it, or select variants with --variant"
        raise error(Code.FOREIGN_FILE, f"{shown}/{foreign[0]} is not a variant of {plan.name}", help=choice)
    if not existing:
        raise error(Code.FILE_MISSING, f"{shown} has no variant of {plan.name}", help=advice)
    found = [
        variant
        for variant in plan.variants
        if variant.name in existing and variant.configuration.cpu in (None, *(words.cpus or CPUS))
    ]
    if not found:
        raise error(Code.FILE_MISSING, f"{shown} has no variant for {words.cpus[0]}", help=advice)
    return _whole(found, build, shown)


def _whole(chosen: list[Variant], build: Path, shown: str) -> list[Variant]:
    """Variants, after checking that each has device code for all its GPU architectures.

    Args:
        chosen: the variants.
        build: the directory with the variants.
        shown: its name in messages.
    """
    wrong = []
    for variant in chosen:
        if archs := (read_metadata(build / variant.name) or {}).get(ONLY_ARCHS):
            listed = ",".join(map(str, archs)) if isinstance(archs, list) else archs
            message = f"{shown}/{variant.name} was built with `--archs {listed}`, for this machine's use only"
            wrong.append(Diagnostic(code=Code.CHANGED_BUILD, message=message, help="build it again without --archs"))
    if wrong:
        raise DriverError(wrong)
    return chosen


def directory_of(directory: Path, variant: Variant) -> Path:
    """The directory of a variant that is built to be shipped.

    Args:
        directory: the directory of the project.
        variant: the variant; a slice is in `build-slices/`.
    """
    if variant.slice:
        return directory / SLICES / variant.slice.name / variant.identifier
    return directory / BUILD / variant.name


def dev_directory(directory: Path, variant: Path) -> Path:
    """The parent directory of a development build: one for each id.

    The `kernels` client identifies loaded variants by path, so another version needs another path.

    Args:
        directory: the directory of the project.
        variant: the directory of the built variant.
    """
    return directory / DEV / str((read_metadata(variant) or {})["id"])


def files_of(directory: Path) -> dict[str, Path]:
    """The files of a variant, by path within it: regular files, and links to anything."""
    found = (path for path in directory.rglob("*") if path.is_symlink() or not path.is_dir())
    return {path.relative_to(directory).as_posix(): path for path in found}


def remove_bytecode(directory: Path) -> None:
    """Remove Python's bytecode from a variant: Python would run it without comparing it with the sources.

    Args:
        directory: the directory of the variant, on this machine.

    Raises:
        DriverError: PERMISSION if a directory cannot be removed.
    """
    for cache in sorted(directory.rglob(BYTECODE)):
        if cache.is_symlink() or not cache.is_dir():
            continue  # Python did not write it: it is reported like any other file
        try:
            shutil.rmtree(cache)
        except OSError as problem:
            message = f"cannot remove {cache}, which Python would run instead of the sources: {problem.strerror}"
            raise error(Code.PERMISSION, message, help="remove it") from None


def differences(source: Path, target: Path) -> tuple[str, ...]:
    """The differences between two directories of a variant, one for each file, e.g. `metadata.json has other bytes`.

    Args:
        source: the built variant.
        target: the directory to compare with it; a signature does not count.
    """
    built, there = ({*files_of(path)} - {SIGNATURE} for path in (source, target))
    found = [f"{name} is missing" for name in built - there] + [f"{name} was not built" for name in there - built]
    for name in built & there:
        if (target / name).is_symlink():
            found.append(f"{name} is a link")
        elif (source / name).read_bytes() != (target / name).read_bytes():
            found.append(f"{name} has other bytes")
    return tuple(sorted(found))


def read_metadata(variant: Path) -> dict[str, Any] | None:
    """The metadata.json of a variant; None if it cannot be read, or is not an object."""
    try:
        return as_object((variant / METADATA).read_bytes())
    except OSError:
        return None


def as_object(text: bytes) -> dict[str, Any] | None:
    """Parse a JSON object; None if the text is not one.

    Args:
        text: the text in UTF-8.
    """
    try:
        value = json.loads(text.decode())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def changed(variant: Path, metadata: Mapping[str, Any], digests: Mapping[str, str]) -> Iterator[str]:
    """The differences between a variant and its metadata.json.

    Args:
        variant: its directory.
        metadata: the content of metadata.json.
        digests: SHA-256 of its regular files in hexadecimal, by path within it.
    """
    yield from (f"{path.relative_to(variant)} is a link" for path in sorted(variant.rglob("*")) if path.is_symlink())
    digest = metadata.get("digest")
    stated = digest.get("files") if isinstance(digest, dict) and digest.get("algorithm") == "sha256" else None
    if METADATA not in digests or not isinstance(stated, dict):
        yield f"{METADATA} lists no files"
        return
    if SIGNATURE in digests and not _signs(variant / SIGNATURE, digests[METADATA]):
        yield f"{SIGNATURE} is not a sigstore bundle of {METADATA}"
    for name in sorted({*stated, *digests} - {METADATA, SIGNATURE}):
        if name not in digests:
            yield f"{name} is missing"
        elif name not in stated:
            yield f"{name} was not built"
        elif stated[name] != _base64(digests[name]):
            yield f"{name} has other bytes"


def _signs(bundle: Path, sha256: str) -> bool:
    """Whether a sigstore bundle (v0.3, of a message) is for these bytes; the signer is not checked."""
    try:
        digest = json.loads(bundle.read_bytes())["messageSignature"]["messageDigest"]
        return bool(digest == {"algorithm": "SHA2_256", "digest": _base64(sha256)})
    except (ValueError, LookupError, TypeError, RecursionError):
        return False


def _base64(sha256: str) -> str:
    return base64.b64encode(bytes.fromhex(sha256)).decode()
