"""Records of `driver tune` are of the sources that they name: `driver check` and `driver tune` report other sources."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from py_driver.__main__ import main
from py_driver.authoring.new_project import create, rendered, template_of
from py_driver.bazel.invocation import Choices
from py_driver.errors import Code, DriverError
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.tuning.records import Records, file_of, write_records
from py_driver.tuning.space import find_space
from py_driver.tuning.tuner import Tuner, digest

if TYPE_CHECKING:
    from pathlib import Path


def test_records_of_other_sources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    releases = Releases()
    create(tmp_path, rendered(template_of("reduction"), "soft", "", ()), releases)
    space = find_space(tmp_path, "")
    file = file_of(tmp_path, space, "NVIDIA H200")
    write_records(file, Records(machine={"gpu": "NVIDIA H200"}, sources=digest(tmp_path, releases, space)), space)

    def notes() -> list[str]:
        assert main(["check", str(tmp_path), "--json"]) == 0
        return [note["message"] for note in json.loads(capsys.readouterr().out)["notes"]]

    assert notes() == []
    source = tmp_path / "csrc" / "soft.cu"
    source.write_text(source.read_text(encoding="utf-8") + "\n// slower\n", encoding="utf-8")
    assert notes() == [f"{file} was measured with other sources; run `driver tune`"]
    # What is no space, and what is no record, is somebody else's.
    file.write_text("{}", encoding="utf-8")
    (file.parent / "mine.toml").write_text("x = 1\n", encoding="utf-8")
    assert notes() == []


def test_an_edit_while_configurations_are_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    releases = Releases()
    create(tmp_path, rendered(template_of("reduction"), "soft", "", ()), releases)
    space = find_space(tmp_path, "")
    configuration = SimpleNamespace(family="cpu")
    variant = SimpleNamespace(name="torch213-cpu", groups=[space.section], configuration=configuration)
    source = tmp_path / "csrc" / "soft.cu"

    def build(*_: object) -> dict[Any, Any]:
        source.write_text(source.read_text(encoding="utf-8") + "\n// slower\n", encoding="utf-8")
        return {}

    monkeypatch.setattr("py_driver.tuning.tuner.local", lambda *_: SimpleNamespace(variant=variant))
    monkeypatch.setattr("py_driver.tuning.tuner.python_for", lambda *_: "python")
    monkeypatch.setattr(Tuner, "_build", build)
    machine: Any = None
    tuner = Tuner(
        directory=tmp_path, space=space, machine=machine, releases=releases, choices=Choices(), output=Output()
    )
    with pytest.raises(DriverError) as caught:
        tuner.run(None)
    assert caught.value.diagnostics[0].code is Code.FOREIGN_FILE
    assert not file_of(tmp_path, space, "cpu").exists()
