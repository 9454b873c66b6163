"""The messages of a build for its author: errors and warnings of compilers, with the author's paths."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from py_driver.actions.author_paths import AuthorPaths
from py_driver.actions.executed import read_records
from py_driver.actions.history import read_told, write_told
from py_driver.bazel.run import Explained
from py_driver.diagnosing.compiler_text import Severity
from py_driver.diagnosing.findings import KILLED, Telling, as_diagnostics, findings, text_of
from py_driver.diagnosing.plain_names import plain_sources, plainly_defined
from py_driver.matrix.facts import facts
from py_driver.output import annotation, counted
from py_driver.system.memory import machine_memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from py_driver.actions.author_paths import BuiltProject
    from py_driver.bazel.events import Action, Events
    from py_driver.bazel.invocation import Choices
    from py_driver.diagnosing.findings import Finding
    from py_driver.errors import Diagnostic
    from py_driver.output import Output

_ALL: Final = "--keep-going shows all errors, and all variants that have them"
_COMMANDS: Final = "--verbose shows the commands"
_MEMORY: Final = "the kernel does that when memory is short: there are {} GB; lower --ram or --jobs"
_MASK: Final = "The mask must be a 64-bit integer"
"""The error of HIP's own headers about the mask of a CUDA source (amd_warp_sync_functions.h)."""
_MASKS: Final = (
    "a warp of an AMD GPU has up to 64 lanes: for `USE_ROCM` write a mask of 64 bits, `0xffffffffffffffffull`, or "
    "call `__shfl_xor`, `__ballot` and their kin without one; see docs/rocm.md"
)
_SHOWN: Final = 5
_UNDEFINED: Final = re.compile(r"^  undefined-symbol: (.+): no library defines it$", re.MULTILINE)
_ADD_SOURCE: Final = re.compile(r"^    help: add the source that defines it to `src`.*\n?", re.MULTILINE)
_CONFIGURATION: Final = re.compile(r"\bbazel-out/cfg/(bin/[^\s:=,]*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Messages:
    """The messages of a build.

    Attributes:
        projects: the projects that are built.
        choices: which messages to show.
        output: where to show them.
    """

    projects: Sequence[BuiltProject]
    choices: Choices
    output: Output

    def explain(self, events: Events, blocks: Sequence[str]) -> Explained:
        """Turn errors of actions into diagnostics of the driver; Bazel's other output is shown.

        Args:
            events: the events of the build.
            blocks: Bazel's output about each error.
        """
        build = _build(events, self.projects)
        failed = build.failed(events, blocks)
        errors = as_diagnostics(build.findings(failed), self._telling)
        warnings = self._warnings(build, events)
        if self.choices.warnings:
            self._show(warnings)
        for block in blocks:
            if self.choices.verbose or not any(action.text and _is_of(block, action) for action in failed):
                self.output.say(block)
        if self.choices.verbose:
            for action in failed:
                self.output.say(_command(action, events.exec_root))
        more = [*([] if self.choices.keep_going else [_ALL]), *([] if self.choices.verbose else [_COMMANDS])]
        more = [*([_MASKS] if any(_MASK in error.message for error in errors) else []), *more]
        advice = "; ".join(more) if errors else ""
        summary = self._summary(events, self.projects)
        if any(error.message.endswith(KILLED) for error in errors):
            summary += "; a compiler was killed"
            advice = _MEMORY.format(machine_memory() // 1024)
        return Explained(errors=errors, summary=summary, help=advice)

    @property
    def _telling(self) -> Telling:
        return Telling(verbose=self.choices.verbose, stopped=not self.choices.keep_going)

    def failure(self, project: BuiltProject, events: Events) -> tuple[tuple[Diagnostic, ...], str]:
        """The errors of the actions of one among several projects, and a summary of its failed variants.

        Args:
            project: one of the projects that are built.
            events: the events of the build.
        """
        build = _build(events, [project])
        errors = as_diagnostics(build.findings(build.failed(events, ())), self._telling)
        return errors, self._summary(events, [project], f"the build of {project.directory}")

    def failure_of(self, project: BuiltProject, label: str, events: Events) -> tuple[Diagnostic, ...]:
        """The errors of the actions that one variant depends on.

        Args:
            project: the project of the variant.
            label: the variant's label.
            events: the events of the build.
        """
        build = _build(events, [project])
        causes = {output for name, cause in events.causes.items() if name.lstrip("@") == label for output in cause}
        return as_diagnostics(
            build.findings(action for action in build.failed(events, ()) if action.output in causes), self._telling
        )

    def warn(self, events: Events) -> None:
        """Show compilers' messages in a successful build, or their number.

        Args:
            events: the events of the build.
        """
        found = self._warnings(_build(events, self.projects), events)
        if self.choices.warnings:
            self._show(found)
        elif found:
            count = _count(finding.severity for finding in found)
            self.output.say(f"{count}; --warnings shows {'it' if len(found) == 1 else 'them'}")

    def _show(self, found: Iterable[Finding]) -> None:
        for finding in found:
            self.output.quote(text_of(finding, Telling(verbose=self.choices.verbose)))
            if self.output.annotates:
                self.output.data(
                    annotation(
                        "warning" if finding.severity is Severity.WARNING else "notice", finding.message, finding.span
                    )
                )

    def _warnings(self, build: _Build, events: Events) -> list[Finding]:
        """Compilers' messages that are not errors, of this build and of earlier builds for outputs still in use."""
        told = {action.output: action for action in events.told if action.text}
        every: list[Action] = []
        for project in self.projects:
            kept = {**read_told(project.plan.module, events.exec_root)}
            for output in (*events.completed, *told):
                kept.pop(output, None)
            now = {name: action for name, action in told.items() if build.paths.project_of(action.label) is project}
            kept |= {name: action for name, action in now.items() if action.succeeded}
            write_told(project.plan.module, events.exec_root, kept)
            every += (action for name, action in {**kept, **now}.items() if name in now or name in build.variants)
        return [finding for finding in build.findings(every) if finding.severity is not Severity.ERROR]

    def _summary(self, events: Events, projects: Sequence[BuiltProject], build: str = "the build") -> str:
        """The failed variants, and the number of unfinished ones; empty if none is known to have failed."""
        labels = {label: name for project in projects for label, name in project.variants.items()}
        of_bazel = {label.lstrip("@") for label in events.failed}
        failed = [name for label, name in labels.items() if label in of_bazel]
        unfinished = sum(label.lstrip("@") in labels for label in events.unfinished)
        if not failed:
            return ""
        names = failed if self.choices.verbose else failed[:_SHOWN]
        more = f" and {len(failed) - len(names)} more" if len(names) < len(failed) else ""
        others = f"; {unfinished} more {'was' if unfinished == 1 else 'were'} not finished" if unfinished else ""
        return f"{build} failed: {', '.join(names)}{more}{others}"


@dataclass(frozen=True, kw_only=True)
class _Build:
    """The facts about a finished build.

    Attributes:
        paths: the paths of its projects.
        records: the records of its variants' actions, by label.
        causes: see `Events`.
    """

    paths: AuthorPaths
    records: Mapping[str, Any]
    causes: Mapping[str, Sequence[str]]

    @cached_property
    def variants(self) -> dict[str, list[str]]:
        """The variants of each action, by its first output, in the order of the plans."""
        causes = {label.lstrip("@"): outputs for label, outputs in self.causes.items()}
        known: dict[str, dict[str, None]] = {}
        for project in self.paths.projects:
            for label, name in project.variants.items():
                actions = self.records.get(label, {}).get("steps", ())
                hipified = (f"{action.partition('.objects/')[0]}.hipified" for action in actions)
                for output in (*actions, *hipified, *causes.get(label, ())):
                    known.setdefault(output, {})[name] = None
        return {output: list(names) for output, names in known.items()}

    def failed(self, events: Events, blocks: Sequence[str]) -> list[Action]:
        """The failed actions of the projects, with their output as far as it is known.

        Args:
            events: the events of the build.
            blocks: Bazel's output about each error.
        """
        ours = [action for action in events.told if not action.succeeded and self.paths.project_of(action.label)]
        return [self._with_plain_names(_with_text(our, blocks)) for our in ours]

    def findings(self, actions: Iterable[Action]) -> list[Finding]:
        """The messages of actions, without duplicates."""
        return findings(actions, self.paths, self.variants)

    def _with_plain_names(self, action: Action) -> Action:
        """Extend an ABI check by the files that define undefined symbols as C names, or are not compiled."""
        symbols = _UNDEFINED.findall(action.text)
        project = self.paths.project_of(action.label) if symbols else None
        if project is None:
            return action
        others = plain_sources(project)

        def more(match: re.Match[str]) -> str:
            return "\n".join([match[0], *(f"    {line}" for line in plainly_defined(match[1], others))])

        text = _UNDEFINED.sub(more, action.text)
        explained = all(plainly_defined(symbol, others) for symbol in symbols)
        return replace(action, text=_ADD_SOURCE.sub("", text) if explained else text)


def _build(events: Events, projects: Sequence[BuiltProject]) -> _Build:
    """The facts about a finished build.

    Args:
        events: the events of the build.
        projects: the projects in question.
    """
    records = read_records(events.groups.get("steps", ()))
    return _Build(paths=AuthorPaths(projects), records=records, causes=events.causes)


def _count(severities: Iterable[Severity]) -> str:
    """The number of messages of each severity: `2 warnings, 1 message`."""
    counts = Counter(severities)
    return ", ".join(counted(counts[severity], severity) for severity in Severity if counts[severity])


def _with_text(action: Action, blocks: Sequence[str]) -> Action:
    """An action with its output; if the events lack it, from Bazel's output."""
    if action.text:
        return action
    block = next((block for block in blocks if _is_of(block, action)), "")
    return replace(action, text=block.partition("\n")[2].lstrip("\n"))


def _is_of(block: str, action: Action) -> bool:
    """Whether a block of Bazel's output is about an action."""
    return (
        re.search(rf" {action.mnemonic} command \(from target @*{re.escape(action.label.lstrip('@'))}\)", block)
        is not None
    )


def _command(action: Action, exec_root: Path | None) -> str:
    """The command of an action, for a shell.

    Outputs without their configuration in the path get the one that they exist under.
    """
    own = action.output.split("/")[1]

    def directory(match: re.Match[str]) -> str:
        paths = sorted(exec_root.glob(f"bazel-out/*/{match[1]}")) if exec_root else []
        existing = [path.relative_to(exec_root).as_posix() for path in paths] if exec_root else []
        mine = f"bazel-out/{own}/{match[1]}"
        return mine if mine in existing or not existing else existing[0]

    command = shlex.join(_CONFIGURATION.sub(directory, word) for word in action.command)
    environment = " ".join(f"{name}={value}" for name, value in facts("environment")["ENVIRONMENT"].items())
    return f"command: cd {shlex.quote(str(exec_root or '.'))} && env -i {environment} {command}"
