"""Several projects in one build, of which one fails; and a build for one GPU architecture, which nobody publishes."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from clone import CPU, CU130, PROJECTS, copy_project

from py_driver import __main__

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e


def project(place: Path, name: str, more: str = "") -> Path:
    """The tiny project under another name, with more in its source."""
    made = copy_project(PROJECTS / "tiny", place)
    (made / "torch-ext" / "tiny").rename(made / "torch-ext" / name)
    manifest = made / "build.toml"
    manifest.write_text(manifest.read_text(encoding="utf-8").replace('name = "tiny"', f'name = "{name}"'))
    with (made / "csrc" / "one.cpp").open("a", encoding="utf-8") as source:
        source.write(more)
    return made


def driver(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int) -> tuple[Any, str]:
    """What a command printed as JSON, and what it said."""
    assert __main__.main([*map(str, words), "--json"]) == code
    said = capsys.readouterr()
    return json.loads(said.out), said.err


def test_one_of_several_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fails = project(tmp_path / "a", "several_a", "int broken() { return nothing; }\n")
    works = project(tmp_path / "group" / "b", "several_b")
    twin = project(tmp_path / "group" / "c", "several_b")
    (tmp_path / "group" / "broken").mkdir()
    (tmp_path / "group" / "broken" / "build.toml").write_text("[general\n")
    answer, said = driver(capsys, "build", tmp_path, "--torch=2.13", "--backend=cpu", code=5)
    results = {entry["directory"]: entry for entry in answer["projects"]}
    assert [*results] == [str(directory) for directory in (fails, works, tmp_path / "group" / "broken", twin)]
    undeclared, summary = results[str(fails)]["errors"]
    assert (undeclared["file"], undeclared["line"]) == (f"{fails}/csrc/one.cpp", 4)
    assert undeclared["text"] in said
    assert summary["message"] == f"the build of {fails} failed: {CPU}"
    assert not (fails / "build").exists()
    for directory in (works, twin):
        [variant] = results[str(directory)]["variants"]
        assert variant["variant"] == CPU
        assert (directory / "build" / CPU / "metadata.json").is_file()
    assert results[str(twin)]["variants"][0]["actions"]["run"] == 0
    # What is right now is built, and nothing else.
    unseen = f'#include "one.h"\n\nint one() {{ return {time.time_ns() % 2**31}; }}\n'  # no cache has it
    (fails / "csrc" / "one.cpp").write_text(unseen)
    words = ("--torch=2.13", "--backend=cpu")
    again, _ = driver(capsys, "build", fails, works, *words, code=0)
    assert [entry["variants"][0]["actions"]["run"] > 0 for entry in again["projects"]] == [True, False]


@pytest.mark.slow
def test_verify_several_with_one_bazel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same, odd, changed = (project(tmp_path / name, f"several_{name}") for name in ("same", "odd", "changed"))
    data = 'E=8,N=1,device="H 100"@größe.json'
    for directory in (odd, changed):
        (directory / "torch-ext" / f"several_{directory.name}" / data).write_text("{}")
        manifest = directory / "build.toml"
        text = manifest.read_text(encoding="utf-8").replace("[torch]\n", '[torch]\npyext = ["py", "json"]\n')
        manifest.write_text(text)
    words = ("--torch=2.13", "--backend=cpu")
    answer, _ = driver(capsys, "build", same, odd, changed, *words, code=0)
    assert [entry["variants"][0]["variant"] for entry in answer["projects"]] == [CPU] * 3
    assert (odd / "build" / CPU / data).read_text() == "{}"
    (changed / "build" / CPU / data).write_text("[]")
    verified, said = driver(capsys, "verify", same, odd, changed, tmp_path / "none", code=1)
    results = {entry["directory"]: entry for entry in verified["projects"]}
    assert "building 3 projects without any cache" in said
    assert [
        [variant["differences"] for variant in results[str(directory)]["variants"]] for directory in (same, odd)
    ] == [[[]]] * 2
    assert results[str(changed)]["variants"][0]["differences"] == [f"{data} has other bytes"]
    assert [error["code"] for error in results[str(changed)]["errors"]] == ["E403"]
    assert [error["code"] for error in results[str(tmp_path / "none")]["errors"]] == ["E105"]


def test_for_one_gpu_architecture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = project(tmp_path / "quick", "quick")
    manifest = made / "build.toml"
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(text.replace('cuda-capabilities = ["9.0"]', 'cuda-capabilities = ["8.0", "9.0"]'))
    words = ("--torch=2.13", "--backend=cu130")
    quick, _ = driver(capsys, "build", made, *words, "--archs=9.0", code=0)
    assert [(variant["variant"], variant["archs"]) for variant in quick["variants"]] == [(CU130, ["9.0"])]
    metadata = json.loads((made / "build" / CU130 / "metadata.json").read_text(encoding="utf-8"))
    assert (metadata["backend"], metadata["only-archs"]) == ({"type": "cuda", "archs": ["9.0"]}, ["9.0"])
    refused, _ = driver(capsys, "verify", made, code=2)
    assert [error["code"] for error in refused["errors"]] == ["E404"]
    assert "was built with `--archs 9.0`" in refused["errors"][0]["message"]
    whole, _ = driver(capsys, "build", made, *words, code=0)
    assert whole["variants"][0]["archs"] == ["8.0", "9.0"]
    assert "only-archs" not in json.loads((made / "build" / CU130 / "metadata.json").read_text(encoding="utf-8"))
