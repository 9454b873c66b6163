"""Bazel's execution log, in the encoding of protocol buffers."""

from __future__ import annotations


def number(value: int) -> bytes:
    """A number in the encoding of protocol buffers: seven bits per byte, the low ones first."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def field(key: int, value: bytes | str | int) -> bytes:
    """A field of a message: a number, a text, or another message."""
    if isinstance(value, int):
        return number(key << 3) + number(value)
    data = value.encode() if isinstance(value, str) else value
    return number(key << 3 | 2) + number(len(data)) + data


def file(path: str, digest: str) -> bytes:
    """A `File`."""
    return field(1, path) + field(2, field(1, digest) + field(2, 1234) + field(3, "SHA-256"))


def log(*spawns: bytes) -> bytes:
    """A log of `SpawnExec`s."""
    return b"".join(number(len(spawn)) + spawn for spawn in spawns)
