"""What commands print as JSON is described key by key, and nothing that is not described passes for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["schema", "chek"], "`chek` is no command that prints JSON"),
        (["schema", "check", "--edition", "6"], "--edition is for the schema of build.toml"),
    ],
    ids=["unknown", "edition"],
)
def test_a_schema_that_there_is_none_of(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(words) == ExitCode.INPUT
    assert message in capsys.readouterr().err
