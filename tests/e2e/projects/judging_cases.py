"""What `rules_torch_kernels.judging` says of answers; run by a Python with torch as `python judging_cases.py`."""

from __future__ import annotations

import math
import os
from typing import Any

import torch
from rules_torch_kernels.comparing import compare
from rules_torch_kernels.judging import judged_in_turn, make_inputs, run

NAN, INFINITE = math.nan, math.inf
BIG = 2**60


def status(got: Any, wanted: Any, tolerance: Any = None) -> str:  # noqa: ANN401  (any answer)
    """Of a comparison."""
    return str(compare(got, wanted, tolerance)["status"])


def tensor(*values: Any, dtype: torch.dtype | None = None) -> torch.Tensor:  # noqa: ANN401  (numbers)
    """A tensor of numbers."""
    return torch.tensor(values, dtype=dtype)


def comparisons() -> None:
    """Numbers that are no usual ones, and answers of another form."""
    for got, wanted, said in [
        (tensor(1.0, NAN), tensor(1.0, NAN), "right"),
        (tensor(1.0, 2.0), tensor(1.0, NAN), "wrong"),
        (tensor(1.0, NAN), tensor(1.0, 2.0), "wrong"),
        (tensor(INFINITE), tensor(INFINITE), "right"),
        (tensor(-INFINITE), tensor(INFINITE), "wrong"),
        (tensor(1.0), tensor(INFINITE), "wrong"),
        (tensor(INFINITE), tensor(1.0), "wrong"),
        (tensor(1.0), tensor(1.0, dtype=torch.float64), "wrong"),
        (tensor(1.0), tensor(1.0, 1.0), "wrong"),
        (tensor(1.0).reshape(1, 1), tensor(1.0), "wrong"),
        (tensor(BIG), tensor(BIG + 1), "wrong"),
        (tensor(-(2**63)), tensor(2**63 - 1), "wrong"),
        (tensor(True, False), tensor(True, True), "wrong"),
        (tensor(1 + 1j), tensor(1 + 1j), "right"),
        (tensor(1 + 1j), tensor(1 - 1j), "wrong"),
        (tensor(1.0, dtype=torch.bfloat16), tensor(1.0078125, dtype=torch.bfloat16), "right"),
        (torch.empty(0, 3), torch.empty(0, 3), "right"),
        (3, 3, "right"),
        (3, 4, "wrong"),
        ("a", "b", "wrong"),
        (None, tensor(1.0), "wrong"),
        ([tensor(1.0)], tensor(1.0), "wrong"),
        (tensor(1.0), [tensor(1.0)], "wrong"),
        ((tensor(1.0), 2), [tensor(1.0), 2], "right"),
        ([tensor(1.0), tensor(1.0)], [tensor(1.0)], "wrong"),
    ]:
        assert status(got, wanted) == said, (got, wanted)
    assert status(tensor(1.0), tensor(1.1), 0.1) == "right"
    assert status(tensor(1.0), tensor(1.1), {"atol": 0.05}) == "wrong"
    assert status(tensor(1.0), tensor(1.1), {"rtol": 0.1}) == "right"


def worst_elements() -> None:
    """The one that is farthest beyond the tolerance, and of which output."""
    wanted = torch.tensor([[1.0, 1000.0], [1.0, 1.0]])
    got = torch.tensor([[1.0, 1001.0], [1.5, 1.0]])
    found = compare(got, wanted, {"rtol": 0.01})
    assert found["worst"]["index"] == [1, 0], found
    assert (found["worst"]["got"], found["worst"]["wanted"], found["worst"]["error"]) == (1.5, 1.0, 0.5)
    assert found["reason"] == "1 of 4 elements differ by more than 0 + 0.01 * |wanted|", found
    found = compare([wanted, got], [wanted, wanted], 0.0)
    assert (found["worst"]["output"], found["worst"]["index"]) == (1, [0, 1]), found
    assert found["reason"].startswith("output 1: 2 of 4 elements"), found
    assert compare(tensor(1.0, 2.0), tensor(1.0, NAN), None)["worst"] == {
        "index": [1],
        "got": 2.0,
        "wanted": "nan",
        "error": "nan",
        "excess": "inf",
    }
    found = compare([tensor(2.0), tensor(1.0)], [tensor(1.0), tensor(1.0, 1.0)], None)
    assert found["reason"] == "output 1: shape (1,) instead of (2,)", found


def inputs() -> None:
    """The same each time, in their ranges."""
    described = [{"shape": [50, 2]}, {"shape": [99], "dtype": "int8", "low": -3, "high": 3}, 2, "text", None]
    first, again, other = (make_inputs(described, "cpu", seed) for seed in (0, 0, 1))
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    assert not torch.equal(first[0], other[0])
    assert first[2:] == [2, "text", None]
    assert sorted(first[1].unique().tolist()) == [-3, -2, -1, 0, 1, 2]
    for name in ("float16", "bfloat16", "float64", "complex64", "float8_e4m3fn", "bool", "uint8"):
        [found] = make_inputs([{"shape": [9], "dtype": name}], "cpu", 0)
        assert found.dtype is getattr(torch, name), name
    [found] = make_inputs([{"shape": [99], "low": 5, "high": 6}], "cpu", 0)
    assert 5 <= found.min() < found.max() <= 6  # noqa: PLR2004  (as described)
    code = "inputs = lambda: (torch.rand(3, device=device), 1)"
    assert torch.equal(make_inputs(code, "cpu", 7)[0], make_inputs(code, "cpu", 7)[0])


def processes() -> None:
    """Those that leave something behind, or print."""
    job = {"id": "x", "path": "/nowhere", "library": "", "device": "cpu", "timeout": 1.0, "module": "json"}
    check = {"call": "dumps", "inputs": "inputs = [1]", "reference": "reference = lambda x: '1'"}
    assert run({**job, "check": check})["status"] == "right"
    assert run({**job, "check": check, "module": "no_such"})["stage"] == "load"
    assert run({**job, "check": {**check, "call": "dump.no"}})["stage"] == "load"
    printing = "import os, subprocess\nsubprocess.Popen(['sleep', '60'])\nprint('{}')\nos.write(1, b'{}')\ninputs = [1]"
    assert run({**job, "check": {**check, "inputs": printing}})["status"] == "right"
    found = run({**job, "check": {**check, "inputs": "while True: pass"}})
    assert found["errors"][0]["message"] == "no answer after 1 seconds, in the stage `inputs`", found
    found = run({**job, "check": {**check, "reference": "import sys\nsys.exit('enough')"}})
    assert (found["stage"], found["errors"][0]["message"]) == ("reference", "SystemExit: enough"), found
    assert "judging.py" not in found["errors"][0]["text"], found


def several() -> None:
    """Those that wait while others are judged, for a GPU as if there were one: in order, and none is left."""
    check = {"call": "dumps", "inputs": "inputs = [1]", "reference": "reference = lambda x: '1'"}
    job = {"path": "/nowhere", "library": "", "timeout": 9.0, "module": "json", "check": check}
    devices = ["cuda", "cpu", "cuda", "cpu", "cuda", "cpu", "cuda"]
    jobs = [{**job, "id": str(number), "device": device} for number, device in enumerate(devices)]
    statuses = {"cuda": "right" if torch.cuda.is_available() else "built", "cpu": "right"}
    found = [(answer["id"], answer["status"]) for answer in judged_in_turn(jobs)]
    assert found == [(str(number), statuses[device]) for number, device in enumerate(devices)], found
    answers = judged_in_turn(jobs)
    assert next(answers)["id"] == "0"
    answers.close()
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return
    raise AssertionError("a process is left")


if __name__ == "__main__":
    for case in (comparisons, worst_elements, inputs, processes, several):
        case()
    print("right")  # noqa: T201
