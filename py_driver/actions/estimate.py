"""What a build will do, before it does: actions that run and those that are there, how long that takes, in what memory.

An action that ends with what was there before spares those that follow it, which nobody can know beforehand: so no more
actions run than are said here, unless the cache has lost some, and fewer may. Pure: what earlier builds did is a value
(history.py).
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from py_driver.actions.executed import Did
from py_driver.actions.phases import phases
from py_driver.output import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from py_driver.actions.executed import Place, VariantAction
    from py_driver.actions.expected import ExpectedAction

_REMEMBERED = 8
"""Of an action, what it read in so many builds is known."""


class Known(NamedTuple):
    """What earlier builds tell of an action.

    Attributes:
        reads: `Step.reads` of the last of them, the newest first; results of these are in the cache.
        key: digest of command and inputs, by Bazel; equal for actions that did the same; empty if it named none.
        seconds: how long it took when it ran; 0 if that is not known.
    """

    reads: tuple[str, ...]
    key: str
    seconds: float


History = dict[str, Known]
"""By `Step.place`."""


class Estimate(NamedTuple):
    """What a build will do.

    Attributes:
        run: actions that run, at most.
        shared: actions that another variant of the build has too.
        cached: actions whose result is there already.
        seconds: how long that takes.
        memory: megabytes that actions which run at once are taken for; None if they run elsewhere.
        measured: whether at least half of the seconds are of actions that ran before.
        templates: how many of those that run are of sources with the headers of CUTLASS or CuTe, and may take most.
        most: megabytes that one of these has taken.
    """

    run: int
    shared: int
    cached: int
    seconds: float
    memory: int | None
    measured: bool
    templates: int = 0
    most: int = 0


class Work(NamedTuple):
    """What a build does of a project.

    Attributes:
        project: name of its Python package.
        actions: see `expected_steps`.
        history: what earlier builds of it did.
    """

    project: str
    actions: Sequence[ExpectedAction]
    history: History


class _Judged(NamedTuple):
    """An action of a project, what it will do, and what it takes if it runs.

    Attributes:
        project: name of its Python package.
        action: which.
        did: what it will do.
        seconds: how long it runs.
        memory: megabytes that it is taken for.
        measured: whether the seconds are of it, or one that is like it.
    """

    project: str
    action: ExpectedAction
    did: Did
    seconds: float
    memory: int
    measured: bool


def estimate(actions: Sequence[ExpectedAction], history: History, *, jobs: int, memory: int | None) -> Estimate:
    """What a build of some actions of one project will do; see `together`."""
    return together([Work("", actions, history)], jobs=jobs, memory=memory)


def together(works: Iterable[Work], *, jobs: int, memory: int | None) -> Estimate:
    """What a build of some projects will do.

    Actions of two projects are the same if they had the same key the last time. Of those that never ran nobody knows:
    their outputs lie in the directory of the project, so they are taken for different ones.

    Args:
        works: its projects.
        jobs: actions at once.
        memory: megabytes that they may take together, None for as many as they like; an action that is taken for more
            runs alone.
    """
    judged = [*_judged(works)]
    counts = Counter(entry.did for entry in judged)
    priced = [entry for entry in judged if entry.did is Did.RUN]
    measured = sum(entry.seconds for entry in priced if entry.measured)
    seconds, peak = _simulate(priced, jobs, memory)
    most = max((_most(entry.action) for entry in priced if _is_large(entry.action)), default=0)
    return Estimate(
        run=counts[Did.RUN],
        shared=counts[Did.SHARED],
        cached=counts[Did.CACHED],
        seconds=seconds,
        memory=peak if memory is not None else None,
        measured=2 * measured >= sum(entry.seconds for entry in priced),
        templates=sum(_is_large(entry.action) and _most(entry.action) == most for entry in priced),
        most=most,
    )


class Part(NamedTuple):
    """What a build does for one variant of a project.

    Attributes:
        run: actions that run for it, at most.
        shared: actions that a variant before it has too.
        cached: actions whose result is there already.
        seconds: what those that run take, added up.
    """

    run: int
    shared: int
    cached: int
    seconds: float


def by_variant(works: Iterable[Work]) -> dict[tuple[str, str], Part]:
    """What a build does for each variant, by project and name; see `together`."""
    found: dict[tuple[str, str], list[_Judged]] = {}
    for judged in _judged(works):
        found.setdefault((judged.project, judged.action.variant), []).append(judged)
    parts = {}
    for key, own in found.items():
        counts = Counter(judged.did for judged in own)
        seconds = sum(judged.seconds for judged in own if judged.did is Did.RUN)
        parts[key] = Part(counts[Did.RUN], counts[Did.SHARED], counts[Did.CACHED], seconds)
    return parts


def _judged(works: Iterable[Work]) -> Iterator[_Judged]:
    """What each action of some projects will do, and what that takes."""
    seen: set[str] = set()
    for project, actions, history in works:
        guess = _Seconds(history, actions)
        for action in actions:
            known = history.get(action.place)
            # What did the same the last time is taken to do the same again, whatever has changed.
            own = f"{project}|{action.place}|{action.reads}"
            same = f"{action.mnemonic}|{action.arch}|{known.key}" if known and known.key else own
            if same in seen:
                did = Did.SHARED
            elif known and action.reads in known.reads:
                did = Did.CACHED
            else:
                did = Did.RUN
            seen.add(same)
            seconds, measured = guess.of(action)
            yield _Judged(project, action, did, seconds, _memory(action), measured)


def _is_large(action: ExpectedAction) -> bool:
    """Whether an action may take much more than others of its kind."""
    return action.templates and bool(phases()[action.mnemonic].templates)


def _most(action: ExpectedAction) -> int:
    """Megabytes that such an action has taken."""
    return int(phases()[action.mnemonic].templates["most"])


def _memory(action: ExpectedAction) -> int:
    """Megabytes that an action is taken for."""
    phase = phases()[action.mnemonic]
    usual = phase.memory[action.headers]
    return max(usual, int(phase.templates["memory"])) if _is_large(action) else usual


def doubt(ahead: Estimate, jobs: int, memory: int | None) -> str:
    """A note for a machine that may have too little memory for a build; empty if it has enough.

    Args:
        ahead: what is expected.
        jobs: actions at once.
        memory: megabytes that they may take together; None if they run elsewhere.
    """
    if memory is None or not ahead.most or min(jobs, ahead.templates) * ahead.most <= memory:
        return ""
    fit = max(1, memory // ahead.most)
    return (
        f"note: {counted(ahead.templates, 'action')} compile headers of CUTLASS or CuTe; one alone has taken "
        f"{ahead.most / 1000:.1f} GB and minutes, and there are {memory / 1000:.1f} GB for {jobs} at once. "
        f"If a compiler is killed, build with --jobs {fit}"
    )


def describe(ahead: Estimate, variants: int, jobs: int) -> str:
    """The plan of a build in a sentence.

    Args:
        ahead: what is expected.
        variants: how many are built.
        jobs: actions at once.
    """
    names = counted(variants, "variant")
    count = ahead.run + ahead.shared + ahead.cached
    actions = counted(count, "compile action")
    if not ahead.run:
        summary = f"{actions}: none has to run" if count else "nothing to compile"
        return f"plan: {names}, {summary}"
    minutes, seconds = divmod(round(ahead.seconds), 60)
    took = f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
    return (
        f"plan: {names}, {actions}: at most {ahead.run} run, {ahead.shared} shared, "
        f"{ahead.cached} cached; "
        f"{'about' if ahead.measured else 'very roughly'} {took} of compiling, {jobs} at once"
        + ("" if ahead.memory is None else f", in {ahead.memory / 1000:.1f} GB")
    )


class _Seconds:
    """How long actions take: as the same one did, or one that is like it, or one of its kind."""

    def __init__(self, history: History, actions: Iterable[ExpectedAction] = ()) -> None:
        self._large = {(action.section, action.source) for action in actions if action.templates}
        taken: dict[tuple[str, ...], list[float]] = {}
        for place, known in history.items():
            if known.seconds:
                for key in self._keys(place):
                    taken.setdefault(key, []).append(known.seconds)
        self._taken = {key: median(seconds) for key, seconds in taken.items()}

    def _keys(self, place: str) -> list[tuple[str, ...]]:
        """From the very action to all of its kind."""
        section, source, mnemonic, arch, part = place.split("|")
        kind = f"{mnemonic} for an architecture" if arch else mnemonic
        return [
            (section, source, mnemonic, arch, part),
            (section, source, mnemonic, arch),
            (section, source, kind),
            (f"{kind} of templates" if (section, source) in self._large else kind,),
        ]

    def of(self, action: ExpectedAction) -> tuple[float, bool]:
        """How long an action takes, and whether that was measured of it or of one that is like it."""
        if self._taken:
            *like, kind = self._keys(action.place)
            for key in like:
                if key in self._taken:
                    return self._taken[key], True
            if kind in self._taken:
                return self._taken[kind], False
        phase = phases()[action.mnemonic]
        usual = phase.seconds[action.headers]
        return (max(usual, phase.templates["seconds"]) if _is_large(action) else usual), False


def _simulate(actions: Sequence[_Judged], jobs: int, memory: int | None) -> tuple[float, int]:
    """The seconds until all actions have run, and the most memory that those which ran at once are taken for."""
    followers, waiting = _order(actions)
    ready = [at for at in range(len(actions)) if not waiting[at]]
    running: list[tuple[float, int]] = []
    now, used, peak = 0.0, 0, 0
    most = math.inf if memory is None else memory
    while ready or running:
        while ready and len(running) < jobs and (not running or used + actions[ready[0]].memory <= most):
            at = heapq.heappop(ready)
            heapq.heappush(running, (now + actions[at].seconds, at))
            used += actions[at].memory
            peak = max(peak, used)
        now, at = heapq.heappop(running)
        used -= actions[at].memory
        for follower in followers[at]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, follower)
    return now, peak


def _order(actions: Sequence[_Judged]) -> tuple[list[list[int]], list[int]]:
    """For each action, by its index, those that read what it makes, and how many it waits for."""
    makers: dict[tuple[str, ...], list[int]] = {}
    for at, (project, action, *_) in enumerate(actions):
        makers.setdefault((project, action.variant, action.section, action.source, action.mnemonic), []).append(at)
    followers: list[list[int]] = [[] for _ in actions]
    waiting = [0] * len(actions)
    for at, (project, action, *_) in enumerate(actions):
        for mnemonic in phases()[action.mnemonic].after:
            every = makers.get((project, action.variant, action.section, action.source, mnemonic), ())
            # Of a kind that has one for the source and one for each architecture, its own alone.
            own = [maker for maker in every if actions[maker].action.arch == action.arch]
            for maker in own or [maker for maker in every if None in {action.arch, actions[maker].action.arch}]:
                followers[maker].append(at)
                waiting[at] += 1
    return followers, waiting


def without_load(
    done: Sequence[tuple[Place, VariantAction]], cpu: Mapping[str, float]
) -> list[tuple[Place, VariantAction]]:
    """Actions with the seconds that they would have taken if nothing else had run on the machine.

    Bazel tells how long each action took, and how long processors worked for all actions of a kind: the less of it, the
    more they have waited for others.

    Args:
        done: what the actions of a build did, with what each compiles.
        cpu: see `Events`.
    """
    took: defaultdict[str, float] = defaultdict(float)
    for place, action in done:
        if action.did is Did.RUN:
            took[place.mnemonic] += action.seconds
    share = {kind: min(1.0, cpu[kind] / seconds) for kind, seconds in took.items() if seconds and cpu.get(kind)}
    return [(place, replace(action, seconds=action.seconds * share.get(place.mnemonic, 1.0))) for place, action in done]


def learned(
    history: History,
    expected: Iterable[ExpectedAction],
    done: Iterable[tuple[Place, VariantAction]],
    sources: Collection[tuple[str, str]],
) -> History:
    """A history with what a build did; without the actions of files that the project no longer has.

    Args:
        history: up to this build.
        expected: its actions.
        done: what each of them did, with what it compiles.
        sources: section and path of each source.
    """
    actual = {(s.variant, p.section, p.source, p.mnemonic, p.arch): s for p, s in done}
    seconds = {action.key: action.seconds for action in actual.values() if action.did is Did.RUN}
    new = {place: known for place, known in history.items() if tuple(place.split("|")[:2]) in sources}
    for action in expected:
        found = actual.get((action.variant, action.section, action.source, action.mnemonic, action.arch))
        if found is None:
            continue
        old = new.get(action.place, Known(reads=(), key="", seconds=0.0))
        reads = tuple(dict.fromkeys((action.reads, *old.reads)))[:_REMEMBERED]
        key = found.spawn.key if found.spawn and found.spawn.key else old.key
        new[action.place] = Known(reads=reads, key=key, seconds=round(seconds.get(found.key, 0.0), 3) or old.seconds)
    return new
