"""A Hugging Face Hub on the loopback interface: kernel repositories with branches and commits, Git-LFS, Xet, faults.

It answers the requests that huggingface_hub 2.4 makes to publish a kernel and the `kernels` client 0.17 to load one,
and all others with 404. It records requests, and can be told to fail some.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import time
import urllib.parse
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Files = dict[str, bytes]
"""The content of files by their paths."""

_LARGE = (".bin", ".so")
_NULL = "0" * 40


def _name(files: Files) -> str:
    """The name of a commit with the given files."""
    listed = sorted((path, hashlib.sha256(content).hexdigest()) for path, content in files.items())
    return hashlib.sha1(json.dumps(listed).encode(), usedforsecurity=False).hexdigest()


def _blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


class Request(NamedTuple):
    """A request.

    Attributes:
        what: the method and path, without the repository: `POST commit/v1`.
        size: the number of bytes in its body.
        token: its token; empty if it has none.
    """

    what: str
    size: int
    token: str


@dataclass(slots=True)
class Fault:
    """A fault of the Hub.

    Attributes:
        what: a regular expression for the beginning of `Request.what`.
        status: the HTTP status of the answer.
        times: the number of requests that fail.
        after: whether it executes the request first, so that only the answer is lost.
    """

    what: str
    status: int
    times: int = 1
    after: bool = False


@dataclass(slots=True)
class Repository:
    """A repository.

    Attributes:
        branches: the commit of each branch.
        commits: the files of each commit.
        count: the number of commits so far.
        pulls: the commit of each pull request, at its number minus one.
    """

    branches: dict[str, str] = field(default_factory=dict)
    commits: dict[str, Files] = field(default_factory=dict)
    count: int = 0
    pulls: list[str] = field(default_factory=list)

    def put(self, branch: str, files: Files) -> str:
        """Set a branch to a commit with the given files."""
        self.branches[branch] = self.keep(files)
        return self.branches[branch]

    def keep(self, files: Files) -> str:
        """Add a commit with the given files."""
        name = _name(files)
        self.commits[name] = files
        return name

    def files(self, revision: str) -> Files | None:
        """The files of a branch or a commit."""
        return self.commits.get(self.branches.get(revision, revision))


class AtRequest(Protocol):
    """The type of a function to call at each request."""

    def __call__(self, request: Request, /, *, after: bool) -> None: ...


def nothing(_: Request, *, after: bool) -> None:
    """Do nothing at a request."""


class Hub(ThreadingHTTPServer):
    """The server.

    Attributes:
        repositories: by `owner/name`.
        trusted: whether the owners of repositories are trusted publishers.
        stored: large files by their SHA-256.
        xet: a directory for uploads through Xet, which hf_xet itself writes; None if this Hub has no Xet. A commit
            takes the content of a file from `stored`, which a test with Xet must fill.
        requests: all requests, in order.
        faults: its faults; one that is used up does nothing.
        before_commit: called when a commit arrives, before it is read.
        at_request: called when a request arrives, and again with `after` once it is executed, before the answer; if it
            raises ConnectionError, the connection ends.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, Repository] = {}
        self.trusted = True
        self.stored: dict[str, bytes] = {}
        self.xet: Path | None = None
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.before_commit: Callable[[], None] = lambda: None
        self.at_request: AtRequest = nothing

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def asked(self, pattern: str) -> int:
        """The number of requests whose beginning matches a regular expression."""
        return sum(re.match(pattern, request.what) is not None for request in self.requests)


class _Answer(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]


def _json(value: Any, status: int = 200, **headers: str) -> _Answer:  # noqa: ANN401  (JSON)
    named = {name.replace("_", "-"): header for name, header in headers.items()}
    return _Answer(status, json.dumps(value).encode(), {"Content-Type": "application/json", **named})


def _missing(what: str) -> _Answer:
    return _json({"error": f"{what} not found"}, 404, X_Error_Code=f"{what}NotFound")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _answer(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        path, body = urllib.parse.unquote(url.path), self._body()
        query = dict(urllib.parse.parse_qsl(url.query))
        found = re.fullmatch(r"/(?:api/)?kernels/([^/]+/[^/]+?)(?:\.git/info)?(?:/(.*))?", path)
        owner, rest = (found[1], found[2] or "") if found else ("", path.lstrip("/"))
        what = f"{self.command} {rest}"
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        request = Request(what, len(body), token)
        self.server.requests.append(request)
        self.server.at_request(request, after=False)
        fault = next((fault for fault in self.server.faults if fault.times > 0 and re.match(fault.what, what)), None)
        if fault:
            fault.times -= 1
            if fault.after:
                self._do(owner, rest, body, query)
            answer = _json({"error": "something is wrong here"}, fault.status, Retry_After="0")  # no backing off
        else:
            answer = self._do(owner, rest, body, query)
        self.server.at_request(request, after=True)
        self.send_response(answer.status)
        for name, value in {**answer.headers, "Content-Length": str(len(answer.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def handle(self) -> None:
        with suppress(ConnectionError):  # the client may be killed
            super().handle()

    do_GET = do_HEAD = do_POST = do_PUT = _answer  # noqa: N815  (names of the base class)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _do(self, owner: str, rest: str, body: bytes, query: dict[str, str]) -> _Answer:
        if not owner:
            return self._elsewhere(rest, body)
        repository = self.server.repositories.get(owner)
        if repository is None:
            return _missing("Repo")
        verb, _, more = rest.partition("/")
        first, _, path = more.partition("/")
        deep = query.get("recursive") in {"true", "True", "1"}
        answers: dict[str, Callable[[], _Answer]] = {
            "refs": lambda: _refs(repository),
            "commits": lambda: _commits(repository),
            "branch": lambda: _branch(repository, more, body),
            "preupload": lambda: _preupload(body),
            "lfs": lambda: self._batch(body),
            "xet-write-token": self._xet,
            "commit": lambda: self._commit(owner, repository, more, body, pull="create_pr" in query),
            "tree": lambda: self._tree(repository, first, path, recursive=deep),
            "resolve": lambda: self._content(repository, first, path),
            "": lambda: _about(owner, repository, "main"),
            "revision": lambda: _about(owner, repository, more),
        }
        return answers[verb]() if verb in answers else _missing("Entry")

    def _elsewhere(self, path: str, body: bytes) -> _Answer:
        """Answer a request that concerns no repository."""
        if path == "api/repos/create":
            wanted = json.loads(body)
            name = f"{wanted.get('organization') or 'me'}/{wanted['name']}"
            if name in self.server.repositories:
                return _json({"error": "You already created this repo", "url": name}, 409)
            self.server.repositories[name] = Repository()
            self.server.repositories[name].put("main", {})
            return _json({"url": f"{self.server.address}/kernels/{name}", "name": name})
        if found := re.fullmatch(r"api/organizations/([^/]+)/overview", path):
            trusted = {"trustedKernelPublisher": self.server.trusted}
            return _json({"name": found[1], "fullname": found[1], "avatarUrl": "", **trusted})
        if found := re.fullmatch(r"_lfs/([0-9a-f]{64})", path):
            if hashlib.sha256(body).hexdigest() != found[1]:
                return _json({"error": "other bytes"}, 400)
            self.server.stored[found[1]] = body
            return _json({})
        answers: dict[str, dict[str, list[str]]] = {
            "api/validate-yaml": {"errors": [], "warnings": []},
            "_lfs/verify": {},
        }
        said = answers.get(path)
        return _missing("Entry") if said is None else _json(said)

    def _batch(self, body: bytes) -> _Answer:
        objects = []
        for value in json.loads(body)["objects"]:
            place = f"{self.server.address}/_lfs"
            actions = {"upload": {"href": f"{place}/{value['oid']}"}, "verify": {"href": f"{place}/verify"}}
            objects.append({**value, **({} if value["oid"] in self.server.stored else {"actions": actions})})
        return _json({"transfer": "basic", "objects": objects})

    def _xet(self) -> _Answer:
        if self.server.xet is None:
            return _missing("Entry")
        return _json({"casUrl": f"local://{self.server.xet}", "accessToken": "token", "exp": int(time.time()) + 3600})

    def _commit(self, owner: str, repository: Repository, branch: str, body: bytes, *, pull: bool) -> _Answer:
        self.server.before_commit()
        lines = [json.loads(line) for line in body.splitlines()]
        parent = next((line["value"].get("parentCommit") for line in lines if line["key"] == "header"), None)
        if parent and parent != repository.branches[branch]:
            return _json({"error": "A commit has happened since"}, 412)
        files = dict(repository.commits[repository.branches[branch]])
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.server.stored[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        repository.count += 1
        place = f"{self.server.address}/kernels/{owner}"
        if pull:
            name = repository.keep(files)
            repository.pulls.append(name)
            more = {"pullRequestUrl": f"{place}/discussions/{len(repository.pulls)}"}
        else:
            name, more = repository.put(branch, files), {}
        return _json({"commitUrl": f"{place}/commit/{name}", "commitOid": name, "success": True, **more})

    def _tree(self, repository: Repository, revision: str, below: str, *, recursive: bool) -> _Answer:
        files = repository.files(revision)
        if files is None:
            return _missing("Revision")
        prefix = f"{below}/" if below else ""
        found: dict[str, Any] = {}
        for path, content in files.items():
            if path.startswith(prefix):
                first, slash, _ = path[len(prefix) :].partition("/")
                if slash:
                    place = prefix + first
                    found[place] = {"type": "directory", "path": place, "oid": _NULL, "size": 0}
                if recursive or not slash:
                    found[path] = _described(path, content)
        return _json(list(found.values()))

    def _content(self, repository: Repository, revision: str, path: str) -> _Answer:
        files = repository.files(revision)
        if files is None or path not in files:
            return _missing("Entry")
        tag = hashlib.sha256(files[path]).hexdigest()
        headers = {"ETag": f'"{tag}"', "X-Repo-Commit": _name(files), "Accept-Ranges": "bytes"}
        return _Answer(200, files[path], headers)


def _refs(repository: Repository) -> _Answer:
    named = [{"name": n, "ref": f"refs/heads/{n}", "targetCommit": c} for n, c in repository.branches.items()]
    pulls = [
        {"name": str(n), "ref": f"refs/pr/{n}", "targetCommit": c} for n, c in enumerate(repository.pulls, start=1)
    ]
    return _json({"branches": named, "tags": [], "converts": [], "pullRequests": pulls})


def _commits(repository: Repository) -> _Answer:
    """All commits of all branches, newest first."""
    about = {"title": "", "message": "", "authors": [], "date": "2026-01-01T00:00:00.000Z"}
    return _json([{"id": name, **about} for name in reversed(repository.commits)])


def _branch(repository: Repository, name: str, body: bytes) -> _Answer:
    if name in repository.branches:
        return _json({"error": "Reference already exists"}, 409)
    repository.branches[name] = json.loads(body or b"{}").get("startingPoint") or repository.branches["main"]
    return _json({})


def _preupload(body: bytes) -> _Answer:
    modes = [{"path": path["path"], "uploadMode": _mode(path["path"])} for path in json.loads(body)["files"]]
    return _json({"files": [{**mode, "shouldIgnore": False} for mode in modes]})


def _about(owner: str, repository: Repository, revision: str) -> _Answer:
    files = repository.files(revision)
    if files is None:
        return _missing("Revision")
    siblings = [{"rfilename": path} for path in files]
    return _json({"id": owner, "sha": _name(files), "private": False, "siblings": siblings, "tags": []})


def _mode(path: str) -> str:
    return "lfs" if path.endswith(_LARGE) else "regular"


def _described(path: str, content: bytes) -> dict[str, Any]:
    said = {"type": "file", "path": path, "size": len(content), "oid": _blob(content)}
    if _mode(path) == "regular":
        return said
    sha256 = hashlib.sha256(content).hexdigest()
    return {**said, "oid": _blob(sha256.encode()), "lfs": {"oid": sha256, "size": len(content), "pointerSize": 130}}


@contextmanager
def served() -> Iterator[Hub]:
    """A Hub that runs until the end of the context."""
    with Hub() as hub:
        thread = threading.Thread(target=hub.serve_forever, daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()
