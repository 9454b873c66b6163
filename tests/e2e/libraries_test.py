"""Libraries: CUDA's, whose headers are all included and each of which is called, and one of a matrix of one's own."""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
import tomlkit
from clone import PROJECTS
from elftools.elf.elffile import ELFFile

from py_driver import __main__
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
    "variant",
    [
        "torch213-*-cu130-*",
        pytest.param("torch213-*-cu132-*", marks=pytest.mark.slow),
        pytest.param("torch215-*-cu135-*", marks=pytest.mark.slow),
    ],
)
def test_every_library_is_included_called_and_needed(variant: str, tmp_path: Path) -> None:
    made = tmp_path / "libraries"
    shutil.copytree(PROJECTS / "libraries", made)
    building.build(made, [variant], Releases(), Output())
    [library] = (made / "build").rglob("*.abi3.so")
    with library.open("rb") as file:
        dynamic: Any = ELFFile(file).get_section_by_name(".dynamic")
        needed = {tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"}
    assert {name for name in needed if name.startswith(("libcu", "libnv"))} == _THIRTEEN


def test_a_library_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for name, text in {"include/tiles/tiles.h": "#define TILES 16\n", "include/BUILD": "broken(", "x": ""}.items():
            member = tarfile.TarInfo(f"tiles-1.2/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "tiles-1.2.tar.gz").write_bytes(content.getvalue())
    monkeypatch.setenv("RULES_TORCH_KERNELS_MIRROR", str(mirror))
    matrix = tmp_path / "my.toml"
    library = {
        "name": "tiles",
        "url": "https://nowhere.invalid/tiles-1.2.tar.gz",
        "sha256": hashlib.sha256(content.getvalue()).hexdigest(),
        "root": "tiles-1.2",
        "include": ["include"],
    }
    matrix.write_text(tomlkit.dumps({"library": [library]}))
    assert __main__.main(["lock", "--matrix", str(matrix)]) == 0
    made = tmp_path / "tiny"
    shutil.copytree(PROJECTS / "tiny", made)
    manifest = made / "build.toml"
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(text.replace("depends = []", 'depends = ["tiles"]', 1), encoding="utf-8")
    with (made / "csrc" / "one.cpp").open("a", encoding="utf-8") as source:
        source.write('#include <tiles/tiles.h>\nstatic_assert(TILES == 16, "");\n')
    building.build(made, ["torch213-*-cpu-*"], Releases(matrix), Output())
    assert list((made / "build").rglob("*.abi3.so"))
