"""Whether built variants are what sources and pinned toolchains make: they are built again, without any cache."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.bazel.find import find_bazel
from py_driver.bazel.run import run as run_bazel
from py_driver.building import PYTHON_VARIABLE, archives, choose, limits, settings
from py_driver.collect import BUILD, differences
from py_driver.errors import Code, Diagnostic, error
from py_driver.fetch.prefetch import fetch_all
from py_driver.fetch.store import cache_root, storage_errors
from py_driver.files import is_directory
from py_driver.locking import check_user_lock
from py_driver.project import plan_directory
from py_driver.steps import read_steps
from py_driver.workspace import one_at_a_time, workspace_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from py_driver.bazel.find import Bazel
    from py_driver.building import Options
    from py_driver.output import Output
    from py_driver.plan import Plan, Variant

_SHOWN = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """A variant that was built again.

    Attributes:
        variant: its identifier.
        path: of what was there before: `PROJECT/build/VARIANT`.
        differences: what is not the same, a file each; see `collect.differences`.
    """

    variant: str
    path: Path
    differences: tuple[str, ...]


def verify(directory: Path, patterns: Sequence[str], output: Output, options: Options) -> list[Verified]:
    """Build variants anew, with no result of an earlier run of anything, and compare them with those in `build/`.

    Args:
        directory: of the project.
        patterns: globs of identifiers; none means all that are in `build/`.
        output: where progress is shown.
        options: how many steps at once, in what memory, with which settings; nothing remote is used.

    Raises:
        DriverError: FILE_MISSING if there is nothing to compare; FOREIGN_FILE if `build/` has what is no variant of the
            project and no patterns are given; see `building.build`.
    """
    check_user_lock()
    plan = plan_directory(directory, strict_archs=options.strict_archs)
    chosen = present(directory, plan, patterns)
    with one_at_a_time(plan, output):
        workspace = workspace_for(directory, plan)
        fetch_all(archives(plan, chosen), output)
        with _nothing_kept(find_bazel(workspace.root, output), workspace.root, output) as bazel:
            args = ["build", "--output_groups=+steps", "--experimental_convenience_symlinks=ignore", "--disk_cache="]
            args += ["--remote_cache=", "--remote_executor=", *limits(options), *settings(options)]
            args += [workspace.label(variant.name) for variant in chosen]
            environment = {PYTHON_VARIABLE: os.environ.get(PYTHON_VARIABLE, sys.executable)}
            title = f"building {plan.name} without any cache"
            done = run_bazel(bazel, args, workspace.root, output, env=environment, title=title)
            root = done.events.exec_root or workspace.root
            names = [variant.name for variant in chosen]
            records = read_steps(done.events.groups.get("steps", ()), names)
            made = {record["variant"]: root / record["directory"] for record in records}
            places = {name: directory / BUILD / name for name in names}
            return [Verified(variant=n, path=p, differences=differences(made[n], p)) for n, p in places.items()]


def present(directory: Path, plan: Plan, patterns: Sequence[str]) -> list[Variant]:
    """Variants that are in `build/`.

    Args:
        directory: of the project.
        plan: of the project.
        patterns: globs of identifiers; none means all that are there.

    Raises:
        DriverError: FILE_MISSING if there is none, or not one that is named; FOREIGN_FILE if `build/` has what is no
            variant of the project and no patterns are given.
    """
    build = directory / BUILD
    if patterns:
        chosen = choose(plan, patterns)
        if missing := [one.name for one in chosen if not is_directory(build / one.name)]:
            raise error(Code.FILE_MISSING, f"{build / missing[0]} is not there", help="build it first: driver build")
        return chosen
    present = {path.name for path in build.iterdir() if not path.name.startswith(".")} if is_directory(build) else set()
    if foreign := sorted(present - {one.name for one in plan.variants}):
        advice = "remove it, or name the variants that are meant with --variant"
        raise error(Code.FOREIGN_FILE, f"{build / foreign[0]} is no variant of {plan.name}", help=advice)
    if not present:
        raise error(Code.FILE_MISSING, f"{build} has no variant of {plan.name}", help="build some first: driver build")
    return [one for one in plan.variants if one.name in present]


@contextmanager
def _nothing_kept(bazel: Bazel, root: Path, output: Output) -> Iterator[Bazel]:
    """A Bazel that has built nothing, and keeps nothing."""
    places = cache_root() / "verify"
    with storage_errors(places):
        places.mkdir(parents=True, exist_ok=True)
        with (cache_root() / "locks" / "verify").open("w") as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            for old in places.iterdir():
                _sweep(old)
            place = Path(tempfile.mkdtemp(dir=places))
            lock = (place / "lock").open("w")
            fcntl.flock(lock, fcntl.LOCK_EX)
    with lock:
        own = replace(bazel, startup=(*bazel.startup, f"--output_user_root={place / 'output'}"))
        try:
            yield own
        finally:
            try:
                run_bazel(
                    own, ["clean", "--expunge"], root, output, title="removing what was built for this", check=False
                )
            finally:
                _remove(place)


def _sweep(old: Path) -> None:
    """Remove what a run left that was killed: nobody holds its lock."""
    try:
        with (old / "lock").open("r") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    except OSError:
        pass
    _remove(old)


def _remove(place: Path) -> None:
    """Remove a directory, and the directories in it which nobody may write to: Bazel's installation."""
    for parent, _, _ in os.walk(place):
        os.chmod(parent, 0o700)  # noqa: PTH101  (os.walk's own string)
    shutil.rmtree(place, ignore_errors=True)


def failures(verified: Sequence[Verified]) -> list[Diagnostic]:
    """NOT_REPRODUCED for each variant that is not what was built."""
    found = []
    for one in verified:
        if one.differences:
            shown = "; ".join(one.differences[:_SHOWN])
            more = len(one.differences) - _SHOWN
            message = f"{one.path} is not what its sources make: {shown}" + (f"; {more} more" if more > 0 else "")
            found.append(Diagnostic(code=Code.NOT_REPRODUCED, message=message))
    return found
