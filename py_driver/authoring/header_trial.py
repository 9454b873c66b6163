"""Smaller headers of torch instead of umbrella headers: found by compiling, with the time that they save."""

from __future__ import annotations

import os
import posixpath
import re
import secrets
import tempfile
from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.actions.author_paths import AuthorPaths, BuiltProject
from py_driver.actions.workspace import one_at_a_time, workspace_for
from py_driver.authoring.smaller_headers import asked_macros, proposals, rewritten, unknown_macro
from py_driver.bazel.find import find_bazel
from py_driver.bazel.invocation import Choices, Headers
from py_driver.building.selection import archives
from py_driver.building.session import session
from py_driver.errors import Code, error
from py_driver.fetch.prefetch import fetch_all
from py_driver.manifest.model import TORCH
from py_driver.matrix.backends import arch_order
from py_driver.matrix.toolkits import numbers
from py_driver.output import counted
from py_driver.plan.includes import closure, is_opaque, scan
from py_driver.plan.narrow import narrowed
from py_driver.plan.plan import plan_directory
from py_driver.system.files import reading, together

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from py_driver.authoring.smaller_headers import Edit
    from py_driver.building.session import Batch
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.groups import Group
    from py_driver.plan.plan import Plan, Variant

_WORTH = 0.9
"""The share of a source's time that a change must stay below: smaller differences may be noise."""


class Seconds(NamedTuple):
    """The durations of a source's actions.

    Attributes:
        arch: the actions for a GPU architecture; 0 if there are none.
        rest: all other actions.
    """

    arch: float
    rest: float


class Gain(NamedTuple):
    """The time that smaller headers save.

    Attributes:
        source: the path in the project.
        before: its durations with the current headers.
        after: its durations with the smaller headers.
    """

    source: str
    before: Seconds
    after: Seconds

    @property
    def pays(self) -> bool:
        """Whether the saving exceeds the noise between runs."""
        return sum(self.after) < _WORTH * sum(self.before)


class Tried(NamedTuple):
    """The result of a trial.

    Attributes:
        edits: the new includes, by path in the project; empty if nothing smaller compiles, or pays.
        gains: the sources that compile faster with all edits, in order.
        variants: the compiled variants; empty if no file includes an umbrella header.
        texts: the original files.
        left: unchanged files, each with a macro that a source tests and a header may define.
    """

    edits: Mapping[str, tuple[Edit, ...]]
    gains: tuple[Gain, ...]
    variants: tuple[str, ...]
    texts: Mapping[str, str]
    left: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        """The result as a value for JSON."""
        edits = [(name, edit) for name, edits in self.edits.items() for edit in edits]
        return {
            "edits": [{"file": name, **edit._asdict(), "instead": [*edit.instead]} for name, edit in edits],
            "gains": [
                {"source": gain.source, "before": gain.before._asdict(), "after": gain.after._asdict()}
                for gain in self.gains
            ],
            "variants": [*self.variants],
            "left": [{"file": name, "macro": macro} for name, macro in self.left.items()],
        }


class _Outcome(NamedTuple):
    """The result of a compile: the sources that failed, and the durations of the compiled ones."""

    failed: frozenset[str]
    seconds: Mapping[str, Seconds]


def _outcome(batch: Batch, paths: AuthorPaths) -> _Outcome:
    """The outcome for the sources of a project."""
    objects = [paths.made(action.output) for action in batch.completed.events.told if not action.succeeded]
    times = defaultdict[str, list[float]](lambda: [0.0, 0.0])
    for spawn in batch.spawns:
        compiled = next((known for path in spawn.outputs if (known := paths.made(path))), None)
        if compiled and spawn.seconds is not None:
            times[compiled.source][0 if compiled.arch else 1] += spawn.seconds
    failed = frozenset(known.source for known in objects if known)
    return _Outcome(failed, {source: Seconds(*both) for source, both in times.items()})


def try_smaller_headers(directory: Path, releases: Releases, output: Output) -> Tried:
    """Find smaller headers for the umbrella headers that the files of a project include.

    For each backend the newest and the oldest torch release are compiled, for one GPU architecture, with all of torch's
    headers. If the headers of single names do not compile, larger ones are tried. The project is not changed.

    Args:
        directory: the project's directory.
        releases: the releases to build for.
        output: shows progress.

    Raises:
        DriverError: any error of the project, the machine or the sources.
    """
    with one_at_a_time(directory, plan_directory(directory, releases), output) as copy:
        return _try(directory, releases, output, copy)


def _try(directory: Path, releases: Releases, output: Output, copy: int) -> Tried:
    """See `try_smaller_headers`; no other process builds the project meanwhile."""
    plan = _for_one_arch(plan_directory(directory, releases))
    newest, oldest = _variants(plan, {toolkit.backend for toolkit in releases.matrix.toolkits if not toolkit.tested})
    texts = {name: _decoded((directory / name).read_bytes()) for name in plan.files}
    trial = _Trial(directory=directory, releases=releases, output=output, plan=plan, texts=texts, copy=copy)
    ways, stays = trial.ways()
    if not newest or not ways:
        return Tried(edits={}, gains=(), variants=(), texts={}, left=stays)
    trial.umbrella.update(ways)
    variants = {variant.name: variant for variant in (*newest, *oldest)}
    fetch_all(archives(plan, [*variants.values()], releases.lock), output)
    before = trial.compiled({}, newest, "compiling with the current headers", may_fail=False).seconds
    after: dict[str, Seconds] = {}
    left = {name: [*way] for name, way in ways.items()}
    edits = {name: proposed[0] for name, proposed in left.items()}
    while edits:
        title = f"trying other headers in {counted(len(edits), 'file')}"
        outcome = trial.compiled(edits, newest, title)
        # Actions that an earlier round ran with these headers did not run again, and have no duration in this one.
        after |= outcome.seconds
        failed = outcome.failed or trial.compiled(edits, oldest, title).failed
        if not failed:
            break
        guilty = {name for source in failed for name in trial.reads(source)} & edits.keys()
        for name in guilty or edits.keys():
            left[name].pop(0)
        edits = {name: proposed[0] for name, proposed in left.items() if proposed}
    other = {source for source in before.keys() & after.keys() if trial.reads(source) & edits.keys()}
    gains = (Gain(source, before[source], after[source]) for source in sorted(other))
    pays = tuple(gain for gain in gains if gain.pays)
    worth = {name for pay in pays for name in trial.reads(pay.source)}
    kept = {name: edit for name, edit in edits.items() if name in worth}
    return Tried(edits=kept, gains=pays, variants=tuple(variants), texts=texts, left=stays)


def apply(directory: Path, tried: Tried) -> None:
    """Write the smaller headers into the files of a project.

    Args:
        directory: the project's directory.
        tried: the result of a trial.

    Raises:
        DriverError: FOREIGN_FILE if a file has changed since, and PERMISSION if a file is not writable; then no file is
            written. NO_SPACE or PERMISSION.
    """
    texts = {}
    for name in tried.edits:
        path = directory / name
        if path.is_file():
            with reading(path):
                texts[name] = _decoded(path.read_bytes())
        if texts.get(name) != tried.texts[name]:
            message = f"{path} has changed while other headers were tried"
            raise error(Code.FOREIGN_FILE, message, help="run the command again")
        if not os.access(path, os.W_OK):
            raise error(Code.PERMISSION, f"{path} is read-only", help="no file was changed; make it writable")
    with together() as written:
        for name, edits in tried.edits.items():
            written.write(directory / name, _encoded(rewritten(texts[name], edits)))


@cache
def _included(text: str) -> tuple[str, ...] | None:
    """The includes of a text; None if they cannot be determined."""
    return None if is_opaque(text) else tuple(include.path for include in scan(text))


def _decoded(content: bytes) -> str:
    return content.decode("utf-8", errors="surrogateescape")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogateescape")


def _files(group: Group) -> tuple[str, ...]:
    return (*group.sources, *group.headers)


def _for_one_arch(plan: Plan) -> Plan:
    """A plan with device code for the newest architecture of each vendor."""
    kept = defaultdict[str, set[str]](set)
    for group in plan.groups:
        for archs in group.archs.values():
            kept[group.backend].update(archs.kept)
    newest = [max(archs, key=arch_order).removesuffix("+PTX") for archs in kept.values() if archs]
    return narrowed(plan, newest) if newest else plan


def _variants(plan: Plan, untested: set[str]) -> tuple[list[Variant], list[Variant]]:
    """The variants for each group's newest torch release, and those for its oldest.

    Args:
        plan: the plan of the project.
        untested: untested toolkits, which are used only if there is no other.
    """
    found: list[list[Variant]] = []
    for group in plan.groups:
        variants = [
            variant
            for variant in plan.variants
            if group.name in variant.groups and variant.configuration.torch and not variant.configuration.stable
        ]
        if TORCH in group.depends and variants:
            found.append([variant for variant in variants if variant.configuration.backend not in untested] or variants)

    def age(variant: Variant) -> tuple[object, ...]:
        return (
            numbers(variant.configuration.torch or "0"),
            variant.configuration.abi == "cxx11",
            len(variant.configuration.backend),
            variant.configuration.backend,
        )

    ends = [(max(variants, key=age), min(variants, key=age)) for variants in found]
    newest, oldest = ({end[side].name: end[side] for end in ends} for side in (0, 1))
    return [*newest.values()], [*oldest.values()]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Trial:
    """Compiles a project with other headers.

    Attributes:
        directory: the project's directory.
        releases: the releases to build for.
        output: shows progress.
        plan: the plan of the project.
        texts: its files.
        copy: the number of the workspace; see `one_at_a_time`.
        umbrella: the umbrella headers to replace.
        nonce: makes all compiles cache misses, so that they can be timed.
    """

    directory: Path
    releases: Releases
    output: Output
    plan: Plan
    texts: Mapping[str, str]
    copy: int
    umbrella: set[str] = field(default_factory=set)
    nonce: str = field(default_factory=lambda: secrets.token_hex(8))

    def reads(self, source: str) -> set[str]:
        """The files of the project that a source consists of."""

        def included(name: str) -> tuple[str, ...] | None:
            return _included(self.texts[name])

        groups = [group for group in self.plan.groups if source in group.sources]
        return {name for group in groups for name in closure(source, group.headers, included)}

    def ways(self) -> tuple[dict[str, tuple[tuple[Edit, ...], ...]], dict[str, str]]:
        """The possible edits of files, and the files that stay unchanged, each with a macro.

        A file also stays unchanged if it has several names, or shares its name: its readers are unknown.
        """
        files = sorted({file for group in self.plan.groups if TORCH in group.depends for file in _files(group)})
        names = Counter(posixpath.basename(file) for file in self.plan.files)
        places = Counter((self.directory / file).resolve() for file in self.plan.files)
        groups = [group for group in self.plan.groups if TORCH in group.depends]
        flags = {flag for group in groups for flag in (*group.cxx_flags, *group.cuda_flags, *group.hip_flags)}
        defined = {flag[2:].partition("=")[0] for flag in flags if flag.startswith("-D")}
        asked = {source: self._asked(source) - defined for group in groups for source in group.sources}
        found, left = {}, {}
        for file in files:
            if not proposals(self.texts[file]) or places[(self.directory / file).resolve()] > 1:
                continue
            if file not in asked and names[posixpath.basename(file)] > 1:
                continue
            macros = {name for source, names in asked.items() if file in self.reads(source) for name in names}
            if unknown := unknown_macro(macros):
                left[file] = unknown
            else:
                found[file] = proposals(self.texts[file], macros)
        return found, left

    def _asked(self, source: str) -> set[str]:
        """The macros that a source and its headers test and do not define."""
        texts = [self.texts[name] for name in self.reads(source)]
        own = {name for text in texts for name in re.findall(r"(?m)^[ \t]*#[ \t]*define[ \t]+(\w+)", text)}
        return {macro for text in texts for macro in asked_macros(text)} - own

    def compiled(
        self, edits: Mapping[str, tuple[Edit, ...]], chosen: Sequence[Variant], title: str, *, may_fail: bool = True
    ) -> _Outcome:
        """Compile variants with edits, and return the outcome.

        Raises:
            DriverError: the build failed although it must not, or not because of a compiler.
        """
        with self._copy(edits) as edited:
            workspace = workspace_for(edited, self.plan, self.releases, self.copy)
            project = BuiltProject(directory=self.directory, plan=self.plan, chosen=chosen, workspace=workspace)
            with session(find_bazel(workspace.root, self.output), workspace.root, self.output) as bazel:
                choices = Choices(headers=Headers.FULL, keep_going=True)
                batch = bazel.build([project], choices, title=title, quiet=True)
        batch.raise_interruption()
        outcome = _outcome(batch, AuthorPaths([project]))
        if batch.completed.failure is not None and (not may_fail or not outcome.failed):
            raise batch.completed.failure
        return outcome

    @contextmanager
    def _copy(self, edits: Mapping[str, tuple[Edit, ...]]) -> Iterator[Path]:
        """A copy of the project with smaller headers."""
        sources = {
            source for group in self.plan.groups for source in group.sources if self.umbrella & self.reads(source)
        }
        with tempfile.TemporaryDirectory(prefix="driver-") as name:
            for file, text in self.texts.items():
                new = rewritten(text, edits.get(file, ()))
                if file in sources:
                    new += f'\nstatic_assert(true, "{self.nonce}");\n'
                path = Path(name, file)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(_encoded(new))
            yield Path(name)
