"""`driver build --report`: the page and the JSON of a real build say what the build did, and what its sources hold."""

from __future__ import annotations

import json
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from clone import BINDING, PROJECTS, Driver, copy_project, cuda_actions, torch_actions

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

_NAMES = [f"torch{torch}-cxx11-cu130-x86_64-linux" for torch in ("213", "215")]
_ALONE, _TORCH = "csrc/two.cu", "csrc/three.cu"
_SECTION = """
[kernel.three]
backend = "cuda"
depends = ["torch"]
src = ["csrc/three.cu", "csrc/one.h"]
cuda-capabilities = ["9.0"]
"""
_THREE = """\
#include "one.h"
#include <c10/util/BFloat16.h>

__global__ void three(c10::BFloat16* out) { *out = c10::BFloat16(3.0f); }
"""
_VARIANTS = [f"--variant={variant}" for variant in _NAMES]
_COUNTS = ("run", "shared", "cached")


@dataclass(frozen=True, kw_only=True, slots=True)
class Reported:
    """A project that was built with a report, for two torch versions.

    Attributes:
        driver: which.
        project: the project's directory.
        result: what `--json` printed.
        facts: the JSON beside the page.
        page: the page.
    """

    driver: Driver
    project: Path
    result: Any
    facts: Any
    page: str


def _build(driver: Driver, project: Path, page: Path, *options: str) -> Reported:
    done = driver.run("build", project, "--json", "--report", page, *options)
    assert f"wrote {page} and {page.with_suffix('.json')}" in done.stderr
    facts = json.loads(page.with_suffix(".json").read_text())
    return Reported(driver=driver, project=project, result=json.loads(done.stdout), facts=facts, page=page.read_text())


@pytest.fixture(scope="module")
def reported(installed: Driver, base: Path) -> Reported:
    project = copy_project(PROJECTS / "tiny", base / "reported")
    (project / "torch-ext" / "tiny").rename(project / "torch-ext" / "reported")
    manifest = project / "build.toml"
    text = manifest.read_text().replace('name = "tiny"', 'name = "reported"')
    manifest.write_text(text.replace('cuda-capabilities = ["9.0"]', 'cuda-capabilities = ["8.0", "8.6"]') + _SECTION)
    (project / "csrc" / "three.cu").write_text(_THREE)
    return _build(installed, project, base / "report pages" / "a&b.html", *_VARIANTS)


def _source(reported: Reported, name: str) -> Any:  # noqa: ANN401  (JSON)
    [found] = [source for source in reported.facts["sources"] if source["source"] == name]
    return found


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not {name for name, _ in attrs} & {"src", "href", "xlink:href", "action"}
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def _text(page: str) -> str:
    parser = _Page()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return " ".join(" ".join(parser.text).split())


def test_counts_are_those_of_the_build(reported: Reported) -> None:
    built = {row["variant"]: (row["actions"], row["seconds"]) for row in reported.result["variants"]}
    told = {row["variant"]: ({key: row[key] for key in _COUNTS}, row["seconds"]) for row in reported.facts["variants"]}
    assert told == built
    assert list(told) == _NAMES
    for key in _COUNTS:
        by_action = sum(part["did"] == key for action in reported.facts["actions"] for part in action["variants"])
        by_kind = sum(total[key] for total in reported.facts["totals"].values())
        assert by_action == by_kind == sum(counts[key] for counts, _ in told.values())
    # In each variant the binding, a source for two architectures, and one for one.
    assert [sum(counts.values()) for counts, _ in told.values()] == [BINDING + cuda_actions(2) + torch_actions(1)] * 2
    assert sum(counts["cached"] for counts, _ in told.values()) == 0
    assert set(reported.facts["totals"]) == {
        "CudaPreprocess",
        "CudaDeviceFrontend",
        "CudaDeviceShare",
        "CudaDeviceCompile",
        "CudaAssemble",
        "CudaFatbinary",
        "CudaFrontend",
        "CudaHostCompile",
        "CudaFallback",
        "KernelCxxName",
        "KernelCxxPreprocess",
        "KernelCxxCompile",
    }


def test_source_without_torch_runs_once_and_is_shared(reported: Reported) -> None:
    actions = [action for action in reported.facts["actions"] if action["source"] == _ALONE]
    assert len(actions) == cuda_actions(2)
    for action in actions:
        assert [(part["variant"], part["did"]) for part in action["variants"]] == list(
            zip(_NAMES, ("run", "shared"), strict=True)
        )
        assert action["variants"][0]["seconds"] > 0
    assert {action["arch"] for action in actions} == {"sm_80", "sm_86", None}


def test_action_of_equal_inputs_is_shared_though_torch_was_in_sight(reported: Reported) -> None:
    def did(mnemonic: str) -> list[list[str]]:
        actions = [row for row in reported.facts["actions"] if (row["source"], row["mnemonic"]) == (_TORCH, mnemonic)]
        return [sorted(part["did"] for part in action["variants"]) for action in actions]

    # Each torch is preprocessed to a text of its own; the PTX is the same.
    assert did("CudaPreprocess") == [["run"], ["run"]]
    assert did("CudaAssemble") == [["run", "shared"]]


def test_headers_are_named_with_what_they_bring(reported: Reported) -> None:
    texts = _source(reported, _TORCH)["texts"]
    assert sorted(variant for text in texts for variant in text["variants"]) == _NAMES
    for text in texts:
        share = text["share"]
        brought = {header["name"]: header for header in share["headers"]}
        assert set(brought) == {"c10/util/BFloat16.h", "csrc/one.h"}
        assert brought["c10/util/BFloat16.h"]["lines"] > 1000
        parts = [*share["headers"], share["compiler"], share["source"]]
        assert sum(piece["lines"] for piece in parts) == share["lines"]
        assert share["source"]["lines"] < 10 < share["compiler"]["lines"]
    assert "c10/util/BFloat16.h brings " in _text(reported.page)
    [alone] = _source(reported, _ALONE)["texts"]
    assert alone["variants"] == _NAMES
    assert alone["share"]["headers"] == []
    for text in _source(reported, "torch-ext/binding.cpp")["texts"]:
        assert [header["name"] for header in text["share"]["headers"]] == ["registration.h"]


def test_equal_ptx_is_found(reported: Reported) -> None:
    [code] = _source(reported, _ALONE)["ptx"]
    assert (code["variants"], code["archs"], code["unknown"]) == (_NAMES, ["sm_80", "sm_86"], [])
    assert code["equal"] == [["sm_80", "sm_86"]]
    assert "sm_80 and sm_86 have equal PTX." in _text(reported.page)


def test_time_line_has_each_action_that_ran(reported: Reported) -> None:
    line = reported.facts["timeline"]
    ran = [
        (action["source"], action["section"], action["mnemonic"], action["arch"], part["variant"], part["seconds"])
        for action in reported.facts["actions"]
        for part in action["variants"]
        if part["did"] == "run"
    ]
    bars = line["bars"]
    places = ("source", "section", "mnemonic", "arch", "variant", "seconds")
    assert sorted(map(repr, ran)) == sorted(repr(tuple(bar[key] for key in places)) for bar in bars)
    assert bars[0]["start"] == 0
    assert [bar["start"] for bar in bars] == sorted(bar["start"] for bar in bars)
    assert max(bar["start"] + bar["seconds"] for bar in bars) == pytest.approx(line["seconds"], abs=0.01)
    assert {bar["lane"] for bar in bars} == set(range(line["lanes"]))
    chain = [bar for bar in bars if bar["critical"]]
    assert sum(bar["seconds"] for bar in chain) == pytest.approx(line["critical"], abs=0.01)
    assert max(bar["seconds"] for bar in bars) <= line["critical"] <= line["seconds"] + 0.01
    # It begins with what reads sources alone.
    assert chain[0]["mnemonic"] in {"CudaPreprocess", "KernelCxxPreprocess"}
    assert len({bar["source"] for bar in chain}) == 1
    assert len(chain) > 1
    assert f"It is {line['critical']:.1f} of {line['seconds']:.1f} s." in _text(reported.page)


def test_page_is_whole_and_needs_nothing(reported: Reported) -> None:
    text = _text(reported.page)
    for name in (*_NAMES, _ALONE, _TORCH, "CudaPreprocess"):
        assert name in text
    assert "://" not in reported.page
    assert "<script" not in reported.page


def test_second_build_runs_nothing(reported: Reported, base: Path) -> None:
    again = _build(reported.driver, reported.project, base / "report pages" / "a&b.html", *_VARIANTS)
    assert {total["run"] for total in again.facts["totals"].values()} == {0}
    assert {total["seconds"] for total in again.facts["totals"].values()} == {0.0}
    assert {part["how"] for action in again.facts["actions"] for part in action["variants"]} == {"", "up to date"}
    assert {text["share"] for source in again.facts["sources"] for text in source["texts"]} == {None}
    assert _source(again, _ALONE)["ptx"][0]["unknown"] == ["sm_80", "sm_86"]
    assert "unknown" in _text(again.page)
    assert again.facts["timeline"] is None
    assert "No action ran, or Bazel did not say when." in _text(again.page)


def test_monolithic_compile_is_one_action_and_its_contents_are_unknown(reported: Reported, base: Path) -> None:
    page = base / "report pages" / "whole.html"
    whole = _build(reported.driver, reported.project, page, "--cuda-compile=monolithic", *_VARIANTS[:1])
    actions = [action for action in whole.facts["actions"] if action["source"] == _ALONE]
    assert [(action["mnemonic"], action["arch"]) for action in actions] == [("KernelCudaCompile", None)]
    assert [part["did"] for part in actions[0]["variants"]] == ["run"]
    assert [text["share"] for text in _source(whole, _ALONE)["texts"]] == [None]
    assert _source(whole, _ALONE)["ptx"][0]["archs"] == []
    assert "one action compiles it for all architectures" in _text(whole.page)


def test_what_ran_says_why(reported: Reported, base: Path) -> None:
    def reasons(facts: Any, source: str) -> dict[str, list[str]]:  # noqa: ANN401  (JSON)
        actions = [action for action in facts["actions"] if action["source"] == source]
        return {
            action["mnemonic"]: part["why"] for action in actions for part in action["variants"] if part["did"] == "run"
        }

    assert set(map(tuple, reasons(reported.facts, _TORCH).values())) == {
        ("no earlier build with a report has this action",)
    }
    with (reported.project / _TORCH).open("a") as file:
        file.write("__global__ void four(int* out) { *out = 4; }\n")
    again = _build(reported.driver, reported.project, base / "report pages" / "edit.html", *_VARIANTS)
    assert reasons(again.facts, _ALONE) == {}
    phases = f"projects/reported/three.objects/{_TORCH}.phases"
    found = reasons(again.facts, _TORCH)
    assert found["CudaPreprocess"] == [f"projects/reported/{_TORCH} has changed"]
    assert found["CudaDeviceFrontend"] == [f"{phases}/90/device.ii has changed"]
    assert found["CudaDeviceCompile"] == [f"{phases}/90/device.bc has changed"]
    assert found["CudaAssemble"] == [f"{phases}/90/device.ptx has changed"]
    assert f"projects/reported/{_TORCH} has changed" in _text(again.page)
