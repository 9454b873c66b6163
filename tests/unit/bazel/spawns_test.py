"""The reader of Bazel's execution log, on logs that are encoded here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from spawn_log import field as _field
from spawn_log import file as _file
from spawn_log import log as _log
from spawn_log import number as _number

from py_driver.bazel.spawns import Call, Spawn, read_spawns

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


_RAN = b"".join(
    [
        _field(1, "cicc"),
        _field(4, _file("header.h", "h" * 64)),
        _field(5, "a.ptx"),
        _field(5, "stub.c"),
        _field(10, "CudaDeviceCompile"),
        _field(11, _file("a.ptx", "d")),
        _field(12, "linux-sandbox"),
        _number(8 << 3 | 1) + b"12345678",
        _number(9 << 3 | 5) + b"1234",
        _field(19, _field(1, "k") + _field(2, 300)),
        _field(20, _field(1, _field(1, 1) + _field(2, 250_000_000)) + _field(2, _field(1, 7))),
    ]
)
_EXPECTED = Spawn(
    mnemonic="CudaDeviceCompile",
    key="k",
    runner="linux-sandbox",
    seconds=1.25,
    outputs={"a.ptx": "d", "stub.c": ""},
)
_HIT = _field(12, "disk cache hit") + _field(13, 1) + _field(20, _field(1, _field(1, 3)))
_AGAIN = _field(12, "deduplicated") + _field(20, _field(1, _field(1, 3)))


def test_processes_are_read_one_after_another(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(_log(_HIT, _RAN, _AGAIN, b""))
    expected = [Spawn(runner="disk cache hit"), _EXPECTED, Spawn(runner="deduplicated"), Spawn(seconds=0.0)]
    assert list(read_spawns(log)) == expected
    assert list(read_spawns(tmp_path / "missing")) == []


def test_start_is_told_of_what_ran(tmp_path: Path) -> None:
    log = tmp_path / "log"
    metrics = _field(20, _field(1, _field(1, 3)) + _field(20, _field(1, 1_700_000_000) + _field(2, 500_000_000)))
    log.write_bytes(_log(metrics, _field(12, "disk cache hit") + _field(13, 1) + metrics))
    ran, hit = read_spawns(log)
    assert (ran.start, ran.seconds) == (1_700_000_000.5, 3.0)
    assert (hit.start, hit.seconds) == (None, None)


def test_an_executor_lets_an_action_wait(tmp_path: Path) -> None:
    """It runs when a worker has it, if the executor says when that was."""
    log = tmp_path / "log"
    said = [_field(1, _field(1, 30)), _field(20, _field(1, 1_700_000_000))]
    of_worker = [_field(number, _field(1, seconds)) for number, seconds in ((4, 1), (5, 25), (6, 1), (8, 2), (9, 1))]
    parts = [("remote", [*said, *of_worker]), ("linux-sandbox", [*said, *of_worker]), ("remote", said)]
    log.write_bytes(_log(*(_field(12, runner) + _field(20, b"".join(times)) for runner, times in parts)))
    found = [(spawn.start, spawn.seconds) for spawn in read_spawns(log)]
    assert found == [(1_700_000_025, 4), (1_700_000_000, 30), (1_700_000_000, 30)]


def test_calls_are_told_if_asked_for(tmp_path: Path) -> None:
    log = tmp_path / "log"

    def logged(header: str) -> Call | None:
        files = [
            ("bazel-out/cfg/bin/p/g.objects/a.ii", "1"),
            ("external/torch_2_13/include/a.h", header),
            ("external/torch_2_13/include/b.h", "3"),
            ("p/a.cu", "4"),
        ]
        parts = [_field(1, "cicc"), _field(1, "-O3"), _field(2, _field(1, "PATH") + _field(2, "/none"))]
        log.write_bytes(_log(b"".join([*parts, *(_field(4, _file(*path)) for path in files)])))
        [spawn] = read_spawns(log, calls=True)
        return spawn.call

    call = logged("2")
    assert call is not None
    assert call.command == ("cicc", "-O3")
    assert call.environment == {"PATH": "/none"}
    assert list(call.inputs) == ["p/g.objects/a.ii", "p/a.cu", "torch_2_13"]
    assert (call.inputs["p/g.objects/a.ii"], call.inputs["p/a.cu"]) == ("1", "4")
    assert logged("2") == call
    other = logged("changed")
    assert other is not None
    assert [name for name in call.inputs if call.inputs[name] != other.inputs[name]] == ["torch_2_13"]


def test_a_log_that_was_cut_off_gives_what_is_whole(tmp_path: Path) -> None:
    log, content = tmp_path / "log", _log(_HIT, _RAN)
    for size in range(len(content)):
        log.write_bytes(content[:size])
        found = list(read_spawns(log))
        assert found == ([Spawn(runner="disk cache hit")] if size > len(_HIT) else [])


@given(st.integers(0, 2**31), st.integers(0, 999_999_999), st.text(max_size=300))
def test_numbers_and_texts_of_any_length(
    tmp_path_factory: pytest.TempPathFactory, seconds: int, rest: int, name: str
) -> None:
    log = tmp_path_factory.mktemp("log") / "log"
    log.write_bytes(_log(_field(10, name) + _field(20, _field(1, _field(1, seconds) + _field(2, rest)))))
    assert list(read_spawns(log)) == [Spawn(mnemonic=name, seconds=seconds + rest / 1e9)]
