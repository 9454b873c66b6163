"""What commands print as JSON is described key by key, and nothing that is not described passes for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from clone import PROJECTS
from jsonschema import Draft7Validator
from results import faults

from py_driver import __main__
from py_driver.cli import COMMANDS, Parser, load_command
from py_driver.cli.results import declared, make_result_schema, split
from py_driver.errors import ExitCode

RELU = Path(__file__).parents[3] / "examples" / "relu"
RESULTS = sorted(declared()["commands"])


def _asked_for_json(command: str) -> bool:
    """Whether a command, or one of its own commands, has the option."""
    parser = Parser(prog="driver")
    load_command(command).add(parser.add_subparsers())
    waiting, options = [parser], set[str]()
    while waiting:
        for action in waiting.pop()._actions:  # noqa: SLF001  (argparse lists them nowhere else)
            options |= {*action.option_strings}
            waiting += action.choices.values() if isinstance(action.choices, dict) else []
    return "--json" in options


def test_every_command_with_json_is_described() -> None:
    assert [name for name in COMMANDS if _asked_for_json(name)] == [
        name for name in COMMANDS if name in RESULTS and name not in declared()["lines"]
    ]


@pytest.mark.parametrize("command", RESULTS)
def test_the_driver_prints_the_schema(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["schema", command]) == ExitCode.OK
    printed = json.loads(capsys.readouterr().out)
    assert printed == make_result_schema(command)
    Draft7Validator.check_schema(printed)
    assert faults(command, {"errors": []}) == []


def test_every_object_is_of_a_command_and_closed() -> None:
    found: dict[str, Any] = {}
    for command in RESULTS:
        found |= make_result_schema(command)["definitions"]
    assert declared()["objects"].keys() <= found.keys()
    assert [name for name, schema in found.items() if schema["additionalProperties"] is not False] == []


def test_every_key_has_a_meaning() -> None:
    assert [
        (name, key)
        for name, keys in declared()["objects"].items()
        for key, declaration in keys.items()
        if not split(declaration)[1].strip()
    ] == []


def test_a_key_that_is_not_described_is_a_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["variants", str(RELU), "--json"]) == ExitCode.OK
    result = json.loads(capsys.readouterr().out)
    assert faults("variants", result) == []
    assert faults("variants", {"projects": [{"directory": "relu", **result}]}) == []
    result["variants"][1]["sections"][0]["surprise"] = 1
    [fault] = faults("variants", result)
    assert fault.startswith("`driver variants`: $.variants[1].sections[0]: Additional properties are not allowed")
    del result["variants"][1]["sections"][0]["surprise"]
    del result["name"]
    assert faults("variants", result) == ["`driver variants`: $: 'name' is a required property"]


def variants(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, list[str]]:
    """The wheels of each variant that `driver variants --binding pybind` lists of a project."""
    assert __main__.main(["variants", str(PROJECTS / "bound"), "--binding=pybind", "--json", *words]) == ExitCode.OK
    result = json.loads(capsys.readouterr().out)
    assert faults("variants", result) == []
    return {variant["variant"]: variant["wheels"] for variant in result["variants"]}


def test_wheels_for_a_python_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    manylinux = "manylinux_2_28_x86_64.whl"
    one = variants(capsys, "--torch=2.13", "--backend=cpu", "--python=3.11,3.13")
    assert one == {
        f"torch213-cxx11-cpu-x86_64-linux-{tag}": [f"bound-1.0+torch213.cxx11.cpu-{tag}-{tag}-{manylinux}"]
        for tag in ("cp311", "cp313")
    }
    # torch 2.13 has no wheel for the last of them.
    several = variants(capsys, "--backend=cpu")
    assert len(several) == 7
    assert several["torch213-cxx11-cpu-x86_64-linux-cp311"] == [f"bound-1.0-cp311-cp311-{manylinux}"]
    last = several["torch215-cxx11-cpu-x86_64-linux-cp315"]
    assert last == [f"bound-1.0+torch215.cxx11.cpu-cp315-cp315-{manylinux}"]
    every = variants(capsys, "--backend=cpu", "--python=3.11", "--all")
    assert len(every) > len(variants(capsys, "--backend=cpu", "--python=3.11"))
    assert "torch24-cxx98-cpu-x86_64-linux-cp311" in every


def test_wheels_for_a_python_are_a_column(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--binding=pybind", "--torch=2.12,2.13", "--backend=cpu", "--python=3.13"]
    assert __main__.main(["variants", str(PROJECTS / "bound"), *words]) == ExitCode.OK
    said = capsys.readouterr()
    header, *rows = (line.split() for line in said.out.splitlines())
    assert header == ["variant", "default", "archs", "wheel"]
    assert [row[0][:8] for row in rows] == ["torch213", "torch212"]
    assert {row[-1] for row in rows} == {"bound-1.0-cp313-cp313-manylinux_2_28_x86_64.whl"}
    assert "on request" not in said.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["schema", "chek"], "`chek` is not a command that prints JSON"),
        (["schema", "check", "--edition", "6"], "--edition is for the schema of build.toml"),
    ],
    ids=["unknown", "edition"],
)
def test_a_schema_that_there_is_none_of(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(words) == ExitCode.INPUT
    assert message in capsys.readouterr().err
