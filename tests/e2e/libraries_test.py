"""CUDA's libraries: a project that includes the headers of each and calls it, for every CUDA that is run here."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from clone import PROJECTS
from elftools.elf.elffile import ELFFile

from py_driver.building import build as building
from py_driver.matrix.releases import Releases
from py_driver.output import Output

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

_THIRTEEN = {
    "libcublas.so.13",
    "libcublasLt.so.13",
    "libcuda.so.1",
    "libcudart.so.13",
    "libcufft.so.12",
    "libcurand.so.10",
    "libcusolver.so.12",
    "libcusparse.so.12",
    "libnvJitLink.so.13",
    "libnvrtc.so.13",
}


@pytest.mark.parametrize(
    "cell",
    [
        "torch213-*-cu130-*",
        pytest.param("torch213-*-cu132-*", marks=pytest.mark.slow),
        pytest.param("torch215-*-cu135-*", marks=pytest.mark.slow),
    ],
)
def test_every_library_is_included_called_and_needed(cell: str, tmp_path: Path) -> None:
    made = tmp_path / "libraries"
    shutil.copytree(PROJECTS / "libraries", made)
    building.build(made, [cell], Releases(), Output())
    [library] = (made / "build").rglob("*.abi3.so")
    with library.open("rb") as file:
        dynamic: Any = ELFFile(file).get_section_by_name(".dynamic")
        needed = {tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"}
    assert {name for name in needed if name.startswith(("libcu", "libnv"))} == _THIRTEEN
