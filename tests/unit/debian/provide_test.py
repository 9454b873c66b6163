from __future__ import annotations

import fcntl
import io
import threading
import time
import zipfile
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from machine import pretend_cpu

from py_driver.debian import class_path
from py_driver.debian import provide as debian
from py_driver.errors import Code, DriverError
from py_driver.fetch import apt
from py_driver.output import Output

if TYPE_CHECKING:
    from pathlib import Path


def _output() -> tuple[Output, io.StringIO]:
    err = io.StringIO()
    return Output(io.StringIO(), err, {}), err


def _place(cache: Path) -> Path:
    _, digest = debian._resource()  # noqa: SLF001  (the directory's name is the contract)
    return cache / "bazel" / f"{debian.version()}-{digest}"


def test_without_apt_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DriverError) as caught:
        debian.provide(tmp_path, _output()[0])
    [diagnostic] = caught.value.diagnostics
    assert diagnostic.code is Code.NOT_DEBIAN
    assert "npm install -g @bazel/bazelisk" in diagnostic.help
    assert "RULES_TORCH_KERNELS_BAZEL" in diagnostic.help


def test_other_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_cpu("riscv64", monkeypatch)
    with pytest.raises(DriverError, match=r"on Linux on x86_64 and aarch64 only") as caught:
        debian.provide(tmp_path, _output()[0])
    assert caught.value.diagnostics[0].code is Code.PLATFORM


def test_arm_servers_have_packages_and_a_directory_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, here = debian._resource()[0], _place(tmp_path)  # noqa: SLF001  (as above)
    pretend_cpu("aarch64", monkeypatch)
    theirs, there = debian._resource()[0], _place(tmp_path)  # noqa: SLF001
    assert debian.place_of(tmp_path) == there != here
    assert (ours["architecture"], theirs["architecture"]) == ("amd64", "arm64")
    assert ours.keys() == theirs.keys()
    changed = {key for key, value in ours.items() if theirs[key] != value}
    assert changed == {"architecture", "libraries", "loader", "programs", "wheels"}
    assert not [text for text in (*theirs["programs"], theirs["loader"], theirs["libraries"]) if "x86" in text]
    for name, wheel in ours["wheels"].items():
        assert theirs["wheels"][name]["version"] == wheel["version"]
        assert theirs["wheels"][name]["sha256"] != wheel["sha256"]


def test_complete_directory_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = _place(tmp_path)
    place.mkdir(parents=True)
    (place / "complete").write_text(f"{place}\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert debian.provide(tmp_path, _output()[0]) == place / "bazel"


def test_directory_that_was_moved_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = _place(tmp_path)
    place.mkdir(parents=True)
    (place / "complete").write_text("/elsewhere\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DriverError):
        debian.provide(tmp_path, _output()[0])


def test_second_run_waits_for_the_first(tmp_path: Path) -> None:
    place = _place(tmp_path)
    place.mkdir(parents=True)
    output, err = _output()
    result: list[Path] = []
    with (place.parent / "lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        thread = threading.Thread(target=lambda: result.append(debian.provide(tmp_path, output)))
        thread.start()
        while "waiting" not in err.getvalue():
            time.sleep(0.01)
        (place / "complete").write_text(f"{place}\n")
    thread.join(10)
    assert result == [place / "bazel"]
    assert err.getvalue() == "Another run is installing Bazel; waiting for it.\n"


def test_cache_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DriverError) as caught:
        debian.provide(tmp_path / "file", _output()[0])
    assert caught.value.diagnostics[0].code is Code.PERMISSION


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("E: Failed to fetch x/InRelease  Could not resolve 'nohost.invalid'", Code.NO_NETWORK),
        ("  Could not connect to 127.0.0.1:9 (127.0.0.1). - connect (111: Connection refused)", Code.NO_NETWORK),
        ("E: The repository 'x forky Release' does not have a Release file.", Code.NOT_DEBIAN),
        ("E: GPG error: NO_PUBKEY 0123", Code.NOT_DEBIAN),
        ("E: Failed to fetch x.deb  404  Not Found [IP: 1 80]", Code.NOT_FOUND_UPSTREAM),
        ("E: You don't have enough free space in x/archives/.", Code.NO_SPACE),
        ("dpkg-deb: error: cannot write: No space left on device", Code.NO_SPACE),
        ("E: Something else", Code.SET_UP),
        ("", Code.SET_UP),
    ],
)
def test_failures_are_told_apart(line: str, code: Code) -> None:
    [diagnostic] = apt.failure("apt-get", f"W: a warning\n{line}\n" if line else "").diagnostics
    assert diagnostic.code is code
    assert line.strip() in diagnostic.message


def test_only_its_own_leftovers_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = _place(tmp_path)
    own = [place, place.with_name(f"{place.name}-abcd_123.partial")]
    others = [place.with_name(name) for name in ("mine.partial", f"{place.name}.partial", "7.7.1-0123456789ab")]
    for package in (*own, *others):
        (package / "tree").mkdir(parents=True)
    monkeypatch.setattr(debian, "Apt", _MovedOn)
    with pytest.raises(DriverError, match="the driver expects"):
        debian.provide(tmp_path, _output()[0])
    assert sorted(place.parent.iterdir()) == sorted([place.with_name("lock"), *others])


def test_newer_debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "Apt", _MovedOn)
    with pytest.raises(DriverError, match=r"has Bazel 8\.1\.0\+ds-1, and the driver expects 7\.7\.1") as caught:
        debian.provide(tmp_path, _output()[0])
    assert caught.value.diagnostics[0].code is Code.NO_BAZEL
    assert [p.name for p in (tmp_path / "bazel").iterdir()] == ["lock"]


class _MovedOn:
    def __init__(self, state: Path, **_: str) -> None:
        state.mkdir()

    def update(self, *_: object) -> None:
        pass

    def closure(self, package: str) -> dict[str, str]:
        return {package: "8.1.0+ds-1"}


def test_class_path_is_closed(tmp_path: Path) -> None:
    jars = tmp_path / "usr/share/java"
    jars.mkdir(parents=True)
    for name, manifest in {
        "a.jar": "Manifest-Version: 1.0\r\nClass-Path: b.jar /usr/share/ja\r\n va/c.jar gone.jar\r\n",
        "b.jar": "Class-Path: a.jar\n",
        "c.jar": None,
    }.items():
        with zipfile.ZipFile(jars / name, "w") as archive:
            archive.writestr("x", "")
            if manifest is not None:
                archive.writestr("META-INF/MANIFEST.MF", manifest)
    (tmp_path / "listing").write_text("A-server.jar\n/usr/share/java/a.jar\n/usr/share/java/gone.jar\n")
    place = tmp_path / "final"
    class_path.close(tmp_path, place, "listing", "usr/share/java")
    assert (tmp_path / "listing").read_text().splitlines() == [
        f"{place}/usr/share/java/a.jar",
        f"{place}/usr/share/java/b.jar",
        f"{place}/usr/share/java/c.jar",
        "A-server.jar",
    ]


def test_small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=599_000_000))
    with pytest.raises(DriverError, match="takes 600 MB") as caught:
        debian.provide(tmp_path, _output()[0])
    assert caught.value.diagnostics[0].code is Code.NO_SPACE
