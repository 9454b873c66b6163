"""The command line as a user meets it: every error's whole output, generating, checking, listing."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from py_driver import __main__, cli
from py_driver.errors import Code, DriverError
from py_driver.output import Output
from py_driver.plan.buildfile import HEADER

if TYPE_CHECKING:
    import argparse

ROOT = Path(__file__).parents[3]
INVALID = sorted(path for path in (ROOT / "tests" / "invalid").iterdir() if path.is_dir())

MANIFEST = """\
[general]
name = "relu"
version = 1
edition = 5
license = "apache-2.0"
backends = ["cpu", "cuda", "xpu"]

[torch]
src = ["torch-ext/binding.cpp"]

[kernel.relu_cuda]
backend = "cuda"
depends = ["torch"]
src = ["csrc/relu.cu"]
cuda-capabilities = ["7.0", "8.0"]

[kernel.relu_cpu]
backend = "cpu"
depends = ["torch"]
src = ["csrc/relu.cpp"]
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("torch-ext/relu/__init__.py", "torch-ext/binding.cpp", "csrc/relu.cu", "csrc/relu.cpp"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "torch-ext/binding.cpp").write_text("REGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n", encoding="utf-8")
    (tmp_path / "build.toml").write_text(MANIFEST, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("FORCE_COLOR", "DRIVER_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize("directory", INVALID, ids=lambda path: path.name)
def test_invalid_project(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / directory.name
    shutil.copytree(directory, copy, symlinks=True)
    monkeypatch.chdir(copy)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    arguments = copy / "arguments.txt"
    words = arguments.read_text(encoding="utf-8").split() if arguments.exists() else ["check"]
    before = {path: path.read_bytes() for path in copy.rglob("BUILD*") if path.is_file()}
    status = __main__.main(words)
    actual = capsys.readouterr().err
    expected = directory / "expected.txt"
    if os.environ.get("UPDATE_EXPECTED") == "1":
        expected.write_text(actual, encoding="utf-8")
    assert actual == expected.read_text(encoding="utf-8")
    number = directory.name.partition("-")[0]
    assert f"error[{number}]" in actual
    assert status == next(code.exit_code for code in Code if code.number == number)
    assert {path: path.read_bytes() for path in copy.rglob("BUILD*") if path.is_file()} == before


@pytest.mark.parametrize("directory", INVALID, ids=lambda path: path.name)
def test_annotations_change_nothing_but_stdout(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".git").mkdir()
    copy = tmp_path / "k" / directory.name
    shutil.copytree(directory, copy, symlinks=True)
    monkeypatch.chdir(tmp_path / "k")
    plain = __main__.main(["check", directory.name]), capsys.readouterr()
    status, printed = __main__.main(["check", directory.name, "--annotations", "github"]), capsys.readouterr()
    assert (status, printed.err) == (plain[0], plain[1].err)
    assert plain[1].out == ""
    count = len(re.findall(r"^(error\[|note: )", printed.err, re.MULTILINE))
    lines = printed.out.splitlines()
    assert len(lines) == count
    place = rf"file=k/{directory.name}/[^,:]+,line=\d+,col=\d+"
    assert [
        line for line in lines if not re.match(rf"::(error|warning|notice) (?:{place})?,?(?:title=E\d+)?::.", line)
    ] == []


def test_annotations_are_no_json(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("check", "build"):
        assert __main__.main([command, str(project), "--json", "--annotations", "github"]) == Code.USAGE.exit_code
        assert "argument --annotations: not allowed with argument --json" in capsys.readouterr().err


def test_fix_needs_headers(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["check", str(project), "--fix"]) == Code.USAGE.exit_code
    assert "write `driver check --headers --fix`" in capsys.readouterr().err


def test_gen_writes_once_and_checks(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["gen"]) == 0
    path = project / "BUILD.bazel"
    text = path.read_text(encoding="utf-8")
    assert text.startswith(HEADER)
    stamp = path.stat().st_mtime_ns
    assert __main__.main(["gen", "--check"]) == 0
    assert __main__.main(["gen"]) == 0
    assert path.stat().st_mtime_ns == stamp
    assert sorted(path.name for path in project.iterdir()) == ["BUILD.bazel", "build.toml", "csrc", "torch-ext"]
    path.write_text(text.replace("8.0", "9.0"), encoding="utf-8")
    capsys.readouterr()
    assert __main__.main(["gen", "--check"]) == 1
    captured = capsys.readouterr()
    assert '-        "cu130": ["9.0"],' in captured.out
    assert '+        "cu130": ["8.0"],' in captured.out
    assert "error[E106]" in captured.err
    assert __main__.main(["gen"]) == 0
    assert path.read_text(encoding="utf-8") == text


def test_gen_names_files_as_the_user_does(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "build.toml").write_text("[general\n", encoding="utf-8")
    assert __main__.main(["gen", f"../{project.name}"]) == 2
    assert f"--> ../{project.name}/build.toml:1:" in capsys.readouterr().err


def test_gen_says_what_it_leaves_out(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["gen", "."]) == 0
    assert (
        "note: build.toml:6:28: the backend `xpu` is excluded: the driver does not build it" in capsys.readouterr().err
    )
    assert (project / "BUILD.bazel").stat().st_mode & 0o600 == 0o600


def test_gen_cannot_write(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(_self: Path, _target: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", refuse)
    assert __main__.main(["gen"]) == 4
    assert "error[E309]: cannot write BUILD.bazel: Permission denied" in capsys.readouterr().err
    assert sorted(path.name for path in project.iterdir()) == ["build.toml", "csrc", "torch-ext"]


def test_variants_as_json(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["variants", "--json", str(project)]) == 0
    answer = json.loads(capsys.readouterr().out)
    variants = {variant["variant"]: variant for variant in answer["variants"]}
    variant = variants["torch213-cxx11-cu130-x86_64-linux"]
    assert variant["archs"] == ["8.0"]
    (section,) = variant["sections"]
    assert (section["section"], section["requested"], section["kept"]) == ("relu_cuda", ["7.0", "8.0"], ["8.0"])
    assert section["dropped"] == [{"arch": "7.0", "reason": "nvcc 13.0 does not compile for 7.0"}]
    assert variant["default"]
    assert not variants["torch211-cxx11-cpu-x86_64-linux"]["default"]
    assert answer["notes"][0]["line"] == 6


@pytest.mark.usefixtures("project")
def test_variants_as_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["variants", "--explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["variant", "default", "archs"]
    assert lines[2].split() == ["torch213-cxx11-cu130-x86_64-linux", "yes", "8.0"]
    at = lines.index("    excluded   7.0: nvcc 13.0 does not compile for 7.0")
    assert lines[at - 3 : at] == ["  [kernel.relu_cuda]", "    requested  7.0 8.0", "    kept       8.0"]
    assert "torch213-cxx11-cu130-x86_64-linux" in lines


@pytest.mark.usefixtures("project")
def test_variants_that_are_built_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["variants"]) == 0
    default = capsys.readouterr()
    assert __main__.main(["variants", "--all"]) == 0
    everything = capsys.readouterr()
    more = len(everything.out.splitlines()) - len(default.out.splitlines())
    assert f"{more} more on request: `driver variants --all` lists them" in default.err
    assert "more on request" not in everything.err
    assert everything.out.count(" on request ") == more > 0
    assert " on request " not in default.out
    assert re.search("^torch213-cxx11-cu126-x86_64-linux +on request +7.0 8.0$", everything.out, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gne"], "error[E200]: unknown command `gne`\n = help: did you mean `gen`?\n"),
        ([], "error[E200]: a command is missing\n = help: see `driver --help`\n"),
        (["gen", "--chekc"], "error[E200]: unrecognized arguments: --chekc\n"),
        (["ide", "a", "b"], "error[E200]: unrecognized arguments: b\n"),
    ],
)
def test_usage_errors(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(arguments) == 2
    assert capsys.readouterr().err.startswith(message)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["gen", "--help"], ["variants", "-h"]])
def test_help_goes_to_stdout(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        __main__.main(arguments)
    assert stop.value.code == 0
    captured = capsys.readouterr()
    assert captured.out.startswith(("usage: driver", "driver 0."))
    assert captured.err == ""


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_has_a_module_and_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        __main__.main([command, "--help"])
    usage, _, examples = capsys.readouterr().out.partition("\nexamples:\n")
    assert usage.startswith(f"usage: driver {command} ")
    lines = [shlex.split(line) for line in examples.splitlines()]
    assert [line[:2] for line in lines] == [["driver", command]] * 2
    assert [cli.parse_command_line(line[1:])[0] for line in lines] == [command] * 2


def test_commands_with_many_options_have_groups(capsys: pytest.CaptureFixture[str]) -> None:
    for command in cli.COMMANDS:
        with pytest.raises(SystemExit):
            __main__.main([command, "--help"])
        blocks = capsys.readouterr().out.split("\n\n")[1:]
        counts = [len(re.findall(r"^  (?:-\w, )?--\w", block, re.MULTILINE)) for block in blocks]
        assert max(counts) <= 10, command


@pytest.mark.parametrize("arguments", [["--help"], ["--help", "build"]], ids=" ".join)
def test_help_lists_all_commands_by_purpose(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        __main__.main(arguments)
    text, _, end = capsys.readouterr().out.partition("\nexamples:\n")
    assert re.findall(r"^([A-Z].*):$|^  ([a-z]\S*) ", text, re.MULTILINE) == [
        pair for title, names in cli.GROUPS.items() for pair in [(title, ""), *(("", name) for name in names)]
    ]
    lines = [shlex.split(line, comments=True) for line in end.splitlines() if line.startswith("  driver ")]
    assert [cli.parse_command_line(line[1:])[0] for line in lines] == ["init", "run"]
    assert "docs/index.md" in end


def _run_that_raises(problem: BaseException) -> object:
    class Command:
        def add(self, subparsers: cli.Subparsers) -> None:
            subparsers.add_parser("gen")

        def run(self, _args: argparse.Namespace, _output: Output) -> int:
            raise problem

    return lambda _name: Command()


def test_a_bug_is_one_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("DRIVER_TRACEBACK", raising=False)
    monkeypatch.setattr(cli, "load_command", _run_that_raises(KeyError("x")))
    assert __main__.main(["gen"]) == 70
    error = capsys.readouterr().err
    assert error.startswith("internal error: KeyError: 'x'\n")
    assert "Traceback" not in error
    monkeypatch.setenv("DRIVER_TRACEBACK", "1")
    with pytest.raises(KeyError):
        __main__.main(["gen"])


def test_interrupt_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cli, "load_command", _run_that_raises(KeyboardInterrupt()))
    assert __main__.main(["gen"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_closed_pipe_is_quiet(project: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "py_driver", "variants", "--json", str(project)],
            cwd=ROOT,
            stdout=writer,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writer)
    assert done.stderr == b""
    assert done.returncode == 0


def test_help_loads_no_command() -> None:
    program = (
        "import sys\nfrom py_driver.__main__ import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([m for m in sys.modules if m.startswith(('py_driver.cli.', 'py_driver.manifest', 'tomli'))],"
        " file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


def test_unknown_command_is_a_driver_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DriverError):
        cli.run_command_line(["frobnicate"], Output())
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("arguments", "redirection", "status"),
    [
        ("variants .", ">&-", 0),
        ("variants .", "2>&-", 0),
        ("variants .", "<&-", 0),
        ("variants .", ">/dev/full", 4),
        ("variants nowhere", "2>/dev/full", 2),
        ("variants nowhere", ">&- 2>&- <&-", 2),
    ],
)
def test_closed_and_full_streams(project: Path, arguments: str, redirection: str, status: int, unbuffered: str) -> None:
    command = f"exec {sys.executable} -m py_driver {arguments} {redirection}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == status
    assert "Traceback" not in done.stdout + done.stderr
