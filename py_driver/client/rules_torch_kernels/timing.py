"""How long something takes: durations that the GPU reports, with a cold cache, until the median is known to 1 %."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PRECISION = 0.01
"""The width of the interval of the median, relative to the median, at which there are enough samples."""

_SECONDS = 2.0
"""How long to go on at most."""

_LEAST = 12
_MOST = 4000
_BATCH = 10
_WARM_UP = 3

_QUEUES = 10
_QUEUED = 20
"""Few calls for a stream, which holds some hundred launches: in a full one a call would wait for the GPU."""

_L2_TIMES = 4
_L2_UNKNOWN = 64 << 20
_MARKER = "spin_kernel"
"""The kernel of `torch.cuda._sleep`, which stands between a flush and what is timed."""


class Times(NamedTuple):
    """What was measured of one thing.

    Attributes:
        samples: microseconds, in the order of the runs.
        method: `cupti` for durations of kernels that the GPU reports, `events` for the time between two events on the
            stream, `host` for the host's clock; `none` for what ran nothing on the GPU, which has no samples.
    """

    samples: tuple[float, ...]
    method: str

    @property
    def median(self) -> float:
        """The median, in microseconds."""
        return _at(sorted(self.samples), len(self.samples) / 2 - 0.5)

    @property
    def interval(self) -> tuple[float, float]:
        """The interval in which the median lies with 95 %, from order statistics; in microseconds.

        The number of samples below the median is binomial, so no shape of the distribution is assumed (Hahn and Meeker,
        Statistical Intervals, 1991, section 5.2).
        """
        ordered = sorted(self.samples)
        half = 0.98 * math.sqrt(len(ordered))
        low = max(0, math.floor(len(ordered) / 2 - half))
        high = min(len(ordered) - 1, math.ceil(len(ordered) / 2 + half))
        return ordered[low], ordered[high]

    @property
    def known(self) -> bool:
        """Whether the median is known well enough."""
        low, high = self.interval
        return len(self.samples) >= _LEAST and high - low <= _PRECISION * self.median

    def as_json(self) -> dict[str, Any]:
        """The result as a value for JSON."""
        return {
            "median_us": self.median,
            "interval_us": [*self.interval],
            "runs": len(self.samples),
            "method": self.method,
        }


def _at(ordered: Sequence[float], position: float) -> float:
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def measure(calls: Sequence[Callable[[], Any]], device: str, needed: int | None = None) -> list[Times]:
    """Time some calls side by side: each round runs every one of them once.

    Args:
        calls: what to time.
        device: `cuda`, or another one for the host's clock.
        needed: how many of them, from the first, need times (default: all); another has none if it runs nothing on the
            GPU.

    Raises:
        ValueError: one that needs times stops running something on the GPU.
    """
    needed = len(calls) if needed is None else needed
    for call in calls:
        for _ in range(_WARM_UP):
            call()
    method, once = _method(calls, device, needed)
    samples: list[list[float]] = [[] for _ in calls]
    start = time.monotonic()
    while True:
        for found, more in zip(samples, once(_BATCH), strict=True):
            found.extend(more)
        times = times_of_calls(samples, method, needed)
        enough = all(time.known for time in times if time.samples) or len(samples[0]) >= _MOST
        if enough or (time.monotonic() - start > _SECONDS and len(samples[0]) >= _LEAST):
            return times


def times_of_calls(samples: Sequence[Sequence[float]], method: str, needed: int) -> list[Times]:
    """The times of calls; without samples for one that has run nothing on the GPU at least once, and needs none.

    Args:
        samples: microseconds of each call; with `cupti` 0 where it ran nothing on the GPU.
        method: as of `Times`.
        needed: how many of the calls, from the first, need times.

    Raises:
        ValueError: one of these ran nothing on the GPU.
    """
    idle = [method == "cupti" and not all(sample) for sample in samples]
    if any(idle[:needed]):
        raise ValueError("a call ran nothing on the GPU")
    return [
        Times((), "none") if is_idle else Times(tuple(sample), method)
        for is_idle, sample in zip(idle, samples, strict=True)
    ]


def get_ready() -> None:
    """Do on a GPU what the first measurement of a process would have to wait for, if it can be done."""
    import torch

    with suppress(RuntimeError, ValueError, AttributeError):
        values = torch.zeros(1, device="cuda")
        _by_cupti([lambda: values.add_(1)], values, 1)


def host_time(call: Callable[[], Any]) -> float:
    """The host's microseconds, as a median, for a call of something that runs on the GPU, until its work is queued.

    It is what a call costs beside the work: from Python through the dispatcher of torch to the launch.

    Args:
        call: what to time.
    """
    import torch

    samples: list[float] = []
    begin = time.monotonic()
    while len(samples) < _QUEUES * _QUEUED and not (samples and time.monotonic() - begin > _SECONDS):
        torch.cuda.synchronize()
        queue = time.monotonic()
        for _ in range(_QUEUED):
            start = time.perf_counter_ns()
            call()
            samples.append((time.perf_counter_ns() - start) / 1000)
            if time.monotonic() - queue > _SECONDS / _QUEUED:
                break
    torch.cuda.synchronize()
    return _at(sorted(samples), len(samples) / 2 - 0.5)


def _method(
    calls: Sequence[Callable[[], Any]], device: str, needed: int
) -> tuple[str, Callable[[int], list[list[float]]]]:
    """How to time here: the best way that works for the calls that need times, from the first."""
    if device != "cuda":
        return "host", lambda rounds: _by_clock(calls, rounds)
    import torch

    facts = torch.cuda.get_device_properties(torch.cuda.current_device())
    flush = torch.empty(_L2_TIMES * getattr(facts, "L2_cache_size", _L2_UNKNOWN), dtype=torch.uint8, device="cuda")
    try:
        times_of_calls(_by_cupti(calls, flush, 1), "cupti", needed)
    except (RuntimeError, ValueError, AttributeError):
        return "events", lambda rounds: _by_events(calls, flush, rounds)
    return "cupti", lambda rounds: _by_cupti(calls, flush, rounds)


def _by_clock(calls: Sequence[Callable[[], Any]], rounds: int) -> list[list[float]]:
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for samples, call in zip(found, calls, strict=True):
            start = time.perf_counter_ns()
            call()
            samples.append((time.perf_counter_ns() - start) / 1000)
    return found


def _by_events(calls: Sequence[Callable[[], Any]], flush: Any, rounds: int) -> list[list[float]]:  # noqa: ANN401
    import torch

    pairs: list[list[Any]] = [[] for _ in calls]
    for _ in range(rounds):
        for found, call in zip(pairs, calls, strict=True):
            flush.zero_()
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            call()
            end.record()
            found.append((start, end))
    torch.cuda.synchronize()
    return [[start.elapsed_time(end) * 1000 for start, end in found] for found in pairs]


def _by_cupti(calls: Sequence[Callable[[], Any]], flush: Any, rounds: int) -> list[list[float]]:  # noqa: ANN401
    """The durations of the kernels of each call, added up, as CUPTI reports them to torch.profiler.

    Raises:
        RuntimeError: they cannot be had.
        ValueError: the events are not those of the calls.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(rounds):
            for call in calls:
                flush.zero_()
                torch.cuda._sleep(1)  # noqa: SLF001  (the one kernel of torch that nothing else launches)
                call()
        flush.zero_()
        torch.cuda._sleep(1)  # noqa: SLF001
        torch.cuda.synchronize()
    events = profiler.profiler.kineto_results.events()
    on_gpu = sorted(
        ((event.start_ns(), event.name(), event.duration_ns()) for event in events if _is_on_gpu(event)),
        key=lambda pair: pair[0],
    )
    return spread(on_gpu, len(calls), rounds)


def _is_on_gpu(event: Any) -> bool:  # noqa: ANN401  (an event of Kineto)
    annotation = getattr(event, "is_user_annotation", None)
    return str(event.device_type()).endswith("CUDA") and not (annotation is not None and annotation())


def spread(events: Sequence[tuple[int, str, int]], calls: int, rounds: int) -> list[list[float]]:
    """The microseconds of each call, by call and round; 0 for one that ran nothing on the GPU.

    Args:
        events: what ran on the GPU, in order: start, name and duration in nanoseconds. Before each call, and after the
            last one, there is a flush, which is one event, and then the marker.
        calls: how many calls a round has.
        rounds: how many rounds there were.

    Raises:
        ValueError: these are not the events of so many calls.
    """
    groups: list[list[tuple[int, str, int]]] = [[]]
    for event in events:
        if _MARKER in event[1]:
            groups.append([])
        else:
            groups[-1].append(event)
    between = groups[1:-1]
    if len(between) != calls * rounds or not all(between):
        raise ValueError(f"{len(between)} calls are in the events, not {calls * rounds}")
    sums = [sum(duration for _, _, duration in group[:-1]) / 1000 for group in between]
    return [sums[call::calls] for call in range(calls)]
