"""What is shown of a report of Nsight Compute, and the command lines of other tools."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sections import CPU, CUDA, GENERAL, TORCH, make

from py_driver.__main__ import main
from py_driver.authoring.dev_build import DevBuild
from py_driver.errors import Code, DriverError
from py_driver.inspecting import instruments, profiler
from py_driver.inspecting.assembly import Kernel
from py_driver.inspecting.instruments import gdb_script, instrumented, sanitizer
from py_driver.inspecting.profile import profiled, table
from py_driver.output import Output

STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
TOLD: dict[str, Any] = {
    "name": "dense",
    "metrics": {
        "gpu__time_duration.sum": 133280.0,
        "dram__bytes.sum.per_second": 3866095558223.3,
        "launch__registers_per_thread": 32,
        "sass__inst_executed_register_spilling": None,
        STALL.format("long_scoreboard"): 12.0,
        STALL.format("wait"): 3.0,
        STALL.format("selected"): 5.0,
    },
    "rules": [
        {"name": "Bottleneck", "rule_message": {"title": "High", "message": "a fact", "type": 1}},
        {
            "name": "Occupancy",
            "rule_message": {
                "title": "",
                "message": "see @section:X:the table@ and @url:Guide:https://x/y@.",
                "type": 2,
            },
            "speedup_estimation": {"type": 1, "speedup": 20.0},
        },
        {
            "name": "Stall",
            "rule_message": {"title": "Long", "message": "wait less", "type": 2},
            "speedup_estimation": {"type": 1, "speedup": 60.0},
        },
    ],
}


def kernel(name: str, symbol: str, *, is_entry: bool = True) -> Kernel:
    return Kernel(
        symbol=symbol,
        name=name,
        arch="9.0",
        registers=1,
        shared=0,
        stack=0,
        instructions=1,
        is_entry=is_entry,
        mix={},
        sass="",
    )


KERNELS = [
    kernel("void n::(anonymous namespace)::soft<float>(float*)", "_Zf"),
    kernel("void n::(anonymous namespace)::soft<double>(double*)", "_Zd"),
    kernel("n::helper()", "_Zh", is_entry=False),
]


def test_rows() -> None:
    one = profiled(TOLD)
    assert one.values == {
        "duration": pytest.approx(133.28),
        "DRAM rate": pytest.approx(3.866, abs=1e-3),
        "registers": 32,
    }
    assert one.stall == "long scoreboard, 60% of the time"
    assert one.advice == ("Long: wait less", "Occupancy: see the table and Guide.")
    earlier = replace(one, values={"duration": 200.0}, stall="")
    assert table([one], [earlier]) == [
        ("kernel", "dense", "dense, earlier"),
        ("duration", "133.28 us", "200 us"),
        ("DRAM rate", "3.87 TB/s", ""),
        ("registers", "32", ""),
        ("top stall", "long scoreboard, 60% of the time", ""),
    ]


def test_sanitizer_looks_at_our_kernels() -> None:
    command = sanitizer("/s", "memcheck", ["python", "x.py"], KERNELS)
    own = ("--kernel-name=kne=_Zd", "--kernel-name=kne=_Zf")
    assert command == ("/s", "--tool=memcheck", "--error-exitcode=6", *own, "python", "x.py")
    many = [kernel("f()", f"_Z{n}") for n in range(101)]
    assert sanitizer("/s", "racecheck", ["x"], many) == ("/s", "--tool=racecheck", "--error-exitcode=6", "x")


def test_debugger_stops_in_the_kernel_and_not_where_it_is_launched() -> None:
    lines = gdb_script(Path("/p"), KERNELS, batch=True).splitlines()
    assert [line for line in lines if line.startswith("break")] == ["break soft"]
    assert "directory /p" in lines
    place = lines.index("run")
    assert lines[place : place + 4] == ["run", "delete", "set cuda break_on_launch application", "continue"]
    assert lines[-1] == "quit"
    assert gdb_script(Path("/p"), KERNELS, batch=False).splitlines()[-1] == "continue"


@pytest.fixture
def made(tmp_path: Path) -> DevBuild:
    variants = make(tmp_path, GENERAL + TORCH + CPU + CUDA).variants
    return DevBuild(
        directory=tmp_path,
        name="x",
        version=1,
        module="x",
        repositories=(),
        variant=next(variant for variant in variants if variant.configuration.family == "cuda"),
        unique_id="_x",
        path=tmp_path,
        ran=0,
        seconds=0.0,
    )


@pytest.mark.parametrize(("tool", "program"), [("gdb", "cuda-gdb"), ("nsys", "nsys")])
def test_tools_that_are_not_there(
    made: DevBuild, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tool: str, program: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DriverError) as caught:
        instrumented(tool, ["x"], made, Output(), interactive=False)
    [found] = caught.value.diagnostics
    assert (found.code, found.message) == (Code.SET_UP, f"there is no `{program}` on PATH")


def test_counters_that_nobody_may_read(made: DevBuild, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "ncu").write_text("#!/bin/sh\n")
    (tmp_path / "ncu").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(profiler, "counters", lambda: "root")
    monkeypatch.setattr(profiler, "may_count", lambda: False)
    with pytest.raises(DriverError) as caught:
        profiler.profile(made, [], "X.y", "basic", "python", Output())
    [found] = caught.value.diagnostics
    assert found.code is Code.SET_UP
    assert "NVreg_RestrictProfilingToAdminUsers=0" in found.help


def test_records_lie_in_logs(made: DevBuild, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(instruments, "on_path", lambda *_: "/nsys")
    call = instrumented("nsys", ["python", "x.py"], made, Output(), interactive=False)
    assert call.records == tmp_path / "logs" / "x.nsys-rep"
    assert call.command[:2] == ("/nsys", "profile")
    assert call.command[-2:] == ("python", "x.py")
    assert (tmp_path / "logs" / ".gitignore").read_text(encoding="utf-8") == "*\n"


def test_nothing_is_built_for_the_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, GENERAL + TORCH + CPU + CUDA)
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "benchmark.py").touch()
    monkeypatch.setattr("py_driver.cli.profile.built", None)
    assert main(["profile", str(tmp_path), "--torch=2.13"]) == 2
    assert "Nsight Compute profiles CUDA code, and torch213-cxx11-cpu-" in capsys.readouterr().err
