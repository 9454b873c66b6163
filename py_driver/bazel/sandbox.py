"""The files of this machine that an action sees besides its inputs: a shell and a C library."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.errors import Code, error
from py_driver.system.cache import storage_errors
from py_driver.system.machine import machine_cpu
from py_driver.system.scratch import scratch, settle

if TYPE_CHECKING:
    from py_driver.output import Output

_SHELL: Final = "/bin/sh"
_LOADERS: Final = {"aarch64": "/lib/ld-linux-aarch64.so.1", "x86_64": "/lib64/ld-linux-x86-64.so.2"}
"""The dynamic loader of programs for a CPU."""

_LIBRARIES: Final = (
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "libstdc++.so.6",
)
"""The libraries of NVIDIA's programs, besides the loader; only cicc of CUDA 11.8 needs libstdc++."""

_HERMETIC: Final = "--experimental_use_hermetic_linux_sandbox"
_ADVICE: Final = "actions need glibc, libgcc and libstdc++ of this machine"
TOOLCHAINS: Final = "/mnt"
"""Where an action finds Bazel's unpacked repositories; rules/private/tools/compile/packs.zig links directories to
it."""

_MOUNTED: Final = ("/lib", "/lib64")
"""The directory of the C library in the sandbox; .bazelrc mounts this machine's there, for a Bazel without the
driver."""

_WEAK: Final = (
    "note: this machine allows no user namespaces, so no sandbox hides its files from compilers; "
    "a compile that reads one fails"
)
_NO_LANDLOCK: Final = (
    "note: this machine allows no user namespaces and has no Landlock, so nothing hides its files from compilers; "
    "a compile that reads one fails, unless an assembler constructs the file's name"
)
_LANDLOCK_VERSION: Final = (444, None, 0, 1)
"""The system call that returns the version of Landlock's ABI; rules/private/tools/compile/landlock.zig uses it."""

_NEW_USER_AND_MOUNTS: Final = 0x10000000 | 0x00020000
"""CLONE_NEWUSER and CLONE_NEWNS of linux/sched.h."""


def worker_files() -> tuple[str, ...]:
    """The files that an action finds besides its inputs: a shell and a C library, which nvcc needs (docs/remote.md).

    Returns:
        Absolute paths.

    Raises:
        DriverError: SET_UP if this machine lacks one of them; PLATFORM if no compiler runs on it.
    """
    loader = _LOADERS.get(machine_cpu())
    if loader is None:
        message = f"no locked compiler runs on this machine with the CPU {machine_cpu()}"
        raise error(Code.PLATFORM, message, help=f"build on one of {', '.join(_LOADERS)}")
    try:
        listing = subprocess.run([loader, "--list", _SHELL], check=True, capture_output=True, text=True, env={}).stdout
    except (OSError, subprocess.CalledProcessError):
        raise error(Code.SET_UP, f"{loader} cannot list what {_SHELL} needs", help=_ADVICE) from None
    of_shell = [word for word in listing.split() if word.startswith("/")]
    places = list(dict.fromkeys(Path(path).parent for path in of_shell))
    libraries = []
    for name in _LIBRARIES:
        found = [str(directory / name) for directory in places if (directory / name).exists()]
        if not found:
            raise error(Code.SET_UP, f"{name} is not in {' or '.join(map(str, places))}", help=_ADVICE)
        libraries.append(found[0])
    return tuple(dict.fromkeys([_SHELL, loader, *of_shell, *libraries]))


def is_hermetic(workspace: Path) -> bool:
    """Whether a workspace's .bazelrc enables the sandbox that shows an action only its inputs, as the driver's do."""
    settings = workspace / ".bazelrc"
    return settings.is_file() and _HERMETIC in settings.read_text(encoding="utf-8", errors="replace").split()


def _files() -> list[str]:
    """The files of this machine that an action sees, besides its shell."""
    return [path for path in worker_files() if path != _SHELL]


def settings_place(cache: Path) -> Path:
    """The directory of `settings_file` for the current state of this machine, which need not exist.

    Args:
        cache: the directory of the driver's cache.

    Raises:
        DriverError: SET_UP if this machine lacks a file that actions need.
    """
    facts = [(path, found.st_size, found.st_mtime_ns) for path in _files() for found in [os.stat(path)]]  # noqa: PTH116
    return cache / "sandbox" / hashlib.sha256(repr(facts).encode()).hexdigest()[:12]


def settings_file(cache: Path) -> Path:
    """A .bazelrc that shows an action only `worker_files` of this machine; created if missing.

    Args:
        cache: directory of the driver's cache.

    Raises:
        DriverError: SET_UP if this machine lacks one of them; NO_SPACE or PERMISSION if the cache cannot be written.
    """
    files, directory = _files(), settings_place(cache)
    root = directory.parent
    library = str(directory / "lib").replace(":", "\\:")
    options = [f"build {shlex.quote(f'--sandbox_add_mount_pair={library}:{target}')}\n" for target in _MOUNTED]
    with storage_errors(directory):
        if not directory.is_dir():
            root.mkdir(parents=True, exist_ok=True)
            with scratch(root) as here:
                fresh = here / directory.name
                (fresh / "lib").mkdir(parents=True)
                for path in files:
                    shutil.copy(path, fresh / "lib")
                (fresh / "bazelrc").write_text("".join(options), encoding="utf-8")
                settle(fresh, directory)
    return directory / "bazelrc"


def toolchains(base: Path) -> list[str]:
    """Bazel's options for actions to find the headers of toolchains where they are unpacked.

    An action gets each toolchain's headers in one file. Unpacking it, or having Bazel stage ten thousand files, takes
    longer than reading them there.

    Args:
        base: Bazel's output base.

    Returns:
        Options of a build; empty on a machine without the directory that Bazel would mount over.
    """
    if not Path(TOOLCHAINS).is_dir():
        return []
    unpacked = base / "external"
    with storage_errors(unpacked):
        unpacked.mkdir(parents=True, exist_ok=True)
    source = str(unpacked).replace(":", "\\:")
    return [f"--sandbox_add_mount_pair={source}:{TOOLCHAINS}"]


def isolation(output: Output) -> list[str]:
    """Bazel's options for the sandbox that this machine allows; a weak one is reported, and its results are kept apart.

    If a process cannot create the namespaces in which Bazel's sandbox hides the machine, an action may read more than
    its key contains, and even more without Landlock. The key contains the kind of sandbox, so that builds with a better
    sandbox do not use such results.

    Args:
        output: reports a weak sandbox.
    """
    if has_namespaces():
        return []
    has_landlock = landlock_version() > 0
    output.say(_WEAK if has_landlock else _NO_LANDLOCK)
    return [f"--remote_default_exec_properties=sandbox={'landlock' if has_landlock else 'weak'}"]


def has_namespaces() -> bool:
    """Whether this machine allows the user to create the namespaces of Bazel's sandbox."""
    child = os.fork()
    if child == 0:
        os._exit(0 if ctypes.CDLL(None).unshare(_NEW_USER_AND_MOUNTS) == 0 else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def landlock_version() -> int:
    """The version of the kernel's Landlock; 0 or less without it."""
    return int(ctypes.CDLL(None).syscall(*_LANDLOCK_VERSION))
