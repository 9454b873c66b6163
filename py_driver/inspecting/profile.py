"""Nsight Compute's report on the kernels of a workload: selected rows, and its advice. Pure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import tomli

from py_driver.resources import resource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_STALL: Final = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")
_NO_STALL: Final = ("selected", "not_selected")
_LINK: Final = re.compile(r"@(?:section|url):([^:@]*:)*?([^:@]+)(?::https?://[^@]*)?@")
_OF_ADVICE: Final = 2
"""The type of a message that proposes something (NvRules: IMsg_MSG_OPTIMIZATION)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Profiled:
    """A launch of a kernel.

    Attributes:
        kernel: its name.
        values: the value of each row in the row's unit, by name.
        stall: the main stall reason of warps, and its share of the time between two instructions; empty if not
            measured.
        advice: Nsight Compute's proposals, the largest gain first.
    """

    kernel: str
    values: Mapping[str, float]
    stall: str
    advice: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The launch as a value for JSON."""
        return {"kernel": self.kernel, "values": {**self.values}, "stall": self.stall, "advice": [*self.advice]}


@cache
def _rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomli.loads(resource("profile.toml"))["row"]
    return found


def profiled(told: Mapping[str, Any]) -> Profiled:
    """A launch from the data of a report.

    Args:
        told: `name`, `metrics` by name, and `rules` as ncu_report returns them.
    """
    metrics = told["metrics"]
    values = {
        row["name"]: float(metrics[row["metric"]]) * row.get("scale", 1)
        for row in _rows()
        if isinstance(value := metrics.get(row["metric"]), int | float) and math.isfinite(value)
    }
    return Profiled(kernel=told["name"], values=values, stall=_stall(metrics), advice=_advice(told["rules"]))


def _stall(metrics: Mapping[str, Any]) -> str:
    """The main stall reason of warps."""
    found = {match[1]: metrics[name] for name in metrics if (match := _STALL.fullmatch(name))}
    waits = {name: value for name, value in found.items() if name not in _NO_STALL and value}
    if not waits:
        return ""
    worst = max(waits, key=lambda name: float(waits[name]))
    return f"{worst.replace('_', ' ')}, {waits[worst] / sum(found.values()):.0%} of the time"


def _advice(rules: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Nsight Compute's proposals."""
    found = []
    for rule in rules:
        message = rule.get("rule_message", {})
        if message.get("type") != _OF_ADVICE:
            continue
        gain = rule.get("speedup_estimation", {}).get("speedup", 0.0)
        title = message.get("title") or rule.get("name", "")
        text = _LINK.sub(lambda link: link[2], message.get("message", ""))
        found.append((gain, f"{title}: {text}"))
    return tuple(text for _, text in sorted(found, key=lambda pair: -pair[0]))


def table(launches: Sequence[Profiled], earlier: Sequence[Profiled] = ()) -> list[tuple[str, ...]]:
    """The rows of a table with a column for each launch, and beside it the earlier value, if known.

    Args:
        launches: the launches to show.
        earlier: earlier launches for comparison, in the same order.
    """
    columns = [*launches, *earlier]
    rows = [("kernel", *(launch.kernel for launch in launches), *(f"{launch.kernel}, earlier" for launch in earlier))]
    rows += [
        (row["name"], *(_shown(column.values.get(row["name"]), row["unit"]) for column in columns))
        for row in _rows()
        if any(row["name"] in column.values for column in columns)
    ]
    if any(column.stall for column in columns):
        rows.append(("top stall", *(column.stall for column in columns)))
    return rows


def _shown(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    number = f"{value:.0f}" if value == int(value) else f"{value:.2f}"
    return f"{number} {unit}".rstrip()
