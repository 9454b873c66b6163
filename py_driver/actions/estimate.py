"""The estimate of a build: the actions that run and those that are cached, their duration and memory.

If an action's output is unchanged, the following actions do not run, which is not known beforehand: so at most the
estimated actions run, unless the cache has lost results, and possibly fewer. Pure: the history of earlier builds is a
value (history.py).
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
"""The number of builds for which an action's inputs are kept."""


class Known(NamedTuple):
    """The record of an action in earlier builds.

    Attributes:
        reads: `Step.reads` of the last builds, the newest first, whose results are in the cache.
        key: Bazel's digest of command and inputs, equal for equal actions; empty if unknown.
        seconds: its duration; 0 if unknown.
    """

    reads: tuple[str, ...]
    key: str
    seconds: float


History = dict[str, Known]
"""By `Step.place`."""


class Estimate(NamedTuple):
    """The estimate of a build.

    Attributes:
        run: the maximum number of actions that run.
        shared: actions that another variant of the build has too.
        cached: actions with an existing result.
        seconds: the duration.
        memory: the estimated megabytes of actions that run at once; None if they run elsewhere.
        measured: whether at least half of the seconds are measured.
        templates: the number of running actions for sources with the headers of CUTLASS or CuTe, which need most
            memory.
        most: the megabytes that such an action has needed.
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
    """The work of a build for a project.

    Attributes:
        project: the name of its Python package.
        actions: see `expected_steps`.
        history: the history of its builds.
    """

    project: str
    actions: Sequence[ExpectedAction]
    history: History


class _Judged(NamedTuple):
    """An action of a project, with its expected result and cost.

    Attributes:
        project: the name of its Python package.
        action: the action.
        did: the expected result.
        seconds: the expected duration.
        memory: the estimated megabytes.
        measured: whether the seconds were measured for it or a similar action.
    """

    project: str
    action: ExpectedAction
    did: Did
    seconds: float
    memory: int
    measured: bool


def estimate(actions: Sequence[ExpectedAction], history: History, *, jobs: int, memory: int | None) -> Estimate:
    """The estimate of a build of one project; see `together`."""
    return together([Work("", actions, history)], jobs=jobs, memory=memory)


def together(works: Iterable[Work], *, jobs: int, memory: int | None) -> Estimate:
    """The estimate of a build of projects.

    Actions of two projects are equal if they had the same key the last time. For actions that never ran this is
    unknown: their outputs are in the project's directory, so they count as different.

    Args:
        works: its projects.
        jobs: the number of actions at once.
        memory: the megabytes that they may use together, None for no limit; an action with a larger estimate runs
            alone.
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
    """The estimate for one variant of a project.

    Attributes:
        run: the maximum number of actions that run for it.
        shared: actions that an earlier variant has too.
        cached: actions with an existing result.
        seconds: the total duration of the actions that run.
    """

    run: int
    shared: int
    cached: int
    seconds: float


def by_variant(works: Iterable[Work]) -> dict[tuple[str, str], Part]:
    """The estimate for each variant, by project and name; see `together`."""
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
    """The expected result and cost of each action of projects."""
    seen: set[str] = set()
    for project, actions, history in works:
        guess = _Seconds(history, actions)
        for action in actions:
            known = history.get(action.place)
            # Actions that were equal the last time count as equal, whatever has changed.
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
    """Whether an action may need much more than others of its kind."""
    return action.templates and bool(phases()[action.mnemonic].templates)


def _most(action: ExpectedAction) -> int:
    """The megabytes that such an action has needed."""
    return int(phases()[action.mnemonic].templates["most"])


def _memory(action: ExpectedAction) -> int:
    """The estimated megabytes of an action."""
    phase = phases()[action.mnemonic]
    usual = phase.memory[action.headers]
    return max(usual, int(phase.templates["memory"])) if _is_large(action) else usual


def doubt(ahead: Estimate, jobs: int, memory: int | None) -> str:
    """A note for a machine that may have too little memory for a build; empty if it has enough.

    Args:
        ahead: the estimate.
        jobs: the number of actions at once.
        memory: the megabytes that they may use together; None if they run elsewhere.
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
        ahead: the estimate.
        variants: the number of variants.
        jobs: the number of actions at once.
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
    """The durations of actions: measured for the same action, a similar one, or one of its kind."""

    def __init__(self, history: History, actions: Iterable[ExpectedAction] = ()) -> None:
        self._large = {(action.section, action.source) for action in actions if action.templates}
        taken: dict[tuple[str, ...], list[float]] = {}
        for place, known in history.items():
            if known.seconds:
                for key in self._keys(place):
                    taken.setdefault(key, []).append(known.seconds)
        self._taken = {key: median(seconds) for key, seconds in taken.items()}

    def _keys(self, place: str) -> list[tuple[str, ...]]:
        """The keys from the action itself to all of its kind."""
        section, source, mnemonic, arch, part = place.split("|")
        kind = f"{mnemonic} for an architecture" if arch else mnemonic
        return [
            (section, source, mnemonic, arch, part),
            (section, source, mnemonic, arch),
            (section, source, kind),
            (f"{kind} of templates" if (section, source) in self._large else kind,),
        ]

    def of(self, action: ExpectedAction) -> tuple[float, bool]:
        """The duration of an action, and whether it was measured for it or a similar one."""
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
    """The seconds until all actions have run, and the maximum estimated memory of actions at once."""
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
    """The actions that read each action's outputs, and the number of actions that each waits for, by index."""
    makers: dict[tuple[str, ...], list[int]] = {}
    for at, (project, action, *_) in enumerate(actions):
        makers.setdefault((project, action.variant, action.section, action.source, action.mnemonic), []).append(at)
    followers: list[list[int]] = [[] for _ in actions]
    waiting = [0] * len(actions)
    for at, (project, action, *_) in enumerate(actions):
        for mnemonic in phases()[action.mnemonic].after:
            every = makers.get((project, action.variant, action.section, action.source, mnemonic), ())
            # If a kind has an action for the source and for each architecture, only its own counts.
            own = [maker for maker in every if actions[maker].action.arch == action.arch]
            for maker in own or [maker for maker in every if None in {action.arch, actions[maker].action.arch}]:
                followers[maker].append(at)
                waiting[at] += 1
    return followers, waiting


def without_load(
    done: Sequence[tuple[Place, VariantAction]], cpu: Mapping[str, float]
) -> list[tuple[Place, VariantAction]]:
    """Actions with the durations that they would have on an otherwise idle machine.

    Bazel reports the duration of each action, and the processor time of all actions of a kind: the less processor time,
    the longer they have waited.

    Args:
        done: the actions of a build, each with what it compiles.
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
    """The history with a build's actions, without actions of files that the project no longer has.

    Args:
        history: the history before this build.
        expected: its actions.
        done: its executed actions, each with what it compiles.
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
