"""The code objects in an extension for AMD's GPUs, read without any of the project's own code.

Bundle: clang/docs/ClangOffloadBundler.rst of LLVM. Flags of the ELF header and notes: llvm/docs/AMDGPUUsage.rst.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
_HIP = "hipv4-amdgcn-amd-amdhsa--"
_AMDGPU = 224
_MACHINES = {0x3F: "gfx90a", 0x4C: "gfx942", 0x41: "gfx1100", 0x4E: "gfx1201", 0x36: "gfx1030"}
_WAVEFRONT = b"\xaf.wavefront_size"


class CodeObject(NamedTuple):
    """The code object for an architecture.

    Attributes:
        named: the architecture in the bundle.
        machine: the architecture in its own header.
        wavefronts: the wavefront size of each kernel.
    """

    named: str
    machine: str
    wavefronts: tuple[int, ...]


def code_objects(data: bytes) -> Iterator[CodeObject]:
    """The code objects of all bundles in a file."""
    at = -1
    while (at := data.find(_MAGIC, at + 1)) >= 0:
        (count,) = struct.unpack_from("<Q", data, at + 24)
        entry = at + 32
        for _ in range(count):
            offset, size, length = struct.unpack_from("<QQQ", data, entry)
            name = data[entry + 24 : entry + 24 + length].decode()
            entry += 24 + length
            if name.startswith(_HIP):
                yield _code_object(name.removeprefix(_HIP), data[at + offset : at + offset + size])


def _code_object(named: str, elf: bytes) -> CodeObject:
    (machine,) = struct.unpack_from("<H", elf, 18)
    assert elf[:4] == b"\x7fELF"
    assert machine == _AMDGPU
    (flags,) = struct.unpack_from("<I", elf, 48)
    sizes = [elf[at + len(_WAVEFRONT)] for at in range(len(elf)) if elf.startswith(_WAVEFRONT, at)]
    return CodeObject(named=named, machine=_MACHINES[flags & 0xFF], wavefronts=tuple(sizes))
