"""Recordings of a project for configurations: its build runs once, confined, and its compilations are recorded."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import sysconfig
import zipfile
from contextlib import suppress
from dataclasses import dataclass, replace
from email.parser import HeaderParser
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py_driver.errors import Code, error
from py_driver.fetch.wheel_members import BROKEN_ZIP
from py_driver.matrix.configurations import spell
from py_driver.recording import cmake, project_copy, sandbox, stand_ins, variables
from py_driver.recording.build_requirements import chosen, installed, normalized
from py_driver.recording.build_system import read_build_system
from py_driver.recording.facts import facts
from py_driver.recording.failures import Failures
from py_driver.recording.generated_script import SCRIPT, reads_itself_alone
from py_driver.recording.paths import Paths
from py_driver.recording.record import FORMAT, RECORD, TREE, WHEEL, Record, read_record
from py_driver.recording.recorded_modules import modules_of
from py_driver.resources import resource, resources_below
from py_driver.system.cache import cache_root, storage_errors
from py_driver.system.files import sha256
from py_driver.system.locks import locked
from py_driver.system.scratch import scratch, settle, sweep

if TYPE_CHECKING:
    from py_driver.matrix.configurations import Configuration
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.recording.build_system import BuildSystem
    from py_driver.recording.stand_ins import Torch

RECORDINGS: Final = "recordings"
"""The directory of the cache."""

_ATTEMPTS: Final = 16
"""How often a build may request another package."""

_ROCM_ARCHS: Final = ("PYTORCH_ROCM_ARCH", "HIP_ARCHITECTURES", "GPU_ARCHS")
"""The variables for AMD architectures: torch's own, and those of causal-conv1d and flash-attn."""

_EPOCH: Final = "315532800"
"""1980-01-01: the earliest time in a zip archive."""

_METADATA: Final = re.compile(r"[^/]+\.dist-info/METADATA")
_SCRATCH: Final = re.compile(r"(?<=/tmp/tmp)\w{8}")
"""The random part of a name by tempfile, which differs each time."""

_JOBS: Final = "4"
_RESULT: Final = "result.json"
_JOB: Final = "job.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """A recorded project.

    Attributes:
        record: the record of its build.
        directory: the directory in the cache: `RECORD`, and the directories `WHEEL` and `TREE`.
    """

    record: Record
    directory: Path

    @property
    def tree(self) -> Path:
        """The directory of the files that the run created or changed."""
        return self.directory / TREE

    @property
    def wheel(self) -> Path:
        """The wheel of the Python part, with an empty file for each library."""
        return self.directory / WHEEL / self.record.wheel


def record_project(  # noqa: PLR0913  (a recording depends on them all)
    directory: Path,
    configuration: Configuration,
    arch_list: str,
    releases: Releases,
    output: Output,
    *,
    limits: dict[str, int] | None = None,
) -> Recorded:
    """Record a project for a configuration, or return its recording from the cache if nothing has changed.

    Args:
        directory: the directory of the project.
        configuration: the configuration of a torch release, with its backend, ABI and CPU.
        arch_list: the GPU architectures, in the form of TORCH_CUDA_ARCH_LIST; empty for the CPU.
        releases: the matrix and the lock.
        output: where progress is shown.
        limits: limits of the run; those of recording.toml if None.

    Raises:
        DriverError: SETUP_FAILED if its build fails; UNSUPPORTED if it is not built by setuptools;
            FILE_MISSING if a source does not exist; see `read_build_system`, `entries`, `installed` and `sandbox.run`.
    """
    run = _Run(directory, configuration, arch_list, releases, limits)
    root = cache_root() / RECORDINGS
    target = root / run.key
    with storage_errors(target):
        root.mkdir(parents=True, exist_ok=True)
        if not (target / RECORD).is_file():
            with locked(root / f"{run.key}.lock"):
                if not (target / RECORD).is_file():
                    sweep(root)
                    run.into(target, output)
    with suppress(OSError):  # a cache that is read-only
        (target / RECORD).touch()
    return Recorded(record=read_record(target / RECORD), directory=target)


@cache
def _version() -> str:
    """The digest of the inputs of a recording besides the project: the recorder, and the interpreter."""
    names = [*(f"stand_in/{name}" for name in resources_below("stand_in")), "recording.toml"]
    own = sorted(Path(__file__).parent.glob("*.py"))
    texts = [*(resource(name) for name in names), *(path.read_text(encoding="utf-8") for path in own), sys.version]
    return sha256("\0".join(texts).encode())


class _Run:
    """A project and a configuration for which its build runs.

    Attributes:
        key: the name of its recording in the cache.
        shown: the project's directory, as on the command line.
    """

    def __init__(
        self,
        directory: Path,
        configuration: Configuration,
        arch_list: str,
        releases: Releases,
        limits: dict[str, int] | None,
    ) -> None:
        self.shown = str(directory)
        self._directory = directory.resolve()
        self._configuration = configuration
        self._torch: Torch = stand_ins.torch_of(configuration, arch_list, releases)
        self._limits: dict[str, int] = limits or facts()["limits"]
        self._system: BuildSystem = read_build_system(self._directory)
        self._entries = project_copy.entries(self._directory)
        self._passed = variables.passed(self._directory, self._system.requires)
        self._named = {**variables.forced(self._directory), **self._passed}
        facts_of_run = [
            FORMAT,
            _version(),
            self._digest(),
            spell(configuration),
            repr(self._torch),
            repr(self._system),
            chosen(self._system.requires),
            sorted(self._named.items()),
            variables.day(self._directory),
            sandbox.isolation(),
        ]
        self.key = sha256(json.dumps(facts_of_run).encode())[:24]

    def _digest(self) -> str:
        """The digest of a build's inputs in the project."""
        if not reads_itself_alone(self._entries):
            return project_copy.digest(self._entries)
        scripts = [entry for entry in self._entries if entry.path == SCRIPT]
        return json.dumps([project_copy.digest(scripts), [entry.path for entry in self._entries]])

    def into(self, target: Path, output: Output) -> None:
        """Run the build until it has all requested packages, and move the recording to its place.

        Raises:
            DriverError: see `record_project`.
        """
        requirements = chosen(self._system.requires)
        if self._passed:
            seen = ", ".join(f"{name}={value}" for name, value in self._passed.items())
            output.say(f"note: the build of {self.shown} reads these variables of your environment: {seen}")
        for _ in range(_ATTEMPTS):
            packages, versions = installed(requirements, output)
            title = f"recording {self.shown} for {spell(self._configuration)}"
            with scratch(target.parent) as here, output.task(title) as task:
                wants = self._attempt(here, packages, versions)
                task.done(f"needs {', '.join(wants)}" if wants else "done")
                if not wants:
                    settle(here / "recording", target)
                    return
                requirements = tuple(sorted({*requirements, *wants}))
        message = f"the build of {self.shown} keeps requesting packages: {', '.join(requirements)}"
        raise error(Code.SETUP_FAILED, message, help="list what it needs in `requires` of [build-system]")

    def _attempt(self, here: Path, packages: Path, versions: tuple[str, ...]) -> list[str]:
        """Run the build once.

        Returns:
            The missing requirements; empty if the build is recorded.
        """
        base = sandbox.inside(here)
        project, out = here / stand_ins.PROJECT, here / stand_ins.OUT
        project_copy.copy(self._entries, project)
        before = project_copy.states(project)
        compiles = cmake.is_there(packages)
        stand_ins.write(here, base, self._torch, compiles=compiles)
        if compiles:
            cmake.write(here, base, self._torch, self._configuration.cpu or "")
        (out / WHEEL).mkdir(parents=True)
        job = {
            "project": f"{base}/{stand_ins.PROJECT}",
            "result": f"{base}/{stand_ins.OUT}/{_RESULT}",
            "wheel": f"{base}/{stand_ins.OUT}/{WHEEL}",
            "backend": self._system.backend,
            "backend_path": self._system.backend_path,
            "cpu": self._configuration.cpu,
            "answers": stand_ins.answers(self._torch),
            "never": facts()["requirements"]["never"],
        }
        (here / _JOB).write_text(json.dumps(job), encoding="utf-8")
        shown = {
            name: here / name
            for name in (stand_ins.STAND_IN, stand_ins.TOOLKIT, stand_ins.PROGRAMS, stand_ins.PYTHON, _JOB)
        }
        shown[f"{stand_ins.PYTHON}/{stand_ins.site_packages()}"] = packages
        shown |= {stand_ins.PROJECT: project, stand_ins.OUT: out}
        ended = sandbox.run(
            here,
            shown,
            [f"{base}/{stand_ins.PYTHON}/bin/python", "-P", "-m", "setup_recorder", f"{base}/{_JOB}"],
            {**self._environment(base), **(cmake.environment(base, self._torch, _JOBS) if compiles else {})},
            writable=(stand_ins.PROJECT, stand_ins.OUT),
            limits=self._limits,
        )
        failures = Failures(project, self.shown, self._limits, f"{base}/{stand_ins.PROJECT}")
        result = _read_result(out / _RESULT)
        if result is None or ended.how != "exit":
            raise failures.of_end(ended)
        try:
            if wants := self._wants(result, versions):
                return wants
            if "failure" in result:
                raise failures.of_result(result, ended.output)
        except (LookupError, TypeError, ValueError, AttributeError):
            raise failures.of_forgery() from None
        if "wheel" not in result:
            raise failures.of_end(ended)
        if (out / WHEEL).is_symlink():
            raise failures.of_forgery()
        paths = Paths(base, packages, self._configuration.family)
        try:
            modules = modules_of(result["modules"], project, self.shown, paths)
            asked = [note for note in result["asked"] if not (compiles and note["program"] in cmake.programs())]
            record = self._record(out / WHEEL, result, replace_base(asked, base))
        except (LookupError, TypeError, ValueError, AttributeError):
            raise failures.of_forgery() from None
        files = [
            name
            for name in project_copy.changed(project, before, self._entries)
            if not (compiles and cmake.is_output(project / name))
        ]
        record = replace(record, modules=modules, files=tuple(files), requirements=versions)
        _check_wheel(out / WHEEL / record.wheel, record)
        _write(here / "recording", record, project, out / WHEEL / record.wheel)
        return []

    def _wants(self, result: dict[str, Any], versions: tuple[str, ...]) -> list[str]:
        """The requirements that a run named, or whose module was missing, without installed ones."""
        known = {version.partition("==")[0] for version in versions}
        needs = [str(need) for need in result.get("needs", [])]
        missing = (result.get("failure") or {}).get("missing") or ""
        if "failure" in result and any(note["program"] == cmake.NAME for note in result["asked"]):
            needs += [need for need in facts()["cmake"]["requirements"] if normalized(need) not in known]
        needs += [
            distribution
            for module, distribution in facts()["modules"].items()
            if missing == module and distribution not in known
        ]
        return needs

    def _environment(self, base: str) -> dict[str, str]:
        """The variables of the run."""
        toolkit = f"{base}/{stand_ins.TOOLKIT}"
        python = f"{base}/{stand_ins.PYTHON}"
        # The last has the programs of build requirements, such as uv_build's.
        programs = [
            f"{base}/{stand_ins.PROGRAMS}",
            f"{python}/bin",
            "/usr/bin",
            "/bin",
            f"{python}/{stand_ins.site_packages()}/bin",
        ]
        found = {
            **self._named,
            "HOME": f"{base}/home",
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "LOGNAME": "builder",
            "MAX_JOBS": _JOBS,
            "PATH": ":".join(programs),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            "PYTHONNOUSERSITE": "1",
            "PYTHONPATH": f"{base}/{stand_ins.STAND_IN}",
            "SOURCE_DATE_EPOCH": _EPOCH,
            "TMPDIR": "/tmp" if base == sandbox.INSIDE else f"{base}/tmp",  # noqa: S108  (its own)
            "USER": "builder",
        }
        if self._torch.cuda:
            names = {"CUDA_HOME": toolkit, "CUDA_PATH": toolkit, "TORCH_CUDA_ARCH_LIST": self._torch.arch_list}
            found |= {**names, "FORCE_CUDA": "1"}
        elif self._torch.hip:
            archs = ";".join(self._torch.archs)
            names = {"ROCM_HOME": toolkit, "ROCM_PATH": toolkit, **dict.fromkeys(_ROCM_ARCHS, archs)}
            found |= {**names, "FORCE_CUDA": "1"}
        cpu, machine = self._configuration.cpu or "", sysconfig.get_platform().rpartition("-")[2]
        if cpu != machine:
            suffix = str(sysconfig.get_config_var("EXT_SUFFIX")).replace(machine, cpu)
            found |= {"_PYTHON_HOST_PLATFORM": f"linux-{cpu}", "SETUPTOOLS_EXT_SUFFIX": suffix}
        return found

    def _record(self, directory: Path, result: dict[str, Any], asked: tuple[str, ...]) -> Record:
        """The record without its modules."""
        wheel = Path(str(result["wheel"])).name
        metadata = _metadata(directory / wheel)
        return Record(
            torch=self._configuration.torch or "",
            backend=self._configuration.backend,
            cxx_abi=self._configuration.abi or "",
            cpu=self._configuration.cpu or "",
            arch_list=(self._torch.cuda and result["arch_list"]) or self._torch.arch_list,
            name=metadata["Name"],
            version=metadata["Version"],
            wheel=wheel,
            modules=(),
            asked=asked,
        )


def replace_base(asked: list[dict[str, Any]], base: str) -> tuple[str, ...]:
    """The requests of a run, for a record: `nvcc -V: CUDA 13.0`; sorted, without paths of this machine."""
    texts = {f"{note['text']}: {note['answer']}".replace(base, sandbox.INSIDE) for note in asked}
    return tuple(sorted({_SCRATCH.sub("", text) for text in texts}))


def _read_result(path: Path) -> dict[str, Any] | None:
    """The result that a run wrote; None if it cannot be read."""
    if path.is_symlink():
        return None
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _metadata(wheel: Path) -> dict[str, str]:
    """The name and the version in a wheel's metadata.

    Raises:
        DriverError: SETUP_FAILED if it is not a wheel.
    """
    try:
        descriptor = os.open(wheel, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as file, zipfile.ZipFile(file) as archive:
            [name] = [name for name in archive.namelist() if _METADATA.fullmatch(name)]
            headers = HeaderParser().parsestr(archive.read(name).decode("utf-8"))
            return {"Name": headers["Name"], "Version": headers["Version"]}
    except (OSError, *BROKEN_ZIP):
        advice = "its `build_wheel` makes something else"
        raise error(Code.SETUP_FAILED, f"the build made no wheel: {wheel.name}", help=advice) from None


def _check_wheel(wheel: Path, record: Record) -> None:
    """Check that each module has a file in the wheel.

    Raises:
        DriverError: SETUP_FAILED.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for module in record.modules:
        if module.file not in names:
            message = f"the library of `{module.name}`, {module.file}, is not in the wheel that the build makes"
            raise error(Code.SETUP_FAILED, message, help="its `build_ext` or `bdist_wheel` puts it elsewhere")


def _write(target: Path, record: Record, project: Path, wheel: Path) -> None:
    """Write a recording."""
    (target / WHEEL).mkdir(parents=True)
    (target / TREE).mkdir()
    shutil.copyfile(wheel, target / WHEEL / wheel.name)
    for name in record.files:
        path = target / TREE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(project / name, path)
    (target / RECORD).write_text(record.as_json(), encoding="utf-8")
