"""What lies in the store is looked at before anything is made of it: its name is no proof of what it holds."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import stat
import subprocess
import sys
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fetch_server import Server, noise, pinned, wheel

from py_driver.errors import Code, DriverError
from py_driver.fetch.entry import Origin
from py_driver.fetch.fetcher import Fetcher
from py_driver.fetch.pip_settings import PipSettings
from py_driver.fetch.prefetch import fetch_all, fill_mirror
from py_driver.output import Output

if TYPE_CHECKING:
    from collections.abc import Callable

    from py_driver.fetch.entry import Entry

PROGRAM = Path(__file__).parents[3] / "toolchains/fetch.py"
NAME = "demo-1.0-py3-none-any.whl"
MEMBERS = {"demo/include/a.h": noise(5_000, "a"), "demo/include/b.h": noise(5_000, "b"), "demo/lib.so": noise(90_000)}
BODY = wheel(MEMBERS)
OTHER = next(
    body
    for seed in range(1000)
    if len(body := wheel({**MEMBERS, "demo/include/a.h": noise(5_000, f"evil {seed}")})) == len(BODY)
)
RECORD = "demo-1.0.dist-info/RECORD"
EVIL = "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(noise(5_000, "evil")).digest()).decode().rstrip("=")
Member = tuple[str, bytes, int]
"""Name, content and mode."""


def record_of(body: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        return archive.read(RECORD)


WHOLE = pinned(BODY)
PARTIAL = pinned(BODY, record_sha256=hashlib.sha256(record_of(BODY)).hexdigest(), include=("demo/include/",))


def unplugged(fetcher: Fetcher, mirror: Path | None = None) -> Fetcher:
    """One with the same store, on a machine that no index answers."""
    return Fetcher(fetcher.store, mirror, PipSettings(indexes=()))


def put(path: Path, content: bytes) -> None:
    """Write a file of the store, which may be there and is read-only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def bundle(*members: Member) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, content)
    return stream.getvalue()


def get(
    server: Server, fetcher: Fetcher, entry: Entry, tmp_path: Path, **more: str
) -> subprocess.CompletedProcess[str]:
    """What a repository rule runs."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "RULES_TORCH_KERNELS_"))}
    own = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": f"{server.url}/simple",
        "RULES_TORCH_KERNELS_CACHE": str(fetcher.store.root),
    }
    command = ["get", "--entry", json.dumps(entry.to_json()), "--dest", str(tmp_path / "out")]
    return subprocess.run(
        [sys.executable, "-I", PROGRAM, *command], env=kept | own | more, capture_output=True, text=True, check=False
    )


def test_other_bytes_of_the_same_size_are_fetched_again(fetcher: Fetcher) -> None:
    path = fetcher.fetch(WHOLE).path
    assert len(OTHER) == len(BODY)
    put(path, OTHER)
    fetched = fetcher.fetch(WHOLE)
    assert (fetched.source, fetched.path.read_bytes()) == ("network", BODY)
    assert (
        fetched.replaced == f"{path} has the SHA-256 {hashlib.sha256(OTHER).hexdigest()}, the lock has {WHOLE.sha256}"
    )
    again = fetcher.fetch(WHOLE)
    assert (again.source, again.replaced) == ("store", "")


@pytest.mark.parametrize("entry", [WHOLE, PARTIAL], ids=["whole", "slim"])
def test_a_repository_is_never_made_of_other_bytes(
    server: Server, fetcher: Fetcher, tmp_path: Path, entry: Entry
) -> None:
    put(fetcher.fetch(entry).path, OTHER)
    done = get(server, fetcher, entry, tmp_path)
    assert (done.returncode, json.loads(done.stdout)["from"]) == (0, "network")
    assert (tmp_path / "out/demo/include/a.h").read_bytes() == MEMBERS["demo/include/a.h"]
    assert done.stderr.startswith("warning: demo 1.0: ")
    assert done.stderr.endswith("; it was fetched again\n")


def test_other_bytes_without_an_origin_are_an_error_with_both_digests(
    server: Server, fetcher: Fetcher, tmp_path: Path
) -> None:
    path = fetcher.fetch(WHOLE).path
    put(path, OTHER)
    for _ in range(2):
        done = get(server, fetcher, WHOLE, tmp_path, PIP_NO_INDEX="1")
        assert (done.returncode, done.stdout) == (4, "")
        assert done.stderr.startswith("error[E303]: demo 1.0: the archive in the store does not match the lock: ")
        for word in (
            str(path),
            hashlib.sha256(OTHER).hexdigest(),
            WHOLE.sha256,
            "none of pip's indexes",
            "a directory",
        ):
            assert word in done.stderr
        assert not (tmp_path / "out").exists()


def test_a_damaged_archive_that_no_origin_has_right_either(server: Server, fetcher: Fetcher) -> None:
    put(fetcher.fetch(WHOLE).path, OTHER)
    server.pages[f"/files/{NAME}"].script = ["wrong"] * 2
    with pytest.raises(
        DriverError, match=r"the store does not match the lock: .* could not be fetched again: http://127"
    ) as caught:
        Fetcher(fetcher.store, None, PipSettings(indexes=(f"{server.url}/simple",))).fetch(WHOLE)
    assert caught.value.diagnostics[0].code is Code.BAD_DIGEST


@pytest.mark.parametrize("content", [b"", b"PK", BODY[:-1], BODY + b"x"])
def test_bytes_of_another_size_are_fetched_again(fetcher: Fetcher, content: bytes) -> None:
    for entry in (WHOLE, PARTIAL):
        put(fetcher.store.path(entry), content)
        assert fetcher.fetch(entry).replaced.startswith(str(fetcher.store.path(entry)))
        assert fetcher.fetch(entry).source == "store"


def _with(*more: Member, without: str = "") -> Callable[[], bytes]:
    right: list[Member] = [(name, MEMBERS[name], 0o644) for name in MEMBERS if name.startswith("demo/include/")]
    members = [*right, (RECORD, record_of(BODY), 0o644), *more]
    kept = [member for at, member in enumerate(members) if member[0] != without or at >= len(right) + 1]
    return lambda: bundle(*kept)


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (_with(("demo/include/a.h", b"evil", 0o644), without="demo/include/a.h"), "of 5000 bytes, not 4 bytes"),
        (_with(("demo/include/a.h", noise(5_000, "evil"), 0o644), without="demo/include/a.h"), f"not {EVIL}"),
        (_with(("demo/include/a.h", b"../../../x", stat.S_IFLNK | 0o644), without="demo/include/a.h"), "is a link"),
        (_with(without="demo/include/b.h"), "demo/include/b.h is missing"),
        (_with(("demo/include/BUILD", b"", 0o644)), "demo/include/BUILD does not belong"),
        (_with(("demo/lib.so", MEMBERS["demo/lib.so"], 0o755)), "demo/lib.so does not belong"),
        (_with(without=RECORD), "0 RECORD files"),
        (_with((RECORD, record_of(OTHER), 0o644), without=RECORD), "the RECORD of demo"),
        (lambda: _with()()[:-40], "not a zip file"),
    ],
)
def test_a_bundle_that_is_not_what_is_wanted_is_made_again(
    server: Server, fetcher: Fetcher, tmp_path: Path, make: Callable[[], bytes], what: str
) -> None:
    path = fetcher.fetch(PARTIAL).path
    right = path.read_bytes()
    put(path, make())
    with pytest.raises(DriverError) as caught:
        unplugged(fetcher).fetch(PARTIAL)
    [diagnostic] = caught.value.diagnostics
    assert diagnostic.code is Code.BAD_DIGEST
    assert what in diagnostic.message
    assert get(server, fetcher, PARTIAL, tmp_path).returncode == 0
    assert path.read_bytes() == right
    assert {p.name for p in (tmp_path / "out/demo").rglob("*")} == {"include", "a.h", "b.h"}


def test_a_mirror_whose_bundle_lacks_something_gives_way_to_the_index(
    server: Server, fetcher: Fetcher, tmp_path: Path
) -> None:
    fill_mirror([fetcher.fetch(PARTIAL)], tmp_path / "mirror")
    put(tmp_path / "mirror" / PARTIAL.mirror_name, _with(without="demo/include/b.h")())
    put(fetcher.store.path(PARTIAL), b"")
    with pytest.raises(DriverError, match=r"demo/include/b\.h is missing"):
        unplugged(fetcher, tmp_path / "mirror").fetch(PARTIAL)
    assert Fetcher(fetcher.store, tmp_path / "mirror", PipSettings(indexes=(f"{server.url}/simple",))).fetch(PARTIAL)


def test_a_damaged_whole_wheel_is_no_origin_of_a_bundle(server: Server, fetcher: Fetcher) -> None:
    put(fetcher.store.archive(PARTIAL.sha256), OTHER)
    assert fetcher.fetch(PARTIAL).source == "network"
    assert fetcher.store.archive(PARTIAL.sha256).read_bytes() == OTHER  # another process may be about to replace it
    put(fetcher.store.path(PARTIAL), b"")
    put(fetcher.store.archive(PARTIAL.sha256), OTHER)
    server.pages[f"/files/{NAME}"].ranges = False
    assert fetcher.fetch(PARTIAL).source == "network"
    assert fetcher.store.archive(PARTIAL.sha256).read_bytes() == BODY


def test_a_build_that_unpacks_nothing_trusts_the_size(fetcher: Fetcher) -> None:
    put(fetcher.fetch(WHOLE).path, OTHER)
    said = io.StringIO()
    [held] = fetch_all([WHOLE], Output(err=said), fetcher=unplugged(fetcher))
    assert (held.source, held.path, held.bytes_fetched, said.getvalue()) == ("store", fetcher.store.path(WHOLE), 0, "")
    put(held.path, OTHER[:-1])
    with pytest.raises(DriverError):
        fetch_all([WHOLE], Output(err=said), fetcher=unplugged(fetcher))


def test_a_fetch_that_is_asked_for_looks_at_all_and_says_what_it_replaced(fetcher: Fetcher) -> None:
    put(fetcher.fetch(WHOLE).path, OTHER)
    said = io.StringIO()
    whole, members = fetch_all([WHOLE, PARTIAL], Output(err=said), fetcher=fetcher, check=True)
    assert (whole.source, members.source) == ("network", "network")
    assert whole.path.read_bytes() == BODY
    assert f"warning: demo 1.0: {whole.path} has the SHA-256 " in said.getvalue()
    assert [
        archive.source for archive in fetch_all([WHOLE, PARTIAL], Output(err=said), fetcher=fetcher, check=True)
    ] == [
        "store",
        "store",
    ]


def test_two_programs_that_find_the_same_damage_fetch_once(server: Server, fetcher: Fetcher, tmp_path: Path) -> None:
    put(fetcher.fetch(WHOLE).path, OTHER)
    server.asked.clear()
    server.pages[f"/files/{NAME}"].script = ["slow:0.2"]
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda n: get(server, fetcher, WHOLE, tmp_path / str(n)), range(2)))
    assert sorted(json.loads(process.stdout)["from"] for process in done) == ["network", "store"]
    assert server.spans(f"/files/{NAME}") == [""]


def test_what_the_store_has_by_its_size(fetcher: Fetcher) -> None:
    vendors = replace(WHOLE, size=0, origin=Origin.URL, url="https://vendor.example/x")
    assert [fetcher.store.has(entry) for entry in (WHOLE, PARTIAL, vendors)] == [False, False, False]
    put(fetcher.fetch(WHOLE).path, BODY[:-1])
    put(fetcher.fetch(PARTIAL).path, b"")
    assert [fetcher.store.has(entry) for entry in (WHOLE, PARTIAL, vendors)] == [False, True, True]
    assert (
        fetcher.fetch(WHOLE).path == fetcher.fetch(vendors).path == fetcher.store.root / "store/sha256" / WHOLE.sha256
    )
    assert fetcher.fetch(PARTIAL).path == fetcher.store.root / "store/slim" / f"{PARTIAL.key}.zip"
    assert [fetcher.store.has(entry) for entry in (WHOLE, PARTIAL, vendors)] == [True, True, True]


def test_what_is_in_the_store_cannot_be_written(fetcher: Fetcher) -> None:
    for entry in (WHOLE, PARTIAL):
        assert stat.S_IMODE(fetcher.fetch(entry).path.stat().st_mode) == 0o444


@pytest.mark.parametrize("entry", [WHOLE, PARTIAL], ids=["whole", "slim"])
@pytest.mark.parametrize("kind", ["archive", "partial", "lock"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "directory"])
@pytest.mark.timeout(20)
def test_what_is_no_file_in_the_store_is_said(
    fetcher: Fetcher, entry: Entry, kind: str, make: Callable[[Path], None]
) -> None:
    place = fetcher.store.root / "store" / kind / entry.key
    if kind == "archive":
        place = fetcher.store.path(entry)
    place.parent.mkdir(parents=True)
    make(place)
    with pytest.raises(DriverError) as caught:
        fetch_all([entry], Output(), fetcher=fetcher)
    [diagnostic] = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == (Code.SET_UP, f"{place} is not a regular file")


def test_archives_that_are_no_longer_wanted_stop(server: Server, fetcher: Fetcher) -> None:
    server.pages[f"/files/{NAME}"].script = ["slow:1"]
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    begin = time.monotonic()
    with pytest.raises(DriverError) as caught:
        fetch_all([WHOLE], Output(err=io.StringIO()), fetcher=fetcher, stop=stop)
    assert caught.value.diagnostics[0].code is Code.INTERRUPTED
    assert time.monotonic() - begin < 15
