"""Which server a build gets, and what the servers share."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from py_driver.bazel.find import OUTPUT_VARIABLE, Bazel, Source
from py_driver.bazel.servers import Server, copy_of, free_server
from py_driver.output import Output
from py_driver.system import memory
from py_driver.system.cache import CACHE_VARIABLE

_NAME = "rules_torch_kernels~~toolchains~torch_kernels_cc"
_BAZEL = Bazel(path=Path("/bazel"), version="7.7.1", source=Source.PATH, startup=("--startup",))


@pytest.fixture(autouse=True)
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv(OUTPUT_VARIABLE, str(tmp_path / "outputs"))
    return tmp_path / "outputs"


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """The output base of Bazel's own choice, with a toolchain."""
    base = tmp_path / "user root" / "base"
    repository = base / "external" / _NAME
    (repository / "bin").mkdir(parents=True)
    (repository / "bin" / "zig").write_text("one")
    (repository / "bin" / "link").symlink_to("zig")
    (base / "external" / f"@{_NAME}.marker").write_text("version one")
    with free_server(_BAZEL, tmp_path, _output()) as server:
        server.built_in(base / "execroot" / "_main")
    return base


def _output() -> Output:
    return Output(io.StringIO(), io.StringIO(), {})


def _second(root: Path) -> Server:
    with free_server(_BAZEL, root, _output()), free_server(_BAZEL, root, _output()) as server:
        return server


def _external(root: Path) -> Path:
    """Where a second server has its repositories."""
    base = _second(root).base
    assert base is not None
    return base / "external"


def test_a_build_alone_gets_what_bazel_takes(tmp_path: Path, outputs: Path) -> None:
    for _ in range(2):
        with free_server(_BAZEL, tmp_path, _output()) as server:
            assert (server.bazel, server.running) == (_BAZEL, 1)
    assert not outputs.exists()


def test_builds_at_once_have_servers_of_their_own(tmp_path: Path, outputs: Path) -> None:
    second = _second(tmp_path)
    assert second.running == 2
    assert second.base is not None
    assert second.base.parent == outputs
    assert second.bazel.startup == ("--startup", f"--output_base={second.base}", "--max_idle_secs=300")
    assert _external(tmp_path / "other").parent != second.base


def test_without_a_place_of_the_users_they_are_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(OUTPUT_VARIABLE)
    assert _external(tmp_path).parents[1] == tmp_path / "cache" / "servers"


def test_toolchains_are_the_same_files(tmp_path: Path, first: Path) -> None:
    external = _external(tmp_path)
    assert (external / _NAME / "bin" / "zig").samefile(first / "external" / _NAME / "bin" / "zig")
    assert (external / _NAME / "bin" / "link").readlink() == Path("zig")
    assert (external / f"@{_NAME}.marker").read_text() == "version one"


def test_half_a_toolchain_is_made_whole(tmp_path: Path, first: Path) -> None:
    external = _external(tmp_path)
    (external / f"@{_NAME}.marker").unlink()
    (external / _NAME / "bin" / "zig").unlink()
    _second(tmp_path)
    assert (external / _NAME / "bin" / "zig").samefile(first / "external" / _NAME / "bin" / "zig")
    assert (external / f"@{_NAME}.marker").exists()


def test_a_newer_toolchain_takes_the_place_of_an_older_one(tmp_path: Path, first: Path) -> None:
    external = _external(tmp_path)
    zig = first / "external" / _NAME / "bin" / "zig"
    zig.unlink()
    zig.write_text("two")
    marker = first / "external" / f"@{_NAME}.marker"
    marker.write_text("version two")
    _second(tmp_path)
    assert (external / _NAME / "bin" / "zig").read_text() == "two"
    assert (external / f"@{_NAME}.marker").read_text() == "version two"
    zig.unlink()
    os.utime(marker, (0, 0))
    _second(tmp_path)
    assert (external / _NAME / "bin" / "zig").read_text() == "two"


def test_a_toolchain_without_marker_is_not_taken(tmp_path: Path, first: Path) -> None:
    """Bazel removes the marker before it makes a repository anew, and writes it when that is done."""
    (first / "external" / f"@{_NAME}.marker").unlink()
    assert list(_external(tmp_path).iterdir()) == []


def test_a_toolchain_that_is_made_anew_meanwhile_is_not_taken(
    tmp_path: Path, first: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(source: str, target: str) -> None:
        (first / "external" / f"@{_NAME}.marker").unlink(missing_ok=True)
        real(source, target)

    real = os.link
    monkeypatch.setattr(os, "link", link)
    assert not (_external(tmp_path) / f"@{_NAME}.marker").exists()


@pytest.mark.parametrize(("megabytes", "builds"), [(2000, 1), (8000, 1), (8192, 2), (24000, 4), (10**6, 4)])
def test_as_many_as_there_is_memory_for(monkeypatch: pytest.MonkeyPatch, megabytes: int, builds: int) -> None:
    monkeypatch.setattr(memory, "machine_memory", lambda: megabytes)
    assert memory.builds_at_once() == builds


def test_builds_at_once_share_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "machine_memory", lambda: 16384)
    assert memory.action_memory() == 15360
    assert memory.action_memory(running=2) == 7168
    assert memory.action_memory(ram=8, running=2) == 7168  # what was asked for


def test_a_copy_of_a_workspace_shares_the_toolchains(tmp_path: Path) -> None:
    original = tmp_path / "cache" / "workspaces" / "abc"
    base = tmp_path / "user root" / "base"
    (base / "external" / _NAME).mkdir(parents=True)
    (base / "external" / f"@{_NAME}.marker").write_text("version one")
    with free_server(_BAZEL, original, _output()) as first:
        assert first.base is None
        first.built_in(base / "execroot" / "_main")
    with free_server(_BAZEL, copy_of(original, 1), _output()) as server:
        assert server.base is not None
        assert (server.base / "external" / f"@{_NAME}.marker").read_text() == "version one"
        server.built_in(server.base / "execroot" / "_main")
    with free_server(_BAZEL, original, _output()) as again:
        assert (again.base, again.first.readlink()) == (None, base)
