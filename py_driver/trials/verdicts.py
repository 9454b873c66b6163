"""Verdicts on candidates, in the order of their file, each as soon as it and all earlier ones are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from py_driver.errors import DriverError
from py_driver.trials.judge import job_of, judged
from py_driver.trials.places import errors_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from py_driver.inspecting.assembly import Kernel
    from py_driver.trials.build import Module
    from py_driver.trials.candidates import Candidate
    from py_driver.trials.projects import Sources

_NO_TIME: Final = "times are taken on a GPU, and this candidate is for the CPU"
_KERNEL: Final = ("name", "arch", "registers", "spills", "stack", "shared", "instructions", "is_entry")


def verdicts(
    candidates: Sequence[tuple[Candidate, Sources]],
    built: Mapping[str, Module | DriverError],
    python: str,
    timeout: float,
    kernels: Callable[[Module], Sequence[Kernel]],
) -> Generator[dict[str, Any]]:
    """Judge built candidates, and return a verdict for each, as a value for JSON.

    Args:
        candidates: the candidates, each with its sources.
        built: the results of the builds, by key.
        python: the interpreter with torch.
        timeout: the time limit of a candidate, in seconds.
        kernels: returns the GPU functions of a module.

    Raises:
        DriverError: see `judged`, and the errors of `kernels`.
    """
    firsts: dict[tuple[object, ...], str] = {}
    same: dict[str, str] = {}
    jobs = []
    for candidate, sources in candidates:
        module = built[sources.key]
        first = firsts.setdefault(_judged_by(candidate, sources), candidate.id)
        if first != candidate.id:
            same[candidate.id] = first
        elif not isinstance(module, DriverError):
            jobs.append(job_of(candidate, module, sources.family, timeout))
    answers = judged(jobs, python)
    told: dict[str, dict[str, Any]] = {}
    used: dict[str, list[dict[str, Any]]] = {}
    for candidate, sources in candidates:
        module = built[sources.key]
        if candidate.id in same:
            verdict = {**told[same[candidate.id]], "id": candidate.id, "line": candidate.line}
            yield {**verdict, "same-as": same[candidate.id]}
            continue
        if isinstance(module, DriverError):
            errors = errors_of(module, sources, candidate.arguments)
            verdict = {**_blank(candidate), "status": "failed", "stage": "build", "errors": errors}
        else:
            if sources.key not in used and sources.family != "cpu":
                used[sources.key] = [_resources(kernel) for kernel in kernels(module)]
            verdict = _verdict(candidate, sources, module, next(answers), used.get(sources.key, []))
        told[candidate.id] = verdict
        yield verdict
    for _ in answers:  # no answers: this lets the judging process end
        raise AssertionError


def _judged_by(candidate: Candidate, sources: Sources) -> tuple[object, ...]:
    """Equal for candidates with the same results and error positions."""
    arguments = repr(sorted(candidate.arguments.items()))
    return (
        sources.key,
        arguments,
        repr(sorted(candidate.files.items())),
        candidate.is_module,
        repr(sorted(candidate.check.items())),
    )


def _blank(candidate: Candidate) -> dict[str, Any]:
    """An empty verdict, with all keys."""
    return {
        "id": candidate.id,
        "line": candidate.line,
        "status": "",
        "stage": None,
        "errors": [],
        "notes": [],
        "reason": None,
        "worst": None,
        "time": None,
        "time-reason": None,
        "kernels": [],
        "seconds": {"build": None, "judge": None},
        "same-as": None,
    }


def _verdict(
    candidate: Candidate,
    sources: Sources,
    module: Module,
    answer: Mapping[str, Any],
    kernels: list[dict[str, Any]],
) -> dict[str, Any]:
    """The verdict on a built candidate."""
    keys = ("status", "stage", "reason", "worst", "time")
    verdict = {**_blank(candidate), **{key: answer[key] for key in keys if key in answer}, "notes": [*module.notes]}
    verdict["kernels"] = kernels
    if verdict["worst"]:
        verdict["worst"] = {key: value for key, value in verdict["worst"].items() if key != "excess"}
    empty = {"file": None, "line": None, "column": None, "text": None, "code": None}
    verdict["errors"] = [{**empty, **problem} for problem in answer.get("errors", [])]
    verdict["seconds"] = {"build": round(module.seconds, 3), "judge": answer["seconds"]}
    if verdict["time"] is None:
        verdict["time-reason"] = _NO_TIME if sources.family == "cpu" else _why_no_time(verdict)
    return verdict


def _why_no_time(verdict: Mapping[str, Any]) -> str:
    """Why a candidate for a GPU has no time."""
    if verdict["status"] == "built":
        return str(verdict["reason"])
    return f"the candidate is {verdict['status']}: only right ones are timed"


def _resources(kernel: Kernel) -> dict[str, Any]:
    """The resources of a GPU function."""
    return {key: getattr(kernel, key) for key in _KERNEL}
