"""The symbols of the libraries of each locked torch release: toolchains/lock/torch_exports.bin.

For modules that pybind11 binds, torch_python_exports.bin has the symbols of libtorch_python.so.

The file is one line of JSON, `{"columns": [{"torch", "sha256", "abi", "backend"}, ...], "count": N}`, then N hashes,
ascending, then N masks. A hash is the first four bytes of a symbol's SHA-256; bit i of its mask is set if column i
defines it. Numbers are little-endian, and a mask has as many bytes as the columns need. The ABI check,
rules/private/tools/abi_check/exports.zig, reads it too.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import tempfile
import zipfile
from array import array
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py_driver.errors import Code, error
from py_driver.fetch.entry import Entry, parse_entry
from py_driver.fetch.fetcher import Fetcher
from py_driver.fetch.store import Store
from py_driver.matrix.backends import BUILT, backend_of
from py_driver.system.cache import cache_root
from py_driver.system.elf import Kind, mapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from py_driver.system.elf import Elf, Section

LIBRARIES: Final = {
    name: (*sorted((*family.torch_libraries, *family.recorded)),)
    for name, family in BUILT.items()
    if family.recorded is not None
}
"""The libraries that an extension may need, by backend, without libtorch_python.so, which is for one Python."""

PYTHON_LIBRARIES: Final = {"python": ("libtorch_python.so",)}
"""Further libraries that a module for one Python may need. The locked wheels are for one Python; the symbols for
extensions are the same in all wheels of a release."""

_HASH: Final = 4
_DT_SONAME = 14
_DEFAULT, _PROTECTED = 0, 3
_BINDINGS = (1, 2, 10)  # global, weak, unique


class Column(NamedTuple):
    """The symbols of one wheel's libraries.

    Attributes:
        torch: major and minor version, e.g. `2.13`.
        sha256: the SHA-256 of the wheel.
        abi: the C++ ABI of the wheel.
        backend: `cpu`, or `cuda` for the additional symbols of the CUDA libraries; `python` for libtorch_python.so.
    """

    torch: str
    sha256: str
    abi: str
    backend: str


Libraries = Mapping[str, tuple[str, ...]]
"""The libraries of a wheel to read, by backend."""

Table = dict[int, int]
"""Hash of a symbol to its mask."""


def hash_of(symbol: str) -> int:
    """The hash of a symbol in the table."""
    return int.from_bytes(hashlib.sha256(symbol.encode()).digest()[:_HASH], "little")


def columns_of(lock: Mapping[str, Any], libraries: Libraries = LIBRARIES) -> tuple[Column, ...]:
    """The columns for the torch part of the lock. For releases with two ABIs, the index has wheels of the older one."""
    return tuple(
        Column(torch=version, sha256=wheel.get("sha256", ""), abi=min(part["abis"], key=_age), backend=backend)
        for version, part in lock.items()
        for wheel, backends in _wheels(part, libraries)
        for backend in backends
    )


def _wheels(part: Mapping[str, Any], libraries: Libraries) -> list[tuple[Mapping[str, Any], tuple[str, ...]]]:
    """The wheels of a release, for each CPU, with the backends whose libraries are read."""
    found = [(part["archive"], (*libraries,))]
    for wheel in part.get("cross", {}).values():
        families = {*PYTHON_LIBRARIES, *(known.family for name in wheel["backends"] if (known := backend_of(name)))}
        found.append((wheel, tuple(backend for backend in libraries if backend in families)))
    return found


def _age(abi: str) -> int:
    return ("cxx98", "cxx11").index(abi)


def read_table(path: Path) -> tuple[tuple[Column, ...], Table]:
    """The table in a file; empty if there is none.

    Raises:
        DriverError: BAD_VALUE if it is damaged.
    """
    if not path.is_file():
        return (), {}
    data = path.read_bytes()
    try:
        line, rest = data.split(b"\n", 1)
        head = json.loads(line)
        columns, count = tuple(Column(**column) for column in head["columns"]), head["count"]
        width = _width(columns)
        if len(rest) != count * (_HASH + width):
            raise ValueError(f"{len(rest)} bytes for {count} symbols")  # noqa: TRY301  (one message for all)
    except (ValueError, TypeError, KeyError) as wrong:
        advice = "take it from a fresh checkout, or delete it: `driver lock` writes it anew"
        raise error(Code.BAD_VALUE, f"{path} is damaged: {wrong}", help=advice) from wrong
    masks = rest[count * _HASH :]
    return columns, {
        key: int.from_bytes(masks[i * width : (i + 1) * width], "little")
        for i, (key,) in enumerate(struct.iter_unpack("<I", rest[: count * _HASH]))
    }


def write_table(columns: tuple[Column, ...], table: Table) -> bytes:
    """The content of the file for a table, without symbols that no column defines."""
    keys = sorted(key for key, mask in table.items() if mask)
    head = {"columns": [column._asdict() for column in columns], "count": len(keys)}
    width = _width(columns)
    hashes = b"".join(key.to_bytes(_HASH, "little") for key in keys)
    masks = b"".join(table[key].to_bytes(width, "little") for key in keys)
    return json.dumps(head).encode() + b"\n" + hashes + masks


def _width(columns: tuple[Column, ...]) -> int:
    return -(-len(columns) // 8)


def update(
    path: Path, lock: Mapping[str, Any], report: Callable[[str], None], libraries: Libraries = LIBRARIES
) -> bytes:
    """The table for a lock: existing columns are kept, the wheels of all others are fetched and read.

    A small library is fetched by itself; libraries that make up most of a wheel are fetched with the wheel.

    Args:
        path: the path of the existing table, if any.
        lock: the torch part of the lock.
        report: gets progress messages.
        libraries: the libraries to read.

    Raises:
        DriverError: see `Fetcher.fetch`; BAD_DIGEST if a wheel does not have the libraries.
    """
    columns, (known, old) = columns_of(lock, libraries), read_table(path)
    table: Table = {}
    places = [(known.index(column), columns.index(column)) for column in known if column in columns]
    for key, mask in old.items():
        table[key] = sum((mask >> before & 1) << now for before, now in places)
    for version, part in lock.items():
        for wheel, backends in _wheels(part, libraries):
            entry = replace(parse_entry(wheel), include=_members(libraries), exclude=())
            entry = entry if entry.include else replace(entry, record_sha256="")
            own = [
                column
                for column in columns
                if (column.torch, column.sha256) == (version, entry.sha256) and column not in known
            ]
            if not own:
                continue
            report(f"torch {version}")
            found = _exports(entry, {backend: libraries[backend] for backend in backends})
            for column in own:
                for key in found[column.backend]:
                    table[key] = table.get(key, 0) | 1 << columns.index(column)
    return write_table(columns, table)


def _members(libraries: Libraries) -> tuple[str, ...]:
    """The members to fetch of a wheel; empty for all."""
    names = [name for part in libraries.values() for name in part]
    return (f"torch/lib/{names[0]}",) if len(names) == 1 else ()


def _exports(entry: Entry, libraries: Libraries) -> dict[str, array[int]]:
    """The hashes of the symbols of a wheel's libraries, by backend. The wheel is not kept."""
    found = {backend: array("I") for backend in libraries}
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root) as work, zipfile.ZipFile(_wheel(entry, Path(work))) as archive:
        for backend, keys in found.items():
            for name in libraries[backend]:
                member = f"torch/lib/{name}"
                if member not in archive.namelist():
                    raise error(Code.BAD_DIGEST, f"{entry.basename} has no {member}", help="lock another wheel")
                path = Path(work) / name
                with archive.open(member) as packed, path.open("wb") as plain:
                    shutil.copyfileobj(packed, plain, 1 << 20)
                keys.extend(map(hash_of, defined(path)))
                path.unlink()
    return found


def _wheel(entry: Entry, work: Path) -> Path:
    return Fetcher(Store(work)).fetch(entry).path


def defined(library: Path) -> Iterable[str]:
    """The symbols that an ELF library exports, according to its section headers.

    Raises:
        MalformedError: the file is not an ELF library.
    """
    with mapped(library) as elf:
        return {
            symbol.name
            for symbol in elf.symbols(Kind.DYNSYM)
            if symbol.section and symbol.binding in _BINDINGS and symbol.visibility in {_DEFAULT, _PROTECTED}
        }


def undefined(library: Path) -> Iterable[str]:
    """The symbols that an ELF library needs.

    Raises:
        MalformedError: the file is not an ELF library.
    """
    with mapped(library) as elf:
        return {symbol.name for symbol in elf.symbols(Kind.DYNSYM) if not symbol.section and symbol.name}


def soname(library: Path) -> str:
    """The SONAME of an ELF library; the name of the file if it has none.

    Raises:
        MalformedError: the file is not an ELF library.
    """
    with mapped(library) as elf:
        for table, strings in _tables(elf, Kind.DYNAMIC):
            for tag, value in struct.iter_unpack("<qQ", elf.content_of(table)):
                if tag == _DT_SONAME:
                    return elf.text(strings.offset + value)
    return library.name


def versions(library: Path) -> Iterable[str]:
    """The versions of symbols that an ELF library defines, e.g. `GOMP_4.5`.

    Raises:
        MalformedError: the file is not an ELF library.
    """
    found = []
    with mapped(library) as elf:
        for table, strings in _tables(elf, Kind.VERDEF):
            at, action = table.offset, 1
            while action:
                aux, action = elf.numbers("<II", at + 12, table.name)
                (name,) = elf.numbers("<I", at + aux, table.name)
                found.append(elf.text(strings.offset + name))
                at += action
    return found


def _tables(elf: Elf, kind: Kind) -> Iterator[tuple[Section, Section]]:
    """The sections of a kind, each with the section of its names."""
    for section in elf.sections:
        if section.kind == kind and section.link < len(elf.sections):
            yield section, elf.sections[section.link]
