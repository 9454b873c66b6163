"""Write the assembly and version script of a stub for a shared library, limited to old symbol versions.

A library that is linked against the stub can only need symbols that every system with these versions has. Run by the
repository rule of the C++ toolchain with the host's Python; uses the standard library alone.

    python3 stubs.py LIBRARY OUT.s OUT.map NAME=FLOOR...     e.g. GLIBCXX=3.4.24 CXXABI=1.3.11

Layout of ELF: System V ABI, chapter 4 and 5, and the LSB's symbol versioning chapter.
"""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SHT_DYNSYM, _SHT_VERDEF, _SHT_VERSYM = 11, 0x6FFFFFFD, 0x6FFFFFFF
_SHN_ABS = 0xFFF1
_STB_WEAK = 2
_KINDS = {1: "@object", 2: "@function", 6: "@tls_object", 10: "@function"}
_HIDDEN = 0x8000


@dataclass(frozen=True, kw_only=True, slots=True)
class Symbol:
    """A symbol that a shared library defines.

    Attributes:
        name: as the linker sees it.
        version: the name of its version, e.g. `GLIBCXX_3.4.21`.
        default: whether new links use this version of the name.
        kind: type as the assembler spells it.
        weak: whether its binding is weak.
        size: bytes; 0 for functions of unknown size.
    """

    name: str
    version: str
    default: bool
    kind: str
    weak: bool
    size: int


def _text(table: bytes, offset: int) -> str:
    return table[offset : table.index(b"\0", offset)].decode("ascii")


def symbols(elf: bytes) -> Iterator[Symbol]:
    """The versioned symbols that a 64-bit little-endian ELF shared library defines.

    Raises:
        ValueError: the file is no such library.
    """
    if elf[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    (start,) = struct.unpack_from("<Q", elf, 0x28)
    width, count = struct.unpack_from("<HH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, start + i * width) for i in range(count)]
    content = {h[1]: elf[h[4] : h[4] + h[5]] for h in headers}
    links = {h[1]: h[6] for h in headers}

    def linked(kind: int) -> bytes:
        h = headers[links[kind]]
        return elf[h[4] : h[4] + h[5]]

    names: dict[int, str] = {}
    at = 0
    while True:
        _, _, index, _, _, aux, step = struct.unpack_from("<HHHHIII", content[_SHT_VERDEF], at)
        (name,) = struct.unpack_from("<I", content[_SHT_VERDEF], at + aux)
        names[index] = _text(linked(_SHT_VERDEF), name)
        if not step:
            break
        at += step
    strings = linked(_SHT_DYNSYM)
    for i, entry in enumerate(struct.iter_unpack("<IBBHQQ", content[_SHT_DYNSYM])):
        name, info, _, section, _, size = entry
        (tag,) = struct.unpack_from("<H", content[_SHT_VERSYM], 2 * i)
        index, kind = tag & ~_HIDDEN, _KINDS.get(info & 15)
        if 0 < section < _SHN_ABS and index > 1 and kind:
            yield Symbol(
                name=_text(strings, name),
                version=names[index],
                default=not tag & _HIDDEN,
                kind=kind,
                weak=info >> 4 == _STB_WEAK,
                size=size,
            )


def allowed(version: str, max_symbol_versions: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether a version, e.g. `GLIBCXX_3.4.21`, belongs to one of the families and is not too new."""
    family, _, number = version.partition("_")
    parts = number.split(".")
    return (
        family in max_symbol_versions
        and all(p.isdigit() for p in parts)
        and tuple(map(int, parts)) <= max_symbol_versions[family]
    )


def stub(elf: bytes, max_symbol_versions: Mapping[str, tuple[int, ...]]) -> tuple[str, str]:
    """Assembly and version script of a stub with the symbols whose default version is allowed.

    Args:
        elf: the whole shared library.
        max_symbol_versions: the newest allowed version of each family, e.g. `{"GLIBCXX": (3, 4, 24)}`.
    """
    kept = sorted(
        (s for s in symbols(elf) if s.default and allowed(s.version, max_symbol_versions)), key=lambda s: s.name
    )
    lines, versions = [], dict[str, list[str]]()
    for s in kept:
        section = ".bss" if s.kind == "@object" else ".tbss" if s.kind == "@tls_object" else ".text"
        flags = ',"awT",@nobits' if s.kind == "@tls_object" else ""
        lines += [
            f".section {section}{flags}" if flags else section,
            f"{'.weak' if s.weak else '.globl'} {s.name}",
            f".type {s.name}, {s.kind}",
            f".size {s.name}, {s.size}",
            f"{s.name}:",
            f".skip {s.size}" if section != ".text" else ".byte 0",
        ]
        versions.setdefault(s.version, []).append(s.name)
    script = [f"{v} {{ global: {' '.join(f'{n};' for n in names)} }};" for v, names in sorted(versions.items())]
    return "\n".join(lines) + "\n", "\n".join(script) + "\n"


if __name__ == "__main__":
    source, assembly_path, script_path, *pairs = sys.argv[1:]
    limits = {n: tuple(map(int, f.split("."))) for n, _, f in (p.partition("=") for p in pairs)}
    assembly, script = stub(Path(source).read_bytes(), limits)
    Path(assembly_path).write_text(assembly, encoding="ascii")
    Path(script_path).write_text(script, encoding="ascii")
