"""Names of artifacts in a registry, their manifests and the index; and to whom a registry's password goes."""

from __future__ import annotations

import base64
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from py_driver.errors import Code, DriverError
from py_driver.publishing.artifact import (
    EMPTY,
    PROVENANCE,
    Reference,
    attached,
    index,
    read_reference,
    referrers,
    referrers_tag,
    variant_manifest,
)
from py_driver.publishing.registry import Registry
from py_driver.publishing.release import make_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from py_driver.publishing.artifact import Document

FILES = [make_file("build/torch-cpu/__init__.py", b"x = 1\n"), make_file("build/torch-cpu/_ops.py", b"")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:5000/me/relu", Reference("localhost:5000", "me/relu", "v1")),
        ("localhost/relu:x", Reference("localhost", "relu", "x")),
        ("127.0.0.1:5000/me/relu:v2", Reference("127.0.0.1:5000", "me/relu", "v2")),
        ("[::1]:5000/relu", Reference("[::1]:5000", "relu", "v1")),
        ("registry.example/a/b-c/d_e.f:1.0", Reference("registry.example", "a/b-c/d_e.f", "1.0")),
    ],
)
def test_names_of_artifacts(text: str, expected: Reference) -> None:
    assert read_reference(text, "v1") == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "relu",
        "me/relu",
        "localhost:5000",
        "localhost:5000/Me",
        "localhost:5000/relu:",
        "localhost:5000/relu:a b",
        "https://localhost:5000/relu",
        "localhost:5000/../relu",
        "localhost:5000/relu@sha256:1",
        "u:p@localhost:1/relu",
        f"localhost:5000/relu:{'a' * 65}",
    ],
)
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(DriverError) as caught:
        read_reference(text, "v1")
    assert [problem.code for problem in caught.value.diagnostics] == [Code.USAGE]


def _value(document: Document) -> dict[str, object]:
    assert isinstance(document.file.content, bytes)
    value: dict[str, object] = json.loads(document.file.content)
    return value


def test_a_layer_has_the_digest_of_its_file() -> None:
    manifest = variant_manifest(FILES, {"a": "b"})
    layers = _value(manifest)["layers"]
    assert isinstance(layers, list)
    titles = {layer["annotations"]["org.opencontainers.image.title"]: layer["digest"] for layer in layers}
    assert titles == {file.path: f"sha256:{file.sha256}" for file in FILES}
    assert manifest.blobs == (EMPTY, *FILES)
    assert EMPTY.sha256 == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert manifest.digest == variant_manifest(FILES, {"a": "b"}).digest
    assert manifest.digest != variant_manifest(FILES[:1], {"a": "b"}).digest


def test_what_is_attached_names_its_subject() -> None:
    manifest = variant_manifest(FILES, {})
    own = attached(PROVENANCE, make_file("provenance/torch-cpu.intoto.json", b"{}"), manifest)
    assert (_value(own)["subject"], _value(own)["artifactType"]) == (manifest.descriptor, PROVENANCE)
    listed = referrers([(PROVENANCE, own)], None)
    assert listed.file.content == referrers([(PROVENANCE, own)], _bytes(listed)).file.content
    other = attached(PROVENANCE, make_file("x", b"x"), manifest)
    both = _value(referrers([(PROVENANCE, other)], _bytes(listed)))["manifests"]
    assert isinstance(both, list)
    assert [entry["digest"] for entry in both] == [own.digest, other.digest]
    assert referrers_tag(manifest) == f"sha256-{manifest.file.sha256}"


def _bytes(document: Document) -> bytes:
    assert isinstance(document.file.content, bytes)
    return document.file.content


def test_the_index_keeps_other_variants() -> None:
    first, second = variant_manifest(FILES, {}), variant_manifest(FILES[:1], {})
    before = index({"torch-cpu": first, "torch-cuda": first}, None)
    after = _value(index({"torch-cuda": second}, _bytes(before)))["manifests"]
    assert isinstance(after, list)
    digests = {entry["annotations"]["rules_torch_kernels.variant"]: entry["digest"] for entry in after}
    assert digests == {"torch-cpu": first.digest, "torch-cuda": second.digest}
    assert index({"torch-cpu": first}, _bytes(before)).digest == before.digest


def test_an_index_with_other_names_than_texts() -> None:
    before = _bytes(index({"torch-cpu": variant_manifest(FILES, {})}, None))
    odd = before.replace(b'"rules_torch_kernels.variant": "torch-cpu"', b'"rules_torch_kernels.variant": 5')
    assert odd != before
    after = _value(index({"torch-cuda": variant_manifest(FILES, {})}, odd))["manifests"]
    assert isinstance(after, list)
    assert len(after) == 2


@pytest.mark.parametrize("known", [b"", b"[]", b"{}", b'{"artifactType": "x", "manifests": []}'])
def test_what_is_no_index_of_ours_is_left_alone(known: bytes) -> None:
    with pytest.raises(DriverError, match="another artifact"):
        index({"torch-cpu": variant_manifest(FILES, {})}, known)
    if known != b'{"artifactType": "x", "manifests": []}':
        with pytest.raises(DriverError, match="is not an index"):
            referrers([], known)


class _Elsewhere(BaseHTTPRequestHandler):
    """A registry that names another host to upload to."""

    seen: list[tuple[str, str]]
    upload = ""

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        self._note()
        self.send_response(202)
        self.send_header("Location", self.upload)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_PUT(self) -> None:
        self._note()
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _note(self) -> None:
        self.seen.append((f"{self.command} {self.headers['Host']}", self.headers.get("Authorization", "")))


def test_a_password_goes_to_the_registry_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _Elsewhere.seen = []
    with ThreadingHTTPServer(("127.0.0.1", 0), _Elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        port = server.server_address[1]
        _Elsewhere.upload = f"http://localhost:{port}/elsewhere?a=b"
        auth = base64.b64encode(b"ann:secret").decode()
        text = json.dumps({"auths": {f"127.0.0.1:{port}": {"auth": auth}}})
        (tmp_path / "config.json").write_text(text)
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
        Registry(Reference(f"127.0.0.1:{port}", "me/relu", "v1")).send_blob(FILES[0])
        server.shutdown()
        thread.join()
    assert _Elsewhere.seen == [(f"POST 127.0.0.1:{port}", f"Basic {auth}"), (f"PUT localhost:{port}", "")]


class _Hostile(BaseHTTPRequestHandler):
    """A registry that answers as a test says, by method and path: status, headers, body."""

    answers: dict[str, tuple[int, dict[str, str], bytes]]
    seen: list[tuple[str, str]]

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        path = self.path.removeprefix("/v2/me/relu/").partition("?")[0]
        self.seen.append((f"{self.command} {path}", self.headers.get("Authorization", "")))
        status, headers, body = self.answers[f"{self.command} {path}"]
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_PUT = _answer  # noqa: N815  (as BaseHTTPRequestHandler calls them)


@contextmanager
def _hostile(answers: dict[str, tuple[int, dict[str, str], bytes]]) -> Iterator[Registry]:
    _Hostile.answers, _Hostile.seen = answers, []
    with ThreadingHTTPServer(("127.0.0.1", 0), _Hostile) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield Registry(Reference(f"127.0.0.1:{server.server_address[1]}", "me/relu", "v1"))
        server.shutdown()
        thread.join()


def test_an_upload_may_have_an_address_without_a_host() -> None:
    """As zot and GitHub's registry answer (distribution-spec 1.1, Location)."""
    answers = {
        "POST blobs/uploads/": (202, {"Location": "/v2/me/relu/blobs/uploads/1?a=b"}, b""),
        "PUT blobs/uploads/1": (201, {}, b""),
    }
    with _hostile(answers) as registry:
        registry.send_blob(FILES[0])


def test_a_blob_in_a_store_of_objects_is_there() -> None:
    blob = f"HEAD blobs/sha256:{FILES[0].sha256}"
    for status, there in ((200, True), (307, True), (404, False)):
        with _hostile({blob: (status, {"Location": "https://store.example/x"}, b"")}) as registry:
            assert registry.has_blob(FILES[0]) is there
            assert len(_Hostile.seen) == 1


_DOCUMENT = variant_manifest(FILES, {})


@pytest.mark.parametrize(
    ("request_", "answer", "message"),
    [
        ("PUT manifests/v1", (201, {"Docker-Content-Digest": f"sha256:{64 * '0'}"}, b""), "has stored something else"),
        ("PUT manifests/v1", (308, {"Location": "http://evil.example/"}, b""), "answered 308"),
        ("PUT manifests/v1", (401, {"WWW-Authenticate": 'Bearer service="x"'}, b""), "which is not an https address"),
        (
            "PUT manifests/v1",
            (401, {"WWW-Authenticate": 'Bearer realm="http://evil.example/t"'}, b""),
            "not an https address",
        ),
        ("PUT manifests/v1", (401, {"WWW-Authenticate": 'Bearer realm="ftp://x"'}, b""), "not an https address"),
        ("PUT manifests/v1", (401, {"WWW-Authenticate": "Bearer"}, b""), "answered 401"),
        (
            "POST blobs/uploads/",
            (202, {"Location": "http://evil.example/up"}, b""),
            "where a connection is not encrypted",
        ),
        ("POST blobs/uploads/", (202, {}, b""), "names no address to upload to"),
    ],
)
def test_what_a_hostile_registry_answers(
    request_: str, answer: tuple[int, dict[str, str], bytes], message: str
) -> None:
    with _hostile({request_: answer}) as registry, pytest.raises(DriverError, match=message):
        registry.send(_DOCUMENT, "v1") if request_.startswith("PUT") else registry.send_blob(FILES[0])
    assert [request for request, _ in _Hostile.seen] == [request_]


@pytest.mark.parametrize(
    ("status", "body"),
    [(403, b"{}"), (200, b"{}"), (200, b"[]"), (200, b"<html>"), (200, b'{"token": "a\nb"}'), (200, b'{"token": 5}')],
)
def test_a_token_server_without_a_token(status: int, body: bytes) -> None:
    challenge = {"WWW-Authenticate": 'Bearer realm="/v2/me/relu/token",service="s",scope="repository:me/relu:push"'}
    answers = {"PUT manifests/v1": (401, challenge, b""), "GET token": (status, {}, body)}
    with _hostile(answers) as registry, pytest.raises(DriverError, match=r"the token server 127\.0\.0\.1"):
        registry.send(_DOCUMENT, "v1")
    assert [request for request, _ in _Hostile.seen] == ["PUT manifests/v1", "GET token"]


def test_a_truncated_answer_is_no_index() -> None:
    answers = {"GET manifests/v1": (200, {"Content-Length": "100"}, b"{}")}
    with _hostile(answers) as registry, pytest.raises(DriverError) as caught:
        registry.document("v1")
    assert caught.value.diagnostics[0].code is Code.NO_NETWORK


def test_a_registry_that_does_not_answer() -> None:
    with pytest.raises(DriverError) as caught:
        Registry(Reference("127.0.0.1:9", "me/relu", "v1")).has_blob(FILES[0])
    assert caught.value.diagnostics[0].code is Code.NO_NETWORK
