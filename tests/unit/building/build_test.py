"""What a build asks Bazel for, and what it says before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sections import CPU, GENERAL, TORCH, make

from py_driver import __main__
from py_driver.building.selection import choose, unsplit
from py_driver.matrix.releases import Releases

if TYPE_CHECKING:
    from pathlib import Path

CUDA = '[kernel.g]\nbackend = "cuda"\ndepends = []\nsrc = ["g.cu"]\n'


@pytest.mark.parametrize(
    ("globs", "expected"),
    [
        (["torch213-*"], ()),
        (["torch28-*-cu129-*", "torch28-*-cu126-*", "torch25-*-cu124-*"], ("12.6", "12.9")),
    ],
)
def test_nvccs_whose_phases_nobody_saw(tmp_path: Path, globs: list[str], expected: tuple[str, ...]) -> None:
    (tmp_path / "g.cu").touch()
    made = make(tmp_path, GENERAL + TORCH + CUDA)
    assert unsplit(choose(made, globs), Releases().matrix) == expected


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--archs=9", "argument --archs: `9` is not a GPU architecture like 9.0 or gfx942"),
        ("--archs=9.0,", "argument --archs: `` is not a GPU architecture like 9.0 or gfx942"),
        ("--archs=native,9.0", "argument --archs: `native` cannot be combined with others"),
        ("--torch=213", "argument --torch: `213` is not a version like 2.13"),
        ("--torch=2.31", "no variant is for torch `2.31`"),
        ("--backend=cu1", "no variant is for the backend `cu1`"),
        ("--archs=7.5", "`re_lu` has no device code for the architecture `7.5`"),
    ],
)
def test_choosing_less(option: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "g.cu").touch()
    make(tmp_path, GENERAL + TORCH + CPU + CUDA + 'cuda-capabilities = ["8.0", "9.0a"]\n')
    assert __main__.main(["build", str(tmp_path), option]) in {2, 3}
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("wrong", ["0", "-1", "1.5", "8GB", ""])
def test_memory_is_a_number(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["build", f"--ram={wrong}"]) == 2
    assert f"`{wrong}` is not a number from 1 to 9999" in capsys.readouterr().err
