"""What is said of a build before it starts."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from py_driver.building import ahead
from py_driver.building.ahead import say_preparation
from py_driver.matrix.facts import facts
from py_driver.output import Output
from py_driver.system.machine import machine_cpu

if TYPE_CHECKING:
    from pathlib import Path

FIRST = "note: this is the first build here: toolchains are unpacked and the rules' programs compiled, too\n"


@pytest.mark.parametrize(
    ("repository", "said"),
    [
        ("", FIRST),
        ("_main~toolchains~torch_kernels_gcc", FIRST),
        ("_main~toolchains~torch_kernels_cc", ""),
        ("rules_torch_kernels~~toolchains~torch_kernels_cc", ""),
    ],
)
def test_the_first_build_says_what_the_estimate_does_not_count(tmp_path: Path, repository: str, said: str) -> None:
    (tmp_path / "external" / repository).mkdir(parents=True)
    err = io.StringIO()
    say_preparation(tmp_path, Output(io.StringIO(), err, {}))
    assert err.getvalue() == said


def test_a_bazel_that_was_never_started_has_built_nothing() -> None:
    err = io.StringIO()
    say_preparation(None, Output(io.StringIO(), err, {}))
    assert err.getvalue() == FIRST


def test_a_release_has_the_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "rules" / "private" / "tools" / "prebuilt" / machine_cpu()
    place.mkdir(parents=True)
    monkeypatch.setattr(ahead, "module_root", lambda: tmp_path)
    assert _said() == FIRST
    for name in facts("programs")["MAIN"]:
        (place / name).touch()
    assert _said() == "note: this is the first build here: toolchains are unpacked, too\n"


def _said() -> str:
    err = io.StringIO()
    say_preparation(None, Output(io.StringIO(), err, {}))
    return err.getvalue()
