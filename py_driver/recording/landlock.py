"""Confinement of a program without namespaces: Landlock for files, and a filter of system calls for the network.

It runs in a process that then becomes the program, and uses only the standard library.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_ASK_VERSION: Final = 1
_PATH_BENEATH: Final = 1

_EXECUTE_AND_READ: Final = 1 << 0 | 1 << 2 | 1 << 3
_WRITES: Final = 1 << 1 | sum(1 << bit for bit in range(4, 13))
"""WRITE_FILE; REMOVE_DIR, REMOVE_FILE, and MAKE_* of linux/landlock.h."""

_BY_VERSION: Final = {2: 1 << 13, 3: 1 << 14}
"""REFER and TRUNCATE, by the first version of the ABI that has them."""

_OF_FILES: Final = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14
"""The rights for a file; the other rights are for directories."""

_SET_SECCOMP: Final = 22
_FILTER: Final = 2
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000 | 101
"""SECCOMP_RET_ERRNO with ENETUNREACH."""

_SOCKET: Final = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""AUDIT_ARCH of a CPU, and the number of socket()."""

_IO_URING_SETUP: Final = 425
_OTHER_CALLS: Final = 0x40000000
"""The first number of calls of another ABI, x32."""

_UNIX: Final = 1

_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """The version of Landlock's ABI; 0 if the kernel has none."""
    return max(int(_libc.syscall(_CREATE_RULESET, None, 0, _ASK_VERSION)), 0)


def confine(readable: Sequence[str], writable: Sequence[str]) -> None:
    """Deny this process and its children all files except some; paths that do not exist are ignored.

    Args:
        readable: files and directories to read and to execute.
        writable: files and directories to change as well.

    Raises:
        OSError: the kernel refuses.
    """
    extra = sum(right for known, right in _BY_VERSION.items() if version() >= known)
    handled = _EXECUTE_AND_READ | _WRITES | extra
    ruleset = _checked(_libc.syscall(_CREATE_RULESET, struct.pack("Q", handled), ctypes.c_size_t(8), 0))
    for paths, rights in ((readable, _EXECUTE_AND_READ), (writable, handled)):
        for path in paths:
            try:
                opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue
            allowed = rights if os.path.isdir(path) else rights & _OF_FILES & handled  # noqa: PTH112
            rule = struct.pack("=Qi", allowed, opened)
            _checked(_libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0))
            os.close(opened)
    _checked(_libc.syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def forbid_network() -> None:
    """Allow no sockets except Unix sockets, and no io_uring, which could create others.

    Raises:
        OSError: the kernel refuses.
    """
    known = _SOCKET.get(os.uname().machine)
    if known is None:
        raise OSError(f"no filter of system calls for {os.uname().machine}")
    arch, socket = known
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    program = [
        (load, 0, 0, 4),  # the architecture
        (equal, 1, 0, arch),
        (give, 0, 0, _REFUSE),
        (load, 0, 0, 0),  # the number of the call
        (at_least, 5, 0, _OTHER_CALLS),
        (equal, 4, 0, _IO_URING_SETUP),
        (equal, 0, 2, socket),
        (load, 0, 0, 16),  # its first argument
        (equal, 0, 1, _UNIX),
        (give, 0, 0, _ALLOW),
        (give, 0, 0, _REFUSE),
    ]
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    described = struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer))
    _checked(_libc.prctl(_SET_SECCOMP, _FILTER, described, 0, 0))


def _checked(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer
