"""`driver lock`: the lock is what the matrix says, entries stay as they are, everything else is looked up."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from fetch_server import Server, wheel

from py_driver import __main__
from py_driver.cli import lock, parse_command_line
from py_driver.errors import Code, DriverError
from py_driver.fetch.entry import Origin
from py_driver.matrix import lock_update as locking
from py_driver.matrix.lock import PARTS
from py_driver.matrix.lock_update import complete, look_up, read
from py_driver.matrix.releases import Releases, lock_file
from py_driver.matrix.requirements import Requirement, wanted
from py_driver.output import Output
from py_driver.system.files import Writes

if TYPE_CHECKING:
    from pathlib import Path

TABLE = Releases().table
TEXTS = {kind: lock_file(kind).read_text(encoding="utf-8") for kind in PARTS}
OLD = read(Releases())
NAME = "demo-1.0-py3-none-any.whl"
BODY = wheel({"demo/include/a.h": b"a", "demo/b": b"b"})


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """A lock that may be written, in the place of the driver's own."""
    files = {kind: tmp_path / f"{kind}.json" for kind in TEXTS}
    for kind, path in files.items():
        path.write_text(TEXTS[kind], encoding="utf-8")
    monkeypatch.setattr(locking, "lock_file", files.__getitem__)
    return files


def changed() -> dict[str, Any]:
    return copy.deepcopy(TABLE)


def demo(**more: Any) -> Requirement:  # noqa: ANN401
    return Requirement(**{"origin": Origin.PYTHON_INDEX, "name": "demo", "version": "1.0", **more})


def test_the_lock_is_what_the_matrix_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["lock", "--check"]) == 0
    assert capsys.readouterr() == ("", "the lock is up to date\n")


def test_nothing_is_written_or_looked_up_if_all_is_locked(files: dict[str, Path]) -> None:
    stamps = {path: path.stat().st_mtime_ns for path in files.values()}
    assert __main__.main(["lock"]) == 0
    assert {path: path.stat().st_mtime_ns for path in files.values()} == stamps


def test_the_files_are_what_they_were_after_an_interruption(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in files.values():
        path.write_text(json.dumps(json.loads(path.read_text())), encoding="utf-8")
    old = {path: path.read_bytes() for path in files.values()}
    write = Writes.write
    written: list[Path] = []

    def interrupted(self: Writes, path: Path, content: bytes) -> None:
        """Ctrl-C comes when the second file is written."""
        write(self, path, content)
        written.append(path)
        if len(written) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Writes, "write", interrupted)
    _, args = parse_command_line(["lock"])
    with pytest.raises(KeyboardInterrupt):
        lock.run(args, Output())
    assert len(written) == 2
    assert {path: path.read_bytes() for path in files.values()} == old
    assert "wrote" not in capsys.readouterr().err


def test_check_prints_what_is_missing(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = changed()
    table["torch"][-1]["release"] = "2.15.7"
    monkeypatch.setattr(Releases, "table", table)
    assert __main__.main(["lock", "--check"]) == 1
    captured = capsys.readouterr()
    assert '-      "version": "2.15.0",' in captured.out
    assert '+      "version": "2.15.7"' in captured.out
    assert "error[E205]: the lock does not match the matrix" in captured.err
    assert files["torch"].read_text(encoding="utf-8") == TEXTS["torch"]


def test_what_needs_no_look_up_is_written(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = changed()
    table["cc"]["glibc"] = "2.34"
    monkeypatch.setattr(Releases, "table", table)
    assert __main__.main(["lock"]) == 0
    assert capsys.readouterr().err == f"wrote {files['cc']}\n"
    assert json.loads(files["cc"].read_text(encoding="utf-8")) == {**OLD["cc"], "glibc": "2.34"}
    assert __main__.main(["lock", "--check"]) == 0


def test_a_lock_that_is_not_json(files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    files["cuda"].write_text("{", encoding="utf-8")
    assert __main__.main(["lock", "--check"]) == 2
    assert "error[E006]: the lock is not JSON" in capsys.readouterr().err


def test_what_is_asked_for_in_another_way_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    table = changed()
    table["torch-wheel"]["include"] = ["torch/include/"]
    archives = table["cuda"][0]["archives"]
    archives[0] = {**archives[0], "deb": "nvidia-cuda-nvcc"}
    archives[1] = {**archives[1], "wheel": "nvidia-cuda-runtime-cu11==11.7.99"}
    monkeypatch.setattr(Releases, "table", table)
    _, missing = complete(wanted(Releases()), OLD, {})
    cuda = [need for need in missing if need.name != "torch"]
    assert len(missing) - len(cuda) == sum(1 + len(release.get("cross", ())) for release in table["torch"])
    assert [(need.name, need.version) for need in cuda] == [
        ("nvidia-cuda-nvcc", ""),
        ("nvidia-cuda-runtime-cu11", "11.7.99"),
    ]


def test_a_redistributable_needs_no_look_up() -> None:
    new, _ = complete(wanted(Releases()), {}, {})
    [nvcc] = [archive for archive in new["cuda"]["12.6"]["archives"] if archive["name"] == "cuda_nvcc"]
    stem = "cuda_nvcc-linux-x86_64-12.6.85-archive"
    assert (nvcc["origin"], nvcc["filename"], nvcc["size"]) == ("url", f"{stem}.tar.xz", 49996208)
    assert nvcc["url"].startswith("https://")
    assert nvcc["url"].endswith(f"/cuda_nvcc/linux-x86_64/{stem}.tar.xz")
    assert {part["strip"] for part in nvcc["unpack"]} == {stem}


def test_look_up(server: Server) -> None:
    members = demo(include=("demo/include/",))
    found = look_up([demo(), members, demo()], lambda _: None)
    assert (found[demo()].filename, found[demo()].size, found[demo()].members_only) == (NAME, len(BODY), False)
    assert (found[members].include, found[members].members_only) == (("demo/include/",), True)
    assert demo().is_met_by(found[demo()])
    assert not demo().is_met_by(found[members])
    assert len([asked for asked in server.asked if asked.path == "/simple/demo/"]) == 1


@pytest.mark.usefixtures("server")
def test_everything_that_is_not_found_is_said() -> None:
    with pytest.raises(DriverError) as caught:
        look_up([demo(), demo(version="2.0"), demo(version="3.0")], lambda _: None)
    said = sorted(diagnostic.message for diagnostic in caught.value.diagnostics)
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == [Code.NOT_FOUND_UPSTREAM] * 2
    assert ["demo 2.0" in said[0], "demo 3.0" in said[1]] == [True, True]
