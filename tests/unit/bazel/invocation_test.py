"""What Bazel is told by the commands that build."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from py_driver import __main__
from py_driver.bazel import invocation
from py_driver.bazel.find import Bazel, Source
from py_driver.bazel.invocation import (
    Choices,
    Compress,
    CudaCompile,
    Cxx,
    Headers,
    apart,
    building,
    verifying,
    without_check,
)
from py_driver.bazel.remote import Remote
from py_driver.matrix.facts import facts
from py_driver.output import Output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SETTINGS = "--@rules_torch_kernels//rules/settings"
_BAZEL = Bazel(path=Path("/bazel"), version="7.7.1", source=Source.PATH, startup=("--batch",))


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RULES_TORCH_KERNELS_CACHE", str(tmp_path))
    monkeypatch.setattr(invocation, "isolation", lambda _output: ["--isolated"])
    monkeypatch.setattr(invocation, "action_memory", lambda ram, running: 1000 * (ram or 8) // running)


def _output() -> Output:
    return Output(io.StringIO(), io.StringIO(), {})


def test_a_build_takes_results_from_caches_and_a_verification_from_none(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert building(Choices(), 2, tmp_path, log, _output()) == [
        "--output_groups=+steps",
        "--build_event_publish_all_actions",
        "--experimental_record_metrics_for_all_mnemonics",
        f"--execution_log_binary_file={log}",
        "--noexecution_log_sort",
        f"--disk_cache={tmp_path / 'actions'}",
        "--experimental_disk_cache_gc_max_size=20G",
        "--isolated",
        "--local_resources=memory=4000",
    ]
    none = ["--disk_cache=", "--remote_cache=", "--remote_executor="]
    assert verifying(Choices(jobs=3, ram=4), 1, _output()) == [
        "--output_groups=+steps",
        "--build_event_publish_all_actions",
        *none,
        "--isolated",
        "--jobs=3",
        "--local_resources=memory=4000",
    ]


def test_only_a_bazel_that_can_leaves_toolchains_unchecked() -> None:
    assert without_check(_BAZEL) == ["--noexperimental_check_external_repository_files"]
    assert without_check(replace(_BAZEL, version="8.3.0")) == []


def test_a_build_keeps_going_on_request() -> None:
    assert "--keep_going" in Choices(keep_going=True).options(1)
    assert "--keep_going" not in Choices().options(1)


def test_what_an_executor_runs_has_no_limit_of_this_machine(tmp_path: Path) -> None:
    choices = Choices(remote=Remote(executor="grpc://x:1"))
    options = building(choices, 1, tmp_path, tmp_path / "log", _output())
    assert "--remote_executor=grpc://x:1" in options
    assert "--jobs=100" in options
    assert "--isolated" not in options
    assert (choices.at_once(), choices.memory(1)) == (100, None)
    assert Choices(jobs=7, remote=choices.remote).at_once() == 7


def test_only_a_setting_that_is_chosen_is_told() -> None:
    told = Choices(cuda_compile=CudaCompile.MONOLITHIC, headers=Headers.FULL, cxx=Cxx.GCC).options(1)
    assert told[1:] == tuple(
        f"{SETTINGS}:{setting}" for setting in ("cuda_compile=monolithic", "headers=full", "cxx=gcc")
    )
    assert Choices(cuda_compile=CudaCompile.SPLIT).options(1)[1:] == (f"{SETTINGS}:cuda_compile=split",)
    assert Choices(compress=Compress.SIZE).options(1)[1:] == (f"{SETTINGS}:compress=size",)
    compressions = [Choices(compress=choice).compression for choice in (None, *Compress)]
    assert compressions == ["", "", "size", "balance", "speed", "none"]
    assert [Choices(cuda_compile=choice).split for choice in (None, *CudaCompile)] == [True, True, False]


def test_settings_are_those_of_the_rules() -> None:
    flags = facts("settings")["FLAGS"]
    # `programs` is no option of the driver: the bytes are the same.
    assert {name: set(flag["values"]) for name, flag in flags.items() if name != "programs"} == {
        "cuda_compile": {*CudaCompile},
        "headers": {*Headers},
        "cxx": {*Cxx},
        "compress": {*Compress},
    }


@pytest.mark.parametrize("verb", ["build", "demo", "verify"])
def test_a_choice_that_is_none(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main([verb, "--headers=maybe"]) == 2
    assert "argument --headers: invalid choice: 'maybe' (choose from " in capsys.readouterr().err


def test_a_bazel_apart_reads_no_settings_of_others() -> None:
    assert apart(_BAZEL, Path("/x")).startup == ("--batch", "--nohome_rc", "--nosystem_rc", "--output_user_root=/x")


@pytest.mark.parametrize(("named", "expected"), [("", sys.executable), ("/opt/python", "/opt/python")])
def test_repository_rules_are_run_by_this_python(named: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def run(_bazel: Bazel, args: Sequence[str], *_: object, env: Mapping[str, str], title: str, **how: object) -> None:
        assert how == {"check": True, "explain": None, "planned": 0.0, "watch": None}
        seen.extend((args, env, title))

    monkeypatch.setattr(invocation, "run_bazel", run)
    monkeypatch.delenv("RULES_TORCH_KERNELS_PYTHON", raising=False)
    if named:
        monkeypatch.setenv("RULES_TORCH_KERNELS_PYTHON", named)
    invocation.build(_BAZEL, Path(), ["//:a"], _output(), title="x", options=["--o"])
    args = ["build", "--experimental_convenience_symlinks=ignore", "--o", "//:a"]
    assert seen == [args, {"RULES_TORCH_KERNELS_PYTHON": expected}, "x"]
