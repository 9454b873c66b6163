"""Unpacks and packs device code as CUDA's fatbinary and clang do: LZ4 and Zstandard. Zstandard is the system's.

Layout: lz4_Block_format.md of LZ4; RFC 8878.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, Final

_LONGEST: Final = 15
_MORE: Final = 255
_SHORTEST_MATCH: Final = 4
ZSTANDARD_LIBRARY: Final = "libzstd.so.1"


class PackedError(ValueError):
    """Packed content is malformed, or has another size."""


class NoZstandardError(PackedError):
    """This machine has no Zstandard."""


def unpack_lz4(packed: bytes, size: int) -> bytes:
    """The content of a block of LZ4.

    Args:
        packed: the block.
        size: of the content.

    Raises:
        PackedError: the block is no such block.
    """
    plain, at = bytearray(), 0
    try:
        while at < len(packed):
            token = packed[at]
            literals, at = _length(packed, at + 1, token >> 4)
            plain += packed[at : at + literals]
            at += literals
            if at >= len(packed):  # the last sequence has literals alone
                break
            distance = packed[at] | packed[at + 1] << 8
            count, at = _length(packed, at + 2, token & 15)
            count += _SHORTEST_MATCH
            if not 0 < distance <= len(plain) or len(plain) + count > size:
                raise PackedError("a match is outside of the content")
            begin = len(plain) - distance
            match = bytes(plain[begin : begin + count])
            plain += (match * (count // len(match) + 1))[:count]
    except IndexError:
        raise PackedError("the block is truncated") from None
    if at != len(packed) or len(plain) != size:
        raise PackedError("the block is truncated")
    return bytes(plain)


def _length(packed: bytes, at: int, first: int) -> tuple[int, int]:
    """A length, with further bytes if its four bits are full, and the end of its encoding."""
    if first < _LONGEST:
        return first, at
    while packed[at] == _MORE:
        first, at = first + _MORE, at + 1
    return first + packed[at], at + 1


def unpack_zstandard(packed: bytes, size: int) -> bytes:
    """The content of a frame of Zstandard.

    Args:
        packed: the frame.
        size: of the content.

    Raises:
        NoZstandardError: this machine has no Zstandard.
        PackedError: the frame is malformed.
    """
    library = _zstandard()
    room = ctypes.create_string_buffer(max(size, 1))
    written = library.ZSTD_decompress(room, size, packed, len(packed))
    if library.ZSTD_isError(written) or written != size:
        raise PackedError("the frame is not of Zstandard")
    return room.raw[:size]


def pack_zstandard(content: bytes, level: int) -> bytes:
    """Content as a frame of Zstandard.

    Args:
        content: the content of the frame.
        level: the level of the compression.

    Raises:
        NoZstandardError: this machine has no Zstandard.
    """
    library = _zstandard()
    most = library.ZSTD_compressBound(len(content))
    room = ctypes.create_string_buffer(most)
    written = library.ZSTD_compress(room, most, content, len(content), level)
    if library.ZSTD_isError(written):
        raise PackedError("Zstandard fails")
    return room.raw[:written]


@cache
def _zstandard() -> ctypes.CDLL:
    """The system's library.

    Raises:
        NoZstandardError: there is no such library.
    """
    try:
        library = ctypes.CDLL(ZSTANDARD_LIBRARY)
    except OSError:
        raise NoZstandardError(f"this machine has no {ZSTANDARD_LIBRARY}") from None
    size, pointer = ctypes.c_size_t, ctypes.c_char_p
    functions: tuple[tuple[str, list[Any]], ...] = (
        ("ZSTD_decompress", [pointer, size, pointer, size]),
        ("ZSTD_compress", [pointer, size, pointer, size, ctypes.c_int]),
        ("ZSTD_compressBound", [size]),
        ("ZSTD_isError", [size]),
    )
    for name, arguments in functions:
        function = library[name]
        function.argtypes, function.restype = arguments, size
        setattr(library, name, function)
    library.ZSTD_isError.restype = ctypes.c_uint
    return library
