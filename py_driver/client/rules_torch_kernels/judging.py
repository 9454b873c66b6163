"""Judges candidates of a kernel: each in a process of its own, which may crash or hang, by its answers and its time.

Run as `python -m rules_torch_kernels.judging`: stdin has the candidates as JSON, stdout gets a line of JSON for each,
in their order. torch is imported once; each candidate has a copy of this process.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import sys
import time
import traceback
from collections import deque
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from rules_torch_kernels.comparing import compare, wrong

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_CHUNK = 1 << 16
_AHEAD = 4
"""How many processes get ready at once, on half of the cores at most: each has half a gigabyte of a GPU's memory."""

_LINES = 30
"""How many lines of a traceback are told."""

_STAGES = ("load", "inputs", "call", "reference", "compare", "time")
"""What is done with a candidate, in this order."""


def judge(job: Mapping[str, Any], tell: Any) -> dict[str, Any]:  # noqa: ANN401  (a callable)
    """What a candidate answers.

    The candidate is called first, on inputs of its own, and the reference afterwards: memory that a candidate does not
    write cannot have the right values of an earlier call.

    Args:
        job: the candidate; see `py_driver.trials.judge`.
        tell: is called with each stage when it begins.

    Raises:
        Exception: what the candidate or its check raises.
    """
    tell("load")
    device = job["device"]
    if device == "cuda" and (why := _no_gpu()):
        return {"status": "built", "reason": why}
    module = _loaded(job)
    check = job["check"]
    if not check:
        return {"status": "built", "reason": "the candidate has no `reference`"}
    function = _function(check["call"], module)
    tell("inputs")
    inputs = make_inputs(check["inputs"], device, check.get("seed", 0))
    own, others, timed = (_copied(inputs) for _ in range(3))
    tell("call")
    got = function(*own)
    if device == "cuda":
        # A launch that failed is told to the next one that asks: one of torch here, and none of a later stage.
        torch.zeros(1, device=device)
        torch.cuda.synchronize()
    tell("reference")
    wanted = _named(check["reference"], "reference", device)(*others)
    tell("compare")
    if got is None and wanted is not None:
        return wrong("the call returns nothing, and the reference does")
    found = compare(own if got is None else got, others if wanted is None else wanted, check.get("tolerance"))
    if found["status"] == "right" and device == "cuda":
        tell("time")
        from rules_torch_kernels.timing import measure

        [times] = measure([lambda: function(*timed)], device)
        found["time"] = times.as_json()
    return found


def _no_gpu() -> str:
    """Why nothing can run on a GPU; empty if it can."""
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    return "" if torch.cuda.is_available() else "there is no GPU that torch can use"


def _loaded(job: Mapping[str, Any]) -> Any:  # noqa: ANN401  (a module)
    """The module of a candidate; None if it only registers ops."""
    sys.path.insert(0, job["path"])
    if job["library"]:
        torch.ops.load_library(job["library"])
        return None
    return importlib.import_module(job["module"])


def _function(name: str, module: Any) -> Any:  # noqa: ANN401
    """The function that is judged: of the module, or `torch.ops.NAMESPACE.NAME`.

    Raises:
        AttributeError: there is none.
    """
    root, words = (torch, name.split(".")[1:]) if name.startswith("torch.") else (module, name.split("."))
    for word in words:
        root = getattr(root, word)
    return root


def _named(code: str, name: str, device: str) -> Any:  # noqa: ANN401
    """What code gives a name.

    Raises:
        Exception: what the code raises; NameError if it does not define the name.
    """
    names: dict[str, Any] = {"torch": torch, "device": device}
    exec(compile(code, f"<{name}>", "exec"), names)  # noqa: S102  (the author's own code)
    if name not in names:
        raise NameError(f"the code does not define `{name}`")
    return names[name]


def make_inputs(described: str | Sequence[Any], device: str, seed: int) -> list[Any]:
    """The arguments of a call, the same ones each time.

    Args:
        described: code that defines `inputs`, or a value or the description of a tensor for each argument.
        device: where tensors are.
        seed: of the random numbers.

    Raises:
        Exception: what the code raises; TypeError for an unknown dtype.
    """
    torch.manual_seed(seed)
    if isinstance(described, str):
        found = _named(described, "inputs", device)
        return list(found() if callable(found) else found)
    generator = torch.Generator().manual_seed(seed)
    return [_tensor(part, generator).to(device) if isinstance(part, dict) else part for part in described]


def _tensor(described: Mapping[str, Any], generator: torch.Generator) -> torch.Tensor:
    """A tensor with random numbers: normal ones, or from `low` to `high`."""
    name, shape = described.get("dtype", "float32"), described["shape"]
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"`{name}` is no dtype of torch")
    low, high = described.get("low"), described.get("high")
    if dtype is torch.bool or not (dtype.is_floating_point or dtype.is_complex):
        usual = 2 if dtype is torch.bool else 10
        least, end = 0 if low is None else int(low), usual if high is None else int(high)
        return torch.randint(least, end, shape, generator=generator).to(dtype)
    if low is None and high is None:
        kind = dtype if dtype.is_complex else torch.float32 if dtype.itemsize < 4 else dtype  # noqa: PLR2004
        return torch.randn(shape, generator=generator, dtype=kind).to(dtype)
    first, last = 0.0 if low is None else float(low), 1.0 if high is None else float(high)
    return (torch.rand(shape, generator=generator, dtype=torch.float64) * (last - first) + first).to(dtype)


def _copied(value: Any) -> Any:  # noqa: ANN401
    """Inputs whose tensors are copies, with their strides."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if type(value) is dict:
        return {key: _copied(part) for key, part in value.items()}
    return type(value)(map(_copied, value)) if type(value) in {list, tuple} else value


def _child(job: Mapping[str, Any], pipe: int, gate: int) -> None:
    """Judge a candidate, in a process of its own, and write what is found to a pipe: a line for each stage, and one."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what a candidate prints is no answer

    def tell(value: Any) -> None:  # noqa: ANN401  (a value for JSON)
        os.write(pipe, (json.dumps(value) + "\n").encode())

    stage = ["load"]

    def enter(name: str) -> None:
        stage[0] = name
        tell(name)

    if job["device"] == "cuda" and job["check"] and not _no_gpu():
        from rules_torch_kernels.timing import get_ready

        get_ready()
    if not os.read(gate, 1):
        return
    try:
        result = judge(job, enter)
    except BaseException as problem:  # noqa: BLE001  (also SystemExit of the candidate)
        lines = _told(problem)
        text = "".join(lines).splitlines()[-_LINES:]
        message = next((line for line in "".join(traceback.format_exception_only(problem)).splitlines() if line), "")
        error = {"message": message, "text": "\n".join(text)}
        result = {"status": "failed", "stage": stage[0], "errors": [error]}
    tell(result)


def _told(problem: BaseException) -> list[str]:
    """A traceback, without the calls of this program."""
    told = traceback.TracebackException.from_exception(problem)
    kept = [frame for frame in told.stack if frame.filename != __file__]
    told.stack[:] = kept
    return [*told.format()]


class Begun(NamedTuple):
    """A process for a candidate, which has got ready and waits to be told to judge it.

    Attributes:
        job: the candidate.
        pid: of the process, which leads a group.
        reading: where its stages and its answer come from.
        gate: what it waits at: it begins with the first byte, and ends itself if the gate is closed without one.
    """

    job: Mapping[str, Any]
    pid: int
    reading: int
    gate: int

    def open(self) -> None:
        """Let it judge the candidate."""
        with suppress(BrokenPipeError):  # it has ended already, and its answer says so
            os.write(self.gate, b"1")

    def end(self) -> None:
        """End it, whatever it does."""
        os.close(self.gate)
        os.close(self.reading)
        _ended(self.pid, 0.0)


def begin(job: Mapping[str, Any], beside: Sequence[Begun] = ()) -> Begun:
    """Start a process for a candidate.

    On a GPU it gets ready at once: CUPTI takes seconds to start, in each process anew (7 s of one core on an H100).

    Args:
        job: the candidate.
        beside: processes that wait: the new one closes their pipes, so that they see when this process has ended.
    """
    reading, writing = os.pipe()
    waiting, gate = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            for other in (reading, gate, *(end for begun in beside for end in (begun.reading, begun.gate))):
                os.close(other)
            _child(job, writing, waiting)
        finally:
            os._exit(0)
    os.close(writing)
    os.close(waiting)
    return Begun(job, pid, reading, gate)


def run(job: Mapping[str, Any]) -> dict[str, Any]:
    """Judge a candidate in a process of its own, for so long as it may take; see `judged`."""
    return judged(begin(job))


def judged(begun: Begun) -> dict[str, Any]:
    """Let a process judge its candidate, for so long as that may take.

    Args:
        begun: the process, which has ended afterwards.
    """
    job, written, wait = begun.job, b"", 0.0
    start = time.monotonic()
    end = start + job["timeout"]
    begun.open()
    try:
        while (left := end - time.monotonic()) > 0:
            if not select.select([begun.reading], [], [], left)[0]:
                break
            chunk = os.read(begun.reading, _CHUNK)
            written += chunk
            if not chunk or _answer(written) is not None:
                break
        result, stage = _answer(written), _stage(written)
        wait = min(max(end - time.monotonic(), 0.0), 1.0) if result is None else 0.0
    finally:
        ended = _ended(begun.pid, wait)
        os.close(begun.reading)
        os.close(begun.gate)
    if result is None:
        result = {"status": "failed", "stage": stage, "errors": [{"message": _why(ended, stage, job["timeout"])}]}
    return {"id": job["id"], **result, "seconds": round(time.monotonic() - start, 3)}


def judged_in_turn(jobs: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Judge candidates one after another; on a GPU the processes of the next ones get ready meanwhile.

    Args:
        jobs: the candidates.
    """
    on_gpu = any(job["device"] == "cuda" for job in jobs)
    ahead = min(_AHEAD, len(os.sched_getaffinity(0)) // 2) if on_gpu else 0
    left = iter(jobs)
    waiting: deque[Begun] = deque()
    try:
        while True:
            for job in islice(left, ahead + 1 - len(waiting)):
                waiting.append(begin(job, waiting))
            if not waiting:
                return
            yield judged(waiting.popleft())
    finally:
        for begun in waiting:
            begun.end()


def _ended(pid: int, wait: float) -> int | None:
    """How a process ended, by itself; None if it had to be ended. What it has started is ended, too."""
    end, status = time.monotonic() + wait, None
    while status is None:
        done, code = os.waitpid(pid, os.WNOHANG)
        if done:
            status = code
        elif time.monotonic() >= end:
            break
        else:
            time.sleep(0.005)
    for end_it in (os.killpg, *([os.kill] if status is None else [])):
        with suppress(ProcessLookupError, PermissionError):
            end_it(pid, signal.SIGKILL)
    if status is None:
        os.waitpid(pid, 0)
    return status


def _why(ended: int | None, stage: str, limit: float) -> str:
    """What kept a candidate from an answer."""
    if ended is None:
        return f"no answer after {limit:g} seconds, in the stage `{stage}`"
    if os.WIFSIGNALED(ended):
        number = os.WTERMSIG(ended)
        return f"the process was ended by {signal.Signals(number).name} in the stage `{stage}`"
    return f"the process ended with exit code {os.WEXITSTATUS(ended)} in the stage `{stage}`"


def _lines(written: bytes) -> list[Any]:
    return [json.loads(line) for line in written.split(b"\n")[:-1]]


def _answer(written: bytes) -> dict[str, Any] | None:
    """The answer among what a process has written; None if there is none yet."""
    return next((value for value in _lines(written) if isinstance(value, dict)), None)


def _stage(written: bytes) -> str:
    return next((value for value in reversed(_lines(written)) if isinstance(value, str)), _STAGES[0])


def main() -> None:
    """Judge the candidates of stdin; a signal to end ends the process of a candidate, too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    for answer in judged_in_turn(json.load(sys.stdin)):
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
