"""Whatever a server, an index or an archive says, the answer is one error in one line, and nothing else happens."""

from __future__ import annotations

import io
import json
import shutil
import ssl
import struct
import subprocess
import zipfile
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from fetch_server import Asked, Page, Server, noise, pinned, wheel

from py_driver.errors import Code, DriverError
from py_driver.fetch import http_client, package_index, transfer
from py_driver.fetch.entry import Origin
from py_driver.fetch.fetcher import Fetcher
from py_driver.fetch.http_client import Http, HttpSettings
from py_driver.fetch.pip_settings import PipSettings, read_pip_settings
from py_driver.fetch.resolution import resolve, resolve_members
from py_driver.fetch.store import Store
from py_driver.fetch.transfer import Meter, OriginError
from py_driver.fetch.unpacking import unpack
from py_driver.fetch.wheel_members import check_members, write_members

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "demo-1.0-py3-none-any.whl"
FILE = f"/files/{NAME}"
BODY = wheel({"demo/data": noise(3_000), "demo/text": b"text\n" * 100})
MANY = "9" * 5_000
"""A number with more digits than Python's int() takes."""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "MAX_RETRY_AFTER", 0.02)


def fetcher_for(server: Server, tmp_path: Path, settings: HttpSettings | None = None) -> Fetcher:
    settings = settings or HttpSettings()
    return Fetcher(Store(tmp_path / "cache"), None, PipSettings(indexes=(f"{server.url}/simple",), http=settings))


def refusal(server: Server, tmp_path: Path) -> str:
    """The one error, in one line, that fetching ends with."""
    with pytest.raises(DriverError) as caught:
        fetcher_for(server, tmp_path).fetch(pinned(BODY))
    [diagnostic] = caught.value.diagnostics
    assert diagnostic.code in {Code.NO_NETWORK, Code.NOT_FOUND_UPSTREAM, Code.BAD_DIGEST}
    assert "\n" not in diagnostic.message
    assert diagnostic.help
    assert not (tmp_path / "cache/store/sha256").exists()
    return diagnostic.message


def answer(head: str, body: bytes = BODY) -> bytes:
    return f"HTTP/1.1 {head}\r\n\r\n".encode("latin-1") + body


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("200 OK\r\nContent-Length: \xb2", "a Content-Length that is not a number"),
        ("200 OK\r\nContent-Length: -5", "a Content-Length that is not a number"),
        ("200 OK\r\nContent-Length: 1e3", "a Content-Length that is not a number"),
        (f"200 OK\r\nContent-Length: {MANY}", "a Content-Length that is not a number"),
        (f"200 OK\r\nContent-Length: {10**17}", "the lock has"),
        ("206 Partial Content\r\nContent-Range: bytes \xb2-5/10", "a range without its position"),
        ("206 Partial Content\r\nContent-Range: bytes 0-9/\xb2", "a range without its position"),
        ("206 Partial Content\r\nContent-Range: bytes -5-9/10", "a range without its position"),
        ("206 Partial Content\r\nContent-Range: bytes */10", "a range without its position"),
        (f"206 Partial Content\r\nContent-Range: bytes {MANY}-{MANY}/{MANY}", "a range without its position"),
        ("206 Partial Content\r\nContent-Range: lines 0-4/5", "a range without its position"),
        ("206 Partial Content", "a range without its position"),
        (f"206 Partial Content\r\nContent-Range: bytes 0-9/{10**17}", "the lock has"),
        ("200 OK\r\nTransfer-Encoding: chunked", "broke off"),
        ("\xb200 OK", "no answer from"),
        ("200 OK\r\n" + "X: y\r\n" * 200, "no answer from"),
        ("200 OK\r\nX: " + "y" * 70_000, "no answer from"),
        ("204 No Content", "too short"),
        ("304 Not Modified", "answered 304"),
        ("101 Switching Protocols", "answered 101"),
        ("999 a\tb\x1b[31m", "answered 999"),
        ("503 no\r\nRetry-After: \xb2", "answered 503"),
        ("503 no\r\nRetry-After: -1", "answered 503"),
        (f"503 no\r\nRetry-After: {MANY}", "answered 503"),
        ("503 no\r\nRetry-After: Fri, 31 Dec 9999 23:59:59 GMT", "answered 503"),
    ],
)
def test_an_answer_of_nonsense(server: Server, tmp_path: Path, head: str, said: str) -> None:
    server.pages[FILE].raw = answer(head)
    assert said in refusal(server, tmp_path)


@pytest.mark.parametrize("body", [b"zz\r\nabc", b"-5\r\nabcde\r\n0\r\n\r\n", b"f" * 16 + b"\r\nabc", b"5\r\nab", b""])
def test_chunks_of_nonsense(server: Server, tmp_path: Path, body: bytes) -> None:
    server.pages[FILE].raw = answer("200 OK\r\nTransfer-Encoding: chunked", body)
    refusal(server, tmp_path)


def test_an_answer_that_is_none(server: Server, tmp_path: Path) -> None:
    server.pages[FILE].raw = b"\x00\xff" * 100
    assert "no answer from" in refusal(server, tmp_path)


@pytest.mark.parametrize("location", ["http://[::1", "http://a..b/", f"http://{'a' * 70}/"])
@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_to_what_is_no_address(server: Server, tmp_path: Path, code: int, location: str) -> None:
    server.pages[FILE].raw = answer(f"{code} x\r\nLocation: {location}", b"")
    assert "redirects to an invalid address: " in refusal(server, tmp_path)


@pytest.mark.parametrize(
    "location",
    [
        "http://",
        "http:///files",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1:\xb2/",
        "http://127.0.0.1:0x50/",
        "http://\xbd/",
        "file:///etc/hostname",
        "data:,x",
        "gopher://127.0.0.1/",
        FILE,
    ],
)
def test_a_redirect_to_nowhere(server: Server, tmp_path: Path, location: str) -> None:
    server.pages[FILE].raw = answer(f"302 Found\r\nLocation: {location}", b"")
    refusal(server, tmp_path)


def test_a_redirect_to_ftp_is_not_followed(server: Server, tmp_path: Path) -> None:
    other = Server()
    server.pages[FILE].raw = answer(f"302 Found\r\nLocation: ftp://{other.host}/{NAME}", b"")
    assert "redirects to ftp: addresses, which are not followed" in refusal(server, tmp_path)
    assert other.connections == 0
    other.close()


def test_the_body_of_a_redirect_is_not_read(server: Server, tmp_path: Path) -> None:
    server.pages[FILE].raw = answer(f"302 Found\r\nLocation: {FILE}.2", b"x" * 50_000_000)
    server.pages[f"{FILE}.2"] = Page(BODY)
    assert fetcher_for(server, tmp_path).fetch(pinned(BODY)).path.read_bytes() == BODY
    assert server.sent < 20_000_000


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[Server, HttpSettings]]:
    """A server over TLS, and what lets a client trust it."""
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl to make a certificate with")
    made = [str(tmp_path / name) for name in ("key.pem", "cert.pem")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", made[0], "-out", made[1]]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made[1], made[0])
    server = Server(context)
    server.offer("demo", {NAME: BODY})
    yield server, HttpSettings(certificates=made[1])
    server.close()


def test_a_redirect_from_https_to_http_is_not_followed(
    secure: tuple[Server, HttpSettings], server: Server, tmp_path: Path
) -> None:
    first, settings = secure
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    assert fetcher_for(first, tmp_path / "1", settings).fetch(pinned(BODY)).source == "network"
    first.pages[FILE].script = [f"302:{server.url}{FILE}"] * 2
    with pytest.raises(DriverError, match="redirects from https to http, which is not followed"):
        fetcher_for(first, tmp_path / "2", settings).fetch(pinned(BODY))
    assert server.asked == []
    trusting = HttpSettings(certificates=settings.certificates, trusted_hosts=("127.0.0.1",))
    assert fetcher_for(first, tmp_path / "3", trusting).fetch(pinned(BODY)).source == "network"
    assert [asked.path for asked in server.asked] == [FILE]


def test_a_page_over_https_does_not_lead_to_http(
    secure: tuple[Server, HttpSettings], server: Server, tmp_path: Path
) -> None:
    first, settings = secure
    first.pages["/simple/demo/"].body = f'<a href="{server.url}{FILE}">{NAME}</a>'.encode()
    with pytest.raises(DriverError, match="none of pip's indexes and find-links lists it"):
        fetcher_for(first, tmp_path, settings).fetch(pinned(BODY))
    assert server.asked == []


def test_a_page_of_a_server_does_not_name_files_of_this_machine(server: Server, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(BODY)
    server.pages["/simple/demo/"].body = f'<a href="{(tmp_path / NAME).as_uri()}">{NAME}</a>'.encode()
    assert "none of pip's indexes and find-links lists it" in refusal(server, tmp_path)


def test_a_redirect_does_not_change_credentials(server: Server, tmp_path: Path) -> None:
    other = Server()
    other.offer("demo", {NAME: BODY})
    other.pages[FILE].script = ["404"]
    server.pages[FILE].script = [f"302:{other.url.replace('//', '//mallory:x@')}{FILE}"]
    indexes = (f"{server.url}/simple", f"{other.url.replace('//', '//me:secret@')}/simple")
    Fetcher(Store(tmp_path), None, PipSettings(indexes=indexes)).fetch(pinned(BODY))
    mine = "Basic bWU6c2VjcmV0"
    assert other.asked == [Asked(FILE, "", mine), Asked("/simple/demo/", "", mine), Asked(FILE, "", mine)]
    other.close()


JSON = "application/vnd.pypi.simple.v1+json"


def listed(**change: object) -> dict[str, object]:
    return {"filename": NAME, "url": f"../../files/{NAME}", "hashes": {}, "size": len(BODY), **change}


@pytest.mark.parametrize(
    "page",
    [
        [1],
        {},
        {"files": 5},
        {"files": ["x"]},
        {"files": [listed(filename=5)]},
        {"files": [listed(filename=None)]},
        {"files": [listed(url=5)]},
        {"files": [listed(url="http://[::1")]},
        {"files": [listed(hashes=[])]},
        {"files": [listed(hashes={"sha256": 5})]},
        {"files": [listed(size="1")]},
        {"files": [listed(size=-1)]},
        {"files": [listed(size=True)]},
        {"files": [listed(size=1.5)]},
    ],
)
def test_json_of_nonsense(server: Server, tmp_path: Path, page: object) -> None:
    server.pages["/simple/demo/"] = Page(json.dumps(page).encode(), JSON)
    assert "sent a page that is not a package index" in refusal(server, tmp_path)


@pytest.mark.parametrize("body", [b"[" * 200_000, b"\xff\xfe\x00", b'{"files": [{"size": %s}]}' % MANY.encode(), b""])
def test_json_that_is_none(server: Server, tmp_path: Path, body: bytes) -> None:
    server.pages["/simple/demo/"] = Page(body, JSON)
    assert "sent a page that is not a package index" in refusal(server, tmp_path)


HTML = [
    b'<a href="http://[::1">x</a>',
    b'<base href="http://["><a href="x">',
    b"<![foo",
    b"<!" * 9,
    b"<![if x",
    b"\xff\0",
]


@pytest.mark.parametrize("body", HTML)
def test_html_of_nonsense(server: Server, tmp_path: Path, body: bytes) -> None:
    server.pages["/simple/demo/"] = Page(body, "text/html")
    refusal(server, tmp_path)


@pytest.mark.parametrize("body", HTML)
def test_html_of_nonsense_on_this_machine(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "links.html").write_bytes(body)
    settings = PipSettings(indexes=(), find_links=(str(tmp_path / "links.html"),))
    with pytest.raises(DriverError):
        Fetcher(Store(tmp_path / "cache"), None, settings).fetch(pinned(BODY))


def test_a_page_without_end_is_given_up(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_index, "PAGE_BYTES", 1_000_000)
    server.pages["/simple/demo/"] = Page(b" " * 50_000_000, "text/html")
    assert "sent more than 1000000 bytes" in refusal(server, tmp_path)
    assert server.sent < 20_000_000


def test_links_that_cannot_be_asked_for(server: Server, tmp_path: Path) -> None:
    for target in (f"/fil\xe9s/{NAME}", f"http://{'a' * 70}/{NAME}", f"http://127.0.0.1:\xb2/{NAME}", f"/ \x7f/{NAME}"):
        server.pages["/simple/demo/"] = Page(f'<a href="{target}">x</a>'.encode(), "text/html; charset=utf-8")
        refusal(server, tmp_path)


@pytest.mark.parametrize("change", [{"hashes": {"sha256": "\xb2" * 64}}, {"filename": "demo-1.0-py3-none-any./x.whl"}])
def test_what_an_index_says_does_not_get_into_a_lock_unseen(
    server: Server, tmp_path: Path, change: dict[str, object]
) -> None:
    page = {"files": [listed(hashes={"sha256": "0" * 64}) | change]}
    server.pages["/simple/demo/"] = Page(json.dumps(page).encode(), JSON)
    with pytest.raises(DriverError) as caught:
        resolve(fetcher_for(server, tmp_path), "demo", "1.0")
    assert caught.value.diagnostics[0].code in {Code.BAD_VALUE, Code.NOT_FOUND_UPSTREAM}


ODD = ("http://me:secret@[::1/simple",)


@pytest.mark.parametrize("settings", [PipSettings(indexes=ODD), PipSettings(indexes=(), find_links=ODD)])
def test_an_address_of_nonsense_in_pips_settings(tmp_path: Path, settings: PipSettings) -> None:
    with pytest.raises(DriverError, match="is not an address") as caught:
        Fetcher(Store(tmp_path), None, settings).fetch(pinned(BODY))
    assert "secret" not in str(caught.value)


def test_a_netrc_that_is_no_text(server: Server, tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_bytes(b"machine \xff\xfe")
    assert fetcher_for(server, tmp_path).fetch(pinned(BODY)).source == "network"


def test_settings_of_pip_that_are_no_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "caf\udce9").mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "caf\udce9"))
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8:surrogateescape")
    assert len(read_pip_settings().find_links) == 1


def test_an_address_of_nonsense_for_debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RULES_TORCH_KERNELS_DEBIAN_MIRROR", "http://[::1")
    with pytest.raises(DriverError, match="is not an address"):
        Fetcher(Store(tmp_path)).fetch(pinned(BODY, "pool/x.deb", origin=Origin.DEBIAN))


def test_a_range_that_does_not_end_is_given_up(server: Server) -> None:
    page = server.pages[FILE]
    page.raw = answer(f"206 Partial Content\r\nContent-Range: bytes 0-9/{10**6}", b"x" * 50_000_000)
    response = Http().open(server.url + FILE, (0, 10))
    with pytest.raises(OriginError, match="sent more than 10 bytes"):
        response.body(Meter(), 10)
    response.close()
    assert server.sent < 20_000_000
    assert http_client.CHUNK_BYTES < 1_000_000


def damaged_zips(body: bytes) -> Iterator[bytes]:
    """A zip with each byte of its directory and of its first member's header changed, in three ways."""
    directory = body.index(b"PK\x01\x02")
    for at in [*range(30), *range(directory, len(body))]:
        for change in (0x01, 0x80, 0xFF):
            yield body[:at] + bytes([body[at] ^ change]) + body[at + 1 :]


def test_zips_of_nonsense(server: Server, tmp_path: Path) -> None:
    entry = resolve_members(fetcher_for(server, tmp_path), pinned(BODY), ("demo/",))
    partial, bundle = tmp_path / "partial", tmp_path / "bundle"
    with io.BytesIO(BODY) as right:
        write_members(right, entry, bundle, Meter())
    check_members(bundle, entry)
    right_bytes = bundle.read_bytes()
    refused = {Code.BAD_DIGEST: 0}
    for body in damaged_zips(BODY):
        try:
            write_members(io.BytesIO(body), entry, partial, Meter())
        except OriginError as failure:
            refused[failure.code] += 1
        else:
            check_members(partial, entry)
    for body in damaged_zips(right_bytes):
        bundle.write_bytes(body)
        try:
            check_members(bundle, entry)
        except OriginError as failure:
            refused[failure.code] += 1
        with suppress(DriverError):
            unpack(bundle, entry, tmp_path / "out")
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
    assert refused[Code.BAD_DIGEST] > 700


def test_a_zip_of_nonsense_on_a_server(server: Server, tmp_path: Path) -> None:
    entry = resolve_members(fetcher_for(server, tmp_path), pinned(BODY), ("demo/",))
    for number, body in enumerate(list(damaged_zips(BODY))[::17]):
        server.offer("demo", {NAME: body}, digest=False)
        try:
            fetcher_for(server, tmp_path / str(number)).fetch(entry)
        except DriverError as failure:
            [diagnostic] = failure.diagnostics
            assert diagnostic.code in {Code.BAD_DIGEST, Code.NO_NETWORK}


def test_a_member_of_another_size_is_not_unpacked(server: Server, tmp_path: Path) -> None:
    entry = resolve_members(fetcher_for(server, tmp_path), pinned(BODY), ("demo/",))
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(BODY)) as source, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("demo-1.0.dist-info/RECORD", source.read("demo-1.0.dist-info/RECORD"))
        bomb.writestr("demo/data", bytes(50_000_000))
        bomb.writestr("demo/text", source.read("demo/text"))
    with pytest.raises(OriginError, match=r"demo/data does not match .* of 3000 bytes, not 50000000 bytes"):
        write_members(io.BytesIO(stream.getvalue()), entry, tmp_path / "partial", Meter())


def test_a_record_of_gigabytes_is_not_unpacked(server: Server, tmp_path: Path) -> None:
    entry = resolve_members(fetcher_for(server, tmp_path), pinned(BODY), ("demo/",))
    body = bytearray(BODY)
    at = body.index(b"demo-1.0.dist-info/RECORD", body.index(b"PK\x01\x02")) - 46
    struct.pack_into("<I", body, at + 24, 2**31)
    with pytest.raises(OriginError, match="its RECORD has 2147483648 bytes"):
        write_members(io.BytesIO(bytes(body)), entry, tmp_path / "partial", Meter())
