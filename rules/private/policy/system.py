"""Write system_symbols.txt: the symbols of the system's libraries, from the archives of toolchains/lock. Run by hand.

    PYTHONPATH=. python rules/private/policy/system.py

glibc's libraries are zig's stubs of the oldest glibc; the others are Debian's packages, up to the newest versions of
symbol_versions.txt. A library keeps every version of a symbol for good.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py_driver.fetch.entry import parse_entry
from py_driver.fetch.fetcher import Fetcher
from py_driver.fetch.unpacking import Selection, unpack
from py_driver.matrix.releases import Releases
from py_driver.matrix.torch_symbols import soname
from py_driver.system.cache import cache_root

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HERE = Path(__file__).parent

sys.path.append(str(HERE.parents[2] / "toolchains" / "cc"))
stubs: Any = importlib.import_module("stubs")
_CPUS: Final = ("x86_64", "aarch64")
_GLIBC: Final = ("ld", "c", "dl", "m", "pthread", "rt")
_GCC: Final = ("libstdc++6", "libgcc-s1", "libgomp1", "libgomp1-arm64-cross")
_PLACES: Final = ("lib", "usr/lib", "usr/aarch64-linux-gnu")
_MATH: Final = "libmvec.so.1"
_HEAD = """\
# What the libraries of the system define, and in which versions, by system.py: of glibc {glibc}, and of gcc's libraries
# up to the newest versions of symbol_versions.txt. A line `[CPU LIBRARY]` begins a library.
"""


def of_glibc(zig: Path, glibc: str, cpu: str, work: Path) -> Iterator[Path]:
    """The stubs of glibc's libraries, made by zig as in the repository rule of the C++ SDK."""
    work.mkdir()
    (work / "empty.c").touch()
    flags = ["-dynamic", "-OReleaseSmall", "-fno-compiler-rt", "-fno-ubsan-rt", "-lc", "-lm", "-lpthread"]
    caches = ["--cache-dir", "cache", "--global-cache-dir", "cache", "-femit-bin=empty.so"]
    command = [str(zig), "build-lib", *flags, "-target", f"{cpu}-linux-gnu.{glibc}", *caches, "empty.c"]
    subprocess.run(command, cwd=work, check=True)
    for name in _GLIBC:
        [stub] = work.glob(f"cache/o/*/lib{name}.so.*")
        yield stub


def of_gcc(packages: list[Mapping[str, Any]], work: Path) -> Iterator[Path]:
    """The libraries of Debian's packages; for glibc's package, the library without a stub in zig."""
    for package in packages:
        if package["name"] not in (*_GCC, "libc6"):
            continue
        tree = work / package["name"]
        entry = parse_entry(package)
        unpack(Fetcher().fetch(entry).path, entry, tree, Selection(include=_PLACES))
        names = (_MATH,) if package["name"] == "libc6" else ("libstdc++.so.6.*", "libgcc_s.so.1", "libgomp.so.1.*")
        yield from (path for name in names for path in tree.rglob(name) if path.suffix != ".py")


def lines(library: Path, cpu: str, limits: Mapping[str, tuple[int, ...]]) -> Iterator[str]:
    """The lines of a library in the file."""
    yield f"[{cpu} {soname(library)}]"
    found: dict[str, list[str]] = {}
    for symbol in stubs.symbols(library.read_bytes()):
        if stubs.allowed(symbol.version, limits):
            found.setdefault(symbol.name, []).append(symbol.version)
    for name, versions in sorted(found.items()):
        yield " ".join([name, *sorted(versions)])


def main() -> None:
    """Write the file."""
    lock = Releases().lock.parts
    policy = (HERE / "symbol_versions.txt").read_text(encoding="ascii").splitlines()
    pairs = (line.split() for line in policy if not line.startswith("#"))
    limits = {family: tuple(map(int, newest.split("."))) for family, newest in pairs}
    cc, gcc = lock["cc"], lock["gcc"]
    text = [_HEAD.format(glibc=cc["glibc"])]
    with tempfile.TemporaryDirectory(dir=cache_root()) as name:
        work = Path(name)
        zig = parse_entry(cc["zig"][cc["default"]])
        unpack(Fetcher().fetch(zig).path, zig, work, Selection(strip_prefix="ziglang"))
        for cpu in _CPUS:
            packages = [*cc["gcc"], *gcc["packages"]] if cpu == "x86_64" else [*cc["cross"][cpu], *gcc["cross"][cpu]]
            if cpu != "x86_64":  # the C library there is the build machine's
                packages = [one for one in packages if one["name"] != "libc6"]
            libraries = [*of_glibc(work / "zig", cc["glibc"], cpu, work / cpu), *of_gcc(packages, work / cpu)]
            for library in libraries:
                text += [f"{line}\n" for line in lines(library, cpu, limits)]
    (HERE / "system_symbols.txt").write_text("".join(text), encoding="ascii")


if __name__ == "__main__":
    main()
