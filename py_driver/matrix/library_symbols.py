"""The symbols of the libraries of CUDA, ROCm, tvm-ffi or Python: toolchains/lock/cuda_13.0.symbols and similar files.

The file is text. The first line is the name of the release. A line `[SONAME] PACKAGE VERSION SHA256` begins a library
and names its archive; its symbols follow, one on each line, ascending. The ABI check,
rules/private/tools/abi_check/libraries.zig, reads it; the repository rules make the stubs from it that extensions are
linked with.

The libraries are those of rules/private/policy/libraries.txt with a prefix of symbols there, and Python's: it stands
for the symbols that an interpreter exports to its extension modules, which need no library for them. The CUDA driver's
library is in no package: its symbols are read from declarations in headers.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py_driver.errors import Code, error
from py_driver.fetch.entry import parse_entry
from py_driver.fetch.fetcher import Fetcher
from py_driver.fetch.store import Store
from py_driver.fetch.unpacking import unpack
from py_driver.matrix.backends import TOOLKITS
from py_driver.matrix.installation import module_root
from py_driver.matrix.matrix import CPYTHON_PART, TVM_FFI_PART
from py_driver.matrix.torch_symbols import defined, soname
from py_driver.system.cache import cache_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from py_driver.fetch.entry import Entry

NAMES: Final = {
    **{backend.family: backend.title for backend in TOOLKITS},
    TVM_FFI_PART: "tvm-ffi",
    CPYTHON_PART: "Python",
}
"""The parts of the lock with libraries, and their titles."""

DRIVER: Final = "libcuda.so.1"
"""The library of NVIDIA's driver, which exists on machines with a GPU."""

_DRIVER_HEADER: Final = "cuda.h"
_DECLARED = re.compile(r"\bCUDAAPI\s+(cu[A-Z]\w*)\s*\(")
_RENAMED = re.compile(r"^\s*#\s*define\s+cu[A-Z]\w*\s+(?:__CUDA_API_(PTDS|PTSZ)\()?\s*(cu[A-Z]\w*)", re.MULTILINE)
_PYTHON = re.compile(r"libpython3\.\d+\.so\.1\.0")
_NOISE = re.compile(r".*\.|_Z(T\w)?N?K?St")
"""Names of versions, which count as symbols and contain a dot, and parts of libstdc++ that AMD's libraries export."""

_HEAD = re.compile(r"^\[\S+\] \S+ \S+ ([0-9a-f]{64})$", re.MULTILINE)


def is_current(path: Path, release: Mapping[str, Any]) -> bool:
    """Whether a symbols file was recorded from the locked archives of a release; without archives there is no file.

    Args:
        path: the path of the file, which need not exist.
        release: a release of the lock's part `cuda` or `rocm`.
    """
    wanted = {library.get("sha256") for library in release.get("libraries", ())}
    found = set(_HEAD.findall(path.read_text(encoding="ascii", errors="replace"))) if path.is_file() else set()
    return found == wanted


def read(kind: str, version: str, release: Mapping[str, Any], report: Callable[[str], None]) -> bytes:
    """The content of the file for a release, whose libraries are fetched, read and not kept.

    Args:
        kind: `cuda` or `rocm`.
        version: e.g. `13.0`.
        release: a release of the lock's part of that kind.
        report: gets progress messages.

    Raises:
        DriverError: see `Fetcher.fetch` and `unpack`; BAD_DIGEST if an archive has no library to record.
    """
    title = f"{NAMES[kind]} {version}"
    parts: dict[str, list[str]] = {}
    for entry in map(parse_entry, release["libraries"]):
        report(f"{title}: {entry.label}")
        source = f"{entry.name} {entry.version} {entry.sha256}"
        found = {name: [f"[{name}] {source}", *sorted(symbols)] for name, symbols in _libraries(entry)}
        if not found:
            raise error(
                Code.BAD_DIGEST, f"{entry.basename} has no library to record", help="name another in `libraries`"
            )
        parts |= found
    lines = [title, *(line for _, part in sorted(parts.items()) for line in part)]
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def _libraries(entry: Entry) -> Iterator[tuple[str, set[str]]]:
    """The names and symbols of an archive's libraries."""
    patterns = list(_patterns())
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root) as work:
        tree = Path(work) / "tree"
        unpack(Fetcher(Store(Path(work) / "store")).fetch(entry).path, entry, tree)
        for path in sorted(tree.rglob("lib*.so*")):
            if path.is_symlink() or not any(pattern.fullmatch(path.name) for pattern in patterns):
                continue
            yield soname(path), {name for name in defined(path) if not _NOISE.match(name)}
        for path in tree.rglob(_DRIVER_HEADER):
            yield DRIVER, set(_declared(path.parent.glob("cuda*.h")))


def _patterns() -> Iterator[re.Pattern[str]]:
    """The patterns of recorded libraries."""
    yield _PYTHON
    policy = module_root() / "rules" / "private" / "policy" / "libraries.txt"
    for line in policy.read_text(encoding="utf-8").splitlines():
        name, _, beginnings = line.partition(" ")
        if beginnings and not line.startswith("#"):
            yield re.compile(re.escape(name).replace(r"\#", r"\d[\d.]*"))


def _declared(headers: Iterable[Path]) -> Iterator[str]:
    """The driver's functions that headers declare.

    A macro may call a function by another name: `cuMemAlloc` is `cuMemAlloc_v2`, and `cuMemcpy` is `cuMemcpy_ptds`
    where the default stream is per thread.
    """
    for header in headers:
        text = header.read_text(encoding="utf-8", errors="replace")
        yield from _DECLARED.findall(text)
        for stream, name in _RENAMED.findall(text):
            yield from {name, f"{name}_{stream.lower()}" if stream else name}
