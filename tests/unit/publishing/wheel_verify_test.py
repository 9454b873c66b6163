"""What wheels of a build.toml have, as `driver verify` reads them; tests/e2e/bound_test.py builds some again."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING

import pytest

from py_driver import __main__
from py_driver.errors import Code, DriverError
from py_driver.publishing.wheel_verify import unpack_wheel

if TYPE_CHECKING:
    from pathlib import Path

CPU = "torch213-cxx11-cpu-x86_64-linux"
CU130 = "torch213-cxx11-cu130-x86_64-linux"
NAME = "relu-1.0+torch213.cxx11.cpu-{}-manylinux_2_28_x86_64.whl"


def wheel(directory: Path, tag: str, *names: str, metadata: str = "{}") -> Path:
    """A wheel with variants of some names."""
    path = directory / NAME.format(tag)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("relu/__init__.py", "")
        for name in names:
            archive.writestr(f"relu/_variants/{name}/__init__.py", "")
            archive.writestr(f"relu/_variants/{name}/metadata.json", metadata)
    return path


def test_a_wheel_for_one_python_has_what_a_build_for_it_makes(tmp_path: Path) -> None:
    path = wheel(tmp_path, "cp313-cp313t", CPU, "torch-cuda", metadata=json.dumps({"only-archs": ["9.0"]}))
    found = unpack_wheel(path, tmp_path)
    assert (found.module, found.version, found.archs) == ("relu", "3.13t", ("9.0",))
    assert sorted(path.name for path in (tmp_path / "build").iterdir()) == ["torch-cuda", f"{CPU}-cp313t"]


def test_a_wheel_for_every_python_has_variants(tmp_path: Path) -> None:
    found = unpack_wheel(wheel(tmp_path, "cp39-abi3", CPU), tmp_path)
    assert (found.version, found.archs, found.directory(CPU)) == ("", (), CPU)
    assert (tmp_path / "build" / CPU / "metadata.json").is_file()


@pytest.mark.parametrize("names", [(), ("../outside",), ("sm90",)])
def test_other_wheels_are_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    with pytest.raises(DriverError, match=r"is not a wheel of a build\.toml") as caught:
        unpack_wheel(wheel(tmp_path, "cp39-abi3", *names), tmp_path / "scratch")
    assert caught.value.diagnostics[0].code is Code.FILE_KIND
    assert not (tmp_path / "outside").exists()


def test_slices_lie_where_a_build_puts_them(tmp_path: Path) -> None:
    found = unpack_wheel(wheel(tmp_path, "cp39-abi3", CU130, metadata='{"slice": "sm90"}'), tmp_path)
    assert (found.part, found.labelled, found.directory(CU130)) == ("sm90", False, f"{CU130}-sm90")
    assert (tmp_path / "build-slices" / "sm90" / CU130 / "metadata.json").is_file()
    assert not (tmp_path / "build").exists()


@pytest.mark.parametrize("part", ["../..", "a/b", "."])
def test_a_capability_is_no_path(tmp_path: Path, part: str) -> None:
    path = wheel(tmp_path, "cp39-abi3", CU130, metadata=json.dumps({"slice": part}))
    with pytest.raises(DriverError, match=r"is not a wheel of a build\.toml"):
        unpack_wheel(path, tmp_path / "scratch")


def test_a_wheel_variant_is_known_by_its_label(tmp_path: Path) -> None:
    path = wheel(tmp_path, "cp39-abi3", CU130)
    found = unpack_wheel(path.rename(path.with_name("relu-1.0+torch213.cxx11-py3-none-any-cu130.whl")), tmp_path)
    assert (found.labelled, found.part, found.names) == (True, "", (CU130,))


def test_a_variant_that_two_wheels_have_is_refused(tmp_path: Path) -> None:
    path = wheel(tmp_path, "cp39-abi3", CPU)
    unpack_wheel(path, tmp_path)
    with pytest.raises(DriverError, match="which another of the wheels has"):
        unpack_wheel(path, tmp_path)


def test_slices_are_of_a_project_with_a_build_toml(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "setup.py").touch()
    project, path = str(tmp_path), str(wheel(tmp_path, "cp39-abi3", CPU))
    refused = {
        ("verify", project, "--slice"): "has a setup.py, and no slices",
        ("verify", path, "--slice"): "a wheel of slices is compared as any other",
        ("verify", project, "--slice", "--policy", "policy.toml"): "--slice: builders state whole variants",
        ("wheel", project, "--slice"): "make wheels for one GPU capability: --archs 9.0",
        ("wheel", project, "--variants", "--merge"): "--merge packs all variants into one wheel",
    }
    for words, said in refused.items():
        assert __main__.main([*words]) == 2
        assert said in capsys.readouterr().err


def test_the_source_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["verify", str(wheel(tmp_path, "cp39-abi3", CPU))]) == 2
    assert "a wheel of a build.toml needs --source DIR" in capsys.readouterr().err
