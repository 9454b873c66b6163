"""The registers and stack of device functions in cubins, from their attributes. Pure.

NVIDIA does not publish the layout: entries of `.nv.info` have a format, an attribute and a size; for these attributes
the number of a symbol and a value follow. Compared with cuobjdump 13.0 on the 39 functions of a wheel of torchao.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.inspecting.images import FATBIN_SECTIONS, SASS, images_in
from py_driver.system.elf import Elf, Kind, MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECTION: Final = ".nv.info"
_REGISTERS, _FRAME = 0x2F, 0x11
_WITH_SIZE: Final = 4
_PAIR: Final = 8


class Used(NamedTuple):
    """The resources of a function.

    Attributes:
        registers: the registers of each thread; 0 if unknown.
        stack: the bytes of each thread's stack, including spills.
    """

    registers: int
    stack: int


def device_functions(elf: Elf) -> Iterator[tuple[str, str, Used]]:
    """The device functions of a library: architecture, symbol and resources of each.

    Args:
        elf: the library.

    Raises:
        MalformedError: the device code is truncated.
    """
    for section in elf.sections:
        if section.name in FATBIN_SECTIONS:
            for image in images_in(elf.content_of(section), section.offset):
                if image.form == SASS and image.content:
                    for symbol, used in _of_cubin(Elf(image.content)):
                        yield symbol, image.arch, used


def _of_cubin(cubin: Elf) -> Iterator[tuple[str, Used]]:
    """The functions of a cubin."""
    names = [symbol.name for symbol in cubin.symbols(Kind.SYMTAB)]
    found: dict[int, dict[int, int]] = {}
    for section in cubin.sections:
        if section.name == _SECTION:
            for attribute, symbol, value in _entries(cubin.content_of(section)):
                found.setdefault(symbol, {})[attribute] = value
    for symbol, values in found.items():
        if symbol >= len(names):
            raise MalformedError("the attributes of device functions")
        if _REGISTERS in values:
            yield names[symbol], Used(values[_REGISTERS], values.get(_FRAME, 0))


def _entries(content: bytes) -> Iterator[tuple[int, int, int]]:
    """The attributes that consist of a symbol's number and a value: attribute, symbol, value."""
    at = 0
    while at + 4 <= len(content):
        form, attribute, size = struct.unpack_from("<BBH", content, at)
        at += 4
        if form == _WITH_SIZE:
            if size == _PAIR and attribute in {_REGISTERS, _FRAME} and at + _PAIR <= len(content):
                yield attribute, *struct.unpack_from("<II", content, at)
            at += size
