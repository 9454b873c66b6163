"""The skill for coding assistants, and the AGENTS.md of new projects: their form, their commands, their words."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

import pytest
import yaml

from py_driver import __main__
from py_driver.authoring.new_project import rendered, template_of, templates
from py_driver.authoring.skill import SKILLS
from py_driver.cli import parse_command_line
from py_driver.cli.results import declared, make_result_schema
from py_driver.errors import Code, ExitCode
from py_driver.resources import resource, resources_below

if TYPE_CHECKING:
    from pathlib import Path

NAME = "torch-kernels"
SKILL = resource(f"{SKILLS}/{NAME}/SKILL.md")
AGENTS = {name: rendered(template_of(name), "my-kernel", "me", ())["AGENTS.md"] for name in templates()}


def commands(text: str) -> set[str]:
    """The command lines of a page that can be run: in its blocks for a shell, and in its spans of code."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [*"".join(blocks).splitlines(), *re.findall(r"`(driver [^`\n]+)`", text)]
    return {line.replace("CODE", "E108").replace("COMMAND", "check") for line in lines if line.startswith("driver ")}


def test_the_form_is_that_of_skills() -> None:
    assert resources_below(SKILLS) == [f"{NAME}/SKILL.md"]
    _, head, body = SKILL.split("---\n", 2)
    properties = yaml.safe_load(head)
    assert properties.keys() == {"name", "description", "license"}
    assert properties["name"] == NAME
    assert 0 < len(properties["description"]) <= 1024
    assert len(body.splitlines()) <= 200
    assert max(map(len, SKILL.splitlines())) <= 120


@pytest.mark.parametrize("template", AGENTS)
def test_the_page_of_a_project_is_short(template: str) -> None:
    assert len(AGENTS[template].splitlines()) <= 60
    assert max(map(len, AGENTS[template].splitlines())) <= 120


@pytest.mark.parametrize("text", [SKILL, *AGENTS.values()], ids=[NAME, *AGENTS])
def test_the_driver_takes_each_command(text: str) -> None:
    found = commands(text)
    for line in found:
        parse_command_line(shlex.split(line)[1:])
    words = {line.split()[1] for line in found}
    assert {"check", "test", "bench", "tune", "profile", "publish", "explain", "schema"} <= words


@pytest.mark.parametrize("command", declared()["commands"])
def test_a_command_that_prints_json_is_called_with_json(command: str) -> None:
    for text in (SKILL, *AGENTS.values()):
        blocks = commands("".join(re.findall(r"```sh\n.*?```", text, re.DOTALL)))
        without = [line for line in blocks if line.split()[1] == command and "--json" not in line]
        assert command in {"batch", "run"} or without == []


def test_keys_that_the_pages_name_are_in_the_schemas() -> None:
    definitions = make_result_schema("bench")["definitions"]
    assert {"times"} <= definitions["workload"]["properties"].keys()
    assert {"median_us", "interval_us"} <= definitions["times"]["properties"].keys()
    errors = make_result_schema("check")["definitions"]["error"]["properties"]
    assert {"code", "message", "help", "file", "line", "column", "text", "variants"} <= errors.keys()
    assert "losses" in make_result_schema("adopt")["definitions"]["adoption"]["properties"]
    assert "notes" in make_result_schema("check")["definitions"]["valid-project"]["properties"]


def test_the_skill_is_written_once_and_not_over_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = tmp_path / "skills"
    file = there / NAME / "SKILL.md"
    for _ in range(2):
        assert __main__.main(["init", "--skill", str(there), "--json"]) == ExitCode.OK
        assert json.loads(capsys.readouterr().out)["files"] == [f"{NAME}/SKILL.md"]
        assert file.read_text(encoding="utf-8") == SKILL
    file.write_text("mine", encoding="utf-8")
    assert __main__.main(["init", "--skill", str(there)]) == Code.FOREIGN_FILE.exit_code
    assert f"{file} would be overwritten" in capsys.readouterr().err
    assert file.read_text(encoding="utf-8") == "mine"
    assert __main__.main(["init", "--skill", str(there), "xy"]) == ExitCode.INPUT
    assert "--skill writes no project" in capsys.readouterr().err
