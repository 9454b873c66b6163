"""What callers have of a project, built for this CPU before and after it was moved to torch's stable ABI."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from py_driver.authoring.dev_build import dev_build
from py_driver.authoring.machine import this_machine
from py_driver.bazel.invocation import Choices
from py_driver.inspecting.recorded_symbols import Recorded
from py_driver.inspecting.release_changes import release_changes
from py_driver.inspecting.release_facts import release_facts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from py_driver.inspecting.release_facts import ReleaseFacts
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output

_COMPARED: Final = ("op", "function", "export")
_OF_TORCH: Final = re.compile(r": _Z.*(?:2at|3c10|5torch|6caffe2)")
"""Exports that are inline functions of torch's headers, or have a type of torch in their names."""


def cpu_facts(directory: Path, torch: str | None, releases: Releases, output: Output) -> ReleaseFacts:
    """What the variant offers that this machine's CPU runs, built now.

    Args:
        directory: of the project.
        torch: the release to build for, `2.13`; None for the installed one.
        releases: to build for.
        output: where progress is shown.

    Raises:
        DriverError: see `dev_build`.
    """
    build = dev_build(directory, this_machine(torch or "", "cpu"), releases, output, Choices())
    return release_facts(build.path, Recorded(releases))


def differences(before: ReleaseFacts, after: ReleaseFacts) -> Iterator[str]:
    """What differs between the ops, Python functions and exports of two builds, in words.

    Args:
        before: the build of the sources as they were.
        after: the build of the rewritten ones.
    """
    for change in release_changes(before, after):
        if change.kind in _COMPARED and not (change.kind == "export" and _OF_TORCH.search(change.subject)):
            yield f"the {change.kind} {change.subject} was `{change.before}` and is `{change.after}`"
