"""`driver abi-check` of wheels: of what `driver wheel` makes, and of wheels that were changed since."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from recorded import SUFFIX, project, record_of

from py_driver import __main__
from py_driver.building.abi_check import Checked
from py_driver.errors import Code, DriverError
from py_driver.publishing.extension_wheel import ExtensionWheel, make_extension_wheel
from py_driver.publishing.wheel_check import check_wheel, find_wheels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from py_driver.publishing.wheel_check import CheckedWheel

LIBRARIES = Path(__file__).parents[2] / "abi" / "libraries"
INFO = "demo_project-1.0+cu130.torch213.dist-info"


@pytest.fixture(scope="module")
def skeleton(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project(tmp_path_factory.mktemp("skeleton"))


def made(skeleton: Path, directory: Path, *, labelled: bool = False, **libraries: str) -> Path:
    """A wheel with libraries of tests/abi, by their names in the package."""
    files = {f"demo/{name}.so": LIBRARIES / f"{library}.so" for name, library in libraries.items()}
    modules = {f"demo/_C{SUFFIX}": {"demo/_C.py": LIBRARIES.parent / "judges.py", **files}}
    parts = ExtensionWheel(record=record_of(skeleton, "demo._C"), skeleton=skeleton, modules=modules)
    directory.mkdir(exist_ok=True)
    return make_extension_wheel(parts, directory, labelled=labelled)


def changed(wheel: Path, name: str, content: bytes | None, target: str = "") -> Path:
    """A wheel in which a file has other bytes, is there as well, or is missing; perhaps with another name."""
    with zipfile.ZipFile(wheel) as archive:
        contents = {entry: archive.read(entry) for entry in archive.namelist()}
    contents.pop(name, None)
    contents |= {} if content is None else {name: content}
    path = wheel.with_name(target or wheel.name)
    wheel.unlink()
    with zipfile.ZipFile(path, "w") as archive:
        for entry, text in contents.items():
            archive.writestr(entry, text)
    return path


def checked(wheel: Path, tmp_path: Path) -> CheckedWheel:
    """What is found besides the ABI of the libraries."""
    work = tmp_path / "work"
    work.mkdir()
    return check_wheel(wheel, work, lambda library, _: Checked(path=library))


@pytest.mark.parametrize("labelled", [False, True])
def test_what_its_libraries_are_to_be(skeleton: Path, tmp_path: Path, *, labelled: bool) -> None:
    asked = {}

    def judge(library: Path, options: Mapping[str, str]) -> Checked:
        assert library.read_bytes() == (LIBRARIES / "no_module.so").read_bytes()
        asked[library.name] = options
        return Checked(path=library)

    wheel = made(skeleton, tmp_path, labelled=labelled, lib_C="no_module")
    assert wheel.name.endswith("-cu130.whl") == labelled
    found = check_wheel(wheel, tmp_path / "work", judge)
    options = {"--torch": "2.13", "--backend": "cu130", "--cxx-abi": "cxx11", "--cpu": "x86_64", "--binding": "_C"}
    assert asked == {"lib_C.so": options}
    assert (found.torch, found.backend, found.problems) == ("2.13", "cu130", ())
    assert [library.path for library in found.libraries] == [wheel / "demo" / "lib_C.so"]
    assert found.described() == "1 library for torch 2.13 and cu130"
    assert not list(found.diagnostics())


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("demo/__init__.py", b"other", "demo/__init__.py has other bytes than RECORD says"),
        ("demo/__init__.py", None, "RECORD lists demo/__init__.py, which does not exist"),
        ("demo/more.py", b"", "RECORD does not list demo/more.py"),
        (f"{INFO}/RECORD", None, "it has no RECORD"),
    ],
)
def test_record_that_is_wrong(skeleton: Path, tmp_path: Path, name: str, content: bytes | None, said: str) -> None:
    found = checked(changed(made(skeleton, tmp_path, lib_C="no_module"), name, content), tmp_path)
    assert found.problems == (said,)
    [diagnostic] = found.diagnostics()
    assert diagnostic.code is Code.NOT_COMPLIANT


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "other-1.0+cu130.torch213-py3-none-manylinux_2_28_x86_64.whl",
            "its file name says other 1.0+cu130.torch213, and METADATA Demo.Project 1.0+cu130.torch213",
        ),
        (
            "demo_project-1.0+cu130.torch213-cp39-abi3-manylinux_2_28_x86_64.whl",
            "its file name has the tag cp39-abi3-manylinux_2_28_x86_64, and WHEEL py3-none-manylinux_2_28_x86_64",
        ),
    ],
)
def test_name_that_is_wrong(skeleton: Path, tmp_path: Path, name: str, said: str) -> None:
    wheel = changed(made(skeleton, tmp_path, lib_C="no_module"), "none", None, name)
    assert checked(wheel, tmp_path).problems == (said,)


def test_metadata_that_requires_another_torch(skeleton: Path, tmp_path: Path) -> None:
    wheel = made(skeleton, tmp_path, lib_C="no_module")
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"{INFO}/METADATA")
    wheel = changed(wheel, f"{INFO}/METADATA", text.replace(b"torch==2.13.*", b"torch"))
    found = checked(wheel, tmp_path)
    assert "its version names torch213, and METADATA requires no release of torch" in found.problems
    assert found.torch == ""


@pytest.mark.parametrize(
    ("library", "name", "said"),
    [
        ("python_unstable", "demo/x.so", "demo/x.so uses symbols of Python, and its tag is py3-none-"),
        ("no_module", f"demo/x{SUFFIX}", f"demo/x{SUFFIX} is found by one Python only, and its tag is py3-none-"),
    ],
)
def test_library_that_the_tag_does_not_fit(skeleton: Path, tmp_path: Path, library: str, name: str, said: str) -> None:
    content = (LIBRARIES / f"{library}.so").read_bytes()
    wheel = changed(made(skeleton, tmp_path, lib_C="no_module"), name, content)
    assert [problem for problem in checked(wheel, tmp_path).problems if problem.startswith(said)]


def test_file_that_is_there_twice(skeleton: Path, tmp_path: Path) -> None:
    wheel = made(skeleton, tmp_path, lib_C="no_module")
    with zipfile.ZipFile(wheel, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("demo/__init__.py", "other")
    assert "it has demo/__init__.py twice" in checked(wheel, tmp_path).problems


@pytest.mark.parametrize("content", [b"", b"no zip", None])
def test_what_is_no_wheel(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "demo-1.0-py3-none-any.whl"
    if content is None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("demo/a.py", "")
    else:
        path.write_bytes(content)
    with pytest.raises(DriverError) as caught:
        checked(path, tmp_path)
    assert caught.value.diagnostics[0].code is Code.FILE_KIND


def test_wheels_and_libraries_of_a_command_line(skeleton: Path, tmp_path: Path) -> None:
    wheel = made(skeleton, tmp_path / "dist", lib_C="no_module")
    assert find_wheels([tmp_path / "dist", wheel, LIBRARIES, tmp_path / "none"]) == (
        [wheel],
        [LIBRARIES, tmp_path / "none"],
    )


@pytest.mark.e2e
def test_the_command(skeleton: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = made(skeleton, tmp_path, lib_C="no_module")
    assert __main__.main(["abi-check", str(wheel)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said == [
        f"{wheel}/demo/lib_C.so: passes the ABI check; device code: none",
        f"{wheel}: its RECORD and its metadata are valid; 1 library for torch 2.13 and cu130",
    ]
    wheel = changed(made(skeleton, tmp_path, lib_C="no_module", bad="runpath"), "demo/__init__.py", b"")
    assert __main__.main(["abi-check", "--json", str(wheel)]) == 5
    result = json.loads(capsys.readouterr().out)
    assert [found["problems"] for found in result["wheels"]] == [["demo/__init__.py has other bytes than RECORD says"]]
    assert {Path(library["file"]).name: library["compliant"] for library in result["libraries"]} == {
        "lib_C.so": True,
        "bad.so": False,
    }
    assert {found["name"] for found in result["errors"]} == {"not-compliant"}
