"""Files that cannot be looked at, odd files, streams that cannot be written: each is an error of its own, no bug."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tree import write_files

from py_driver import __main__
from py_driver.plan.buildfile import HEADER

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[3]
LIBRARIES = ROOT / "tests" / "abi" / "libraries"
LONG = "a" * 300

MANIFEST = """\
[general]
name = "relu"
version = 1
edition = 5
license = "mit"
backends = ["cpu"]

[torch]
src = ["torch-ext/binding.cpp"]
include = ["."]

[kernel.relu]
backend = "cpu"
depends = []
src = ["csrc/relu.cpp", "csrc/relu.h"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {
        "build.toml": MANIFEST,
        "torch-ext/relu/__init__.py": "",
        "torch-ext/relu/deep/more.py": "",
        "torch-ext/binding.cpp": '#include "csrc/relu.h"\nREGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n',
        "csrc/relu.cpp": '#include "relu.h"\n',
        "csrc/relu.h": "#pragma once\n",
        "secret/x.h": "",
    }
    return write_files(tmp_path, files)


def driver(*words: str | Path, shell: str = "") -> subprocess.CompletedProcess[bytes]:
    """Run the driver without the power of root to pass over modes; `shell` comes behind the command."""
    bare = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    environment = {key: value for key, value in os.environ.items() if key not in {"FORCE_COLOR", "DRIVER_TRACEBACK"}}
    environment["PYTHONPATH"] = str(ROOT)
    command = [*bare, sys.executable, "-m", "py_driver", *words]
    if shell:
        command = ["/bin/bash", "-c", f'"$@" {shell}', "bash", *command]
    return subprocess.run(command, env=environment, capture_output=True, check=False, timeout=60)


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root passes over modes")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("csrc", "cannot use `csrc/relu.cpp`: Permission denied"),
        ("csrc/relu.cpp", "cannot read `csrc/relu.cpp`: it has no read permission"),
        ("torch-ext/binding.cpp", "cannot read `torch-ext/binding.cpp`: it has no read permission"),
        ("torch-ext/relu", "cannot use `torch-ext/relu/__init__.py`: Permission denied"),
        ("torch-ext/relu/__init__.py", "cannot read `torch-ext/relu/__init__.py`: it has no read permission"),
        ("torch-ext/relu/deep", "cannot look into `torch-ext/relu/deep`: Permission denied"),
    ],
)
def test_what_a_mode_forbids_has_a_place(project: Path, name: str, said: str) -> None:
    mode = (project / name).stat().st_mode
    (project / name).chmod(0)
    try:
        done = driver("check", project)
    finally:
        (project / name).chmod(mode)
    error = done.stderr.decode()
    assert f"error[E103]: {said}\n --> {project}/build.toml:" in error.replace("  -->", " -->")
    assert done.returncode == 2


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root passes over modes")
def test_a_header_that_nobody_can_look_at_is_not_there(project: Path) -> None:
    (project / "csrc/relu.h").write_text('#include "../secret/x.h"\n', encoding="utf-8")
    (project / "secret").chmod(0)
    try:
        done = driver("check", project)
    finally:
        (project / "secret").chmod(0o755)
    assert (done.returncode, b"error[E108]" in done.stderr) == (2, True)


def test_names_that_are_too_long(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "csrc/relu.h").write_text(f'#include "{LONG}.h"\n', encoding="utf-8")
    assert __main__.main(["check", str(project)]) == 0
    text = MANIFEST.replace("csrc/relu.h", f"csrc/{LONG}.h")
    (project / "build.toml").write_text(text, encoding="utf-8")
    capsys.readouterr()
    assert __main__.main(["check", str(project)]) == 2
    error = capsys.readouterr().err
    assert f"error[E103]: cannot use `csrc/{LONG}.h`: File name too long" in error
    assert "build.toml:15:25" in error


@pytest.mark.parametrize(
    ("command", "number"), [("check", "E309"), ("init", "E309"), ("size", "E101"), ("abi-check", "E101")]
)
def test_a_path_of_the_command_line_that_is_too_long(
    command: str, number: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert __main__.main([command, LONG]) in {2, 4}
    assert capsys.readouterr().err.startswith(f"error[{number}]: ")


def test_a_file_that_vanishes_during_the_check(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def vanishing(*_: object) -> None:
        (project / "nowhere.py").read_bytes()

    monkeypatch.setattr("py_driver.plan.project.check_op_names", vanishing)
    assert __main__.main(["check", str(project)]) == 2
    assert capsys.readouterr().err.startswith(f"error[E101]: {project}/nowhere.py has vanished since it was checked\n")


@pytest.mark.parametrize("program", [(ROOT / "driver",), ("-m", "py_driver")])
def test_a_working_directory_that_was_removed(tmp_path: Path, program: tuple[str | Path, ...]) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = [sys.executable, *map(str, program), "init", "re-lu"]
    inner = ["sh", "-c", 'rmdir "$0" && exec "$@"', str(gone), *command]
    done = subprocess.run(
        inner, cwd=gone, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode
    assert done.stderr.startswith("error[E101]: the working directory no longer exists")


@pytest.mark.parametrize("link", ["torch-ext/relu", "torch-ext"])
def test_a_package_out_of_the_project(
    project: Path, link: str, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "there"
    shutil.move(project / link, outside)
    (project / link).symlink_to(outside)
    assert __main__.main(["check", str(project)]) == 2
    assert "error[E102]: `torch-ext/relu` is a symbolic link out of the project, to " in capsys.readouterr().err


def test_a_package_that_is_a_link_in_the_project(project: Path) -> None:
    shutil.move(project / "torch-ext/relu", project / "python")
    (project / "torch-ext/relu").symlink_to("../python")
    assert __main__.main(["check", str(project)]) == 0


def _link_to_nothing(path: Path) -> None:
    path.symlink_to("nothing")


def _link_out(path: Path) -> None:
    path.symlink_to("/etc/hostname")


@pytest.mark.parametrize("make", [Path.touch, os.mkfifo, _link_to_nothing, _link_out])
def test_what_is_not_shipped_may_be_anything(project: Path, make: Callable[[Path], None]) -> None:
    make(project / "torch-ext/relu/notes (1).md")
    assert __main__.main(["check", str(project)]) == 0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkfifo, "error[E103]: `torch-ext/relu/x.py` is not a regular file"),
        (_link_to_nothing, "error[E101]: the symbolic link `torch-ext/relu/x.py` leads nowhere"),
        (_link_out, "error[E102]: `torch-ext/relu/x.py` is a symbolic link out of the project"),
    ],
)
def test_what_is_shipped_is_a_file(
    project: Path, make: Callable[[Path], None], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make(project / "torch-ext/relu/x.py")
    assert __main__.main(["check", str(project)]) == 2
    assert said in capsys.readouterr().err


def test_a_source_that_is_a_link_to_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "csrc/relu.cpp").unlink()
    (project / "csrc/relu.cpp").symlink_to("gone.cpp")
    assert __main__.main(["check", str(project)]) == 2
    said = capsys.readouterr().err
    assert "error[E101]: the symbolic link `csrc/relu.cpp` leads nowhere, to `gone.cpp`" in said
    assert "did you mean" not in said


def test_gen_does_not_wait_for_a_fifo(project: Path) -> None:
    os.mkfifo(project / "BUILD.bazel")
    done = driver("gen", project)
    assert b"BUILD.bazel is not a regular file" in done.stderr
    assert done.returncode == 2


def test_gen_does_not_write_through_a_link_to_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outside = project.parent / f"{project.name}-outside"
    (project / "BUILD.bazel").symlink_to(outside)
    assert __main__.main(["gen", str(project)]) == 2
    assert "error[E107]" in capsys.readouterr().err
    assert not outside.exists()
    outside.write_text(f"{HEADER}\n", encoding="utf-8")
    assert __main__.main(["gen", str(project)]) == 0


def test_a_manifest_that_is_too_large_has_its_true_size(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = project / "build.toml"
    os.truncate(manifest, 5_000_000_000)
    for command in ("check", "upgrade"):
        assert __main__.main([command, str(project)]) == 2
        assert f"error[E002]: {manifest} has 5000000000 bytes; at most 4194304 are read" in capsys.readouterr().err


def _seconds_of_check(project: Path, count: int) -> float:
    """The CPU seconds of `driver check` for a manifest that lists `count` sources of long names."""
    names = [f"csrc/{'instantiation_' * 3}{number}.cpp" for number in range(count)]
    for name in names:
        (project / name).touch()
    listed = ", ".join(f'"{name}"' for name in names)
    text = MANIFEST.replace('"csrc/relu.h"', f'"csrc/relu.h", {listed}')
    (project / "build.toml").write_text(text, encoding="utf-8")
    start = time.process_time()
    assert __main__.main(["check", str(project)]) == 0
    return time.process_time() - start


@pytest.mark.thorough
def test_a_manifest_of_half_a_megabyte(project: Path) -> None:
    few, many = _seconds_of_check(project, 2_000), _seconds_of_check(project, 10_000)
    assert (project / "build.toml").stat().st_size > 500_000
    # Five times as many names; 25 is what each name compared with each other would cost.
    assert many < 12 * few


def test_many_missing_files_in_a_large_project(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in range(20):
        (project / f"data{folder}").mkdir()
        for number in range(500):
            (project / f"data{folder}" / f"some_kernel_{number}.h").touch()
    listed = ", ".join(f'"csrc/some_kernel_{number}.h"' for number in range(90))
    (project / "build.toml").write_text(MANIFEST.replace('"csrc/relu.h"', listed), encoding="utf-8")
    start = time.process_time()
    assert __main__.main(["check", str(project)]) == 2
    assert time.process_time() - start < 10
    error = capsys.readouterr().err
    assert error.count("error[E101]") == 90
    assert 1 <= error.count("did you mean") <= 10


@pytest.mark.parametrize(
    ("shell", "status"), [("> /dev/full", 4), ("> >(true)", 2), ("| true; exit ${PIPESTATUS[0]}", 2)]
)
def test_json_of_an_error_to_a_stream_that_fails(
    project: Path, shell: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    (project / "build.toml").write_text(MANIFEST + "x = 1\n", encoding="utf-8")
    done = driver("check", "--json", project, shell=shell)
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr
    assert b"error[E003]" in done.stderr
    assert done.returncode == status


@pytest.mark.parametrize("encoding", ["utf-8:strict", "utf-8:surrogateescape", "ascii", ""])
def test_json_is_ascii_whatever_a_directory_is_called(
    tmp_path: Path, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    done = driver("check", "--json", os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xc3\xa9"))
    assert done.returncode == 2
    (found,) = json.loads(done.stdout.decode("ascii"))["errors"]
    assert (found["code"], "\udcff" in found["message"]) == ("E105", True)


def test_paths_in_good_news_are_printable(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = project.parent / f"{project.name}\x1b[31m"
    project.rename(odd)
    for command in ("check", "gen", "gen", "upgrade"):
        assert __main__.main([command, str(odd)]) == 0
        said = capsys.readouterr().err
        assert "\\u001b[31m" in said
        assert "\x1b" not in said


@pytest.mark.parametrize("words", [["check", "--js"], ["variants", "--expl"], ["--vers"]])
def test_options_are_whole_words(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(words) == 2
    assert "error[E200]" in capsys.readouterr().err


def test_a_caret_stands_below_wide_characters(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = MANIFEST.replace('license = "mit"', 'license = { "漢字e\u0301" = 1, "数" = 7 }')
    (project / "build.toml").write_text(text, encoding="utf-8")
    assert __main__.main(["check", str(project)]) == 2
    assert (
        'license = { "漢字e\u0301" = 1, "数" = 7 }\n  |           ^^^^^^^^^^^^^^^^^^^^^^^^^\n'
        in capsys.readouterr().err
    )


def test_a_matrix_that_is_too_deep(project: Path, tmp_path: Path) -> None:
    matrix = tmp_path / "matrix.toml"
    for text, said in ((f"x = {'[' * 5000}", "E002"), (f"x = {'1' * 5000}", "E001")):
        matrix.write_text(text, encoding="utf-8")
        done = driver("check", "--matrix", matrix, project)
        assert done.returncode == 2
        assert f"error[{said}]".encode() in done.stderr
        assert b"sys." not in done.stderr


def test_a_huge_integer_has_a_place(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = MANIFEST.replace("version = 1", f"version = {'1' * 5000} # {'2' * 6000}")
    (project / "build.toml").write_text(text, encoding="utf-8")
    assert __main__.main(["check", str(project)]) == 2
    error = capsys.readouterr().err
    assert "error[E001]: an integer of 5000 characters is larger than TOML allows" in error
    assert "build.toml:3:11" in error
    assert "sys." not in error


@pytest.mark.parametrize("command", ["size", "diff", "index", "verify"])
def test_a_wheel_with_a_damaged_member_is_an_error(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    info = "relu-1.0.dist-info"
    path = tmp_path / "relu-1.0+torch213.cxx11.cpu-cp39-abi3-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: relu\nVersion: 1.0+torch213.cxx11.cpu\n" * 9)
        archive.writestr("relu/_variants/torch-cpu/metadata.json", json.dumps({"numbers": list(range(99))}))
        archive.writestr("relu/_variants/torch-cpu/_relu.so", (LIBRARIES / "good.so").read_bytes())
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\n" * 9)
        archive.writestr(f"{info}/RECORD", "a,,\n" * 99)
        starts = [member.header_offset + 30 + len(member.filename) for member in archive.infolist()]
    content = bytearray(path.read_bytes())
    for start in starts:
        content[start] |= 6  # a type of block that deflate does not have
    path.write_bytes(content)
    words = {"diff": [path, path], "index": [tmp_path]}.get(command, [path])
    assert __main__.main([command, *map(str, words)]) == 2
    assert "error[E103]: " in (said := capsys.readouterr().err)
    assert str(path) in said
