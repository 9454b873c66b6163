from __future__ import annotations

import io
import time

import pytest

from py_driver.bazel.console import Console, own_diagnostics
from py_driver.errors import Code, Diagnostic, Span
from py_driver.output import Output

_BUILD = """\
Starting local Bazel server and connecting to it...
Computing main repo mapping:
Loading: 0 packages loaded
Analyzing: 2 targets (55 packages loaded, 155 targets configured)

[1 / 2] checking cached actions
[1 / 2] Executing genrule //:g; 0s linux-sandbox
INFO: Analyzed 2 targets (63 packages loaded, 276 targets configured).
INFO: From Compiling a.cc:
a.cc:1:2: warning: #warning hi [-Wcpp]
    1 | #warning hi
      |  ^~~~~~~
[1,204 / 2,007] 3 actions, 2 running
    Compiling relu.cu; 1s local
INFO: Found 2 targets...
Target //:g up-to-date:
  bazel-bin/o
INFO: Elapsed time: 15.511s, Critical Path: 2.10s
INFO: Build completed successfully, 5 total actions
"""

_FAILURE = """\
Analyzing: target //:bad (0 packages loaded, 2 targets configured)
ERROR: /w/BUILD.bazel:5:11: Compiling bad.cc failed: (Exit 1): gcc failed: error executing CppCompile command

Use --sandbox_debug to see verbose messages from the sandbox and retain the sandbox build root for debugging
bad.cc: In function 'int f()':
bad.cc:1:16: error: expected primary-expression before '}' token
    1 | int f(){return }
      |                ^
INFO: Found 1 target...
Target //:bad failed to build
Use --verbose_failures to see the command lines of failed build steps.
ERROR: Build did NOT complete successfully
FAILED:
"""

_TESTS = """\
FAIL: //:ft (see /o/testlogs/ft/test.log)
[10 / 11] 2 / 2 tests, 1 failed; Testing //:ft; 0s linux-sandbox
INFO: Build completed, 1 test FAILED, 6 total actions
INFO:
//:ut                                                    (cached) PASSED in 0.1s
//:ft                                                             FAILED in 0.1s
  /o/testlogs/ft/test.log

Executed 1 out of 2 tests: 1 test passes and 1 fails locally.
There were tests whose specified size is too big. Use the --test_verbose_timeout_warnings command line option.
"""

_FETCH = """\
ERROR: /r/repo.bzl:3:9: An error occurred during the fetch of repository 'cuda':
   Traceback (most recent call last):
\tFile "/r/repo.bzl", line 3, column 9, in _impl
\t\tfail(result.stderr)
Error in fail: error[E301]: the server cannot be reached: a.whl
= help: run `driver fetch` on a machine with a network
ERROR: no such package '@@cuda//': error[E301]: the server cannot be reached: a.whl
= help: run `driver fetch` on a machine with a network
"""


class _Steps:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def update(self, text: str) -> None:
        self.texts.append(text)


def _feed(text: str) -> tuple[Console, list[str], str]:
    err = io.StringIO()
    output = Output(io.StringIO(), err, {})
    steps = _Steps()
    with output.task("t") as task:
        task.update = steps.update  # type: ignore[method-assign]  # every text counts here, not ten a second
        console = Console(output, task)
        for line in text.splitlines():
            console.feed(line)
    return console, steps.texts, err.getvalue().removeprefix("t ...\n")


def test_progress() -> None:
    console, steps, said = _feed(_BUILD)
    assert steps == [
        "computing main repo mapping",
        "loading 0 packages loaded",
        "analyzing 2 targets (55 packages loaded, 155 targets configured)",
        "1 of 2 actions",
        "1 of 2 actions: Executing genrule //:g",
        "1,204 of 2,007 actions",
    ]
    assert console.errors == ()
    assert said == ""


def test_error_is_kept_with_the_compiler_output() -> None:
    console, _, said = _feed(_FAILURE)
    [block] = console.errors
    assert block.startswith("ERROR: /w/BUILD.bazel:5:11: Compiling bad.cc failed")
    assert block.endswith("1 | int f(){return }\n      |                ^")
    assert "sandbox_debug" not in block
    assert said == ""


def test_results_of_tests_are_shown() -> None:
    console, _, said = _feed(_TESTS)
    assert [line.split()[0] for line in said.splitlines()] == ["//:ut", "//:ft", "Executed"]
    assert console.errors == ("FAIL: //:ft (see /o/testlogs/ft/test.log)",)


def test_waiting_for_another_command() -> None:
    _, _, said = _feed("Another command (pid=42) is running. Waiting for it to complete on the server (pid=7)...")
    assert said == "Another Bazel command (process 42) runs in this workspace; waiting for it.\n"


def test_warnings_are_shown_once() -> None:
    _, _, said = _feed("WARNING: x is old\nDEBUG: f.bzl:1:2: hello\nWARNING: x is old\n")
    assert said == "warning: x is old\nf.bzl:1:2: hello\n"


_QUEUED = """\
[16 / 28] [Sched] Hashing a ... (3 actions, 0 running)
[16 / 28] [Sched] Hashing a; 69s remote
[16 / 28] [Sched] Hashing a; 129s remote
"""
_TAKEN = (
    "[17 / 28] [Sched] Hashing a; 69s remote",
    "[16 / 28] [Sched] Hashing a ... (3 actions, 1 running)",
    "[16 / 28] a",
)


@pytest.mark.parametrize("between", ["", *_TAKEN])
@pytest.mark.parametrize("workers", ["", "no worker is free"])
def test_actions_that_no_worker_takes(monkeypatch: pytest.MonkeyPatch, between: str, workers: str) -> None:
    first, *rest = _QUEUED.splitlines()
    err = io.StringIO()
    output = Output(io.StringIO(), err, {})
    with output.task("t") as task:
        console = Console(output, task, workers=workers)
        for second, line in enumerate([first, between, *rest]):
            monkeypatch.setattr(time, "monotonic", lambda now=61.0 * second: now)
            console.feed(line)
    expected = "warning: no action has begun for 122 s: no worker is free\n"
    if between:
        expected = expected.replace("122", "61")
    assert err.getvalue().count("warning") == bool(workers)
    assert not workers or expected in err.getvalue()


def test_full_disk() -> None:
    assert _feed("ERROR: IOException: No space left on device")[0].no_space
    assert not _feed(_FAILURE)[0].no_space


def test_message_of_a_rule_comes_without_its_traceback() -> None:
    text = (
        "ERROR: /w/BUILD.bazel:7:15: in kernel_objects rule //:g: \n"
        "Traceback (most recent call last):\n"
        '\tFile "/w/rules/private/kernel_objects.bzl", line 77, column 28, in _kernel_objects_impl\n'
        "\t\tfail_with(\n"
        "Error in fail: \n"
        "//:g: attribute `includes`: no listed file is below `x`\n"
        "  help: list its headers in `hdrs`\n"
    )
    [block] = _feed(text)[0].errors
    assert "Traceback" not in block
    assert "fail_with" not in block
    assert block.splitlines()[1:] == [
        "//:g: attribute `includes`: no listed file is below `x`",
        "  help: list its headers in `hdrs`",
    ]


def test_line_that_nobody_knows_is_kept() -> None:
    assert _feed("Server terminated abruptly\n\n  log: x\n")[0].errors == ("Server terminated abruptly\n\n  log: x",)


def test_own_errors_come_once() -> None:
    console, _, _ = _feed(_FETCH)
    assert own_diagnostics(console.errors) == (
        Diagnostic(
            code=Code.NO_NETWORK,
            message="the server cannot be reached: a.whl",
            help="run `driver fetch` on a machine with a network",
        ),
    )


def test_own_error_survives_being_printed(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = Diagnostic(
        code=Code.UNKNOWN_KEY,
        message="unknown key `x`",
        span=Span(file="build.toml", line=14, column=3, length=1, text="  x = 1"),
        label="did you mean `y`?",
        help="remove it",
    )
    err = io.StringIO()
    Output(io.StringIO(), err, {}).say(Output(environ={})._render(wanted))  # noqa: SLF001  (the text, not the stream)
    assert own_diagnostics([f"ERROR: x\n{err.getvalue()}"]) == (wanted,)
    assert capsys.readouterr().out == ""


def test_unknown_numbers_are_not_ours() -> None:
    assert own_diagnostics(["error[E999]: no", "error[E0425]: a Rust error"]) == ()
