"""Parses Bazel's standard error line by line into progress, errors and other lines."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from py_driver.bazel.progress import Progress, Running, picture, seconds_left
from py_driver.bazel.rc import Settings
from py_driver.errors import Code, Diagnostic, Span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from py_driver.output import Output, Task

_PROGRESS = re.compile(r"^\[([\d,]+) / ([\d,]+)\] ?(.*)$")
_CURSOR = re.compile(r"^(?:\r|\x1b\[\d*[AK])+")
_COUNT = re.compile(r"^(\d+) actions?\b")
_RUNNING = re.compile(r"^(?!\[\w+\] )(.+?); (\d+)s(?: |$)")
_QUEUED = re.compile(r"^(?:\[Sched\] (?!.*, [1-9][\d,]* running\))|[\d,]+ actions?, 0 running)")
_STAGE = re.compile(r"^(Computing main repo mapping|Loading|Analyzing|Fetching)\b:? ?(.*)$")
_IDLE = re.compile(r"^(?:checking cached actions|no actions? running|\[for (?:tool|host)\]|\d+ actions?(?:,.*)?)?$")
_BUSY = re.compile(r"^Another command \(pid=(\d+)\) is running")
_TEST = re.compile(r"^(?://|@)\S+ +(?:\(cached\) )?(?:PASSED|FAILED|TIMEOUT|FLAKY|NO STATUS)|^Executed \d+ out of ")
_NOISE = re.compile(
    r"^(?:Starting local Bazel server|Extracting Bazel|Target //|Target @|Use --(?:verbose_failures|sandbox_debug)"
    r"|There were tests whose specified size|\$TEST_TMPDIR|FAILED: ?$|FAILED: Build did NOT"
    r"|ERROR: Skipping '|ERROR: Build did NOT complete successfully|ERROR: Couldn't start the build)",
)
_OWN = re.compile(r"error\[(E\d{3})\]: (.*)$")
_PLACE = re.compile(r"^\s*--> (.+):(\d+):(\d+)$")
_SOURCE = re.compile(r"^\s*\d+ \| (.*)$")
_CARET = re.compile(r"^\s*\| ( *)(\^+) ?(.*)$")
_HELP = re.compile(r"^\s*= help: (.*)$")
_FAIL = re.compile(r"Traceback \(most recent call last\):\n(?:.*\n)*?Error in fail: *\n?")
_REANALYSIS = re.compile(r"^WARNING: Build options? .* changed, discarding analysis cache")
_NO_SPACE = "No space left on device"
_CODES = {code.number: code for code in Code}


_PATIENCE = 60.0
"""Seconds without a worker for an action, after which the user is warned."""

ACTIONS_SHOWN = 100
"""The maximum number of actions that Bazel lists on a terminal."""


class Console:
    """Sorts the lines of a run of Bazel.

    Args:
        output: shows warnings, test results and waiting for another command.
        task: shows progress.
        planned: the expected duration of the actions in seconds; 0 if unknown.
        workers: the warning if an executor's workers accept no action; empty without an executor.

    Attributes:
        errors: unique blocks of lines that begin with `ERROR:`, as Bazel wrote them.
        no_space: whether a line reports a full disk.
        settings: the options from files like ~/.bazelrc.
    """

    def __init__(self, output: Output, task: Task, planned: float = 0.0, workers: str = "") -> None:
        self._output = output
        self._task = task
        self._planned = planned
        self._workers = workers
        self._queued: tuple[float, str] | None = None
        self._began: tuple[float, int] | None = None
        self._now = Progress(0, 0)
        self._awaited = 0
        self._block: list[str] | None = None
        self._seen: set[str] = set()
        self._blocks: list[list[str]] = []
        self._told: list[str] = []
        self.no_space = False
        self.settings = Settings()

    @property
    def errors(self) -> tuple[str, ...]:
        """The unique blocks of errors, in order."""
        return _joined(self._blocks)

    def feed(self, line: str) -> None:
        """Process the next line, without its line break."""
        if self._output.live:
            line = _CURSOR.sub("", line)
        if _NO_SPACE in line:
            self.no_space = True
        if self._awaited and self._action(line):
            return
        if not (self.settings.feed(line) or self._progress(line) or self._event(line)):
            self._rest(line)

    def _progress(self, line: str) -> bool:
        if match := _PROGRESS.match(line):
            done, total, what = match.groups()
            self._watch(done, what)
            if self._output.live:
                self._live(int(done.replace(",", "")), int(total.replace(",", "")), what)
            else:
                what = what.partition(";")[0].strip()
                self._task.update(f"{done} of {total} actions" + ("" if _IDLE.match(what) else f": {what}"))
        elif match := _STAGE.match(line):
            self._task.update(f"{match[1].lower()} {match[2]}".strip())
        else:
            return False
        self._block = None
        return True

    def _watch(self, done: str, what: str) -> None:
        """Warn once if no action has begun for a while."""
        now = time.monotonic()
        if not self._workers or not _QUEUED.match(what):
            self._queued = None
        elif self._queued is None or self._queued[1] != done:
            self._queued = (now, done)
        elif now - self._queued[0] >= _PATIENCE:
            self._output.warn(f"no action has begun for {now - self._queued[0]:.0f} s: {self._workers}")
            self._workers = ""

    def _live(self, done: int, total: int, what: str) -> None:
        """Process the first line of Bazel's list of actions, which contains the action if there is only one."""
        self._now = Progress(done, total)
        self._awaited = min(int(count[1]), ACTIONS_SHOWN) if (count := _COUNT.match(what)) else 0
        if not self._awaited:
            self._show(what)

    def _action(self, line: str) -> bool:
        """Process a line about an action; returns whether it is one."""
        if not line.startswith("    "):
            self._awaited = 0
            self._show("")
            return False
        self._awaited -= 1
        self._show(line.strip())
        return True

    def _show(self, what: str) -> None:
        """Show the actions after the last line of the list, which has seconds if the action runs."""
        if match := _RUNNING.match(what):
            self._now = self._now._replace(running=(*self._now.running, Running(match[1], int(match[2]))))
        if self._awaited:
            return
        now = self._now
        if self._began is None and now.running:
            self._began = (time.monotonic(), now.done)
        if self._began is not None and self._planned:
            start, before = self._began
            left = seconds_left(self._planned, time.monotonic() - start, now.done - before, now.total - before)
            now = now._replace(left=left)
        self._task.draw(lambda size: picture(now, size))

    def _event(self, line: str) -> bool:
        kind, colon, text = f"{line} ".partition(": ")
        if match := _BUSY.match(line):
            self._block = None
            self._output.say(f"Another Bazel command (process {match[1]}) runs in this workspace; waiting for it.")
        elif _TEST.match(line):
            self._block = None
            self._output.say(line)
        elif _NOISE.match(line):
            self._block = None if self._block is self._told or line.startswith(("ERROR", "FAILED")) else self._block
        elif not colon:
            return False
        elif kind in {"ERROR", "FAILED", "FATAL", "FAIL"}:
            self._block = [line]
            self._blocks.append(self._block)
        elif kind == "INFO":
            self._block = None
            if text.startswith("From "):
                self._block = self._told = []  # the output of a successful action is in the build events too
        elif kind in {"WARNING", "DEBUG"}:
            self._block = None
            if line not in self._seen and not _REANALYSIS.search(line):
                self._seen.add(line)
                (self._output.warn if kind == "WARNING" else self._output.say)(text.rstrip())
        else:
            return False
        return True

    def _rest(self, line: str) -> None:
        if self._block is not None:
            self._block.append(line)
        elif line.strip() and not line.startswith(" "):
            self._block = [line]
            self._blocks.append(self._block)


def _joined(blocks: Iterable[list[str]]) -> tuple[str, ...]:
    """The unique blocks as texts; without the traceback if a rule failed with a message."""
    texts = (_FAIL.sub("", "\n".join(block)).strip() for block in blocks)
    return tuple(dict.fromkeys(text for text in texts if text))


def own_diagnostics(blocks: Iterable[str]) -> tuple[Diagnostic, ...]:
    """The driver's own errors that repository rules and actions printed within Bazel's output.

    Args:
        blocks: the blocks that Bazel wrote.

    Returns:
        The unique errors, in order.
    """
    found: dict[Diagnostic, None] = {}
    for block in blocks:
        lines = block.splitlines()
        for number, line in enumerate(lines):
            match = _OWN.search(line)
            if match and match[1] in _CODES:
                found[_diagnostic(_CODES[match[1]], match[2], lines[number + 1 :])] = None
    return tuple(found)


def _diagnostic(code: Code, message: str, following: list[str]) -> Diagnostic:
    """An error from its lines, as written by Output.fail."""
    position = source = caret = advice = None
    for line in following:
        if match := _PLACE.match(line):
            position = match
        elif match := _HELP.match(line):
            advice = match
            break
        elif match := _CARET.match(line):
            caret = match
        elif match := _SOURCE.match(line):
            source = match
        else:
            break
    span = None
    if position is not None:
        span = Span(
            file=position[1],
            line=int(position[2]),
            column=int(position[3]),
            length=len(caret[2]) if caret else 1,
            text=source[1] if source else "",
        )
    return Diagnostic(
        code=code,
        message=message,
        span=span,
        label=caret[3] if caret else "",
        help=advice[1] if advice else "",
    )
