"""The one error type of the driver: every failure that a user can meet is a DriverError.

The exit code of a run follows from the class of its errors:

== =========== ==========================================================
0  OK          done
1  DIFFERENCE  a check found a difference (`driver gen --check`, `driver verify`)
2  INPUT       the command line, build.toml or the project's files are wrong
3  SELECTION   nothing to do: no variant matches
4  ENVIRONMENT the machine lacks something: network, disk space, Bazel
5  BUILD       a compile, link or assembly action failed
6  LOAD        a built variant did not load or gave wrong results
130 INTERRUPT  Ctrl-C, SIGTERM or SIGHUP
== =========== ==========================================================
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class ExitCode(IntEnum):
    """What a run of the driver answers to the shell; see the module's table."""

    OK = 0
    DIFFERENCE = 1
    INPUT = 2
    SELECTION = 3
    ENVIRONMENT = 4
    BUILD = 5
    LOAD = 6
    INTERRUPT = 130


class Code(Enum):
    """Every error the driver reports: its number, and the class that gives the exit code."""

    # build.toml as text and as a table
    TOML_SYNTAX = ("E001", ExitCode.INPUT)
    TOML_LIMIT = ("E002", ExitCode.INPUT)
    UNKNOWN_KEY = ("E003", ExitCode.INPUT)
    MISSING_KEY = ("E004", ExitCode.INPUT)
    WRONG_TYPE = ("E005", ExitCode.INPUT)
    BAD_VALUE = ("E006", ExitCode.INPUT)
    BAD_NAME = ("E007", ExitCode.INPUT)
    UNSUPPORTED = ("E008", ExitCode.INPUT)
    EDITION = ("E009", ExitCode.INPUT)
    BAD_FLAG = ("E010", ExitCode.INPUT)
    UNKNOWN_ARCH = ("E011", ExitCode.INPUT)
    # the files of a project
    FILE_MISSING = ("E101", ExitCode.INPUT)
    PATH_ESCAPES = ("E102", ExitCode.INPUT)
    FILE_KIND = ("E103", ExitCode.INPUT)
    DUPLICATE_FILE = ("E104", ExitCode.INPUT)
    NO_MANIFEST = ("E105", ExitCode.INPUT)
    STALE_BUILD_FILE = ("E106", ExitCode.DIFFERENCE)
    FOREIGN_FILE = ("E107", ExitCode.INPUT)
    UNLISTED_HEADER = ("E108", ExitCode.INPUT)
    TORCH_NOT_DECLARED = ("E109", ExitCode.INPUT)
    OP_NAMESPACE = ("E110", ExitCode.INPUT)
    OP_REGISTRATION = ("E111", ExitCode.INPUT)
    # what to build
    USAGE = ("E200", ExitCode.INPUT)
    NO_SUCH_VARIANT = ("E201", ExitCode.SELECTION)
    NO_VARIANTS = ("E202", ExitCode.SELECTION)
    EMPTY_ARCHS = ("E203", ExitCode.INPUT)
    ARCH_DROPPED = ("E204", ExitCode.INPUT)
    STALE_LOCK = ("E205", ExitCode.DIFFERENCE)
    SETUP_FAILED = ("E206", ExitCode.INPUT)
    # the machine
    NO_NETWORK = ("E301", ExitCode.ENVIRONMENT)
    NOT_FOUND_UPSTREAM = ("E302", ExitCode.ENVIRONMENT)
    BAD_DIGEST = ("E303", ExitCode.ENVIRONMENT)
    NO_SPACE = ("E304", ExitCode.ENVIRONMENT)
    NO_BAZEL = ("E305", ExitCode.ENVIRONMENT)
    NOT_DEBIAN = ("E306", ExitCode.ENVIRONMENT)
    PLATFORM = ("E307", ExitCode.ENVIRONMENT)
    SET_UP = ("E308", ExitCode.ENVIRONMENT)
    PERMISSION = ("E309", ExitCode.ENVIRONMENT)
    HUB_REFUSED = ("E310", ExitCode.ENVIRONMENT)
    CACHE_BUSY = ("E311", ExitCode.ENVIRONMENT)
    # the build and what it made
    BUILD_FAILED = ("E401", ExitCode.BUILD)
    NOT_COMPLIANT = ("E402", ExitCode.BUILD)
    NOT_REPRODUCED = ("E403", ExitCode.DIFFERENCE)
    CHANGED_BUILD = ("E404", ExitCode.INPUT)
    DIRTY_TREE = ("E405", ExitCode.INPUT)
    NOT_CONFIRMED = ("E406", ExitCode.DIFFERENCE)
    LOAD_FAILED = ("E501", ExitCode.LOAD)
    INTERRUPTED = ("E900", ExitCode.INTERRUPT)

    def __init__(self, number: str, exit_code: ExitCode) -> None:
        self.number = number
        self.exit_code = exit_code


class Span(NamedTuple):
    """A place in a text file.

    Attributes:
        file: path as the user knows it.
        line: 1-based line number.
        column: 1-based column, in characters.
        length: characters to underline; at least 1.
        text: the whole line, without its line break.
    """

    file: str
    line: int
    column: int
    length: int = 1
    text: str = ""


class Note(NamedTuple):
    """Something that the author of a build.toml should know and that is no error, e.g. a backend that is not built.

    Attributes:
        message: what it is, in one line.
        span: where.
        code: the error that it is with `driver check --strict`, if it is one: upstream's builder takes it.
    """

    message: str
    span: Span
    code: Code | None = None

    def __str__(self) -> str:
        return f"{self.span.file}:{self.span.line}:{self.span.column}: {self.message}"

    def as_json(self) -> dict[str, str | int]:
        """The note as a value for JSON."""
        span = self.span
        return {"file": span.file, "line": span.line, "column": span.column, "message": self.message}


class Diagnostic(NamedTuple):
    """One thing that is wrong.

    Attributes:
        code: which error.
        message: what is wrong, in one line.
        span: where, if it is in a file.
        label: what to write beside the caret, e.g. a did-you-mean.
        help: what to do about it.
        text: what a compiler printed of it, which is shown instead of all this.
        variants: in which a compiler said it.
    """

    code: Code
    message: str
    span: Span | None = None
    label: str = ""
    help: str = ""
    text: str = ""
    variants: tuple[str, ...] = ()


class DriverError(Exception):
    """Raised for everything that a user can meet; carries one or more diagnostics.

    Attributes:
        diagnostics: what is wrong, in the order of the file.
        exit_code: of the first diagnostic.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        self.exit_code = self.diagnostics[0].code.exit_code
        super().__init__("; ".join(d.message for d in self.diagnostics))


def as_json(diagnostic: Diagnostic) -> dict[str, Any]:
    """A diagnostic as a value for JSON.

    Without a place it has no `file`, `line`, `column` and `length`. What a compiler said has its text and the variants;
    `line` and `column` are 0 where it told none.
    """
    span = diagnostic.span
    location: dict[str, Any] = {}
    if span is not None:
        location = {"file": span.file, "line": span.line, "column": span.column, "length": span.length}
    if diagnostic.text:
        location |= {"text": diagnostic.text, "variants": list(diagnostic.variants)}
    return {
        "code": diagnostic.code.number,
        "name": diagnostic.code.name.lower().replace("_", "-"),
        "message": diagnostic.message,
        **location,
        "label": diagnostic.label,
        "help": diagnostic.help,
    }


def error(code: Code, message: str, *, help: str = "") -> DriverError:  # noqa: A002  (the field's own name)
    """A DriverError of one diagnostic that has no place in a file."""
    return DriverError([Diagnostic(code=code, message=message, help=help)])
