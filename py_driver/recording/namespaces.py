"""Linux namespaces, without privileges, that give a program its own root directory, network and processes.

It runs in a process that does nothing else, and uses only the standard library.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_NEW_NAMESPACES: Final = 0x10000000 | 0x00020000 | 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000
"""CLONE_NEWUSER, NEWNS, NEWPID, NEWNET, NEWIPC and NEWUTS of linux/sched.h."""

_RDONLY: Final = 1
_NOSUID: Final = 2
_NODEV: Final = 4
_REMOUNT: Final = 32
_BIND: Final = 4096
_REC: Final = 16384
_PRIVATE: Final = 1 << 18
_DETACH: Final = 2
_LOCKED: Final = {os.ST_NOSUID: _NOSUID, os.ST_NODEV: _NODEV, os.ST_NOEXEC: 8, os.ST_NOATIME: 1024, 2048: 2048}
"""Flags of a mount that a remount must keep, by statvfs's value, with mount's value."""

_USER: Final = 1000
"""The user in the namespace: not root, and the same on every machine."""

_DEVICES: Final = ("null", "zero", "full", "random", "urandom")

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *args: Any) -> None:  # noqa: ANN401  (arguments of C)
    """Call a function of the C library.

    Raises:
        OSError: it fails.
    """
    words = [os.fsencode(arg) if isinstance(arg, (str, Path)) else arg for arg in args]
    if getattr(_libc, name)(*words) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}", str(args[1] if name == "mount" else args[0]))


def _mount(source: str, target: Path, kind: str | None, flags: int, options: str | None = None) -> None:
    kinds = [text.encode() if text else None for text in (kind, options)]
    _call("mount", source, target, kinds[0], ctypes.c_ulong(flags), kinds[1])


def _bind(source: Path, target: Path, *, writable: bool) -> None:
    """Mount a file or a directory of the machine at another path."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount(str(source), target, None, _BIND | _REC)
    found = os.statvfs(target).f_flag
    kept = sum(flag for known, flag in _LOCKED.items() if found & known)
    flags = _REMOUNT | _BIND | _NOSUID | kept | (0 if writable else _RDONLY)
    _mount("none", target, None, flags)


def separate() -> None:
    """Give this process its own user, mounts and network, and its future children their own process ids.

    Raises:
        OSError: the machine does not allow it.
    """
    user, group = os.getuid(), os.getgid()
    _call("unshare", _NEW_NAMESPACES)
    with suppress(FileNotFoundError):
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{_USER} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{_USER} {group} 1", encoding="ascii")
    with suppress(OSError):
        Path("/proc/sys/user/max_user_namespaces").write_text("0", encoding="ascii")


def enter(root: Path, spec: Mapping[str, Any]) -> bool:
    """Build the root directory and enter it, in the first process of the namespace.

    Args:
        root: an empty directory.
        spec: `mounts` (source, target, writable), `links` (target, path), `empty` (path, mode in octal), `files`
            (path, text).

    Returns:
        Whether /proc exists.

    Raises:
        OSError: the machine does not allow it.
    """
    _mount("none", Path("/"), None, _PRIVATE | _REC)
    _mount("tmpfs", root, "tmpfs", _NOSUID | _NODEV, "mode=755,size=16m")
    for path, mode in spec["empty"]:
        directory = root / path.lstrip("/")
        directory.mkdir(parents=True, exist_ok=True)
        size = spec["limits"]["scratch-bytes"]
        _mount("tmpfs", directory, "tmpfs", _NOSUID | _NODEV, f"mode={mode},size={size}")
    for path, text in spec["files"]:
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for source, target, writable in spec["mounts"]:
        _bind(Path(source), root / target.lstrip("/"), writable=writable)
    for target, path in spec["links"]:
        link = root / path.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(link):
            link.symlink_to(target)
    for device in _DEVICES:
        _bind(Path("/dev", device), root / "dev" / device, writable=True)
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0"), ("stdout", "/proc/self/fd/1")):
        (root / "dev" / name).symlink_to(target)
    proc = root / "proc"
    proc.mkdir()
    has_proc = True
    try:
        _mount("proc", proc, "proc", _NOSUID | _NODEV | 8)
    except OSError:  # a container that hides parts of its /proc
        has_proc = False
    with suppress(OSError):
        _call("sethostname", b"localhost", len("localhost"))
    os.chdir(root)
    _call("syscall", _PIVOT_ROOT[os.uname().machine], b".", b".")
    _call("umount2", b".", _DETACH)
    _mount("none", Path("/"), None, _REMOUNT | _BIND | _NOSUID | _NODEV | _RDONLY)
    os.chdir("/")
    return has_proc


_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41}


def allowed() -> bool:
    """Whether this machine allows such namespaces and such a root; tried in a child process."""
    with tempfile.TemporaryDirectory() as root:
        child = os.fork()
        if child == 0:
            try:
                separate()
                if grandchild := os.fork():
                    os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))
                enter(Path(root), {"mounts": [], "links": [], "empty": [], "files": []})
                os._exit(0)
            except BaseException:  # noqa: BLE001  (a child must not return)
                os._exit(1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
