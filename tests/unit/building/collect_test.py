"""Copying variants into build/: whole or not at all, whoever reads, fails or was killed meanwhile."""

from __future__ import annotations

import json
import os
import py_compile
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from py_driver.building import collect as module
from py_driver.building.collect import check_place, collect
from py_driver.building.variant_dir import differences, remove_bytecode
from py_driver.errors import Code, DriverError

ROOT = Path(__file__).parents[3]
VARIANT = "torch213-cxx11-cpu-x86_64-linux"


def _source(root: Path, text: str) -> Path:
    source = root / "bazel" / text
    (source / "sub").mkdir(parents=True)
    for name in ("metadata.json", "__init__.py", "_k.abi3.so", "sub/data.json"):
        (source / name).write_text(json.dumps(text))
        (source / name).chmod(0o555)
    return source


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def _content(directory: Path) -> dict[str, str]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_text() for path in files}


def test_copies_all_files_with_fixed_modes(tmp_path: Path, project: Path) -> None:
    source = _source(tmp_path, "one")
    path, size = collect(source, project / "build", VARIANT)
    assert path == project / "build" / VARIANT
    assert size == 4 * len('"one"')
    assert _content(path) == _content(source)
    assert {p.name: p.stat().st_mode & 0o777 for p in path.iterdir() if p.is_file()} == {
        "metadata.json": 0o644,
        "__init__.py": 0o644,
        "_k.abi3.so": 0o755,
    }
    assert [p.name for p in (project / "build").iterdir()] == [VARIANT]


def test_equal_variant_is_not_touched(tmp_path: Path, project: Path) -> None:
    source = _source(tmp_path, "one")
    path, _ = collect(source, project / "build", VARIANT)
    (path / "__pycache__").mkdir()
    (path / "__pycache__" / "x.pyc").touch()
    inode = path.stat().st_ino
    collect(source, project / "build", VARIANT)
    assert path.stat().st_ino == inode
    assert not (path / "__pycache__").exists()


@pytest.mark.parametrize("change", ["extra", "missing", "different"])
def test_variant_that_was_changed_is_replaced(tmp_path: Path, project: Path, change: str) -> None:
    source = _source(tmp_path, "one")
    path, _ = collect(source, project / "build", VARIANT)
    if change == "extra":
        (path / "extra.py").touch()
    elif change == "missing":
        (path / "sub" / "data.json").unlink()
    else:
        (path / "_k.abi3.so").write_text("x")
    collect(source, project / "build", VARIANT)
    assert _content(path) == _content(source)


@pytest.mark.parametrize("atomic", [True, False])
def test_failure_keeps_the_old_variant(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch, *, atomic: bool
) -> None:
    if not atomic:
        monkeypatch.setattr(module, "_exchange", lambda _one, _other: False)
    path, _ = collect(_source(tmp_path, "one"), project / "build", VARIANT)
    copied = []

    def fail(source: Path, to: Path) -> None:
        copied.append(to)
        if len(copied) == 3:
            raise OSError(28, "No space left on device")
        to.write_bytes(source.read_bytes())

    monkeypatch.setattr(shutil, "copyfile", fail)
    with pytest.raises(DriverError) as caught:
        collect(_source(tmp_path, "two"), project / "build", VARIANT)
    [diagnostic] = caught.value.diagnostics
    assert diagnostic.code is Code.NO_SPACE
    assert "RULES_TORCH_KERNELS_CACHE" not in diagnostic.help
    assert set(_content(path).values()) == {'"one"'}
    assert [p.name for p in (project / "build").iterdir()] == [VARIANT]


def test_interrupt_between_two_renames_restores_the_old_variant(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = collect(_source(tmp_path, "one"), project / "build", VARIANT)
    monkeypatch.setattr(module, "_exchange", lambda _one, _other: False)
    rename = type(path).rename

    def interrupt(self: Path, target: Path) -> Path:
        if self.parent.name != "old" and target.parent == project / "build":
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(type(path), "rename", interrupt)
    with pytest.raises(KeyboardInterrupt):
        collect(_source(tmp_path, "two"), project / "build", VARIANT)
    assert set(_content(path).values()) == {'"one"'}
    assert [p.name for p in (project / "build").iterdir()] == [VARIANT]


_RUN = """
import os, pathlib, shutil, signal, sys
from py_driver.building import collect as module
source, project, point = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
def stop(*_arguments):
    print("here", flush=True)
    sys.stdin.read()
    return False
if point == "renamed":
    module._exchange = lambda _one, _other: False
    rename = pathlib.Path.rename
    pathlib.Path.rename = lambda self, to: stop() if to.parent.name == "build" else rename(self, to)
elif point == "copied":
    module._exchange = stop
else:
    shutil.copyfile = stop
module.collect(source, project / "build", sys.argv[4])
"""


def _stopped(source: Path, project: Path, point: str, variant: str) -> subprocess.Popen[str]:
    """Another run, which waits at a point; it goes on when its input ends."""
    command = [sys.executable, "-c", _RUN, str(source), str(project), point, variant]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)
    assert run.stdout is not None
    assert run.stdout.readline() == "here\n"
    return run


@pytest.mark.parametrize("point", ["begun", "copied", "renamed"])
def test_leftovers_of_a_killed_run_go_and_what_it_had_moved_away_returns(
    tmp_path: Path, project: Path, point: str
) -> None:
    other = "torch215-cxx11-cpu-x86_64-linux"
    first, second = _source(tmp_path, "one"), _source(tmp_path, "two")
    collect(first, project / "build", other)
    with _stopped(second, project, point, other) as run:
        run.kill()
    assert sorted(p.name for p in (project / "build").iterdir())[0] != other
    assert (project / "build" / other).exists() is (point != "renamed")
    collect(first, project / "build", VARIANT)
    assert sorted(p.name for p in (project / "build").iterdir()) == [VARIANT, other]
    assert _content(project / "build" / other) == _content(first)


def test_what_another_run_works_on_stays(tmp_path: Path, project: Path) -> None:
    first, second = _source(tmp_path, "one"), _source(tmp_path, "two")
    collect(first, project / "build", VARIANT)
    with _stopped(second, project, "copied", VARIANT) as run:
        collect(first, project / "build", "torch215-cxx11-cpu-x86_64-linux")
        assert run.stdin is not None
        run.stdin.close()
    assert run.returncode == 0
    assert _content(project / "build" / VARIANT) == _content(second)


@pytest.mark.parametrize(
    "name",
    [
        ".notes.2024.txt",
        ".a.1.b",
        f".{VARIANT}.99999999.old",
        f".{VARIANT}.99999999.new",
        ".rules_torch_kernels.abcdefgh",
        ".rules_torch_kernels.mine",
        ".rules_torch_kernels.abcdefgh/old/x",
        ".rules_torch_kernels.abcdefgh/lock",
    ],
)
def test_what_the_user_has_there_stays(tmp_path: Path, project: Path, name: str) -> None:
    own = project / "build" / name
    own.parent.mkdir(parents=True)
    own.write_text("the user's")
    (project / "build" / ".rules_torch_kernels.12345678").symlink_to(tmp_path)
    collect(_source(tmp_path, "one"), project / "build", VARIANT)
    collect(_source(tmp_path, "two"), project / "build", VARIANT)
    assert own.read_text() == "the user's"
    assert len(list((project / "build").iterdir())) == 3


def test_what_only_looks_like_a_leftover_stays(tmp_path: Path, project: Path) -> None:
    names = [f".{VARIANT}.\xb2.old", f".{VARIANT}.-1.old", f".{VARIANT}..old"]
    for name in names:
        (project / "build" / name).mkdir(parents=True)
    collect(_source(tmp_path, "one"), project / "build", VARIANT)
    assert sorted(p.name for p in (project / "build").iterdir()) == sorted([*names, VARIANT])


def test_reader_sees_the_old_or_the_new_variant_at_every_moment(tmp_path: Path, project: Path) -> None:
    sources = [_source(tmp_path, text) for text in ("one", "two")]
    path, _ = collect(sources[0], project / "build", VARIANT)
    if not module._exchange(sources[0], sources[1]):  # noqa: SLF001  (only to know whether it can)
        pytest.skip("this file system cannot exchange directories")
    stop = threading.Event()
    seen: set[frozenset[str]] = set()

    def read() -> None:
        while not stop.is_set():
            directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                texts = set()
                for name in ("metadata.json", "_k.abi3.so", "__init__.py"):
                    file = os.open(name, os.O_RDONLY, dir_fd=directory)
                    with os.fdopen(file) as stream:
                        texts.add(stream.read())
            except FileNotFoundError:
                continue  # the old directory was removed while it was read; its name leads to the new one
            finally:
                os.close(directory)
            seen.add(frozenset(texts))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(200):
        collect(sources[number % 2], project / "build", VARIANT)
    stop.set()
    for reader in readers:
        reader.join()
    assert seen == {frozenset({'"one"'}), frozenset({'"two"'})}


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_is_no_variant_gives_way_and_leaves_nothing(tmp_path: Path, project: Path, kind: str) -> None:
    target = project / "build" / VARIANT
    target.parent.mkdir()
    if kind == "file":
        target.write_text("x")
    else:
        target.symlink_to(tmp_path)
    path, _ = collect(_source(tmp_path, "new"), project / "build", VARIANT)
    assert _content(path)["metadata.json"] == '"new"'
    assert [entry.name for entry in target.parent.iterdir()] == [VARIANT]


@pytest.mark.parametrize("kind", ["file", "link"])
def test_build_that_is_no_directory_is_refused(project: Path, kind: str) -> None:
    if kind == "file":
        (project / "build").write_text("x")
    else:
        (project / "build").symlink_to("nowhere")
    with pytest.raises(DriverError) as failure:
        check_place(project / "build")
    assert failure.value.diagnostics[0].code is Code.FOREIGN_FILE


def test_bytecode_counts_as_a_difference(tmp_path: Path, project: Path) -> None:
    source = _source(tmp_path, "one")
    path, _ = collect(source, project / "build", VARIANT)
    (path / "sub" / "__pycache__").mkdir()
    compiled = py_compile.compile(
        str(path / "__init__.py"),
        cfile=str(path / "sub" / "__pycache__" / "x.pyc"),
        doraise=True,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    (path / "beside.pyc").write_bytes(Path(str(compiled)).read_bytes())
    found = ("beside.pyc was not built", "sub/__pycache__/x.pyc was not built")
    assert differences(source, path) == found
    remove_bytecode(path)
    assert differences(source, path) == found[:1]
