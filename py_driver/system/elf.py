"""Reads 64-bit little-endian ELF files: sections, segments, symbols. Every offset is checked. Pure.

Layout: System V ABI, chapters 4 and 5; the LSB's chapter on symbol versions.
"""

from __future__ import annotations

import mmap
import struct
from contextlib import contextmanager
from enum import IntEnum, IntFlag
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAGIC: Final = b"\x7fELF"
_IDENTITY: Final = MAGIC + b"\x02\x01"
"""The magic number, 64 bits, little-endian."""

HEADER_SIZE: Final = 64
_SECTION_SIZE: Final = 64
_SEGMENT_SIZE: Final = 56
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_IN_FIRST_SECTION: Final = 0xFFFF
_LOAD: Final = 1


class Kind(IntEnum):
    """The type of a section."""

    SYMTAB = 2
    STRTAB = 3
    RELA = 4
    HASH = 5
    DYNAMIC = 6
    NOTE = 7
    NOBITS = 8
    REL = 9
    DYNSYM = 11
    RELR = 19
    GNU_HASH = 0x6FFFFFF6
    VERDEF = 0x6FFFFFFD
    VERNEED = 0x6FFFFFFE
    VERSYM = 0x6FFFFFFF


class Flag(IntFlag):
    """Flags of a section."""

    WRITE = 1
    ALLOC = 2
    EXECUTE = 4


class Machine(IntEnum):
    """The target of code: CPUs, and the GPUs of device code (LLVM, BinaryFormat/ELF.h)."""

    X86_64 = 62
    AARCH64 = 183
    CUDA = 190
    AMDGPU = 224


_CUDA_NO_BITS: Final = frozenset({0x70000007, 0x70000009, 0x7000000A})
"""Section types of old cubins without content in the file, as NOBITS: global, local and shared memory.

The first and the last were seen in cubins of nvcc 11.8.
"""


class MalformedError(ValueError):
    """The file is truncated, or not a supported ELF file; the message names the unreadable part."""


class Section(NamedTuple):
    """A section of a file.

    Attributes:
        name: empty without a table of names.
        kind: see `Kind`; other values are possible.
        flags: see `Flag`; other values are possible.
        address: the address in memory.
        offset: the offset in the file.
        size: the size in memory; a section without bits has no bytes in the file.
        link: the index of a related section, such as the one with its names.
    """

    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int

    @property
    def stored(self) -> int:
        """Its bytes in the file."""
        return 0 if self.kind in {Kind.NOBITS, 0} else self.size


class Segment(NamedTuple):
    """A loaded part of a file: its location, and its flags (1 execute, 2 write, 4 read)."""

    flags: int
    offset: int
    size: int


class Symbol(NamedTuple):
    """An entry of a symbol table.

    Attributes:
        name: the name of the symbol.
        kind: 1 for an object, 2 for a function, 10 for a function that is chosen at load time.
        binding: 0 for a local symbol.
        visibility: 0 for a default one.
        section: the index of its section; 0 if the file does not define it.
        address: the address in memory; in an object file, in the section.
        size: the size in bytes.
    """

    name: str
    kind: int
    binding: int
    visibility: int
    section: int
    address: int
    size: int


class Elf:
    """An ELF file.

    Attributes:
        content: its bytes.
        machine: see `Machine`; other values are possible.
        sections: the sections, in the order of the file's table; empty without a table.
    """

    def __init__(self, content: bytes | mmap.mmap) -> None:
        """Read the headers.

        Args:
            content: the content of the file.

        Raises:
            MalformedError: it is not a supported ELF file, or truncated.
        """
        self.content = content
        if content[: len(_IDENTITY)] != _IDENTITY:
            raise MalformedError("the header")
        (self.machine,) = self.numbers("<H", 18, "the header")
        self.sections = (*self._read_sections(),)

    def numbers(self, form: str, at: int, part: str) -> tuple[int, ...]:
        """Read numbers at an offset.

        Args:
            form: the format, as in `struct`.
            at: the offset.
            part: the part being read, for the error.

        Raises:
            MalformedError: the file is too short.
        """
        try:
            return struct.unpack_from(form, self.content, at)
        except (struct.error, OverflowError):
            raise MalformedError(part) from None

    def part(self, offset: int, size: int, part: str) -> bytes:
        """Read bytes of the file.

        Raises:
            MalformedError: the file is too short; `part` is the part being read.
        """
        if offset < 0 or size < 0 or offset + size > len(self.content):
            raise MalformedError(part)
        return self.content[offset : offset + size]

    def text(self, at: int, part: str = "the names") -> str:
        """Read the zero-terminated text at an offset.

        Raises:
            MalformedError: the file is too short; `part` is the part being read.
        """
        end = self.content.find(b"\0", at) if at < len(self.content) else -1
        if end < 0:
            raise MalformedError(part)
        return self.content[at:end].decode("utf-8", errors="backslashreplace")

    @cached_property
    def tables(self) -> tuple[tuple[int, int], ...]:
        """The locations of the headers: offset and size of the file header, and of the segment and section tables."""
        segments, sections = self.numbers("<QQ", 32, "the header")
        (of_segments,) = self.numbers("<H", 56, "the header")
        tables = [(0, HEADER_SIZE), (segments, of_segments * _SEGMENT_SIZE)]
        return (*tables, (sections, len(self.sections) * _SECTION_SIZE)) if sections else (*tables,)

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The loaded parts.

        Raises:
            MalformedError: the file is truncated.
        """
        (start,), (size, count) = self.numbers("<Q", 32, "the header"), self.numbers("<HH", 54, "the header")
        if count and size != _SEGMENT_SIZE:
            raise MalformedError("the program headers")
        read = (self.numbers("<IIQQQQ", start + i * size, "the program headers") for i in range(count))
        found = [Segment(flags, offset, stored) for kind, flags, offset, _, _, stored in read if kind == _LOAD]
        for segment in found:
            if segment.offset + segment.size > len(self.content):
                raise MalformedError("the program headers")
        return (*found,)

    def symbols(self, kind: Kind) -> Iterator[Symbol]:
        """The symbols of tables of a kind, `SYMTAB` or `DYNSYM`.

        Raises:
            MalformedError: a table is truncated.
        """
        for table in self.sections:
            if table.kind != kind:
                continue
            if table.link >= len(self.sections) or table.size % _SYMBOL.size:
                raise MalformedError("the symbol table")
            names = self.sections[table.link]
            for name, info, other, section, address, size in _SYMBOL.iter_unpack(self.content_of(table)):
                text = self.text(names.offset + name)
                yield Symbol(text, info & 15, info >> 4, other & 3, section, address, size)

    def content_of(self, section: Section) -> bytes:
        """The bytes of a section.

        Raises:
            MalformedError: the file is too short.
        """
        return self.part(section.offset, section.stored, section.name or "a section")

    def _read_sections(self) -> Iterator[Section]:
        """The sections.

        Raises:
            MalformedError: the file is too short.
        """
        part = "the section headers"
        (start,) = self.numbers("<Q", 40, "the header")
        width, count, named = self.numbers("<HHH", 58, "the header")
        if not start:
            return
        # If the header has no room for the numbers, the first section has them.
        count = count or self.numbers("<Q", start + 32, part)[0]
        named = self.numbers("<I", start + 40, part)[0] if named == _IN_FIRST_SECTION else named
        if width != _SECTION_SIZE or count * width > len(self.content):
            raise MalformedError(part)
        rows = [self.numbers("<IIQQQQI", start + i * width, part) for i in range(count)]
        names = rows[named][4] if named < count else None
        for name, kind, flags, address, offset, size, link in rows:
            text = self.text(names + name) if names is not None else ""
            has_bits = self.machine != Machine.CUDA or kind not in _CUDA_NO_BITS
            section = Section(text, kind if has_bits else Kind.NOBITS, flags, address, offset, size, link)
            if section.stored and offset + size > len(self.content):
                raise MalformedError(f"section {text}" if text else part)
            yield section


@contextmanager
def mapped(path: Path) -> Iterator[Elf]:
    """Map an ELF file into memory, so that only used parts are read.

    Raises:
        MalformedError: it is not a supported ELF file, or truncated.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        try:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise MalformedError("the header") from None  # empty
        with content:
            yield Elf(content)
