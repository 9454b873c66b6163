"""Reads the machine code and the PTX of a built library with NVIDIA's tools, which the driver installs."""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import tomli

from py_driver.errors import Code, error
from py_driver.inspecting.assembly import kernels_of
from py_driver.inspecting.images import SASS
from py_driver.inspecting.triton_code import DIRECTORY, INDEX, compiled_in
from py_driver.resources import resource
from py_driver.system.environment import curated
from py_driver.system.venv import ensure_venv

if TYPE_CHECKING:
    from collections.abc import Callable

    from py_driver.inspecting.assembly import Kernel
    from py_driver.output import Output

_NUMBER: Final = re.compile(r"\.sm_(\d+)(\d)([af]?)\.(?:cubin|ptx)$")
_LIBRARIES: Final = "*.so"


class Disassembler:
    """NVIDIA's tools, in an environment of their own in the cache."""

    def __init__(self, output: Output) -> None:
        """Install the tools.

        Raises:
            DriverError: see `ensure_venv`.
        """
        requirements = tomli.loads(resource("sass.toml"))["tools"]["requirements"]
        python = ensure_venv("disassembler", requirements, output)
        [self._programs] = python.parents[1].glob("lib/python*/site-packages/nvidia/cu*/bin")

    def kernels(self, variant: Path, *, lines: bool = False) -> list[Kernel]:
        """The functions of a variant's library, and those that Triton has compiled, by architecture.

        Args:
            variant: its directory.
            lines: whether to show source lines.

        Raises:
            DriverError: LOAD_FAILED if there is no device code, or the tools cannot read it.
        """
        found = []
        with tempfile.TemporaryDirectory(prefix="driver-") as directory:
            for library in sorted(variant.glob(_LIBRARIES)):
                self._run("cuobjdump", "-xelf", "all", str(library.absolute()), cwd=directory)
            ahead = _ahead(variant, Path(directory))
            for cubin in sorted(Path(directory).glob("*.cubin"), key=_order):
                told = self._run("nvdisasm", "-json", str(cubin))
                usage = self._run("cuobjdump", "-res-usage", str(cubin))
                listing = self._run("nvdisasm", "-c", *(["-g"] if lines else []), str(cubin))
                symbols = re.findall(r'"function-name":"([^"]+)"', told)
                own = {symbol: ahead.get(f"{cubin.name.partition('.')[0]} {symbol}") for symbol in symbols}
                names = {symbol: own[symbol] or demangled(symbol) for symbol in symbols}
                try:
                    found += kernels_of(told, usage, listing, arch_of(cubin.name), names)
                except (ValueError, LookupError, TypeError) as problem:
                    message = f"the driver does not understand nvdisasm's output for {cubin.name}: {problem}"
                    raise error(Code.LOAD_FAILED, message, help="please report it") from None
        if not found:
            raise error(Code.LOAD_FAILED, f"{variant} has no machine code for NVIDIA GPUs")
        return found

    def ptx(self, variant: Path) -> dict[str, str]:
        """The PTX of a variant's library, by architecture, concatenated from all sources."""
        found: dict[str, str] = {}
        with tempfile.TemporaryDirectory(prefix="driver-") as directory:
            for library in sorted(variant.glob(_LIBRARIES)):
                self._run("cuobjdump", "-xptx", "all", str(library.absolute()), cwd=directory)
            for file in sorted(Path(directory).glob("*.ptx"), key=_order):
                arch = arch_of(file.name)
                found[arch] = found.get(arch, "") + file.read_text(encoding="utf-8", errors="replace")
        return found

    def program(self, name: str) -> Path:
        """The path of a tool.

        Args:
            name: `cuobjdump` or `nvdisasm`.
        """
        return self._programs / name

    def _run(self, program: str, *args: str, cwd: str | None = None) -> str:
        """The output of a tool.

        Raises:
            DriverError: LOAD_FAILED if it fails.
        """
        command = [str(self.program(program)), *args]
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", env=curated(), cwd=cwd, check=False
        )
        if done.returncode and "does not contain device code" not in done.stdout + done.stderr:
            lines = (done.stderr or done.stdout).strip().splitlines()
            message = f"{program} cannot read {args[-1]}: {lines[0] if lines else f'exit code {done.returncode}'}"
            raise error(Code.LOAD_FAILED, message)
        return done.stdout


def _ahead(variant: Path, directory: Path) -> dict[str, str]:
    """Copies Triton's code under cuobjdump's file names; returns the functions' names, by file and symbol.

    Each signature and configuration has a compiled function, so they are part of its name, like template arguments.

    Args:
        variant: its directory.
        directory: the destination.
    """
    ahead = variant / DIRECTORY
    if not (ahead / INDEX).is_file():
        return {}
    names = {}
    for compiled in compiled_in((ahead / INDEX).read_bytes(), [path.name for path in ahead.iterdir()]):
        if compiled.form == SASS:
            file = f"{compiled.request}.sm_{compiled.arch.replace('.', '')}.cubin"
            (directory / file).write_bytes((ahead / compiled.file).read_bytes())
            names[f"{compiled.request} {compiled.symbol}"] = compiled.name
    return names


def arch_of(file: str) -> str:
    """The architecture that cuobjdump names in a file's name: `9.0a` for `x.1.sm_90a.cubin`."""
    found = _NUMBER.search(file)
    return f"{found[1]}.{found[2]}{found[3]}" if found else ""


def _order(path: Path) -> list[Any]:
    """The order of cuobjdump's files, which it numbers."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.name)]


@cache
def _demangler() -> Callable[[str], str] | None:
    """The demangler of the system's libstdc++; None without one."""
    try:
        demangle = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
        free = ctypes.CDLL(None)["free"]
    except (OSError, AttributeError):
        return None
    demangle.restype = ctypes.c_void_p
    free.argtypes = [ctypes.c_void_p]

    def demangled(symbol: str) -> str:
        found = demangle(symbol.encode(), None, None, None)
        if not found:
            return symbol
        try:
            return (ctypes.string_at(found)).decode(errors="replace")
        finally:
            free(found)

    return demangled


@cache
def demangled(symbol: str) -> str:
    """The demangled symbol, by the system's libstdc++; without one, the symbol itself."""
    demangle = _demangler()
    return demangle(symbol) if demangle else symbol
