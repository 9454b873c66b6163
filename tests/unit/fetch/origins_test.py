from __future__ import annotations

import base64
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fetch_server import Asked, Page, Server, noise, pinned, wheel

from py_driver.errors import Code, DriverError
from py_driver.fetch import command, debian, pip_settings, transfer
from py_driver.fetch.apt import MIRROR_VARIABLE
from py_driver.fetch.entry import Origin, parse_entry
from py_driver.fetch.fetcher import Fetcher
from py_driver.fetch.pip_settings import PipSettings, read_pip_settings
from py_driver.fetch.prefetch import fetch_all
from py_driver.fetch.store import Store
from py_driver.output import Output

if TYPE_CHECKING:
    from py_driver.fetch.entry import Entry

NAME = "demo-1.0-py3-none-any.whl"
BODY = wheel({"demo/data": noise(100_000)})
TAR = "demo-1.0-archive.tar.xz"
DEB = "pool/main/d/demo/demo_1.0_amd64.deb"
FETCH = Path(__file__).parents[3] / "py_driver/fetch"


def fetcher_for(tmp_path: Path, *indexes: str, find_links: tuple[str, ...] = ()) -> Fetcher:
    return Fetcher(Store(tmp_path / "cache"), None, PipSettings(indexes=indexes, find_links=find_links))


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("digest", [False, True])
def test_both_forms_of_page(server: Server, tmp_path: Path, as_json: bool, digest: bool) -> None:  # noqa: FBT001
    server.offer("demo", {NAME: BODY}, as_json=as_json, digest=digest)
    assert fetcher_for(tmp_path, f"{server.url}/simple/").fetch(pinned(BODY)).path.read_bytes() == BODY


def test_the_second_index_is_asked_only_if_the_first_lacks_it(server: Server, tmp_path: Path) -> None:
    server.offer("demo", {NAME: BODY})
    indexes = (f"{server.url}/none", f"{server.url}/simple", f"{server.url}/never")
    fetcher_for(tmp_path, *indexes).fetch(pinned(BODY))
    assert [asked.path for asked in server.asked] == ["/none/demo/", "/simple/demo/", f"/files/{NAME}"]


def test_a_page_is_fetched_once_for_many_archives(server: Server, tmp_path: Path) -> None:
    files = {f"demo-1.0-cp3{n}-none-any.whl": wheel({"n": bytes([n])}) for n in range(8)}
    server.offer("demo", files)
    err = io.StringIO()
    entries = [pinned(body, name) for name, body in files.items()]
    fetched = fetch_all([*entries, entries[0]], Output(err=err), 4, fetcher_for(tmp_path, f"{server.url}/simple"))
    assert [archive.entry for archive in fetched] == [*entries, entries[0]]
    assert len(server.asked) == 9
    assert sum(archive.bytes_fetched for archive in fetched[:8]) == server.sent
    assert "fetching toolchains: 8 archives, 0.0 MB from the network" in err.getvalue()


def test_every_failure_of_many_is_said(server: Server, tmp_path: Path) -> None:
    server.offer("demo", {NAME: BODY})
    entries = [pinned(BODY), pinned(BODY, "demo-2.whl", sha256="1" * 64), pinned(BODY, "demo-3.whl", sha256="2" * 64)]
    with pytest.raises(DriverError) as caught:
        fetch_all(entries, Output(err=io.StringIO()), 2, fetcher_for(tmp_path, f"{server.url}/simple"))
    assert [d.code for d in caught.value.diagnostics] == [Code.NOT_FOUND_UPSTREAM] * 2
    assert Store(tmp_path / "cache").has(pinned(BODY))


def test_local_indexes_and_find_links(tmp_path: Path) -> None:
    for name in ("flat", "index/demo"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / NAME).write_bytes(BODY)
    (tmp_path / "index/demo/index.html").write_text(f'<a href="./{NAME}">{NAME}</a>')
    missing = str(tmp_path / "missing")
    index = fetcher_for(tmp_path, (tmp_path / "missing").as_uri(), (tmp_path / "index").as_uri())
    assert index.fetch(pinned(BODY)).source == "mirror"
    links = fetcher_for(tmp_path / "2", find_links=(missing, str(tmp_path / "flat")))
    assert links.fetch(pinned(BODY)).bytes_fetched == 0


def test_credentials_reach_their_host_only_and_are_not_shown(server: Server, tmp_path: Path) -> None:
    other = Server()
    other.offer("demo", {NAME: BODY})
    server.offer("demo", {NAME: BODY})
    server.pages[f"/files/{NAME}"].script = [f"302:{other.url}/files/{NAME}"]
    fetcher_for(tmp_path, server.url.replace("//", "//me:se%40cret@") + "/simple").fetch(pinned(BODY))
    expected = "Basic " + base64.b64encode(b"me:se@cret").decode()
    assert [asked.authorization for asked in server.asked] == [expected, expected]
    assert other.asked == [Asked(f"/files/{NAME}", "", "")]
    other.close()


def test_credentials_from_netrc(server: Server, tmp_path: Path) -> None:
    server.offer("demo", {NAME: BODY})
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password p\n")
    (tmp_path / ".netrc").chmod(0o600)
    fetcher_for(tmp_path, f"{server.url}/simple").fetch(pinned(BODY))
    assert server.asked[0].authorization == "Basic " + base64.b64encode(b"me:p").decode()


@pytest.mark.parametrize("status", ["401", "403"])
def test_a_refusal_says_to_check_the_credentials(server: Server, tmp_path: Path, status: str) -> None:
    server.offer("demo", {NAME: BODY})
    server.pages["/simple/demo/"].script = [status]
    with pytest.raises(DriverError, match="check the credentials"):
        fetcher_for(tmp_path, f"{server.url}/simple").fetch(pinned(BODY))


def test_pip_settings_come_from_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://one.example/simple\nextra-index-url =\n  https://two.example\n  file:///three\n"
        "find-links = /lost\ntrusted-host = one.example\n[download]\ncert = /ca.pem\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_FIND_LINKS", "/a /b")
    settings = read_pip_settings()
    assert settings.indexes == ("https://one.example/simple", "https://two.example", "file:///three")
    assert settings.find_links == ("/a", "/b")
    assert (settings.http.certificates, settings.http.trusted_hosts) == ("/ca.pem", ("one.example",))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert read_pip_settings().indexes == ()


def test_the_default_index_is_what_pip_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pip_settings, "_DEFAULT_INDEX", re.compile(r"Package\s+Index\s+\((default)"))
    assert read_pip_settings().indexes[0] == "default"


def test_without_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(DriverError, match="pip was not found"):
        read_pip_settings()


def test_a_debian_package_from_the_archive_that_the_environment_names(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.offer("x", {DEB: BODY})
    (tmp_path / "local").mkdir()
    monkeypatch.setenv(MIRROR_VARIABLE, f"{tmp_path}/local {server.url}/files/")
    entry = pinned(BODY, DEB, origin=Origin.DEBIAN)
    fetched = fetcher_for(tmp_path).fetch(entry)
    assert (fetched.source, fetched.bytes_fetched) == ("network", len(BODY))
    (tmp_path / "local" / DEB).parent.mkdir(parents=True)
    (tmp_path / "local" / DEB).write_bytes(BODY)
    assert fetcher_for(tmp_path / "2").fetch(entry).source == "mirror"


@pytest.mark.skipif(not debian.APT_HELPER.exists(), reason="this machine has no apt")
@pytest.mark.parametrize(
    ("script", "code"), [([], None), (["404"], Code.NOT_FOUND_UPSTREAM), (["wrong"] * 9, Code.BAD_DIGEST)]
)
def test_a_debian_package_by_apt(server: Server, tmp_path: Path, script: list[str], code: Code | None) -> None:
    server.offer("x", {DEB: BODY})
    server.pages[f"/files/{DEB}"].script = script
    entry = pinned(BODY, DEB, origin=Origin.DEBIAN)
    partial = tmp_path / "partial"
    meter = transfer.Meter()
    if code is None:
        debian.apt_download(f"{server.url}/files/{DEB}", entry, partial, meter)
        assert partial.read_bytes() == BODY
        assert meter.bytes == len(BODY)
        return
    with pytest.raises(transfer.OriginError) as caught:
        debian.apt_download(f"{server.url}/files/{DEB}", entry, partial, meter)
    assert caught.value.code is code


def vendor(server: Server, **more: object) -> Entry:
    server.pages[f"/tree/{TAR}"] = Page(BODY)
    return pinned(BODY, TAR, origin=Origin.URL, url=f"{server.url}/tree/{TAR}", **more)


@pytest.mark.parametrize("size", [len(BODY), 0])
def test_an_archive_from_a_vendor_with_and_without_its_size(server: Server, tmp_path: Path, size: int) -> None:
    entry = vendor(server, size=size)
    fetched = fetcher_for(tmp_path).fetch(entry)
    assert (fetched.source, fetched.bytes_fetched) == ("network", len(BODY))
    assert fetched.path.read_bytes() == BODY
    assert fetcher_for(tmp_path).fetch(entry).source == "store"


@pytest.mark.parametrize("size", [len(BODY), 0])
@pytest.mark.parametrize("held", [1000, len(BODY)])
def test_a_vendors_archive_goes_on_where_it_was(server: Server, tmp_path: Path, size: int, held: int) -> None:
    entry = vendor(server, size=size)
    fetcher = fetcher_for(tmp_path)
    fetcher.store.partial(entry.key).write_bytes(BODY[:held])
    assert fetcher.fetch(entry).bytes_fetched == len(BODY) - held


@pytest.mark.parametrize("size", [len(BODY), 0])
def test_other_bytes_from_a_vendor(server: Server, tmp_path: Path, size: int) -> None:
    entry = vendor(server, size=size)
    server.pages[f"/tree/{TAR}"].script = ["wrong", "wrong"]
    with pytest.raises(DriverError, match="the archive from its vendor's server does not match the lock"):
        fetcher_for(tmp_path).fetch(entry)
    assert fetcher_for(tmp_path).fetch(entry).source == "network"


def test_a_mirror_comes_before_the_vendor(server: Server, tmp_path: Path) -> None:
    entry = vendor(server, size=0)
    (tmp_path / TAR).write_bytes(BODY)
    fetcher = Fetcher(Store(tmp_path / "cache"), tmp_path, PipSettings(indexes=()))
    assert fetcher.fetch(entry).source == "mirror"
    assert server.asked == []


def test_a_vendor_without_the_archive_on_a_machine_without_pip(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = vendor(server)
    del server.pages[f"/tree/{TAR}"]
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(DriverError) as caught:
        Fetcher(Store(tmp_path / "cache")).fetch(entry)
    [diagnostic] = caught.value.diagnostics
    assert diagnostic.code is Code.NOT_FOUND_UPSTREAM
    assert f"{TAR} is not on its vendor's server" in diagnostic.message


def test_a_machine_without_debian_archives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DriverError) as caught:
        fetcher_for(tmp_path).fetch(pinned(BODY, DEB, origin=Origin.DEBIAN))
    assert caught.value.diagnostics[0].code is Code.NOT_DEBIAN
    assert MIRROR_VARIABLE in caught.value.diagnostics[0].help


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": "1"}, "`size` must be a number of bytes"),
        ({"sha256": "AB"}, "`sha256` must be 64"),
        ({"origin": "moon"}, "`origin` must be one of"),
        ({"origin": "url", "url": "http://vendor.example/x"}, "`url` must be an address that starts with https://"),
        ({"origin": "url"}, "`url` is missing"),
        ({"size": 0}, "`size` must be a number of bytes"),
        ({"filename": "../x"}, "`filename` must be a relative path"),
        ({"record_sha256": "0" * 64}, "`include` must be"),
        ({"record_sha256": "0" * 64, "include": ["a"], "exclude": ["("]}, "regular expressions"),
    ],
)
def test_lock_entries_are_checked(change: dict[str, object], message: str) -> None:
    value = pinned(BODY).to_json()
    assert parse_entry(value) == pinned(BODY)
    with pytest.raises(DriverError, match=message):
        parse_entry({**value, **change})


def test_only_a_vendors_archive_may_be_without_a_size() -> None:
    value = pinned(BODY, TAR, origin=Origin.URL, url="https://vendor.example/x", size=0).to_json()
    assert "size" not in value
    assert parse_entry(value).size == 0
    with pytest.raises(DriverError, match="`size` must be"):
        parse_entry({**value, "origin": "python-index"})


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / NAME).write_bytes(BODY)
    entry = json.dumps(pinned(BODY).to_json())
    rest = ["--dest", str(tmp_path / "out"), "--strip-prefix", "demo"]
    assert command.main(["get", "--mirror", str(tmp_path), "--entry", entry, *rest]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["bytes_fetched"], answer["from"]) == (0, "mirror")
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["data"]
    assert command.main(["get", "--entry", "[", *rest]) == 2
    assert command.main(["fly"]) == 2
    assert capsys.readouterr().err.count("error[E200]") == 2


def test_it_needs_nothing_but_the_standard_library(tmp_path: Path) -> None:
    script = "import sys; sys.path.insert(0, sys.argv[1]); import py_driver.fetch.command, py_driver.fetch.prefetch; \
print(*{m.partition('.')[0] for m in sys.modules} - sys.stdlib_module_names - {'__main__', 'py_driver'})"
    root = str(FETCH.parents[1])
    command_line = [sys.executable, "-I", "-S", "-c", script, root]
    done = subprocess.run(command_line, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == []
