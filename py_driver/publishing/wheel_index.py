"""A static package index of the wheels in a directory: pages that pip and uv read from any web server.

Formats: simple repository API of the Python packaging specifications (PEP 503, 629, 658, 691, 700, 714).
"""

from __future__ import annotations

import hashlib
import html
import json
import zipfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from py_driver.errors import Code, Diagnostic, DriverError
from py_driver.fetch.wheel_members import BROKEN_ZIP
from py_driver.publishing.wheel_metadata import fields
from py_driver.publishing.wheel_variants import VARIANT, VARIANTS, is_own, label_in, merge
from py_driver.spelling import near_path
from py_driver.system.files import is_directory, is_file, reading, sha256, write, writing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

SIMPLE: Final = "simple"
"""The directory of the index, beside the wheels; its address is the value of `--extra-index-url`."""

PAGE: Final = "index.html"
"""The file that a static web server sends for a directory (PEP 503)."""

DATA: Final = "index.json"
"""The same page for servers that can send another content type (PEP 691)."""

CORE_METADATA: Final = ".metadata"
"""The suffix of a copy of a wheel's METADATA (PEP 658)."""

_API: Final = "1.1"
"""The version of the API with sizes and versions (PEP 700)."""

_GENERATOR: Final = "rules_torch_kernels"
_MARK: Final = f'<meta name="generator" content="{_GENERATOR}">'
"""The mark of the driver's own pages, so that no other file is overwritten or removed."""

_OWN_KEY: Final = "_generator"
"""Keys with an underscore are free for an index's own use (PEP 691)."""

_INFO: Final = ".dist-info"
_MOVE: Final = "move or delete it"
_PART: Final = 1 << 20


class IndexedWheel(NamedTuple):
    """A wheel of an index.

    Attributes:
        filename: the file name of the wheel.
        project: the normalized name of its project.
        version: the version in its file name.
        sha256: hexadecimal digest of the file.
        size: the size of the file, in bytes.
        requires_python: the value in its metadata; empty if it has none.
        metadata: its METADATA.
        label: the label of its variant; empty if it is not a wheel variant.
        variant: its `variant.json`; empty if it is not a wheel variant.
    """

    filename: str
    project: str
    version: Version
    sha256: str
    size: int
    requires_python: str
    metadata: bytes
    label: str = ""
    variant: bytes = b""


class Index(NamedTuple):
    """The contents of an index.

    Attributes:
        directory: the directory of the pages.
        wheels: sorted by project, version and file name.
        removed: the projects that the index listed before and that have no wheels any more.
    """

    directory: Path
    wheels: Sequence[IndexedWheel]
    removed: Sequence[str]

    def by_project(self) -> dict[str, list[IndexedWheel]]:
        """The wheels of each project."""
        found: dict[str, list[IndexedWheel]] = {}
        for wheel in self.wheels:
            found.setdefault(wheel.project, []).append(wheel)
        return found


def write_index(directory: Path) -> Index:
    """Write the index of the wheels in a directory: equal wheels give equal bytes.

    Only pages of an earlier index are replaced or removed, and copies of METADATA that it lists.

    Args:
        directory: the directory with wheels; wheels in subdirectories are not listed.

    Raises:
        DriverError: FILE_KIND for each file that is not a wheel; FILE_MISSING if there are no wheels; FOREIGN_FILE for
            other files at the paths of the index; NO_SPACE or PERMISSION.
    """
    root = directory / SIMPLE
    advice = "name the directory that `driver wheel --out` wrote to"
    if not is_directory(directory):
        message = f"{directory} is not a directory"
        raise DriverError([Diagnostic(Code.FILE_MISSING, message, help=near_path(directory) or advice)])
    with reading(directory):
        wheels = _read_wheels(directory)
        before = _earlier(root)
    if not wheels and not before:
        raise DriverError([Diagnostic(Code.FILE_MISSING, f"there are no wheels in {directory}", help=advice)])
    listed = {name: digest for files in before.values() for name, digest in files.items()}
    index = Index(root, wheels, sorted(before.keys() - {wheel.project for wheel in wheels}))
    variants = _variants(directory, wheels)
    pages = _pages(index, variants)
    copies = {directory / f"{wheel.filename}{CORE_METADATA}": wheel.metadata for wheel in wheels}
    _check_foreign(pages, copies, listed)
    _check_foreign_variants(directory, variants)
    # A page is written after the files that it refers to, and removed before them.
    for path, content in (
        *copies.items(),
        *((directory / name, text) for name, text in variants.items()),
        *pages.items(),
    ):
        if not is_file(path) or path.read_bytes() != content:
            with writing(path):
                path.parent.mkdir(parents=True, exist_ok=True)
            write(path, content)
    with writing(root):
        for project in index.removed:
            _remove_pages(root / project)
        for name, digest in listed.items():
            path = directory / f"{name}{CORE_METADATA}"
            if path not in copies and is_file(path) and sha256(path.read_bytes()) == digest:
                path.unlink()
        for path in sorted(directory.glob(f"*{VARIANTS}")):
            if path.name not in variants and is_file(path) and is_own(path.read_bytes()):
                path.unlink()
    return index


def _variants(directory: Path, wheels: Iterable[IndexedWheel]) -> dict[str, bytes]:
    """The indexes of wheel variants, by file name: one for each version with variants.

    Raises:
        DriverError: FILE_KIND if an installer could not choose between variants of a version.
    """
    versions: dict[str, list[IndexedWheel]] = {}
    for wheel in wheels:
        if wheel.label:
            versions.setdefault("-".join(wheel.filename.split("-", 2)[:2]), []).append(wheel)
    found, faults = {}, []
    for version, listed in versions.items():
        try:
            found[f"{version}{VARIANTS}"] = merge((wheel.label, wheel.variant) for wheel in listed)
        except ValueError as problem:
            message = f"the wheel variants of {version} in {directory} have no index: {problem}"
            faults.append(Diagnostic(Code.FILE_KIND, message, help="remove one of the wheels, or make them again"))
    if faults:
        raise DriverError(faults)
    return found


def _check_foreign_variants(directory: Path, variants: Iterable[str]) -> None:
    """Check that only indexes of variants written by the driver are overwritten.

    Raises:
        DriverError: FOREIGN_FILE for each such file.
    """
    paths = [directory / name for name in variants]
    faults = [
        Diagnostic(Code.FOREIGN_FILE, f"{path} is not an index of `driver index`", help=_MOVE)
        for path in paths
        if path.exists() and not (is_file(path) and is_own(path.read_bytes()))
    ]
    if faults:
        raise DriverError(faults)


def _read_wheels(directory: Path) -> list[IndexedWheel]:
    """The wheels in a directory.

    Raises:
        DriverError: FILE_KIND for each wheel that cannot be read.
    """
    wheels, faults = [], []
    for path in sorted(directory.iterdir()):
        if path.suffix == ".whl":
            try:
                wheels.append(_read(path))
            except (OSError, *BROKEN_ZIP) as problem:
                message = f"{path} is not a wheel: {problem}"
                advice = "remove it, or make it again: the index would offer a file that cannot be installed"
                faults.append(Diagnostic(Code.FILE_KIND, message, help=advice))
    if faults:
        raise DriverError(faults)
    return sorted(wheels, key=lambda wheel: (wheel.project, wheel.version, wheel.filename))


def _read(path: Path) -> IndexedWheel:
    """Read a wheel.

    Raises:
        ValueError: it is not a wheel.
        OSError: it cannot be read.
        zipfile.BadZipFile: it is not a zip archive.
    """
    plain, label = label_in(path.name)
    try:
        project, version, _, _ = parse_wheel_filename(plain)
    except (InvalidWheelFilename, InvalidVersion) as problem:
        raise ValueError(str(problem)) from None
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(f"{_INFO}/METADATA") and name.count("/") == 1]
        if len(names) != 1:
            message = f"it has {len(names)} files *{_INFO}/METADATA"
            raise ValueError(message)
        metadata = archive.read(names[0])
        variant = archive.read(f"{names[0].rpartition('/')[0]}/{VARIANT}") if label else b""
    values = {field.name: field.value for field in fields(metadata)}
    name, stated = values.get("name", ""), values.get("version", "")
    if canonicalize_name(name) != project or _version(stated) != version:
        message = f"its metadata says `{name} {stated}`"
        raise ValueError(message)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(_PART):
            digest.update(part)
        size = file.tell()
    python = values.get("requires-python", "")
    return IndexedWheel(path.name, project, version, digest.hexdigest(), size, python, metadata, label, variant)


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _earlier(root: Path) -> dict[str, dict[str, str]]:
    """The projects of an index that the driver wrote, each with the SHA-256 of the METADATA of its wheels."""
    found = {}
    for folder in sorted(root.iterdir()) if is_directory(root) else ():
        if any(is_file(folder / name) and _is_own(folder / name) for name in (PAGE, DATA)):
            found[folder.name] = dict(_listed(folder / DATA))
    return found


def _is_own(path: Path) -> bool:
    """Whether the driver wrote a page."""
    content = path.read_bytes()
    if path.name == PAGE:
        return _MARK.encode() in content
    return bool(_parsed(content))


def _parsed(content: bytes) -> dict[str, Any]:
    """The data of a page that the driver wrote; empty for any other page."""
    with suppress(ValueError, KeyError, TypeError):
        value = json.loads(content)
        if value["meta"][_OWN_KEY] == _GENERATOR:
            return dict(value)
    return {}


def _listed(path: Path) -> Iterable[tuple[str, str]]:
    """The wheels of a page, and the SHA-256 of the METADATA of each."""
    value = _parsed(path.read_bytes()) if is_file(path) else {}
    for file in value.get("files", ()):
        with suppress(KeyError, TypeError):
            name = str(file["filename"])
            if "/" not in name:
                yield name, str(file["core-metadata"]["sha256"])


def _check_foreign(pages: Mapping[Path, bytes], copies: Mapping[Path, bytes], listed: Mapping[str, str]) -> None:
    """Check that only files written by the driver are overwritten.

    Raises:
        DriverError: FOREIGN_FILE for each such file.
    """
    faults = [
        Diagnostic(Code.FOREIGN_FILE, f"{path} is not a page of `driver index`", help=_MOVE)
        for path in pages
        if path.exists() and not (is_file(path) and _is_own(path))
    ]
    for path, content in copies.items():
        if not path.exists():
            continue
        found = path.read_bytes() if is_file(path) else b""
        if found != content and sha256(found) != listed.get(path.name.removesuffix(CORE_METADATA)):
            message = f"{path} differs from the METADATA of the wheel, and `driver index` did not write it"
            faults.append(Diagnostic(Code.FOREIGN_FILE, message, help=_MOVE))
    if faults:
        raise DriverError(faults)


def _pages(index: Index, variants: Mapping[str, bytes]) -> dict[Path, bytes]:
    """The pages of an index, those of the projects first; each lists the indexes of its wheel variants as well."""
    pages = {}
    projects = index.by_project()
    for project, wheels in projects.items():
        indexes = {name: text for name, text in variants.items() if canonicalize_name(name.split("-")[0]) == project}
        anchors = [*map(_anchor, wheels), *(_index_anchor(name, text) for name, text in indexes.items())]
        pages[index.directory / project / PAGE] = _html(f"Links for {project}", anchors)
        pages[index.directory / project / DATA] = _json(
            name=project,
            versions=list(dict.fromkeys(str(wheel.version) for wheel in wheels)),
            files=[*map(_as_json, wheels), *(_index_as_json(name, text) for name, text in indexes.items())],
        )
    pages[index.directory / PAGE] = _html("Simple index", (f'<a href="{name}/">{name}</a>' for name in projects))
    pages[index.directory / DATA] = _json(projects=[{"name": name} for name in projects])
    return pages


def _address(filename: str) -> str:
    """The address of a file relative to its project's page. A `+` is quoted: some servers read it as a blank."""
    return f"../../{quote(filename)}"


def _index_anchor(name: str, text: bytes) -> str:
    return f'<a href="{_address(name)}#sha256={sha256(text)}">{html.escape(name)}</a>'


def _index_as_json(name: str, text: bytes) -> dict[str, Any]:
    return {"filename": name, "url": _address(name), "hashes": {"sha256": sha256(text)}, "size": len(text)}


def _anchor(wheel: IndexedWheel) -> str:
    python = f' data-requires-python="{html.escape(wheel.requires_python)}"' if wheel.requires_python else ""
    metadata = f' data-core-metadata="sha256={sha256(wheel.metadata)}"'
    address = f"{_address(wheel.filename)}#sha256={wheel.sha256}"
    return f'<a href="{address}"{python}{metadata}>{html.escape(wheel.filename)}</a>'


def _as_json(wheel: IndexedWheel) -> dict[str, Any]:
    return {
        "filename": wheel.filename,
        "url": _address(wheel.filename),
        "hashes": {"sha256": wheel.sha256},
        "size": wheel.size,
        **({"requires-python": wheel.requires_python} if wheel.requires_python else {}),
        "core-metadata": {"sha256": sha256(wheel.metadata)},
    }


def _html(title: str, anchors: Iterable[str]) -> bytes:
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta name="pypi:repository-version" content="{_API}">',
        _MARK,
        f"<title>{title}</title>",
        "</head>",
        "<body>",
        *(f"{anchor}<br>" for anchor in anchors),
        "</body>",
        "</html>",
    ]
    return ("\n".join(lines) + "\n").encode()


def _json(**values: object) -> bytes:
    meta = {"meta": {"api-version": _API, _OWN_KEY: _GENERATOR}}
    return (json.dumps({**meta, **values}, indent=1) + "\n").encode()


def _remove_pages(folder: Path) -> None:
    """Remove the pages of a project that has no wheel any more, and its directory if nothing else is in it."""
    for name in (PAGE, DATA):
        if is_file(folder / name) and _is_own(folder / name):
            (folder / name).unlink()
    with suppress(OSError):
        folder.rmdir()
