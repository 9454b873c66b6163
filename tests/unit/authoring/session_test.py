"""A command beside a build: what it sees, its exit code, and how it ends."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sections import CPU, GENERAL, TORCH, make
from watchfiles._rust_notify import WatchfilesRustInternalError

from py_driver.authoring.dev_build import DevBuild, _prune
from py_driver.authoring.session import environment, start, stop, wait
from py_driver.authoring.watch import _built, _changes, _Command, _is_source
from py_driver.errors import Code, DriverError
from py_driver.output import Output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAME = "torch213-cxx11-cpu-x86_64-linux"


@pytest.fixture
def made(tmp_path: Path) -> DevBuild:
    plan = make(tmp_path / "project", GENERAL.replace(', "cuda"', "") + TORCH + CPU)
    path = tmp_path / "project" / ".dev" / "_re_lu_cpu_0" / NAME
    path.mkdir(parents=True)
    (path / "__init__.py").write_text("where = 'here'\n", encoding="utf-8")
    [variant] = [variant for variant in plan.variants if variant.name == NAME]
    return DevBuild(
        directory=tmp_path / "project",
        name="re_lu",
        version=2,
        module="re_lu",
        repositories=("me/re_lu", "kernels-community/re_lu"),
        variant=variant,
        unique_id="_re_lu_cpu_0",
        path=path,
        ran=0,
        seconds=0.0,
    )


def test_what_a_command_sees(made: DevBuild, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_KERNELS", "other/kernel=/there")
    monkeypatch.setenv("PYTHONPATH", "/mine")
    seen = environment(made, sys.executable)
    at = made.path.parent
    assert seen["LOCAL_KERNELS"] == f"other/kernel=/there:me/re_lu={at}:kernels-community/re_lu={at}"
    assert seen["PYTHONPATH"].split(os.pathsep)[-1] == "/mine"
    assert seen["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)
    program = "import re_lu, rules_torch_kernels; print(re_lu.where, rules_torch_kernels.load.__name__)"
    done = subprocess.run([sys.executable, "-c", program], env=seen, capture_output=True, text=True, check=True)
    assert done.stdout == "here load\n"


def test_two_commands_with_the_same_new_build(made: DevBuild, monkeypatch: pytest.MonkeyPatch) -> None:
    first = environment(made, sys.executable)
    monkeypatch.setattr(Path, "is_symlink", lambda _: False)  # as when the other one makes the link after a look
    assert environment(made, sys.executable) == first


def test_two_commands_remove_the_oldest_builds(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"_{number}" / "files").mkdir(parents=True)
        os.utime(tmp_path / f"_{number}", (number, number))
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(_prune, tmp_path, tmp_path / f"_{number}") for number in range(296, 300)]:
            done.result()
    left = {path.name for path in tmp_path.iterdir()}
    assert {f"_{number}" for number in range(296, 300)} <= left
    assert len(left) <= 50


@pytest.mark.parametrize(("program", "code"), [("exit 7", 7), ("kill -9 $$", 137), ("true", 0)])
def test_exit_codes(made: DevBuild, program: str, code: int) -> None:
    assert wait(start(["sh", "-c", program], made, sys.executable)) == code


@pytest.mark.parametrize("word", ["nowhere", "/", str(Path(__file__))])
def test_what_is_no_program(made: DevBuild, word: str) -> None:
    with pytest.raises(DriverError) as caught:
        start([word], made, sys.executable)
    assert caught.value.diagnostics[0].code is Code.SET_UP


def test_a_signal_to_end_is_passed_on(made: DevBuild) -> None:
    before = signal.getsignal(signal.SIGTERM)
    process = start(["sleep", "60"], made, sys.executable)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    assert wait(process) == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("program", ["sleep 60", "trap '' TERM; while :; do sleep 0.1; done"])
def test_a_command_ends_with_all_that_it_started(made: DevBuild, tmp_path: Path, program: str) -> None:
    file = tmp_path / "pid"
    inner = f"echo $$ >{file}; {program}"
    process = start(["sh", "-c", 'sh -c "$0"; true', inner], made, sys.executable, alone=True)
    while not (file.is_file() and file.read_text()):
        time.sleep(0.01)
    stop(process, seconds=0.2)
    assert process.returncode in {-signal.SIGTERM, -signal.SIGKILL}
    end = time.monotonic() + 10
    while _lives(int(file.read_text())):
        assert time.monotonic() < end
        time.sleep(0.01)
    stop(process)


def test_ctrl_c_while_a_command_starts(made: DevBuild, monkeypatch: pytest.MonkeyPatch) -> None:
    started, popen = [], subprocess.Popen

    def interrupted(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401  (as Popen's)
        started.append(popen(*arguments, **options))
        os.kill(os.getpid(), signal.SIGINT)
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start(["sleep", "60"], made, sys.executable, alone=True)
    [process] = started
    assert process.returncode == -signal.SIGTERM


def _lives(pid: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False


def test_a_file_that_vanishes_during_a_build(tmp_path: Path) -> None:
    told = io.StringIO()
    assert _built(lambda _: (tmp_path / "a.cu").read_bytes(), None, Output(err=told)) is None  # type: ignore[arg-type,return-value]
    assert f"{tmp_path}/a.cu has vanished" in told.getvalue()


def test_a_follower_of_an_earlier_run_with_the_same_number(made: DevBuild, tmp_path: Path) -> None:
    followers = tmp_path / "followers"
    followers.mkdir()
    started: list[subprocess.Popen[bytes]] = []

    def run(build: DevBuild) -> subprocess.Popen[bytes]:
        started.append(start(["sleep", "60"], build, sys.executable, alone=True))
        return started[-1]

    command = _Command(followers, run, Output())
    try:
        command.take(made)
        pid = started[0].pid
        (followers / str(pid)).write_text("1")
        command.take(made)
        assert len(started) == 2
        pid = started[1].pid
        about = Path(f"/proc/{pid}/stat").read_text()
        (followers / str(pid)).write_text(about.rpartition(")")[2].split()[19])
        command.take(made)
        assert len(started) == 2
    finally:
        command.end()


def test_sources_are_watched_and_results_are_not() -> None:
    for path, expected in {
        "csrc/a.cu": True,
        "train.py": True,
        "torch-ext/x/data.json": True,
        "results.json": False,
        "log.txt": False,
        ".dev/x/y.py": False,
        "build/x.py": False,
        "": False,
    }.items():
        assert _is_source(Path(path).parts) is expected, path


def test_a_project_that_goes_and_comes_back(tmp_path: Path) -> None:
    seen = _changes(tmp_path / "project")
    assert next(seen) is False
    (tmp_path / "project").mkdir()
    assert next(seen) is True
    (tmp_path / "project").rmdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other").rename(tmp_path / "project")
    _wait_for_a_change(seen)
    time.sleep(0.3)
    (tmp_path / "project" / "a.cu").write_text("x")
    _wait_for_a_change(seen)


def _wait_for_a_change(seen: Iterator[bool]) -> None:
    end = time.monotonic() + 20
    while not next(seen):
        assert time.monotonic() < end


def _copied_in(project: Path) -> None:
    shutil.copytree(project / ".." / "other", project / "copied")


def _moved_in(project: Path) -> None:
    (project / ".." / "other").rename(project / "moved")


def _moved_out(project: Path) -> None:
    (project / "csrc").rename(project / ".." / "out")


def _renamed(project: Path) -> None:
    (project / "csrc").rename(project / "sources")


def _linked_in(project: Path) -> None:
    (project / "linked").symlink_to("../other")


def _made_deep(project: Path) -> None:
    subprocess.run(["sh", "-c", "mkdir -p new/deep/er && echo x >new/deep/er/a.cu"], cwd=project, check=True)


@pytest.mark.parametrize("act", [_copied_in, _moved_in, _moved_out, _renamed, _linked_in, _made_deep])
def test_whole_directories_change(tmp_path: Path, act: Callable[[Path], None]) -> None:
    project = tmp_path / "project"
    for directory in (project / "csrc" / "inner", tmp_path / "other" / "inner"):
        directory.mkdir(parents=True)
        (directory / "a.cu").write_text("x")
    seen = _changes(project)
    assert next(seen) is True
    _settle(seen)
    act(project)
    _wait_for_a_change(seen)
    _settle(seen)
    for found in project.rglob("a.cu"):
        found.write_text("y")
        _wait_for_a_change(seen)


def test_the_target_of_a_link_changes(tmp_path: Path) -> None:
    (tmp_path / "common.cuh").write_text("x")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "common.cuh").symlink_to("../common.cuh")
    seen = _changes(tmp_path / "project")
    assert next(seen) is True
    _settle(seen)
    (tmp_path / "common.cuh").write_text("more")
    _wait_for_a_change(seen)
    _settle(seen)
    (tmp_path / "common.cuh").unlink()
    _wait_for_a_change(seen)
    _settle(seen)
    (tmp_path / "common.cuh").write_text("again")
    _wait_for_a_change(seen)


@pytest.mark.parametrize("problem", [OSError("OS file watch limit reached"), WatchfilesRustInternalError("too many")])
def test_a_system_without_free_watches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception) -> None:
    def refused(*_: object, **__: object) -> Iterator[set[Any]]:
        raise problem

    monkeypatch.setattr("watchfiles.watch", refused)
    monkeypatch.setattr("py_driver.authoring.watch._POLL_SECONDS", 0.05)
    (tmp_path / "a.cu").write_text("x")
    seen = _changes(tmp_path)
    assert next(seen) is True
    _settle(seen)
    (tmp_path / "a.cu").write_text("more")
    _wait_for_a_change(seen)
    _settle(seen)


def test_directories_without_sources_change_nothing(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "a.cu").write_text("x")
    seen = _changes(tmp_path)
    assert next(seen) is True
    _settle(seen)
    for directory in ("results/first", ".git/objects/00", "build/torch-cpu", "pkg/__pycache__", ".dev/id"):
        (tmp_path / directory).mkdir(parents=True)
        (tmp_path / directory / "out.txt").write_text("x")
    (tmp_path / "results").rename(tmp_path / "old")
    (tmp_path / "build" / "torch-cpu" / "x.py").write_text("x")
    assert not any(next(seen) for _ in range(10))


def _settle(seen: Iterator[bool]) -> None:
    """Let what was just written be told."""
    quiet = 0
    while quiet < 5:
        quiet = 0 if next(seen) else quiet + 1
