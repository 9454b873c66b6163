"""Checks before variants leave this machine, wherever they go: of their sources, and of their libraries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.building.abi_check import build_program, check, expectations
from py_driver.errors import Code, DriverError, error
from py_driver.publishing.git import sources

if TYPE_CHECKING:
    from collections.abc import Iterable

    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Variant
    from py_driver.publishing.provenance import Sources
    from py_driver.publishing.release import BuiltVariant

_LIBRARY: Final = ".so"


def committed(directory: Path, files: Iterable[str], *, allow_dirty: bool) -> Sources:
    """The state of sources in git.

    Args:
        directory: the directory of the project.
        files: all files that it is built from or that are published with it.
        allow_dirty: whether files may differ from the commit.

    Raises:
        DriverError: DIRTY_TREE if files differ and may not.
    """
    commit, changed = sources(directory, files)
    if changed and not allow_dirty:
        message = f"{directory} has changes that are not committed: {changed}"
        raise error(Code.DIRTY_TREE, message, help="commit them, or publish with --allow-dirty")
    return commit


def check_libraries(variants: Iterable[tuple[Variant, BuiltVariant]], releases: Releases, output: Output) -> None:
    """Check the extensions in build/ once more, since these are published.

    Raises:
        DriverError: NOT_COMPLIANT.
    """
    places = {
        file.content: {"--archs": ",".join(variant.exact_archs)} if variant.exact_archs else {}
        for variant, built in variants
        for file in built.files
        if file.path.endswith(_LIBRARY) and isinstance(file.content, Path)
    }
    if not places:
        return
    program = build_program(output)
    checked = [check(program, path, {**expectations(path), **exact}, releases) for path, exact in places.items()]
    if wrong := [found for verdict in checked if (found := verdict.diagnostic())]:
        raise DriverError(wrong)
