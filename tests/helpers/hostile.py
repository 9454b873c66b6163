"""A machine that is hostile to a build: traps as tools, poisoned variables, hidden host headers."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

TOOLS = ("gcc", "g++", "cc", "c++", "ld", "as", "ar", "nvcc", "cmake", "clang", "clang++", "python", "nm", "strip")
COVERED = ("/usr/local/cuda", "/usr/include", "/usr/lib/gcc", "/opt/cuda")

_TRAP = """#!/bin/sh
echo "$0 $*" >"{sprung}/{name}.$$"
exit 97
"""
_POISON = "#error the machine's own headers are read\n"
_HEADERS = ("stdio.h", "cstdint", "cuda_runtime.h", "cuda_runtime_api.h", "cuda_fp16.h", "algorithm", "torch/library.h")
_MODULES = ("tomli", "torch", "numpy", "pip")
_LIBRARIES = ("libstdc++.so.6", "libcudart.so.13")
_MOUNTS = """
umask 077
for directory in {covered}; do
  if [ -d "$directory" ]; then mount -t tmpfs none "$directory"; fi
done
exec "$@"
"""


def set_traps(traps: Path) -> Path:
    """Write tools that leave a note in `sprung/` and fail, and unusable headers, modules and libraries."""
    sprung = traps / "sprung"
    for name in ("bin", "include/torch", "python", "lib", "sprung"):
        (traps / name).mkdir(parents=True)
    for name in TOOLS:
        (traps / "bin" / name).write_text(_TRAP.format(sprung=sprung, name=name))
        (traps / "bin" / name).chmod(0o755)
    for name in _HEADERS:
        (traps / "include" / name).write_text(_POISON)
    for name in _MODULES:
        (traps / "python" / f"{name}.py").write_text("raise SystemExit(97)\n")
    for name in _LIBRARIES:
        (traps / "lib" / name).write_text("not a library")
    return traps


def poison(traps: Path, here: Path, path: str) -> dict[str, str]:
    """The poisoned variables for a build in its own directory `here`."""
    for name in ("home", "tmp"):
        (here / name).mkdir(parents=True)
    include, lib, flag = str(traps / "include"), str(traps / "lib"), "--no-such-flag"
    return {
        "PATH": f"{traps / 'bin'}:{path}",
        "HOME": str(here / "home"),
        "TMPDIR": str(here / "tmp"),
        "USER": "someone-else",
        "LOGNAME": "someone-else",
        "LANG": "tr_TR.UTF-8",
        "LC_ALL": "tr_TR.UTF-8",
        "TZ": "Asia/Kathmandu",
        "SOURCE_DATE_EPOCH": "1",
        **dict.fromkeys(("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"), str(traps)),
        **dict.fromkeys(("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "INCLUDE"), include),
        **dict.fromkeys(("LIBRARY_PATH", "LD_LIBRARY_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH"), lib),
        **dict.fromkeys(("CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"), flag),
        **dict.fromkeys(("CC", "CXX", "CUDAHOSTCXX", "NVCC_CCBIN", "LD"), str(traps / "bin" / "gcc")),
        "CCC_OVERRIDE_OPTIONS": f"+{flag}",
        "TORCH_CUDA_ARCH_LIST": "1.0",
        "ZIG_LIB_DIR": lib,
        "PYTHONPATH": str(traps / "python"),
    }


def mounts_of_our_own() -> list[str] | None:
    """A command that runs a shell command with mounts of its own; None if this machine does not allow that."""
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c"]
    try:
        done = subprocess.run([*command, "mount -t tmpfs none /mnt"], capture_output=True, check=False)
    except FileNotFoundError:
        return None
    return command if done.returncode == 0 else None


def within() -> list[str]:
    """A command that runs a command with a strict umask and, if possible, without the machine's headers."""
    command = mounts_of_our_own()
    covered = COVERED if command else ()
    return [*(command or ["sh", "-c"]), _MOUNTS.format(covered=" ".join(covered)), "-"]
