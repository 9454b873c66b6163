"""Restores file names of a built variant that Bazel does not allow."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from py_driver.plan.metadata import METADATA
from py_driver.system.cache import cache_root, storage_errors
from py_driver.system.scratch import scratch, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from py_driver.plan.plan import Plan

_PLACE = "names"


@contextmanager
def true_names(variant: Path, plan: Plan) -> Iterator[Path]:
    """The directory of a variant with the project's file names, during the context.

    Args:
        variant: the directory that Bazel built.
        plan: the plan of the project.

    Yields:
        That directory if Bazel used the project's file names; else a copy.

    Raises:
        DriverError: NO_SPACE or PERMISSION if the cache cannot be written.
    """
    names = plan.own_names
    if not names:
        yield variant
        return
    places = cache_root() / _PLACE
    with ExitStack() as stack:
        with storage_errors(places):
            places.mkdir(parents=True, exist_ok=True)
            sweep(places)
            copy = stack.enter_context(scratch(places)) / variant.name
            _copy(variant, copy, names)
        yield copy


def _copy(variant: Path, copy: Path, names: Mapping[str, str]) -> None:
    """Copy a variant, renaming some of its files."""
    for path in (path for path in variant.rglob("*") if path.is_file()):
        name = path.relative_to(variant).as_posix()
        to = copy / names.get(name, name)
        to.parent.mkdir(parents=True, exist_ok=True)
        if name == METADATA:
            to.write_text(_renamed(path.read_text(encoding="utf-8"), names), encoding="utf-8")
        else:
            shutil.copyfile(path, to)


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """A metadata.json with renamed files; its form is that of rules/private/tools/assemble/directory.zig."""
    metadata = json.loads(text)
    record = metadata["digest"]
    record["files"] = dict(sorted((names.get(name, name), digest) for name, digest in record["files"].items()))
    return json.dumps(metadata, indent=2, ensure_ascii=False) + "\n"
