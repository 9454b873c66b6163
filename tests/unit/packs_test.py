"""toolchains/packs.py: the bytes of a pack, whatever order and links the directories have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tree import write_files

SCRIPT = Path(__file__).parents[2] / "toolchains" / "packs.py"


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-S", "-B", str(SCRIPT), *arguments],
        cwd=place,
        check=False,
        capture_output=True,
        text=True,
    )


def test_bytes_of_a_pack(tmp_path: Path) -> None:
    write_files(tmp_path, {"b/z.h": "", "a/sub/y z.h": "y\n", "a/x.h": "xx\n\n"})
    (tmp_path / "b" / "linked").symlink_to("../a/sub")
    done = run(tmp_path, "headers.pack", '["a", "b/linked"]', "b", "a")
    assert (done.returncode, done.stderr) == (0, "")
    lines = ["headers 1", "directory b", "directory a", "root a", "root b/linked"]
    lines += ["4 a/x.h", "2 a/sub/y z.h", "2 b/linked/y z.h", "0 b/z.h", ""]
    files = dict(line.split(" ", 1)[::-1] for line in lines[5:-1])
    assert (tmp_path / "headers.pack").read_text() == "\n".join(
        [*lines[:5], *(f"{files[name]} {name}" for name in sorted(files)), "", "y\nxx\n\ny\n"]
    )


def test_links_in_circles_and_to_nothing_are_left_out_and_inner_directories_are_in_the_outer_ones(
    tmp_path: Path,
) -> None:
    (tmp_path / "a" / "in").mkdir(parents=True)
    (tmp_path / "a" / "in" / "x.h").write_text("x")
    (tmp_path / "a" / "in" / "up").symlink_to("..")
    (tmp_path / "a" / "none.h").symlink_to("nowhere")
    (tmp_path / "a" / "beside").symlink_to("in")
    done = run(tmp_path, "headers.pack", '["a/in", "a"]', "a/in", "a")
    assert (done.returncode, done.stderr) == (0, "")
    expected = "headers 1\ndirectory a\nroot a/in\nroot a\n1 a/beside/x.h\n1 a/in/x.h\n\nxx"
    assert (tmp_path / "headers.pack").read_text() == expected


def test_a_name_with_the_end_of_a_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x\ny.h").touch()
    done = run(tmp_path, "headers.pack", "[]", "a")
    assert done.returncode == 1
    assert "a line break in the name 'a/x\\ny.h'" in done.stderr
    assert not (tmp_path / "headers.pack").exists()
