"""What a build tells its author: errors and warnings of compilers, in the paths that the author knows."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from py_driver.bazel.console import own_diagnostics
from py_driver.bazel.run import Explained
from py_driver.building.author_paths import AuthorPaths
from py_driver.building.compiler_text import Severity
from py_driver.building.executed import read_records
from py_driver.building.findings import as_diagnostics, findings, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from py_driver.bazel.events import Action, Events
    from py_driver.bazel.invocation import Choices
    from py_driver.building.author_paths import Project
    from py_driver.output import Output

_ACTION: Final = re.compile(r"^ERROR: .*? failed: \(", re.DOTALL)
_CONFIGURATION: Final = re.compile(r"\bbazel-out/cfg/(bin/[^\s:=,]*)")
_ENVIRONMENT: Final = "env -i LANG=C PATH=/nonexistent SOURCE_DATE_EPOCH=0"
"""That of every action: rules/private/actions.bzl."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Teller:
    """Tells of a build.

    Attributes:
        projects: that are built.
        choices: what the author wants to be told.
    """

    projects: Sequence[Project]
    choices: Choices

    @property
    def _chosen(self) -> int:
        """How many variants there are to be wrong in."""
        return max((len(one.chosen) for one in self.projects), default=0)

    def explain(self, events: Events, blocks: Sequence[str]) -> Explained:
        """The errors of actions as those of the driver, and what Bazel wrote besides.

        Args:
            events: of the build.
            blocks: what Bazel wrote of each error.
        """
        failed = [_with_text(one, blocks) for one in events.told if not one.succeeded]
        found = findings(failed, AuthorPaths(self.projects), self._variants(events))
        errors = as_diagnostics(found, self._chosen, verbose=self.choices.verbose)
        own = [one.text.rstrip() for one in failed if own_diagnostics([one.text])]
        if self.choices.verbose:
            rest = [*blocks, *(_command(one, events.exec_root) for one in failed)]
        else:
            rest = [*(block for block in blocks if not ((own or errors) and _ACTION.match(block))), *dict.fromkeys(own)]
        return Explained(errors=errors, rest=tuple(rest))

    def warn(self, events: Events, notes: Sequence[str], output: Output) -> None:
        """Show what compilers printed in a build, or say that they did.

        Args:
            events: of the build.
            notes: what Bazel wrote of actions that printed something and did not fail.
            output: where to show it.
        """
        actions = [one for one in events.told if one.text]
        found = findings(actions, AuthorPaths(self.projects), self._variants(events))
        found = [one for one in found if one.severity is not Severity.ERROR]
        if self.choices.warnings:
            for one in found:
                output.quote(text_of(one, self._chosen, verbose=self.choices.verbose))
        elif found:
            output.say(_count(one.severity for one in found) + "; --warnings shows them")
        if not actions:
            for note in notes:
                output.say(note)

    def _variants(self, events: Events) -> dict[str, list[str]]:
        """By the first output of an action, the variants that it is for, in the order of the plans."""
        known: dict[str, dict[str, None]] = {}
        records = read_records(events.groups.get("steps", ()))
        for project in self.projects:
            for variant in project.chosen:
                label = project.workspace.label(variant.name)
                causes = events.causes.get(label) or events.causes.get(f"@@{label}") or ()
                for output in (*records.get(label, {}).get("steps", ()), *causes):
                    known.setdefault(output, {})[variant.name] = None
        return {output: list(names) for output, names in known.items()}


def _count(severities: Iterable[Severity]) -> str:
    """How many there are of each: `2 warnings, 1 message`."""
    counts = Counter(severities)
    return ", ".join(f"{counts[one]} {one}{'s' * (counts[one] != 1)}" for one in Severity if counts[one])


def _with_text(action: Action, blocks: Sequence[str]) -> Action:
    """An action with what it printed; where the events do not have that, as Bazel wrote it."""
    if action.text:
        return action
    name = f" {action.mnemonic} command (from target {action.label})"
    block = next((one for one in blocks if name in one or name.replace("(from target ", "(from target @@") in one), "")
    return replace(action, text=block.partition("\n")[2].lstrip("\n"))


def _command(action: Action, exec_root: Path | None) -> str:
    """The command of an action, to be copied into a shell.

    Where it names outputs without their configuration, the command has that which they are under.
    """
    own = action.output.split("/")[1]

    def place(match: re.Match[str]) -> str:
        made = sorted(exec_root.glob(f"bazel-out/*/{match[1]}")) if exec_root else []
        there = [one.relative_to(exec_root).as_posix() for one in made] if exec_root else []
        mine = f"bazel-out/{own}/{match[1]}"
        return mine if mine in there or not there else there[0]

    command = shlex.join(_CONFIGURATION.sub(place, word) for word in action.command)
    return f"command: cd {shlex.quote(str(exec_root or '.'))} && {_ENVIRONMENT} {command}"
