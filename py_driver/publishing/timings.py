"""Times from the reports of `kernels benchmark` and `driver bench`, and their comparison. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

SAME: Final = "same"
FASTER: Final = "faster"
SLOWER: Final = "slower"


class Against(NamedTuple):
    """The comparison of a workload with its reference.

    Attributes:
        own: the kernel's median time, in milliseconds.
        median: the reference's median time, in milliseconds.
        ratio: speed of the kernel relative to the reference.
        verdict: `same`, `faster` or `slower`.
    """

    own: float
    median: float
    ratio: float
    verdict: str


class Timing(NamedTuple):
    """A workload in a benchmark's report; milliseconds.

    Attributes:
        workload: its name.
        mean: the mean of all runs.
        low: the shortest run.
        iqr: the interquartile range.
        against: the comparison with a reference, in a report of `driver bench` that has one.
    """

    workload: str
    mean: float
    low: float
    iqr: float
    against: Against | None

    def as_json(self) -> dict[str, Any]:
        """The workload as a value for JSON."""
        value = {"workload": self.workload, "mean-ms": self.mean, "min-ms": self.low, "iqr-ms": self.iqr}
        if not self.against:
            return value
        own, median, ratio, word = self.against
        return {**value, "median-ms": own, "reference-median-ms": median, "speed": ratio, "verdict": word}


class Figures(NamedTuple):
    """A benchmark's report.

    Attributes:
        machine: GPU, torch and backend.
        timings: one for each workload.
    """

    machine: str
    timings: tuple[Timing, ...]


def verdict(times: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[float, str]:
    """Compare two measurements: the speed of the first relative to the second, and a verdict.

    The verdict is `same` unless the intervals of the medians are disjoint.

    Args:
        times: the first measurement.
        other: the second measurement.
    """
    ratio = other["median_us"] / times["median_us"] if times["median_us"] else 0.0
    (low, high), (other_low, other_high) = times["interval_us"], other["interval_us"]
    if high < other_low:
        return ratio, FASTER
    return ratio, SLOWER if low > other_high else SAME


def checked(times: Any) -> Mapping[str, Any]:  # noqa: ANN401  (JSON)
    """Validate times; returns a copy.

    Raises:
        ValueError: the times are not valid; also LookupError and TypeError.
    """
    low, high = times["interval_us"]
    if not all(
        isinstance(value, int | float) and 0 <= value < float("inf") for value in (low, high, times["median_us"])
    ):
        raise ValueError
    return {**times}


def figures(text: str) -> Figures | None:
    """Read a report of `kernels benchmark` (kernels 0.17, `BenchmarkResult.to_payload`) or `driver bench`.

    Workloads without times are left out.

    Args:
        text: the text of the report.

    Returns:
        None for other JSON, and for a report without times.
    """
    try:
        report = json.loads(text)
        machine = report["machineInfo"]
        timings = tuple(_timing(result) for result in report["results"] if "timingResults" in result)
        where = f"{machine['gpu']}, torch {machine['pytorchVersion']}, {machine['backend']}"
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
        return None
    return Figures(machine=plain(where), timings=timings) if timings else None


def _timing(workload: Mapping[str, Any]) -> Timing:
    """Read a workload.

    Raises:
        ValueError: it is not valid; also LookupError, TypeError and OverflowError.
    """
    mean, low, iqr = (float(workload["timingResults"][key]) for key in ("mean_ms", "min_ms", "iqr_ms"))
    if not all(0 <= value < float("inf") for value in (mean, low, iqr)):
        raise ValueError
    against = None
    if "times" in workload and "reference" in workload:
        times, reference = checked(workload["times"]), checked(workload["reference"])
        ratio, word = verdict(times, reference)
        own, median = times["median_us"] / 1000, reference["median_us"] / 1000
        against = Against(own=own, median=median, ratio=ratio, verdict=word)
    return Timing(workload=plain(workload["workload"]), mean=mean, low=low, iqr=iqr, against=against)


def plain(text: object) -> str:
    """Text that stays within its cell of a table."""
    return " ".join(str(text).split()).replace("|", "/").replace("`", "'")
