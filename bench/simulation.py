# ruff: noqa: INP001  (a program of its own)
"""The time of builds of many projects on many machines, by simulation: python bench/simulation.py.

The driver's own plan says which actions there are and which of them are one (py_driver/actions/expected.py), and its
estimate runs them on as many workers as are given (estimate.py). simulation.json has the seconds of each action of the
kernels below, as the driver measured them when it built one variant of each with `--jobs 1` and `--jobs 2`, and how
long these builds took: by that the simulation is compared with what was. Builds on an engine with 1, 2 and 4 workers,
which tests/helpers/engine.py runs, can be put beside them as `w1` to `w4`.

    python bench/simulation.py KERNEL JOBS REPORT    puts a build into simulation.json, by the JSON of its report
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from py_driver.actions.estimate import History, Known, Work, together  # noqa: E402  (no installed package)
from py_driver.actions.expected import ExpectedAction, Settings, expected_actions  # noqa: E402
from py_driver.matrix.releases import Releases  # noqa: E402
from py_driver.output import Output  # noqa: E402
from py_driver.plan.plan import plan_directory  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from py_driver.plan.plan import Plan

DATA: Final = ROOT / "bench" / "simulation.json"
KERNELS: Final = ROOT / "bench" / "projects"
MEASURED: Final = "torch213-cxx11-cu130-x86_64-linux"
_ENGINE: Final = "w"
"""What comes before the number of workers in simulation.json, where builds without an engine have their `--jobs`."""

COPIES: Final = 4
"""The number of projects of each kernel: names differ, so no two projects share an action."""

VARIANTS: Final = 40
EDITED: Final = "norm"
WORKERS: Final = (2, 8, 64, 512)
NEW: Final = "2.15"
"""The new release."""

OVERHEAD: Final = 0.3
"""The assumed overhead of an action on a worker, in seconds: scheduling, inputs, outputs."""

TAIL: Final = 5
"""Actions of a variant that compile nothing: its id, its link, its check, its files, its metadata."""

TAIL_SECONDS: Final = 0.2
WORKER_HOUR: Final = 0.05
"""The assumed price of a processor per hour, in dollars."""

RESULT_MEGABYTES: Final = 0.85
RESULT_BLOBS: Final = 2.7
"""Of an action: see "What a large cache needs" in docs/remote.md."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a build of all projects.

    Attributes:
        run: actions that ran, those that compile nothing included.
        seconds: until the end, for each number of workers.
        work: seconds of all that ran.
    """

    run: int
    seconds: tuple[float, ...]
    work: float

    @property
    def dollars(self) -> float:
        """The cost of the processors' work."""
        return self.work / 3600 * WORKER_HOUR


def read_data() -> dict[str, Any]:
    """The measurements, by kernel."""
    data: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return data


def settings_of(releases: Releases) -> Settings:
    """The settings of a build without any option."""
    return Settings(
        split=True,
        whole=(),
        needed=True,
        gcc=False,
        compress="",
        standards={release.version: release.cxx_standard for release in releases.matrix.torch},
        toolchains=releases.toolchain_digests,
        rules="",
    )


def key_of(action: ExpectedAction) -> str:
    """What simulation.json has the seconds of an action by."""
    return "|".join((action.section, action.source, action.mnemonic, action.arch or ""))


def history_of(
    actions: Iterable[ExpectedAction], seconds: dict[str, float], overhead: float = 0.0, *, done: bool
) -> History:
    """The records about the actions of a kernel: their times, and whether they have results."""
    return {
        action.place: Known(
            reads=(action.reads,) * done,
            key="",
            seconds=seconds[key_of(action)] + overhead if key_of(action) in seconds else 0.0,
        )
        for action in actions
    }


def actions_of(plan: Plan, names: Sequence[str], releases: Releases, edited: str = "") -> list[ExpectedAction]:
    """The actions of variants; `edited` is a file with a changed text."""
    root = KERNELS / plan.name
    files = {name: (root / name).read_bytes() + b"\nint edited;\n" * (name == edited) for name in plan.files}
    chosen = [variant for variant in plan.variants if variant.name in names]
    return expected_actions(plan, chosen, files, settings_of(releases))


def outcome(works: Sequence[Work], variants: int, workers: Sequence[int] = WORKERS) -> Outcome:
    """Run the required actions, on each number of workers.

    Args:
        works: the projects.
        variants: how many of all of them are made anew.
        workers: the numbers.
    """
    runs = [together(works, jobs=count, memory=None) for count in workers]
    alone = together(works, jobs=1, memory=None)
    tail = variants * TAIL * (TAIL_SECONDS + OVERHEAD)
    seconds = tuple(
        run.seconds + max(tail / count, TAIL * (TAIL_SECONDS + OVERHEAD) * bool(variants))
        for run, count in zip(runs, workers, strict=True)
    )
    return Outcome(run=alone.run + variants * TAIL, seconds=seconds, work=alone.seconds + tail)


def validated() -> list[tuple[str, str, float, float]]:
    """Kernel, who ran it, seconds as measured, seconds as simulated: of the builds that simulation.json was made of."""
    releases, found = Releases(), []
    for kernel, builds in read_data().items():
        every = actions_of(plan_directory(KERNELS / kernel, releases), [MEASURED], releases)
        for jobs, build in builds.items():
            actions = [action for action in every if key_of(action) in build["actions"]]
            work = Work(kernel, actions, history_of(actions, build["actions"], done=False))
            count = int(jobs.removeprefix(_ENGINE))
            remote = f"{count} worker{'s' * (count > 1)} of an engine"
            who = remote if jobs.startswith(_ENGINE) else f"`--jobs {count}`"
            found.append((kernel, who, build["seconds"], together([work], jobs=count, memory=None).seconds))
    return found


def simulated() -> dict[str, Outcome]:
    """What all projects take: cold, after an edit of one file in one of them, and after a new release of torch."""
    releases = Releases()
    cold, edit, new = [], [], []
    edited = added = 0
    for kernel, builds in read_data().items():
        plan = plan_directory(KERNELS / kernel, releases)
        every = [
            variant.name
            for variant in plan.variants
            if variant.configuration.cpu == releases.matrix.cpu and variant.archs
        ]
        later = [name for name in every if name.startswith(f"torch{NEW.replace('.', '')}-")]
        names = [name for name in every if name not in later and "-cu" in name][:VARIANTS]
        seconds = builds[min(builds)]["actions"]
        old, more = (actions_of(plan, chosen, releases) for chosen in (names, [*names, *later]))
        file = next(source for group in plan.groups for source in group.sources if source.endswith(".cu"))
        known = history_of(old, seconds, OVERHEAD, done=True)
        for copy in range(COPIES):
            project = f"{kernel}_{copy}"
            cold.append(Work(project, old, history_of(old, seconds, OVERHEAD, done=False)))
            new.append(Work(project, more, known))
            added += len(later)
        if kernel == EDITED:
            edit.append(Work(kernel, actions_of(plan, names, releases, file), known))
            edited = len(names)
    return {
        "cold": outcome(cold, VARIANTS * len(cold)),
        f"a file of `{EDITED}` is edited": outcome(edit, edited),
        f"torch {NEW} is new": outcome(new, added),
    }


def table() -> str:
    """The tables of docs/remote.md."""
    heads = " | ".join(f"{count} workers" for count in WORKERS)
    lines = [
        f"| | actions | {heads} | processors | cache, at most | writes |\n",
        f"|---{'|---:' * (len(WORKERS) + 4)}|\n",
    ]
    for title, results in simulated().items():
        times = " | ".join(_duration(seconds) for seconds in results.seconds)
        cost = f"{results.work / 3600:.1f} h, {results.dollars:.2f} USD"
        size, writes = results.run * RESULT_MEGABYTES / 1000, results.run * (1 + RESULT_BLOBS)
        lines.append(f"| {title} | {results.run:,} | {times} | {cost} | {size:.1f} GB | {writes:,.0f} |\n")
    lines += ["\n", "| kernel | run by | measured | simulated | |\n", "|---|---|---:|---:|---:|\n"]
    for kernel, who, measured, found in validated():
        lines.append(
            f"| {kernel} | {who} | {measured:.1f} s | {found:.1f} s | {100 * (found / measured - 1):+.0f} % |\n"
        )
    return "".join(lines)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def measure(kernel: str, jobs: str, report: Path) -> None:
    """Add a build to the data.

    Args:
        kernel: its name.
        jobs: how many actions ran at once; `w2` for two workers of an engine.
        report: the JSON of `driver build --report`.
    """
    data = read_data() if DATA.is_file() else {}
    told = json.loads(report.read_text(encoding="utf-8"))["timeline"]
    actions = {
        "|".join((bar["section"], bar["source"], bar["mnemonic"], bar["arch"] or "")): round(bar["seconds"], 2)
        for bar in told["bars"]
    }
    data.setdefault(kernel, {})[jobs] = {"seconds": round(told["seconds"], 2), "actions": actions}
    DATA.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Print the tables, or add a build to the data."""
    if len(sys.argv) > 1:
        measure(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
    else:
        Output().data(table().rstrip())


if __name__ == "__main__":
    main()
