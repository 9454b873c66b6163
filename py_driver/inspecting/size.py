"""The division of a library's bytes: each belongs to exactly one piece, so that the sum is the file's size. Pure."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.inspecting.images import AMDGPU, DEVICE_SECTIONS, PTX, Image, images_in
from py_driver.inspecting.parts import Range, divided, shares
from py_driver.system.elf import Elf, Flag, Kind, MalformedError, Section

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

HEADERS: Final = "headers and padding"
DEVICE: Final = "device code"
HOST: Final = "host code"
_CODE: Final = "code"
_NAMES: Final = "symbols and names"
_OTHER: Final = "other"
_TEXT: Final = "text"
_UNREAD: Final = "not unpacked"

_CUBIN_PARTS: Final = (
    (".text.", _CODE),
    (".nv.constant", "constants"),
    (".nv.info", "attributes"),
    (".rel", "relocations"),
    (".nv.capmerc", "debug"),
    (".nv.merc", "debug"),
    (".debug", "debug"),
    (".nv_debug", "debug"),
)
_KINDS: Final[Mapping[int, str]] = {
    Kind.SYMTAB: "symbol table",
    Kind.DYNSYM: "dynamic symbols",
    Kind.HASH: "dynamic symbols",
    Kind.GNU_HASH: "dynamic symbols",
    Kind.VERDEF: "dynamic symbols",
    Kind.VERNEED: "dynamic symbols",
    Kind.VERSYM: "dynamic symbols",
    Kind.DYNAMIC: "dynamic symbols",
    Kind.RELA: "relocations",
    Kind.REL: "relocations",
    Kind.RELR: "relocations",
    Kind.NOTE: "notes",
}
_WITH_NAMES: Final = (Kind.SYMTAB, Kind.DYNSYM, Kind.DYNAMIC)
_UNWINDING: Final = (".eh_frame", ".gcc_except_table")
_DEBUG: Final = (".debug_", ".zdebug_", ".gdb_index")
_FUNCTIONS: Final = (1, 2, 10)
_PTX_FUNCTION: Final = re.compile(
    rb"^(?:\.(?:weak|visible|extern|common)\s+)*\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)", re.MULTILINE
)


class Piece(NamedTuple):
    """Bytes of a library.

    Attributes:
        section: their section; `headers and padding` for bytes between sections.
        kind: the kind of the section's content: `device code`, `host code`, ...
        form: the form of device code: `SASS`, `PTX`, `AMDGPU`.
        arch: the architecture of device code.
        image: the number of the image in the library; -1 outside of device code.
        symbol: their function or object; empty without one.
        part: the part of the function, object or image.
        stored: their number in the file.
        size: their number without compression.
        exact: whether `stored` is exact; otherwise it is a share of bytes that are compressed together.
    """

    section: str
    kind: str
    form: str
    arch: str
    image: int
    symbol: str
    part: str
    stored: int
    size: int
    exact: bool


class ImageFacts(NamedTuple):
    """An image of a library, without its code; see `Image`."""

    form: str
    arch: str
    binary: int
    stored: int
    size: int
    packing: str
    shared: bool
    unpacked: bool


class Library(NamedTuple):
    """The division of a library's bytes.

    Attributes:
        size: the size of the file.
        pieces: its pieces, whose stored bytes add up to the file.
        images: its device code.
        slice: the capability of a slice: `sm90`; else empty.
    """

    size: int
    pieces: tuple[Piece, ...]
    images: tuple[ImageFacts, ...]
    slice: str = ""


def kind_of(section: Section, names: frozenset[int], number: int) -> str:
    """The kind of a section's content.

    Args:
        section: the section.
        names: the numbers of the sections with names of symbols.
        number: the number of the section.
    """
    flags = section.flags
    known = (
        (section.name in DEVICE_SECTIONS, DEVICE),
        (section.name.startswith(_DEBUG), "debug information"),
        (section.name.startswith(_UNWINDING), "unwinding"),
        (number in names and bool(flags & Flag.ALLOC), "dynamic symbols"),
        (section.kind in _KINDS, _KINDS.get(section.kind, "")),
        (bool(flags & Flag.EXECUTE), HOST),
        (bool(flags & Flag.WRITE), "data"),
        (bool(flags & Flag.ALLOC), "read-only data"),
        (number in names, "symbol table"),
    )
    return next((kind for fits, kind in known if fits), _OTHER)


def library_of(elf: Elf) -> Library:
    """The division of a library's bytes.

    Args:
        elf: the library.

    Raises:
        MalformedError: the library or its device code is truncated.
    """
    size = len(elf.content)
    sections = elf.sections or _as_sections(elf)
    names = frozenset(section.link for section in sections if section.kind in _WITH_NAMES)
    counts, rest = divided(
        size,
        _ranges(sections),
    )
    symbols = _symbols(elf)
    pieces: list[Piece] = []
    images: list[ImageFacts] = []
    for number, count in counts:
        section = sections[number]
        kind = kind_of(section, names, number)
        base = Piece(section.name, kind, "", "", -1, "", "", count, count, exact=True)
        if kind == DEVICE or not elf.sections:
            own, left = _device(elf, section, count, images)
            pieces += own
            base = base._replace(stored=left, size=left, part=HEADERS if kind == DEVICE else "")
            pieces += [base] if left else []
        else:
            pieces += _host(base, section, symbols.get(number, []))
    pieces.append(Piece(HEADERS, HEADERS, "", "", -1, "", HEADERS, rest, rest, exact=True))
    return Library(size, tuple(pieces), tuple(images))


def _ranges(sections: Iterable[Section]) -> list[Range[int]]:
    """The ranges of sections in a file, by number."""
    found = enumerate(sections)
    return [Range(section.offset, section.stored, number) for number, section in found if section.stored]


def _as_sections(elf: Elf) -> tuple[Section, ...]:
    """The loaded segments of a library without section headers."""
    flags = {1: Flag.EXECUTE, 2: Flag.WRITE}
    return tuple(
        Section(
            f"segment {number}",
            1,
            Flag.ALLOC | sum(mine for bit, mine in flags.items() if segment.flags & bit),
            0,
            segment.offset,
            segment.size,
            0,
        )
        for number, segment in enumerate(elf.segments)
    )


def _symbols(elf: Elf) -> dict[int, list[Range[str]]]:
    """The ranges of a library's functions and objects in its file, by the number of their section."""
    tables = [Kind.SYMTAB] if any(section.kind == Kind.SYMTAB for section in elf.sections) else [Kind.DYNSYM]
    found: dict[int, list[Range[str]]] = {}
    for symbol in (symbol for kind in tables for symbol in elf.symbols(kind)):
        if symbol.kind in _FUNCTIONS and symbol.size and 0 < symbol.section < len(elf.sections):
            section = elf.sections[symbol.section]
            begin = symbol.address - section.address
            found.setdefault(symbol.section, []).append(Range(begin, symbol.size, symbol.name))
    return found


def _host(base: Piece, section: Section, symbols: Iterable[Range[str]]) -> Iterator[Piece]:
    """The pieces of a section without device code, by symbol."""
    inside = [part for part in symbols if 0 <= part.offset < section.stored]
    counts, rest = divided(base.stored, inside)
    for name, count in counts:
        if count:
            yield base._replace(symbol=name, stored=count, size=count)
    if rest:
        yield base._replace(stored=rest, size=rest)


def _device(elf: Elf, section: Section, count: int, images: list[ImageFacts]) -> tuple[list[Piece], int]:
    """The pieces of a section's device code, and the number of remaining bytes.

    Args:
        elf: the library.
        section: a section that may contain device code.
        count: its bytes.
        images: gets its images.

    Raises:
        MalformedError: the device code is truncated, or overlaps other sections.
    """
    pieces: list[Piece] = []
    left = count
    for image in images_in(elf.content_of(section), section.offset):
        left -= image.stored
        if left < 0:
            raise MalformedError("the device code")
        head = Piece(section.name, DEVICE, image.form, image.arch, len(images), "", HEADERS, 0, 0, exact=True)
        pieces += pieces_of(image, head)
        facts = (image.form, image.arch, image.binary, image.stored, image.size, image.packing, image.shared)
        images.append(ImageFacts(*facts, unpacked=image.content is not None))
    return pieces, left


def pieces_of(image: Image, head: Piece) -> Iterator[Piece]:
    """The pieces of an image, by function.

    Args:
        image: the image with its code.
        head: its header as a piece without bytes.

    Raises:
        MalformedError: the code is truncated.
    """
    if image.head:
        yield head._replace(stored=image.head, size=image.head)
    parts = _parts(image)
    if not image.packing and (padding := image.stored - image.head - image.size):
        yield head._replace(stored=padding)  # compressed code has no padding, so `size` is the same for both
    sizes = list(parts.values())
    stored = shares(image.stored - image.head, sizes) if image.packing else sizes
    for ((symbol, part), size), share in zip(parts.items(), stored, strict=True):
        yield head._replace(symbol=symbol, part=part, stored=share, size=size, exact=not image.packing)


def _parts(image: Image) -> Counter[tuple[str, str]]:
    """The bytes of an image without compression, by function and part.

    Raises:
        MalformedError: the code is truncated.
    """
    if image.content is None:
        return Counter({("", _UNREAD): image.size})
    if image.form == PTX:
        return _parts_of_text(image.content)
    try:
        elf = Elf(image.content)
    except MalformedError as problem:
        if image.content[:4] == b"\x7fELF":
            raise MalformedError(f"the device code: {problem}") from None
        return Counter({("", _OTHER): image.size})
    return _parts_of_object(elf) if image.form == AMDGPU else _parts_of_cubin(elf)


def _parts_of_text(text: bytes) -> Counter[tuple[str, str]]:
    """The parts of PTX: the text of a function extends to the next function."""
    heads = [*_PTX_FUNCTION.finditer(text)]
    ends = [*(head.start() for head in heads), len(text)]
    found = Counter({("", _TEXT): ends[0]})
    for head, end in zip(heads, ends[1:], strict=True):
        found[head[1].decode("ascii"), _TEXT] += end - head.start()
    return +found


def _parts_of_cubin(elf: Elf) -> Counter[tuple[str, str]]:
    """The parts of a cubin, whose sections contain the names of their functions."""
    functions = {section.name.removeprefix(".text.") for section in elf.sections if section.name.startswith(".text.")}
    ranges = [
        Range(section.offset, section.stored, _place(section, functions)) for section in elf.sections if section.stored
    ]
    counts, rest = divided(len(elf.content), ranges)
    found = Counter({("", HEADERS): rest})
    for label, count in counts:
        found[label] += count
    return +found


def _place(section: Section, functions: set[str]) -> tuple[str, str]:
    """The function of a cubin's section, and the part of it that the section contains."""
    if section.kind in {Kind.STRTAB, Kind.SYMTAB}:
        return "", _NAMES
    part = next((part for prefix, part in _CUBIN_PARTS if section.name.startswith(prefix)), _OTHER)
    at = section.name.find(".", 1)
    while at >= 0:
        if section.name[at + 1 :] in functions:
            return section.name[at + 1 :], part
        at = section.name.find(".", at + 1)
    return "", part


def _parts_of_object(elf: Elf) -> Counter[tuple[str, str]]:
    """The parts of a HIP code object, whose functions are symbols; `NAME.kd` is the descriptor of a kernel."""
    symbols = _symbols(elf)
    counts, rest = divided(
        len(elf.content),
        _ranges(elf.sections),
    )
    found = Counter({("", HEADERS): rest})
    for number, count in counts:
        section = elf.sections[number]
        names = section.kind in {Kind.STRTAB, Kind.SYMTAB, Kind.DYNSYM, Kind.HASH, Kind.GNU_HASH}
        part = _NAMES if names else _CODE if section.flags & Flag.EXECUTE else _OTHER
        inside, left = divided(count, symbols.get(number, []))
        for name, covered in inside:
            found[name.removesuffix(".kd"), "attributes" if name.endswith(".kd") else part] += covered
        found["", part] += left
    return +found
