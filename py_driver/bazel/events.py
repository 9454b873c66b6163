"""The results of a build, from the file of Bazel's build event protocol."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NOT_TRIED: Final = "INCOMPLETE"


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """An action that failed, or that has output.

    Attributes:
        output: its first output, relative to the execution root.
        label: the label of its target.
        mnemonic: its mnemonic.
        succeeded: whether it succeeded.
        exit_code: the exit code of its program; 128 and more after a signal.
        command: its command line.
        text: its output; empty if unavailable.
    """

    output: str
    label: str
    mnemonic: str
    succeeded: bool
    exit_code: int
    command: tuple[str, ...]
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Events:
    """The results of a build.

    Attributes:
        failed: labels of the targets that failed to build or whose test failed.
        unfinished: labels of targets that were not built because others had failed.
        outputs: the files of the default output groups by label, for the targets on the command line.
        groups: the files of all these targets by output group.
        exec_root: the directory that paths of actions are relative to; None if nothing was built.
        completed: the command of each action that was not up to date, by primary output (relative to exec_root); needs
            --build_event_publish_all_actions.
        told: the actions that failed or have output, in the order in which they ended.
        causes: the first outputs of the actions whose failure prevented a target, by label.
        cpu: the processor seconds of the actions that ran here, by mnemonic
    """

    failed: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    outputs: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    groups: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    exec_root: Path | None = None
    completed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    told: tuple[Action, ...] = ()
    causes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cpu: Mapping[str, float] = field(default_factory=dict)


def read_events(path: Path) -> Events:  # noqa: C901, PLR0912  (one branch for each kind of event)
    """Read a file of events, one JSON object on each line; commands without a build write none."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return Events()
    sets: dict[str, dict[str, Any]] = {}
    failed: dict[str, None] = {}
    unfinished: dict[str, None] = {}
    outputs: dict[str, list[str]] = {}
    groups: dict[str, list[str]] = {}
    completed_actions: dict[str, tuple[str, ...]] = {}
    told: list[Action] = []
    causes: dict[str, tuple[str, ...]] = {}
    exec_root: Path | None = None
    cpu: dict[str, float] = {}
    for event in _events(lines):
        name = event["id"]
        if "namedSet" in name:
            sets[name["namedSet"]["id"]] = event.get("namedSetOfFiles", {})
        elif "targetCompleted" in name:
            label = name["targetCompleted"]["label"]
            completed = event.get("completed", {})
            if event.get("aborted", {}).get("reason") == _NOT_TRIED:
                unfinished[label] = None
            elif not completed.get("success", False):
                failed[label] = None
                children = (child.get("actionCompleted", {}) for child in event.get("children", []))
                causes[label] = tuple(child["primaryOutput"] for child in children if "primaryOutput" in child)
            for group in completed.get("outputGroup", []):
                ids = [s["id"] for s in group.get("fileSets", [])]
                groups.setdefault(group.get("name", ""), []).extend(ids)
                if group.get("name") == "default":
                    outputs.setdefault(label, []).extend(ids)
        elif "actionCompleted" in name and "action" in event:
            action = _action(name["actionCompleted"].get("primaryOutput", ""), event["action"])
            if action.succeeded:
                completed_actions[action.output] = action.command
            if action.text or not action.succeeded:
                told.append(action)
        elif "buildMetrics" in name:
            for kind in event.get("buildMetrics", {}).get("actionSummary", {}).get("actionData", []):
                cpu[kind.get("mnemonic", "")] = _duration(kind, "userTime") + _duration(kind, "systemTime")
        elif "workspace" in name and (root := event.get("workspaceInfo", {}).get("localExecRoot")):
            exec_root = Path(root)
        elif "testSummary" in name and event.get("testSummary", {}).get("overallStatus") not in {"PASSED", "FLAKY"}:
            failed[name["testSummary"]["label"]] = None
    return Events(
        failed=tuple(failed),
        unfinished=tuple(unfinished),
        outputs={label: tuple(dict.fromkeys(_files(ids, sets))) for label, ids in outputs.items()},
        groups={group: tuple(dict.fromkeys(_files(ids, sets))) for group, ids in groups.items()},
        exec_root=exec_root,
        completed=completed_actions,
        told=tuple(told),
        causes=causes,
        cpu=cpu,
    )


def _duration(values: Mapping[str, Any], name: str) -> float:
    """The seconds of a duration, in JSON `1.5s`; 0 if absent."""
    try:
        return float(str(values.get(name, "0s")).removesuffix("s"))
    except ValueError:
        return 0.0


def merged(first: Events, second: Events) -> Events:
    """The results of a build that was tried twice: the actions of both tries, and the targets of the second."""
    return replace(
        second,
        exec_root=second.exec_root or first.exec_root,
        completed={**first.completed, **second.completed},
        cpu={kind: first.cpu.get(kind, 0.0) + second.cpu.get(kind, 0.0) for kind in {**first.cpu, **second.cpu}},
        told=tuple(dict.fromkeys((*(action for action in first.told if action.succeeded), *second.told))),
    )


def _action(output: str, completed: Mapping[str, Any]) -> Action:
    """An action from its event."""
    return Action(
        output=output,
        label=completed.get("label", ""),
        mnemonic=completed.get("type", ""),
        succeeded=completed.get("success", False),
        exit_code=completed.get("failureDetail", {})
        .get("spawn", {})
        .get("spawnExitCode", completed.get("exitCode", 0)),
        command=tuple(completed.get("commandLine", [])),
        text="".join(_content(completed[stream]) for stream in ("stdout", "stderr") if stream in completed),
    )


def _content(file: Mapping[str, Any]) -> str:
    """The output of an action, from the event or from a file that Bazel keeps until its next command."""
    parts = urlsplit(file.get("uri", ""))
    if parts.scheme == "file":
        with suppress(OSError):
            return Path(unquote(parts.path)).read_text(encoding="utf-8", errors="replace")
    with suppress(ValueError, TypeError):
        return base64.b64decode(file.get("contents", ""), validate=True).decode(errors="replace")
    return ""


def _events(lines: list[str]) -> Iterator[dict[str, Any]]:
    """The events, without an incomplete last line of a killed Bazel."""
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and "id" in event:
            yield event


def _files(ids: list[str], sets: Mapping[str, dict[str, Any]]) -> Iterator[Path]:
    """The files of sets of files and of the sets in them."""
    todo = list(reversed(ids))
    seen = set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        content = sets.get(name, {})
        todo.extend(s["id"] for s in reversed(content.get("fileSets", [])))
        for file in content.get("files", []):
            parts = urlsplit(file.get("uri", ""))
            if parts.scheme == "file":
                yield Path(unquote(parts.path))
