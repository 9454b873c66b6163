"""`driver publish` against a Hub that fails, or is not there, and where it is killed."""

from __future__ import annotations

import hashlib
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hub import Fault, Hub, Request, nothing, served
from tuned import (
    CANARY,
    FILES,
    REPO,
    below_build,
    build,
    environment,
    on_disk,
    publish,
)


def test_token_is_not_shown_when_the_library_tells_all(
    hub: Hub, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_DEBUG", "1")
    hub.faults.append(Fault(what="POST commit/v3", status=500))
    done = publish(hub, project, code=4)
    assert "authorization: <TOKEN>" in done.stderr


def test_lost_answer_makes_no_second_commit(hub: Hub, project: Path) -> None:
    hub.faults.append(Fault(what="POST commit/v3", status=500, after=True))
    publish(hub, project)
    assert hub.repositories[REPO].count == 2
    assert hub.asked("POST commit/v3") == 1


def test_failed_commit_is_made_by_the_next_run_and_sends_nothing_twice(hub: Hub, project: Path) -> None:
    hub.faults.append(Fault(what="POST commit/v3", status=500))
    done = publish(hub, project, code=4)
    assert "error[E310]: the Hub answered 500" in done.stderr
    assert "run it again" in done.stderr
    assert below_build(hub) == {}
    publish(hub, project)
    assert below_build(hub) == on_disk(project)
    assert hub.asked("PUT _lfs/") == 2  # weights.bin of two variants


def test_upload_that_fails_for_a_while_is_tried_again(hub: Hub, project: Path) -> None:
    hub.faults.append(Fault(what="PUT _lfs/", status=503, times=2))
    publish(hub, project)
    assert below_build(hub) == on_disk(project)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "what",
    ["POST api/repos/create", "POST branch", "GET commits", "GET refs", "GET tree", "POST preupload", "POST lfs",
     "PUT _lfs/", "POST _lfs/verify", "POST commit/v3", "POST api/validate-yaml", "POST commit/main"],
)  # fmt: skip
def test_whatever_fails_the_next_run_ends_it(hub: Hub, project: Path, what: str) -> None:
    # Uploads are tried again for half a minute, whatever the Hub says of when, unless it says no.
    hub.faults.append(Fault(what=what, status=403 if "_lfs/" in what else 500, times=20))
    assert "error[E310]" in publish(hub, project, code=4).stderr
    hub.faults.clear()
    publish(hub, project)
    assert below_build(hub) == on_disk(project)
    assert hub.repositories[REPO].count == 2


@pytest.mark.thorough
def test_killed_at_any_request_the_next_run_ends_it(project: Path) -> None:
    """Killed before all, and when each change was made and not answered: all that the Hub can be left with."""
    with served() as hub:
        publish(hub, project)
        expected, asked = hub.repositories[REPO].branches, [request.what for request in hub.requests]
    assert {"POST api/repos/create", "POST branch/v3", "POST commit/v3", "POST commit/main"} <= set(asked)
    unanswered = [(number, True) for number, what in enumerate(asked) if what.startswith(("POST", "PUT"))]
    for number, done in [(0, False), *unanswered]:
        with served() as hub:
            killed = _killed(hub, project, number, done=done)
            stored, before = {f"PUT _lfs/{digest}" for digest in hub.stored}, len(hub.requests)
            publish(hub, project)
            assert hub.repositories[REPO].branches == expected, killed
            assert hub.repositories[REPO].count == 2, killed
            assert stored.isdisjoint(request.what for request in hub.requests[before:]), killed


def _killed(hub: Hub, project: Path, number: int, *, done: bool) -> str:
    """Publish, and kill that at a request, which is done or not; what it asked for."""
    command = [sys.executable, "-m", "py_driver", "publish", str(project)]
    process = subprocess.Popen(
        command, env=environment(hub, project), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def kill(request: Request, *, after: bool) -> None:
        if after is done and len(hub.requests) > number and hub.requests[number] is request:
            assert CANARY.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
            process.kill()
            process.wait()
            raise ConnectionResetError

    hub.at_request = kill
    assert process.wait(60) == -signal.SIGKILL
    hub.at_request = nothing
    return hub.requests[number].what


@pytest.fixture
def xet(hub: Hub, tmp_path: Path) -> Hub:
    """A Hub with Xet, whose store hf_xet keeps in a directory."""
    hub.xet = tmp_path / "xet"
    hub.xet.mkdir()
    hub.stored[hashlib.sha256(FILES["weights.bin"]).hexdigest()] = FILES["weights.bin"]
    return hub


def test_large_files_go_through_xet_and_then_there_is_one_commit(xet: Hub, project: Path) -> None:
    publish(xet, project)
    assert below_build(xet) == on_disk(project)
    assert (xet.asked("POST commit/v3"), xet.asked("POST commit/main"), xet.asked("POST lfs")) == (1, 1, 0)
    assert xet.xet is not None
    assert [path for path in xet.xet.glob("xet/xorbs/xorbs/default.*") if path.suffix != ".tagset"]
    before = len(xet.requests)
    publish(xet, project)
    assert not [request for request in xet.requests[before:] if request.what.startswith(("GET xet", "POST commit"))]


def test_xet_that_refuses(xet: Hub, project: Path) -> None:
    xet.faults.append(Fault(what="GET xet-write-token", status=403))
    done = publish(xet, project, code=4)
    assert "error[E310]: the Hub answered 403" in done.stderr
    assert "the token may not write there" in done.stderr
    assert xet.repositories[REPO].count == 0
    publish(xet, project)
    assert below_build(xet) == on_disk(project)


def test_other_bytes_on_the_hub_are_noticed(hub: Hub, project: Path) -> None:
    def spoil() -> None:
        hub.stored.update(dict.fromkeys(hub.stored, b"other"))

    hub.before_commit = spoil
    done = publish(hub, project, code=4)
    assert "lacks a file that was sent: build/torch-cpu/weights.bin" in done.stderr


def test_other_publisher_wins(hub: Hub, project: Path) -> None:
    publish(hub, project)
    build(project, "torch-cpu", {"__init__.py": b"x = 2\n"})

    def other() -> None:
        hub.repositories[REPO].put("v3", {"build/theirs": b""})

    hub.before_commit = other
    done = publish(hub, project, code=4)
    assert "error[E310]: the Hub answered 412" in done.stderr
    assert "somebody else published meanwhile" in done.stderr
    assert below_build(hub) == {"build/theirs": b""}


@pytest.mark.parametrize(("status", "advice"), [(401, "hf auth login"), (403, "may not write"), (429, "slow down")])
def test_what_the_hub_refuses_is_explained(hub: Hub, project: Path, status: int, advice: str) -> None:
    hub.faults.append(Fault(what="POST api/repos/create", status=status, times=9))
    done = publish(hub, project, code=4)
    assert f"error[E310]: the Hub answered {status}" in done.stderr
    assert advice in done.stderr


def test_no_hub(project: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}"
    assert "error[E301]: cannot reach the Hub" in publish(address, project, code=4).stderr


@pytest.mark.parametrize("address", ["http://[::1", "http://127.0.0.1:99999", "nothing"])
def test_address_that_is_none(project: Path, address: str) -> None:
    said = publish(address, project, code=4).stderr
    assert "error[E3" in said
    assert "HF_ENDPOINT" in said
    assert "run it again" not in said


def test_offline_mode(hub: Hub, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    said = publish(hub, project, code=4).stderr
    assert "error[E301]: cannot reach the Hub" in said
    assert "help: unset HF_HUB_OFFLINE" in said


def test_card_that_the_hub_refuses(hub: Hub, project: Path) -> None:
    hub.faults.append(Fault(what="POST api/validate-yaml", status=400))
    assert "Invalid metadata in README.md" in publish(hub, project, code=4).stderr
    publish(hub, project)
    assert hub.repositories[REPO].count == 2
