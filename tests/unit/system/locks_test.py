"""Locks, and files and directories that take the place of others."""

from __future__ import annotations

import stat
import threading
from typing import TYPE_CHECKING

import pytest

from py_driver.system.files import replacing
from py_driver.system.locks import locked, try_to_take
from py_driver.system.scratch import settle

if TYPE_CHECKING:
    from pathlib import Path


def test_whoever_comes_second_is_told_and_waits(tmp_path: Path) -> None:
    path, told, done = tmp_path / "lock", threading.Event(), threading.Event()

    def second() -> None:
        with locked(path, told.set):
            done.set()

    thread = threading.Thread(target=second)
    with locked(path, told.set):
        assert not told.is_set()
        with path.open("rb") as other:
            assert not try_to_take(other)
        thread.start()
        assert told.wait(10)
        assert not done.is_set()
    thread.join(10)
    assert done.is_set()
    with path.open("rb") as other:
        assert try_to_take(other)


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with replacing(path) as file:
        file.write(b"old")
        assert not path.exists()
    path.chmod(0o640)
    with replacing(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_finished_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def interrupted() -> None:
        with replacing(path) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_faster_run_wins(tmp_path: Path) -> None:
    fresh, place = tmp_path / "fresh", tmp_path / "place"
    for directory in (fresh, place):
        directory.mkdir()
        (directory / "x").write_text(directory.name)
    settle(fresh, place)
    assert (place / "x").read_text() == "place"
    with pytest.raises(FileNotFoundError):
        settle(fresh, tmp_path / "no" / "place")
