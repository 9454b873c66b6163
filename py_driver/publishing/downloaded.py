"""The files of a kernel on the Hub, downloaded temporarily."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.building.variant_dir import BUILD
from py_driver.errors import Code, error
from py_driver.publishing.rebuild import Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from py_driver.output import Output


@contextmanager
def downloaded(repo_id: str, branch: str, paths: Sequence[str], output: Output) -> Iterator[Place]:
    """Download files of a branch into a directory that is removed at the end.

    Args:
        repo_id: the repository.
        branch: the branch.
        paths: globs of the files.
        output: where progress is shown.

    Raises:
        DriverError: FILE_MISSING if there is no such branch; see `hub.Hub`.
    """
    from py_driver.publishing.hub import Hub  # noqa: PLC0415  (half a second, and only this needs it)

    hub = Hub(repo_id)
    head = hub.heads().get(branch, "")
    if not head:
        message = f"{hub.address} has no branch {branch}"
        raise error(Code.FILE_MISSING, message, help="publish it first, or name another with --branch or --repo-id")
    with tempfile.TemporaryDirectory() as folder, output.task(f"downloading {repo_id} of {branch}") as task:
        hub.download(head, paths, Path(folder))
        task.done(f"commit {head}")
        yield Place(Path(folder), f"{hub.address}/tree/{head}/{BUILD}")
