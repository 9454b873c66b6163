"""The card of a kernel's repository, its README.md: what people want to know before they load it."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import tomli

from py_driver import __version__
from py_driver.errors import DriverError
from py_driver.manifest.model import TVM_FFI
from py_driver.matrix.backends import ARCH, arch_order
from py_driver.matrix.cells import parse
from py_driver.publishing.public_api import offers, schemas
from py_driver.publishing.templates import render
from py_driver.resources import resource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from py_driver.manifest.model import Manifest
    from py_driver.matrix.cells import Cell

CARD: Final = "README.md"
"""Its path in the repository."""

BENCHMARKS: Final = "benchmarks"
"""The directory of a project with benchmark scripts, and with what `kernels benchmark --output FILE.json` wrote."""

MADE: Final = "Made with rules_torch_kernels"
"""By this a card is known as one of these."""

_OTHER: Final = "other"
_ARCH: Final = re.compile(ARCH)


class _Row(NamedTuple):
    """A variant in the table.

    Attributes:
        name: its identifier.
        cell: what that says; None for one of a platform that is not built here.
        archs: GPU architectures, sorted.
    """

    name: str
    cell: Cell | None
    archs: tuple[str, ...]


class _Timing(NamedTuple):
    """A workload in a benchmark's report; milliseconds.

    Attributes:
        workload: its name.
        mean: of all runs.
        low: the shortest.
        iqr: interquartile range.
    """

    workload: str
    mean: float
    low: float
    iqr: float


class _Figures(NamedTuple):
    """A benchmark's report.

    Attributes:
        machine: GPU, torch and backend.
        timings: a workload each.
    """

    machine: str
    timings: tuple[_Timing, ...]


def make_card(
    manifest: Manifest, repo_id: str, variants: Mapping[str, Mapping[str, Any]], files: Mapping[str, str]
) -> bytes:
    """Make the card.

    Args:
        manifest: of the project.
        repo_id: where it is published.
        variants: what the metadata.json of each variant says, by identifier.
        files: the texts of the project's binding, of its Python files and of its benchmarks' reports, by their paths.
    """
    root = f"{manifest.python_root}/"
    python = {path.removeprefix(root): text for path, text in files.items() if path.startswith(root)}
    binding = [files[one.value] for one in manifest.framework.src if one.value in files]
    reports = [text for path, text in sorted(files.items()) if PurePosixPath(path).parent.name == BENCHMARKS]
    rows = [_row(name, metadata) for name, metadata in sorted(variants.items())]
    card = render(
        "card.md.j2",
        manifest=manifest,
        bound="tvm-ffi" if manifest.framework.table == TVM_FFI else "PyTorch",
        licence=_licence(manifest.license),
        repo_id=repo_id,
        rows=rows,
        compiled=any(row.cell and not row.cell.is_noarch for row in rows),
        python=[name for depends in manifest.depends.values() for name in depends.python],
        offers=offers(python),
        schemas=schemas(binding),
        reports=[report for text in reports if (report := _figures(text))],
        made=f"{MADE} {__version__}",
    )
    return card.encode(errors="replace")


def _licence(name: str) -> dict[str, str]:
    """The licence in the card's metadata; one that the Hub has no identifier for goes by its name."""
    known = tomli.loads(resource("licenses.toml"))
    if name.lower() in known["identifiers"]:
        return {"license": name.lower()}
    return {"license": _OTHER} if name.lower() == _OTHER else {"license": _OTHER, "license_name": name}


def _row(name: str, metadata: Mapping[str, Any]) -> _Row:
    backend = metadata.get("backend")
    archs = backend.get("archs") if isinstance(backend, dict) else None
    listed = archs if isinstance(archs, list) else []
    known = {arch for arch in listed if isinstance(arch, str) and _ARCH.fullmatch(arch)}
    try:
        cell = parse(name)
    except DriverError:
        cell = None
    return _Row(name=name, cell=cell, archs=tuple(sorted(known, key=arch_order)))


def _figures(text: str) -> _Figures | None:
    """What a report of `kernels benchmark` says (kernels 0.17, `BenchmarkResult.to_payload`); None for other JSON."""
    try:
        report = json.loads(text)
        machine = report["machineInfo"]
        timings = tuple(
            _Timing(
                _plain(one["workload"]), *(float(one["timingResults"][key]) for key in ("mean_ms", "min_ms", "iqr_ms"))
            )
            for one in report["results"]
        )
        where = f"{machine['gpu']}, torch {machine['pytorchVersion']}, {machine['backend']}"
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
        return None
    return _Figures(machine=_plain(where), timings=timings) if timings else None


def _plain(text: str) -> str:
    """Text that stays within its cell of a table."""
    return " ".join(str(text).split()).replace("|", "/").replace("`", "'")
