"""Smaller headers of torch in place of umbrella headers: what compiles, found by compiling, and what it saves."""

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
"""Of the time that a source takes, what it has to stay below: smaller differences may be the machine's."""


class Seconds(NamedTuple):
    """What the actions of a source take.

    Attributes:
        arch: those for a GPU architecture; 0 if there are none.
        rest: all others.
    """

    arch: float
    rest: float


class Gain(NamedTuple):
    """What other headers save.

    Attributes:
        source: path within the project.
        before: what it takes with the headers that it includes.
        after: what it takes with the others.
    """

    source: str
    before: Seconds
    after: Seconds

    @property
    def pays(self) -> bool:
        """Whether that is more than what differs from run to run."""
        return sum(self.after) < _WORTH * sum(self.before)


class Tried(NamedTuple):
    """Headers that do.

    Attributes:
        edits: what to include instead, by path within the project; none if nothing smaller compiles, or pays.
        gains: the sources that compile faster with all of these, in their order.
        variants: that were compiled; none if no file includes an umbrella header.
        texts: the files as they were.
        left: files that stay as they are, each with a macro that a source asks for and some header defines.
    """

    edits: Mapping[str, tuple[Edit, ...]]
    gains: tuple[Gain, ...]
    variants: tuple[str, ...]
    texts: Mapping[str, str]
    left: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        """The same as a value for JSON."""
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
    """What came of compiling: the sources that failed, and what each takes that was compiled."""

    failed: frozenset[str]
    seconds: Mapping[str, Seconds]


def _outcome(batch: Batch, paths: AuthorPaths) -> _Outcome:
    """What came of the sources of a project."""
    objects = [paths.made(action.output) for action in batch.completed.events.told if not action.succeeded]
    times = defaultdict[str, list[float]](lambda: [0.0, 0.0])
    for spawn in batch.spawns:
        compiled = next((known for path in spawn.outputs if (known := paths.made(path))), None)
        if compiled and spawn.seconds is not None:
            times[compiled.source][0 if compiled.arch else 1] += spawn.seconds
    failed = frozenset(known.source for known in objects if known)
    return _Outcome(failed, {source: Seconds(*both) for source, both in times.items()})


def try_smaller_headers(directory: Path, releases: Releases, output: Output) -> Tried:
    """Find headers in place of the umbrella headers that the files of a project include.

    For each backend the newest and the oldest torch release are compiled, for one GPU architecture, with all of torch's
    headers. Where the headers of single names do not compile, larger ones are tried. Nothing in the project is changed.

    Args:
        directory: of the project.
        releases: to build for.
        output: where progress is shown.

    Raises:
        DriverError: whatever is wrong with the project, the machine or the sources.
    """
    with one_at_a_time(directory, plan_directory(directory, releases), output) as copy:
        return _try(directory, releases, output, copy)


def _try(directory: Path, releases: Releases, output: Output, copy: int) -> Tried:
    """See `try_smaller_headers`; nobody else builds the project meanwhile."""
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
    before = trial.compiled({}, newest, "compiling with the headers as they are", may_fail=False).seconds
    after: dict[str, Seconds] = {}
    left = {name: [*way] for name, way in ways.items()}
    edits = {name: proposed[0] for name, proposed in left.items()}
    while edits:
        title = f"trying other headers in {counted(len(edits), 'file')}"
        outcome = trial.compiled(edits, newest, title)
        # What an earlier round compiled with these headers did not run again, and says nothing in this one.
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
    """Write other headers into the files of a project.

    Args:
        directory: of the project.
        tried: what to write.

    Raises:
        DriverError: FOREIGN_FILE if a file has changed since, and PERMISSION if one must not be written; then none is
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
    """What a text includes; None if that cannot be told."""
    return None if is_opaque(text) else tuple(include.path for include in scan(text))


def _decoded(content: bytes) -> str:
    return content.decode("utf-8", errors="surrogateescape")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogateescape")


def _files(group: Group) -> tuple[str, ...]:
    return (*group.sources, *group.headers)


def _for_one_arch(plan: Plan) -> Plan:
    """A plan with device code for one architecture of each maker: the newest."""
    kept = defaultdict[str, set[str]](set)
    for group in plan.groups:
        for archs in group.archs.values():
            kept[group.backend].update(archs.kept)
    newest = [max(archs, key=arch_order).removesuffix("+PTX") for archs in kept.values() if archs]
    return narrowed(plan, newest) if newest else plan


def _variants(plan: Plan, untested: set[str]) -> tuple[list[Variant], list[Variant]]:
    """The variants for the newest torch release that each group is linked in, and those for the oldest.

    Args:
        plan: of the project.
        untested: toolkits that nobody has compiled with; they are taken where there is no other.
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
        directory: of the project.
        releases: to build for.
        output: where progress is shown.
        plan: of it.
        texts: its files.
        copy: of the workspace; see `one_at_a_time`.
        umbrella: those for which other headers are tried.
        nonce: makes what is compiled new, so that no cache has it, and it can be timed.
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
        """The files of the project that a source is made of."""

        def included(name: str) -> tuple[str, ...] | None:
            return _included(self.texts[name])

        groups = [group for group in self.plan.groups if source in group.sources]
        return {name for group in groups for name in closure(source, group.headers, included)}

    def ways(self) -> tuple[dict[str, tuple[tuple[Edit, ...], ...]], dict[str, str]]:
        """What other headers files can have, and those files that stay as they are, each with a macro.

        A file stays as it is, too, if it has several names, or another file has its name: it is not clear who reads it.
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
        """The macros that a source and its headers ask for and do not define."""
        texts = [self.texts[name] for name in self.reads(source)]
        own = {name for text in texts for name in re.findall(r"(?m)^[ \t]*#[ \t]*define[ \t]+(\w+)", text)}
        return {macro for text in texts for macro in asked_macros(text)} - own

    def compiled(
        self, edits: Mapping[str, tuple[Edit, ...]], chosen: Sequence[Variant], title: str, *, may_fail: bool = True
    ) -> _Outcome:
        """Compile variants with edits; what came of it.

        Raises:
            DriverError: it failed, and may not, or no compiler did.
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
        """The project in another directory, with other headers."""
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
