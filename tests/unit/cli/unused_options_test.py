"""An option that has no effect for a project, or beside another option, is refused or reported."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from sections import CPU, CUDA, GENERAL, TORCH, make

from py_driver import __main__
from py_driver.cli import parse_command_line
from py_driver.cli.build import options_for
from py_driver.errors import Code

if TYPE_CHECKING:
    from pathlib import Path

USAGE = Code.USAGE.exit_code


def refused(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The message for a command line that is wrong."""
    assert __main__.main([*words]) == USAGE
    return next(line for line in capsys.readouterr().err.splitlines() if line.startswith("error"))


@pytest.fixture
def extension(tmp_path: Path) -> Path:
    """A project with a setup.py that cannot run."""
    (tmp_path / "ext" / "tests").mkdir(parents=True)
    (tmp_path / "ext" / "setup.py").write_text("raise SystemExit(1)\n", encoding="utf-8")
    return tmp_path / "ext"


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """A project with a build.toml."""
    make(tmp_path / "kernel", GENERAL + TORCH + CPU + CUDA)
    return tmp_path / "kernel"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("test", "--under", "memcheck"), "--under: {} has a setup.py, and the tools run kernels of a build.toml"),
        (("test", "--debug"), "--debug: {} has a setup.py, and the tools run kernels of a build.toml"),
        (("check", "--headers"), "--headers: {} has a setup.py, and smaller headers are tried for a build.toml"),
        (("build", "--slice", "--dry-run"), "--slice: {} has a setup.py, and no slices"),
    ],
)
def test_options_that_a_setup_py_does_not_have(
    words: tuple[str, ...], said: str, extension: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(words[0], str(extension), *words[1:], capsys=capsys)
    assert message == f"error[E200]: {said.format(extension)}"


def test_json_is_about_one_project_with_a_setup_py(
    extension: Path, kernel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = shutil.copytree(extension, extension.with_name("ext2"))
    for command in ("check", "build", "verify", "wheel"):
        for more in (other, kernel):
            assert __main__.main([command, str(extension), str(more), "--json"]) == USAGE
            [problem] = json.loads(capsys.readouterr().out)["errors"]
            assert problem["message"] == "--json is for a single project with a setup.py"


def test_a_setup_py_without_changes_is_left_out(extension: Path, capsys: pytest.CaptureFixture[str]) -> None:
    identity = {f"GIT_{who}_{what}": "me" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environ = {**os.environ, **identity, "GIT_CONFIG_GLOBAL": os.devnull}
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run(["git", *words], cwd=extension, check=True, env=environ)
    for command in ("check", "build", "wheel", "verify"):
        assert __main__.main([command, str(extension), "--changed-since", "HEAD"]) == 0
        assert capsys.readouterr().err == f"no file of {extension} differs from HEAD\n"
    assert __main__.main(["check", str(extension), "--changed-since", "HEAD", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"projects": []}
    assert "git cannot list the changes" in refused(
        "check", str(extension), "--changed-since", "nonsense", capsys=capsys
    )


@pytest.mark.parametrize("option", ["--archs=9.0", "--compress=size", "--cxx=gcc", "--headers=full", "--report=r.html"])
def test_the_wheel_of_a_build_toml_builds_nothing(
    option: str, kernel: Path, extension: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = f"error[E200]: {option.partition('=')[0]}: with a build.toml, `driver wheel` packs the variants in build/"
    assert refused("wheel", str(kernel), option, capsys=capsys).startswith(said)
    assert refused("wheel", str(extension), str(kernel), option, capsys=capsys).startswith(said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("build", "--dry-run", "--report", "r.html"), "--report is about the actions of a build"),
        (("stable", "--force"), "--force is for the files that --fix writes"),
        (("stable", "--annotations", "--json"), "argument --json: not allowed with argument --annotations"),
        (("profile", "--report", "r.ncu-rep", "--set", "full"), "--report shows an existing report"),
        (("profile", "Float32.silu", "--report", "r.ncu-rep"), "--report shows an existing report"),
        (("tune", "--budget", "5", "--apply"), "argument --apply: not allowed with argument --budget"),
        (("tune", "--archs", "9.0"), "unrecognized arguments: --archs 9.0"),
        (("asm", "f", "--diff", "HEAD", "--source"), "--diff compares machine code; it cannot be combined with --sou"),
        (("cache", "serve", "--jobs", "2"), "--jobs is for the actions of --execute"),
        (("wheel", "--merge", "--slice"), "--merge packs all variants into one wheel, and --slice makes several"),
        (("init", "--list", "--backends", "cpu"), "--list writes no project"),
        (("verify", "--source", "."), "--source names the project of wheels, and the command line has no wheel"),
    ],
)
def test_options_that_exclude_each_other(
    words: tuple[str, ...], said: str, kernel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = [] if words[0] == "cache" else [str(kernel)]
    message = refused(words[0], *project, *words[1:], capsys=capsys)
    assert message.startswith(f"error[E200]: {said}")


@pytest.mark.parametrize(("backend", "told"), [("cpu", 1), ("cuda", 0)])
def test_architectures_are_for_device_code(
    backend: str, told: int, kernel: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RULES_TORCH_KERNELS_BAZEL", "/none")
    options = ["--dry-run", "--torch=2.13", f"--backend={backend}", "--archs=9.0", "--compress=speed"]
    assert __main__.main(["build", str(kernel), *options]) == 0
    said = capsys.readouterr().err
    assert said.count("note: --archs 9.0 has no effect: the chosen variants have no device code\n") == told
    assert said.count("note: --compress has no effect: the chosen variants have no CUDA code\n") == told
    assert "--cuda-compile" not in said


def test_each_project_with_a_setup_py_has_its_own_report(tmp_path: Path) -> None:
    pages: set[Path] = set()
    page = tmp_path / "r.html"
    _, args = parse_command_line(["build", "a/ext", "b/ext", "--report", str(page)])
    found = [options_for(path, args, pages).report for path in args.directories]
    assert found == [tmp_path / "r-ext.html", tmp_path / "r-ext-2.html"]
    _, args = parse_command_line(["build", "a/ext", "--report", str(page)])
    assert options_for(args.directories[0], args, pages).report == page


def test_a_directory_behind_backends_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["init", "--backends", "cpu", "silu"]) == USAGE
    assert "put DIR before --backends: `silu` counts as a backend" in capsys.readouterr().err


def test_a_missing_variant_has_the_command_that_builds_it(kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "torch213-cxx11-cpu-x86_64-linux"
    assert __main__.main(["wheel", str(kernel)]) == Code.FILE_MISSING.exit_code
    assert f" = help: build it first: driver build {kernel}\n" in capsys.readouterr().err
    assert __main__.main(["wheel", str(kernel), "--torch=2.13", "--backend=cpu"]) == Code.FILE_MISSING.exit_code
    assert f" = help: build it first: driver build {kernel} --variant {name}\n" in capsys.readouterr().err
