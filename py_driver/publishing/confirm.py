"""Whether builders that a policy names have confirmed variants, in `build/` or on the Hub. Nothing is built."""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.building.variant_dir import BUILD, SIGNATURE, files_of
from py_driver.errors import Code, error
from py_driver.matrix.select import select
from py_driver.plan.project import MANIFEST, load
from py_driver.publishing.downloaded import downloaded
from py_driver.publishing.rebuild import Place
from py_driver.publishing.rebuilt_statement import STATEMENTS
from py_driver.publishing.release import target
from py_driver.publishing.signing import judged
from py_driver.system.files import is_directory, is_file, reading, sha256

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.publishing.signing import Confirmed


class ConfirmOptions(NamedTuple):
    """Which variants are to be confirmed, and by which policy.

    Attributes:
        policy: the file of the policy.
        patterns: globs of identifiers; empty for all existing variants.
        published: whether to read the variants from the Hub instead of `build/`.
        repo_id: the repository, instead of the one in build.toml.
        branch: instead of the one in build.toml or `v<version>`.
        statements: a directory of signed statements; None for `statements/` of the project.
    """

    policy: Path
    patterns: Sequence[str] = ()
    published: bool = False
    repo_id: str = ""
    branch: str = ""
    statements: Path | None = None


class _Kernel(NamedTuple):
    """A kernel: its repository, the branch, and its version if that is known."""

    repo_id: str
    branch: str
    version: int | None


def confirm(directory: Path, releases: Releases, output: Output, options: ConfirmOptions) -> list[Confirmed]:
    """Judge the variants of a kernel by a policy.

    Args:
        directory: the directory of the project; it need not have a build.toml if the options name repository and
            branch.
        releases: the releases to read the project with.
        output: where progress is shown.
        options: which variants, and by which policy.

    Raises:
        DriverError: FILE_MISSING if there are no variants; NO_SUCH_VARIANT; USAGE if the policy is wrong; see
            `load`, `target` and `downloaded`.
    """
    kernel = _kernel(directory, releases, options)
    own = options.statements or directory / STATEMENTS
    places = {str(own): own}
    with ExitStack() as stack:
        source = Place(directory, str(directory / BUILD))
        if options.published:
            paths = [f"{BUILD}/*", f"{STATEMENTS}/*"]
            source = stack.enter_context(downloaded(kernel.repo_id, kernel.branch, paths, output))
            places[f"{source.name.removesuffix(BUILD)}{STATEMENTS}"] = source.directory / STATEMENTS
        wanted = [
            {
                "repository": kernel.repo_id,
                "version": kernel.version,
                "variant": path.name,
                "files": _digests(path),
            }
            for path in _variants(source, options.patterns)
        ]
        return judged(options.policy, wanted, places, source.name, output)


def _kernel(directory: Path, releases: Releases, options: ConfirmOptions) -> _Kernel:
    if options.repo_id and options.branch and not is_file(directory / MANIFEST):
        version = re.fullmatch(r"v([0-9]{1,9})", options.branch)
        return _Kernel(options.repo_id, options.branch, int(version[1]) if version else None)
    manifest = load(directory, releases).manifest
    return _Kernel(*target(manifest, options.repo_id, options.branch), manifest.version)


def _variants(source: Place, patterns: Sequence[str]) -> list[Path]:
    """The directories of variants."""
    build = source.directory / BUILD
    found = sorted(path for path in build.iterdir() if not path.name.startswith(".")) if is_directory(build) else []
    if not found:
        raise error(Code.FILE_MISSING, f"{source.name} has no variants", help="build or publish them first")
    names = {path.name: path for path in found}
    return [names[name] for name in select(patterns, list(names))]


def _digests(variant: Path) -> dict[str, Any]:
    """The SHA-256 of each file of a variant, by its path in a repository; a link gets a text that matches no digest."""
    found = {}
    with reading(variant):
        for name, path in files_of(variant).items():
            if name != SIGNATURE:
                digest = "a link" if path.is_symlink() else sha256(path.read_bytes())
                found[f"{BUILD}/{variant.name}/{name}"] = digest
    return found
