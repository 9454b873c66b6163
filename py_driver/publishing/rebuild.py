"""Variants built again from nothing: with a Bazel that knows no result of an earlier run of anything."""

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
    """Where variants are.

    Attributes:
        directory: that has them in its `build/`.
        name: what messages call that `build/`; empty for its path.
        slices: by capability, where slices are, if they are not beside that `build/`: each in a `build/` as well.
    """

    directory: Path
    name: str = ""
    slices: Mapping[str, Place] = MappingProxyType({})

    def find(self, variant: Variant) -> Path:
        """The directory of a variant or a slice there.

        Args:
            variant: which.
        """
        if variant.slice and variant.slice.name in self.slices:
            return self.slices[variant.slice.name].directory / BUILD / variant.identifier
        return directory_of(self.directory, variant)

    def shown(self, variant: Variant) -> str:
        """What messages call the directory of a variant or a slice.

        Args:
            variant: which.
        """
        if variant.slice and variant.slice.name in self.slices:
            return f"{self.slices[variant.slice.name].name}/{variant.identifier}"
        return f"{self.name}/{variant.name}" if self.name else str(self.find(variant))


class Chosen(NamedTuple):
    """What somebody chose for all of a build, and what made the variants of it differ.

    Attributes:
        cxx: what compiles their C++; None for the usual compiler.
        compress: how their device code is compressed; None for what the release says.
    """

    cxx: Cxx | None = None
    compress: Compress | None = None


class Task(NamedTuple):
    """A project to build again.

    Attributes:
        directory: where it is.
        plan: of it.
        chosen: the variants to build.
        place: where the variants are that they are compared with.
        here: what git says of the sources, for those that are published.
        how: what was chosen for them.
        about: what a signed statement is to name of the project; None if there is to be none.
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
"""What was made of each variant of a project, or why it was not built."""

Take = Callable[[Task, "VariantActions", Path], T]
"""Makes something of a variant that was built anew, while its files are there.

It gets the project, what the actions did, and the directory of the variant."""


def rebuild(
    tasks: Iterable[Task], releases: Releases, output: Output, choices: Choices, take: Take[T]
) -> dict[Path, Rebuilt[T]]:
    """Build variants anew, with no result of an earlier run of anything.

    Args:
        tasks: the projects.
        releases: to build for.
        output: where progress is shown.
        choices: how.
        take: what to make of each variant.

    Returns:
        What that made, by the directory of the project; for errors see `building.build`.

    Raises:
        DriverError: what is wrong for all of them; INTERRUPTED.
    """
    results: dict[Path, Rebuilt[T]] = {}
    named = Chosen(choices.cxx, choices.compress)
    parts = [part for task in tasks for part in _by_choices(task, named)]
    for batch in batches(parts):
        for directory, result in _rebuild(batch, releases, output, choices, take).items():
            results[directory] = _joined(results.get(directory, []), result)
    return results


def _by_choices(task: Task, named: Chosen) -> list[Task]:
    """A project in parts, by what is to be chosen for them."""
    parts = choices_of(task.place, task.chosen, named)
    return [task._replace(chosen=part, how=how) for how, part in parts.items()]


def choices_of(source: Place, variants: Sequence[Variant], named: Chosen) -> dict[Chosen, list[Variant]]:
    """Variants by what is to be chosen for their build.

    Args:
        source: where they are.
        variants: to build.
        named: what the user says; what is None is what each was built with.
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
    """What came of two parts of a project: of all variants, or the first failure."""
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
    """Build projects with a Bazel that knows nothing."""
    # clang makes the same of all of torch's headers. gcc inlines by the size of all that it reads.
    headers = choices.headers or (Headers.NEEDED if _by_gcc(group[0].task) else Headers.FULL)
    how = group[0].task.how
    choices = replace(choices, cxx=how.cxx, compress=how.compress, headers=headers)
    what = group[0].task.plan.name if len(group) == 1 else f"{len(group)} projects"
    root, results = group[0].project.workspace.root, dict[Path, Rebuilt[T]]()
    with _nothing_kept(group[0].bazel, root, output) as own:
        with session_without_results(own, root, output) as bazel:
            projects = [entry.project for entry in group]
            batch = bazel.build(projects, choices, title=f"building {what} without any cache")
        batch.raise_interruption()
        for entry, outcome in zip(group, batch.outcomes(), strict=True):
            task = entry.task
            results[task.directory] = outcome.failure or [
                take(task, counts, batch.root / counts.directory) for counts in outcome.counts
            ]
    return results


@contextmanager
def _nothing_kept(bazel: Bazel, root: Path, output: Output) -> Iterator[Bazel]:
    """A Bazel that has built nothing, keeps nothing, and reads no settings of this machine or user."""
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
