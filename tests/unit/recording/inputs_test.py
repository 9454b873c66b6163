"""What a recording takes in: the build system, requirements, variables, and the files of a project."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from py_driver.errors import Code, DriverError
from py_driver.recording.build_requirements import check, chosen, is_stand_in, normalized
from py_driver.recording.build_system import LEGACY, BuildSystem, read_build_system
from py_driver.recording.project_copy import changed, copy, digest, entries, states
from py_driver.recording.variables import day, forced, passed, unset_note

if TYPE_CHECKING:
    from pathlib import Path


def put(directory: Path, name: str, text: str = "") -> Path:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("text", [None, "", "[tool.black]\n"])
def test_a_project_without_build_system_has_the_legacy_backend(tmp_path: Path, text: str | None) -> None:
    put(tmp_path, "setup.py")
    if text is not None:
        put(tmp_path, "pyproject.toml", text)
    assert read_build_system(tmp_path) == BuildSystem(backend=LEGACY)


def test_a_build_system_is_read(tmp_path: Path) -> None:
    put(
        tmp_path,
        "pyproject.toml",
        '[build-system]\nrequires = ["a>1"]\nbuild-backend = "own"\nbackend-path = ["./tools"]\n',
    )
    assert read_build_system(tmp_path) == BuildSystem(requires=("a>1",), backend="own", backend_path=("./tools",))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (None, Code.NO_MANIFEST),
        ("[build-system", Code.TOML_SYNTAX),
        ("build-system = 1", Code.WRONG_TYPE),
        ("[build-system]", Code.MISSING_KEY),
        ('[build-system]\nrequires = "a"', Code.WRONG_TYPE),
        ('[build-system]\nrequires = []\nbuild-backend = ""', Code.WRONG_TYPE),
        ('[build-system]\nrequires = []\nbackend-path = ["a/../.."]', Code.PATH_ESCAPES),
        ('[build-system]\nrequires = []\nbackend-path = ["/usr"]', Code.PATH_ESCAPES),
    ],
)
def test_a_wrong_build_system_is_an_error(tmp_path: Path, text: str | None, code: Code) -> None:
    if text is not None:
        put(tmp_path, "pyproject.toml", text)
    with pytest.raises(DriverError) as failure:
        read_build_system(tmp_path)
    assert failure.value.diagnostics[0].code is code


@pytest.mark.parametrize(
    ("requires", "expected"),
    [
        ([], ("packaging", "setuptools<82", "wheel")),
        (
            ["torch>=2", "Torch_Vision", "nvidia-cuda-nvcc", "triton"],
            ("Torch_Vision", "packaging", "setuptools<82", "wheel"),
        ),
        (["setuptools>=61", "ninja"], ("ninja", "packaging", "setuptools<82", "setuptools>=61", "wheel")),
        (["setuptools >= 83.1"], ("packaging", "setuptools >= 83.1", "wheel")),
        (["setuptools-scm>=99"], ("packaging", "setuptools-scm>=99", "setuptools<82", "wheel")),
    ],
)
def test_what_is_installed(requires: list[str], expected: tuple[str, ...]) -> None:
    assert chosen(requires) == expected


def test_names_are_those_of_indexes() -> None:
    assert normalized(" Setuptools_SCM[toml] >= 8") == "setuptools-scm"
    assert is_stand_in("torchvision==0.29")
    assert not is_stand_in("torchmetrics")


@pytest.mark.parametrize(
    "requirement", ["a", "a [x, y] >=1,!=2 ; python_version < '3.12'", "a(>=1)", "a~=1.0", "a === 1"]
)
def test_a_requirement_of_an_index_is_taken(requirement: str) -> None:
    check([requirement])


@pytest.mark.parametrize(
    "requirement", ["-r x", "--pre", "a @ https://x", "./a", "/a", "git+https://x", "a.whl/x", "", "a -r x"]
)
def test_a_requirement_from_elsewhere_is_not(requirement: str) -> None:
    with pytest.raises(DriverError):
        check([requirement])


def test_variables_are_those_that_scripts_name(tmp_path: Path) -> None:
    put(tmp_path, "setup.py", "os.getenv('MY_OPTION'); os.environ[\"MY_TOKEN\"]; 'HOME' in os.environ; 'X_FORCE_BUILD'")
    put(tmp_path, "helper.py", "get('OTHER')")
    environ = {"MY_OPTION": "1", "MY_TOKEN": "hush", "HOME": "/h", "UNNAMED": "2", "OTHER": "3"}
    assert passed(tmp_path, (), environ) == {"MY_OPTION": "1", "OTHER": "3"}
    assert forced(tmp_path) == {"X_FORCE_BUILD": "TRUE"}


def test_variables_are_also_those_of_what_scripts_import(tmp_path: Path) -> None:
    put(tmp_path, "setup.py", "from tools.setup_helpers import extension\nimport unknown, os")
    put(tmp_path, "tools/setup_helpers/__init__.py", "from .flags import *\nfrom ... import outside\nfrom ..b import c")
    put(tmp_path, "tools/setup_helpers/extension.py", "os.environ.get('WITH_A'")
    put(tmp_path, "tools/setup_helpers/flags.py", "os.environ.get('WITH_B')")
    put(tmp_path, "tools/b/c.py", "import setup; os.environ.get('WITH_C')")
    put(tmp_path, "package/__init__.py", "os.environ.get('WITH_D')")
    put(tmp_path, "cmake/options.cmake", "if(DEFINED ENV{WITH_E})\n")
    put(tmp_path, "CMakeLists.txt", "set(F $ENV{WITH_F})\n")
    environ = {f"WITH_{letter}": "1" for letter in "ABCDEF"}
    assert "".join(name[-1] for name in passed(tmp_path, (), environ)) == "ABCEF"


@pytest.mark.parametrize(
    ("requires", "script", "expected"),
    [
        (["setuptools_scm[toml]>=8"], "", ["SETUPTOOLS_SCM_PRETEND_VERSION", "SETUPTOOLS_SCM_PRETEND_VERSION_FOR_A"]),
        (
            [],
            "setup_requires=['setuptools_scm>=6']",
            ["SETUPTOOLS_SCM_PRETEND_VERSION", "SETUPTOOLS_SCM_PRETEND_VERSION_FOR_A"],
        ),
        (["scikit-build-core"], "", ["CMAKE_ARGS"]),
        (["setuptools"], "", []),
    ],
)
def test_variables_are_also_those_of_build_tools(
    tmp_path: Path, requires: list[str], script: str, expected: list[str]
) -> None:
    put(tmp_path, "setup.py", script)
    names = ("CMAKE_ARGS", "SETUPTOOLS_SCM_PRETEND_VERSION", "SETUPTOOLS_SCM_PRETEND_VERSION_FOR_A", "SETUPTOOLS_SCM_X")
    assert list(passed(tmp_path, requires, dict.fromkeys(names, "1"))) == expected


def test_arguments_for_cmake_name_no_compiler_of_this_machine(tmp_path: Path) -> None:
    text = "-DCMAKE_AR=/opt/conda/bin/ar -DWITH_X=ON -DCMAKE_CXX_COMPILER_RANLIB=/x -DCMAKE_BUILD_TYPE=Debug"
    found = passed(tmp_path, ["scikit-build-core"], {"CMAKE_ARGS": text})
    assert found == {"CMAKE_ARGS": "-DWITH_X=ON -DCMAKE_BUILD_TYPE=Debug"}


@pytest.mark.parametrize(
    ("script", "dated"),
    [
        ("from datetime import date\nversion = f'1.0.{date.today():%Y%m%d}'", True),
        ("version = time.strftime('1.%Y%m%d')", True),
        ("version = '1.%d' % time.time()", True),
        ("runtime = sometimes(timeout=1)", False),
    ],
)
def test_the_date_counts_where_scripts_ask_for_the_time(tmp_path: Path, script: str, dated: bool) -> None:  # noqa: FBT001
    put(tmp_path, "setup.py", script)
    days = {day(tmp_path, now) for now in (0.0, 1.0, 3 * 86400.0)}
    assert len(days) == (2 if dated else 1)
    assert all(days) == dated


def test_a_copy_has_the_files_and_can_be_written(tmp_path: Path) -> None:
    project = tmp_path / "project"
    for name in (
        "setup.py",
        "a/b.cu",
        "a/__pycache__/x.pyc",
        "build/lib/x.py",
        "build/own.txt",
        "build/torch213-cxx11-cpu-x86_64-linux-cp313/package/a.py",
        ".dev/installed/a.py",
        "dist/x.whl",
        "v/pyvenv.cfg",
    ):
        put(project, name, name)
    put(project, "run.sh").chmod(0o555)
    (project / "link").symlink_to("a/b.cu")
    (project / "nowhere").symlink_to("/nothing/at/all")
    found = entries(project)
    copy(found, tmp_path / "copy")
    paths = sorted(path.relative_to(tmp_path / "copy").as_posix() for path in (tmp_path / "copy").rglob("*"))
    assert paths == ["a", "a/b.cu", "build", "build/own.txt", "link", "nowhere", "run.sh", "setup.py"]
    assert (tmp_path / "copy" / "link").is_symlink()
    assert oct((tmp_path / "copy" / "run.sh").stat().st_mode & 0o777) == "0o755"


def test_a_digest_is_that_of_names_contents_and_modes(tmp_path: Path) -> None:
    setup = put(tmp_path, "setup.py", "1")
    digests = [digest(entries(tmp_path))]
    os.utime(setup, (1, 1))
    assert digest(entries(tmp_path)) == digests[0]
    for change in (lambda: put(tmp_path, "setup.py", "2"), lambda: put(tmp_path, "b"), lambda: setup.chmod(0o755)):
        change()
        digests.append(digest(entries(tmp_path)))
    assert len(set(digests)) == 4


def test_what_looks_at_a_repository_does_not_change_the_digest(tmp_path: Path) -> None:
    put(tmp_path, ".git/HEAD", "ref: refs/heads/main")
    first = digest(entries(tmp_path))
    put(tmp_path, ".git/logs/HEAD", "x")
    assert digest(entries(tmp_path)) == first
    put(tmp_path, ".git/refs/tags/v1", "x")
    assert digest(entries(tmp_path)) != first


@pytest.mark.parametrize("options", [(), ("--object-format=sha256",)], ids=["sha1", "sha256"])
def test_a_file_that_git_tracks_from_now_on_changes_the_digest(tmp_path: Path, options: tuple[str, ...]) -> None:
    def git(*words: str) -> str:
        subprocess.run(["git", "-C", tmp_path, *words], check=True, capture_output=True)
        return digest(entries(tmp_path))

    setup = put(tmp_path, "setup.py", "1")
    put(tmp_path, "package/data.txt")
    git("init", "--quiet", *options)
    first = git("add", "setup.py")
    os.utime(setup, (1, 1))
    index = (tmp_path / ".git/index").read_bytes()
    assert git("status") == first
    assert (tmp_path / ".git/index").read_bytes() != index
    added = git("add", "package")
    assert added != first
    assert git("update-index", "--chmod=+x", "package/data.txt") != added
    put(tmp_path, "setup.py", "2")
    edited = digest(entries(tmp_path))
    assert git("add", "setup.py") != edited
    put(tmp_path, "setup.py", "1")
    assert git("reset", "--quiet", "--", "package") != edited


def test_an_index_that_is_not_understood_counts_with_its_bytes(tmp_path: Path) -> None:
    put(tmp_path, "setup.py")
    digests = set()
    for text in ("", "x", "DIRC"):
        put(tmp_path, ".git/index", text)
        digests.add(digest(entries(tmp_path)))
    subprocess.run(["git", "-C", tmp_path, "init", "--quiet"], check=True)
    (tmp_path / ".git/index").unlink()
    for option in ("--index-version=4", "--split-index"):
        subprocess.run(["git", "-C", tmp_path, "update-index", option, "--add", "setup.py"], check=True)
        digests.add(digest(entries(tmp_path)))
    assert len(digests) == 5


def test_a_repository_that_is_not_the_projects_is_not_copied(tmp_path: Path) -> None:
    put(tmp_path, "private/.git/HEAD", "ref: x")
    put(tmp_path, "private/.git/config", "[core]\n\tbare = false\n")
    put(tmp_path, "project/.git", "gitdir: ../private/.git\n")
    put(tmp_path, "project/setup.py")
    assert [entry.path for entry in entries(tmp_path / "project")] == ["setup.py"]


def test_a_link_within_the_repository_is_copied_as_a_file(tmp_path: Path) -> None:
    put(tmp_path, ".git/HEAD")
    put(tmp_path, "shared/a.h", "a")
    put(tmp_path, "python/setup.py")
    (tmp_path / "python" / "csrc").symlink_to("../shared")
    found = {entry.path: entry for entry in entries(tmp_path / "python")}
    assert sorted(found) == ["csrc/a.h", "setup.py"]
    assert found["csrc/a.h"].link is None


def test_a_link_to_what_is_not_copied_is_copied_as_a_file(tmp_path: Path) -> None:
    put(tmp_path, "setup.py")
    put(tmp_path, "dist/model.txt", "a")
    put(tmp_path, "web/node_modules/x/x.js", "b")
    put(tmp_path, "package/own.txt")
    (tmp_path / "package" / "model.txt").symlink_to("../dist/model.txt")
    (tmp_path / "package" / "assets").symlink_to("../web/node_modules/x")
    (tmp_path / "package" / "link.txt").symlink_to("own.txt")
    found = entries(tmp_path)
    links = {entry.path: entry.link for entry in found if entry.path.startswith("package/")}
    assert links == {
        "package/assets/x.js": None,
        "package/link.txt": "own.txt",
        "package/model.txt": None,
        "package/own.txt": None,
    }
    before = digest(found)
    put(tmp_path, "dist/model.txt", "b")
    assert digest(entries(tmp_path)) != before


def test_a_link_around_the_project_is_refused(tmp_path: Path) -> None:
    put(tmp_path, ".git/HEAD")
    put(tmp_path, "python/setup.py")
    (tmp_path / "python" / "up").symlink_to("..")
    with pytest.raises(DriverError) as failure:
        entries(tmp_path / "python")
    assert failure.value.diagnostics[0].code is Code.PATH_ESCAPES


def test_files_that_a_build_changed_are_found(tmp_path: Path) -> None:
    project = tmp_path / "project"
    for name in ("same", "written", "touched"):
        put(project, name, name)
    found = entries(project)
    copy(found, tmp_path / "copy")
    before = states(tmp_path / "copy")
    put(tmp_path / "copy", "written", "2")
    put(tmp_path / "copy", "touched", "touched")
    put(tmp_path / "copy", "made/new", "3")
    put(tmp_path / "copy", "x.egg-info/PKG-INFO", "3")
    (tmp_path / "copy" / "out").symlink_to("/etc/passwd")
    assert changed(tmp_path / "copy", before, found) == ["made/new", "written"]


def test_a_variable_that_may_decide_on_modules_is_named(tmp_path: Path) -> None:
    text = 'import os\n\nif os.getenv("BUILD_CUDA") == "1" or "X" in os.environ["EXTENSIONS"]:\n    pass\n'
    put(tmp_path, "setup.py", f"{text}os.environ.get('SECRET_TOKEN')\nprint('NAMED')\n")
    note = unset_note(tmp_path, {})
    assert note is not None
    assert (
        note.message == "setup.py has no extension module, and these variables are not set: `BUILD_CUDA`, `EXTENSIONS`"
    )
    assert note.span.line == 3
    note = unset_note(tmp_path, {"BUILD_CUDA": "0"})
    assert note is not None
    assert "`BUILD_CUDA`" not in note.message
    assert unset_note(tmp_path, {"BUILD_CUDA": "", "EXTENSIONS": ""}) is None
    (tmp_path / "setup.py").unlink()
    assert unset_note(tmp_path, {}) is None
