"""What actions printed and what kept targets from being built, from files like those that Bazel writes."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from py_driver.bazel.events import Events, merged, read_events

if TYPE_CHECKING:
    from pathlib import Path


def read(tmp_path: Path, *events: object) -> Events:
    path = tmp_path / "events.json"
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events), encoding="utf-8")
    return read_events(path)


def action(output: str, **said: object) -> dict[str, object]:
    named = {"label": "//a:b", "type": "KernelCxxCompile", "commandLine": ["zig", "-c"]}
    return {"id": {"actionCompleted": {"primaryOutput": output}}, "action": {**named, **said}}


def test_what_actions_printed(tmp_path: Path) -> None:
    (tmp_path / "std err").write_bytes(b"warning: \xff\n")
    place = {"uri": (tmp_path / "std err").as_uri()}
    lost = {"uri": (tmp_path / "lost").as_uri()}
    inline = {"contents": base64.b64encode(b"said\n").decode()}
    silent, loud, failed, killed = (
        action("silent.o", success=True),
        action("loud.o", success=True, stdout=inline, stderr=place),
        action("failed.o", exitCode=1, stderr=lost, failureDetail={"spawn": {"spawnExitCode": 2}}),
        action("killed.o", exitCode=137),
    )
    events = read(tmp_path, silent, loud, failed, killed)
    assert [(event.output, event.succeeded, event.exit_code, event.text) for event in events.told] == [
        ("loud.o", True, 0, "said\nwarning: \ufffd\n"),
        ("failed.o", False, 2, ""),
        ("killed.o", False, 137, ""),
    ]
    assert events.told[0].label == "//a:b"
    assert events.told[0].mnemonic == "KernelCxxCompile"
    assert events.completed == {"silent.o": ("zig", "-c"), "loud.o": ("zig", "-c")}


def test_what_failed_and_what_was_not_finished(tmp_path: Path) -> None:
    causes = [{"actionCompleted": {"primaryOutput": "a.o"}}, {"targetCompleted": {"label": "//a:c"}}]
    events = read(
        tmp_path,
        {"id": {"targetCompleted": {"label": "//a:a"}}, "children": causes, "completed": {}},
        {"id": {"targetCompleted": {"label": "//a:b"}}, "aborted": {"reason": "INCOMPLETE"}},
        {"id": {"targetCompleted": {"label": "//a:d"}}, "aborted": {"reason": "ANALYSIS_FAILURE"}},
        {"id": {"targetCompleted": {"label": "//a:e"}}, "completed": {"success": True}},
    )
    assert (events.failed, events.unfinished) == (("//a:a", "//a:d"), ("//a:b",))
    assert events.causes["//a:a"] == ("a.o",)


def test_how_long_processors_worked(tmp_path: Path) -> None:
    data = [{"mnemonic": "A", "userTime": "1.5s", "systemTime": "0.25s"}, {"mnemonic": "B", "userTime": "x"}, {}]
    event = {"id": {"buildMetrics": {}}, "buildMetrics": {"actionSummary": {"actionData": data}}}
    (tmp_path / "events").write_text(json.dumps(event))
    events = read_events(tmp_path / "events")
    assert events.cpu == {"A": 1.75, "B": 0.0, "": 0.0}
    assert merged(events, events).cpu["A"] == 3.5
