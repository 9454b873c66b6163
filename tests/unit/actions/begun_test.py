"""What a build did is remembered however it ends: of the actions that ended, and of no others."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest
from spawn_log import field, file, log

from py_driver.actions.begun import Beginning, Log, known_history, remembered
from py_driver.actions.expected import ExpectedAction
from py_driver.actions.history import read_history
from py_driver.actions.phases import TorchHeaders
from py_driver.system.cache import CACHE_VARIABLE

if TYPE_CHECKING:
    from pathlib import Path

_BIN = "bazel-out/k8-ST-1/bin"
_OBJECTS = f"{_BIN}/projects/p/g.objects"
_SOURCES = ("done.cpp", "failed.cpp", "late.cpp")


def _action(source: str) -> ExpectedAction:
    return ExpectedAction(
        variant="v",
        section="g",
        source=source,
        mnemonic="KernelCxxCompile",
        arch=None,
        part="cpu",
        reads=f"now {source}",
        headers=TorchHeaders.NEEDED,
    )


def _spawn(source: str, exit_code: int) -> bytes:
    """As Bazel records a process that ran for 2.5 s."""
    took = field(20, field(1, field(1, 2) + field(2, 500_000_000)))
    made = field(11, file(f"{_OBJECTS}/{source}.o", "d" * 64))
    named = field(10, "KernelCxxCompile") + made + field(12, "linux-sandbox")
    return named + (field(15, exit_code) if exit_code else b"") + field(19, field(1, f"key {source}")) + took


def _run(place: Log) -> None:
    """What Bazel writes of a build in which one action ended well, one failed, and one did not end."""
    place.path.write_bytes(log(_spawn("done.cpp", 0), _spawn("failed.cpp", 1)) + b"\x7fcut off")


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Bazel's output base, where the rules have written what a variant is made of."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    objects = [f"{_OBJECTS}/{source}.o" for source in _SOURCES]
    for configuration in ("ST-1", "ST-2"):
        path = tmp_path / "base" / "execroot" / "_main" / "bazel-out" / f"k8-{configuration}" / "bin" / "projects" / "p"
        path.mkdir(parents=True)
        actions = [value.replace("ST-1", configuration) for value in objects]
        record = {"variant": "v", "directory": f"{_BIN}/projects/p/v".replace("ST-1", configuration), "steps": actions}
        (path / "v.steps.json").write_text(json.dumps(record))
    return tmp_path / "base"


_OTHER = '{"version": 1, "steps": [], "log": "", "base": "", "package": ""}'
_PROJECT = Beginning("p", "projects/p", [_action(source) for source in _SOURCES])


def _expect() -> None:
    """The history has what ended well."""
    [(place, known)] = read_history("p").items()
    assert place == "g|done.cpp|KernelCxxCompile||cpu"
    assert (known.reads, known.key, known.seconds) == (("now done.cpp",), "key done.cpp", 2.5)


@pytest.mark.parametrize("problem", [KeyboardInterrupt, ValueError])
def test_a_build_that_fails_or_is_interrupted(base: Path, problem: type[BaseException]) -> None:
    def build() -> None:
        with remembered([_PROJECT], base) as place:
            _run(place)
            raise problem

    with pytest.raises(problem):
        build()
    _expect()
    assert [path.name for path in (base.parent / "cache" / "history").iterdir()] == ["p.json"]


def test_a_driver_that_is_killed(base: Path) -> None:
    others = [_PROJECT, Beginning("q", "projects/q", [])]
    child = os.fork()
    if child == 0:
        with remembered(others, base) as place:
            _run(place)
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert read_history("p") == {}
    assert [known.seconds for known in known_history("p").values()] == [2.5]
    with remembered([_PROJECT], base) as place:
        _expect()
        assert known_history("p") == read_history("p")
        place.known.add("p")
    _expect()
    assert len(list((base.parent / "cache" / "history").glob("*.log"))) == 1  # that of the other project
    with remembered(others[1:], base):
        pass
    assert sorted(path.name for path in (base.parent / "cache" / "history").iterdir()) == ["p.json"]


@pytest.mark.parametrize(
    "content", ["", "[]", '{"version": 2}', '{"version": 2, "actions": [[]], "log": "", "base": ""}', _OTHER]
)
def test_what_is_none_of_ours_is_ignored(base: Path, content: str) -> None:
    (base.parent / "cache" / "history").mkdir(parents=True)
    (base.parent / "cache" / "history" / "p.begun.json").write_text(content)
    assert known_history("p") == {}


def test_where_nobody_knows_the_outputs(base: Path) -> None:
    with remembered([_PROJECT], None) as place:
        _run(place)
    assert read_history("p") == {}
    assert base.is_dir()
