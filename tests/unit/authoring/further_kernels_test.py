"""Kernels that depend on others of this machine: which are found, and what is wrong with the others."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from py_driver import __main__
from py_driver.authoring.further_kernels import Kernel, check_depends, further_kernels
from py_driver.authoring.machine import this_machine
from py_driver.errors import Code, DriverError
from py_driver.matrix.releases import Releases

if TYPE_CHECKING:
    from collections.abc import Sequence

DEPENDS = Path(__file__).parents[2] / "e2e" / "projects" / "depends"


def kernel(name: str, *depends: str, version: int = 1, directory: str = "") -> Kernel:
    """A kernel of `me`, with what it depends on: `b`, `b@2` for a version, `b#main` for a revision."""
    entries: list[dict[str, Any]] = []
    for depend in depends:
        other, _, number = depend.partition("@")
        other, _, revision = other.partition("#")
        entries.append({"repo-id": f"me/{other}", **({"version": int(number)} if number else {"revision": revision})})
    return Kernel(Path(directory or name), name, version, (f"me/{name}",), tuple(entries))


@pytest.mark.parametrize(
    "kernels",
    [
        (kernel("a"),),
        (kernel("a", "b@1", "c@1"), kernel("c"), kernel("b")),
        (kernel("a", "b@1", "c@1"), kernel("b", "c@1"), kernel("c")),
        (kernel("a", "b#main"), kernel("b", version=7)),
        (kernel("a"), kernel("b")),
    ],
)
def test_all_is_there(kernels: Sequence[Kernel]) -> None:
    check_depends(kernels)


@pytest.mark.parametrize(
    ("kernels", "message"),
    [
        ((kernel("a", "b@1", "c@1"), kernel("b")), "`a` depends on `me/c`, which no directory of --with is"),
        ((kernel("a", "b@1"), kernel("b", "c@1")), "`b` depends on `me/c`, which no directory of --with is"),
        ((kernel("a", "b@1"), kernel("b", version=2)), "`a` depends on version 1 of `me/b`, and b has version 2"),
        ((kernel("a", "b@1"), kernel("b"), kernel("b", directory="d")), "b and d are both `me/b`"),
        ((kernel("a", "b@1"), kernel("b", "a@1")), "kernels depend on themselves: a -> b -> a"),
        ((kernel("a"), kernel("b", "b@1")), "kernels depend on themselves: b -> b"),
    ],
)
def test_what_is_wrong(kernels: Sequence[Kernel], message: str) -> None:
    with pytest.raises(DriverError) as caught:
        check_depends(kernels)
    [found] = caught.value.diagnostics
    assert (found.code, found.message) == (Code.USAGE, message)


def test_the_user_may_have_one_elsewhere() -> None:
    check_depends((kernel("a", "b@1"),), "you/x=/there:me/b=/here")


def test_projects_below_a_directory(tmp_path: Path) -> None:
    shutil.copytree(DEPENDS, tmp_path / "all")
    machine, releases = this_machine("2.13"), Releases()
    found = further_kernels(tmp_path / "all" / "combined", [tmp_path / "all"], machine, releases)
    assert [path.name for path in found] == ["doubled", "shifted"]
    assert further_kernels(tmp_path / "all" / "combined", [], machine, releases) == ()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "combined", "--with=doubled", "--torch=2.13", "--", "true"), "which no directory of --with is"),
        (("run", "combined", "--with=doubled", "--watch"), "--with needs a command that runs once"),
        (("run", "combined", "--with=doubled", "--json"), "--with needs a command that runs once"),
        (("test", "combined", "--with=nowhere", "--torch=2.13"), "there is no nowhere/build.toml"),
        (("run", "script", "--with=doubled", "--", "true"), "--with: script has a setup.py, and finds no kernels"),
        (("test", "script", "--with=doubled"), "--with: script has a setup.py, and finds no kernels"),
    ],
)
def test_the_command_line(
    words: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(DEPENDS, tmp_path / "all")
    (tmp_path / "all" / "script").mkdir()
    (tmp_path / "all" / "script" / "setup.py").write_text("", encoding="utf-8")
    monkeypatch.chdir(tmp_path / "all")
    assert __main__.main(list(words)) == 2
    assert message in capsys.readouterr().err
