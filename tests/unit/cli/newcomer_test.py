"""What a newcomer gets wrong, and what the driver says: the place, the cause in a line, and what to write."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from relu import MANIFEST, write

from py_driver.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write(Path("p"))


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit code of a command line, and what it prints to stderr."""
    code = main(arguments)
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("edition = 5", 'edition = "5"', "`edition` in [general] must be an integer, not a string", ""),
        ("[kernel.relu]", "[kernel]", "`backend` stands in [kernel] itself", "[kernel.<name>]"),
        ("[kernel.relu]", "[[kernel.relu]]", "`[[kernel.relu]]` is a list of tables", "write [kernel.relu]"),
        ("[torch]", "[Torch]", "unknown key `Torch`", "did you mean `torch`?"),
        ('license = "mit"', 'licence = "mit"', "unknown key `licence` in [general]", "did you mean `license`?"),
        ('backends = ["cuda"]', 'backends = ["CUDA"]', "unknown backend `CUDA`", "did you mean `cuda`?"),
        ('"csrc/relu.cu"', '"csrc"', "`csrc` is a directory", "as `csrc/relu.cu`"),
        ('"csrc/relu.cu"', '"/csrc/relu.cu"', "is not relative to the project", "write `csrc/relu.cu`"),
        ("depends = []", "depends = []\ndepends = []", "`depends` is written twice", "keep one of them"),
        ("[kernel.relu]", "[kernel.relu]\n[kernel.relu]", "the table `[kernel.relu]` is written twice", "keep one"),
        ("depends = []", 'depends = []\ncuda-capabilities = ["sm_90a"]', "`sm_90a` is not a", 'did you mean "9.0a"?'),
    ],
)
def test_one_mistake_in_build_toml_is_one_error(  # noqa: PLR0913  (a mistake, and what is said)
    project: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str, hint: str
) -> None:
    (project / "build.toml").write_text(MANIFEST.replace(old, new, 1))
    code, said = failure(capsys, "check", "p")
    assert code == 2
    first = said.partition("\n")[0]
    assert message in first
    assert said.count(first.partition(":")[0]) == 1
    assert hint in said


def test_a_bound_that_nothing_meets_is_reported_with_the_latest_release(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "build.toml").write_text(MANIFEST.replace("depends = []", 'depends = []\ncuda-minver = "99"'))
    _, said = failure(capsys, "check", "p")
    assert said.count("every kernel section requires a later CUDA than") == 1


def _dangle(path: Path) -> None:
    path.symlink_to("nowhere")


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_dangle, "p/build.toml is a symbolic link that leads nowhere"),
        (_loop, "cannot read p/build.toml"),
        (Path.mkdir, "p/build.toml is a directory"),
    ],
)
def test_what_is_no_manifest_is_called_what_it_is(
    project: Path, capsys: pytest.CaptureFixture[str], make: Callable[[Path], None], message: str
) -> None:
    (project / "build.toml").unlink()
    make(project / "build.toml")
    code, said = failure(capsys, "check", "p")
    assert (code, "error[E105]" in said, message in said) == (2, True, True)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["check", "p/build.toml"], 2, "p/build.toml is a file; name its directory: `p`"),
        (["check", "p/csrc"], 2, "name the directory that has it: `p`"),
        (["check", ""], 2, "an argument is empty"),
        (["clean", ""], 2, "an argument is empty"),
        (["build", "p", "--variant="], 2, "`` is an empty pattern"),
        (["build", "p", "--backend", "cuda13"], 3, "did you mean `cu130` or `cu132`"),
        (["build", "p", "--backend", "CUDA"], 3, "did you mean `cuda`?"),
        (["build", "p", "--archs", "sm_90"], 2, "did you mean `9.0`?"),
        (["wheel", "foo=1.0"], 2, "did you mean `foo==1.0`?"),
        (["abi-check", "p/csrc/relu.cu"], 2, "p/csrc/relu.cu is not an ELF file"),
        (["abi-check", "p/csrc/rleu.cu"], 2, "did you mean `p/csrc/relu.cu`?"),
        (["index", "q"], 2, "q is not a directory"),
        (["check", "p", "--matrix", "p/biuld.toml"], 2, "p/build.toml`?"),
    ],
)
def test_a_wrong_command_line_says_what_to_write(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert project.is_dir()
    found, said = failure(capsys, *arguments)
    assert (found, message in said) == (code, True), said


def test_an_unknown_backend_lists_backends_alone(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.is_dir()
    assert "torch 2." not in failure(capsys, "build", "p", "--backend", "tpu")[1]


def test_dashes_alone_make_no_option_alike(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean" not in failure(capsys, "build", "--out", "x")[1]


def test_a_directory_of_tests_with_another_name_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "test").mkdir()
    code, said = failure(capsys, "test", "p")
    assert (code, "did you mean `p/test`?" in said) == (2, True)


@pytest.mark.parametrize("command", ["build", "check", "gen", "ide", "variants", "wheel"])
def test_a_python_is_refused_for_a_build_toml(project: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, said = failure(capsys, command, str(project), "--python=3.13")
    assert code == 2
    assert "is for a project with a setup.py" in said


@pytest.mark.parametrize(
    ("command", "message"),
    [
        *((command, "the Hub needs one library for every Python (abi3)") for command in ("build", "gen")),
        *((command, "no source for cuda has PYBIND11_MODULE") for command in ("check", "ide", "variants", "wheel")),
    ],
)
def test_pybind11_is_for_wheels_of_a_build_toml_that_uses_it(
    project: Path, capsys: pytest.CaptureFixture[str], command: str, message: str
) -> None:
    code, said = failure(capsys, command, str(project), "--binding=pybind")
    assert code == 2
    assert message in said


@pytest.mark.parametrize("command", ["variants", "card"])
def test_a_setup_py_where_a_build_toml_is_needed_names_the_commands_for_it(
    project: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (project / "build.toml").unlink()
    (project / "setup.py").write_text("from setuptools import setup\n")
    code, said = failure(capsys, command, "p")
    help_text = "`driver check` lists the variants of a setup.py; `driver adopt` makes a build.toml of it"
    assert (code, said.splitlines()[:2]) == (2, ["error[E105]: there is no p/build.toml", f" = help: {help_text}"])
