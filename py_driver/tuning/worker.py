"""Measures configurations in the Python with torch, and survives its crashes."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py_driver.authoring.session import environment
from py_driver.errors import Code, error
from py_driver.tuning.records import CORRECT, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from py_driver.authoring.dev_build import DevBuild
    from py_driver.tuning.space import Configuration, Space

_WORKER: Final = "rules_torch_kernels.tuning"
_PATIENCE: Final = 120
"""The timeout for the worker's next message, in seconds."""

_LOOK: Final = 0.05

Pair = tuple[int, int]
"""The numbers of a configuration and of a case."""


def measure(  # noqa: PLR0913  (the configurations, the interpreter, and the records)
    space: Space,
    builds: Mapping[Configuration, DevBuild],
    todo: Sequence[Pair],
    scripts: Sequence[Path],
    python: str,
    take: Callable[[Pair, Record, Mapping[str, Any]], None],
) -> None:
    """Measure configurations on cases.

    Args:
        space: the tuning space.
        builds: the built configurations.
        todo: the pairs of configuration and case to measure.
        scripts: the benchmarks.
        python: the interpreter, with torch and the `kernels` client.
        take: gets each record, with the machine.

    Raises:
        DriverError: USAGE if the benchmarks do not have the workload; LOAD_FAILED if nothing can be measured.
    """
    left, machine = [*todo], dict[str, Any]()
    # Cases in which a process crashed or hung while it timed several configurations, which are then timed separately.
    alone: set[int] = set()

    def finish(pair: Pair, record: Record) -> None:
        left.remove(pair)
        take(pair, record, machine)

    while left:
        now = [pair for pair in left if pair[1] not in alone]
        now += [next(pair for pair in left if pair[1] == case) for case in alone & {case for _, case in left}]
        asked = {
            "variants": [
                {**dev_build.as_json(), "config": space.named(config)} for config, dev_build in builds.items()
            ],
            "scripts": [*map(str, scripts)],
            "workload": space.workload,
            "cases": [dict(zip(space.sizes, case, strict=True)) for case in space.cases],
            "todo": [[index for index, at in now if at == number] for number in range(len(space.cases))],
        }
        run = _Run(asked, next(iter(builds.values())), python, space.workload, machine)
        ended = run.through(lambda pair, record: finish(pair, record) if pair in left else None)
        if not ended:
            if any(pair in left for pair in now):
                raise error(Code.LOAD_FAILED, "the configurations cannot be measured: the process skipped some")
            continue
        # The last started pair has crashed or hung the process: all others get another process.
        at = [pair for pair in now if pair in left and run.is_at(pair)]
        if len(at) > 1:
            alone.add(at[0][1])
        for pair in at if len(at) == 1 else ():
            finish(pair, Record(outcome=ended, reason=run.reason))
        if not at:
            raise error(Code.LOAD_FAILED, f"the configurations cannot be measured: {run.reason}")


class _Run:
    """A measuring process."""

    def __init__(
        self, asked: Mapping[str, Any], build: DevBuild, python: str, workload: str, machine: dict[str, Any]
    ) -> None:
        self._asked = asked
        self._made = build
        self._python = python
        self._workload = workload
        self._machine = machine
        self._at: tuple[int | None, int | None] = (None, None)
        self._finished = False
        self.reason = ""

    def is_at(self, pair: Pair) -> bool:
        """Whether a pair is the one that it started last."""
        config, case = self._at
        return case is not None and case == pair[1] and config in {None, pair[0]}

    def through(self, take: Callable[[Pair, Record], None]) -> str:
        """Measure; returns the outcome of the last pair, or an empty text if the process has finished.

        Raises:
            DriverError: USAGE if there is no such workload.
        """
        with tempfile.TemporaryDirectory(prefix="driver-") as scratch:
            results, errors = Path(scratch, "results"), Path(scratch, "stderr")
            results.touch()
            with (
                errors.open("wb") as stderr,
                subprocess.Popen(
                    [self._python, "-m", _WORKER],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    env=environment(self._made, self._python),
                    cwd=self._made.directory,
                ) as process,
            ):
                try:
                    assert process.stdin is not None  # noqa: S101  (it is a pipe)
                    with process.stdin as pipe:
                        pipe.write(json.dumps({**self._asked, "results": str(results)}).encode() + b"\n")
                    is_late = self._follow(process, results, take)
                except BrokenPipeError:
                    is_late = False
                finally:
                    process.kill()
            lines = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        if self._finished:
            return ""
        code = process.returncode
        self.reason = f"no output for {_PATIENCE} s" if is_late else lines[-1] if lines else f"exit code {code}"
        return "timeout" if is_late else "runtime"

    def _follow(self, process: subprocess.Popen[bytes], results: Path, take: Callable[[Pair, Record], None]) -> bool:
        """Pass on messages until the process ends; returns whether it timed out."""
        last = time.monotonic()
        with results.open("rb") as file:
            rest = b""
            while True:
                is_over = process.poll() is not None
                *lines, rest = (rest + file.read()).split(b"\n")
                for line in lines:
                    last = time.monotonic()
                    self._hear(json.loads(line), take)
                if is_over:
                    return False
                if time.monotonic() - last > _PATIENCE:
                    return True
                time.sleep(_LOOK)

    def _hear(self, value: Mapping[str, Any], take: Callable[[Pair, Record], None]) -> None:
        if "unknown" in value:
            advice = "name it as `driver bench` does, e.g. Softmax.softmax"
            raise error(Code.USAGE, f"there is no workload `{value['unknown']}`", help=advice)
        self._machine.update(value.get("machine", {}))
        self._finished = self._finished or "finished" in value
        if "started" in value:
            self._at = (value.get("config"), value["case"])
        if "outcome" in value:
            if value["outcome"] == CORRECT:
                low, high = value["interval_us"]
                times = {"us": value["median_us"], "interval": (low, high), "runs": value["runs"]}
            else:
                times = {}
            take(
                (value["config"], value["case"]),
                Record(outcome=value["outcome"], reason=value.get("reason", ""), **times),
            )
