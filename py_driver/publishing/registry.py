"""An OCI registry, as far as publishing needs it: distribution-spec 1.1 by plain HTTP requests.

The client is httpx2, which huggingface_hub needs anyway; the `oras` package of PyPI would bring two more for it.
"""

from __future__ import annotations

import base64
import json
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from httpx2 import Client, HTTPError, InvalidURL

from py_driver import __version__
from py_driver.errors import Code, error
from py_driver.publishing.artifact import INDEX_TYPE, MANIFEST_TYPE, referrers, referrers_tag

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from httpx2 import Response

    from py_driver.errors import DriverError
    from py_driver.publishing.artifact import Document, Reference
    from py_driver.publishing.release import File

_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
_SECONDS: Final = 60.0
_OK, _CREATED, _ACCEPTED, _UNAUTHORIZED, _MISSING = 200, 201, 202, 401, 404
_LONGEST: Final = 1 << 22
"""Bytes of a manifest, at most: what registries have to take (distribution-spec 1.1)."""

_HELP: Final = {
    401: "log in with `docker login` or `oras login`: the driver reads the password in docker's config.json",
    403: "this user may not write there",
    404: "the registry has no such repository, or this user may not read it",
    405: "this is a registry for reading only",
    429: "the registry asks to slow down: try again later",
}


class Registry:
    """A repository of a registry."""

    def __init__(self, reference: Reference) -> None:
        """See where it is; nothing is sent.

        Args:
            reference: of an artifact there. On the loopback interface the connection is not encrypted.
        """
        self.reference = reference
        scheme = (
            "http" if reference.registry.rpartition(":")[0] in _LOOPBACK or reference.registry in _LOOPBACK else "https"
        )
        self._origin = f"{scheme}://{reference.registry}"
        self._client = Client(
            timeout=_SECONDS,
            headers={"User-Agent": f"rules_torch_kernels/{__version__}"},
            base_url=f"{self._origin}/v2/{reference.name}/",
        )
        self._authorization = _credentials(reference.registry)

    def has_blob(self, file: File) -> bool:
        """Whether the repository has a file.

        Raises:
            DriverError: HUB_REFUSED or NO_NETWORK, as in all methods.
        """
        return self._asked("HEAD", f"blobs/sha256:{file.sha256}", (_OK, _MISSING)).status_code == _OK

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
        address = self._asked("POST", "blobs/uploads/", (_ACCEPTED,)).headers.get("Location", "")
        if not address:
            raise error(Code.HUB_REFUSED, f"{self.reference.registry} does not say where to upload to")
        content = file.content if isinstance(file.content, bytes) else file.content.read_bytes()
        more = {"Content-Type": "application/octet-stream"}
        separator = "&" if "?" in address else "?"
        self._asked("PUT", f"{address}{separator}digest=sha256:{file.sha256}", (_CREATED,), more, content)

    def send(self, document: Document, name: str = "") -> bool:
        """Send a manifest, whose blobs are there; whether the registry lists by itself what is attached to others.

        Args:
            document: which.
            name: a tag for it; empty for none.
        """
        assert isinstance(document.file.content, bytes)  # noqa: S101  (it is made here)
        more = {"Content-Type": document.media_type}
        path = f"manifests/{name or document.digest}"
        return "OCI-Subject" in self._asked("PUT", path, (_CREATED,), more, document.file.content).headers

    def list_referrers(self, subject: Document, documents: Sequence[tuple[str, Document]]) -> None:
        """List what is attached to a document, in a registry that does not do so itself.

        Args:
            subject: the document.
            documents: what is attached, each with its media type.
        """
        tag = referrers_tag(subject)
        known = self.document(tag)
        listed = referrers(documents, known)
        if listed.file.content != known:
            self.send(listed, tag)

    def _asked(
        self, method: str, path: str, expected: Sequence[int], headers: dict[str, str] | None = None, body: bytes = b""
    ) -> Response:
        """The answer to a request, if its status is expected."""
        with self._explained():
            request = self._client.build_request(method, path, headers=headers, content=body)
            # A registry may name another host to upload to; the password is not for that.
            if self._authorization and str(request.url).startswith(f"{self._origin}/"):
                request.headers["Authorization"] = self._authorization
            answer = self._client.send(request)
        if answer.status_code not in expected:
            raise self._refused(answer)
        return answer

    def _refused(self, answer: Response) -> DriverError:
        status = answer.status_code
        try:
            text = "; ".join(str(part["message"]) for part in answer.json()["errors"])
        except (ValueError, LookupError, TypeError, RecursionError):
            text = answer.reason_phrase
        challenge = answer.headers.get("WWW-Authenticate", "")
        advice = _HELP.get(status, "the request may have succeeded: run it again")
        if status == _UNAUTHORIZED and challenge.lower().startswith("bearer"):
            advice = "it asks for a token of a token server, which the driver cannot get: copy the artifact with oras"
        return error(Code.HUB_REFUSED, f"{self.reference.registry} answered {status}: {text}", help=advice)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except InvalidURL as wrong:
            raise error(Code.HUB_REFUSED, f"{self.reference.registry} answered with a wrong address: {wrong}") from None
        except (HTTPError, OSError) as wrong:
            message = f"cannot reach {self.reference.registry}: {type(wrong).__name__}: {wrong}"
            raise error(Code.NO_NETWORK, message, help="run it again: what was sent is not sent twice") from None


def _credentials(host: str) -> str:
    """What docker's config.json has for a registry, as the value of a header; empty if it has nothing."""
    path = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
    try:
        auth = json.loads(path.read_bytes())["auths"][host]["auth"]
        base64.b64decode(auth, validate=True)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""
    return f"Basic {auth}"
