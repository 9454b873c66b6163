"""Variants rebuilt from nothing: with a Bazel that has no result of an earlier run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from py_driver.bazel.invocation import Compress, Cxx, Headers, apart
from py_driver.bazel.run import run as run_bazel
from py_driver.building.batches import batches, placed
from py_driver.building.session import session_without_results
from py_driver.building.variant_dir import BUILD, directory_of, read_metadata
from py_driver.errors import DriverError
from py_driver.plan.metadata import COMPRESS, CXX, chosen
from py_driver.publishing.provenance import Sources
from py_driver.system.cache import cache_root, storage_errors
from py_driver.system.scratch import scratch, sweep

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from py_driver.actions.executed import VariantActions
    from py_driver.bazel.find import Bazel
    from py_driver.bazel.invocation import Choices
    from py_driver.building.batches import Placed
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Plan, Variant
    from py_driver.publishing.rebuilt_statement import About


class Place(NamedTuple):
    """The location of variants.

    Attributes:
        directory: the directory that contains `build/`.
        name: the name of that `build/` in messages; empty for its path.
        slices: the locations of slices by capability, each with a `build/`, if they are not beside that `build/`.
    """

    directory: Path
    name: str = ""
    slices: Mapping[str, Place] = MappingProxyType({})

    def find(self, variant: Variant) -> Path:
        """The directory of a variant or a slice.

        Args:
            variant: the variant or slice.
        """
        if variant.slice and variant.slice.name in self.slices:
            return self.slices[variant.slice.name].directory / BUILD / variant.identifier
        return directory_of(self.directory, variant)

    def shown(self, variant: Variant) -> str:
        """The name of a variant's or a slice's directory in messages.

        Args:
            variant: the variant or slice.
        """
        if variant.slice and variant.slice.name in self.slices:
            return f"{self.slices[variant.slice.name].name}/{variant.identifier}"
        return f"{self.name}/{variant.name}" if self.name else str(self.find(variant))


class Chosen(NamedTuple):
    """Choices for a whole build that its metadata records.

    Attributes:
        cxx: the compiler of C++; None for the default one.
        compress: the compression of device code; None for the release's default.
    """

    cxx: Cxx | None = None
    compress: Compress | None = None


class Task(NamedTuple):
    """A project to rebuild.

    Attributes:
        directory: its directory.
        plan: its plan.
        chosen: the variants to rebuild.
        place: the location of the variants that they are compared with.
        here: the state of the sources in git, for published variants.
        how: the choices for all of them.
        about: the project as a signed statement names it; None if no statement is wanted.
    """

    directory: Path
    plan: Plan
    chosen: Sequence[Variant]
    place: Place
    here: tuple[Sources, str] = (Sources(), "")
    how: Chosen = Chosen()
    about: About | None = None


T = TypeVar("T")

Rebuilt = list[T] | DriverError
"""The result for each variant of a project, or the error of its build."""

Take = Callable[[Task, "VariantActions", Path], T]
"""Makes a result of a rebuilt variant while its files exist.

Its arguments are the project, the counts of the variant's actions, and the variant's directory."""


def rebuild(
    tasks: Iterable[Task], releases: Releases, output: Output, choices: Choices, take: Take[T]
) -> dict[Path, Rebuilt[T]]:
    """Rebuild variants without any earlier result.

    Args:
        tasks: the projects.
        releases: the releases to build for.
        output: where progress is shown.
        choices: the choices of the user.
        take: returns the result for each variant.

    Returns:
        The results of `take`, by the directory of the project; for errors see `building.build`.

    Raises:
        DriverError: an error that concerns all of them; INTERRUPTED.
    """
    results: dict[Path, Rebuilt[T]] = {}
    named = Chosen(choices.cxx, choices.compress)
    parts = [part for task in tasks for part in _by_choices(task, named)]
    for batch in batches(parts):
        for directory, result in _rebuild(batch, releases, output, choices, take).items():
            results[directory] = _joined(results.get(directory, []), result)
    return results


def _by_choices(task: Task, named: Chosen) -> list[Task]:
    """Split a project by the choices of its variants."""
    parts = choices_of(task.place, task.chosen, named)
    return [task._replace(chosen=part, how=how) for how, part in parts.items()]


def choices_of(source: Place, variants: Sequence[Variant], named: Chosen) -> dict[Chosen, list[Variant]]:
    """Group variants by the choices for their build.

    Args:
        source: their location.
        variants: the variants.
        named: the user's choices; for None the choice that a variant was built with.
    """
    found: dict[Chosen, list[Variant]] = {}
    for variant in variants:
        stated = chosen(read_metadata(source.find(variant)) or {})
        cxx = Cxx(stated[CXX]) if CXX in stated else None
        compress = Compress(stated[COMPRESS]) if COMPRESS in stated else None
        how = Chosen(named.cxx or cxx, named.compress or compress)
        found.setdefault(how, []).append(variant)
    return found


def _joined(before: Rebuilt[T], after: Rebuilt[T]) -> Rebuilt[T]:
    """Join the results of two parts of a project: the results of all variants, or the first failure."""
    if isinstance(before, DriverError):
        return before
    return after if isinstance(after, DriverError) else [*before, *after]


def _rebuild(
    tasks: Sequence[Task], releases: Releases, output: Output, choices: Choices, take: Take[T]
) -> dict[Path, Rebuilt[T]]:
    """Build projects that have different names."""

    def apart(task: Task) -> tuple[Chosen, bool]:
        return task.how, _by_gcc(task)

    with placed(tasks, releases, output, gcc=lambda task: task.how.cxx is Cxx.GCC, apart=apart) as groups:
        results: dict[Path, Rebuilt[T]] = {**groups[1]}
        for group in groups[0]:
            results |= _built_anew(group, output, choices, take)
    return results


def _by_gcc(task: Task) -> bool:
    """Whether gcc compiles C++ of a project: all of it, or a section with OpenMP."""
    built = {name for variant in task.chosen for name in variant.groups}
    return task.how.cxx is Cxx.GCC or any(group.gcc for group in task.plan.groups if group.name in built)


def _built_anew(
    group: Sequence[Placed[Task]], output: Output, choices: Choices, take: Take[T]
) -> dict[Path, Rebuilt[T]]:
    """Build projects with a Bazel without earlier results."""
    # clang's output is the same with all of torch's headers. gcc inlines by the size of all that it reads.
    headers = choices.headers or (Headers.NEEDED if _by_gcc(group[0].task) else Headers.FULL)
    how = group[0].task.how
    choices = replace(choices, cxx=how.cxx, compress=how.compress, headers=headers)
    subject = group[0].task.plan.name if len(group) == 1 else f"{len(group)} projects"
    root, results = group[0].project.workspace.root, dict[Path, Rebuilt[T]]()
    with _nothing_kept(group[0].bazel, root, output) as own:
        with session_without_results(own, root, output) as bazel:
            projects = [entry.project for entry in group]
            batch = bazel.build(projects, choices, title=f"building {subject} without any cache")
        batch.raise_interruption()
        for entry, outcome in zip(group, batch.outcomes(), strict=True):
            task = entry.task
            results[task.directory] = outcome.failure or [
                take(task, counts, batch.root / counts.directory) for counts in outcome.counts
            ]
    return results


@contextmanager
def _nothing_kept(bazel: Bazel, root: Path, output: Output) -> Iterator[Bazel]:
    """A Bazel without earlier results that keeps nothing and reads no settings of this machine or user."""
    places = cache_root() / "verify"
    with ExitStack() as stack:
        with storage_errors(places):
            places.mkdir(parents=True, exist_ok=True)
            sweep(places)
            work = stack.enter_context(scratch(places))
        own = apart(bazel, work / "output")
        try:
            yield own
        finally:
            title = "removing the new builds"
            run_bazel(own, ["clean", "--expunge"], root, output, title=title, check=False)
