"""The user's Python package indexes: project pages of the simple repository API, and find-links."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from py_driver.errors import Code, error
from py_driver.fetch.transfer import OriginError, redacted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from py_driver.fetch.http_client import Http
    from py_driver.fetch.pip_settings import PipSettings
    from py_driver.fetch.transfer import Meter

_ACCEPT: Final = (
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html; q=0.2, text/html; q=0.1, */*; q=0.01"
)

PAGE_BYTES: Final = 64 * 1024 * 1024
"""The maximum size of a page, which is read into memory."""

_NO_PAGE: Final = (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError)
"""The exceptions of parsers for a page that is neither PEP 503 nor PEP 691; HTMLParser asserts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """An archive on an index.

    Attributes:
        filename: its file name.
        url: its address (http, https or file).
        sha256: its digest on the index, or empty.
        size: its size in bytes on the index, or None.
        yanked: the reason why its release was withdrawn (PEP 592), which may be empty; None if it was not.
    """

    filename: str
    url: str
    sha256: str = ""
    size: int | None = None
    yanked: str | None = None

    @property
    def local(self) -> Path | None:
        """The file, if it is on this machine."""
        return local_path(self.url)

    @property
    def origin(self) -> str:
        """Its host or directory, for messages."""
        local = self.local
        return str(local.parent) if local else urlsplit(self.url).netloc.rpartition("@")[2]


def local_path(location: str) -> Path | None:
    """The path of a file: URL or a plain path; None for a network address.

    Raises:
        DriverError: it is neither a path nor an address (SET_UP).
    """
    try:
        parts = urlsplit(location)
    except ValueError as wrong:
        raise error(
            Code.SET_UP,
            f"`{redacted(location)}` is not an address: {wrong}",
            help="see pip's configuration and the variables RULES_TORCH_KERNELS_*",
        ) from wrong
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if parts.scheme else Path(location).expanduser()


def normalized(project: str) -> str:
    """A project's name as in URLs of indexes."""
    return re.sub(r"[-_.]+", "-", project).lower()


def names(filename: str, project: str) -> bool:
    """Whether an archive's name begins with a project's, which may have hyphens in old source archives.

    Args:
        filename: the file name of the archive.
        project: its name, normalized.
    """
    parts = filename.split("-")
    return any(normalized("-".join(parts[:count])) == project for count in range(1, len(parts)))


class PackageIndex:
    """The contents of pip's indexes and find-links; each page is fetched once. May be shared by threads.

    Args:
        settings: the indexes.
        http: fetches pages.

    Raises:
        DriverError: an index is neither a path nor an address (SET_UP).
    """

    def __init__(self, settings: PipSettings, http: Http) -> None:
        for location in (*settings.find_links, *settings.indexes):
            local_path(location)
        self._find_links = [http.credentials.stripped(location) for location in settings.find_links]
        self._indexes = [http.credentials.stripped(location) for location in settings.indexes]
        self._http = http
        self._pages: dict[str, Sequence[Link] | OriginError] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()

    def links(self, project: str, meter: Meter, failures: list[OriginError]) -> Iterator[Link]:
        """The archives of a project: from find-links first, then from each index; pages are fetched on demand.

        Args:
            project: its name.
            meter: counts the pages' bytes.
            failures: gets the failures of pages.
        """
        name = normalized(project)
        pages = [*self._find_links, *(f"{index.rstrip('/')}/{name}/" for index in self._indexes)]
        for location in pages:
            try:
                links = self._page(location, meter)
            except OriginError as failure:
                failures.append(failure)
                continue
            for link in links:
                if names(link.filename, name) and "/" not in link.filename:
                    yield link

    def _page(self, location: str, meter: Meter) -> Sequence[Link]:
        with self._guard:
            lock = self._locks.setdefault(location, threading.Lock())
        with lock:
            if location not in self._pages:
                try:
                    self._pages[location] = self._fetch(location, meter)
                except OriginError as failure:
                    self._pages[location] = failure
            page = self._pages[location]
        if isinstance(page, OriginError):
            raise page
        return page

    def _fetch(self, location: str, meter: Meter) -> Sequence[Link]:
        path = local_path(location)
        if path is not None:
            return _local_links(path)
        if location.lower().endswith((".whl", ".tar.gz", ".zip")):
            return [_link(location)]
        body, response = self._http.read(location, meter, PAGE_BYTES, _ACCEPT)
        try:
            if response.content_type.endswith("json"):
                links = _json_links(body, response.url)
            else:
                links = _html_links(body.decode("utf-8", "replace"), response.url)
            return [link for link in links if self._http.follows(response.url, link.url)]
        except _NO_PAGE as wrong:
            host = urlsplit(location).netloc
            raise OriginError(
                Code.NOT_FOUND_UPSTREAM, f"{host} sent a page that is not a package index: {wrong}"
            ) from wrong


def _local_links(path: Path) -> Sequence[Link]:
    """The archives of a directory, of its page, or the named archive; empty if the path does not exist, as with pip."""
    try:
        if path.is_dir():
            page = path / "index.html"
            if not page.is_file():
                return [Link(filename=p.name, url=p.absolute().as_uri()) for p in sorted(path.iterdir()) if p.is_file()]
            path = page
        if path.suffix in {".html", ".htm"}:
            return _html_links(path.read_text("utf-8", "replace"), path.absolute().as_uri())
        return [Link(filename=path.name, url=path.absolute().as_uri())] if path.is_file() else []
    except OSError:
        return []
    except _NO_PAGE as wrong:
        raise OriginError(Code.NOT_FOUND_UPSTREAM, f"{path} is not a package index: {wrong}") from wrong


def _link(url: str, yanked: str | None = None) -> Link:
    address, fragment = urldefrag(url)
    algorithm, _, digest = fragment.partition("=")
    return Link(
        filename=unquote(urlsplit(address).path.rpartition("/")[2]),
        url=address,
        sha256=digest.partition("&")[0].lower() if algorithm == "sha256" else "",
        yanked=yanked,
    )


def _json_links(body: bytes, base: str) -> Sequence[Link]:
    """The links of a page in the format of PEP 691 and PEP 700."""
    return [_json_link(file, base) for file in json.loads(body)["files"]]


def _json_link(file: Mapping[str, Any], base: str) -> Link:
    name, url, size, yanked = file["filename"], file["url"], file.get("size"), file.get("yanked", False)
    sha256 = file.get("hashes", {}).get("sha256", "")
    if not all(isinstance(text, str) for text in (name, url, sha256)):
        raise TypeError("a file's `filename`, `url` or `sha256` is not a string")
    if size is not None and (type(size) is not int or size < 0):
        raise TypeError("a file's `size` is not a number of bytes")
    if not isinstance(yanked, bool | str):
        raise TypeError("a file's `yanked` is neither a boolean nor a string")
    return Link(
        filename=name,
        url=urldefrag(urljoin(base, url)).url,
        sha256=sha256.lower(),
        size=size,
        yanked=yanked if isinstance(yanked, str) else "" if yanked else None,
    )


class _Anchors(HTMLParser):
    """Collects the links of a page."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self._base = base
        self.links: list[Link] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        target = values.get("href")
        if not target:
            return
        if tag == "base":
            self._base = urljoin(self._base, target)
        elif tag == "a":
            yanked = (values["data-yanked"] or "") if "data-yanked" in values else None
            self.links.append(_link(urljoin(self._base, target.strip()), yanked))


def _html_links(text: str, base: str) -> Sequence[Link]:
    """The links of a page in the format of PEP 503."""
    anchors = _Anchors(base)
    anchors.feed(text)
    anchors.close()
    return anchors.links
