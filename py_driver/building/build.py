"""One build from beginning to end: plan, fetch, Bazel, copy, count, report."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.bazel.find import find_bazel
from py_driver.bazel.remote import REMOTE_JOBS, Remote, bazel_options, reachable
from py_driver.bazel.run import run as run_bazel
from py_driver.bazel.sandbox import isolation
from py_driver.bazel.servers import free_server
from py_driver.bazel.spawns import options as log_options
from py_driver.building.collect import check_place, collect
from py_driver.building.estimate import Forecast, describe, forecast, learned
from py_driver.building.executed import CellSteps, cells_of, places_of
from py_driver.building.expected import Settings, expected_steps
from py_driver.building.history import read_calls, read_history, write_calls, write_history
from py_driver.building.rerun_reasons import calls_of
from py_driver.building.workspace import one_at_a_time, workspace_for
from py_driver.errors import Code, error
from py_driver.fetch.prefetch import fetch_all
from py_driver.matrix.archs import order
from py_driver.matrix.installation import MODULE_NAME
from py_driver.matrix.libraries import library_entries
from py_driver.matrix.lock import entries_for, rules_digest, toolchain_digests
from py_driver.matrix.lock_update import check_user_lock
from py_driver.matrix.releases import read_matrix
from py_driver.matrix.select import select
from py_driver.output import printable
from py_driver.plan.plan import plan_directory
from py_driver.resources import resource
from py_driver.system.cache import cache_root
from py_driver.system.files import is_directory, is_file, write
from py_driver.system.memory import step_memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from py_driver.bazel.run import Completed
    from py_driver.bazel.servers import Server
    from py_driver.building.executed import CellStep
    from py_driver.building.expected import Step
    from py_driver.building.rerun_reasons import Calls
    from py_driver.building.workspace import Workspace
    from py_driver.fetch.entry import Entry
    from py_driver.output import Output
    from py_driver.plan.plan import Plan, Variant

_ACTIONS = "actions"
"""Where the results of actions are kept, below the cache."""

_ACTIONS_SIZE = "20G"
"""What Bazel lets them grow to: when its server idles, it deletes those that were not used for the longest time."""

PYTHON_VARIABLE = "RULES_TORCH_KERNELS_PYTHON"
"""Names the Python that repository rules run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How to build.

    Attributes:
        jobs: how many actions at once; if None, Bazel decides, or `REMOTE_JOBS` if they run elsewhere.
        ram: what compile steps and Bazel may take together, in gigabytes; what the machine has if None.
        strict_archs: whether every arch that is asked for must be built.
        settings: of `//rules/settings`, by name: `cuda_compile`, `ptx_sharing`; as each says by default if not there.
        report: page to write, with the same as JSON beside it; None writes neither.
        remote: a cache and an executor to use besides this machine.
    """

    jobs: int | None = None
    ram: int | None = None
    strict_archs: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    report: Path | None = None
    remote: Remote = field(default_factory=Remote)


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """A variant that was built.

    Attributes:
        variant: what was planned.
        path: where it is: `PROJECT/build/VARIANT`.
        size: of its files, in bytes.
        steps: what its compile steps did.
    """

    variant: Variant
    path: Path
    size: int
    steps: CellSteps


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """A build that ended well.

    Attributes:
        plan: of the project.
        cells: what was built, in the plan's order.
        forecast: what it was expected to do.
        bytes_fetched: of archives, from the network.
        seconds: from beginning to end.
    """

    plan: Plan
    forecast: Forecast
    cells: tuple[Built, ...]
    bytes_fetched: int
    seconds: float


def choose(plan: Plan, patterns: Sequence[str]) -> list[Variant]:
    """The variants of a plan that patterns mean; without patterns those that are built by default.

    Raises:
        DriverError: NO_SUCH_VARIANT for a pattern that matches nothing.
    """
    bundled = [v.name for v in plan.variants if v.bundled]
    others = [v.name for v in plan.variants if not v.bundled]
    names = set(select(patterns, bundled, others))
    return [variant for variant in plan.variants if variant.name in names]


def build(directory: Path, patterns: Sequence[str], output: Output, options: Options | None = None) -> Build:
    """Build variants of a project into its `build/`.

    Args:
        directory: of the project.
        patterns: globs of identifiers; none means the default variants.
        output: where progress is shown.
        options: how; as by default if None.

    Raises:
        DriverError: whatever is wrong with the project, the machine or the sources; FOREIGN_FILE or PERMISSION if the
            report cannot be written.
    """
    options = options or Options()
    if options.report is not None:
        _check_report(options.report)
    check_user_lock()
    plan = plan_directory(directory, strict_archs=options.strict_archs)
    output.notes(plan.notes)
    chosen = choose(plan, patterns)
    check_place(directory)
    whole = unsplit(chosen) if options.settings.get("cuda_compile", "split") == "split" else ()
    if whole:
        output.say(
            f"note: nvcc {', '.join(whole)} compiles as a whole: it is declared only, and its phases are not known"
        )
    with one_at_a_time(plan, output):
        return _build(directory, plan, chosen, options, output)


def _build(directory: Path, plan: Plan, chosen: Sequence[Variant], options: Options, output: Output) -> Build:
    start = time.monotonic()
    workspace = workspace_for(directory, plan)
    bazel = find_bazel(workspace.root, output)
    fetched = fetch_all(archives(plan, chosen), output)
    with free_server(bazel, workspace.root, output) as server:
        steps = _expected(directory, plan, chosen, options)
        history = read_history(plan.module) if (cache_root() / _ACTIONS).is_dir() else {}
        jobs = options.jobs or (REMOTE_JOBS if options.remote.executor else len(os.sched_getaffinity(0)))
        memory = None if options.remote.executor else step_memory(options.ram, server.running)
        if memory is not None and options.ram is None and server.running > 1:
            output.say(f"{server.running} builds run now; steps of this one get {memory / 1000:.1f} GB (see --ram)")
        ahead = forecast(steps, history, jobs=jobs, memory=memory)
        output.say(describe(ahead, len(chosen), jobs))
        done, counted, done_steps = _run(server, workspace, plan, chosen, options, output)
        root = done.events.exec_root or workspace.root
        counts = {one.variant: one for one in counted}
        cells = []
        for variant in chosen:
            path, size = collect(root / counts[variant.name].directory, directory, variant.name)
            cells.append(Built(variant=variant, path=path, size=size, steps=counts[variant.name]))
    for note in done.notes:
        output.say(note)
    sources = {(group.name, source) for group in plan.groups for source in group.sources}
    placed = places_of(counted, done_steps)
    known = learned(history, steps, placed, sources)
    if known != history:
        write_history(plan.module, known)
    if options.report is not None:
        earlier = read_calls(plan.module)
        _write_report(options.report, plan.name, counted, done_steps, earlier, output)
        write_calls(plan.module, calls_of(placed, earlier, sources))
    return Build(
        plan=plan,
        forecast=ahead,
        cells=tuple(cells),
        bytes_fetched=sum(one.bytes_fetched for one in fetched),
        seconds=time.monotonic() - start,
    )


def _run(  # noqa: PLR0913  (where, what, how, and where it is shown)
    server: Server, workspace: Workspace, plan: Plan, chosen: Sequence[Variant], options: Options, output: Output
) -> tuple[Completed, list[CellSteps], list[CellStep]]:
    """Let Bazel build variants; what came of it, and the steps of each."""
    names = [variant.name for variant in chosen]
    with tempfile.TemporaryDirectory(prefix="driver-") as name, reachable(options.remote) as remote:
        log = Path(name, "spawns.bin")
        args = ["build", "--output_groups=+steps", "--build_event_publish_all_actions"]
        args += [*log_options(log), "--experimental_convenience_symlinks=ignore"]
        args += [f"--disk_cache={cache_root() / _ACTIONS}", f"--experimental_disk_cache_gc_max_size={_ACTIONS_SIZE}"]
        args += limits(options, server.running)
        args += bazel_options(remote, Path(name))
        args += [] if remote.executor else isolation(output)
        args += settings(options)
        args += [workspace.label(variant) for variant in names]
        environment = {PYTHON_VARIABLE: os.environ.get(PYTHON_VARIABLE, sys.executable)}
        title = f"building {plan.name}"
        done = run_bazel(server.bazel, args, workspace.root, output, env=environment, title=title)
        server.built_in(done.events.exec_root)
        return done, *cells_of(done.events, names, log, calls=options.report is not None)


def limits(options: Options, running: int) -> list[str]:
    """What Bazel is told about how much to do at once.

    Args:
        options: of the build.
        running: builds that share the machine.
    """
    count = options.jobs or (REMOTE_JOBS if options.remote.executor else None)
    jobs = [f"--jobs={count}"] if count else []
    return [*jobs, f"--local_resources=memory={step_memory(options.ram, running)}"]


def settings(options: Options) -> list[str]:
    """What Bazel is told of the settings of a build."""
    return [f"--@{MODULE_NAME}//rules/settings:{name}={value}" for name, value in options.settings.items()]


def _expected(directory: Path, plan: Plan, chosen: Sequence[Variant], options: Options) -> list[Step]:
    """The compile steps that a build will need."""
    matrix = read_matrix()
    chosen_settings = Settings(
        split=options.settings.get("cuda_compile", "split") == "split",
        whole=unsplit(chosen),
        ptx_sharing=options.settings.get("ptx_sharing", "off"),
        standards={torch.version: torch.cxx_standard for torch in matrix.torch},
        toolchains=toolchain_digests(),
        rules=rules_digest(),
    )
    return expected_steps(plan, chosen, {name: (directory / name).read_bytes() for name in plan.files}, chosen_settings)


def unsplit(chosen: Iterable[Variant]) -> tuple[str, ...]:
    """The CUDA releases of variants that are declared only: nobody has looked at the phases of their nvcc."""
    asked = {variant.needs.backend for variant in chosen}
    return tuple(one.version for one in read_matrix().cuda if one.backend in asked and not one.run_here)


def _check_report(page: Path) -> None:
    """Make the directory of a report, and refuse a place that cannot hold one, before anything is built."""
    facts = page.with_suffix(".json")
    for path in (page, facts):
        if is_directory(path):
            raise error(Code.FOREIGN_FILE, f"{path} is a directory", help="choose another name for the report")
    if is_file(facts) and not is_file(page):
        message = f"{facts} exists, and {page} does not: it may be no report"
        raise error(Code.FOREIGN_FILE, message, help="move it away, or choose another name for the report")
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise error(Code.PERMISSION, f"cannot make {page.parent}: {problem.strerror}") from None
    if not os.access(page.parent, os.W_OK | os.X_OK):
        raise error(Code.PERMISSION, f"cannot write {page}: its directory is not writable")


def _write_report(  # noqa: PLR0913  (what a report is made of, where it goes, and what says so)
    page: Path, name: str, cells: Sequence[CellSteps], steps: Sequence[CellStep], earlier: Calls, output: Output
) -> None:
    """Write a page, and the same as JSON beside it."""
    from py_driver.building.report import as_html, as_json, make_report  # noqa: PLC0415  (few builds need it)

    made = make_report(name, cells, steps, _action_output, earlier)
    facts = page.with_suffix(".json")
    write(page, as_html(made, resource("report.html.j2")).encode())
    write(facts, f"{json.dumps(as_json(made), indent=2)}\n".encode())
    output.say(f"wrote {printable(str(page))} and {printable(str(facts))}")


def _action_output(digest: str) -> bytes | None:
    """The content of a file that an action made, by its SHA-256; None if it is not kept."""
    try:
        return (cache_root() / _ACTIONS / "cas" / digest[:2] / digest).read_bytes()
    except OSError:
        return None


def archives(plan: Plan, chosen: Sequence[Variant]) -> list[Entry]:
    """The archives that variants are built from."""
    linked = {name for variant in chosen for name in variant.groups}
    depends = [name for group in plan.groups if group.name in linked for name in group.depends]
    return [*entries_for(variant.needs for variant in chosen), *library_entries(depends)]


def _kilobytes(size: int) -> str:
    return f"{size / 1000:.1f} kB"


def report(done: Build, output: Output) -> None:
    """Print the table of a build: for each cell its size, GPU architectures, and what its compile steps did."""
    rows = [
        [
            cell.variant.name,
            _kilobytes(cell.size),
            " ".join(sorted(cell.variant.archs or (), key=order)) or "-",
            str(cell.steps.run),
            str(cell.steps.shared),
            str(cell.steps.cached),
            f"{cell.steps.seconds:.1f}",
        ]
        for cell in done.cells
    ]
    counts = [str(sum(int(row[column]) for row in rows)) for column in (3, 4, 5)]
    spent = f"{sum(cell.steps.seconds for cell in done.cells):.1f}"
    rows.append(["total", _kilobytes(sum(cell.size for cell in done.cells)), "", *counts, spent])
    header = ["variant", "size", "GPU archs", "run", "shared", "cached", "seconds"]
    output.table(header, rows, right=(1, 3, 4, 5, 6))
    output.say(f"{len(done.cells)} variants in {done.seconds:.1f} s; {done.bytes_fetched / 1e6:.1f} MB fetched")


def as_json(done: Build) -> Mapping[str, object]:
    """A build as a value for JSON."""
    return {
        "name": done.plan.name,
        "seconds": round(done.seconds, 3),
        "bytes-fetched": done.bytes_fetched,
        "plan": {
            "run": done.forecast.run,
            "shared": done.forecast.shared,
            "cached": done.forecast.cached,
            "seconds": round(done.forecast.seconds, 1),
            "memory-mb": done.forecast.memory,
            "measured": done.forecast.measured,
        },
        "variants": [
            {
                "variant": cell.variant.name,
                "path": str(cell.path),
                "size": cell.size,
                "archs": list(cell.variant.archs or ()),
                "steps": {"run": cell.steps.run, "shared": cell.steps.shared, "cached": cell.steps.cached},
                "seconds": round(cell.steps.seconds, 3),
            }
            for cell in done.cells
        ],
    }
