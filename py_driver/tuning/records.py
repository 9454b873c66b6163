"""The measurements of a kernel's configurations on a GPU: `tuning/SPACE.GPU.json`."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from py_driver.errors import Code, error
from py_driver.system.files import is_file, reading, write
from py_driver.tuning.space import FACTS, PLACE

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.tuning.space import Case, Configuration, Space

OUTCOMES: Final = ("correct", "constraints", "compile", "runtime", "correctness", "timeout")
"""The possible outcomes of a configuration on a case, in the terms of the T4 format of auto-tuners."""

CORRECT: Final = OUTCOMES[0]
EXCLUDED: Final = OUTCOMES[1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """The result of a configuration on a case.

    Attributes:
        outcome: one of `OUTCOMES`.
        reason: why it was not measured; empty if it was.
        us: the median, in microseconds.
        interval: the 95 % confidence interval of the median, in microseconds.
        runs: the number of measurements.
    """

    outcome: str
    reason: str = ""
    us: float = 0.0
    interval: tuple[float, float] = (0.0, 0.0)
    runs: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Records:
    """The measurements on a GPU.

    Attributes:
        machine: the machine, with the `kernels` client's keys and `capability`, e.g. 90; 0 without a GPU.
        sources: the id of the measured sources.
        found: the records, by configuration and case.
    """

    machine: dict[str, Any]
    sources: str
    found: dict[tuple[Configuration, Case], Record] = field(default_factory=dict)

    @property
    def capability(self) -> int:
        """The capability of the GPU: 90 for 9.0; 0 without a GPU."""
        return int(self.machine.get("capability", 0))

    def correct(self, case: Case) -> dict[Configuration, Record]:
        """The configurations that were measured on a case."""
        return {config: r for (config, at), r in self.found.items() if at == case and r.outcome == CORRECT}

    def as_json(self, space: Space) -> dict[str, Any]:
        """The records as a value for JSON."""
        lines = [
            {
                "config": space.named(config),
                "case": dict(zip(space.sizes, case, strict=True)),
                "outcome": record.outcome,
                **({"reason": record.reason} if record.reason else {}),
                **(
                    {"us": record.us, "interval_us": [*record.interval], "runs": record.runs}
                    if record.outcome == CORRECT
                    else {}
                ),
            }
            for (config, case), record in sorted(self.found.items(), key=lambda item: (item[0][1], item[0][0]))
        ]
        return {"space": space.name, "sources": self.sources, "machine": {**self.machine}, "records": lines}


def file_of(directory: Path, space: Space, gpu: str) -> Path:
    """The path of the records of a GPU.

    Args:
        directory: the project's directory.
        space: the tuning space.
        gpu: the name of the GPU.
    """
    return directory / PLACE / f"{space.name}.{re.sub(r'[^a-z0-9]+', '-', gpu.lower()).strip('-')}.json"


def read_records(path: Path, space: Space) -> Records | None:
    """The records of a file that are valid for the current space; None if there is no file.

    Records of values, sizes and cases that the space no longer has are dropped, and so are those that a condition now
    excludes; earlier exclusions are evaluated again.

    Raises:
        DriverError: WRONG_TYPE if it has other content; PERMISSION.
    """
    if not is_file(path):
        return None
    with reading(path):
        text = path.read_bytes()
    try:
        table = json.loads(text)
        machine = {**table["machine"]}
        facts = {name: int(machine.get(name, 0)) for name in FACTS}
        lines = [parsed for line in table["records"] if (parsed := _record(line, space)) is not None]
        records = Records(machine=machine, sources=str(table["sources"]))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError):
        advice = "move it away; `driver tune` writes it anew"
        raise error(Code.WRONG_TYPE, f"{path} has no records of `driver tune`", help=advice) from None
    for at, record in lines:
        if record.outcome != EXCLUDED and not space.violated(*at, facts):
            records.found[at] = record
    return records


def _record(line: Any, space: Space) -> tuple[tuple[Configuration, Case], Record] | None:  # noqa: ANN401  (JSON)
    """A record of a file; None if the space has no such configuration or case.

    Raises:
        ValueError: it is not a record; also LookupError, TypeError, AttributeError and OverflowError.
    """
    if line["config"].keys() != set(space.parameters) or line["case"].keys() != set(space.sizes):
        return None
    config = tuple(int(line["config"][name]) for name in space.parameters)
    case = tuple(int(line["case"][name]) for name in space.sizes)
    known = all(value in values for value, values in zip(config, space.values, strict=True))
    if not known or case not in space.cases:
        return None
    outcome, (low, high) = line["outcome"], line.get("interval_us", (0.0, 0.0))
    times = (float(line.get("us", 0.0)), float(low), float(high))
    if outcome not in OUTCOMES or not all(math.isfinite(each) and each >= 0 for each in times):
        raise ValueError
    if outcome == CORRECT and not times[0]:
        raise ValueError
    runs = int(line.get("runs", 0))
    reason = str(line.get("reason", ""))
    return (config, case), Record(outcome=outcome, reason=reason, us=times[0], interval=times[1:], runs=runs)


def write_records(path: Path, records: Records, space: Space) -> None:
    """Write records atomically.

    Raises:
        DriverError: NO_SPACE or PERMISSION.
    """
    table = records.as_json(space)
    lines = ",\n".join(f"    {json.dumps(line)}" for line in table.pop("records"))
    head = json.dumps(table, indent=2).removesuffix("\n}")
    write(path, f'{head},\n  "records": [\n{lines}\n  ]\n}}\n'.encode())
