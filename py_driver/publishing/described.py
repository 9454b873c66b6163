"""The description of a kernel for its users: the card, and the contents of `build/`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.actions.workspace import held
from py_driver.building.variant_dir import BUILD, SIGNATURE, SLICES, directory_of, present, read_metadata
from py_driver.errors import DriverError
from py_driver.plan.plan import make_plan
from py_driver.plan.project import MANIFEST, load
from py_driver.plan.slices import slice_names, sliced, slices_of
from py_driver.publishing.card import Facts, Row, card_facts, make_row
from py_driver.publishing.card_files import benchmarks, texts, texts_of_tests
from py_driver.publishing.git import sources
from py_driver.publishing.provenance import Sources, document_paths
from py_driver.publishing.public_api import tests
from py_driver.publishing.release import BUILDER, read_variants, target
from py_driver.publishing.release_record import recorded_changes
from py_driver.publishing.slices import Sliced, make_index, slice_rows
from py_driver.system.files import is_directory, is_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Plan, Variant
    from py_driver.plan.project import Project
    from py_driver.publishing.release import BuiltVariant
    from py_driver.publishing.slices import SliceRow


class State(StrEnum):
    """The state of a variant in `build/`.

    Attributes:
        BUILT: complete, and built from the project's present sources.
        CHANGED: its files were changed after the build, or its sources were.
        MISSING: not there.
    """

    BUILT = "built"
    CHANGED = "changed"
    MISSING = "not built"


class DescribedVariant(NamedTuple):
    """A variant of the project.

    Attributes:
        row: its name, configuration and GPU architectures, built or planned.
        is_default: whether `driver build` builds it without `--variant`.
        state: its state in `build/`.
        problem: why its state is CHANGED; empty otherwise.
        built: its files and its metadata.json; None unless it is built.
        documents: its statement and SBOM in the project, and its signature.
        part: the capability, if it is a slice: `sm90`.
    """

    row: Row
    is_default: bool
    state: State
    problem: str
    built: BuiltVariant | None
    documents: tuple[str, ...]
    part: str = ""

    @property
    def name(self) -> str:
        """The path of its directory in the project."""
        return f"{SLICES}/{self.part}/{self.row.name}" if self.part else f"{BUILD}/{self.row.name}"

    @property
    def size(self) -> int:
        """The size of all its files, in bytes."""
        return sum(file.size for file in self.built.files) if self.built else 0

    def as_json(self) -> dict[str, Any]:
        """The variant as a value for JSON."""
        configuration = self.row.configuration
        return {
            "variant": self.row.name,
            **({"slice": self.part} if self.part else {}),
            "torch": configuration.torch if configuration else None,
            "stable-abi": bool(configuration and configuration.stable),
            "cxx-abi": configuration.abi if configuration else None,
            "backend": configuration.backend if configuration else None,
            "cpu": configuration.cpu if configuration else None,
            "archs": list(self.row.archs),
            "default": self.is_default,
            "state": self.state.value,
            "problem": self.problem or None,
            "id": self.built.metadata["id"] if self.built else None,
            "size": self.size if self.built else None,
            "files": [{"path": file.path, "size": file.size, "sha256": file.sha256} for file in self.files],
            "documents": list(self.documents),
        }

    @property
    def files(self) -> tuple[Any, ...]:
        """Its files; empty unless it is built."""
        return self.built.files if self.built else ()


class Described(NamedTuple):
    """A kernel.

    Attributes:
        facts: the contents of its card, for the variants that are built.
        variants: all variants, default ones first.
        foreign: other entries of `build/`.
        tests: the names of its tests, by file.
        scripts: its benchmarks.
        sources: the state of its sources, from git.
        differs: the first file that differs from the commit; empty if all are the same.
        unknown: why the state of the sources is unknown; empty if it is known.
        slices: the slices of the built variants, by capability; None if they were not requested.
    """

    facts: Facts
    variants: tuple[DescribedVariant, ...]
    foreign: tuple[str, ...]
    tests: Mapping[str, list[str]]
    scripts: tuple[str, ...]
    sources: Sources
    differs: str
    unknown: str
    slices: tuple[DescribedVariant, ...] | None = None

    @property
    def built(self) -> tuple[DescribedVariant, ...]:
        """The variants that are built."""
        return tuple(variant for variant in self.variants if variant.built)

    @property
    def warnings(self) -> list[str]:
        """A warning for each part of `build/` that is not on the card, with the reason."""
        found = [
            f"{variant.name} is not on the card: {variant.problem}"
            for variant in (*self.variants, *(self.slices or ()))
            if variant.problem
        ]
        if self.slices is not None and not self.slices:
            found.append("no built variant has device code to slice")
        if missing := [part for part in self.slices or () if part.state is State.MISSING]:
            advice = "build it first: driver build --slice"
            found += [f"{part.name} is not on the card: it does not exist; {advice}" for part in missing]
        return found + [f"{BUILD}/{name} is not on the card: not a variant of the project" for name in self.foreign]

    def as_json(self) -> dict[str, Any]:
        """The kernel as a value for JSON."""
        facts, manifest = self.facts, self.facts.manifest
        return {
            "name": manifest.name.value,
            "version": manifest.version,
            "license": manifest.license,
            "summary": facts.summary,
            "source": manifest.source,
            "upstream": manifest.upstream,
            "repo-id": facts.repo_id or None,
            "load": facts.loading,
            "functions": [
                {**offer._asdict(), "arguments": [argument._asdict() for argument in offer.arguments]}
                for offer in facts.offers
            ],
            "ops": list(facts.schemas),
            "variants": [variant.as_json() for variant in self.variants],
            "slices": [part.as_json() for part in self.slices or ()],
            "foreign": list(self.foreign),
            "benchmarks": [
                {
                    "machine": report.machine,
                    "workloads": [timing.as_json() for timing in report.timings],
                }
                for report in facts.reports
            ],
            "benchmark-scripts": list(self.scripts),
            "tests": {name: list(found) for name, found in self.tests.items()},
            "since": facts.changed and facts.changed.since,
            "changes": [change._asdict() for change in facts.changed.changes] if facts.changed else None,
            "builder": BUILDER,
            "commit": self.sources.commit or None,
            "dirty": self.sources.dirty,
        }


def describe(  # noqa: PLR0913  (what, for which releases, where it is shown, and how)
    directory: Path,
    releases: Releases,
    output: Output,
    *,
    repo_id: str = "",
    strict_archs: bool = False,
    slices: bool = False,
) -> Described:
    """Describe a project and its `build/`; nothing is built or run.

    Args:
        directory: the directory of the project.
        releases: the releases to build for.
        output: where to report that another run is building the project.
        repo_id: where it is published, instead of the repository in build.toml.
        strict_archs: whether a variant that lacks an architecture of its section is an error.
        slices: whether to describe slices, too.

    Raises:
        DriverError: USAGE if `repo_id` is not the name of a repository; PERMISSION; what reading the project raises.
    """
    project = load(directory, releases)
    manifest = project.manifest
    where = target(manifest, repo_id, "")[0] if repo_id or manifest.hub.repo_id else ""
    plan = make_plan(project, releases.matrix, strict_archs=strict_archs)
    with held(directory, plan, output):
        variants = tuple(_variant(directory, plan, variant) for variant in plan.variants)
        parts = _slices(directory, plan, variants) if slices else None
    metadata = {variant.row.name: variant.built.metadata for variant in variants if variant.built}
    commit, differs, unknown = _sources(directory, {MANIFEST, *plan.files})
    return Described(
        facts=card_facts(
            manifest, where, metadata, texts(project), recorded_changes(directory, metadata), _rows(variants, parts)
        ),
        variants=variants,
        foreign=_foreign(project, plan),
        tests={name: tests(text) for name, text in texts_of_tests(directory).items()},
        scripts=tuple(file.path for file in benchmarks(directory, "benchmark*.py")[0]),
        sources=commit,
        differs=differs,
        unknown=unknown,
        slices=parts,
    )


def _variant(directory: Path, plan: Plan, variant: Variant) -> DescribedVariant:
    """Describe a variant by its directory in `build/`."""
    path = directory_of(directory, variant)
    state, problem, built = State.MISSING, "", None
    if is_directory(path):
        try:
            chosen = [variant] if variant.slice else present(directory, plan, [variant.name])
            [built] = read_variants(directory, plan, chosen)
            state = State.BUILT
        except DriverError as failure:
            state, problem = State.CHANGED, failure.diagnostics[0].message.replace(f"{path} ", "it ", 1)
    planned = {"backend": {"archs": list(variant.archs or ())}}
    paths = [*([] if variant.slice else document_paths(variant.name)), str((path / SIGNATURE).relative_to(directory))]
    return DescribedVariant(
        row=make_row(variant.identifier, (read_metadata(path) if built else None) or planned),
        is_default=variant.default,
        state=state,
        problem=problem,
        built=built,
        documents=tuple(name for name in paths if is_file(directory / name)),
        part=variant.slice.name if variant.slice else "",
    )


def _slices(directory: Path, plan: Plan, variants: Iterable[DescribedVariant]) -> tuple[DescribedVariant, ...]:
    """Describe the slices, in `build-slices/`, of the variants that are built."""
    built = {variant.row.name for variant in variants if variant.built}
    plan = sliced(plan, [variant for variant in plan.variants if variant.name in built])
    return tuple(_variant(directory, plan, part) for name in slice_names(plan) for part in slices_of(plan, name))


def _rows(variants: Iterable[DescribedVariant], parts: Sequence[DescribedVariant] | None) -> list[SliceRow]:
    """The slices that are built, as the card lists them once they are published with these variants."""
    wholes = [variant.built for variant in variants if variant.built]
    found: dict[str, list[BuiltVariant]] = {}
    for part in parts or ():
        if part.built:
            found.setdefault(part.part, []).append(part.built)
    slices = [Sliced(name, (), tuple(built)) for name, built in found.items()]
    return slice_rows(make_index(None, "", wholes, slices), wholes)


def _foreign(project: Project, plan: Plan) -> tuple[str, ...]:
    """The entries of `build/` that are not variants of the project."""
    build = project.directory / BUILD
    names = [path.name for path in build.iterdir()] if is_directory(build) else []
    known = {variant.name for variant in plan.variants}
    return tuple(sorted(name for name in names if name not in known and not name.startswith(".")))


def _sources(directory: Path, files: Iterable[str]) -> tuple[Sources, str, str]:
    """The commit of a project, the first file that differs from it, and why git cannot report them."""
    try:
        return *sources(directory, files), ""
    except DriverError as failure:
        return Sources(), "", failure.diagnostics[0].message
