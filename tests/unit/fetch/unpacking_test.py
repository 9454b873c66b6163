from __future__ import annotations

import io
import shutil
import stat
import subprocess
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest
from fetch_server import pinned, wheel

from py_driver.errors import Code, DriverError
from py_driver.fetch.entry import Origin
from py_driver.fetch.unpacking import Selection, unpack

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Member = tuple[str, bytes | str]
"""Name, and the bytes of a file or the target of a link."""

MODES = {"xz": "w:xz", "gz": "w:gz", "zst": "w", "tar": "w"}


def zip_of(*members: Member) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            kind = stat.S_IFLNK if isinstance(content, str) else stat.S_IFREG
            info.external_attr = (kind | 0o644) << 16
            archive.writestr(info, content)
    return stream.getvalue()


def deb_of(members: Sequence[Member], compression: str = "xz") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=MODES[compression]) as archive:  # type: ignore[call-overload]
        for name, content in members:
            info = tarfile.TarInfo(f"./{name}")
            if isinstance(content, str):
                hard = content.startswith("=")
                info.type, info.linkname = (tarfile.LNKTYPE if hard else tarfile.SYMTYPE), content.removeprefix("=")
                info.mode = 0o755
                archive.addfile(info)
            else:
                info.size, info.mode = len(content), 0o755 if content.startswith(b"#!") else 0o644
                archive.addfile(info, io.BytesIO(content))
    data = stream.getvalue()
    if compression == "zst":
        data = subprocess.run(["zstd", "-q"], input=data, capture_output=True, check=True).stdout
    name = f"data.tar.{compression}".replace(".tar.tar", ".tar")
    parts = [("debian-binary", b"2.0\n"), ("control.tar.xz", b"odd"), (name, data)]
    ar = b"!<arch>\n"
    for member, content in parts:
        ar += f"{member:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode()
        ar += content + b"\n" * (len(content) % 2)
    return ar


def unpacked(body: bytes, tmp_path: Path, selection: Selection | None = None, *, deb: bool = False) -> Path:
    (tmp_path / "archive").write_bytes(body)
    entry = pinned(body, origin=Origin.DEBIAN if deb else Origin.PYTHON_INDEX)
    unpack(tmp_path / "archive", entry, tmp_path / "out", selection)
    return tmp_path / "out"


def names_below(root: Path) -> list[str]:
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_symlink() or p.is_file())


def test_a_wheel_keeps_the_executable_bit_and_nothing_else_of_the_mode(tmp_path: Path) -> None:
    root = unpacked(wheel({"a/tool": b"1", "a/data": b"2"}, executable=("a/tool",)), tmp_path)
    assert [stat.S_IMODE((root / "a" / n).stat().st_mode) for n in ("tool", "data")] == [0o755, 0o644]


def test_prefixes_choose_and_are_taken_off(tmp_path: Path) -> None:
    body = zip_of(("a/b/x.h", b""), ("a/b/c/y.h", b""), ("a/bz.h", b""), ("z.h", b""))
    assert names_below(unpacked(body, tmp_path, Selection(strip_prefix="a/b/"))) == ["c/y.h", "x.h"]
    shutil.rmtree(tmp_path / "out")
    assert names_below(unpacked(body, tmp_path, Selection(include=("a/b/c/", "z.h")))) == ["a/b/c/y.h", "z.h"]
    with pytest.raises(DriverError, match="none of the files required by the lock"):
        unpacked(body, tmp_path, Selection(strip_prefix="q"))


@pytest.mark.parametrize(
    "members",
    [
        [("../x", b"")],
        [("/x", b"")],
        [("a/../../x", b"")],
        [("l", "/etc")],
        [("l", "..")],
        [("a/l", "../../x")],
        [("d", "sub"), ("d/x", b"")],
        [("p/q/b", "../.."), ("l", "p/q/b/../../..")],
    ],
)
@pytest.mark.parametrize("deb", [False, True])
def test_nothing_leaves_the_destination(tmp_path: Path, members: list[Member], deb: bool) -> None:  # noqa: FBT001
    body = deb_of(members) if deb else zip_of(*members)
    (tmp_path / "deep").mkdir()
    with pytest.raises(DriverError) as caught:
        unpacked(body, tmp_path / "deep", deb=deb)
    assert caught.value.diagnostics[0].code is Code.PATH_ESCAPES
    assert {p.name for p in tmp_path.iterdir()} == {"deep"}
    assert {p.name for p in (tmp_path / "deep").iterdir()} == {"archive", "out"}


@pytest.mark.parametrize("compression", ["xz", "gz", "tar", "zst"])
def test_a_debian_package(tmp_path: Path, compression: str) -> None:
    if compression == "zst" and not (shutil.which("zstd") and shutil.which("dpkg-deb")):
        pytest.skip("there is no zstd to make such a package with")
    members: list[Member] = [
        ("usr/lib/gcc/12/libx.so", "../../x86_64/libx.so.6"),
        ("usr/lib/x86_64/libx.so.6", b"elf"),
        ("usr/bin/tool", b"#!/bin/sh\n"),
        ("usr/bin/twin", "=./usr/bin/tool"),
    ]
    root = unpacked(deb_of(members, compression), tmp_path, Selection(strip_prefix="usr"), deb=True)
    assert names_below(root) == ["bin/tool", "bin/twin", "lib/gcc/12/libx.so", "lib/x86_64/libx.so.6"]
    assert (root / "lib/gcc/12/libx.so").read_bytes() == b"elf"
    assert (root / "bin/twin").stat().st_mode & 0o111


def tar_of(*members: Member) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:xz") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                archive.addfile(info)
            else:
                info.size, info.mode = len(content), 0o755
                archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def unpack_tar(body: bytes, tmp_path: Path, selection: Selection | None = None) -> None:
    (tmp_path / "archive").write_bytes(body)
    entry = pinned(body, "demo-1.0-archive.tar.xz", origin=Origin.URL, url="https://vendor.example/x")
    unpack(tmp_path / "archive", entry, tmp_path / "out", selection)


def test_a_vendors_archive(tmp_path: Path) -> None:
    body = tar_of(("demo-1.0-archive/bin/tool", b"1"), ("demo-1.0-archive/bin/link", "tool"), ("demo-1.0/LICENSE", b""))
    unpack_tar(body, tmp_path, Selection(include=("demo-1.0-archive/bin/",), strip_prefix="demo-1.0-archive"))
    assert names_below(tmp_path / "out") == ["bin/link", "bin/tool"]
    assert (tmp_path / "out" / "bin" / "link").stat().st_mode & 0o111


def test_a_source_archive_of_a_python_package(tmp_path: Path) -> None:
    body = tar_of(("demo-1.0/3rdparty/cutlass/include/a.h", b"a"), ("demo-1.0/setup.py", b""))
    (tmp_path / "archive").write_bytes(body)
    entry = pinned(body, "demo-1.0.tar.gz")
    unpack(tmp_path / "archive", entry, tmp_path / "out", Selection(strip_prefix="demo-1.0/3rdparty/cutlass"))
    assert names_below(tmp_path / "out") == ["include/a.h"]


def test_a_vendors_debian_package(tmp_path: Path) -> None:
    body = deb_of([("opt/demo/include/a.h", b"a")])
    (tmp_path / "archive").write_bytes(body)
    entry = pinned(body, "demo_1.0_amd64.deb", origin=Origin.URL, url="https://vendor.example/x")
    unpack(tmp_path / "archive", entry, tmp_path / "out", Selection(strip_prefix="opt/demo"))
    assert names_below(tmp_path / "out") == ["include/a.h"]


@pytest.mark.parametrize("members", [[("../x", b"")], [("l", "/etc")], [("d", ".."), ("d/x", b"")]])
def test_a_vendors_archive_does_not_leave_the_destination(tmp_path: Path, members: list[Member]) -> None:
    with pytest.raises(DriverError) as caught:
        unpack_tar(tar_of(*members), tmp_path)
    assert caught.value.diagnostics[0].code is Code.PATH_ESCAPES


@pytest.mark.parametrize("cut", [0, 5, 60, -30])
def test_a_damaged_archive_of_a_vendor(tmp_path: Path, cut: int) -> None:
    with pytest.raises(DriverError) as caught:
        unpack_tar(tar_of(("x", b"x" * 100))[:cut], tmp_path)
    assert caught.value.diagnostics[0].code is Code.BAD_DIGEST


def test_a_compression_that_cannot_be_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    body = deb_of([("x", b"")], "tar").replace(b"data.tar    ", b"data.tar.zst")
    with pytest.raises(DriverError, match="compression") as caught:
        unpacked(body, tmp_path, deb=True)
    assert caught.value.diagnostics[0].code is Code.PLATFORM


@pytest.mark.parametrize("deb", [False, True])
@pytest.mark.parametrize("cut", [0, 5, 40, -30])
def test_a_damaged_archive_is_said(tmp_path: Path, deb: bool, cut: int) -> None:  # noqa: FBT001
    body = deb_of([("x", b"x" * 100)]) if deb else zip_of(("x", b"x" * 100))
    with pytest.raises(DriverError) as caught:
        unpacked(body[:cut], tmp_path, deb=deb)
    assert caught.value.diagnostics[0].code is Code.BAD_DIGEST
