from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fetch_server import Server, noise, pinned, wheel

from py_driver.errors import Code, DriverError
from py_driver.fetch.fetcher import Fetcher
from py_driver.fetch.pip_settings import PipSettings
from py_driver.fetch.store import Store
from py_driver.fetch.transfer import Meter
from py_driver.system.cache import cache_root

PROGRAM = Path(__file__).parents[3] / "toolchains/fetch.py"
NAME = "demo-1.0-py3-none-any.whl"
FILE = f"/files/{NAME}"
BODY = wheel({"demo/data": noise(3_000_000), "demo/tool": b"#!/bin/sh\n"}, executable=("demo/tool",))


def fetcher_for(server: Server, tmp_path: Path, mirror: Path | None = None) -> Fetcher:
    return Fetcher(Store(tmp_path / "cache"), mirror, PipSettings(indexes=(f"{server.url}/simple",)))


def failure_of(fetcher: Fetcher, body: bytes = BODY, filename: str = NAME) -> DriverError:
    with pytest.raises(DriverError) as caught:
        fetcher.fetch(pinned(body, filename))
    return caught.value


def environment(server: Server, tmp_path: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "RULES_TORCH_KERNELS_"))}
    return kept | {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": f"{server.url}/simple",
        "RULES_TORCH_KERNELS_CACHE": str(tmp_path / "cache"),
    }


def start(server: Server, tmp_path: Path, destination: str = "out") -> subprocess.Popen[str]:
    entry = json.dumps(pinned(BODY).to_json())
    return subprocess.Popen(
        [sys.executable, "-I", PROGRAM, "get", "--entry", entry, "--dest", tmp_path / destination],
        env=environment(server, tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_fetches_once_and_counts_every_byte(server: Server, tmp_path: Path) -> None:
    fetcher = fetcher_for(server, tmp_path)
    fetched = fetcher.fetch(pinned(BODY))
    assert fetched.source == "network"
    assert fetched.path.read_bytes() == BODY
    assert fetched.path == tmp_path / "cache/store/sha256" / hashlib.sha256(BODY).hexdigest()
    assert fetched.bytes_fetched == len(BODY) + len(server.pages["/simple/demo/"].body) == server.sent
    again = fetcher.fetch(pinned(BODY))
    assert (again.source, again.bytes_fetched) == ("store", 0)
    assert [asked.path for asked in server.asked] == ["/simple/demo/", FILE]


@pytest.mark.parametrize("script", [["503", "503"], ["reset"], ["429", "reset", "500"]])
def test_tries_again_when_the_failure_may_pass(server: Server, tmp_path: Path, script: list[str]) -> None:
    tries = len(script) + 1
    server.pages[FILE].script = script
    assert fetcher_for(server, tmp_path).fetch(pinned(BODY)).path.read_bytes() == BODY
    assert len(server.spans(FILE)) == tries


@pytest.mark.parametrize("action", ["cut:1000000", "break:1000000"])
def test_goes_on_where_the_connection_broke(server: Server, tmp_path: Path, action: str) -> None:
    server.pages[FILE].script = [action]
    assert fetcher_for(server, tmp_path).fetch(pinned(BODY)).path.read_bytes() == BODY
    assert server.spans(FILE) == ["", "bytes=1000000-"]


def test_many_breaks_are_no_matter_while_bytes_come(server: Server, tmp_path: Path) -> None:
    server.pages[FILE].script = ["cut:200000"] * 10
    fetched = fetcher_for(server, tmp_path).fetch(pinned(BODY))
    assert fetched.path.read_bytes() == BODY
    assert len(server.spans(FILE)) == 11
    assert server.sent == len(BODY) + len(server.pages["/simple/demo/"].body)


def test_a_server_without_ranges_that_always_breaks_is_given_up(server: Server, tmp_path: Path) -> None:
    server.pages[FILE].ranges = False
    server.pages[FILE].script = ["cut:1000"] * 20
    assert failure_of(fetcher_for(server, tmp_path)).diagnostics[0].code is Code.NO_NETWORK
    assert len(server.spans(FILE)) == 4


def test_without_ranges_an_interrupted_download_starts_anew(server: Server, tmp_path: Path) -> None:
    server.pages[FILE].ranges = False
    server.pages[FILE].script = ["cut:1000000"]
    assert fetcher_for(server, tmp_path).fetch(pinned(BODY)).path.read_bytes() == BODY


def test_wrong_bytes_are_fetched_anew_once(server: Server, tmp_path: Path) -> None:
    server.pages[FILE].script = ["wrong"]
    assert fetcher_for(server, tmp_path).fetch(pinned(BODY)).path.read_bytes() == BODY
    assert server.spans(FILE) == ["", ""]


def test_wrong_bytes_twice_are_an_error_and_leave_nothing(server: Server, tmp_path: Path) -> None:
    server.pages[FILE].script = ["wrong"] * 2
    failure = failure_of(fetcher_for(server, tmp_path))
    assert failure.diagnostics[0].code is Code.BAD_DIGEST
    assert server.spans(FILE) == ["", ""]
    assert not list((tmp_path / "cache/store/partial").iterdir())
    assert not (tmp_path / "cache/store/sha256").exists()


def test_a_spoilt_partial_costs_one_more_download(server: Server, tmp_path: Path) -> None:
    fetcher = fetcher_for(server, tmp_path)
    fetcher.store.partial(pinned(BODY).key).write_bytes(bytes(1000))
    assert fetcher.fetch(pinned(BODY)).path.read_bytes() == BODY
    assert server.spans(FILE) == ["bytes=1000-", ""]


def test_another_size_is_noticed_before_the_download(server: Server, tmp_path: Path) -> None:
    server.offer("demo", {NAME: BODY + b"x"}, digest=False)
    failure = failure_of(fetcher_for(server, tmp_path))
    assert failure.diagnostics[0].code is Code.BAD_DIGEST
    assert str(len(BODY) + 1) in str(failure)


def test_an_index_that_lists_another_digest_is_not_asked_for_the_file(server: Server, tmp_path: Path) -> None:
    server.offer("demo", {NAME: BODY + b"x"})
    assert failure_of(fetcher_for(server, tmp_path)).diagnostics[0].code is Code.BAD_DIGEST
    assert not server.spans(FILE)


def test_gone_upstream(server: Server, tmp_path: Path) -> None:
    del server.pages[FILE]
    failure = failure_of(fetcher_for(server, tmp_path)).diagnostics[0]
    assert failure.code is Code.NOT_FOUND_UPSTREAM
    assert server.host in failure.message
    assert "RULES_TORCH_KERNELS_MIRROR" in failure.help
    assert len(server.spans(FILE)) == 1
    missing = failure_of(fetcher_for(server, tmp_path), filename="demo-1.0-cp99-none-any.whl").diagnostics[0]
    assert missing.code is Code.NOT_FOUND_UPSTREAM


def test_no_network(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = PipSettings(indexes=(f"http://user:secret@127.0.0.1:{port}/simple",))
    failure = failure_of(Fetcher(Store(tmp_path), None, settings)).diagnostics[0]
    assert failure.code is Code.NO_NETWORK
    assert failure.message.startswith(f"cannot fetch demo 1.0 ({NAME}) from the Python package index: no answer from ")
    assert "pip's configuration" in failure.help
    assert "secret" not in failure.message


def test_a_mirror_directory_comes_first(server: Server, tmp_path: Path) -> None:
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / NAME).write_bytes(BODY)
    fetched = fetcher_for(server, tmp_path, tmp_path / "mirror").fetch(pinned(BODY))
    assert (fetched.source, fetched.bytes_fetched, server.asked) == ("mirror", 0, [])


def test_a_spoilt_mirror_gives_way_to_the_index(server: Server, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"spoilt")
    assert fetcher_for(server, tmp_path, tmp_path).fetch(pinned(BODY)).source == "network"


def test_an_interrupted_program_goes_on_from_the_byte_it_had(server: Server, tmp_path: Path) -> None:
    server.pages[FILE].script = ["slow:0.02"]
    program = start(server, tmp_path)
    partial = tmp_path / "cache/store/partial" / pinned(BODY).key
    deadline = time.monotonic() + 60
    while not (partial.exists() and partial.stat().st_size > 300_000):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    program.send_signal(signal.SIGINT)
    _, said = program.communicate(timeout=60)
    assert program.returncode == 130
    assert said.startswith("error[E900]: interrupted")
    held = partial.stat().st_size
    assert 300_000 < held < len(BODY)
    assert not (tmp_path / "cache/store/sha256").exists()
    answer, said = start(server, tmp_path).communicate(timeout=60)
    assert not said
    assert server.spans(FILE) == ["", f"bytes={held}-"]
    assert json.loads(answer)["bytes_fetched"] == len(BODY) - held + len(server.pages["/simple/demo/"].body)
    assert (tmp_path / "out/demo/data").read_bytes() == noise(3_000_000)


def test_two_processes_at_once_download_once(server: Server, tmp_path: Path) -> None:
    server.pages[FILE].script = ["slow:0.02"]
    programs = [start(server, tmp_path, f"out{number}") for number in range(2)]
    answers = [json.loads(program.communicate(timeout=60)[0]) for program in programs]
    assert sorted(answer["from"] for answer in answers) == ["network", "store"]
    assert server.spans(FILE) == [""]
    for number in range(2):
        assert os.access(tmp_path / f"out{number}/demo/tool", os.X_OK)
        assert not os.access(tmp_path / f"out{number}/demo/data", os.X_OK)


def test_a_full_disk_is_said_and_keeps_what_came(server: Server, tmp_path: Path) -> None:
    limited = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1000000, 1000000)); \
sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    entry = json.dumps(pinned(BODY).to_json())
    done = subprocess.run(
        [sys.executable, "-c", limited, PROGRAM, "get", "--entry", entry, "--dest", tmp_path / "out"],
        env=environment(server, tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert done.stderr.startswith("error[E304]: no space left for ")
    assert "RULES_TORCH_KERNELS_CACHE" in done.stderr
    assert (tmp_path / "cache/store/partial" / pinned(BODY).key).stat().st_size == 1_000_000


def test_a_store_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    for name in ("file", "cache/store/sha256"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    fetcher = Fetcher(Store(tmp_path / "file"), None, PipSettings(indexes=(f"{server.url}/simple",)))
    for failure, path in (
        (failure_of(fetcher), tmp_path / "file/store/lock" / pinned(BODY).key),
        (failure_of(fetcher_for(server, tmp_path)), tmp_path / "cache/store/sha256" / pinned(BODY).sha256),
    ):
        [diagnostic] = failure.diagnostics
        assert diagnostic.code is Code.PERMISSION
        assert diagnostic.message.startswith(f"cannot write {path}: ")
        assert diagnostic.help == "make it writable, or set RULES_TORCH_KERNELS_CACHE to a directory that is"


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_root({"RULES_TORCH_KERNELS_CACHE": str(tmp_path), "HOME": "/h"}) == tmp_path
    assert cache_root({"XDG_CACHE_HOME": "/x", "HOME": "/h"}) == Path("/x/rules_torch_kernels")
    assert cache_root({"XDG_CACHE_HOME": "relative", "HOME": "/h"}) == Path("/h/.cache/rules_torch_kernels")
    for environ in ({}, {"HOME": "relative"}):
        with pytest.raises(DriverError) as caught:
            cache_root(environ)
        [diagnostic] = caught.value.diagnostics
        assert diagnostic.message == "there is no place for the cache: HOME is not set"
        assert "RULES_TORCH_KERNELS_CACHE to a directory" in diagnostic.help
    monkeypatch.setenv("RULES_TORCH_KERNELS_CACHE", str(tmp_path / "own"))
    assert cache_root() == tmp_path / "own"


def test_a_stopped_transfer_ends(server: Server, tmp_path: Path) -> None:
    meter = Meter()
    meter.stop.set()
    with pytest.raises(DriverError) as caught:
        fetcher_for(server, tmp_path).fetch(pinned(BODY), meter)
    assert caught.value.diagnostics[0].code is Code.INTERRUPTED
