"""What a shell completes: in a real bash."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from py_driver import __main__, cli
from py_driver.errors import Code

ROOT = Path(__file__).parents[3]
TINY = ROOT / "tests" / "e2e" / "projects" / "tiny"


@pytest.fixture(scope="module")
def script() -> str:
    command = [sys.executable, "-m", "py_driver", "completion", "bash"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def complete(script: str, *words: str, cwd: Path = TINY) -> list[str]:
    """What bash offers for the last of some words."""
    line = " ".join(["driver", *words])
    python = f"PYTHONPATH={shlex.quote(str(ROOT))} {shlex.quote(sys.executable)}"
    program = (
        f'driver() {{ {python} -m py_driver "$@"; }}\n{script}\n'
        f"COMP_LINE={shlex.quote(line)}\nCOMP_POINT={len(line)}\nCOMP_TYPE=9\nCOMP_WORDBREAKS=$' \\t\\n\"=:'\n"
        '_python_argcomplete driver\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "--norc", "--noprofile"], input=program, cwd=cwd, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return [word.rstrip() for word in done.stdout.split("\n")[:-1]]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["bu"], ["build"]),
        (["--v"], ["--version"]),
        (["help", "bu"], ["build"]),
        (["list", "--tor"], ["--torch"]),
        (["build", "--cpu", "a"], ["aarch64"]),
        (["build", "--var"], ["--variant"]),
        (["build", "--headers", ""], ["needed", "full"]),
        (["build", "--headers=f"], ["full"]),
        (["build", "--headers="], ["needed", "full"]),
        (["build", "cs"], ["csrc/"]),
        (["build", "--json", "cs"], ["csrc/"]),
        (["build", "--matrix", "bui"], ["build.toml"]),
        (["build", "--jobs", ""], [""]),
        (["cache", ""], ["info", "prune", "clean", "serve"]),
        (["cache", "serve", "--si"], ["--size"]),
        (["completion", "f"], ["fish"]),
        (["explain", "unknown-k"], ["unknown-key"]),
        (["init", "--template", "ele"], ["elementwise"]),
        (["run", ".", "--", "python", "bui"], ["build.toml"]),
        (["test", "--", "cs"], ["csrc/"]),
        (["run", "bui"], [""]),
    ],
    ids=" ".join,
)
def test_bash(script: str, words: list[str], offered: list[str]) -> None:
    assert complete(script, *words) == offered


def test_bash_knows_all_commands_and_errors(script: str) -> None:
    assert complete(script, "") == [*cli.COMMANDS, *cli.ALIASES, *cli.WORDS]
    assert complete(script, "--") == ["--help", "--version"]
    assert complete(script, "explain", "E") == [code.number for code in Code]


def test_bash_knows_the_variants_of_a_project(script: str, tmp_path: Path) -> None:
    variants = complete(script, "build", "--variant", "torch213-")
    assert "torch213-cxx11-cpu-x86_64-linux" in variants
    assert all(name.startswith("torch213-cxx11-c") for name in variants)
    assert complete(script, "build", "--variant", "", cwd=tmp_path) == [""]
    assert complete(script, "build", str(TINY), "--variant", "torch213-", cwd=tmp_path) == variants


def test_directories_with_blanks(script: str, tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a file").touch()
    assert complete(script, "check", "a", cwd=tmp_path) == ["a\\ b/"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_for_both_names(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"])


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_option_is_there(script: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        __main__.main([command, "--help"])
    options = set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", capsys.readouterr().out, re.MULTILINE))
    assert set(complete(script, command, "--")) == options


def test_another_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["completion", "tcsh"]) == 2
    assert "invalid choice: 'tcsh'" in capsys.readouterr().err
