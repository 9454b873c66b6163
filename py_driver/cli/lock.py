"""`driver lock`: writes toolchains/lock from toolchains/matrix.toml, or checks that it is fresh."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.cli import add_command
from py_driver.cli.arguments import add_matrix, releases_of
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


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(subparsers, "lock", "--check", "--matrix releases.toml")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--check", action="store_true", help="look up and write nothing; exit 1 with a diff if the lock is out of date"
    )
    what.add_argument(
        "--update",
        action="store_true",
        help="look up everything again, even archives locked in the version of the matrix",
    )
    add_matrix(parser)


def run(args: argparse.Namespace, output: Output) -> int:
    """Lock or check; the exit code.

    Raises:
        DriverError: see `_lock`.
    """
    releases = releases_of(args)
    if releases.user and not releases.user_lock_file:
        output.say(f"{releases.user} has no release and no library: there is nothing to lock")
        return ExitCode.OK
    return _lock(releases, args, output)


def _lock(releases: Releases, args: argparse.Namespace, output: Output) -> int:
    """Lock or check what releases ask for; the exit code.

    Raises:
        DriverError: STALE_LOCK if `--check` finds a difference; what the origins said; PERMISSION.
    """
    from py_driver.matrix.lock_update import complete, look_up, read, texts_of
    from py_driver.matrix.requirements import wanted
    from py_driver.system.files import difference, write

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
            write(path, texts.new.encode())
            output.say(f"wrote {path}")
    of_torch = _old_of_torch(new, releases)
    old_symbols = _old_symbols(new, releases)
    if (stale or of_torch or old_symbols) and args.check:
        for file in of_torch:
            output.say(f"{file.path} was made from other torch wheels")
        for symbol in old_symbols:
            output.say(f"{symbol.path} was made from other archives than `libraries` lists")
        raise error(Code.STALE_LOCK, "the lock does not match the matrix", help="run `driver lock`")
    for file in of_torch:
        with output.task(file.title) as task:
            write(file.path, file.make(task.update))
            task.done(f"{len(new['torch'])} releases")
        output.say(f"wrote {file.path}")
    for release in old_symbols:
        _read_symbols(release, output)
    if not (stale or of_torch or old_symbols):
        output.say("the lock is up to date")
    return ExitCode.OK


class _OfTorch(NamedTuple):
    """A file that is made from the torch wheels of our own lock."""

    path: Path
    title: str
    make: Callable[[Callable[[str], None]], bytes]


def _old_of_torch(lock: Lock, releases: Releases) -> list[_OfTorch]:
    """Such files that were made from other wheels; none for a lock of the user's."""
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
    """A release of CUDA or ROCm, and the file of what its libraries define."""

    kind: str
    version: str
    lock: Mapping[str, Any]
    path: Path


def _old_symbols(lock: Lock, releases: Releases) -> list[_Release]:
    """The releases of a lock whose files are of other archives, are missing, or are there for nothing."""
    from py_driver.matrix import library_symbols

    known = [
        _Release(kind, version, release, releases.symbols_file(kind, version))
        for kind in library_symbols.NAMES
        for version, release in lock.get(kind, {}).items()
    ]
    return [symbols for symbols in known if not library_symbols.is_current(symbols.path, symbols.lock)]


def _read_symbols(release: _Release, output: Output) -> None:
    """Write what the libraries of a release define, or remove the file of one that names none."""
    from py_driver.matrix import library_symbols
    from py_driver.system.files import write

    if not release.lock.get("libraries"):
        release.path.unlink()
        output.say(f"removed {release.path}")
        return
    with output.task("reading the symbols of libraries") as task:
        content = library_symbols.read(release.kind, release.version, release.lock, task.update)
        task.done(f"{library_symbols.NAMES[release.kind]} {release.version}")
    write(release.path, content)
    output.say(f"wrote {release.path}")
