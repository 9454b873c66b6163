"""Projects with a setup.py: what is said when no configuration, or no requested architecture, can be built."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from py_driver.building import extension
from py_driver.building.build import Options
from py_driver.building.extension import all_of, candidates, plan_extension
from py_driver.errors import Code, Diagnostic, DriverError, Note, Span
from py_driver.extensions.binding import Bindings
from py_driver.matrix.releases import Releases
from py_driver.output import Output

if TYPE_CHECKING:
    from pathlib import Path


def fault(message: str, advice: str = "") -> Diagnostic:
    return Diagnostic(Code.UNSUPPORTED, message, Span("setup.py", 1, 1), help=advice)


def test_each_fault_is_said_once_and_those_of_the_cpu_last() -> None:
    failures = [
        (True, DriverError([fault("needs nvcc", "torch 2.13")])),
        (False, DriverError([fault("b"), fault("a")])),
        (True, DriverError([fault("needs nvcc", "torch 2.15")])),
        (False, DriverError([fault("a"), fault("c")])),
    ]
    said = all_of(failures).diagnostics
    assert [found.message for found in said] == ["b", "a", "c", "needs nvcc"]
    assert said[-1].help == "torch 2.13"


@pytest.mark.parametrize("code", [Code.ARCH_DROPPED, Code.BAD_FLAG])
def test_a_dropped_architecture_is_an_error_with_strict_archs(
    code: Code, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    releases = Releases()
    note = Note("the architecture 3.5 is not built", Span("setup.py", 1, 1), code)
    plan = candidates(tmp_path, releases.matrix)._replace(variants=(), notes=(note,))
    recorded = SimpleNamespace(record=SimpleNamespace(files=()), tree=tmp_path)
    monkeypatch.setattr(extension, "record_project", lambda *_: recorded)
    monkeypatch.setattr(extension._Planner, "plan", lambda *_: plan)  # noqa: SLF001  (setup.py is not run here)

    def planned(*, strict: bool) -> None:
        output = Output(io.StringIO(), io.StringIO(), {})
        options = Options(strict_archs=strict)
        plan_extension(tmp_path, (), releases, output, options, Bindings("", lambda _: ()))

    planned(strict=False)
    if code is Code.BAD_FLAG:
        planned(strict=True)
        return
    with pytest.raises(DriverError) as failure:
        planned(strict=True)
    [found] = failure.value.diagnostics
    assert (found.code, found.message) == (code, note.message)
