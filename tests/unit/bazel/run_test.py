from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from clone import make_cache

from py_driver.bazel.events import Events, read_events
from py_driver.bazel.find import Bazel, Source
from py_driver.bazel.run import Explained, run
from py_driver.bazel.spawns import options as log_options
from py_driver.bazel.spawns import read_spawns
from py_driver.cli.bazel import workspace_root
from py_driver.errors import Code, Diagnostic, DriverError, ExitCode
from py_driver.output import Output
from py_driver.system.cache import cache_root
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ROOT = Path(__file__).parents[3]


@pytest.fixture
def bazel(tmp_path: Path) -> Callable[[str], Bazel]:
    def write(script: str) -> Bazel:
        path = tmp_path / "bazel"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return Bazel(path=path, version="7.7.1", source=Source.PATH, startup=("--startup",))

    return write


def _output() -> tuple[Output, io.StringIO]:
    err = io.StringIO()
    return Output(io.StringIO(), err, {}), err


def test_workspace_with_the_hermetic_sandbox_gets_the_c_library_alone(
    bazel: Callable[[str], Bazel], tmp_path: Path
) -> None:
    shutil.copy(_ROOT / ".bazelrc", tmp_path)
    done = run(bazel('echo "$@"'), ["query", "//:all"], tmp_path, _output()[0])
    assert re.match(r"--startup --bazelrc=\S+/sandbox/\w+/bazelrc query ", done.stdout)


@pytest.mark.parametrize("marked", [False, True])
def test_a_build_there_finds_toolchains_where_they_are_unpacked(
    bazel: Callable[[str], Bazel], tmp_path: Path, *, marked: bool
) -> None:
    """The place is where Bazel has written whose it is, or else what Bazel says."""
    shutil.copy(_ROOT / ".bazelrc", tmp_path)
    root, asked = tmp_path / "root", tmp_path / "asked"
    usual = root / hashlib.md5(os.fsencode(tmp_path.resolve()), usedforsecurity=False).hexdigest()
    usual.mkdir(parents=True)
    (usual / "DO_NOT_BUILD_HERE").write_bytes(os.fsencode(tmp_path.resolve()) if marked else b"/elsewhere")
    told = bazel(f'case "$*" in *"info output_base") echo {asked};; *) echo "$@";; esac')
    done = run(replace(told, startup=(f"--output_user_root={root}",)), ["build", "//:all"], tmp_path, _output()[0])
    assert f" --sandbox_add_mount_pair={usual if marked else asked}/external:/mnt //:all" in done.stdout


@pytest.mark.parametrize("answer", ["exit 2", "exit 0", "echo nowhere"])
def test_build_without_known_output_base(bazel: Callable[[str], Bazel], tmp_path: Path, answer: str) -> None:
    shutil.copy(_ROOT / ".bazelrc", tmp_path)
    silent = bazel(f'case "$*" in *"info output_base") {answer};; *) echo "$@";; esac')
    told = replace(silent, startup=(f"--output_user_root={tmp_path / 'root'}",))
    done = run(told, ["build", "//:all"], tmp_path, _output()[0])
    assert done.stdout.endswith(" //:all\n")
    assert "/mnt" not in done.stdout
    assert not (tmp_path / "external").exists()


def test_command_line_and_standard_output(bazel: Callable[[str], Bazel], tmp_path: Path) -> None:
    done = run(bazel('echo "$@"; pwd; echo "$X"'), ["query", "//:all"], tmp_path, _output()[0], env={"X": "1"})
    args, where, value = done.stdout.splitlines()
    first, *options, last = args.split()
    assert (first, options[0], last) == ("--startup", "query", "//:all")
    assert {"--color=no", "--curses=no"} <= set(options)
    assert where == os.path.realpath(tmp_path)
    assert value == "1"
    assert done.failure is None


@pytest.mark.parametrize(
    ("exit_code", "code"),
    [
        (1, Code.BUILD_FAILED),
        (2, Code.USAGE),
        (3, Code.BUILD_FAILED),
        (8, Code.INTERRUPTED),
        (33, Code.SET_UP),
        (36, Code.SET_UP),
        (37, Code.SET_UP),
        (38, Code.NO_NETWORK),
        (99, Code.SET_UP),
    ],
)
def test_exit_codes(bazel: Callable[[str], Bazel], tmp_path: Path, exit_code: int, code: Code) -> None:
    output, err = _output()
    with pytest.raises(DriverError) as caught:
        run(bazel(f"echo 'ERROR: it broke' >&2; exit {exit_code}"), ["build"], tmp_path, output)
    assert caught.value.diagnostics[0].code is code
    assert "ERROR: it broke\n" in err.getvalue()


def test_failure_can_be_returned(bazel: Callable[[str], Bazel], tmp_path: Path) -> None:
    done = run(bazel("exit 3"), ["test"], tmp_path, _output()[0], check=False)
    assert done.failure is not None
    assert done.failure.exit_code is ExitCode.BUILD


def test_an_executor_without_a_worker(bazel: Callable[[str], Bazel], tmp_path: Path) -> None:
    output, err = _output()
    script = (
        "echo 'ERROR: a: Remote Execution Failure:' >&2; echo 'Operation has been queued for too long' >&2; exit 34"
    )
    with pytest.raises(DriverError) as caught:
        run(bazel(script), ["build"], tmp_path, output)
    [found] = caught.value.diagnostics
    assert (found.code, found.message) == (Code.NO_NETWORK, "no worker of the executor accepts an action")
    assert "[remote.exec-properties]" in found.help
    assert "queued for too long" in err.getvalue()


def test_a_long_error_of_a_server_is_cut(bazel: Callable[[str], Bazel], tmp_path: Path) -> None:
    output, err = _output()
    script = "(echo ERROR: a; seq 2000) >&2; exit 34"
    with pytest.raises(DriverError):
        run(bazel(script), ["build"], tmp_path, output)
    assert err.getvalue().splitlines()[1:] == ["ERROR: a", *"12345", "  and 1,995 more lines"]


def test_killed(bazel: Callable[[str], Bazel], tmp_path: Path) -> None:
    with pytest.raises(DriverError, match="ended by signal 9"):
        run(bazel("kill -9 $$"), ["build"], tmp_path, _output()[0])


def test_full_disk(bazel: Callable[[str], Bazel], tmp_path: Path) -> None:
    with pytest.raises(DriverError) as caught:
        run(bazel("echo 'ERROR: x: No space left on device' >&2; exit 1"), ["build"], tmp_path, _output()[0])
    assert caught.value.diagnostics[0].code is Code.NO_SPACE


def test_own_error_alone_is_reported(bazel: Callable[[str], Bazel], tmp_path: Path) -> None:
    output, err = _output()
    script = "printf 'ERROR: fetch:\\nError in fail: error[E301]: no network\\n = help: get one\\n' >&2; exit 1"
    with pytest.raises(DriverError) as caught:
        run(bazel(script), ["build"], tmp_path, output)
    [diagnostic] = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.help) == (Code.NO_NETWORK, "get one")
    assert "ERROR" not in err.getvalue()


def test_program_that_is_gone(bazel: Callable[[str], Bazel], tmp_path: Path) -> None:
    program = bazel("exit 0")
    program.path.unlink()
    with pytest.raises(DriverError) as caught:
        run(program, ["build"], tmp_path, _output()[0])
    assert caught.value.diagnostics[0].code is Code.NO_BAZEL


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("presses", "script", "told"),
    [
        (1, "trap 'echo INT >> told; exit 8' INT; echo > up; while :; do sleep 0.05; done", "INT\n"),
        (
            2,
            "trap 'echo INT >> told' INT; trap 'echo TERM >> told; exit 8' TERM; echo > up; while :; do sleep .1; done",
            "INT\nTERM\n",
        ),
    ],
)
def test_ctrl_c(bazel: Callable[[str], Bazel], tmp_path: Path, presses: int, script: str, told: str) -> None:
    def press() -> None:
        _wait_for(tmp_path / "up")
        for _ in range(presses):
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run(bazel(script), ["build"], tmp_path, _output()[0])
    thread.join()
    assert (tmp_path / "told").read_text() == told


def test_ctrl_c_while_bazel_starts(bazel: Callable[[str], Bazel], tmp_path: Path) -> None:
    program = bazel("kill -INT $PPID; trap 'exit 8' INT; while :; do sleep .01; done")
    for _ in range(20):  # the signal comes before or after the driver knows that the program runs
        with pytest.raises(KeyboardInterrupt):
            run(program, ["build"], tmp_path, _output()[0])


@pytest.mark.timeout(200)
@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGHUP], ids=["term", "hup"])
def test_driver_that_ignores_ctrl_c_ends_with_its_bazel(
    bazel: Callable[[str], Bazel], tmp_path: Path, told: signal.Signals
) -> None:
    """As it is in the background of a shell's script."""
    answer, up = 'test "$1" = --version && echo "bazel 7.7.1" && exit\ntest "$1" = info && exit 1', tmp_path / "up"
    program = bazel(f"{answer}\necho $$ > {up}\nwhile :; do sleep .05; done")
    project = shutil.copytree(_ROOT / "tests" / "e2e" / "projects" / "universal", tmp_path / "project")
    background = ["env", "--ignore-signal=INT", "--default-signal=TERM,HUP"]
    cache = make_cache(tmp_path / "cache", {"store": cache_root() / "store"})
    own = {"RULES_TORCH_KERNELS_BAZEL": str(program.path), "RULES_TORCH_KERNELS_CACHE": str(cache)}
    with subprocess.Popen(
        [*background, sys.executable, "-m", "py_driver", "build", str(project)],
        cwd=_ROOT,
        env={**os.environ, **own},
        stderr=subprocess.PIPE,
        text=True,
    ) as driver:
        _wait_for(up)
        driver.send_signal(told)
        _, said = driver.communicate(timeout=60)
    assert (driver.returncode, said.splitlines()[-1]) == (ExitCode.INTERRUPT, "interrupted")
    process = Path("/proc", up.read_text().strip())
    for _ in range(50):  # whoever inherits a process that has ended may take a moment to ask for it
        if not process.exists():
            break
        time.sleep(0.1)
    assert not process.exists()


def test_exec_replaces_the_process(bazel: Callable[[str], Bazel], tmp_path: Path) -> None:
    program = bazel('echo "$@" $$; cat; exit 7')
    code = (
        "import os, pathlib; print(os.getpid(), flush=True);"
        "from py_driver.bazel.find import Bazel, Source; from py_driver.bazel.run import exec_bazel;"
        f"b = Bazel(path=pathlib.Path({str(program.path)!r}), version='7', source=Source.PATH);"
        f"exec_bazel(b, ['info', 'x'], pathlib.Path({str(tmp_path)!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input="in", capture_output=True, text=True, check=False, cwd=_ROOT
    )
    first, second = done.stdout.splitlines()[:2], done.stdout.splitlines()[-1]
    assert first[1] == f"info x {first[0]}"
    assert second == "in"
    assert done.returncode == 7


def test_workspace_root(tmp_path: Path) -> None:
    (tmp_path / "MODULE.bazel").touch()
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert workspace_root(inner) == tmp_path
    (tmp_path / "MODULE.bazel").unlink()
    with pytest.raises(DriverError, match=r"MODULE\.bazel"):
        workspace_root(inner)


def test_curated_environment() -> None:
    environ = {"PATH": "p", "PIP_CERT": "c", "HTTP_PROXY": "h", "LD_PRELOAD": "no", "PYTHONPATH": "no"}
    assert curated(environ, {"A": "1"}) == {"A": "1", "HTTP_PROXY": "h", "PATH": "p", "PIP_CERT": "c"}


def test_events(tmp_path: Path) -> None:
    def completed(label: str, **content: object) -> dict[str, object]:
        return {"id": {"targetCompleted": {"label": label}}, "completed": content}

    events = [
        {"id": {"namedSet": {"id": "0"}}, "namedSetOfFiles": {"files": [{"uri": "file:///o/a%20b"}]}},
        {
            "id": {"namedSet": {"id": "1"}},
            "namedSetOfFiles": {"files": [{"uri": "file:///o/c"}, {"uri": "x://y"}], "fileSets": [{"id": "0"}]},
        },
        completed("//:good", success=True, outputGroup=[{"name": "default", "fileSets": [{"id": "1"}, {"id": "0"}]}]),
        completed("//:bad"),
        {"id": {"testSummary": {"label": "//:t"}}, "testSummary": {"overallStatus": "FAILED"}},
        {"id": {"testSummary": {"label": "//:u"}}, "testSummary": {"overallStatus": "PASSED"}},
    ]
    path = tmp_path / "events"
    path.write_text("\n".join([*map(json.dumps, events), '{"id": {"half']))
    read = read_events(path)
    assert read.failed == ("//:bad", "//:t")
    assert read.outputs == {"//:good": (Path("/o/c"), Path("/o/a b"))}
    assert read_events(tmp_path / "none") == Events()


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        (["--", "run", "-c", "opt", "//x", "--", "-v"], "run -c opt //x -- -v"),
        (["--", "--version"], "--version"),
        (["build", "--keep_going", "//..."], "build --keep_going //..."),
    ],
)
def test_verb_passes_everything_on(
    bazel: Callable[[str], Bazel], tmp_path: Path, arguments: list[str], passed: str
) -> None:
    program = bazel('test "$1" = --version && echo "bazel 7.7.1"; echo "got $*"')
    (tmp_path / "MODULE.bazel").touch()
    code = (
        f"import argparse, sys; sys.path.insert(0, {str(_ROOT)!r});"
        "from py_driver.cli import bazel; from py_driver.output import Output;"
        "parser = argparse.ArgumentParser(); bazel.add(parser.add_subparsers());"
        "sys.exit(bazel.run(parser.parse_args(sys.argv[1:]), Output()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "bazel", *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "RULES_TORCH_KERNELS_BAZEL": str(program.path)},
    )
    assert done.stdout.splitlines()[-1] == f"got {passed}"


def test_whoever_built_explains_what_failed(bazel: Callable[[str], Bazel], tmp_path: Path) -> None:
    output, err = _output()
    script = "printf 'ERROR: it broke\\nERROR: error[E402]: bad\\nERROR: error[E307]: odd\\n' >&2; exit 1"
    told = Diagnostic(code=Code.NOT_COMPLIANT, message="bad", text="error[E402]: bad")
    seen: list[object] = []

    def explain(_events: Events, blocks: Sequence[str]) -> Explained:
        seen.extend(blocks)
        return Explained(errors=(told,), summary="the build failed: a", help="look")

    with pytest.raises(DriverError) as caught:
        run(bazel(script), ["build"], tmp_path, output, explain=explain)
    assert [
        (diagnostic.code.number, diagnostic.message, diagnostic.help) for diagnostic in caught.value.diagnostics
    ] == [
        ("E402", "bad", ""),
        ("E401", "the build failed: a", "look"),
        ("E307", "odd", ""),
    ]
    assert seen == ["ERROR: it broke", "ERROR: error[E402]: bad", "ERROR: error[E307]: odd"]
    assert "ERROR" not in err.getvalue()
    with pytest.raises(DriverError):
        run(bazel(script.replace("it broke", "No space left on device")), ["build"], tmp_path, output, explain=explain)
    assert "ERROR: No space left on device\n" in err.getvalue()


_TWICE = """
for word; do
  case $word in
    --build_event_json_file=*) events=${word#*=} ;;
    --execution_log_binary_file=*) log=${word#*=} ;;
  esac
done
echo "$@" >>calls
number=$(wc -l <calls)
cat >"$events" <<end
{"id":{"actionCompleted":{"primaryOutput":"made-$number.o"}},"action":{"success":true,"type":"X","commandLine":["x"]}}
{"id":{"targetCompleted":{"label":"//:a"}},"completed":{"success":$([ $number -gt LOST ] && echo true || echo false)}}
end
printf '\\003R\\001%s' $number >"$log"
[ $number -gt LOST ] || exit CODE
"""
"""Loses a result some times; field 10 of its log's record is the number of the call."""


@pytest.mark.parametrize(
    ("exit_code", "retries", "lost"), [(39, 5, 0), (39, 5, 1), (39, 5, 2), (39, 5, 6), (37, 1, 1), (37, 1, 2)]
)
def test_a_build_is_tried_again_after_a_cache_lost_a_result_or_bazel_crashed(
    bazel: Callable[[str], Bazel], tmp_path: Path, exit_code: int, retries: int, lost: int
) -> None:
    """What it did each time counts; Bazel, which would forget that, does not try again by itself."""
    output, err = _output()
    log = tmp_path / "spawns.bin"
    args = ["build", *log_options(log), "//:a"]
    script = _TWICE.replace("LOST", str(lost)).replace("CODE", str(exit_code))
    done = run(bazel(script), args, tmp_path, output, check=False)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == min(lost, retries) + 1
    assert all("--experimental_remote_cache_eviction_retries=0" in call for call in calls)
    assert err.getvalue().count("trying again") == min(lost, retries)
    assert [*done.events.completed] == [f"made-{number + 1}.o" for number in range(len(calls))]
    assert done.events.failed == (("//:a",) if lost > retries else ())
    assert (done.failure is None) is (lost <= retries)
    assert [spawn.mnemonic for spawn in read_spawns(log)] == [str(number + 1) for number in range(len(calls))]
