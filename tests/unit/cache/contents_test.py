"""What `driver cache` finds of a cache, and what it removes of it."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rules_torch_kernels import inline_project

from py_driver.__main__ import main
from py_driver.cache.contents import contents, free, size_of
from py_driver.debian.provide import place_of
from py_driver.errors import Code, DriverError
from py_driver.matrix.releases import Releases
from py_driver.system.cache import INLINE
from py_driver.system.scratch import scratch
from py_driver.system.turns import turn

if TYPE_CHECKING:
    from py_driver.cache.contents import Part

KILOBYTES = b"x" * 100_000


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "cache"
    monkeypatch.setenv("RULES_TORCH_KERNELS_CACHE", str(root))
    monkeypatch.delenv("RULES_TORCH_KERNELS_OUTPUT_USER_ROOT", raising=False)
    return root


def put(path: Path, content: bytes = KILOBYTES) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def workspace(root: Path, name: str, rules: Path) -> Path:
    module = f'module(name = "kernel_projects")\n\nlocal_path_override(\n    path = "{rules}",\n)\n'
    put(root / "workspaces" / name / "MODULE.bazel", module.encode())
    return root / "workspaces" / name


def output_base(place: Path, of: Path) -> Path:
    put(place / "DO_NOT_BUILD_HERE", str(of).encode())
    put(place / "external" / "a")
    return place


def parts_of(root: Path) -> dict[str, Part]:
    return {part.name: part for part in contents(root, Releases().lock)}


def test_a_cache_that_is_not_there(cache: Path) -> None:
    assert [part for part in parts_of(cache).values() if part.size or part.spare or part.made] == []
    assert not cache.exists()


def test_archives_that_nobody_pins_are_spare(cache: Path) -> None:
    members, whole = (
        next(entry for entry in Releases().lock.entries if entry.members_only is members_only)
        for members_only in (True, False)
    )
    put(cache / "store" / "slim" / f"{members.key}.zip")
    put(cache / "store" / "sha256" / members.sha256)
    put(cache / "store" / "sha256" / whole.sha256)
    old = [put(cache / "store" / "sha256" / ("0" * 64)), put(cache / "store" / "slim" / ("1" * 64 + ".zip"))]
    first = put(cache / "store" / "partial" / whole.key)
    found = parts_of(cache)["archives"]
    assert sorted(found.spare) == sorted([*old, first])
    assert found.made == ()
    assert 600_000 < found.size < 700_000


def test_source_archives_stay_and_are_unpacked_again(cache: Path) -> None:
    put(cache / "sources" / "store" / "sha256" / ("0" * 64))
    put(cache / "sources" / "pins" / "demo" / "1.0.json")
    unpacked = put(cache / "sources" / "unpacked" / ("0" * 64) / "demo-1.0" / "setup.py").parents[1]
    unpacked.joinpath("demo-1.0").chmod(0o555)
    with scratch(unpacked.parent):  # another run unpacks one
        found = parts_of(cache)
        assert (found["sources"].spare, found["sources"].made, found["rest"].spare) == ((), (unpacked,), ())
    assert 300_000 < parts_of(cache)["sources"].size < 350_000
    free(cache, parts_of(cache)["sources"].made)
    assert sorted(path.name for path in (cache / "sources").rglob("*") if path.is_file()) == ["0" * 64, "1.0.json"]


def test_headers_for_editors_are_unpacked_again(cache: Path) -> None:
    tree = put(cache / "headers" / ("0" * 24) / "include" / "relu.h").parents[1]
    put(cache / "headers" / "mine" / "relu.h")
    with scratch(tree.parent):  # another run unpacks some
        found = parts_of(cache)
        assert (found["headers"].spare, found["headers"].made, found["rest"].size) == ((), (tree,), 0)


def test_modules_of_cpp_extension_are_built_again(cache: Path) -> None:
    module = put(cache / "inline" / f"scaled-{'0' * 24}" / "main.cpp").parent
    put(cache / "inline" / "mine" / "main.cpp")
    found = parts_of(cache)
    assert (found["inline"].spare, found["inline"].made, found["rest"].size) == ((), (module,), 0)
    assert f'"{INLINE}"' in Path(inline_project.__file__).read_text()


def test_a_file_with_two_names_counts_once(tmp_path: Path) -> None:
    one = put(tmp_path / "one")
    alone = size_of([tmp_path])
    os.link(one, tmp_path / "two")
    assert size_of([tmp_path, tmp_path]) == alone
    assert size_of([tmp_path / "missing"]) == 0


def test_output_bases(cache: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.mkdir()
    here, left = workspace(cache, "here", rules), workspace(cache, "left", tmp_path / "gone")
    user = tmp_path / "user"
    user.mkdir()
    first = output_base(tmp_path / "bazel" / "first", here)
    lost = output_base(tmp_path / "bazel" / "lost", left)
    output_base(tmp_path / "bazel" / "users", user)
    (cache / "servers").mkdir()
    for name in ("first", "lost", "users", "broken"):
        (cache / "servers" / name).symlink_to(tmp_path / "bazel" / name)
    second = output_base(cache / "servers" / "first-1", here)
    nothing = cache / "servers" / "nothing"
    nothing.mkdir()
    parts = parts_of(cache)
    assert set(parts["output"].made) == {first, second}
    assert parts["output"].what == f"unpacked and built files of Bazel, also in {tmp_path / 'bazel'}"
    assert set(parts["output"].spare) == {lost, cache / "servers" / "lost", cache / "servers" / "broken"}
    assert (parts["workspaces"].made, parts["workspaces"].spare) == ((here,), (left,))
    free(cache, [*parts["output"].spare, *parts["workspaces"].spare])
    assert not lost.exists()
    assert not left.exists()
    assert sorted(path.name for path in (cache / "servers").iterdir()) == ["first", "first-1", "nothing", "users"]
    (first / "external").chmod(0o500)
    parts = parts_of(cache)
    assert parts["output"].spare == ()
    assert free(cache, parts["output"].made) > 200_000
    assert (tmp_path / "bazel" / "users").is_dir(), "what the user's own workspace has is not ours"


def test_other_bazels_and_environments(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, old = place_of(cache), cache / "bazel" / "7.0.0-0123456789ab"
    for directory in (now, old):
        put(directory / "bazel")
    put(cache / "bazel" / "lock", b"")
    venvs = cache / "venvs"
    new, half, this, unused = (venvs / f"{name}-0123456789ab" for name in ("new", "half", "this", "unused"))
    for venv in (new, half, this, unused):
        put(venv / "bin" / "python")
        put(venv.with_name(f"{venv.name}.lock"), b"")
        if venv != half:
            put(venv / "complete", b"")
    for venv in (unused, this):
        os.utime(venv / "complete", (1, time.time() - 40 * 86400))
    monkeypatch.setattr(sys, "prefix", str(this))
    parts = parts_of(cache)
    assert parts["bazel"].spare == (old,)
    assert parts["python"].spare == (half, unused)


def test_recorded_builds_that_nobody_uses_are_spare(cache: Path) -> None:
    new, old = (put(cache / "recordings" / (digit * 24) / "record.json").parent for digit in "ab")
    os.utime(old / "record.json", (1, time.time() - 40 * 86400))
    packages, unused = (cache / "build-requirements" / (digit * 16) for digit in "cd")
    for directory in (packages, unused):
        put(directory / "x")
        put(directory.with_name(f"{directory.name}.lock"), b"")
    os.utime(unused.with_name(f"{unused.name}.lock"), (1, time.time() - 40 * 86400))
    put(cache / "recordings" / "mine" / "record.json")
    assert new.is_dir()
    assert parts_of(cache)["recordings"].spare == (old, unused)


def test_what_is_not_the_drivers_stays(cache: Path, tmp_path: Path) -> None:
    """A user may name a directory with other things in it."""
    for name in (
        "workspaces/mine/MODULE.bazel",
        "workspaces/other/x",
        "actions/mine",
        "bazel/mine/x",
        "sandbox/mine/x",
    ):
        put(cache / name)
    for name in ("store/sha256/notes.txt", "store/partial/notes.txt", "venvs/mine/bin/python", "servers/notes.txt"):
        put(cache / name)
    put(cache / "workspaces" / "odd" / "MODULE.bazel", b"\xff\xfe")
    outside = put(tmp_path / "outside" / "x").parent
    (cache / "bazel" / "7.0.0-0123456789ab").symlink_to(outside)
    (cache / "servers" / "link").symlink_to(outside)
    assert [part for part in parts_of(cache).values() if part.spare or part.made] == []


def test_what_a_run_works_in_is_not_spare(cache: Path) -> None:
    (cache / "verify").mkdir(parents=True)
    with scratch(cache / "verify") as place:
        put(place / "output")
        assert parts_of(cache)["rest"].spare == ()
        copy = cache / "names" / place.name
        put(copy / "lock", (place / "lock").read_bytes())
        assert parts_of(cache)["rest"].spare == (copy,)


def test_nothing_goes_while_a_build_runs(cache: Path) -> None:
    results = put(cache / "actions" / "cas" / "1")
    with turn(cache / "turns" / "builds", lambda _: None, places=4):
        with pytest.raises(DriverError) as refused:
            free(cache, [cache / "actions"])
        assert refused.value.diagnostics[0].code is Code.CACHE_BUSY
        assert results.exists()
    assert free(cache, [cache / "actions"]) > 100_000
    assert not results.exists()


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:  # noqa: ANN401  (JSON)
    assert main(["cache", *arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_the_command(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(cache / "actions" / "cas" / "1")
    spare = put(cache / "store" / "sha256" / ("0" * 64))
    shown = {part["name"]: part for part in run(capsys, "info")["parts"]}
    assert shown["results"]["clean"]["paths"] == [str(cache / "actions")]
    assert shown["archives"]["prune"]["paths"] == [str(spare)]
    assert run(capsys, "prune", "--dry-run")["freed"] == 0
    assert main(["cache", "prune", "--dry-run"]) == 0
    assert capsys.readouterr().out == f"{spare}\n"
    assert 100_000 < run(capsys, "prune")["freed"] < 120_000
    assert not spare.exists()
    assert 100_000 < run(capsys, "clean")["freed"] < 150_000
    assert not (cache / "actions").exists()
    assert main(["cache", "clean"]) == 0
    assert "nothing to remove" in capsys.readouterr().err
    assert main(["cache", "info"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()][-2:] == ["rest", "total"]
    with turn(cache / "turns" / "builds", lambda _: None):
        put(spare)
        assert run(capsys, "prune", code=4)["errors"][0]["code"] == "E311"
