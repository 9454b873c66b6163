"""The Hugging Face Hub, as far as publishing needs it: a thin layer over huggingface_hub that raises DriverErrors."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from py_driver import __version__
from py_driver.errors import Code, DriverError, error
from py_driver.publishing.release import Changes, File, HubFile

try:
    from httpx2 import HTTPError, UnsupportedProtocol
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalTokenNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )
    from huggingface_hub.hf_api import RepoFile
    from huggingface_hub.utils.tqdm import disable_progress_bars
except ValueError as wrong:  # it looks at this variable first of all
    raise error(Code.HUB_REFUSED, f"HF_ENDPOINT is not an address: {wrong}", help="unset it for the real Hub") from None

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

KIND: Final = "kernel"
_SERVER_FAILED: Final = 500
_XET: Final = re.compile(r"HTTP status \w+ error \(([0-9]{3}) ([^)]*)\)")
"""The status of an answer in the text of hf_xet 1.8's OSError."""

_HELP: Final = {
    401: "use a token with write access: `hf auth login`, or set HF_TOKEN",
    403: "the token may not write there; kernel repositories of an organisation need its members' token, and a new one "
    "the Hub's approval",
    404: "the repository does not exist, or the token may not read it",
    412: "somebody else published meanwhile: run it again",
    429: "the Hub asks to slow down: try again later",
}


class Hub:
    """A repository on the Hub.

    Args:
        repo_id: `owner/name`.

    huggingface_hub chooses the address and the token: HF_ENDPOINT, HF_TOKEN, or what `hf auth login` stored.
    """

    def __init__(self, repo_id: str) -> None:
        disable_progress_bars()
        self.repo_id = repo_id
        self._api = HfApi(library_name="rules_torch_kernels", library_version=__version__)

    @property
    def address(self) -> str:
        """The address of the repository's page."""
        return f"{self._api.endpoint}/kernels/{self.repo_id}"

    def create(self, branch: str, *, private: bool) -> None:
        """Create the repository and a branch unless they exist; a new branch starts at the first commit of main.

        Raises:
            DriverError: HUB_REFUSED or NO_NETWORK, as in all methods.
        """
        with _explained():
            self._api.create_repo(self.repo_id, repo_type=KIND, private=private, exist_ok=True)
            if branch not in self.heads():
                first = self._api.list_repo_commits(self.repo_id, repo_type=KIND, revision="main")[-1].commit_id
                self._api.create_branch(self.repo_id, branch=branch, revision=first, repo_type=KIND, exist_ok=True)

    def heads(self) -> dict[str, str]:
        """The head commit of each branch, by name; empty if there is no repository."""
        with _explained():
            try:
                refs = self._api.list_repo_refs(self.repo_id, repo_type=KIND)
            except RepositoryNotFoundError:
                return {}
            return {branch.name: branch.target_commit for branch in refs.branches}

    def pull_requests(self) -> list[tuple[str, str]]:
        """Address and commit of each pull request, closed ones included; the latest first."""
        with _explained():
            refs = self._api.list_repo_refs(self.repo_id, repo_type=KIND, include_pull_requests=True)
        numbered = [
            (int(request.ref.rpartition("/")[2]), request.target_commit) for request in refs.pull_requests or ()
        ]
        return [(f"{self.address}/discussions/{number}", commit) for number, commit in sorted(numbered, reverse=True)]

    def files(self, revision: str) -> list[HubFile]:
        """The files of a commit; empty if there is no such commit."""
        if not revision:
            return []
        with _explained():
            try:
                tree = list(self._api.list_repo_tree(self.repo_id, recursive=True, revision=revision, repo_type=KIND))
            except (RepositoryNotFoundError, RevisionNotFoundError):
                return []
        return [
            HubFile(path=entry.path, blob=entry.blob_id, sha256=entry.lfs.sha256 if entry.lfs else "")
            for entry in tree
            if isinstance(entry, RepoFile)
        ]

    def download(self, revision: str, patterns: Sequence[str], directory: Path) -> None:
        """Download the files of a commit that match patterns, such as `build/*`, into a directory."""
        with _explained():
            self._api.snapshot_download(
                self.repo_id, repo_type=KIND, revision=revision, allow_patterns=list(patterns), local_dir=directory
            )

    def commit(self, branch: str, parent: str, changes: Changes, message: str, *, create_pr: bool = False) -> str:
        """Create a commit, only on top of `parent`; returns the address of the commit or of the pull request."""
        operations: list[CommitOperationAdd | CommitOperationDelete] = [
            *(CommitOperationAdd(path_in_repo=file.path, path_or_fileobj=_content(file)) for file in changes.added),
            *(CommitOperationDelete(path_in_repo=path) for path in changes.deleted),
        ]
        with _explained():
            done = self._api.create_commit(
                self.repo_id,
                operations,
                commit_message=message,
                repo_type=KIND,
                revision=branch,
                parent_commit=parent,
                create_pr=create_pr,
            )
        return str(done.pr_url or done.commit_url)


def _content(file: File) -> bytes | str:
    return file.content if isinstance(file.content, bytes) else str(file.content)


@contextmanager
def _explained() -> Iterator[None]:
    """Turn huggingface_hub's exceptions into errors with advice."""
    try:
        yield
    except HFValidationError as wrong:
        raise error(Code.USAGE, f"the Hub does not allow this name: {wrong}") from None
    except LocalTokenNotFoundError:
        raise error(Code.HUB_REFUSED, "the Hub requires a token, and there is none", help=_HELP[401]) from None
    except (HTTPError, OSError) as wrong:
        raise _explain(wrong) from None
    except RuntimeError as wrong:  # an upload that failed: the reason is its cause
        if not isinstance(wrong.__cause__, HTTPError | OSError):
            raise
        raise _explain(wrong.__cause__) from None
    except (ValueError, LookupError) as wrong:  # wrong settings, answers and cards
        message = f"a request to the Hub failed: {type(wrong).__name__}: {' '.join(str(wrong).split())}"
        raise error(Code.HUB_REFUSED, message, help="check HF_ENDPOINT, HF_TOKEN and the proxy variables") from None


def _explain(wrong: BaseException) -> DriverError:
    """The error for an answer of the Hub, or for a missing answer."""
    if answer := next((failure for failure in (wrong, wrong.__cause__) if isinstance(failure, HfHubHTTPError)), None):
        status, text = answer.response.status_code, answer.server_message or answer.response.reason_phrase
    elif found := _XET.search(str(wrong)):
        status, text = int(found[1]), found[2]
    else:
        message = f"cannot reach the Hub: {type(wrong).__name__}: {wrong}"
        advice = "run it again: uploaded files are not sent twice"
        if isinstance(wrong, OfflineModeIsEnabled):
            advice = "unset HF_HUB_OFFLINE"
        elif isinstance(wrong, UnsupportedProtocol):
            advice = "set HF_ENDPOINT to an address with https://, or unset it for the real Hub"
        return error(Code.NO_NETWORK, message, help=advice)
    failed = "the request may have succeeded: run it again" if status >= _SERVER_FAILED else ""
    return error(Code.HUB_REFUSED, f"the Hub answered {status}: {text}", help=_HELP.get(status, failed))
