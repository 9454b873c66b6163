"""Whether built variants are what sources and pinned toolchains make: they are built again, without any cache."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from py_driver.bazel.find import find_bazel
from py_driver.bazel.run import run as run_bazel
from py_driver.building import PYTHON_VARIABLE, archives, choose, limits
from py_driver.collect import BUILD, differences
from py_driver.errors import Code, Diagnostic, DriverError, error
from py_driver.fetch.prefetch import fetch_all
from py_driver.fetch.store import cache_root, storage_errors
from py_driver.files import is_directory
from py_driver.locking import check_user_lock
from py_driver.project import plan_directory
from py_driver.steps import read_steps
from py_driver.workspace import one_at_a_time, workspace_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

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
        options: how many steps at once, and in what memory; nothing remote is used.

    Raises:
        DriverError: FILE_MISSING if there is nothing to compare; see `building.build`.
    """
    check_user_lock()
    plan = plan_directory(directory, strict_archs=options.strict_archs)
    chosen = _present(directory, plan, patterns)
    with one_at_a_time(plan, output):
        workspace = workspace_for(directory, plan)
        fetch_all(archives(plan, chosen), output)
        with _nothing_kept(find_bazel(workspace.root, output), workspace.root, output) as bazel:
            args = ["build", "--output_groups=+steps", "--experimental_convenience_symlinks=ignore", "--disk_cache="]
            args += ["--remote_cache=", "--remote_executor=", *limits(options)]
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


def _present(directory: Path, plan: Plan, patterns: Sequence[str]) -> list[Variant]:
    """The variants to compare."""
    build = directory / BUILD
    if patterns:
        chosen = choose(plan, patterns)
        if missing := [one.name for one in chosen if not is_directory(build / one.name)]:
            raise error(Code.FILE_MISSING, f"{build / missing[0]} is not there", help="build it first: driver build")
        return chosen
    if chosen := [one for one in plan.variants if is_directory(build / one.name)]:
        return chosen
    raise error(Code.FILE_MISSING, f"{build} has no variant of {plan.name}", help="build some first: driver build")


@contextmanager
def _nothing_kept(bazel: Bazel, root: Path, output: Output) -> Iterator[Bazel]:
    """A Bazel that has built nothing, and keeps nothing."""
    place = cache_root() / "verify" / str(os.getpid())
    with storage_errors(place):
        place.mkdir(parents=True, exist_ok=True)
    own = replace(bazel, startup=(*bazel.startup, f"--output_user_root={place}"))
    try:
        yield own
    finally:
        run_bazel(own, ["clean", "--expunge"], root, output, title="removing what was built for this", check=False)
        _remove(place)


def _remove(place: Path) -> None:
    """Remove what Bazel leaves besides: its installation, whose directories nobody may write to."""
    import shutil  # noqa: PLC0415  (few verbs need it)

    for parent, _, _ in os.walk(place):
        os.chmod(parent, 0o700)  # noqa: PTH101  (os.walk's own string)
    shutil.rmtree(place, ignore_errors=True)


def check_differences(verified: Sequence[Verified]) -> None:
    """Refuse variants that are not what was built.

    Raises:
        DriverError: NOT_REPRODUCED, one diagnostic for each.
    """
    wrong = []
    for one in verified:
        if one.differences:
            shown = "; ".join(one.differences[:_SHOWN])
            more = len(one.differences) - _SHOWN
            message = f"{one.path} is not what its sources make: {shown}" + (f"; {more} more" if more > 0 else "")
            wrong.append(Diagnostic(code=Code.NOT_REPRODUCED, message=message))
    if wrong:
        raise DriverError(wrong)
