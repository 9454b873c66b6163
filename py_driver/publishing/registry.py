"""The part of an OCI registry that publishing needs: distribution-spec 1.1 by plain HTTP requests.

The client is httpx2, a dependency of huggingface_hub; the `oras` package of PyPI would add two more packages.
"""

from __future__ import annotations

import base64
import json
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from httpx2 import URL, Client, HTTPError, InvalidURL

from py_driver import __version__
from py_driver.errors import Code, error
from py_driver.publishing.artifact import INDEX_TYPE, MANIFEST_TYPE, referrers, referrers_tag
from py_driver.publishing.registry_tokens import asks_for_token, is_private, token_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from httpx2 import Request, Response

    from py_driver.errors import DriverError
    from py_driver.publishing.artifact import Document, Reference
    from py_driver.publishing.release import File

_SECONDS: Final = 60.0
_OK, _CREATED, _ACCEPTED, _ELSEWHERE, _UNAUTHORIZED, _MISSING = 200, 201, 202, 307, 401, 404
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_LONGEST: Final = 1 << 22
"""The largest manifest in bytes, which every registry must accept (distribution-spec 1.1)."""

_HELP: Final = {
    401: "log in with `docker login` or `oras login`, as a user who may write there: the driver reads the password in "
    "docker's config.json",
    403: "this user may not write there",
    404: "the registry has no such repository, or this user may not read it",
    405: "this is a registry for reading only",
    429: "the registry asks to slow down: try again later",
}


class Registry:
    """A repository of a registry."""

    def __init__(self, reference: Reference) -> None:
        """Prepare requests; nothing is sent.

        Args:
            reference: an artifact in the repository. On the loopback interface the connection is not encrypted.
        """
        self.reference = reference
        plain = URL(f"http://{reference.registry}")
        self._origin = str(plain if is_private(plain) else plain.copy_with(scheme="https")).rstrip("/")
        self._base = URL(f"{self._origin}/v2/{reference.name}/")
        self._client = Client(timeout=_SECONDS, headers={"User-Agent": f"rules_torch_kernels/{__version__}"})
        self._password = self._authorization = _credentials(reference.registry)

    def has_blob(self, file: File) -> bool:
        """Whether the repository has a file.

        Raises:
            DriverError: HUB_REFUSED or NO_NETWORK, as in all methods.
        """
        # A registry that keeps its blobs in an object store redirects to an existing blob there.
        expected = (_OK, _ELSEWHERE, _MISSING)
        return self._asked("HEAD", f"blobs/sha256:{file.sha256}", expected).status_code != _MISSING

    def has(self, document: Document) -> bool:
        """Whether the repository has a manifest."""
        accept = {"Accept": document.media_type}
        return self._asked("HEAD", f"manifests/{document.digest}", (_OK, _MISSING), accept).status_code == _OK

    def document(self, tag: str) -> bytes | None:
        """The manifest of a tag; None if there is no such tag."""
        accept = {"Accept": f"{INDEX_TYPE}, {MANIFEST_TYPE}"}
        answer = self._asked("GET", f"manifests/{tag}", (_OK, _MISSING), accept)
        if answer.status_code == _OK and len(answer.content) > _LONGEST:
            raise error(Code.HUB_REFUSED, f"{self.reference.registry} answered with a manifest that is too long")
        return answer.content if answer.status_code == _OK else None

    def send_blob(self, file: File) -> None:
        """Send a file."""
        answer = self._asked("POST", "blobs/uploads/", (_ACCEPTED,))
        address = answer.headers.get("Location", "")
        if not address:
            raise error(Code.HUB_REFUSED, f"{self.reference.registry} names no address to upload to")
        with self._explained():
            address = str(answer.url.join(address))  # it may lack a host
        content = file.content if isinstance(file.content, bytes) else file.content.read_bytes()
        more = {"Content-Type": "application/octet-stream"}
        separator = "&" if "?" in address else "?"
        self._asked("PUT", f"{address}{separator}digest=sha256:{file.sha256}", (_CREATED,), more, content)

    def send(self, document: Document, name: str = "") -> bool:
        """Send a manifest whose blobs exist; returns whether the registry itself lists attached documents.

        Args:
            document: the manifest.
            name: a tag for it; empty for none.
        """
        assert isinstance(document.file.content, bytes)  # noqa: S101  (`artifact` makes it)
        more = {"Content-Type": document.media_type}
        path = f"manifests/{name or document.digest}"
        headers = self._asked("PUT", path, (_CREATED,), more, document.file.content).headers
        if (digest := headers.get("Docker-Content-Digest", document.digest)) != document.digest:
            message = f"{self.reference.registry} has stored something else: {digest} instead of {document.digest}"
            raise error(Code.HUB_REFUSED, message, help="do not use what it has; choose another registry")
        return "OCI-Subject" in headers

    def list_referrers(self, subject: Document, documents: Sequence[tuple[str, Document]]) -> None:
        """List the documents attached to a manifest, in a registry that does not do so itself.

        Args:
            subject: the manifest.
            documents: the attached documents, each with its media type.
        """
        tag = referrers_tag(subject)
        known = self.document(tag)
        listed = referrers(documents, known)
        if listed.file.content != known:
            self.send(listed, tag)

    def _asked(
        self, method: str, path: str, expected: Sequence[int], headers: dict[str, str] | None = None, body: bytes = b""
    ) -> Response:
        """Send a request, with a token if the registry asks for one; returns the answer if its status is expected."""
        with self._explained():
            request = self._client.build_request(method, self._base.join(path), headers=headers, content=body)
            if not is_private(request.url):
                message = f"{self.reference.registry} names `{request.url}`, where a connection is not encrypted"
                raise error(Code.HUB_REFUSED, message, help="nothing is sent there")
            answer = self._sent(request)
            if answer.status_code == _UNAUTHORIZED and asks_for_token(answer) and self._is_own(request.url):
                self._authorization = token_of(answer, self._password, self._client.send)
                answer = self._sent(request)
        if answer.status_code not in expected:
            raise self._refused(answer)
        return answer

    def _sent(self, request: Request) -> Response:
        """Send a request; only the registry itself, not a host that it refers to, gets the password or token."""
        if self._authorization and self._is_own(request.url):
            request.headers["Authorization"] = self._authorization
        return self._client.send(request)

    def _is_own(self, address: URL) -> bool:
        """Whether an address belongs to the registry."""
        return str(address).startswith(f"{self._origin}/")

    def _refused(self, answer: Response) -> DriverError:
        status = answer.status_code
        try:
            text = "; ".join(str(part["message"]) for part in answer.json()["errors"])
        except (ValueError, LookupError, TypeError, RecursionError):
            text = answer.reason_phrase
        advice = _HELP.get(status, "the request may have succeeded: run it again")
        if status in _REDIRECTS:
            advice = f"it sends to `{answer.headers.get('Location', '')}`: name that registry, if you trust it"
        return error(Code.HUB_REFUSED, f"{self.reference.registry} answered {status}: {text}", help=advice)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except InvalidURL as wrong:
            raise error(Code.HUB_REFUSED, f"{self.reference.registry} answered with a wrong address: {wrong}") from None
        except (HTTPError, OSError) as wrong:
            message = f"cannot reach {self.reference.registry}: {type(wrong).__name__}: {wrong}"
            raise error(Code.NO_NETWORK, message, help="run it again: uploaded files are not sent twice") from None


def _credentials(host: str) -> str:
    """The header value with docker's credentials for a registry, from config.json; empty if there are none."""
    path = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
    try:
        auth = json.loads(path.read_bytes())["auths"][host]["auth"]
        base64.b64decode(auth, validate=True)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""
    return f"Basic {auth}"
