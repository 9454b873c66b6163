"""Variables of the environment that builds with torch's own tools read: taken where they make sense, and told."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

import pytest
from sections import CPU, CUDA, GENERAL, TORCH, make

from py_driver.authoring.machine import Machine, archs_of_variables
from py_driver.building.installed_torch import Torch
from py_driver.cli import run_command_line
from py_driver.cli.variables import take_variables
from py_driver.errors import Code, DriverError
from py_driver.matrix.listed_archs import listed_archs
from py_driver.output import Output

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_JOBS", "TORCH_CUDA_ARCH_LIST", "PYTORCH_ROCM_ARCH"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("text", "archs", "wrong"),
    [
        ("8.0;9.0+PTX", ("8.0", "9.0"), ()),
        ("8.0 8.6,9.0a", ("8.0", "8.6", "9.0a"), ()),
        ("Ampere;Hopper", ("8.0", "8.6", "9.0"), ()),
        ("Volta+Tegra 7.2", ("7.2",), ()),
        ("gfx90a;gfx942", ("gfx90a", "gfx942"), ()),
        (" ; ", (), ()),
        ("9;8.0;hopper", ("8.0",), ("9", "hopper")),
    ],
)
def test_lists_as_torch_takes_them(text: str, archs: tuple[str, ...], wrong: tuple[str, ...]) -> None:
    assert listed_archs(text) == (archs, wrong)


@pytest.mark.parametrize(
    ("value", "flag", "jobs", "said"),
    [
        ("3", None, 3, "note: --jobs 3 comes from MAX_JOBS\n"),
        ("3", 5, 5, ""),
        ("", None, None, ""),
        ("many", None, None, "note: MAX_JOBS is not used: `many` is not a number from 1 to 9999\n"),
        ("0", None, None, "note: MAX_JOBS is not used: `0` is not a number from 1 to 9999\n"),
    ],
)
def test_jobs(  # noqa: PLR0913  (a row, and two fixtures)
    value: str,
    flag: int | None,
    jobs: int | None,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MAX_JOBS", value)
    args = Namespace(jobs=flag)
    take_variables("build", args, Output())
    assert (args.jobs, capsys.readouterr().err) == (jobs, said)


def test_commands_without_builds_say_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MAX_JOBS", "3")
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "nonsense")
    make(tmp_path, GENERAL + TORCH + CPU)
    assert run_command_line(["check", str(tmp_path)], Output()) == 0
    assert "note: --jobs" not in (said := capsys.readouterr().err)
    assert "TORCH_CUDA" not in said


def test_a_build_for_all_says_that_it_keeps_all_architectures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "9.0")
    monkeypatch.setenv("PYTORCH_ROCM_ARCH", "gfx942")
    for command, told in ((["build"], 1), (["build", "--archs", "8.0"], 0)):
        with pytest.raises(DriverError):
            run_command_line([*command, str(tmp_path / "nothing")], Output())
        line = "note: TORCH_CUDA_ARCH_LIST and PYTORCH_ROCM_ARCH are not used: variants and wheels have all arch"
        assert capsys.readouterr().err.count(line) == told


def test_a_build_for_this_machine_takes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "8.0;9.0+PTX 12.0")
    args = Namespace(archs=None)
    take_variables("run", args, Output())
    plan = make(tmp_path, GENERAL + TORCH + CPU + CUDA + 'cuda-capabilities = ["8.0", "9.0"]\n')
    torch = Torch(python="python3", version="2.13", backend="cu130")
    machine = Machine(torch=torch, archs=("9.0",))
    assert archs_of_variables(plan, machine, args.listed, Output()) == ("8.0", "9.0")
    said = "note: --archs 8.0,9.0 comes from TORCH_CUDA_ARCH_LIST: no device code for 12.0\n"
    assert capsys.readouterr().err == said
    assert archs_of_variables(plan, machine, {"TORCH_CUDA_ARCH_LIST": ("7.5",)}, Output()) == ()
    assert capsys.readouterr().err == "note: TORCH_CUDA_ARCH_LIST is not used: no device code for 7.5\n"
    # They are about GPUs that a machine has: none, and those of another maker.
    assert archs_of_variables(plan, Machine(torch=torch, archs=()), args.listed, Output()) == ()
    assert archs_of_variables(plan, machine, {"PYTORCH_ROCM_ARCH": ("gfx942",)}, Output()) == ()
    assert capsys.readouterr().err == ""


def test_a_word_that_is_no_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "9")
    with pytest.raises(DriverError, match="TORCH_CUDA_ARCH_LIST names `9`") as caught:
        take_variables("test", Namespace(archs=None), Output())
    assert caught.value.diagnostics[0].code is Code.USAGE
    args = Namespace(archs=("9.0",))
    take_variables("test", args, Output())
    assert args == Namespace(archs=("9.0",))
