"""Which files of a Python package are refused, or told of, though they could be shipped."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from relu import notes, plan, write

from py_driver.errors import Code, DriverError

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = "torch-ext/relu"
NAME = 'name = "relu"'
TABLE = "[torch]\n"
SHIPPED = '[torch]\npyext = ["py", "pyi", "json", "so"]\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write(tmp_path)


def put(project: Path, name: str) -> str:
    path = project / PACKAGE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return f"{PACKAGE}/{name}"


@pytest.mark.parametrize(
    "name",
    [
        "_ops.py",
        "_ops/__init__.py",
        "_ops/__init__.abi3.so",
        "_ops.so",
        "_ops.abi3.so",
        "_ops.cpython-311-x86_64-linux-gnu.so",
        "_ops.py/x.py",
        "metadata.json/x.py",
    ],
)
def test_what_is_imported_in_the_place_of_a_generated_file(project: Path, name: str) -> None:
    path = put(project, name)
    with pytest.raises(DriverError) as caught:
        plan(project, TABLE, SHIPPED)
    [found] = caught.value.diagnostics
    assert found.code is Code.FOREIGN_FILE
    assert path.startswith(found.message.partition(" ")[0])


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("__init__.py", "__init__.abi3.so"),
        ("__init__.py", "__init__.so"),
        ("x.py", "x.cpython-311-x86_64-linux-gnu.so"),
        ("sub/x.py", "sub/x.so"),
    ],
)
def test_extension_module_beside_a_source(project: Path, source: str, name: str) -> None:
    put(project, source)
    path = put(project, name)
    with pytest.raises(DriverError) as caught:
        plan(project, TABLE, SHIPPED)
    [found] = caught.value.diagnostics
    assert found.code is Code.FILE_KIND
    assert found.message.startswith(f"`{path}` is an extension module")
    assert f"`{PACKAGE}/{source}`" in found.message


def test_files_that_are_no_modules_of_these_names(project: Path) -> None:
    names = ("_ops.pyi", "_ops.json", "_ops_more.py", "sub/_ops.py", "x.so", "x.pyi", "sub/x.py", "y.py", "y.json")
    paths = {put(project, name) for name in names}
    assert paths <= set(plan(project, TABLE, SHIPPED).files)


def git(place: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(place), *words], check=True, capture_output=True)


def test_note_of_what_git_ignores(project: Path) -> None:
    names = ("secret.py", "sub/secret 2.py", "secret.md", "secret_tracked.py", "new.py")
    paths = [put(project, name) for name in names]
    assert notes(project) == []
    git(project, "init", "-q")
    (project / ".gitignore").write_text("secret*\n")
    git(project, "add", "-f", paths[3])
    assert notes(project) == [f"git ignores `{paths[0]}`, `{paths[1]}`, but they are shipped"]
    assert {paths[0], paths[1], paths[3], paths[4]} <= set(plan(project).files)
    for number in range(5):
        put(project, f"secret{number}.py")
    [note] = notes(project)
    assert note.endswith("`torch-ext/relu/secret3.py` and 2 more, but they are shipped")


def test_no_note_where_git_has_no_say(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = write(tmp_path / "inner")
    put(inner, "secret.py")
    git(project, "init", "-q")
    (project / ".gitignore").write_text("inner/\n")
    assert notes(inner) == []
    (project / ".gitignore").write_text("secret*\n")
    assert len(notes(inner)) == 1
    (project / ".git" / "index").write_bytes(b"nothing that git can read")
    assert notes(inner) == []
    (project / ".git" / "index").unlink()
    monkeypatch.setenv("PATH", "/nonexistent")
    assert notes(inner) == []
