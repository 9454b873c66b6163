"""Projects with a setup.py or a pyproject.toml: when their build is recorded, and the wheel of their Python part."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from typing import TYPE_CHECKING

import pytest
from setup_projects import BODY, CU130, SETUP, SOABI, fault, project, record, write_project

from py_driver.errors import Code
from py_driver.recording.record import Module

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("cache")]


def test_a_setup_py_is_run_once_for_a_configuration(tmp_path: Path, cache: Path) -> None:
    directory = project(tmp_path, SETUP, {"setup.cfg": ""})
    first = record(directory)
    made = (first.directory / "record.json").stat().st_ino
    [wheel] = (first.directory / "wheel").iterdir()
    assert record(directory) == first
    assert (first.directory / "record.json").stat().st_ino == made
    assert wheel.stat().st_mtime == wheel.stat().st_mtime
    assert len(list((cache / "recordings").glob("*/record.json"))) == 1
    (directory / "b.cu").write_text("// changed\n", encoding="utf-8")
    assert record(directory).directory != first.directory


def test_a_setup_py_that_reads_itself_alone_is_run_once_for_all_edits_of_its_sources(tmp_path: Path) -> None:
    directory = project(tmp_path, SETUP)
    first = record(directory)
    (directory / "b.cu").write_text("// changed\n", encoding="utf-8")
    assert record(directory) == first
    (directory / "setup.py").write_text((directory / "setup.py").read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert record(directory).directory != first.directory


def test_a_module_of_python_is_recorded_again_after_an_edit(tmp_path: Path) -> None:
    setup = SETUP.replace('version="1.0",', 'version="1.0", packages=["thing"],')
    directory = project(tmp_path, setup, {"thing/__init__.py": "A = 1\n"})
    first = record(directory)
    (directory / "thing" / "__init__.py").write_text("A = 2\n", encoding="utf-8")
    recorded = record(directory)
    assert recorded.directory != first.directory
    with zipfile.ZipFile(recorded.directory / "wheel" / recorded.record.wheel) as wheel:
        assert wheel.read("thing/__init__.py") == b"A = 2\n"


def test_a_package_that_setuptools_finds_is_recorded_again_after_an_edit(tmp_path: Path) -> None:
    setup = """
        from setuptools import setup

        setup(name="thing", version="1.0")
    """
    directory = project(tmp_path, setup, {"thing/__init__.py": "A = 1\n"})
    record(directory)
    (directory / "thing" / "__init__.py").write_text("A = 2\n", encoding="utf-8")
    recorded = record(directory)
    with zipfile.ZipFile(recorded.directory / "wheel" / recorded.record.wheel) as wheel:
        assert wheel.read("thing/__init__.py") == b"A = 2\n"


def test_what_the_driver_built_is_not_packed(tmp_path: Path) -> None:
    setup = SETUP.replace("import setup\n", "import find_namespace_packages, setup\n")
    setup = setup.replace('version="1.0",', 'version="1.0", packages=find_namespace_packages(),')
    directory = project(tmp_path, setup, {"thing/__init__.py": ""})
    first = record(directory)
    for name in (f"build/{CU130}/thing/__init__.py", ".dev/installed/thing/__init__.py"):
        (directory / name).parent.mkdir(parents=True)
        (directory / name).write_text("", encoding="utf-8")
    assert record(directory) == first


def test_two_recordings_have_the_same_bytes(tmp_path: Path, cache: Path) -> None:
    directory = project(tmp_path, SETUP, {"thing/__init__.py": "", "z.txt": "", "y.txt": ""})
    contents = []
    for _ in range(2):
        recorded = record(directory)
        contents.append({path.name: path.read_bytes() for path in recorded.directory.rglob("*") if path.is_file()})
        shutil.rmtree(cache / "recordings")
    assert contents[0] == contents[1]


def test_a_wheel_has_an_empty_library_and_the_python_part(tmp_path: Path) -> None:
    setup = BODY.replace(
        'version="1.0",', 'version="1.0", packages=["thing"], entry_points={"console_scripts": ["x=thing:f"]},'
    )
    recorded = record(project(tmp_path, setup, {"thing/__init__.py": "def f(): pass\n"}))
    with zipfile.ZipFile(recorded.directory / "wheel" / recorded.record.wheel) as wheel:
        sizes = {entry.filename: entry.file_size for entry in wheel.infolist()}
    assert sizes[f"thing_cuda.{SOABI}.so"] == 0
    assert sizes["thing/__init__.py"] > 0
    assert "thing-1.0.dist-info/entry_points.txt" in sizes
    [found] = recorded.record.modules
    assert found == Module(
        name="thing_cuda",
        kind="cuda",
        file=f"thing_cuda.{SOABI}.so",
        script="setup.py",
        line=7,
        sources=("a.cpp", "b.cu"),
        builder="torch",
    )
    assert (recorded.record.name, recorded.record.version) == ("thing", "1.0")


@pytest.mark.parametrize(
    "requirement", ["--pre", "-e .", "x @ https://example.invalid/x.tar.gz", "./tool", "git+file:///x"]
)
def test_a_build_requirement_from_elsewhere_is_refused(tmp_path: Path, requirement: str) -> None:
    pyproject = f'[build-system]\nrequires = ["setuptools", "{requirement}"]\n'
    found = fault(project(tmp_path, SETUP, {"pyproject.toml": pyproject}))
    assert found.code is Code.UNSUPPORTED
    assert found.message == f"`{requirement}` is not a build requirement from the package index"


@pytest.mark.parametrize(
    ("requirement", "backend", "tag"),
    [
        ("hatchling", "hatchling.build", "py2.py3"),
        ("uv_build>=0.9.7,<0.10", "uv_build", "py3"),  # its Python part looks for a program on PATH
    ],
)
def test_a_project_without_modules_is_a_record(tmp_path: Path, requirement: str, backend: str, tag: str) -> None:
    pyproject = f"""
        [build-system]
        requires = ["{requirement}"]
        build-backend = "{backend}"
        [project]
        name = "pure"
        version = "2.0"
        """
    directory = write_project(tmp_path / "project", "", {"pyproject.toml": pyproject, "src/pure/__init__.py": ""})
    (directory / "setup.py").unlink()
    recorded = record(directory)
    assert (recorded.record.name, recorded.record.modules) == ("pure", ())
    assert recorded.record.wheel == f"pure-2.0-{tag}-none-any.whl"


def test_setup_cfg_and_a_src_layout_are_read(tmp_path: Path) -> None:
    cfg = """
        [metadata]
        name = thing
        version = attr: thing.version.__version__
        [options]
        packages = find:
        package_dir =
            = src
        [options.packages.find]
        where = src
        [options.package_data]
        thing = *.json
        """
    files = {
        "setup.cfg": cfg,
        "src/thing/__init__.py": "import torch_that_is_not_there\n",
        "src/thing/version.py": "__version__ = '3.1'\n",
        "src/thing/data.json": "{}",
    }
    setup = BODY.replace('name="thing",', "").replace('version="1.0",', "").replace("thing_cuda", "thing._C")
    recorded = record(project(tmp_path, setup, files))
    assert (recorded.record.version, recorded.record.modules[0].file) == ("3.1", f"thing/_C.{SOABI}.so")
    with zipfile.ZipFile(recorded.directory / "wheel" / recorded.record.wheel) as wheel:
        assert "thing/data.json" in wheel.namelist()


def test_a_version_of_git_is_found(tmp_path: Path) -> None:
    pyproject = """
        [build-system]
        requires = ["setuptools>=61", "setuptools-scm>=8"]
        build-backend = "setuptools.build_meta"
        [project]
        name = "thing"
        dynamic = ["version"]
        [tool.setuptools_scm]
        """
    setup = BODY.replace('name="thing",', "").replace('version="1.0",', "py_modules=[],")
    directory = project(tmp_path, setup, {"pyproject.toml": pyproject})
    settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"], ["tag", "v4.5"]):
        subprocess.run(["git", *settings, *words], cwd=directory, check=True)
    assert record(directory).record.version == "4.5"


def test_a_git_worktree_has_its_version_as_well(tmp_path: Path) -> None:
    setup = """
import subprocess, sys
sys.exit(subprocess.check_output(["git", "describe", "--tags"], text=True).strip())
"""
    directory = project(tmp_path, setup)
    settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"], ["tag", "v4.5"]):
        subprocess.run(["git", *settings, *words], cwd=directory, check=True)
    subprocess.run(["git", "worktree", "add", "-q", str(tmp_path / "tree")], cwd=directory, check=True)
    assert fault(tmp_path / "tree").message == "setup.py ends with sys.exit: v4.5"


def test_generated_sources_are_in_the_tree(tmp_path: Path) -> None:
    text = """
import os, subprocess, sys
os.makedirs("build/made", exist_ok=True)
subprocess.check_call([sys.executable, "gen.py"])
os.path.exists("linked.cpp") or os.symlink("a.cpp", "linked.cpp")
"""
    setup = text + BODY.replace('["a.cpp", "b.cu"]', '["build/made/c.cu", "linked.cpp"]')
    recorded = record(project(tmp_path, setup, {"gen.py": "open('build/made/c.cu', 'w').write('// made')\n"}))
    assert recorded.record.files == ("build/made/c.cu", "linked.cpp")
    assert (recorded.directory / "tree" / "build" / "made" / "c.cu").read_text(encoding="utf-8") == "// made"


def test_a_prebuilt_wheel_is_not_looked_for(tmp_path: Path) -> None:
    setup = "import os\nassert os.getenv('THING_FORCE_BUILD', 'FALSE') == 'TRUE'\n" + BODY
    assert record(project(tmp_path, setup)).record.modules


def test_a_variable_that_setup_py_reads_is_part_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = "import os\nname = os.environ.get('THING_NAME', 'thing_cuda')\n" + BODY.replace('"thing_cuda"', "name")
    directory = project(tmp_path, setup)
    assert record(directory).record.modules[0].name == "thing_cuda"
    monkeypatch.setenv("THING_NAME", "other")
    assert record(directory).record.modules[0].name == "other"


def test_a_build_requirement_without_a_wheel_is_refused(tmp_path: Path) -> None:
    pyproject = '[build-system]\nrequires = ["setuptools", "six<0.5"]\n'
    found = fault(project(tmp_path, SETUP, {"pyproject.toml": pyproject}))
    assert found.code is Code.UNSUPPORTED
    assert "six<0.5" in found.message


def test_leftovers_of_builds_are_not_seen(tmp_path: Path) -> None:
    files = {
        "build/lib.linux-x86_64-cpython-311/stale.py": "",
        "dist/old.whl": "",
        ".venv/pyvenv.cfg": "",
        "e/pyvenv.cfg": "",
    }
    setup = "import os, sys\nsys.exit(str(sorted(name for name in os.listdir('.'))))"
    found = fault(project(tmp_path, setup, files))
    assert found.message == "setup.py ends with sys.exit: ['a.cpp', 'b.cu', 'setup.py']"
