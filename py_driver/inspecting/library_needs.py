"""The needs of a shared library at load time: libraries, symbols and their versions, a Python. Pure.

Layout: System V ABI, chapter 5; the LSB's chapter on symbol versions.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.matrix.configurations import CPUS
from py_driver.system.elf import Kind, Machine, MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from py_driver.system.elf import Elf, Section

_NEEDED, _SONAME = 1, 14
_MACHINES: Final = dict(zip((Machine.X86_64, Machine.AARCH64), CPUS, strict=True))
_WEAK: Final = 2
_HIDDEN: Final = 0x7FFF
_FIRST_VERSION: Final = 2
_FAMILY: Final = re.compile(r"(GLIBC|GLIBCXX|CXXABI|GCC|GOMP|OMP)_(\d+(?:\.\d+)*)")
_OF_ONE_PYTHON: Final = re.compile(r"\.cpython-3(\d+)(t?)-[^.]+\.so$")
_NAMESPACES: Final = re.compile(r"_Z(?:T[VISTHW]|GV)?N[rVKRO]*(?:2at|3c10|5torch|6caffe2)")
_TOKEN: Final = re.compile(r"\d+|S[0-9A-Z]*_|S[a-z]|T[0-9A-Z]*_|L[a-z][^E]*E|A\d+|[CD]\d|.", re.DOTALL)
_NEW: Final = ("7__cxx11", "B5cxx11")


class Wanted(NamedTuple):
    """A symbol that a library needs from others.

    Attributes:
        name: the symbol.
        version: its required version, e.g. `GLIBC_2.17`; empty for any.
        library: the library that must have the version; empty without a version.
        weak: whether the library loads without it.
    """

    name: str
    version: str
    library: str
    weak: bool


class Needs(NamedTuple):
    """The needs of a library.

    Attributes:
        name: its path for messages.
        soname: its SONAME; the name of its file without one.
        cpu: `x86_64` or `aarch64`; empty for others.
        libraries: the names of its needed libraries, in order.
        symbols: the symbols that it needs.
        defined: the symbols that it exports.
        python: the only Python that finds it by its name: `3.12`; empty for every Python.
    """

    name: str
    soname: str
    cpu: str
    libraries: tuple[str, ...]
    symbols: tuple[Wanted, ...]
    defined: frozenset[str]
    python: str

    def versions(self) -> Mapping[str, str]:
        """The newest version that it needs of each family of the system's symbols: `{"GLIBC": "2.17"}`."""
        found: dict[str, str] = {}
        for wanted in self.symbols:
            if (match := _FAMILY.fullmatch(wanted.version)) and not wanted.weak:
                family, version = match.groups()
                found[family] = max(found.get(family, "0"), version, key=version_numbers)
        return found


def version_numbers(version: str) -> tuple[int, ...]:
    """A version as numbers, which compare like versions."""
    return (*map(int, version.split(".")),)


def needs_of(elf: Elf, name: str) -> Needs:
    """The needs of a library.

    Args:
        elf: the library.
        name: its path for messages.

    Raises:
        MalformedError: it is truncated, is not a shared library, or has no section headers.
    """
    dynamic = next((table for table in elf.sections if table.kind == Kind.DYNAMIC), None)
    if dynamic is None:
        raise MalformedError("the dynamic section")
    tags = [*struct.iter_unpack("<qQ", elf.content_of(dynamic))] if dynamic.size % 16 == 0 else []
    names = _linked(elf, dynamic)
    texts = [(tag, elf.text(names.offset + value)) for tag, value in tags if tag in {_NEEDED, _SONAME}]
    file = name.rpartition("/")[2]
    found = _OF_ONE_PYTHON.search(file)
    symbols, defined = _symbols(elf)
    return Needs(
        name=name,
        soname=next((text for tag, text in texts if tag == _SONAME), file),
        cpu=_MACHINES.get(Machine(elf.machine), "") if elf.machine in _MACHINES else "",
        libraries=tuple(text for tag, text in texts if tag == _NEEDED),
        symbols=symbols,
        defined=defined,
        python=f"3.{found[1]}{found[2]}" if found else "",
    )


def _symbols(elf: Elf) -> tuple[tuple[Wanted, ...], frozenset[str]]:
    """The symbols that a library needs, and those that it exports.

    Raises:
        MalformedError: a table is truncated.
    """
    versions = dict(_needed_versions(elf))
    table = next((section for section in elf.sections if section.kind == Kind.VERSYM), None)
    numbers = [number for (number,) in struct.iter_unpack("<H", elf.content_of(table))] if table else []
    wanted: list[Wanted] = []
    defined: set[str] = set()
    for index, symbol in enumerate(elf.symbols(Kind.DYNSYM)):
        if not symbol.name or not symbol.binding:
            continue
        if symbol.section:
            defined.add(symbol.name)
            continue
        number = numbers[index] & _HIDDEN if index < len(numbers) else 0
        version, library = versions.get(number, ("", "")) if number >= _FIRST_VERSION else ("", "")
        wanted.append(Wanted(symbol.name, version, library, symbol.binding == _WEAK))
    return tuple(wanted), frozenset(defined)


def _needed_versions(elf: Elf) -> Iterator[tuple[int, tuple[str, str]]]:
    """The needed versions of symbols, by number, each with its library.

    Raises:
        MalformedError: a table is truncated.
    """
    part = "the needed versions"
    for table in elf.sections:
        if table.kind != Kind.VERNEED:
            continue
        names, at, following = _linked(elf, table), table.offset, 1
        while following:
            _, count, file, first, following = elf.numbers("<HHIII", at, part)
            library, entry = elf.text(names.offset + file), at + first
            for _ in range(count):
                _, _, number, name, step = elf.numbers("<IHHII", entry, part)
                yield number, (elf.text(names.offset + name), library)
                entry += step
            at += following


def _linked(elf: Elf, section: Section) -> Section:
    """The section with another section's names.

    Raises:
        MalformedError: there is no such section.
    """
    if section.link >= len(elf.sections):
        raise MalformedError("the section headers")
    return elf.sections[section.link]


def is_python(symbol: str) -> bool:
    """Whether a symbol belongs to Python, by its name."""
    return symbol.startswith(("Py", "_Py"))


def is_torch(symbol: str) -> bool:
    """Whether a mangled name lies in one of torch's namespaces (Itanium C++ ABI, chapter 5.1)."""
    return _NAMESPACES.match(symbol) is not None


def abi_of(symbol: str) -> str:
    """The C++ ABI that a mangled name depends on, `cxx11` or `cxx98`; empty for both.

    Identifiers are skipped by their lengths, so that their letters are not mistaken for `std::string`.
    """
    if any(mark in symbol for mark in _NEW):
        return "cxx11"
    at = 2
    while symbol.startswith("_Z") and (token := _TOKEN.match(symbol, at)):
        at = token.end()
        if token[0].isdigit():
            at += int(token[0])
        elif token[0] in {"Ss", "Sb"} or symbol.startswith(("St12basic_stringI", "St4listI"), token.start()):
            return "cxx98"
    return ""
