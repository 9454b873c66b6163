"""Names of artifacts in a registry, their manifests and the index; and to whom a registry's password goes."""

from __future__ import annotations

import base64
import json
import threading
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


@pytest.mark.parametrize("known", [b"", b"[]", b"{}", b'{"artifactType": "x", "manifests": []}'])
def test_what_is_no_index_of_ours_is_left_alone(known: bytes) -> None:
    with pytest.raises(DriverError, match="another artifact"):
        index({"torch-cpu": variant_manifest(FILES, {})}, known)
    if known != b'{"artifactType": "x", "manifests": []}':
        with pytest.raises(DriverError, match="has no index"):
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


def test_a_registry_that_does_not_answer() -> None:
    with pytest.raises(DriverError) as caught:
        Registry(Reference("127.0.0.1:9", "me/relu", "v1")).has_blob(FILES[0])
    assert caught.value.diagnostics[0].code is Code.NO_NETWORK
