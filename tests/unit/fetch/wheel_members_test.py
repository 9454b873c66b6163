from __future__ import annotations

import hashlib
import io
import zipfile
from typing import TYPE_CHECKING

import pytest
from fetch_server import Server, noise, pinned, wheel

from py_driver.errors import Code, DriverError
from py_driver.fetch.fetcher import Fetcher
from py_driver.fetch.pip_settings import PipSettings
from py_driver.fetch.prefetch import fill_mirror
from py_driver.fetch.resolution import resolve, resolve_members, resolve_sdist
from py_driver.fetch.store import Store
from py_driver.fetch.unpacking import unpack

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.fetch.entry import Entry

NAME = "demo-1.0-py3-none-any.whl"
FILE = f"/files/{NAME}"
HEADERS = {f"demo/include/{n}.h": noise(5_000, str(n)) for n in range(20)}
MEMBERS = {
    **dict(list(HEADERS.items())[:10]),
    "demo/lib/huge.so": noise(5_000_000),
    **dict(list(HEADERS.items())[10:]),
    "demo/include/BUILD": b"cc_library()",
    "demo/version.py": b"version = '1.0'\n",
    "demo/lib/other.so": noise(3_000_000, "other"),
}
BODY = wheel(MEMBERS)
WANTED = {**HEADERS, "demo/version.py": MEMBERS["demo/version.py"]}


def record_of(body: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        return archive.read("demo-1.0.dist-info/RECORD")


def members(body: bytes = BODY) -> Entry:
    return pinned(
        body,
        record_sha256=hashlib.sha256(record_of(body)).hexdigest(),
        include=("demo/include/", "demo/version.py"),
        exclude=(r"(^|/)BUILD$",),
    )


def files_below(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_fetches_what_is_wanted_and_little_else(server: Server, fetcher: Fetcher, tmp_path: Path) -> None:
    fetched = fetcher.fetch(members())
    assert len(server.spans(FILE)) == 3, "the end with the directory and RECORD; the headers before and after the gap"
    assert all(server.spans(FILE))
    assert fetched.bytes_fetched == server.sent < 64 * 1024 + sum(map(len, WANTED.values())) + 10_000
    unpack(fetched.path, members(), tmp_path / "out")
    assert files_below(tmp_path / "out") == WANTED
    again = fetcher.fetch(members())
    assert (again.source, again.bytes_fetched) == ("store", 0)


def test_the_bundle_is_the_same_each_time(server: Server, fetcher: Fetcher, tmp_path: Path) -> None:
    other = Fetcher(Store(tmp_path / "other"), None, PipSettings(indexes=(f"{server.url}/simple",)))
    assert fetcher.fetch(members()).path.read_bytes() == other.fetch(members()).path.read_bytes()


def test_a_server_without_ranges_gives_the_whole_wheel(server: Server, fetcher: Fetcher, tmp_path: Path) -> None:
    server.pages[FILE].ranges = False
    fetched = fetcher.fetch(members())
    unpack(fetched.path, members(), tmp_path / "out")
    assert files_below(tmp_path / "out") == WANTED
    assert fetcher.store.archive(members().sha256).read_bytes() == BODY


def test_a_broken_range_is_asked_for_again(server: Server, fetcher: Fetcher) -> None:
    server.pages[FILE].script = ["cut:100", "503", "reset"]
    fetcher.fetch(members())
    assert len(server.spans(FILE)) == 6


def test_another_record_is_refused(fetcher: Fetcher) -> None:
    entry = pinned(BODY, record_sha256="0" * 64, include=("demo/",))
    with pytest.raises(DriverError, match="RECORD of demo") as caught:
        fetcher.fetch(entry)
    assert caught.value.diagnostics[0].code is Code.BAD_DIGEST


def test_a_member_that_differs_from_record_is_refused(server: Server, fetcher: Fetcher) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in MEMBERS.items():
            archive.writestr(name, noise(5_000) if name == "demo/include/3.h" else data)
        archive.writestr("demo-1.0.dist-info/RECORD", record_of(BODY))
    server.offer("demo", {NAME: stream.getvalue()})
    with pytest.raises(DriverError, match=r"demo/include/3\.h does not match") as caught:
        fetcher.fetch(members(stream.getvalue()))
    assert caught.value.diagnostics[0].code is Code.BAD_DIGEST


def test_spoilt_bytes_are_refused(server: Server, fetcher: Fetcher) -> None:
    server.pages[FILE].script = ["wrong"]
    with pytest.raises(DriverError) as caught:
        fetcher.fetch(members())
    assert caught.value.diagnostics[0].code is Code.BAD_DIGEST


def test_a_bundle_in_the_mirror_serves_a_machine_without_network(fetcher: Fetcher, tmp_path: Path) -> None:
    fill_mirror([fetcher.fetch(members())], tmp_path / "mirror")
    assert [p.name for p in (tmp_path / "mirror").iterdir()] == [members().mirror_name]
    offline = Fetcher(Store(tmp_path / "other"), tmp_path / "mirror", PipSettings(indexes=()))
    assert offline.fetch(members()).source == "mirror"


def test_a_whole_wheel_in_the_mirror_does_too(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(BODY)
    offline = Fetcher(Store(tmp_path / "other"), tmp_path, PipSettings(indexes=()))
    unpack(offline.fetch(members()).path, members(), tmp_path / "out")
    assert files_below(tmp_path / "out") == WANTED


def test_resolve_writes_the_entry(server: Server, fetcher: Fetcher) -> None:
    entry = resolve(fetcher, "Demo", "1.0")
    assert entry == pinned(BODY)
    assert resolve_members(fetcher, entry, members().include, members().exclude) == members()
    assert server.sent < 200_000


def test_resolve_prefers_the_wheel_for_the_python(server: Server, fetcher: Fetcher) -> None:
    tags = [
        "cp311-cp311-manylinux_2_28_x86_64",
        "cp312-cp312-manylinux_2_28_x86_64",
        "cp312-cp312-manylinux_2_28_aarch64",
        "cp312-cp312-musllinux_1_2_x86_64",
        "cp312-cp312-win_amd64",
        "py3-none-any",
    ]
    server.offer("demo", {f"demo-{v}-{t}.whl": BODY for t in tags for v in ("1.0", "1.0+cpu", "1.0.1")})
    assert resolve(fetcher, "demo", "1.0", python_tag="cp312").filename == f"demo-1.0-{tags[1]}.whl"
    assert resolve(fetcher, "demo", "1.0", python_tag="cp313").filename == f"demo-1.0-{tags[-1]}.whl"
    assert resolve(fetcher, "demo", "1.0+cpu").filename == f"demo-1.0+cpu-{tags[-1]}.whl"
    with pytest.raises(DriverError) as caught:
        resolve(fetcher, "demo", "2.0")
    assert caught.value.diagnostics[0].code is Code.NOT_FOUND_UPSTREAM


@pytest.mark.parametrize("filename", ["some_demo-1.0.tar.gz", "Some.Demo-1.0.tar.gz"])
def test_resolve_a_source_archive(server: Server, fetcher: Fetcher, filename: str) -> None:
    server.offer("some-demo", {filename: b"tar", "some_demo-1.0.1.tar.gz": b"", "some_demo-1.0-py3-none-any.whl": BODY})
    entry = resolve_sdist(fetcher, "some-demo", "1.0")
    assert (entry.name, entry.filename, entry.size, entry.sdist, entry.members_only) == (
        "some-demo",
        filename,
        3,
        True,
        False,
    )
    with pytest.raises(DriverError) as caught:
        resolve_sdist(fetcher, "some-demo", "2.0")
    assert caught.value.diagnostics[0].code is Code.NOT_FOUND_UPSTREAM
