"""`driver tune` on the CPU: configurations built by `-D`, checked, timed, recorded, resumed, and put into a header."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from clone import Driver

pytestmark = pytest.mark.e2e

TORCH = "--torch=2.13"
SPACE = """
section = "fast_silu_cpu"
header = "csrc/tuned.h"
workload = "Silu.silu"

[space]
FOR = [0, 1, 2]
FAULT = [0, 1, 2, 3, 4, 5]

[constraints]
faults = "FAULT == 0 or FOR == 0"
large = "FAULT != 4 or elements < 1000"
any = "elements % (FOR + 1) < 1000000"

[default]
FOR = 2
FAULT = 0

[cases]
shapes = [{elements = 2000}, {elements = 200000}]
"""
BENCHMARK = """
import torch
from kernels.benchmark import Benchmark


class Silu(Benchmark):
    seed = 0
    case = {"elements": 2000}

    def setup(self):
        self.x = torch.randn(self.case["elements"])
        self.out = torch.empty_like(self.x)

    def benchmark_silu(self):
        self.kernel.fast_silu(self.x, self.out)

    def verify_silu(self):
        return torch.nn.functional.silu(self.x)
"""
TUNED = """
#include <cstdlib>

#include "tuned.h"

#if defined(TUNE_FAULT) && TUNE_FAULT == 1
#error no such configuration
#endif
#if defined(TUNE_FAULT) && TUNE_FAULT == 5
static const int dies = (std::abort(), 0);
#endif

namespace {
float factor = 1.0f;
// FOR: 0 is quick for few elements, 1 for many, 2 for none. FAULT: 2 is wrong, 3 ends the process, 5 when it is loaded.
double wait(long long elements) {
  return silu_tuned::choose<double>(0, elements, [&](auto config) {
    const bool quick = config.FOR == 0 ? elements < 10000 : config.FOR == 1 ? elements >= 10000 : false;
    for (volatile int i = 0; i < (quick ? 0 : 10000000); ++i) {
    }
    if (config.FAULT == 3) std::abort();
    return config.FAULT == 2 ? 1.5 : 1.0;
  });
}
}  // namespace
"""
HEADER = """// Written by `driver tune --apply` at first by hand
#pragma once
namespace silu_tuned {
template <int kFOR, int kFAULT> struct Config { static constexpr int FOR = kFOR, FAULT = kFAULT; };
template <class Result, class Call> Result choose(int, long long, Call call) {
#ifdef TUNE_FOR
  return call(Config<TUNE_FOR, TUNE_FAULT>());
#else
  return call(Config<2, 0>());
#endif
}
}
"""


@pytest.fixture(scope="module")
def project(clone: Driver, base: Path) -> Path:
    place = base / "tune" / "fast-silu"
    clone.run("init", place, "--name=me/fast-silu", "--backends", "cpu")
    (place / "tuning").mkdir()
    (place / "tuning" / "silu.toml").write_text(SPACE, encoding="utf-8")
    (place / "benchmarks" / "benchmark.py").write_text(BENCHMARK, encoding="utf-8")
    (place / "csrc" / "tuned.h").write_text(HEADER, encoding="utf-8")
    source = place / "csrc" / "fast_silu.cpp"
    text = source.read_text(encoding="utf-8").replace(
        "namespace fast_silu_impl {", f"{TUNED}\nnamespace fast_silu_impl {{", 1
    )
    body = "layout, std::int64_t count, void*) {\n"
    product = "from[i] * vectors::sigmoid(from[i])"
    assert body in text
    assert product in text
    text = text.replace(product, f"{product} * factor")
    source.write_text(text.replace(body, f"{body}  factor = static_cast<float>(wait(count));\n"), encoding="utf-8")
    manifest = place / "build.toml"
    manifest.write_text(
        manifest.read_text(encoding="utf-8").replace(
            '"csrc/fast_silu.cpp", ', '"csrc/fast_silu.cpp", "csrc/tuned.h", '
        ),
        encoding="utf-8",
    )
    return place


def tune(clone: Driver, project: Path, *words: str) -> Any:  # noqa: ANN401  (JSON)
    return json.loads(clone.run("tune", project, TORCH, "--json", *words).stdout)


def outcomes(found: Any) -> dict[tuple[int, int, int], str]:  # noqa: ANN401
    return {
        (record["config"]["FOR"], record["config"]["FAULT"], record["case"]["elements"]): record["outcome"]
        for record in found["records"]
    }


def test_what_there_is_to_do(clone: Driver, project: Path) -> None:
    found = json.loads(clone.run("tune", project, "--dry-run", "--json").stdout)
    assert found["configurations"] == 18
    assert set(found["excluded"].values()) == {11}
    assert not (project / ".dev").exists()


def test_tuning(clone: Driver, project: Path) -> None:
    found = tune(clone, project)
    seen = outcomes(found)
    for elements in (2000, 200000):
        for which in (0, 1, 2):
            assert seen[which, 0, elements] == "correct"
            assert {seen[which, fault, elements] for fault in (1, 2, 3, 4, 5) if which} <= {"constraints"}
        assert [seen[0, fault, elements] for fault in (1, 2, 3, 4, 5)] == [
            "compile",
            "correctness",
            "runtime",
            "constraints",
            "runtime",
        ]
    assert [record["config"] for record in found["cover"]] == [{"FOR": 0, "FAULT": 0}, {"FOR": 1, "FAULT": 0}]
    assert json.loads((project / "tuning" / "silu.cpu.json").read_text(encoding="utf-8"))["records"] == found["records"]

    # Nothing is left to do, and a further value compiles itself alone.
    again = tune(clone, project)
    assert (again["built"], again["records"]) == (0, found["records"])
    space = project / "tuning" / "silu.toml"
    space.write_text(SPACE.replace("FOR = [0, 1, 2]", "FOR = [0, 1, 2, 5]"), encoding="utf-8")
    more = tune(clone, project)
    assert more["built"] == 1
    assert {key for key, outcome in outcomes(more).items() if key not in seen and outcome == "correct"} == {
        (5, 0, 2000),
        (5, 0, 200000),
    }
    # Preprocessed, compiled by gcc for OpenMP, linked. The binding has another id, and the same text otherwise.
    assert more["actions"] == 3
    space.write_text(SPACE, encoding="utf-8")


def test_the_header_has_what_was_measured(clone: Driver, project: Path) -> None:
    if not (project / "tuning" / "silu.cpu.json").exists():
        tune(clone, project)
    assert clone.run("tune", project, "--apply").stdout.strip() == str(project / "csrc" / "tuned.h")
    text = (project / "csrc" / "tuned.h").read_text(encoding="utf-8")
    first = "    if ((floor_mod(elements, 1) < 1000000)) return call(Config<0, 0>());\n"
    assert f"  if (capability == 0 && elements <= 2000) {{\n{first}" in text
    assert "  return call(Config<2, 0>());  // default" in text
    done = json.loads(clone.run("bench", project, TORCH, "--json").stdout)
    [one] = done["results"]
    assert one["verified"] is True
    quick = json.loads((project / "tuning" / "silu.cpu.json").read_text(encoding="utf-8"))["records"]
    times = {(r["config"]["FOR"], r["case"]["elements"]): r["us"] for r in quick if r["outcome"] == "correct"}
    assert one["times"]["median_us"] < times[2, 2000] / 2
    # The header is no source of its own records.
    assert tune(clone, project)["built"] == 0


def test_what_somebody_wrote_is_not_overwritten(clone: Driver, project: Path) -> None:
    tune(clone, project)
    space = project / "tuning" / "silu.toml"
    try:
        space.write_text(SPACE.replace("csrc/tuned.h", "csrc/fast_silu.h"), encoding="utf-8")
        before = (project / "csrc" / "fast_silu.h").read_bytes()
        assert "would be overwritten" in clone.run("tune", project, "--apply", code=2).stderr
        assert (project / "csrc" / "fast_silu.h").read_bytes() == before
        space.write_text(SPACE.replace("csrc/tuned.h", "csrc/fast_silu.cpp"), encoding="utf-8")
        assert "is not a header" in clone.run("tune", project, "--apply", code=2).stderr
    finally:
        space.write_text(SPACE, encoding="utf-8")


@pytest.mark.slow
def test_a_killed_run_goes_on(clone: Driver, project: Path) -> None:
    file = project / "tuning" / "silu.cpu.json"
    file.unlink(missing_ok=True)
    process = clone.start("tune", project, TORCH, "--json")
    end = time.monotonic() + 300
    while not file.exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    before = {json.dumps(record) for record in json.loads(file.read_text(encoding="utf-8"))["records"]}
    assert before
    after = {json.dumps(record) for record in tune(clone, project)["records"]}
    assert before < after or before == after


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "silu.toml: "),
        (SPACE.replace("FOR = 2\n", "FOR = 7\n"), "[default] has a value that is not in [space]"),
        (SPACE.replace("elements < 1000", "elemens < 1000"), "`elemens`"),
        (SPACE.replace("Silu.silu", "Silu.relu"), "there is no workload `Silu.relu`"),
        (SPACE.replace("fast_silu_cpu", "other"), "[kernel.other], which build.toml does not have"),
    ],
)
def test_wrong_spaces(clone: Driver, project: Path, text: str, said: str) -> None:
    space = project / "tuning" / "silu.toml"
    (project / "tuning" / "silu.cpu.json").unlink(missing_ok=True)
    space.write_text(text, encoding="utf-8")
    try:
        assert said in clone.run("tune", project, TORCH, code=2).stderr
    finally:
        space.write_text(SPACE, encoding="utf-8")


SIMPLE = """
[general]
name = "steps"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cpu"]

[torch-noarch]
"""
STEPS = """
import time


def double(x, out, config):
    time.sleep(0.0005 if config["STEP"] == (1 if x.numel() < 1000 else 2) else 0.005)
    if config["STEP"] == 3:
        raise MemoryError("no room")
    out.copy_(x * 2)
"""
STEPS_SPACE = """
workload = "Steps.steps"
configs = "torch-ext/steps/configs"

[space]
STEP = [0, 1, 2, 3]
num_warps = [4]

[default]
STEP = 0
num_warps = 4

[cases]
key = "elements"
shapes = [{rows = 1, elements = 20}, {rows = 1, elements = 20000}, {rows = 2, elements = 20}]
"""
STEPS_BENCHMARK = """
import torch
from kernels.benchmark import Benchmark


class Steps(Benchmark):
    seed = 0
    case = {"rows": 1, "elements": 20}
    config = {"STEP": 0}

    def setup(self):
        self.x = torch.randn(self.case["elements"])
        self.out = torch.empty_like(self.x)

    def benchmark_steps(self):
        self.kernel.double(self.x, self.out, self.config)

    def verify_steps(self):
        return self.x * 2
"""


@pytest.mark.slow
def test_configurations_that_python_passes_on(clone: Driver, base: Path) -> None:
    """As those of Triton, which has no CPU: one build serves all, and JSON files have what was chosen."""
    project = base / "tune" / "steps"
    for name, text in {
        "build.toml": SIMPLE,
        "torch-ext/steps/__init__.py": STEPS,
        "tuning/steps.toml": STEPS_SPACE,
        "benchmarks/benchmark.py": STEPS_BENCHMARK,
    }.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")
    found = tune(clone, project)
    assert {(record["config"]["STEP"], record["outcome"]) for record in found["records"]} == {
        (0, "correct"),
        (1, "correct"),
        (2, "correct"),
        (3, "runtime"),
    }
    assert found["actions"] == 0
    said = clone.run("tune", project, "--apply", code=2).stderr
    assert 'add `pyext = ["json", "py"]` to [torch-noarch]' in said
    (project / "build.toml").write_text(f'{SIMPLE}pyext = ["json", "py"]\n', encoding="utf-8")
    tune(clone, project)
    place = project / "torch-ext" / "steps" / "configs"
    written = [place / f"rows={rows},device_name=cpu.json" for rows in (1, 2)]
    assert clone.run("tune", project, "--apply").stdout.split() == [*map(str, written)]
    first, second = (json.loads(path.read_text(encoding="utf-8")) for path in written)
    assert first == {"20": {"STEP": 1, "num_warps": 4}, "20000": {"STEP": 2, "num_warps": 4}}
    assert second == {"20": {"STEP": 1, "num_warps": 4}}
    # They are no sources of their records, but are shipped.
    assert tune(clone, project)["built"] == 0
    built = json.loads(clone.run("run", project, TORCH, "--json").stdout)
    assert json.loads((Path(built["path"]) / "configs" / written[0].name).read_text(encoding="utf-8")) == first
    written[0].write_text("{}x", encoding="utf-8")
    assert "would be overwritten" in clone.run("tune", project, "--apply", code=2).stderr
