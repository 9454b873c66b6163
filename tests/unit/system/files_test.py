"""Files that are written together."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from py_driver.errors import Code, DriverError, error
from py_driver.system.files import together

if TYPE_CHECKING:
    from pathlib import Path


def _content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


@pytest.fixture
def old(tmp_path: Path) -> dict[str, bytes]:
    """Some files; one is a link to another."""
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    (tmp_path / "link").symlink_to("b")
    (tmp_path / "open").symlink_to("later")
    return _content(tmp_path)


def test_all_are_written(tmp_path: Path, old: dict[str, bytes]) -> None:
    with together() as files:
        files.write(tmp_path / "a", b"new")
        files.write(tmp_path / "c", b"c")
        files.remove(tmp_path / "b")
        files.remove(tmp_path / "link")
    assert _content(tmp_path) == {"a": b"new", "c": b"c"}
    assert old == {"a": b"a", "b": b"b", "link": b"b"}


def test_none_is_written_when_another_cannot_be(tmp_path: Path, old: dict[str, bytes]) -> None:
    (tmp_path / "directory").mkdir()
    with pytest.raises(DriverError) as caught, together() as files:  # noqa: PT012  (the last one raises)
        files.write(tmp_path / "a", b"new")
        files.write(tmp_path / "a", b"newer")
        files.write(tmp_path / "c", b"c")
        files.write(tmp_path / "link", b"new")
        files.write(tmp_path / "open", b"new")
        files.write(tmp_path / "directory" / "missing" / "d", b"d")
    assert caught.value.diagnostics[0].code is Code.PERMISSION
    assert _content(tmp_path) == old
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "open").is_symlink()


def test_ctrl_c_leaves_what_was_there(tmp_path: Path, old: dict[str, bytes]) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), together() as files:  # noqa: PT012  (the signal comes between the two)
            files.remove(tmp_path / "b")
            files.write(tmp_path / "c", b"c")
            os.kill(os.getpid(), signal.SIGINT)
            files.write(tmp_path / "a", b"new")
    finally:
        signal.signal(signal.SIGINT, before)
    assert _content(tmp_path) == old


def test_what_cannot_be_brought_back_is_told_and_the_others_are_brought_back(
    tmp_path: Path, old: dict[str, bytes]
) -> None:
    with pytest.raises(DriverError) as caught, together() as files:  # noqa: PT012  (the last one raises)
        files.write(tmp_path / "a", b"new")
        files.write(tmp_path / "b", b"new")
        (tmp_path / "a").unlink()
        (tmp_path / "a").mkdir()
        raise error(Code.BAD_VALUE, "the cause")
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == [Code.BAD_VALUE, Code.PERMISSION]
    assert "the cause" in caught.value.diagnostics[0].message
    assert str(tmp_path / "a") in caught.value.diagnostics[1].message
    assert _content(tmp_path) == {name: content for name, content in old.items() if name != "a"}
