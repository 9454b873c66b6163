"""All that the driver prints: data to stdout, everything meant for people to stderr."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import threading
import time
import unicodedata
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, NamedTuple

from py_driver.errors import Code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from py_driver.errors import Diagnostic, DriverError, Note, Span

_STYLES = {"bold": "1", "red": "1;31", "yellow": "33", "green": "32", "blue": "1;34", "dim": "2"}
_SEVERITY_STYLES = {"warning": "yellow", "note": "dim", "remark": "blue"}
_COMPILER_HEAD = re.compile(
    r"^((?:[^\s:][^:]*:(?:\d+:){0,2} )?(?:[\w.+-]+: |(?:ptxas|nvcc|nvlink|fatbinary) )?)"
    r"((?:fatal |catastrophic |internal )?error(?:\[E\d+\])?|fatal|warning|note|remark)(\s*: .*)$"
)
_COMPILER_CARET = re.compile(r"^ *(?:\| )? *[~^][~^ ]*$")
_NO_TERMINAL = 80
_NO_LINES = 24
_ECHO = len("^C")
"""Columns that stay free beside a live line, for what a terminal prints when a user types Ctrl-C."""
_LIVE_SECONDS = 0.1
_PLAIN_SECONDS = 10.0
_UPDATE_LENGTH = 100
_CONTEXT = 120
_SAY_ALL = frozenset({Code.USAGE, Code.NO_SUCH_VARIANT, Code.INTERRUPTED})
"""Errors whose help says all that `driver explain` would."""


def open_standard_streams() -> None:
    """Open the null device for each of stdin, stdout and stderr that the caller has closed.

    Else the next file that is opened would take its number, and with it what is printed. What the encoding of stdout
    does not have, as the bytes of some file names, is printed as an escape, as it is on stderr.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _wants_color(stream: IO[str], environ: Mapping[str, str]) -> bool:
    """Whether to colour a stream: NO_COLOR wins over FORCE_COLOR and CLICOLOR_FORCE, these over CLICOLOR and isatty."""
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR") or environ.get("CLICOLOR_FORCE", "0") not in {"", "0"}:
        return True
    return environ.get("CLICOLOR") != "0" and stream.isatty() and environ.get("TERM") != "dumb"


def terminal_width() -> int:
    """How many columns the terminal has; 80 where there is none. COLUMNS wins, as elsewhere."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns or _NO_TERMINAL
    except (OSError, ValueError):
        return _NO_TERMINAL


def printable(text: str) -> str:
    """The text with control and bidirectional characters written as escapes, safe to show in a terminal."""
    return "".join(
        c if c == "\t" or unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} else f"\\u{ord(c):04x}"
        for c in text
    )


def counted(count: int, noun: str) -> str:
    """A number and what there is of it, such as `1 variant`, `0 variants`; the plural of the noun ends in s."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def joined(words: Sequence[str]) -> str:
    """Words as a sentence lists them: `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def _shown(span: Span) -> tuple[str, str, str]:
    """A line before, at and after a span; of a long line what is near."""
    start = span.column - 1
    end = min(start + span.length, start + _CONTEXT)
    first, last = max(0, start - _CONTEXT), min(len(span.text), end + _CONTEXT)
    before = ("..." if first else "") + printable(span.text[first:start]).expandtabs(4)
    after = printable(span.text[end:last]) + ("..." if last < len(span.text) else "")
    return before, printable(span.text[start:end]), after


def _columns(text: str) -> int:
    """How many columns of a terminal a printable text takes: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in {"W", "F"} for c in text)
    return len(text) + wide - sum(unicodedata.category(c) in {"Mn", "Me"} for c in text)


def _in_repository(file: str) -> str:
    """The path of a file from the root of the repository that it is in; in none, as it was given."""
    path = Path(os.path.abspath(file))  # noqa: PTH100  (without `..`, and with links as they are)
    root = next((parent for parent in path.parents if (parent / ".git").exists()), None)
    return path.relative_to(root).as_posix() if root else file


def annotation(
    level: Literal["error", "warning", "notice"], message: str, span: Span | None = None, title: str = ""
) -> str:
    """A line for GitHub Actions, which then shows the message beside the line of the file.

    Args:
        level: how bad it is.
        message: what it is; may have several lines.
        span: where; what is in no file of this machine, as a header of a toolchain, stands before the message.
        title: of the message.
    """
    properties: dict[str, str | int] = {}
    if span is not None and os.path.lexists(span.file):
        properties = {"file": _in_repository(span.file), "line": span.line, "col": span.column}
    elif span is not None:
        message = ":".join(str(part) for part in (span.file, span.line, span.column) if part) + f": {message}"
    # The runner undoes this. A carriage return is no printable character, and `:` and `,` end a property.
    data = "%0A".join(printable(line).replace("%", "%25") for line in message.split("\n"))
    ends = str.maketrans({"%": "%25", ":": "%3A", ",": "%2C"})
    known = {
        name: printable(str(value)).translate(ends) for name, value in {**properties, "title": title}.items() if value
    }
    return f"::{level}{' ' if known else ''}{','.join(f'{name}={value}' for name, value in known.items())}::{data}"


def _annotated(d: Diagnostic) -> str:
    """An error as an annotation."""
    lines = [f"{d.message} ({d.label})" if d.label else d.message, *([f"help: {d.help}"] if d.help else [])]
    lines += [f"in {', '.join(d.variants)}"] if d.variants else []
    return annotation("error", "\n".join(lines), d.span, d.code.number)


def cut(text: str, columns: int) -> str:
    """A printable text that takes at most so many columns of a terminal; one that is cut ends with dots."""
    if _columns(text) <= columns:
        return text
    dots = "..."[: max(columns, 0)]
    while text and _columns(text) + len(dots) > columns:
        text = text[:-1]
    return text + dots


class Size(NamedTuple):
    """What a terminal has room for.

    Attributes:
        columns: of a line.
        lines: of the screen.
    """

    columns: int
    lines: int


class Task:
    """A piece of work whose progress is shown; made by Output.task. Its methods may be called from any thread."""

    def __init__(self, output: Output, title: str) -> None:
        self._output = output
        self._title = title
        self._start = time.monotonic()
        self._shown = 0.0 if output.live else self._start
        self._lock = threading.Lock()
        if not output.live:
            output.say(f"{title} ...")

    def update(self, text: str) -> None:
        """Show how far the work is, e.g. `12 of 90 MB`; shown at most ten times a second (every 10 s when plain)."""
        text = text if len(text) <= _UPDATE_LENGTH else text[: _UPDATE_LENGTH - 3] + "..."
        if self._is_due():
            took = f"[{time.monotonic() - self._start:.0f} s]"
            if self._output.live:
                self._output.line(f"{self._title}: {text}  {took}")
            else:
                self._output.say(f"  {text}  {took}")

    def draw(self, picture: Callable[[Size], Sequence[str]]) -> None:
        """Show how far the work is in lines at the bottom of a terminal, at most ten times a second.

        Args:
            picture: the lines for a terminal with that much room.
        """
        if self._output.live and self._is_due():
            self._output.lines(picture(self._output.room()))

    def _is_due(self) -> bool:
        """Whether it is time to show something again; if so, it is shown now."""
        now = time.monotonic()
        with self._lock:
            if now - self._shown < (_LIVE_SECONDS if self._output.live else _PLAIN_SECONDS):
                return False
            self._shown = now
        return True

    def done(self, text: str) -> None:
        """Say how the work ended."""
        self._output.say(f"{self._title}: {text}  [{time.monotonic() - self._start:.1f} s]")


class Output:
    """Where a run of the driver prints.

    Attributes:
        live: whether stderr has a line that changes.
        annotates: whether errors and notes are also printed to stdout, as annotations for GitHub Actions.

    Args:
        out: stream for data (default: stdout).
        err: stream for people (default: stderr).
        environ: environment to take NO_COLOR, FORCE_COLOR, CLICOLOR_FORCE, CLICOLOR and TERM from.
    """

    def __init__(
        self,
        out: IO[str] | None = None,
        err: IO[str] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        environ = os.environ if environ is None else environ
        self._out = sys.stdout if out is None else out
        self._err = sys.stderr if err is None else err
        self._color = {id(s): _wants_color(s, environ) for s in (self._out, self._err)}
        self.live = self._err.isatty() and environ.get("TERM") != "dumb"
        self.annotates = False
        self._lines: tuple[str, ...] = ()
        self._lock = threading.RLock()

    def _style(self, stream: IO[str], text: str, style: str) -> str:
        return f"\033[{_STYLES[style]}m{text}\033[0m" if self._color[id(stream)] else text

    def data(self, text: str) -> None:
        """Print a line of data to stdout."""
        with self._lock, self._above():
            print(text, file=self._out, flush=True)

    def json(self, value: object) -> None:
        """Print a value to stdout as JSON in ASCII: two spaces of indentation, keys in the order given."""
        self.data(json.dumps(value, indent=2))

    def say(self, text: str, style: str | None = None) -> None:
        """Print a line for people to stderr."""
        with self._lock, self._above(), suppress(OSError):  # nobody can be told that nobody can be told
            print(self._style(self._err, text, style) if style else text, file=self._err, flush=True)

    def line(self, text: str) -> None:
        """Replace the live line at the bottom of a terminal; nothing happens where stderr is none."""
        if self.live:
            self.lines([cut(text, self.room().columns)] if text else [])

    def lines(self, lines: Sequence[str]) -> None:
        """Replace the live lines at the bottom of a terminal; nothing happens where stderr is none.

        The cursor stands behind the last of them, and is never hidden: the terminal is usable whatever ends the driver.
        """
        with self._lock:
            if not self.live or not (lines or self._lines):
                return
            up = len(self._lines) - 1
            start = "\r" + (f"\033[{up}A" if up > 0 else "")
            with suppress(OSError):
                self._err.write(start + "\n".join(f"{line}\033[K" for line in lines) + "\033[J")
                self._err.flush()
            self._lines = tuple(lines)

    def room(self) -> Size:
        """What a live line has room for; a terminal may be resized at any time."""
        try:
            columns, lines = os.get_terminal_size(self._err.fileno())
        except (OSError, ValueError):
            columns, lines = 0, 0
        return Size(max((columns or _NO_TERMINAL) - 1 - _ECHO, 1), lines or _NO_LINES)

    @contextmanager
    def _above(self) -> Iterator[None]:
        """Take the live lines away, and show them again below what is printed meanwhile."""
        lines = self._lines
        self.lines([])
        yield
        self.lines(lines)

    @contextmanager
    def task(self, title: str) -> Iterator[Task]:
        """Show a piece of work; its live line goes away with it."""
        task = Task(self, title)
        try:
            yield task
        finally:
            self.line("")

    def warn(self, text: str) -> None:
        """Print a warning to stderr."""
        self.say(f"{self._style(self._err, 'warning', 'yellow')}: {text}")

    def notes(self, notes: Iterable[Note]) -> None:
        """Print what is worth knowing about a build.toml to stderr."""
        for note in notes:
            self.say(f"{self._style(self._err, 'note', 'yellow')}: {printable(str(note))}")
            if self.annotates:
                self.data(annotation("warning" if note.code else "notice", note.message, note.span))

    def quote(self, text: str) -> None:
        """Print what a compiler said to stderr, with the colours that compilers use."""
        self.say("\n".join(self._compiler_line(printable(line)) for line in text.splitlines()))

    def _compiler_line(self, line: str) -> str:
        """A line of a compiler, coloured by its form."""
        if match := _COMPILER_HEAD.match(line):
            location, word, message = match.groups()
            style = "red" if "error" in word or "fatal" in word else _SEVERITY_STYLES.get(word.split()[0], "blue")
            return self._style(self._err, location, "bold") + self._style(self._err, word, style) + message
        return self._style(self._err, line, "green") if _COMPILER_CARET.match(line) else line

    def fail(self, failure: DriverError) -> None:
        """Print every diagnostic of an error, and how many there are if more than one."""
        for diagnostic in failure.diagnostics:
            if diagnostic.text:
                self.quote(diagnostic.text)
            else:
                self.say(self._render(diagnostic))
            if self.annotates:
                self.data(_annotated(diagnostic))
        if len(failure.diagnostics) > 1 and not failure.diagnostics[0].text:
            self.say(f"{len(failure.diagnostics)} errors")
        codes = dict.fromkeys(
            diagnostic.code.number for diagnostic in failure.diagnostics if diagnostic.code not in _SAY_ALL
        )
        if codes:
            self.say(f"more: {'; '.join(f'`driver explain {code}`' for code in codes)}", "dim")

    def _render(self, d: Diagnostic) -> str:
        head = self._style(self._err, f"error[{d.code.number}]", "red")
        lines = [f"{head}: {printable(d.message)}"]
        margin = ""
        if d.span is not None:
            number = str(d.span.line)
            margin = " " * len(number)
            lines.append(f"{margin}--> {printable(d.span.file)}:{d.span.line}:{d.span.column}")
            before, marked, after = _shown(d.span)
            caret = self._style(self._err, "^" * max(1, _columns(marked)), "red")
            lines += [
                f"{number} | {before}{marked}{after}",
                f"{margin} | {' ' * _columns(before)}{caret}{' ' + printable(d.label) if d.label else ''}",
            ]
        if d.help:
            lines.append(f"{margin} = help: {printable(d.help)}")
        return "\n".join(lines)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
        """Print a table to stdout, columns padded to their widest cell.

        Args:
            header: the names of the columns.
            rows: the cells, one string for each column.
            right: indices of the columns to align to the right.
        """
        widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]

        def line(row: Sequence[str]) -> str:
            cells = (c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
            return "  ".join(cells).rstrip()

        self.data(self._style(self._out, line(header), "bold"))
        for row in rows:
            self.data(line(row))
