"""`driver batch`: candidates that are right, wrong, do not compile, or give no answer, built and judged together."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from clone import CPU, PROJECTS, Driver

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

BINDING = """void run(float* y, const float* x, float f, long n);
torch::Tensor scaled(torch::Tensor x, double f) {
  auto y = torch::empty_like(x);
  run(y.data_ptr<float>(), x.data_ptr<float>(), f, x.numel());
  return y;
}"""
KERNEL = """#include <cstdlib>
#include "size.h"
void run(float* y, const float* x, float f, long n) {
  for (long i = 0; i < n; i++) %s;
}
"""
WHOLE = "torch::Tensor scaled(torch::Tensor x, double f) { return x * %s; }"
OPERATOR = 'TORCH_LIBRARY(batch_test, m) { m.def("twice", [](at::Tensor x) { return 2 * x; }); }'
CHECK = {"inputs": [{"shape": [7, 5]}, 2.5], "reference": "def reference(x, f):\n    return x * f\n"}
CUDA = """__global__ void scale(float* y, const float* x, float f, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = %s;
}
void run(float* y, const float* x, float f, long n) { scale<<<(n + 255) / 256, 256>>>(y, x, f, n); }
"""


def _kernel(name: str, statement: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401  (values of JSON)
    files = {"kernel.cpp": KERNEL % statement, "size.h": "constexpr int size = 1;\n"}
    return {"id": name, "cpp_sources": BINDING, "functions": "scaled", "files": files, **CHECK, **more}


def _whole(name: str, factor: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401  (values of JSON)
    return {"id": name, "name": "whole", "cpp_sources": WHOLE % factor, "functions": ["scaled"], **CHECK, **more}


def _batch(driver: Driver, place: Path, *candidates: dict[str, Any], options: tuple[str, ...] = ()) -> dict[str, Any]:
    place.mkdir(parents=True, exist_ok=True)
    file = place / "candidates.jsonl"
    file.write_text("".join(json.dumps(candidate) + "\n" for candidate in candidates), encoding="utf-8")
    python = python_for([parse(CPU)], Releases(), Output())
    done = driver.run("batch", file, "--python", python, *options)
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    assert [verdict["id"] for verdict in verdicts] == [candidate["id"] for candidate in candidates]
    return {**{verdict["id"]: verdict for verdict in verdicts}, "told": done.stderr}


def test_answers_are_judged(clone: Driver) -> None:
    python = python_for([parse(CPU)], Releases(), Output())
    environ = clone.environment({"PYTHONPATH": str(clone.root / "py_driver" / "client")})
    command = [python, str(PROJECTS / "judging_cases.py")]
    done = subprocess.run(command, cwd="/", env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr


@pytest.mark.slow
def test_candidates_for_the_cpu(clone: Driver, base: Path) -> None:
    found = _batch(
        clone,
        base / "batch",
        _kernel("right", "y[i] = x[i] * f"),
        _kernel("wrong", "y[i] = x[i] * f + (i == 12)"),
        _kernel("nothing written", "(void)size"),
        _kernel("no compile", "y[i] = x[j] * f"),
        _kernel("crash", "*(volatile int*)16 = 1"),
        _kernel("hang", "i -= 1, *(volatile float*)y = 0"),
        _kernel("exit", "std::exit(0)"),
        _kernel("again", "y[i] = x[i] * f"),
        _kernel("no reference", "y[i] = 0", reference="1 / 0"),
        _kernel("no flag", "y[i] = 0", extra_cflags=["-fsanitize=address"]),
        _whole("code", "f", inputs="def inputs():\n    return torch.ones(3), 2.0\n"),
        _whole("raises", '[&] { TORCH_CHECK(false, "not this"); return f; }()'),
        _whole("not compiled", "g"),
        {
            "id": "operator",
            "cpp_sources": OPERATOR,
            "is_python_module": False,
            "call": "torch.ops.batch_test.twice",
            "inputs": "inputs = [torch.ones(2, device=device)]",
            "reference": "reference = lambda x: x + x",
        },
        {
            "id": "built",
            "cpp_sources": "int f() { return 1; }",
            "functions": "f",
            "extra_ldflags": ["-lunheard"],
        },
        options=("--timeout", "5"),
    )
    assert {name: verdict["status"] for name, verdict in found.items() if name != "told"} == {
        **dict.fromkeys(["right", "again", "code", "operator"], "right"),
        **dict.fromkeys(["wrong", "nothing written"], "wrong"),
        **dict.fromkeys(
            ["no compile", "crash", "hang", "exit", "no reference", "no flag", "raises", "not compiled"], "failed"
        ),
        "built": "built",
    }
    worst = found["wrong"]["worst"]
    assert (worst["index"], round(worst["got"] - worst["wanted"], 4), round(worst["error"], 4)) == ([2, 2], 1, 1)
    assert found["wrong"]["reason"].startswith("1 of 35 elements differ by more than ")
    assert found["again"]["same-as"] == "right"
    stages = {name: verdict["stage"] for name, verdict in found.items() if name != "told" and verdict["stage"]}
    assert stages == {
        **dict.fromkeys(["no compile", "no flag", "not compiled"], "build"),
        **dict.fromkeys(["crash", "hang", "exit", "raises"], "call"),
        "no reference": "reference",
    }
    places = {name: [found[name]["errors"][0][key] for key in ("file", "line", "column")] for name in stages}
    assert places["no compile"] == ["kernel.cpp", 4, 41]
    assert places["not compiled"] == ["cpp_sources", 1, 62]
    messages = {name: found[name]["errors"][0]["message"] for name in stages}
    assert messages["no compile"] == "use of undeclared identifier 'j'"
    assert messages["crash"] == "the process was ended by SIGSEGV in the stage `call`"
    assert messages["hang"] == "no answer after 5 seconds, in the stage `call`"
    assert messages["exit"] == "the process ended with exit code 0 in the stage `call`"
    assert messages["raises"].startswith("RuntimeError: not this")
    assert messages["no reference"] == "ZeroDivisionError: division by zero"
    assert "-fsanitize=address" in messages["no flag"]
    assert found["built"]["notes"] == [
        "candidate links `unheard`, which no toolchain has; the ABI check fails if it calls it"
    ]
    assert "projects/" not in json.dumps([verdict for name, verdict in found.items() if name != "told"])
    assert found["right"]["time"] is None
    assert "for the CPU" in found["right"]["time-reason"]

    # What was built is found again, beside other candidates.
    later = _batch(clone, base / "batch", _kernel("new", "y[i] = f * x[i]"), _kernel("right", "y[i] = x[i] * f"))
    assert [later[name]["status"] for name in ("new", "right")] == ["right", "right"]
    assert "2 candidates, 2 of them different: 1 action ran, " in later["told"]


def test_candidates_for_a_gpu_are_built_without_one(clone: Driver, base: Path) -> None:
    cuda = {"cpp_sources": BINDING, "functions": "scaled", **CHECK}
    found = _batch(
        clone,
        base / "batch",
        {"id": "built", **cuda, "files": {"kernel.cu": CUDA % "x[i] * f"}},
        {"id": "failed", **cuda, "files": {"kernel.cu": CUDA % "x[j] * f"}},
        options=("--archs", "9.0"),
    )
    built, failed = found["built"], found["failed"]
    assert (built["status"], built["time"]) == ("built", None)
    assert "without CUDA" in built["reason"]
    assert built["time-reason"] == built["reason"]
    [kernel] = built["kernels"]
    assert (kernel["name"], kernel["arch"], kernel["spills"]) == ("scale(float*, float const*, float, int)", "9.0", 0)
    assert 0 < kernel["registers"] < 32
    assert failed["status"] == "failed"
    [fault] = failed["errors"]
    assert (fault["file"], fault["line"], fault["message"]) == ("kernel.cu", 3, 'identifier "j" is undefined')
