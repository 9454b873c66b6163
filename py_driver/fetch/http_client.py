"""HTTP with the settings of the user's machine: proxies, certificates, credentials, redirects."""

from __future__ import annotations

import base64
import http.client
import netrc
import os
import re
import ssl
import urllib.error
import urllib.request
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from py_driver import __version__
from py_driver.errors import Code, error
from py_driver.fetch.transfer import RETRY_DELAYS, UNREACHABLE_TRIES, OriginError, redacted, retried

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from http.client import HTTPMessage
    from typing import IO

    from py_driver.fetch.transfer import Meter

TIMEOUT_SECONDS: Final = 60.0
"""The time without an answer after which a request is aborted and tried again."""

CHUNK_BYTES: Final = 256 * 1024
"""The number of bytes that are read at once, which is also the maximum loss of an interruption."""

_TRIES: Final = len(RETRY_DELAYS) + 1
_PASSING_STATUS: Final = {408, 425, 429, 500, 502, 503, 504}
_MISSING_STATUS: Final = {404, 410}
_REFUSED_STATUS: Final = {401, 403, 407}
_PARTIAL_CONTENT: Final = 206
_RANGE_NOT_SATISFIABLE: Final = 416
_SCHEMES: Final = {"http", "https"}
_NUMBER = re.compile(
    r"[0-9]{1,18}"
)  # str.isdigit() accepts digits that int() does not, and int() limits the number of digits
_RANGE = re.compile(r"bytes ([0-9]{1,18})-[0-9]{1,18}/(?:([0-9]{1,18})|\*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpSettings:
    """The settings of requests besides the environment's proxies.

    Attributes:
        certificates: file with the certificates to trust; empty for the environment's or the system's.
        client_certificate: file with the user's own certificate and key; may be empty.
        proxy: proxy for every request; empty for the environment's.
        trusted_hosts: hosts, or host:port, whose certificates are not checked.
    """

    certificates: str = ""
    client_certificate: str = ""
    proxy: str = ""
    trusted_hosts: tuple[str, ...] = ()


class RangeNotSatisfiable(Exception):  # noqa: N818  (an answer, not an error)
    """The server has no bytes from there on."""


class Credentials:
    """User names and passwords by host, from URLs and ~/.netrc."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[str, str]] = {}
        self._netrc: netrc.netrc | None = None
        try:
            self._netrc = netrc.netrc(os.environ.get("NETRC"))
        except (OSError, ValueError, netrc.NetrcParseError):  # ValueError: it is not text
            self._netrc = None

    def stripped(self, url: str) -> str:
        """The URL without user name and password, which are stored for its host unless it already has some.

        The first ones come from the user's settings: no page and no redirect replaces them.

        Raises:
            ValueError: it is not a URL.
        """
        parts = urlsplit(url)
        if parts.username is None:
            return url
        pair = (unquote(parts.username), unquote(parts.password or ""))
        self._known.setdefault((parts.scheme, _host(parts)), pair)
        return urlunsplit(parts._replace(netloc=_host(parts)))

    def authorization(self, url: str) -> str:
        """The value of the Authorization header for a URL, or an empty string."""
        parts = urlsplit(url)
        pair = self._known.get((parts.scheme, _host(parts)))
        if pair is None and self._netrc is not None and parts.hostname:
            found = self._netrc.authenticators(parts.hostname)
            pair = (found[0], found[2] or "") if found else None
        return "Basic " + base64.b64encode(":".join(pair).encode()).decode() if pair else ""


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2].lower()


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects with the credentials of the new host, never with those of the old one."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def http_error_302(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage
    ) -> IO[bytes] | None:
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except ValueError as wrong:
            fp.close()
            host = _host(urlsplit(req.full_url))
            raise OriginError(Code.NO_NETWORK, f"{host} redirects to an invalid address: {wrong}") from wrong

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def redirect_request(  # noqa: PLR0913  (the base class's signature)
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        fp.close()  # otherwise its body would be read, of any length
        host = _host(urlsplit(req.full_url))
        if not self._http.follows(req.full_url, newurl):
            scheme = urlsplit(newurl).scheme
            where = "from https to http, which is" if scheme in _SCHEMES else f"to {scheme}: addresses, which are"
            raise OriginError(Code.NO_NETWORK, f"{host} redirects {where} not followed")
        newurl = self._http.credentials.stripped(newurl)
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and (authorization := self._http.credentials.authorization(newurl)):
            request.add_unredirected_header("Authorization", authorization)
        return request


class Response:
    """An answer whose body is still to be read.

    Attributes:
        start: offset of the body's first byte in the file; 0 if the server does not do ranges.
        partial: whether the server answered with a range.
        total: size of the whole file in bytes, or None if the server does not say.
        content_type: media type of the body.
        url: the address of the body, after redirects.
        date: the server's time from the header `Date`; possibly empty.
    """

    def __init__(self, raw: http.client.HTTPResponse, host: str) -> None:
        self._raw = raw
        self._host = host
        self.url = raw.url
        self.date = raw.headers.get("Date", "")
        self.content_type = raw.headers.get_content_type()
        self.partial = raw.status == _PARTIAL_CONTENT
        length = raw.headers.get("Content-Length", "").strip()
        if length and not _NUMBER.fullmatch(length):
            raise OriginError(Code.NO_NETWORK, f"{host} sent a Content-Length that is not a number")
        self._length = int(length) if length else None
        self.start, self.total = 0, self._length
        if self.partial:
            span = _RANGE.fullmatch(raw.headers.get("Content-Range", "").strip())
            if span is None:
                raise OriginError(Code.NO_NETWORK, f"{host} sent a range without its position")
            self.start, self.total = int(span[1]), int(span[2]) if span[2] else None

    def chunks(self, meter: Meter) -> Iterator[bytes]:
        """The body, in chunks as they arrive.

        Raises:
            OriginError: the connection broke before the end.
            DriverError: the transfer is to stop (INTERRUPTED).
        """
        received = 0
        while True:
            try:
                chunk = self._raw.read1(CHUNK_BYTES)
            except (OSError, http.client.HTTPException) as wrong:
                reason = f"the connection to {self._host} broke off: {wrong or type(wrong).__name__}"
                raise OriginError(Code.NO_NETWORK, reason, tries=_TRIES) from wrong
            if not chunk:
                break
            received += len(chunk)
            yield chunk
            meter.add(len(chunk))
        if self._length is not None and received < self._length:
            reason = f"{self._host} ended the answer after {received} of {self._length} bytes"
            raise OriginError(Code.NO_NETWORK, reason, tries=_TRIES)

    def body(self, meter: Meter, limit: int) -> bytes:
        """The complete body, in memory.

        Raises:
            OriginError: the connection broke before the end, or there are more than `limit` bytes.
            DriverError: the transfer is to stop (INTERRUPTED).
        """
        body = bytearray()
        for chunk in self.chunks(meter):
            body += chunk
            if len(body) > limit:
                raise OriginError(Code.NO_NETWORK, f"{self._host} sent more than {limit} bytes")
        return bytes(body)

    def close(self) -> None:
        """Close the connection, even if the body is unread."""
        self._raw.close()


class Http:
    """Sends requests; may be shared by threads.

    Args:
        settings: certificates and the like.
    """

    def __init__(self, settings: HttpSettings | None = None) -> None:
        self._settings = HttpSettings() if settings is None else settings
        self.credentials = Credentials()
        self._openers: dict[bool, urllib.request.OpenerDirector] = {}

    def open(self, url: str, span: tuple[int, int | None] = (0, None), accept: str = "*/*") -> Response:
        """Send a request, without a retry.

        Args:
            url: http or https; its credentials are used but not shown.
            span: first byte wanted, and one past the last (None: to the end).
            accept: value of the Accept header.

        Raises:
            OriginError: there was no answer, or an answer without a body.
            RangeNotSatisfiable: the file ends before the first byte wanted.
        """
        try:
            url = self.credentials.stripped(url)
            parts = urlsplit(url)
        except ValueError as wrong:
            raise OriginError(Code.NOT_FOUND_UPSTREAM, f"`{redacted(url)}` is not an address: {wrong}") from wrong
        host = _host(parts)
        if parts.scheme not in _SCHEMES:
            raise OriginError(Code.NOT_FOUND_UPSTREAM, f"{parts.scheme}: addresses are not supported")
        headers = {"Accept": accept, "Accept-Encoding": "identity", "User-Agent": f"rules_torch_kernels/{__version__}"}
        first, end = span
        if first or end is not None:
            headers["Range"] = f"bytes={first}-{'' if end is None else end - 1}"
        request = urllib.request.Request(url, headers=headers)  # noqa: S310  (the scheme was checked)
        if authorization := self.credentials.authorization(url):
            request.add_unredirected_header("Authorization", authorization)
        try:
            raw = self._opener(parts).open(request, timeout=TIMEOUT_SECONDS)
        except urllib.error.HTTPError as answer:
            with closing(answer):
                if answer.code == _RANGE_NOT_SATISFIABLE:
                    raise RangeNotSatisfiable from answer
                raise _refusal(answer, host) from answer
        except (OSError, http.client.HTTPException, ValueError) as wrong:
            raise _broken(wrong, host) from wrong
        try:
            return Response(raw, host)
        except OriginError:
            raw.close()
            raise

    def follows(self, here: str, there: str) -> bool:
        """Whether a page or a redirect may lead from a URL to another: to http or https, and not from https to http.

        A host that is trusted without a certificate may also be accessed over http, as with pip.

        Raises:
            ValueError: one of them is not a URL.
        """
        parts = urlsplit(there)
        if parts.scheme == "http" and urlsplit(here).scheme == "https":
            return self._trusts(parts)
        return parts.scheme in _SCHEMES

    def read(self, url: str, meter: Meter, limit: int, accept: str = "*/*") -> tuple[bytes, Response]:
        """The complete body of a file of at most `limit` bytes, with retries, and its answer.

        Raises:
            OriginError: the origin could not deliver.
            DriverError: the transfer is to stop (INTERRUPTED).
        """

        def attempt() -> tuple[bytes, Response]:
            with closing(self.open(url, accept=accept)) as response:
                return response.body(meter, limit), response

        return retried(attempt, meter)

    def size(self, url: str, meter: Meter) -> int | None:
        """Size of a file in bytes, from a request for its first byte; None if the server does not say.

        Raises:
            OriginError: the origin could not deliver.
            DriverError: the transfer is to stop (INTERRUPTED).
        """

        def attempt() -> int | None:
            with closing(self.open(url, (0, 1))) as response:
                return response.total

        return retried(attempt, meter)

    def _trusts(self, parts: SplitResult) -> bool:
        return bool({parts.hostname, _host(parts)} & {host.lower() for host in self._settings.trusted_hosts})

    def _opener(self, parts: SplitResult) -> urllib.request.OpenerDirector:
        trusted = self._trusts(parts)
        if trusted not in self._openers:
            proxies = dict.fromkeys(("http", "https"), self._settings.proxy) if self._settings.proxy else None
            certificates = self._settings.certificates or _certificates(os.environ)
            context = _context(certificates, self._settings.client_certificate, check=not trusted)
            self._openers[trusted] = urllib.request.build_opener(
                urllib.request.ProxyHandler(proxies),
                urllib.request.HTTPSHandler(context=context),
                _Redirects(self),
            )
        return self._openers[trusted]


@lru_cache
def _context(trusted: str, own: str, *, check: bool) -> ssl.SSLContext:
    """The SSL context, cached since reading the system's certificates takes a tenth of a second.

    Args:
        trusted: file or directory of certificates, or empty.
        own: file of the client's certificate, or empty.
        check: whether servers' certificates are checked.
    """
    context = ssl.create_default_context()
    try:
        if trusted:
            isdir = os.path.isdir(trusted)  # noqa: PTH112  (a plain string from the environment)
            context.load_verify_locations(capath=trusted if isdir else None, cafile=None if isdir else trusted)
        if own:
            context.load_cert_chain(own)
    except (OSError, ssl.SSLError) as wrong:
        raise error(
            Code.SET_UP,
            f"cannot read the certificates of {trusted or own}: {wrong}",
            help="see pip's `cert` and `client-cert` settings, SSL_CERT_FILE and REQUESTS_CA_BUNDLE",
        ) from wrong
    if not check:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _certificates(environ: Mapping[str, str]) -> str:
    return next((environ[v] for v in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE") if environ.get(v)), "")


def _refusal(answer: urllib.error.HTTPError, host: str) -> OriginError:
    """The error of the origin for an unsuccessful HTTP status."""
    reason = f"{host} answered {answer.code} {answer.reason}"
    if answer.code in _PASSING_STATUS:
        after = answer.headers.get("Retry-After", "").strip()
        seconds = float(after) if _NUMBER.fullmatch(after) else 0.0  # for a date, the usual wait applies
        return OriginError(Code.NO_NETWORK, reason, tries=_TRIES, retry_after=seconds)
    if answer.code in _MISSING_STATUS:
        return OriginError(Code.NOT_FOUND_UPSTREAM, reason)
    if answer.code in _REFUSED_STATUS:
        return OriginError(Code.NO_NETWORK, f"{reason}: check the credentials for it")
    return OriginError(Code.NO_NETWORK, reason)


def _broken(wrong: Exception, host: str) -> OriginError:
    """The error of the origin for a connection that failed, or broke before an answer."""
    cause = wrong.reason if isinstance(wrong, urllib.error.URLError) else wrong
    reason = f"no answer from {host}: {redacted(str(cause)) or type(cause).__name__}"
    if isinstance(cause, ValueError):  # an invalid certificate or address
        return OriginError(Code.NO_NETWORK, reason)
    passing = isinstance(cause, TimeoutError | ConnectionResetError | BrokenPipeError | http.client.HTTPException)
    return OriginError(Code.NO_NETWORK, reason, tries=_TRIES if passing else UNREACHABLE_TRIES)
