"""What an action sees of this machine: the files, their place in the cache, and the settings that mount them."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from machine import pretend_cpu

from py_driver.bazel import sandbox
from py_driver.errors import Code, DriverError


def test_library_has_what_the_loader_wants_and_nothing_else(tmp_path: Path) -> None:
    settings = sandbox.settings_file(tmp_path)
    library = settings.parent / "lib"
    loader = "ld-linux-x86-64.so.2"
    names = {path.name for path in library.iterdir()}
    assert names == {Path(path).name for path in sandbox.worker_files()} - {"sh"}
    # What the library has is enough for each of its files: the loader finds all in it alone.
    for name in names - {loader}:
        command = [
            *map(str, (library / loader, "--inhibit-cache", "--library-path", library, "--list", library / name))
        ]
        listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        used = [word for word in listed.split() if word.startswith("/")]
        assert {Path(path).parent for path in used} <= {library, Path("/lib64")}, name


def test_made_once(tmp_path: Path) -> None:
    settings = sandbox.settings_file(tmp_path)
    before = settings.stat()
    assert sandbox.settings_file(tmp_path) == settings
    assert settings.stat() == before
    assert [path.name for path in (tmp_path / "sandbox").iterdir()] == [settings.parent.name]


@pytest.mark.parametrize("name", ["plain", "a blank", "a:colon", "it's"])
def test_settings_mount_it_in_the_place_of_the_machines(tmp_path: Path, name: str) -> None:
    cache = tmp_path / name
    settings = sandbox.settings_file(cache)
    library = str(settings.parent / "lib").replace(":", "\\:")
    words = [line.removeprefix("build ") for line in settings.read_text().splitlines()]
    mounts = [f"--sandbox_add_mount_pair={library}:{target}" for target in ("/lib", "/lib64")]
    assert shlex.split(" ".join(words)) == mounts


@pytest.mark.parametrize(
    ("cpu", "code", "said"),
    [("riscv64", Code.PLATFORM, "the CPU riscv64"), ("aarch64", Code.SET_UP, r"ld-linux-aarch64\.so\.1 cannot")],
)
def test_the_loader_is_that_of_the_machine(cpu: str, code: Code, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_cpu(cpu, monkeypatch)
    with pytest.raises(DriverError, match=said) as caught:
        sandbox.worker_files()
    assert caught.value.diagnostics[0].code is code


def test_missing_library_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_LIBRARIES", ("libc.so.6", "libnone.so.1"))
    with pytest.raises(DriverError, match=r"libnone\.so\.1 is not in ") as caught:
        sandbox.settings_file(tmp_path)
    assert caught.value.diagnostics[0].code is Code.SET_UP
    assert os.listdir(tmp_path) == []  # noqa: PTH208


def test_toolchains_are_mounted_where_the_machine_has_a_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path / "a:colon"
    assert sandbox.toolchains(base) == [f"--sandbox_add_mount_pair={tmp_path}/a\\:colon/external:{sandbox.TOOLCHAINS}"]
    assert (base / "external").is_dir()
    program = Path(__file__).parents[3] / "rules" / "private" / "tools" / "compile" / "packs.zig"
    assert f'at_hand = "{sandbox.TOOLCHAINS}";' in program.read_text()
    monkeypatch.setattr(sandbox, "TOOLCHAINS", str(tmp_path / "none"))
    assert sandbox.toolchains(base) == []
