"""An earlier release of a project, with the variants that its `build/` has now: from the Hub, or of a commit."""

from __future__ import annotations

import re
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.bazel.invocation import Choices
from py_driver.building.build import Options, build
from py_driver.building.variant_dir import BUILD, present
from py_driver.errors import Code, error
from py_driver.matrix.configurations import is_identifier, parse
from py_driver.matrix.toolkits import numbers
from py_driver.plan.plan import make_plan
from py_driver.plan.project import load
from py_driver.publishing.git import checked_out
from py_driver.publishing.provenance import Sources, read_statement, statement_path
from py_driver.publishing.rebuild import Chosen, Place, choices_of
from py_driver.publishing.release import target

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from py_driver.manifest.model import Manifest
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Variant

_VERSION: Final = re.compile(r"v(\d+)")


@contextmanager
def of_commit(directory: Path, revision: str, releases: Releases, output: Output) -> Iterator[Path]:
    """Build the project at a commit, with the variants and choices of the present `build/`.

    A variant that the project did not have then is left out, so it counts as new. A variant for torch's stable ABI is
    represented by the default variants that it replaces.

    Args:
        directory: the directory of the project, within a git repository.
        revision: a commit.
        releases: the releases to build for.
        output: where progress is shown.

    Raises:
        DriverError: FILE_MISSING if nothing is built, or the commit has none of its variants; see `checked_out` and
            `build`.
    """
    _, built = _built(directory, releases)
    with checked_out(directory, revision) as checkout:
        known = make_plan(load(checkout, releases), releases.matrix).variants
        old: dict[str, list[str]] = {}
        for variant in known:
            own = stands_for(built, variant.name)
            if own and (own.name == variant.name or variant.default):
                old.setdefault(own.name, []).append(variant.name)
        if not old:
            message = f"the commit `{revision}` of {directory} has none of the variants in {directory / BUILD}"
            raise error(Code.FILE_MISSING, message, help="name a commit in which the project has them")
        shared = [variant for variant in built if variant.name in old]
        for how, variants in choices_of(Place(directory), shared, Chosen()).items():
            choices = Choices(cxx=how.cxx, compress=how.compress)
            names = [name for variant in variants for name in old[variant.name]]
            build(checkout, names, releases, output, Options(choices=choices))
        yield checkout


@contextmanager
def of_hub(
    directory: Path, releases: Releases, output: Output, *, repo_id: str = "", branch: str = ""
) -> Iterator[Path]:
    """Download the published variants of a project that its `build/` has too, into a directory with a `build/`.

    They include the variants that one for torch's stable ABI replaces.

    Args:
        directory: the directory of the project.
        releases: the releases to build for.
        output: where progress is shown.
        repo_id: the repository; if empty, the one in build.toml.
        branch: if empty, the one in build.toml, or `v<version>`, or the branch of the newest version before that.

    Raises:
        DriverError: FILE_MISSING if nothing is built, or no published variant can be compared with it; see
            `target` and `Hub`.
    """
    from py_driver.publishing.hub import Hub  # noqa: PLC0415  (half a second, and only this needs it)

    manifest, built = _built(directory, releases)
    where, wanted = target(manifest, repo_id, branch)
    hub = Hub(where)
    heads = hub.heads()
    found = wanted if wanted in heads or branch or manifest.hub.branch else _newest(heads, manifest.version)
    if found not in heads:
        advice = "publish it first, or name another with --branch or --repo-id"
        raise error(Code.FILE_MISSING, f"{hub.address} has no branch {wanted}", help=advice)
    names = {path.path.split("/")[1] for path in hub.files(heads[found]) if path.path.startswith(f"{BUILD}/")}
    if not (shared := [name for name in sorted(names) if stands_for(built, name)]):
        message = f"{hub.address} has none of the variants in {directory / BUILD} on its branch {found}"
        raise error(Code.FILE_MISSING, message, help="build a published variant: driver build --variant ...")
    if left := names - set(shared):
        output.warn(f"{len(left)} of the {len(names)} published variants are not built here, and not compared")
    with tempfile.TemporaryDirectory() as folder, output.task(f"downloading {where} of {found}") as task:
        hub.download(heads[found], [*(f"{BUILD}/{name}/*" for name in shared), statement_path("*")], Path(folder))
        task.done(f"commit {heads[found]}")
        yield Path(folder)


def stands_for(here: Iterable[Variant], name: str) -> Variant | None:
    """The variant that users of an old release's variant load now: the same, or one for torch's stable ABI.

    Args:
        here: the variants of the new release.
        name: the variant of the old release.
    """
    found = {variant.name: variant for variant in here}
    if name in found or not is_identifier(name):
        return found.get(name)
    old = parse(name)
    for variant in found.values():
        new = variant.configuration
        is_later = new.stable and numbers(old.torch or "0") >= numbers(new.torch or "0")
        if is_later and (old.backend, old.cpu, old.os) == (new.backend, new.cpu, new.os):
            return variant
    return None


def commit_of(published: Path) -> str:
    """The commit that the variants from `of_hub` were built from; empty if unknown, or if the sources had changes."""
    stated = {read_statement(path.read_bytes()).sources for path in sorted(published.glob(statement_path("*")))}
    [source] = stated if len(stated) == 1 else [Sources()]
    return "" if source.dirty else source.commit


def _built(directory: Path, releases: Releases) -> tuple[Manifest, list[Variant]]:
    """The manifest of a project, and its built variants."""
    project = load(directory, releases)
    return project.manifest, present(directory, make_plan(project, releases.matrix), ())


def _newest(branches: Iterable[str], version: int) -> str:
    """The branch of the newest version below `version`; empty if there is none."""
    found = [int(name[1]) for branch in branches if (name := _VERSION.fullmatch(branch))]
    return f"v{max(before)}" if (before := [number for number in found if number < version]) else ""
