"""Finds the device code inside a library: fat binaries of nvcc, and bundles of code objects of clang.

NVIDIA does not publish the layout of fat binaries; this is what nvcc 11.8 to 13.5 write. The ABI check,
rules/private/tools/abi_check/device.zig, reads it too. Bundles: LLVM's ClangOffloadBundler.rst, and its header of
compressed bundles, lib/Driver/OffloadBundler.cpp.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.inspecting.packed import NoZstandardError, PackedError, unpack_lz4, unpack_zstandard
from py_driver.inspecting.parts import shares
from py_driver.system.elf import MAGIC, MalformedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SASS: Final = "SASS"
PTX: Final = "PTX"
AMDGPU: Final = "AMDGPU"

LZ4: Final = "LZ4"
ZSTANDARD: Final = "Zstandard"
ZLIB: Final = "zlib"

FATBIN_SECTIONS: Final = (".nv_fatbin", "__nv_relfatbin")
DEVICE_SECTIONS: Final = (*FATBIN_SECTIONS, ".hip_fatbin")
"""The sections with only device code."""

_FATBIN: Final = struct.pack("<IHH", 0xBA55ED50, 1, 16)
_BUNDLE: Final = b"__CLANG_OFFLOAD_BUNDLE__"
_PACKED_BUNDLE: Final = b"CCOB"
_BUNDLE_HEADS: Final = {1: "<II", 2: "<III", 3: "<IQQ"}
"""The fields after the magic number of a compressed bundle, by version: version and method in 32 bits, from version 2
on the total size, and the size of the content. A hash of 64 bits follows."""

_HASH: Final = 8
_METHODS: Final = (ZLIB, ZSTANDARD)
_PREFIX: Final = "hipv4-amdgcn-amd-amdhsa--"
_HOST: Final = "host-"
_FORMS: Final = {1: PTX, 2: SASS}
_LZ4_FLAG, _ZSTANDARD_FLAG = 1 << 13, 1 << 15
_SPECIFIC_FLAG, _FAMILY_FLAG = 1 << 20, 1 << 21
_SMALLEST_HEAD: Final = 48
_OLD_CUBIN_ABI, _OLD_SPECIFIC_FLAG = 7, 0x800
"""fatbinary of CUDA 11 marks architecture-specific code only in the header of the cubin."""

_MOST: Final = 1 << 30
"""Larger than any image; unpacked content takes as much memory as its header says."""

_PART: Final = "the device code"


class Image(NamedTuple):
    """Code for one architecture.

    Attributes:
        form: `SASS`, `PTX`, `AMDGPU`, or `kind 5` for an unknown number.
        arch: `9.0a`, `gfx942:xnack-`.
        binary: the offset of its fat binary or bundle in the file; each source has its own.
        stored: its bytes in the file, with its header.
        head: the bytes of its header.
        size: the size of its content.
        packing: the compression of the content; empty without compression.
        shared: whether it is compressed together with others, so that `stored` is its share.
        content: the uncompressed content; None if this machine cannot unpack it.
    """

    form: str
    arch: str
    binary: int
    stored: int
    head: int
    size: int
    packing: str
    shared: bool
    content: bytes | None


def images_in(data: bytes, start: int) -> Iterator[Image]:
    """The images of a section, in order.

    Args:
        data: the bytes of the section.
        start: its offset in the file.

    Raises:
        MalformedError: an image is truncated or malformed.
    """
    at = 0
    finders: tuple[tuple[bytes, Callable[[bytes, int, int], tuple[list[Image], int]]], ...] = (
        (_FATBIN, _fatbin),
        (_BUNDLE, _bundle),
        (_PACKED_BUNDLE, _packed_bundle),
    )
    while True:
        found = [(begin, read) for magic, read in finders if (begin := _aligned(data, magic, at)) >= 0]
        if not found:
            return
        begin, read = min(found, key=lambda pair: pair[0])
        try:
            images, at = read(data, begin, start)
        except struct.error:
            raise MalformedError(_PART) from None
        except NoZstandardError:
            raise
        except (PackedError, zlib.error) as problem:
            raise MalformedError(f"{_PART}: {problem}") from None
        yield from images


def _aligned(data: bytes, magic: bytes, at: int) -> int:
    """The offset of the next magic number at a multiple of eight; -1 if there is none."""
    while (at := data.find(magic, at)) >= 0 and at % 8:
        at += 1
    return at


def _fatbin(data: bytes, at: int, start: int) -> tuple[list[Image], int]:
    """The images of a fat binary, and its end."""
    (size,) = struct.unpack_from("<Q", data, at + 8)
    begin, end = at + len(_FATBIN) + 8, at + len(_FATBIN) + 8 + size
    if end > len(data):
        raise MalformedError(_PART)
    images = []
    while begin < end:
        kind, _, head, body = struct.unpack_from("<HHIQ", data, begin)
        arch, flags = *struct.unpack_from("<I", data, begin + 28), *struct.unpack_from("<Q", data, begin + 40)
        if head < _SMALLEST_HEAD or begin + head + body > end:
            raise MalformedError(_PART)
        form = _FORMS.get(kind, f"kind {kind}")
        packing = LZ4 if flags & _LZ4_FLAG else ZSTANDARD if flags & _ZSTANDARD_FLAG else ""
        payload = data[begin + head : begin + head + body]
        content: bytes | None = _text(payload) if form == PTX else payload
        unpacked = len(content or b"")
        if packing:
            (packed,) = struct.unpack_from("<I", data, begin + 16)
            (unpacked,) = struct.unpack_from("<Q", data, begin + 56)
            if packed > body:
                raise MalformedError(_PART)
            content = _unpacked(payload[:packed], packing, unpacked)
        name = f"{arch // 10}.{arch % 10}{_suffix(flags, content)}"
        images.append(
            Image(form, name, start + at, head + body, head, unpacked, packing, shared=False, content=content)
        )
        begin += head + body
    return images, end


def _text(payload: bytes) -> bytes:
    """PTX up to and including its zero, without padding."""
    text = payload.rstrip(b"\0")
    return payload[: len(text) + 1]


def _unpacked(packed: bytes, packing: str, size: int) -> bytes | None:
    """The uncompressed content; None if this machine cannot unpack it."""
    if size > _MOST:
        raise PackedError("the content is too large")
    try:
        if packing == ZLIB:
            return zlib.decompressobj().decompress(packed, size + 1)
        return (unpack_lz4 if packing == LZ4 else unpack_zstandard)(packed, size)
    except NoZstandardError:
        return None


def _suffix(flags: int, content: bytes | None) -> str:
    """The suffix of an architecture's number."""
    if flags & _SPECIFIC_FLAG:
        return "a"
    if flags & _FAMILY_FLAG:
        return "f"
    if content and content[: len(MAGIC)] == MAGIC and content[8] <= _OLD_CUBIN_ABI:
        return "a" if struct.unpack_from("<I", content, 48)[0] & _OLD_SPECIFIC_FLAG else ""
    return ""


def _bundle(data: bytes, at: int, start: int) -> tuple[list[Image], int]:
    """The code objects of a bundle, and the end of the last one."""
    (count,) = struct.unpack_from("<Q", data, at + len(_BUNDLE))
    begin = at + len(_BUNDLE) + 8
    end, images = begin, []
    for _ in range(count):
        offset, size, length = struct.unpack_from("<QQQ", data, begin)
        name = data[begin + 24 : begin + 24 + length]
        begin += 24 + length
        end = max(end, begin, at + offset + size)
        if end > len(data) or len(name) < length:
            raise MalformedError(_PART)
        target = name.decode("ascii", errors="backslashreplace")
        if target.startswith(_HOST):
            continue
        content = data[at + offset : at + offset + size]
        arch = target.removeprefix(_PREFIX)
        images.append(Image(AMDGPU, arch, start + at, size, 0, size, "", shared=False, content=content))
    return images, end


def _packed_bundle(data: bytes, at: int, start: int) -> tuple[list[Image], int]:
    """The code objects of a compressed bundle, and its end."""
    head, method = struct.unpack_from("<HH", data, at + len(_PACKED_BUNDLE))
    if head not in _BUNDLE_HEADS or method >= len(_METHODS):
        raise MalformedError(_PART)
    form = _BUNDLE_HEADS[head]
    _, *sizes = struct.unpack_from(form, data, at + len(_PACKED_BUNDLE))
    begin = at + len(_PACKED_BUNDLE) + struct.calcsize(form) + _HASH
    packing, size = _METHODS[method], sizes[-1]
    end = at + sizes[0] if len(sizes) > 1 else len(data.rstrip(b"\0"))
    if end > len(data) or end < begin:
        raise MalformedError(_PART)
    plain = _unpacked(data[begin:end], packing, size)
    if plain is None:
        return [Image(AMDGPU, "", start + at, end - at, begin - at, size, packing, shared=False, content=None)], end
    if len(plain) != size or not plain.startswith(_BUNDLE):
        raise MalformedError(_PART)
    images, _ = _bundle(plain, 0, 0)
    stored = shares(end - at, [image.size for image in images])
    return [
        image._replace(binary=start + at, stored=part, packing=packing, shared=True)
        for image, part in zip(images, stored, strict=True)
    ], end
