"""Builds and measures the configurations of a kernel, and records each, even if it is interrupted."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from py_driver.authoring.benchmark import scripts_of
from py_driver.authoring.ceilings import gpu_facts
from py_driver.authoring.dev_build import dev_build
from py_driver.authoring.local_builds import dev_builds, local, python_for
from py_driver.building.variant_dir import DEV
from py_driver.errors import Code, DriverError, error
from py_driver.plan.overrides import with_configurations
from py_driver.plan.plan import plan_directory
from py_driver.system.files import reading, write
from py_driver.tuning.picture import picture
from py_driver.tuning.records import Record, Records, file_of, read_records, write_records
from py_driver.tuning.space import read_space, spaces_of
from py_driver.tuning.worker import measure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from py_driver.authoring.dev_build import DevBuild
    from py_driver.authoring.local_builds import Local
    from py_driver.authoring.machine import Machine
    from py_driver.bazel.invocation import Choices
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Variant
    from py_driver.tuning.space import Configuration, Space
    from py_driver.tuning.worker import Pair

_PLACE: Final = "tuning"
"""The directory beside the builds for this machine."""

_TOGETHER: Final = 48
"""The number of configurations that are loaded into a process, and take turns there."""

_TOGETHER_IN_TIME: Final = 8
"""The same, if the time is limited."""

_CPU: Final = "cpu"


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuned:
    """The result of tuning.

    Attributes:
        records: all records.
        file: the file of the records.
        built: the number of configurations that were built.
        actions: the number of actions that ran for them.
        skipped: the number of configurations that were skipped for lack of time.
    """

    records: Records
    file: Path
    built: int
    actions: int
    skipped: int


def digest(directory: Path, releases: Releases, space: Space) -> str:
    """The identity of what is tuned: a digest of the sources without tuning headers, and of the benchmarks.

    Args:
        directory: the project's directory.
        releases: the releases to plan for.
        space: the tuning space.

    Raises:
        DriverError: the errors of the project; USAGE if it has no such section; FILE_MISSING or PERMISSION if a
            benchmark cannot be read.
    """
    plan = plan_directory(directory, releases)
    if space.section and space.section not in {group.name for group in plan.groups}:
        message = f"tuning/{space.name}.toml tunes [kernel.{space.section}], which build.toml does not have"
        raise error(Code.USAGE, message)
    state = hashlib.sha256(f"{space.section}\0{space.workload}\0".encode())
    scripts = [path.relative_to(directory.absolute()).as_posix() for path in scripts_of(directory)]
    headers, configs = _written(directory)
    files = [file for file in sorted(plan.files - headers) if str(PurePosixPath(file).parent) not in configs]
    for name in ("build.toml", *files, *scripts):
        with reading(directory / name):
            content = (directory / name).read_bytes()
        state.update(f"{name}\0".encode() + hashlib.sha256(content).digest())
    return state.hexdigest()[:12]


def stale_records(directory: Path, releases: Releases) -> list[Path]:
    """The records of a project for other sources than the current ones; invalid spaces and records are skipped.

    Args:
        directory: the project's directory.
        releases: the releases to plan for.
    """
    found = []
    for name, path in spaces_of(directory).items():
        with suppress(DriverError):
            space = read_space(path)
            files = sorted(path.parent.glob(f"{name}.*.json"))
            now = digest(directory, releases, space) if files else ""
            for file in files:
                with suppress(DriverError):
                    records = read_records(file, space)
                    if records is not None and records.sources != now:
                        found.append(file)
    return found


def _written(directory: Path) -> tuple[set[str], set[str]]:
    """The headers and directories of JSON files that the spaces of a project write; an invalid space has none."""
    headers, configs = set[str](), set[str]()
    for path in spaces_of(directory).values():
        with suppress(DriverError):
            space = read_space(path)
            headers.add(space.header)
            configs.add(space.configs)
    return headers, configs - {""}


def _is_over(end: float | None) -> bool:
    return end is not None and time.monotonic() > end


def _about(variant: Variant, python: str) -> dict[str, Any]:
    """The facts about the machine for conditions and the name of the file."""
    if variant.configuration.family == _CPU:
        return {"gpu": _CPU, "variant": variant.name, "capability": 0, "smem": 0, "sms": 0}
    facts = gpu_facts(python)
    return {
        "gpu": facts["gpu"],
        "variant": variant.name,
        "capability": facts["capability"],
        "smem": facts["shared_bytes"],
        "sms": facts["multiprocessors"],
    }


@dataclass(kw_only=True, slots=True)
class Tuner:
    """Tunes a space of a project on this machine.

    Attributes:
        directory: the project's directory.
        space: the tuning space.
        machine: the machine, which determines the variant.
        releases: the releases to build for.
        choices: the options of the build.
        output: shows progress.
    """

    directory: Path
    space: Space
    machine: Machine
    releases: Releases
    choices: Choices
    output: Output
    _actions: int = field(default=0, init=False)

    def run(self, seconds: float | None) -> Tuned:
        """Build and measure everything without a record.

        Args:
            seconds: the time after which nothing more is started; configurations are then in random order, the default
                first.

        Raises:
            DriverError: an error that prevents building or measuring all configurations.
        """
        directory = self.directory / DEV / _PLACE
        for old in directory.iterdir() if directory.is_dir() else ():
            if not Path("/proc", old.name).exists():
                shutil.rmtree(old, ignore_errors=True)
        try:
            return self._run(seconds)
        finally:
            shutil.rmtree(directory / str(os.getpid()), ignore_errors=True)

    def _run(self, seconds: float | None) -> Tuned:
        """See `run`; the builds have a directory of this process, which is removed afterwards."""
        start = time.monotonic()
        sources = digest(self.directory, self.releases, self.space)
        scripts = scripts_of(self.directory)
        here = local(self.directory, self.machine, self.releases)
        if self.space.section and self.space.section not in here.variant.groups:
            message = f"{here.variant.name} has no code of [kernel.{self.space.section}]"
            raise error(Code.USAGE, message, help="tune it on a machine with a GPU of that backend, usable by torch")
        python = python_for(here, self.machine, self.releases, self.output)
        about = _about(here.variant, python)
        file = file_of(self.directory, self.space, str(about["gpu"]))
        records = read_records(file, self.space)
        if records is None or (records.sources, records.machine.get("variant")) != (sources, about["variant"]):
            if records is not None:
                self.output.say(f"note: {file} has other sources or another torch; measuring everything again")
            records = Records(machine=about, sources=sources)
        todo = self._todo(records, seconds)
        built = tried = 0
        end = None if seconds is None else start + seconds
        together = _TOGETHER_IN_TIME if seconds is not None else _TOGETHER
        with self.output.task(f"tuning {self.space.name}") as task:
            # Something is measured however short the time is.
            while tried < len(todo) and not (tried and _is_over(end)):
                batch = todo[tried : tried + together]
                task.update(f"building {tried + 1} to {tried + len(batch)} of {len(todo)} configurations")
                builds = self._build(here, batch, records)
                if digest(self.directory, self.releases, self.space) != sources:
                    message = "the sources have changed while they were tuned"
                    raise error(Code.FOREIGN_FILE, message, help="run the command again")
                tried += len(batch)
                built += len(builds)
                task.update(f"measuring {len(builds)} of {len(todo)} configurations on {len(self.space.cases)} cases")
                self._measure(builds, records, scripts, python, file)
            task.done(f"{tried} configurations")
        skipped = len(todo) - tried
        write_records(file, records, self.space)
        write(file.with_suffix(".svg"), picture(self.space, records).encode())
        return Tuned(records=records, file=file, built=built, actions=self._actions, skipped=skipped)

    def _todo(self, records: Records, seconds: float | None) -> list[Configuration]:
        """The configurations without a record; configurations that a condition excludes get one here."""
        facts = {name: int(records.machine[name]) for name in ("capability", "smem", "sms")}
        todo = []
        for configuration in self.space.configurations:
            for case in self.space.cases:
                if (configuration, case) not in records.found and (
                    text := self.space.violated(configuration, case, facts)
                ):
                    records.found[configuration, case] = Record(outcome="constraints", reason=text)
            if any((configuration, case) not in records.found for case in self.space.cases):
                todo.append(configuration)
        if seconds is not None and todo:
            head, tail = ([todo[0]], todo[1:]) if todo[0] == self.space.default else ([], todo)
            random.Random(0).shuffle(tail)  # noqa: S311  (no secret)
            todo = [*head, *tail]
        return todo

    def _build(self, here: Local, batch: Sequence[Configuration], records: Records) -> dict[Configuration, DevBuild]:
        """Build configurations in one call of Bazel; a compile error becomes the configuration's record.

        One build serves all configurations that are not compiled.
        """
        into = f"{_PLACE}/{os.getpid()}"
        if not self.space.section:
            build = dev_build(self.directory, self.machine, self.releases, self.output, self.choices, into=into)
            self._actions += build.ran
            return dict.fromkeys(batch, build)
        named = {"-".join(map(str, configuration)): configuration for configuration in batch}
        flags = {name: self.space.flags(configuration) for name, configuration in named.items()}
        plan = with_configurations(here.plan, here.variant, self.space.section, flags)
        done = dev_builds(replace(here, plan=plan), self.releases, self.output, self.choices, into=into)
        self._actions += done.actions
        builds = {}
        for name, configuration in named.items():
            result = done.results[name]
            if not isinstance(result, DriverError):
                builds[configuration] = result
                continue
            [first, *_] = result.diagnostics
            if first.code not in {Code.BUILD_FAILED, Code.NOT_COMPLIANT} or configuration == self.space.default:
                raise result
            for case in self.space.cases:
                records.found.setdefault((configuration, case), Record(outcome="compile", reason=first.message))
        return builds

    def _measure(
        self,
        builds: Mapping[Configuration, DevBuild],
        records: Records,
        scripts: Sequence[Path],
        python: str,
        file: Path,
    ) -> None:
        """Measure the builds; each record is written immediately."""
        numbers, cases = [*builds], self.space.cases
        todo = [*self._pairs(numbers, records)]
        if not todo:
            return
        left = {case: sum(at == case for _, at in todo) for case in range(len(cases))}

        def take(pair: Pair, record: Record, machine: Mapping[str, Any]) -> None:
            records.found[numbers[pair[0]], cases[pair[1]]] = record
            records.machine.update({**machine, "gpu": records.machine["gpu"]})
            left[pair[1]] -= 1
            if not left[pair[1]]:
                write_records(file, records, self.space)

        measure(self.space, builds, todo, scripts, python, take)

    def _pairs(self, numbers: Sequence[Configuration], records: Records) -> Iterator[Pair]:
        for at, case in enumerate(self.space.cases):
            for number, configuration in enumerate(numbers):
                if (configuration, case) not in records.found:
                    yield number, at
