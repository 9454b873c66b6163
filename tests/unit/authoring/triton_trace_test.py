"""What Triton compiled while a command ran, and the aot.toml that lists it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tree import write_files

from py_driver.__main__ import main
from py_driver.authoring.triton_trace import RECORDER, Call, ahead_text, listed, read_trace, recording
from py_driver.matrix.releases import Releases
from py_driver.plan.project import Project, load

if TYPE_CHECKING:
    from pathlib import Path

BUILD = """[general]
name = "kernel-of-mine"
version = 1
edition = 5
license = "mit"
backends = ["cuda"]

[torch-noarch]
"""
KERNELS = """import triton
import triton.language as tl


@triton.jit
def forward(out, x, count, scale, FAST: tl.constexpr, BLOCK: tl.constexpr):
    pass
"""
PACKAGE = "torch-ext/kernel_of_mine"


def _project(directory: Path, **files: str) -> Project:
    own = {f"{PACKAGE}/__init__.py": "", f"{PACKAGE}/kernels.py": KERNELS}
    write_files(directory, {"build.toml": BUILD, **own, **{f"{name}.toml": text for name, text in files.items()}})
    return load(directory, Releases())


def _record(file: Path, **changes: object) -> dict[str, Any]:
    types = {"out": "*fp16", "x": "*fp16", "count": "i32", "scale": "fp32"}
    options = {"num_warps": 8, "num_stages": 3, "num_ctas": 1, "maxnreg": None}
    return {
        "file": str(file),
        "function": "forward",
        "signature": types | dict.fromkeys(("FAST", "BLOCK"), "constexpr"),
        "constants": {"FAST": True, "BLOCK": 64},
        "aligned": ["out", "count"],
        "options": options,
        **changes,
    }


def _log(directory: Path, *records: dict[str, Any]) -> Path:
    path = directory / "trace.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def test_a_compile_is_listed_as_it_was_called(tmp_path: Path) -> None:
    project = _project(tmp_path)
    built = tmp_path / "elsewhere.py"  # as in a variant
    built.write_text(KERNELS)
    one = _record(built, signature={**_record(built)["signature"], "count": "constexpr", "scale": "constexpr"})
    one["constants"] |= {"count": 1, "scale": None, "BLOCK": {"constexpr": 64}}
    one["aligned"] = []
    trace = read_trace(_log(tmp_path, _record(built), one, _record(built)), project)
    config = (("FAST", True), ("BLOCK", 64), ("num_warps", 8))
    assert trace.calls == (
        Call("kernels.forward", (("out", "*fp16:16"), ("x", "*fp16"), ("count", "i32:16"), ("scale", "fp32")), config),
        Call("kernels.forward", (("out", "*fp16"), ("x", "*fp16"), ("count", "1"), ("scale", "None")), config),
    )
    assert (trace.left, trace.others, trace.tuned) == ((), 0, ())


def test_functions_of_others_and_arguments_without_a_spelling_are_left(tmp_path: Path) -> None:
    project = _project(tmp_path)
    other = tmp_path / "other.py"
    other.write_text("# another package\n")
    kernels = tmp_path / PACKAGE / "kernels.py"
    tuple_ = _record(kernels, signature={**_record(kernels)["signature"], "x": ["*fp16", "i32"]})
    log = _log(tmp_path, _record(other), _record(tmp_path / "vanished.py"), tuple_, _record(kernels, unknown=True))
    trace = read_trace(log, project)
    assert (trace.calls, trace.left, trace.others) == ((), ("kernels.forward",), 2)


@pytest.mark.parametrize(
    ("value", "is_listed"),
    [({"jit_function": "m:f"}, False), ({"constexpr": True}, False), (1.0, False), ([1], False), (1, True)],
    ids=str,
)
def test_an_argument_that_is_a_constant_is_listed_only_if_it_is_1_or_none(
    tmp_path: Path,
    value: object,
    is_listed: bool,  # noqa: FBT001
) -> None:
    project = _project(tmp_path)
    record = _record(tmp_path / PACKAGE / "kernels.py", aligned=[])
    record["signature"]["count"] = "constexpr"
    record["constants"]["count"] = value
    trace = read_trace(_log(tmp_path, record), project)
    assert [dict(call.signature)["count"] for call in trace.calls] == ["1"] * is_listed
    assert bool(trace.left) is not is_listed


def test_a_tensor_of_booleans_is_listed(tmp_path: Path) -> None:
    project = _project(tmp_path)
    record = _record(tmp_path / PACKAGE / "kernels.py", aligned=["x"])
    record["signature"]["x"] = "*u1"
    [call] = read_trace(_log(tmp_path, record), project).calls
    assert dict(call.signature)["x"] == "*i1:16"


def test_a_function_that_is_defined_with_other_parameters_too_is_left(tmp_path: Path) -> None:
    text = f"{KERNELS}\n\nif triton.is_new:\n    @triton.jit\n    def forward(out):\n        pass\n"
    write_files(tmp_path, {"build.toml": BUILD, f"{PACKAGE}/__init__.py": "", f"{PACKAGE}/kernels.py": text})
    trace = read_trace(_log(tmp_path, _record(tmp_path / PACKAGE / "kernels.py")), load(tmp_path, Releases()))
    assert (trace.calls, trace.left) == ((), ("kernels.forward",))


@pytest.mark.parametrize(
    ("default", "value", "is_listed"),
    [("", None, False), (" = True", None, False), (" = None", None, True), ("", float("inf"), False), ("", 1.5, True)],
    ids=str,
)
def test_a_constant_that_toml_cannot_say_is_left(
    tmp_path: Path,
    default: str,
    value: float | None,
    is_listed: bool,  # noqa: FBT001
) -> None:
    text = KERNELS.replace(
        ", FAST: tl.constexpr, BLOCK: tl.constexpr", f", BLOCK: tl.constexpr, FAST: tl.constexpr{default}"
    )
    write_files(tmp_path, {f"{PACKAGE}/kernels.py": text, f"{PACKAGE}/__init__.py": "", "build.toml": BUILD})
    project = load(tmp_path, Releases())
    record = _record(tmp_path / PACKAGE / "kernels.py", constants={"FAST": value, "BLOCK": 64})
    trace = read_trace(_log(tmp_path, record), project)
    assert bool(trace.calls) is is_listed
    assert bool(trace.left) is not is_listed


def test_a_function_with_heuristics_is_left(tmp_path: Path) -> None:
    project = _project(tmp_path)
    kernels = tmp_path / PACKAGE / "kernels.py"
    decided = {"file": str(kernels), "function": "forward", "decided": ["FAST"]}
    trace = read_trace(_log(tmp_path, decided, _record(kernels)), project)
    assert (trace.calls, trace.left, trace.others) == ((), ("kernels.forward",), 0)


@pytest.mark.parametrize("text", ["\u00e9\u4e2d", "\U0001f600", '"\\\n\t', "\x7f\x01"], ids=ascii)
def test_a_text_is_read_as_it_was(tmp_path: Path, text: str) -> None:
    project = _project(tmp_path)
    record = _record(tmp_path / PACKAGE / "kernels.py", constants={"FAST": text, "BLOCK": 64})
    calls = read_trace(_log(tmp_path, record), project).calls
    assert [dict(call.config)["FAST"] for call in listed(_project(tmp_path, aot=ahead_text(calls, project)))] == [text]


def test_of_an_autotuned_function_the_chosen_configuration_is_listed(tmp_path: Path) -> None:
    project = _project(tmp_path)
    kernels = tmp_path / PACKAGE / "kernels.py"
    tried = [_record(kernels, constants={"FAST": True, "BLOCK": block}) for block in (64, 128, 256)]
    chosen = {"file": str(kernels), "function": "forward", "chosen": {"BLOCK": 128, "num_warps": 8, "num_stages": 3}}
    trace = read_trace(_log(tmp_path, *tried, chosen), project)
    assert [dict(call.config)["BLOCK"] for call in trace.calls] == [128]
    assert trace.tuned == ("kernels.forward",)


def test_the_list_is_read_as_what_was_recorded(tmp_path: Path) -> None:
    project = _project(tmp_path)
    kernels = tmp_path / PACKAGE / "kernels.py"
    options = {"num_warps": 4, "num_stages": 2, "num_ctas": 1, "maxnreg": 128}
    records = [
        _record(kernels),
        _record(kernels, aligned=[]),
        _record(kernels, options=options),
        _record(kernels, aligned=["x"], constants={"FAST": False, "BLOCK": 32}),
    ]
    calls = read_trace(_log(tmp_path, *records), project).calls
    again = _project(tmp_path, aot=ahead_text(calls, project))
    assert {call.key for call in listed(again)} == {call.key for call in calls}
    [target] = again.triton
    assert len(target.requests) == len(calls) == len(records)


def test_what_the_file_says_besides_is_kept(tmp_path: Path) -> None:
    head = 'triton = "3.6"\ncapabilities = ["9.0"]\nstrict = true\n'
    kernel = '[kernel.f]\nfunction = "kernels.forward"\nconfigs = [{ FAST = true, BLOCK = 64 }]\n'
    types = 'signatures = [{ out = "*fp16", x = "*fp16", count = "i32", scale = "fp32" }]\n'
    write_files(tmp_path, {"configs/gpu.json": '{"16": {"BLOCK": 16, "FAST": true}}'})
    project = _project(tmp_path, aot=f'{head}{kernel}tuned = "configs"\n{types}')
    assert len(project.triton[0].requests) == 2
    text = ahead_text(listed(project), project)
    again = _project(tmp_path, aot=text)
    assert again.triton == project.triton


def test_there_is_something_to_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _project(tmp_path)
    assert main(["trace", str(tmp_path)]) == 2
    assert "there is no command to record" in capsys.readouterr().err


def test_python_records_only_if_asked_and_runs_another_module_of_the_name(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.is_mine = True\n")
    code = "import sys; print(sys.is_mine, [type(finder).__name__ for finder in sys.meta_path][:1])"

    def out(environ: dict[str, str]) -> str:
        words = [sys.executable, "-c", code]
        return subprocess.run(words, env=environ, capture_output=True, text=True, check=True).stdout.strip()

    environ = recording({"PYTHONPATH": str(tmp_path)}, tmp_path / "log")
    assert environ["PYTHONPATH"].split(":")[0] == str(RECORDER)
    assert out(environ) == "True ['_Finder']"
    del environ["RULES_TORCH_KERNELS_TRACE"]
    assert out(environ).startswith("True [")
    assert "_Finder" not in out(environ)
