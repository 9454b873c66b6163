"""The options from files like ~/.bazelrc in a run of Bazel, from its output with `--announce_rc`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

OPTION: Final = "--announce_rc"
"""The option with which Bazel reports the options of each file."""

_FILE: Final = re.compile(r"^INFO: Reading rc options for '\S+' from (.+):$")
_OPTIONS: Final = re.compile(r"^  (?:Inherited )?'\S+' options: (.*)$")
_STARTUP: Final = re.compile(r"^INFO: Reading 'startup' options from (.+?): (--.*)$")
_CONFIG: Final = re.compile(r"^INFO: Found applicable config definition \S+ in file (.+?): (--.*)$")
_CLIENT: Final = "INFO: Options provided by the client:"
_HARMLESS: Final = re.compile(
    r"--(?:no)?(?:announce_rc|client_debug|color|config|connect_timeout_secs|curses|jobs|keep_going|loading_phase_threads"
    r"|local_\w*resources|max_idle_secs|memory_profile|profile|progress_report_interval|repository_cache|show_\w+|test_\w+"
    r"|verbose_failures|watchfs)(?:=|$)"
)
"""Options that change neither outputs nor the inputs of actions."""


class Settings:
    """The options from files in a run of Bazel."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, None]] = {}
        self._file: str | None = None

    def feed(self, line: str) -> bool:
        """Process the next line of Bazel's standard error; returns whether it is about such options."""
        if match := _STARTUP.match(line) or _CONFIG.match(line):
            self._add(*match.groups())
        elif match := _FILE.match(line):
            self._file = match[1]
        elif match := _OPTIONS.match(line):
            if self._file:
                self._add(self._file, match[1])
        elif line == _CLIENT:
            self._file = None
        else:
            return False
        return True

    def _add(self, file: str, options: str) -> None:
        self._found.setdefault(file, {}).update(dict.fromkeys(re.split(r" (?=-)", options)))

    def notes(self, known: Iterable[Path]) -> tuple[str, ...]:
        """A line for each unknown file with its options that may affect the build.

        Args:
            known: files, and directories of files.
        """
        ours = [str(path) for path in known]
        found = []
        for file, options in self._found.items():
            effective = [option for option in options if not _HARMLESS.match(option)]
            if effective and not any(file == our or file.startswith(f"{our}/") for our in ours):
                found.append(f"note: {file} changes this build: {' '.join(effective)}")
        return tuple(found)
