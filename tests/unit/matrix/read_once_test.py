"""A command reads each file of the matrix and the lock once at most."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest

from py_driver import __main__
from py_driver.bazel.find import Bazel, Source
from py_driver.building import ahead, batches, build
from py_driver.errors import Code, error
from py_driver.fetch import prefetch

PROJECT = Path(__file__).parents[2] / "e2e" / "projects" / "tiny"


@pytest.fixture
def opened() -> Counter[str]:
    """How often each file has been opened since the test began, by path."""
    counts: Counter[str] = Counter()

    def count(event: str, args: tuple[object, ...]) -> None:
        if event == "open" and isinstance(args[0], str | bytes | os.PathLike):
            counts[os.fsdecode(args[0])] += 1

    sys.addaudithook(count)  # it cannot be taken away again, and only counts
    return counts


@pytest.fixture(autouse=True)
def no_bazel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build ends once all has been read, and nothing is fetched."""

    def enough(*_: object, **__: object) -> NoReturn:
        raise error(Code.BUILD_FAILED, "this is enough")

    monkeypatch.setenv("RULES_TORCH_KERNELS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(batches, "find_bazel", lambda *_: Bazel(Path("bazel"), "7.7.1", Source.PATH))
    monkeypatch.setattr(build, "session", lambda *_: nullcontext(SimpleNamespace(running=1)))
    monkeypatch.setattr(ahead, "estimate", enough)
    for module in (batches, prefetch):
        monkeypatch.setattr(module, "fetch_all", lambda *_, **__: [])


@pytest.mark.parametrize("own", [False, True], ids=["ours", "own"])
@pytest.mark.parametrize("command", ["check", "variants", "fetch", "build"])
def test_each_file_is_read_once(
    opened: Counter[str],
    command: str,
    own: bool,  # noqa: FBT001
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    matrix = tmp_path / "my.toml"
    matrix.write_text("", encoding="utf-8")
    (tmp_path / "my.lock.json").write_text("{}", encoding="utf-8")
    shutil.copytree(PROJECT, tmp_path / "tiny")
    arguments = [command, "torch213-*-cpu-*" if command == "fetch" else str(tmp_path / "tiny")]
    opened.clear()
    __main__.main([*arguments, *(["--matrix", str(matrix)] if own else [])])
    assert ("this is enough" in capsys.readouterr().err) is (command == "build")
    read = {Path(path).name: count for path, count in opened.items() if path.endswith((".toml", ".json"))}
    assert "matrix.toml" in read
    assert ("my.toml" in read) is own
    assert ("torch.json" in read) is (command in {"fetch", "build"})
    assert set(read.values()) == {1}, read
