"""Words and other names of commands, near misses, and lists on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from py_driver import __main__, __version__, cli

TINY = Path(__file__).parents[3] / "tests" / "e2e" / "projects" / "tiny"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The exit code of a command line, and what it prints to stdout and stderr."""
    try:
        code = __main__.main(arguments)
    except SystemExit as end:
        code = int(end.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    ("words", "usual"),
    [
        (["help"], ["--help"]),
        (["help", "build"], ["build", "--help"]),
        (["help", "list"], ["variants", "--help"]),
        (["version"], ["--version"]),
        (["-V"], ["--version"]),
        (["new", "--list"], ["init", "--list"]),
        (["list", str(TINY)], ["variants", str(TINY)]),
    ],
    ids=" ".join,
)
def test_words_are_the_usual_command(words: list[str], usual: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, *words) == run(capsys, *usual)


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "version") == (0, f"driver {__version__}\n", "")


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["build", "--variants", "x"], "--variant"),
        (["build", "--dry"], "--dry-run"),
        (["build", "-k"], "--keep-going"),
        (["check", "--strickt"], "--strict"),
        (["--versoin"], "--version"),
        (["lst"], "list"),
        (["docter"], "doctor"),
        (["help", "biuld"], "build"),
    ],
    ids=" ".join,
)
def test_near_misses(words: list[str], near: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, *words)
    assert code == 2
    assert f"did you mean `{near}`?" in err
    assert "driver explain" not in err


@pytest.mark.parametrize(
    ("words", "attribute", "expected"),
    [
        (["build", "--torch", "2.13,2.15"], "torch", ["2.13", "2.15"]),
        (["build", "--torch", "2.13", "--torch", "2.15"], "torch", ["2.13", "2.15"]),
        (["build", "--backend", "cpu, cu130"], "backend", ["cpu", "cu130"]),
        (["build", "--cpu", "x86_64,aarch64"], "cpu", ["x86_64", "aarch64"]),
        (["build", "--variant", "a-{b,c},d"], "variant", ["a-{b,c}", "d"]),
        (["build", "--archs", "8.0;9.0 10.0"], "archs", ("8.0", "9.0", "10.0")),
        (["fetch", "--depends", "torch,python"], "depends", ["torch", "python"]),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else None,
)
def test_lists_with_commas(words: list[str], attribute: str, expected: object) -> None:
    _, args = cli.parse_command_line(words)
    assert getattr(args, attribute) == expected


@pytest.mark.parametrize("backends", [["cpu,cuda"], ["cpu", "cuda"], ["cpu,", "cuda"]], ids=" ".join)
def test_backends_of_a_new_project(backends: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "init", str(tmp_path / "first"), "--backends", *backends)[0] == 0
    assert 'backends = ["cpu", "cuda"]' in (tmp_path / "first" / "build.toml").read_text()


def test_a_wrong_cpu_has_a_near_miss(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "build", "--cpu", "arm64")
    assert (code, "did you mean `aarch64`?" in err) == (2, True)


def test_variants_in_plain_words(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "variants", str(TINY), "--torch", "2.13", "--backend", "cpu", "--json")
    names = [variant["variant"] for variant in json.loads(out)["variants"]]
    assert code == 0
    assert "torch213-cxx11-cpu-x86_64-linux" in names
    assert all(name.startswith("torch213-cxx11-cpu-") for name in names)
    assert run(capsys, "variants", str(TINY), "--torch", "2.99")[0] == 3


def test_variants_takes_the_patterns_of_build(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(
        capsys, "variants", str(TINY), "--variant", "torch213-cpu", "--variant", "torch211-*-cpu-x86_64-*"
    )
    names = [line.split()[0] for line in out.splitlines()[1:]]
    assert (code, err) == (0, "")
    assert names == ["torch213-cxx11-cpu-x86_64-linux", "torch211-cxx11-cpu-x86_64-linux"]
    code, _, err = run(capsys, "variants", str(TINY), "--variant", "torch213-cpux")
    assert (code, "did you mean `torch213-cxx11-cpu-x86_64-linux`" in err) == (3, True)


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["--strict", "check"], "write it after the command: driver check --strict"),
        (["--jobs", "4", "build"], "write `--jobs` after the command"),
    ],
    ids=" ".join,
)
def test_an_option_before_the_command(words: list[str], advice: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, *words)
    assert code == 2
    assert f" = help: {advice}" in err


def test_a_letter_of_pytest_is_no_option_of_the_driver(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = run(capsys, "test", str(TINY), "-k", "float16")
    assert " = help: see `driver test --help`; write your own command after `--`" in err
