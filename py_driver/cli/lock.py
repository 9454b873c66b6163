"""`driver lock`: writes toolchains/lock from toolchains/matrix.toml, or checks that it is fresh."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.cli import add_command
from py_driver.cli.arguments import add_matrix, matrix_of, releases_of
from py_driver.errors import Code, ExitCode, error
from py_driver.output import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from py_driver.cli import Subparsers
    from py_driver.matrix.releases import Releases
    from py_driver.matrix.requirements import Lock
    from py_driver.output import Output
    from py_driver.system.files import Writes


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(subparsers, "lock", "--check", "--add cuda 13.4 --matrix releases.toml")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--check", action="store_true", help="look up and write nothing; exit 1 with a diff if the lock is out of date"
    )
    mode.add_argument(
        "--update",
        action="store_true",
        help="look up everything again, even archives locked in the version of the matrix",
    )
    mode.add_argument(
        "--add",
        nargs=2,
        metavar=("KIND", "M.N"),
        help="add a release of `torch` or `cuda` to the matrix, or to the file of --matrix: read its facts from the "
        "package index, write its table, lock it, and print the text of a pull request",
    )
    add_matrix(parser)


def run(args: argparse.Namespace, output: Output) -> int:
    """Lock or check; returns the exit code.

    Raises:
        DriverError: see `_lock`.
    """
    if args.add:
        return _add(args, output)
    releases = releases_of(args)
    if releases.user and not releases.user_lock_file:
        output.say(f"{releases.user} has no release and no library, so there is nothing to lock")
        return ExitCode.OK
    from py_driver.system.files import together

    with together() as files:
        lines = _lock(releases, args, output, files)
    for line in lines or ["the lock is up to date"]:
        output.say(line)
    return ExitCode.OK


def _add(args: argparse.Namespace, output: Output) -> int:
    """Add a release to a matrix, and lock it; returns the exit code.

    Raises:
        DriverError: BAD_VALUE for a release that cannot be added; see `new_cuda`, `new_torch` and `_lock`, after which
            the matrix and the lock are restored; PERMISSION.
    """
    from py_driver.fetch.offered import Offers
    from py_driver.matrix.addition import inserted, request
    from py_driver.matrix.installation import module_root
    from py_driver.matrix.new_cuda import new_cuda
    from py_driver.matrix.new_torch import new_torch
    from py_driver.matrix.releases import Releases
    from py_driver.system.files import together

    kind, version = args.add
    readers = {"cuda": new_cuda, "torch": new_torch}
    if kind not in readers or not re.fullmatch(r"[1-9][0-9]?\.(0|[1-9][0-9]?)", version):
        advice = "`--add torch 2.16` or `--add cuda 13.4`; other kinds are added by hand, see docs/toolchains.md"
        raise error(Code.BAD_VALUE, f"`--add {kind} {version}` names no release that can be added", help=advice)
    named = matrix_of(args)
    path = named or module_root() / "toolchains" / "matrix.toml"
    old = path.read_bytes() if path.is_file() else None
    releases = Releases(named if old is not None else None, output.warn)
    if any(release["version"] == version for release in releases.table[kind]):
        raise error(Code.BAD_VALUE, f"the matrix has {kind} {version} already", help="change its table by hand")
    with output.task(f"reading the facts of {kind} {version}") as task:
        addition = readers[kind](version, releases.table, Offers(), task.update, own=named is not None)
        task.done("from the package index")
    with together() as files:
        files.write(path, inserted((old or b"").decode(), addition).encode())
        after = Releases(named, output.warn)
        lines = _lock(after, args, output, files)
    for line in [*lines, f"wrote {path}"]:
        output.say(line)
    output.data(request(addition, _archives(kind, version, after)))
    return ExitCode.OK


def _archives(kind: str, version: str, releases: Releases) -> list[Mapping[str, Any]]:
    """The entries of the lock for a release, without duplicates."""
    from py_driver.matrix.lock_update import read

    found: dict[str, Mapping[str, Any]] = {}
    waiting: list[Any] = [read(releases)[kind][version]]
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, dict) and "sha256" in value:
            found.setdefault(value["sha256"], value)
        elif isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value
    return list(found.values())


def _lock(releases: Releases, args: argparse.Namespace, output: Output, files: Writes) -> list[str]:
    """Lock or check what releases require; returns a line for each changed file.

    Raises:
        DriverError: STALE_LOCK if `--check` finds a difference; an error of an origin; PERMISSION.
    """
    from py_driver.matrix.lock_update import complete, look_up, read, texts_of
    from py_driver.matrix.requirements import wanted
    from py_driver.system.files import difference

    want, old = wanted(releases), {} if args.update else read(releases)
    new, missing = complete(want, old, {})
    if missing and not args.check:
        with output.task("looking archives up") as task:
            new, _ = complete(want, old, look_up(missing, task.update))
            task.done(counted(len(missing), "archive"))
    stale = {path: texts for path, texts in texts_of(new, releases).items() if texts.old != texts.new}
    for path, texts in stale.items():
        if args.check:
            output.data(difference(texts.old, texts.new, str(path), f"{path} (from the matrix)"))
        else:
            files.write(path, texts.new.encode())
    of_torch = _old_of_torch(new, releases)
    old_symbols = _old_symbols(new, releases)
    if (stale or of_torch or old_symbols) and args.check:
        for file in of_torch:
            output.say(f"{file.path} was made from other torch wheels")
        for symbol in old_symbols:
            output.say(f"{symbol.path} was made from other archives than `libraries` lists")
        raise error(Code.STALE_LOCK, "the lock does not match the matrix", help=releases.lock_advice)
    for file in of_torch:
        with output.task(file.title) as task:
            files.write(file.path, file.make(task.update))
            task.done(f"{len(new['torch'])} releases")
    written = [*stale, *(file.path for file in of_torch)]
    return [*(f"wrote {path}" for path in written), *(_read_symbols(each, output, files) for each in old_symbols)]


class _OfTorch(NamedTuple):
    """A file that is made from the torch wheels of the driver's own lock."""

    path: Path
    title: str
    make: Callable[[Callable[[str], None]], bytes]


def _old_of_torch(lock: Lock, releases: Releases) -> list[_OfTorch]:
    """The files that were made from other torch wheels; empty for a user's lock."""
    from py_driver.matrix import torch_openmp, torch_symbols
    from py_driver.matrix.releases import exports_file, openmp_file, python_exports_file

    if releases.user is not None:
        return []
    torch, exports, runtime = lock["torch"], exports_file(), openmp_file()
    recorded = torch_openmp.read_file(runtime)
    old = []
    tables: dict[Path, torch_symbols.Libraries] = {
        exports: torch_symbols.LIBRARIES,
        python_exports_file(): torch_symbols.PYTHON_LIBRARIES,
    }
    for path, libraries in tables.items():
        if torch_symbols.read_table(path)[0] != torch_symbols.columns_of(torch, libraries):
            make = partial(torch_symbols.update, path, torch, libraries=libraries)
            old.append(_OfTorch(path, f"reading {path.stem}", make))
    if not torch_openmp.is_current(recorded, torch):
        title = "reading the name of torch's OpenMP runtime"
        old.append(_OfTorch(runtime, title, lambda report: torch_openmp.update(recorded, torch, report)))
    return old


class _Release(NamedTuple):
    """A release of CUDA or ROCm, and the file with the symbols of its libraries."""

    kind: str
    version: str
    lock: Mapping[str, Any]
    path: Path


def _old_symbols(lock: Lock, releases: Releases) -> list[_Release]:
    """The releases of a lock whose files are of other archives, missing, or unnecessary."""
    from py_driver.matrix import library_symbols

    known = [
        _Release(kind, version, release, releases.symbols_file(kind, version))
        for kind in library_symbols.NAMES
        for version, release in lock.get(kind, {}).items()
    ]
    return [symbols for symbols in known if not library_symbols.is_current(symbols.path, symbols.lock)]


def _read_symbols(release: _Release, output: Output, files: Writes) -> str:
    """Write the symbols of a release's libraries, or remove the file if it names none; returns a line about it."""
    from py_driver.matrix import library_symbols

    if not release.lock.get("libraries"):
        files.remove(release.path)
        return f"removed {release.path}"
    with output.task("reading the symbols of libraries") as task:
        content = library_symbols.read(release.kind, release.version, release.lock, task.update)
        task.done(f"{library_symbols.NAMES[release.kind]} {release.version}")
    files.write(release.path, content)
    return f"wrote {release.path}"
