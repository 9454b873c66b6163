# ruff: noqa: INP001  (a program of its own)
"""The built, loaded and run variants: the records in cells.json, and the table of docs/toolchains.md.

    driver build DIR --json > build.json; python bench/cells.py built build.json HOW
    python bench/cells.py loaded VARIANT HOW
    python bench/cells.py ran VARIANT HOW

HOW says on what: `relu, two cores`, `relu's tests, H100`. End-to-end tests record what they build and what the driver
loads for them where CELLS names a file. A record without a date is a statement that older pages made.
"""

from __future__ import annotations

import fcntl
import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

RECORDS: Final = Path(__file__).resolve().parent / "cells.json"
STEPS: Final = ("built", "loaded", "ran")
"""The steps of a variant, in order."""

_VARIANT: Final = re.compile(r"torch(\d)(\d+)-(cxx11|cxx98)-([a-z]+\d*)-x86_64-linux")
_LOADED: Final = re.compile(r"^loading (\S+) in torch (\S+) \(\S+\): done", re.MULTILINE)

Records = dict[str, dict[str, dict[str, str]]]
"""By variant and step: `on`, and `date`, which is empty for a statement without a record."""


def read(path: Path = RECORDS) -> Records:
    """The records; empty without a file."""
    records: Records = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return records


def record(path: Path, step: str, variants: Iterable[str], on: str) -> None:
    """Record a step of variants with today's date.

    Args:
        path: the file of the records; other processes may write it at the same time.
        step: a step of STEPS.
        variants: the names of the variants; variants for another CPU or without torch are ignored.
        on: the hardware or software of the step.
    """
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    with path.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        records: Records = json.loads(file.read() or "{}")
        for variant in filter(_VARIANT.fullmatch, variants):
            records.setdefault(variant, {})[step] = {"on": on, "date": today}
        ordered = {name: {step: cell[step] for step in STEPS if step in cell} for name, cell in sorted(records.items())}
        file.truncate(0)
        file.write(json.dumps(ordered, indent=1) + "\n")


def loaded(stderr: str) -> dict[str, str]:
    """The variants that the driver has loaded, with the torch of each."""
    return dict(_LOADED.findall(stderr))


def table(records: Records, torches: Iterable[tuple[str, str]], backends: Mapping[str, str]) -> Iterator[list[str]]:
    """The rows of the table.

    Args:
        records: the records.
        torches: the releases with their ABIs, as `2.15` and `cxx11`, in order.
        backends: their titles by name; one of a user's own matrix has a record and stands here, too.
    """
    yield ["torch", "ABI", *backends.values()]
    for torch, abi in torches:
        name = f"torch{torch.replace('.', '')}-{abi}"
        cells = [records.get(f"{name}-{backend}-x86_64-linux", {}) for backend in backends]
        yield [torch, abi, *(_cell(cell) for cell in cells)]


def _cell(cell: Mapping[str, Mapping[str, str]]) -> str:
    """The last step of a variant, with its date or hardware."""
    step = next((step for step in reversed(STEPS) if step in cell), "")
    if not step:
        return ""
    found = cell[step]
    where = f"{step}: {found['on']}" if step == "ran" else step
    return where if found["date"] else f"({where})"


def backends_of(records: Records) -> list[str]:
    """The backends with a record, unordered."""
    return sorted({found[4] for name in records if (found := _VARIANT.fullmatch(name))})


def main() -> None:
    """Record a step."""
    step, what, on = sys.argv[1:]
    variants = [what]
    if step == "built":
        built = json.loads(Path(what).read_text(encoding="utf-8"))
        variants = [variant["variant"] for variant in built["variants"]]
    record(RECORDS, step, variants, on)


if __name__ == "__main__":
    main()
