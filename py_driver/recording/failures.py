"""Errors of a setup.py's run for users: what failed, at which line, and what to do."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING, Any, Final

from py_driver.errors import Code, Diagnostic, DriverError
from py_driver.recording import cmake_failures
from py_driver.recording.build_requirements import is_stand_in
from py_driver.recording.build_system import SETUP
from py_driver.recording.facts import facts
from py_driver.recording.recorded_modules import span_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from py_driver.recording.sandbox import Ended

CMAKE_LISTS: Final = "CMakeLists.txt"
_LENGTH: Final = 300
_LACKS: Final = re.compile(r"the stand-in for torch has no `([\w.]+)`")
_IMPORT: Final = re.compile(r"cannot import name '(\w+)' from '(torch[\w.]*)'")
_CONFINED: Final = "a setup.py runs without network, home, GPU and compilers"
_LIMITS: Final = {
    "time": ("has not ended after {seconds} s", "find out what it waits for: it can neither ask nor download"),
    "processes": ("starts more than {processes} processes", "let it start fewer"),
    "memory": ("uses more than {memory_gib} GiB of memory", "let it load less"),
    "disk": ("writes more than {disk_gib} GiB", "let it write less"),
}


class Failures:
    """Errors of the runs of a project.

    Args:
        project: the project's directory after the run.
        shown: the project's directory, as on the command line.
        limits: the limits of the run.
        inside: the project's directory in the run.
    """

    def __init__(self, project: Path, shown: str, limits: Mapping[str, int], inside: str) -> None:
        self._project = project
        self._inside = inside
        self._shown = shown
        self._limits = limits

    def of_end(self, ended: Ended) -> DriverError:
        """The error of a run that ended without a result."""
        if ended.how in _LIMITS:
            text, advice = _LIMITS[ended.how]
            sizes = {"memory_gib": self._limits["memory-bytes"] >> 30, "disk_gib": self._limits["disk-bytes"] >> 30}
            return self._error(Code.SETUP_FAILED, f"{SETUP} {text.format(**self._limits, **sizes)}", None, advice)
        if ended.code < 0:
            name = signal.Signals(-ended.code).name
            return self._error(Code.SETUP_FAILED, f"{SETUP} was ended by {name}", None, _printed(ended.output))
        message = f"{SETUP} ended its process with the exit code {ended.code}, and built no wheel"
        return self._error(Code.SETUP_FAILED, message, None, _printed(ended.output))

    def of_forgery(self) -> DriverError:
        """The error of a result that the recorder did not write."""
        message = f"{SETUP} changed what the recorder wrote about it"
        return self._error(Code.SETUP_FAILED, message, None, "let it write only below the project")

    def of_result(self, result: Mapping[str, Any], output: str) -> DriverError:
        """The error of a run that raised an exception."""
        failure, asked = result["failure"], result["asked"]
        places = failure["places"]
        location = places[-1] if places else None
        message = _line(failure["message"])
        for found in (
            self._missing(failure, location),
            self._lacking(failure, location),
            self._refused(failure, location, message),
            self._cmake(output),
            self._builder(asked, location),
            self._asked(failure, asked, places),
        ):
            if found is not None:
                return found
        script = location[0] if location else SETUP
        if failure["type"] == "EOFError":
            text = f"{script} asks a question, which nobody can answer"
            return self._error(Code.SETUP_FAILED, text, location, "let it read the answer from a variable or a file")
        if failure["exits"]:
            text = f"{script} ends with sys.exit{f': {message}' if message not in {'', 'None'} else ''}"
        elif failure["type"] == "MemoryError":
            text = f"{script} runs out of memory"
        else:
            text = f"{script} raises {failure['type']}{f': {message}' if message else ''}"
        return self._error(Code.SETUP_FAILED, text, location, _printed(output))

    def _missing(self, failure: Mapping[str, Any], location: Sequence[Any] | None) -> DriverError | None:
        name = failure["missing"]
        if not name:
            return None
        script = location[0] if location else "its build"
        if name.startswith("torch.") or is_stand_in(name.partition(".")[0]):
            message = f"{script} imports `{name}`, which a recording does not have"
            return self._error(Code.UNSUPPORTED, message, location, "import it where the package runs")
        message = f"{script} imports `{name}`, which is not installed"
        advice = f"list its distribution in `requires` of [build-system] in {self._shown}/pyproject.toml"
        return self._error(Code.SETUP_FAILED, message, location, advice)

    def _lacking(self, failure: Mapping[str, Any], location: Sequence[Any] | None) -> DriverError | None:
        found = _LACKS.search(failure["message"])
        name = found[1] if found else None
        if name is None and (imported := _IMPORT.search(failure["message"])):
            name = f"{imported[2]}.{imported[1]}"
        if name is None:
            return None
        message = f"{location[0] if location else SETUP} uses `{name}`, which a recording does not have"
        return self._error(Code.UNSUPPORTED, message, location, "report it with the project's name, if torch has it")

    def _refused(self, failure: Mapping[str, Any], location: Sequence[Any] | None, message: str) -> DriverError | None:
        if failure["type"] != "Refused":
            return None
        advice = "write a build.toml for it: see `driver init`"
        return self._error(Code.UNSUPPORTED, message, location, advice)

    def _builder(self, asked: Sequence[Mapping[str, Any]], location: Sequence[Any] | None) -> DriverError | None:
        names = facts()["builders"]["names"]
        found = next((note for note in asked if note["kind"] == "command" and note["program"] in names), None)
        if found is None:
            return None
        where = found["place"] or location
        message = f"{where[0] if where else SETUP} builds with `{found['program']}`, not through setuptools"
        return self._error(Code.UNSUPPORTED, message, where, "write a build.toml for it: see `driver init`")

    def _cmake(self, output: str) -> DriverError | None:
        """The error of a configuration by CMake; None if there is none."""
        found = cmake_failures.fault(output, self._inside)
        if found is None:
            return None
        script = found.file or CMAKE_LISTS
        location = [found.file, found.line] if found.file else None
        if found.fetches:
            advice = "put the files into the project, and name their directory by FETCHCONTENT_SOURCE_DIR_<NAME>"
            message = f"{script} wants {found.message}; builds have no network"
            return self._error(Code.UNSUPPORTED, message, location, advice)
        return self._error(Code.SETUP_FAILED, f"CMake fails in {script}: {_line(found.message)}", location, _CONFINED)

    def _asked(
        self, failure: Mapping[str, Any], asked: Sequence[Mapping[str, Any]], places: Sequence[Any]
    ) -> DriverError | None:
        """The error of a command or download, at a line that the exception went through; None if there is none."""
        for note in reversed(asked):
            if note["place"] not in places or note["answer"] == "":
                continue
            script = note["place"][0]
            if note["kind"] == "address":
                message = f"{script} tries to download {note['text']}; builds have no network"
                advice = "put the file into the project, or set the variable by which it builds without it"
                return self._error(Code.SETUP_FAILED, message, note["place"], advice)
            if failure["type"] in {"FileNotFoundError", "CalledProcessError", "PermissionError"}:
                message = f"{script} runs `{note['text']}`, which fails: {_line(failure['message'])}"
                return self._error(Code.SETUP_FAILED, message, note["place"], _CONFINED)
        return None

    def _error(self, code: Code, message: str, location: Sequence[Any] | None, advice: str) -> DriverError:
        span = span_of(self._project, self._shown, location)
        return DriverError([Diagnostic(code, message, span, help=advice)])


def _line(text: str) -> str:
    """Join the lines of a message into one."""
    line = " ".join(part.strip() for part in text.splitlines() if part.strip())
    return line if len(line) <= _LENGTH else f"{line[:_LENGTH]}..."


def _printed(output: str) -> str:
    """The last line of a run's output."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return f"{_CONFINED}; its last line: {_line(lines[-1])}" if lines else _CONFINED
