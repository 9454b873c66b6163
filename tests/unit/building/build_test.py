"""What a build asks Bazel for, and what it says before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sections import GENERAL, TORCH, make

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


@pytest.mark.parametrize("wrong", ["0", "-1", "1.5", "8GB", ""])
def test_memory_is_a_number(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["build", f"--ram={wrong}"]) == 2
    assert f"`{wrong}` is not a number from 1 to 9999" in capsys.readouterr().err
