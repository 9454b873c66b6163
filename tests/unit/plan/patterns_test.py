"""Patterns in `src`, and what is said of files that are no C++."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sections import GENERAL, TORCH, make

from py_driver.errors import Code, DriverError

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.plan.plan import Plan

MADE = (
    *("k/b.cpp", "k/a.cpp", "k/a10.cpp", "k/a.h", "k/x.S", "k/y.c", "k/deep/c.cpp", "k/deep/deeper/d.cpp"),
    *("k/.hidden.cpp", "k/.git/e.cpp", "build/f.cpp", "bazel-out/g.cpp", "k/B.CPP"),
)


def plan(directory: Path, src: str, more: str = "") -> Plan:
    for name in MADE:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).touch()
    section = f'[kernel.k]\nbackend = "cpu"\ndepends = []\nsrc = [{src}]\n{more}'
    return make(directory, GENERAL.replace('"cpu", "cuda"', '"cpu"') + TORCH + section)


def sources(made: Plan) -> tuple[str, ...]:
    return next(group.sources for group in made.groups if group.name == "k")


@pytest.mark.parametrize(
    ("src", "expected"),
    [
        ('"k/*.cpp"', ("k/a.cpp", "k/a10.cpp", "k/b.cpp")),
        ('"k/?.cpp"', ("k/a.cpp", "k/b.cpp")),
        ('"k/[!a]*.cpp"', ("k/b.cpp",)),
        ('"k/**/*.cpp"', ("k/a.cpp", "k/a10.cpp", "k/b.cpp", "k/deep/c.cpp", "k/deep/deeper/d.cpp")),
        ('"**/[c-d].cpp"', ("c.cpp", "k/deep/c.cpp", "k/deep/deeper/d.cpp")),
        ('"k/b.cpp", "k/?.cpp"', ("k/a.cpp", "k/b.cpp")),
        ('"k/.h*.cpp"', ("k/.hidden.cpp",)),
        ('"*/deep/*.cpp"', ("k/deep/c.cpp",)),
        ('"k/*.[Sc]"', ("k/x.S", "k/y.c")),
    ],
)
def test_files_of_a_pattern(tmp_path: Path, src: str, expected: tuple[str, ...]) -> None:
    made = plan(tmp_path, src)
    assert sources(made) == expected
    assert any("kernel-builder accepts no patterns" in note.message for note in made.notes)
    assert not [note for note in made.notes if note.code is Code.DUPLICATE_FILE]


def test_headers_of_a_pattern_and_their_number(tmp_path: Path) -> None:
    made = plan(tmp_path, '"k/a.*"')
    assert [group.headers for group in made.groups if group.name == "k"] == [("k/a.h",)]
    assert "`k/a.*` matches 2 files; kernel-builder accepts no patterns" in [note.message for note in made.notes]


@pytest.mark.parametrize(
    ("src", "code", "message"),
    [
        ('"k/*.cu"', Code.FILE_MISSING, "`k/*.cu` matches no file of the project"),
        ('"none/**"', Code.FILE_MISSING, "`none/**` matches no file of the project"),
        ('"../*.cpp"', Code.PATH_ESCAPES, "the path `../*.cpp` leads out of its directory with `..`"),
        ('"/*.cpp"', Code.PATH_ESCAPES, "the path `/*.cpp` is not relative to the project"),
        ('"k/{a,b}.cpp"', Code.BAD_VALUE, "the path `k/{a,b}.cpp` is a pattern; only `src` takes patterns"),
    ],
)
def test_pattern_that_stands_for_nothing(tmp_path: Path, src: str, code: Code, message: str) -> None:
    with pytest.raises(DriverError) as failure:
        plan(tmp_path, src)
    [first, *_] = failure.value.diagnostics
    assert first.code is code
    assert first.message.startswith(message)
    assert first.span
    assert first.span.text == f"src = [{src}]"


def test_link_out_of_the_project_is_an_error(tmp_path: Path) -> None:
    outside = tmp_path.with_name(f"{tmp_path.name}-outside")
    outside.mkdir()
    (outside / "o.cpp").touch()
    (tmp_path / "linked").symlink_to(outside)
    with pytest.raises(DriverError) as failure:
        plan(tmp_path, '"linked/*.cpp"')
    assert failure.value.diagnostics[0].code is Code.PATH_ESCAPES
    assert "linked" not in " ".join(sources(plan(tmp_path, '"**/?.cpp"')))


def test_c_and_assembly_are_compiled_without_the_id(tmp_path: Path) -> None:
    made = plan(tmp_path, '"k/x.S", "k/y.c", "k/a.h"')
    assert sources(made) == ("k/x.S", "k/y.c")
    assert not [note for note in made.notes if "not compiled" in note.message]


def test_c_with_openmp_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DriverError) as failure:
        plan(tmp_path, '"k/y.c", "k/a.cpp"', 'cxx-flags = ["-fopenmp"]\n')
    [wrong] = failure.value.diagnostics
    assert wrong.message == "`k/y.c` is C, and [kernel.k] uses OpenMP, which is available for C++ only"


@pytest.mark.parametrize("name", ["k/t.tpp", "k/t.ipp", "k/t.hxx", "k/t.def", "k/t.tcc"])
def test_files_that_are_included_are_headers(tmp_path: Path, name: str) -> None:
    (tmp_path / "k").mkdir()
    (tmp_path / name).touch()
    made = plan(tmp_path, f'"k/a.cpp", "{name}"')
    assert not [note for note in made.notes if note.code is Code.FILE_KIND]


def test_other_files_are_told(tmp_path: Path) -> None:
    (tmp_path / "k").mkdir()
    (tmp_path / "k" / "t.txt").touch()
    [note] = [note for note in plan(tmp_path, '"k/a.cpp", "k/t.txt"').notes if note.code is Code.FILE_KIND]
    assert note.message.startswith("`k/t.txt` is neither a source (")


@pytest.mark.parametrize("name", ["k/p.cpp", "k/p.h", "torch-ext/re_lu/p.py"])
def test_pointer_of_git_lfs_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 30\n")
    with pytest.raises(DriverError) as failure:
        plan(tmp_path, '"k/a.cpp", "k/*.h"' + (f', "{name}"' if name.endswith(".cpp") else ""))
    [wrong] = failure.value.diagnostics
    assert wrong.code is Code.FILE_KIND
    assert wrong.message == f"`{name}` is a Git LFS pointer to a file that was not fetched"


def test_source_that_includes_a_source(tmp_path: Path) -> None:
    (tmp_path / "k").mkdir()
    (tmp_path / "k" / "m.cpp").write_text('#include "a.cpp"\n')
    [note] = [note for note in plan(tmp_path, '"k/m.cpp", "k/a.cpp"').notes if "included here" in note.message]
    assert "it is compiled by itself too: what it defines is there twice" in note.message
    with pytest.raises(DriverError) as failure:
        plan(tmp_path, '"k/m.cpp"')
    [wrong] = failure.value.diagnostics
    assert wrong.code is Code.UNLISTED_HEADER
    assert wrong.help.startswith('rename it, e.g. to "k/a.inl", and add "k/a.inl" to `src` in [kernel.k]: a source')
