"""Names that Bazel cannot have: under which others it has such files, and that no two files get the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from py_driver import __main__
from py_driver.errors import Code, DriverError
from py_driver.manifest.paths import path_problem
from py_driver.matrix.releases import Releases
from py_driver.plan.buildfile import render
from py_driver.plan.plan import plan_directory
from py_driver.plan.staging import own_names, staged

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from py_driver.plan.plan import Plan

TUNED = "E=8,N=14336,device_name=NVIDIA_H100,dtype=fp8.json"
ODD = (
    "a b.json",
    "größe.json",
    "[it's].json",
    'y".json',
    "$(id).json",
    "%s.json",
    "a:b.json",
    "-x.json",
    "d e/表.json",
)
ROOT = "torch-ext/tuned"
MANIFEST = """\
[general]
name = "tuned"
version = 1
edition = 5
license = "mit"
backends = ["cpu"]
[torch-noarch]
pyext = ["py", "json"]
"""
_PARTS = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8)


def plan_of(place: Path, names: Sequence[str]) -> Plan:
    for name in ("__init__.py", *names):
        path = place / ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (place / "build.toml").write_text(MANIFEST, encoding="utf-8")
    return plan_directory(place, Releases())


@pytest.mark.parametrize("path", [TUNED, "a/b-c.d_e+f=g~h@1^2!.json", "_ops/x.py"])
def test_plain_names_stay(path: str) -> None:
    assert staged(path) == path


@given(st.lists(_PARTS.filter(lambda part: part not in {".", ".."} and not part.startswith(".staged-")), unique=True))
def test_no_two_names_become_one_and_all_are_plain(parts: list[str]) -> None:
    paths = [f"{ROOT}/{part}/{part}.json" for part in parts]
    assert len({staged(path) for path in paths}) == len(paths)
    assert all(path_problem(staged(path)) is None for path in paths)
    assert all(staged(path).removeprefix(f"{ROOT}/") == staged(path.removeprefix(f"{ROOT}/")) for path in paths)


def test_what_bazel_reads_has_plain_names_only(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, [TUNED, *ODD])
    assert {path.removeprefix(f"{ROOT}/") for path in plan.python} == {"__init__.py", TUNED, *ODD}
    assert sorted(plan.own_names.values()) == sorted(ODD)
    text = render(plan, "")
    assert text.isascii()
    assert text.count(f'"{ROOT}/{TUNED}"') == 2
    for other, name in plan.own_names.items():
        assert text.count(f'"{ROOT}/{other}"') == 2
        assert f'"{ROOT}/{name}"' not in text


def test_names_without_another_are_not_looked_up() -> None:
    assert own_names(ROOT, [f"{ROOT}/__init__.py", f"{ROOT}/{TUNED}"]) == {}


def test_the_id_knows_the_names(tmp_path: Path) -> None:
    ids = set()
    for number, name in enumerate(("a b.json", "a  b.json", "ab.json", "ä b.json")):
        plan = plan_of(tmp_path / str(number), [name])
        [identity] = plan.identities
        ids.add(identity.unique_id(plan.module, dict.fromkeys(identity.files, b"")))
    assert len(ids) == 4


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a\\b.json", "has a backslash, which other systems treat as `/`; rename the file"),
        ("a\nb.json", "has the character U+000A, which is invisible or not text; rename the file"),
        ("\u202ea.json", "has the character U+202E, which is invisible or not text; rename the file"),
        ("\udcff.json", "has the character U+DCFF, which is invisible or not text; rename the file"),
        (f"{'d' * 200}/{'e' * 200}/{'f' * 100}.json", "has 523 characters; at most 500 are allowed"),
    ],
)
def test_names_that_are_refused(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(DriverError) as caught:
        plan_of(tmp_path, [name])
    [found] = caught.value.diagnostics
    assert (found.code, found.message) == (Code.BAD_VALUE, f"the path `{ROOT}/{name}` {said}")


def test_a_build_file_cannot_list_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan_of(tmp_path, ["a b.json"])
    assert __main__.main(["gen", str(tmp_path)]) == 2
    assert f"error[E006]: BUILD.bazel cannot list `{ROOT}/a b.json`" in capsys.readouterr().err
    assert not (tmp_path / "BUILD.bazel").exists()
