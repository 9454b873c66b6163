"""A token server for a real docker-registry, with the registry's documented protocol, on the loopback interface."""

from __future__ import annotations

import base64
import json
import subprocess
import threading
import time
import uuid
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

USER = "Basic " + base64.b64encode(b"ann:secret").decode()
SETTINGS = 'auth: {{token: {{realm: "{realm}", service: here, issuer: tokens, rootcertbundle: "{certificate}"}}}}'


def _part(value: object) -> str:
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


class TokenServer:
    """A signer of tokens: `ann` gets all scopes that she requests, everybody else only pull scopes."""

    def __init__(self, place: Path) -> None:
        """Make a key and a certificate.

        Args:
            place: a directory for them.
        """
        self.certificate, key = place / "tokens.crt", place / "tokens.key"
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        command += ["-subj", "/CN=tokens", "-days", "9", "-keyout", str(key), "-out", str(self.certificate)]
        subprocess.run(command, check=True, capture_output=True)
        loaded = serialization.load_pem_private_key(key.read_bytes(), None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        self._key = loaded
        self._der = "".join(self.certificate.read_text().splitlines()[1:-1])
        self.asked: list[str] = []
        self.realm = ""

    def token(self, query: dict[str, list[str]], user: str) -> str:
        """A token (JWT, ES256) for the scopes of a request."""
        access = []
        for scope in query.get("scope", []):
            kind, name, actions = scope.split(":")
            self.asked.append(scope)
            granted = [action for action in actions.split(",") if action == "pull" or user == USER]
            access.append({"type": kind, "name": name, "actions": granted})
        now = int(time.time())
        claims: dict[str, Any] = {"iss": "tokens", "sub": "ann", "aud": query["service"][0], "jti": str(uuid.uuid4())}
        claims |= {"exp": now + 300, "nbf": now - 60, "iat": now, "access": access}
        text = f"{_part({'typ': 'JWT', 'alg': 'ES256', 'x5c': [self._der]})}.{_part(claims)}"
        r, s = utils.decode_dss_signature(self._key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{text}.{_part(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


@contextmanager
def token_server(place: Path) -> Iterator[TokenServer]:
    """A token server that runs until the end of the context; `realm` is its address."""
    tokens = TokenServer(place)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Print nothing."""

        def do_GET(self) -> None:
            token = tokens.token(parse_qs(urlsplit(self.path).query), self.headers.get("Authorization", ""))
            body = json.dumps({"token": token}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        tokens.realm = f"http://127.0.0.1:{server.server_address[1]}/token"
        try:
            yield tokens
        finally:
            server.shutdown()
            thread.join()
