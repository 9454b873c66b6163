"""The headers of toolchains, unpacked from the store into the cache, once for each tree."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py_driver.errors import Code, error
from py_driver.extensions.headers import PYTHON
from py_driver.fetch.entry import parse_entry
from py_driver.fetch.prefetch import fetch_all
from py_driver.fetch.store import Store
from py_driver.fetch.unpacking import Selection, unpack
from py_driver.manifest.model import TORCH
from py_driver.matrix.backends import version_of
from py_driver.matrix.configurations import USUAL_CPU
from py_driver.matrix.facts import facts
from py_driver.matrix.matrix import CPYTHON_PART, TVM_FFI_PART
from py_driver.output import counted
from py_driver.plan.section_search import OPENMP
from py_driver.system.cache import HEADERS, cache_root, storage_errors
from py_driver.system.files import sha256
from py_driver.system.scratch import scratch, settle, sweep

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from py_driver.fetch.entry import Entry
    from py_driver.matrix.configurations import Configuration
    from py_driver.matrix.lock import Lock
    from py_driver.output import Output

CXX: Final = "cc"
"""The tree with the headers of libstdc++, glibc and Linux."""

_LIBC: Final = "lib/libc/include"


class Part(NamedTuple):
    """A part of an archive.

    Attributes:
        entry: the archive.
        strip: the directory that is removed from the names.
        include: the paths to unpack, as named in the archive; all below `strip` if empty.
        to: the target directory in the tree; empty for its root.
    """

    entry: Entry
    strip: str = ""
    include: tuple[str, ...] = ()
    to: str = ""


class HeaderTree(NamedTuple):
    """A directory of headers.

    Attributes:
        parts: the parts of the tree.
        includes: its include directories, in search order, each with alternative names of which the first existing one
            counts.
        after: include directories that are searched after the compiler's own.
        defines: macros for its headers.
        empty: empty directories: clang recognizes a CUDA toolkit by its directory for programs.
    """

    parts: tuple[Part, ...]
    includes: tuple[tuple[str, ...], ...]
    after: tuple[tuple[str, ...], ...] = ()
    defines: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its directory, a digest of its contents."""
        parts = [(part.entry.key, part.strip, part.include, part.to) for part in self.parts]
        return sha256(json.dumps([parts, self.empty]).encode())[:24]


class UnpackedTree(NamedTuple):
    """An unpacked tree of headers.

    Attributes:
        root: its directory.
        includes: its include directories, in search order.
        after: include directories that are searched after the compiler's own.
        defines: macros for its headers.
    """

    root: Path
    includes: tuple[Path, ...]
    after: tuple[Path, ...]
    defines: tuple[str, ...]


def header_trees(
    lock: Lock, configuration: Configuration, depends: Iterable[str], python: str
) -> dict[str, HeaderTree]:
    """The headers for compiling a configuration, in search order. Pure.

    Args:
        lock: the pinned archives.
        configuration: the configuration with the torch release and the backend.
        depends: the dependencies of the sources: `torch`, `cutlass_3_6`, ...
        python: the locked Python whose headers are used; empty for none.

    Returns:
        The trees by name: `cpython`, the values of `depends`, `cuda`, `cc`.
    """
    cpu = configuration.cpu or USUAL_CPU
    wanted = set(depends)
    found = {name: _library(name, part) for name, part in lock.depends.items() if name in wanted}
    if python:
        found[CPYTHON_PART] = _python(lock.parts[CPYTHON_PART].get(python, {}).get("headers", []), python)
    if OPENMP in wanted:
        cross = lock.parts["gcc"]["cross"].get(cpu)
        base = facts("compilers")["GCC_CROSS_DIRECTORY" if cross else "GCC_DIRECTORY"].format(cpu=cpu)
        directory = f"{base}/include"
        packages = cross or lock.parts["gcc"]["packages"]
        compiler = [parse_entry(package) for package in packages if package["name"].startswith("libgcc-")]
        parts = tuple(Part(entry, directory, (f"{directory}/omp.h",)) for entry in compiler)
        found[OPENMP] = HeaderTree(parts, ((".",),))
    if TORCH in wanted and configuration.torch:
        release = lock.parts["torch"][configuration.torch]
        archive = parse_entry(release.get("cross", {}).get(cpu, release["archive"]))
        includes = tuple((name,) for name in facts("compilers")["TORCH_INCLUDES"])
        found[TORCH] = HeaderTree((Part(archive, TORCH, (f"{TORCH}/include",)),), includes)
    if configuration.family == "cuda":
        found["cuda"] = _cuda(lock.parts["cuda"][version_of(configuration.backend) or ""]["archives"])
    found[CXX] = _cxx(lock.parts["cc"], cpu)
    return found


def _library(name: str, part: Mapping[str, Any]) -> HeaderTree:
    """The headers of a library: tvm-ffi, CUTLASS, or a library of the user's own matrix."""
    if name == PYTHON:
        return _python(part["headers"], part["version"], (f"Py_LIMITED_API={part['limited_api']}",))
    entry = parse_entry(part["archive"])
    if name == TVM_FFI_PART:
        strip = "tvm_ffi"
        defines = tuple(facts("compilers")["TVM_FFI_DEFINES"])
        return HeaderTree((Part(entry, strip, (f"{strip}/include",)),), (("include",),), defines=defines)
    directories = part.get("include", facts("compilers")["CUTLASS_INCLUDES"])
    parts = tuple(
        Part(entry, part["root"] if directory == "." else f"{part['root']}/{directory}", to=f"{number}")
        for number, directory in enumerate(directories)
    )
    return HeaderTree(parts, tuple((part.to,) for part in parts))


def _python(headers: Sequence[Mapping[str, Any]], version: str, defines: tuple[str, ...] = ()) -> HeaderTree:
    """The headers of a Python, for all CPUs."""
    parts = tuple(Part(parse_entry(header), "usr/include", ("usr/include",)) for header in headers)
    return HeaderTree(parts, ((f"python{version}",), (".",)), defines=defines)


def _cuda(archives: Sequence[Mapping[str, Any]]) -> HeaderTree:
    """The headers of a CUDA toolkit, from all its archives."""
    parts = tuple(
        Part(
            parse_entry(archive), unpacked["strip"], (f"{unpacked['strip']}/{name}",), unpacked["to"].removeprefix(".")
        )
        for archive in archives
        for unpacked in archive["unpack"]
        for name in unpacked["names"]
        if f"{unpacked['to']}/{name}".removeprefix("./").startswith("include")
    )
    return HeaderTree(parts, tuple((name,) for name in facts("compilers")["CUDA_INCLUDES"]), empty=("bin",))


def _cxx(part: Mapping[str, Any], cpu: str) -> HeaderTree:
    """The headers of libstdc++ and, from zig, of the C library."""
    table = facts("compilers")
    spelled = {"cpu": cpu, "kernel": table["KERNEL_CPUS"][cpu]}
    libc = tuple(tuple(name.format(**spelled) for name in names) for names in table["LIBC_INCLUDES"])
    zig = parse_entry(part["zig"][part["default"]])
    below = tuple(f"ziglang/{_LIBC}/{name}" for names in libc for name in names)
    packages = part["gcc"] if cpu == USUAL_CPU else part["cross"][cpu]
    gcc = [parse_entry(package) for package in packages if package["name"].startswith("libstdc++-")]
    return HeaderTree(
        (Part(zig, f"ziglang/{_LIBC}", below, "libc"), *(Part(entry, "usr/include", (), "gcc") for entry in gcc)),
        tuple((f"gcc/{name.format(**spelled)}",) for name in table["LIBSTDCXX_INCLUDES"]),
        tuple(tuple(f"libc/{name}" for name in names) for names in libc),
    )


def absent(trees: Iterable[HeaderTree]) -> list[Entry]:
    """The archives to fetch before `unpacked` can provide the headers.

    Raises:
        DriverError: see `Store.has`.
    """
    store, kept = Store(cache_root()), cache_root() / HEADERS
    missing = [tree for tree in trees if not (kept / tree.name).is_dir()]
    return [part.entry for tree in missing for part in tree.parts if not store.has(part.entry)]


def unpacked(trees: Mapping[str, HeaderTree], output: Output) -> dict[str, UnpackedTree]:
    """Trees of headers as directories of the cache, unpacked unless they exist.

    Args:
        trees: the trees, by name.
        output: where progress is shown.

    Raises:
        DriverError: what `fetch_all` and `unpack` raise; SET_UP if a directory has lost its headers.
    """
    kept = cache_root() / HEADERS
    missing = [tree for tree in trees.values() if not (kept / tree.name).is_dir()]
    archives = {part.entry.key: part.entry for tree in missing for part in tree.parts}
    if archives:
        with storage_errors(kept):
            kept.mkdir(parents=True, exist_ok=True)
            sweep(kept)
        paths = {fetched.entry.key: fetched.path for fetched in fetch_all([*archives.values()], output, check=True)}
        with output.task("unpacking headers") as task:
            for tree in missing:
                _unpack(tree, paths, kept)
            task.done(counted(len(missing), "toolchain"))
    return {name: _found(tree, kept / tree.name) for name, tree in trees.items()}


def _unpack(tree: HeaderTree, paths: Mapping[str, Path], kept: Path) -> None:
    with storage_errors(kept), scratch(kept) as fresh:
        root = fresh / "tree"
        root.mkdir()
        for part in tree.parts:
            unpack(
                paths[part.entry.key],
                part.entry,
                root / part.to,
                Selection(include=part.include, strip_prefix=part.strip),
            )
        for name in tree.empty:
            (root / name).mkdir()
        settle(root, kept / tree.name)


def _found(tree: HeaderTree, root: Path) -> UnpackedTree:
    """The directories of a tree: the first existing of alternative names; some releases lack a directory."""

    def there(spellings: Iterable[tuple[str, ...]]) -> tuple[Path, ...]:
        directories = ([root / name for name in names if (root / name).is_dir()] for names in spellings)
        return tuple(found[0] for found in directories if found)

    includes = there(tree.includes)
    if not includes:
        raise error(Code.SET_UP, f"{root} has no headers", help=f"remove it: {root}")
    return UnpackedTree(root, includes, there(tree.after), tree.defines)
