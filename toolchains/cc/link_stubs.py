"""Write link stubs: python3 link_stubs.py ZIG TRIPLE DIRECTORY SYMBOLS SONAME...

A stub is a shared library with names and no code. Without symbols the linker only records that the library is needed.
SYMBOLS is a table with the symbols of each SONAME, as `py_driver/matrix/library_symbols.py` describes it, or an empty
string. Run by repository rules with the host's Python; uses the standard library alone.

Each stub needs two short runs of ZIG, which a repository rule would start in sequence; here they run in parallel.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path


def defined(table: str) -> dict[str, list[str]]:
    """The symbols of each library of a table, by SONAME."""
    sections = (section.splitlines() for section in table.split("\n[")[1:])
    return {head.partition("]")[0]: names for head, *names in sections}


def assembly(symbols: list[str]) -> str:
    """The source of a stub that defines functions."""
    return ".text\n" + "".join(f".globl {name}\n.type {name}, @function\n{name}:\n" for name in symbols)


@dataclass(frozen=True, kw_only=True, slots=True)
class Maker:
    """Makes stubs with a compiler and linker.

    Attributes:
        zig: the program that compiles and links.
        triple: the target, e.g. `x86_64-linux-gnu`.
        directory: the directory for the stubs.
    """

    zig: str
    triple: str
    directory: Path

    def make(self, soname: str, symbols: list[str]) -> None:
        """Write the stub of a library.

        Args:
            soname: the name of the library and of the file.
            symbols: the functions that it defines.

        Raises:
            subprocess.CalledProcessError: the compiler or the linker fails; `stderr` has the reason.
            OSError: a file cannot be written, or the program cannot be started.
        """
        with tempfile.TemporaryDirectory(dir=self.directory, prefix=".stub-") as work:
            source, compiled = Path(work, "stub.s"), Path(work, "stub.o")
            source.write_text(assembly(symbols), encoding="ascii")
            self._run("clang", f"--target={self.triple}", "-c", source, "-o", compiled)
            options = ("-shared", "--build-id=none", "-soname", soname)
            self._run("ld.lld", *options, compiled, "-o", self.directory / soname)

    def _run(self, *arguments: str | Path) -> None:
        subprocess.run([self.zig, *arguments], check=True, capture_output=True, text=True, errors="replace")


if __name__ == "__main__":
    zig, triple, directory, symbols_file, *sonames = sys.argv[1:]
    known = defined(Path(symbols_file).read_text(encoding="ascii")) if symbols_file else {}
    maker = Maker(zig=zig, triple=triple, directory=Path(directory))
    maker.directory.mkdir(parents=True, exist_ok=True)
    try:
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
            list(threads.map(lambda name: maker.make(name, known.get(name, [])), sonames))
    except subprocess.CalledProcessError as failure:
        sys.exit(f"{' '.join(map(str, failure.cmd))}:\n{failure.stderr}")
