"""Every string that build.toml may hold comes to BUILD.bazel unharmed, and brings nothing else along."""

from __future__ import annotations

import ast
import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nasty import PLACES, STRINGS, write

from py_driver.errors import DriverError
from py_driver.manifest.paths import path_problem
from py_driver.manifest.section import unsafe_character
from py_driver.matrix.releases import Releases
from py_driver.plan.buildfile import render
from py_driver.plan.plan import plan_directory
from py_driver.plan.staging import staged

if TYPE_CHECKING:
    from py_driver.plan.plan import Plan

_RULES = {"load", "package", "kernel_device_link", "kernel_id", "kernel_objects", "kernel_variant", "kernel_bundle"}
_CLEAN = {"cxx": "-DX=", "cuda": "-DX=", "binding": "-DX=", "upstream": "https://", "source": "https://"}


def planned(strings: dict[str, str], modules: tuple[str, ...] = ()) -> Plan | None:
    """The plan of a project with strings at places; None if it is refused."""
    with tempfile.TemporaryDirectory() as name:
        try:
            write(Path(name), strings, modules)
        except OSError:  # the disk has no such name
            return None
        try:
            return plan_directory(Path(name), Releases())
        except DriverError:
            return None


def calls(text: str) -> list[tuple[str, dict[str, Any]]]:
    """The calls of a BUILD file, with their arguments; it must have nothing else."""
    found = []
    for node in ast.parse(text).body:
        assert isinstance(node, ast.Expr)
        assert isinstance(node.value, ast.Call)
        assert isinstance(node.value.func, ast.Name)
        assert node.value.func.id in _RULES
        named = {str(word.arg): ast.literal_eval(word.value) for word in node.value.keywords}
        found.append((node.value.func.id, named | {"": [ast.literal_eval(arg) for arg in node.value.args]}))
    return found


def check(plan: Plan) -> dict[str, dict[str, Any]]:
    """Assert that the BUILD file of a plan says exactly what the plan does; its targets by name."""
    text = render(plan, "@rules_torch_kernels")
    found = calls(text)
    kinds = [kind for kind, _ in found]
    assert kinds == [
        "load",
        "package",
        *["kernel_id"] * len(plan.identities),
        *["kernel_objects"] * len(plan.groups),
        *["kernel_variant"] * len(plan.variants),
        "kernel_bundle",
    ]
    assert found[0][1][""][0] == "@rules_torch_kernels//rules:defs.bzl"
    targets = {attributes["name"]: attributes for _, attributes in found[2:]}
    assert len(targets) == len(found) - 2
    for group in plan.groups:
        target = targets[group.name]
        assert re.fullmatch(r"[A-Za-z0-9_.-]+", group.name)
        assert target.get("cxx_flags", []) == list(group.cxx_flags)
        assert target.get("cuda_flags", []) == list(group.cuda_flags)
        assert target.get("includes", []) == list(group.includes)
        assert sorted(target.get("srcs", [])) == sorted(group.sources)
        assert sorted(target.get("hdrs", [])) == sorted(group.headers)
    for variant in plan.variants:
        target = targets[variant.name]
        assert json.loads(target["metadata"]) == json.loads(json.dumps(variant.metadata))
        assert target["python"] == [staged(path) for path in plan.python]
        assert all(path_problem(path) is None for path in target["python"])
    return targets


def test_plain_project() -> None:
    plan = planned({})
    assert plan
    check(plan)


@pytest.mark.thorough
@pytest.mark.parametrize("place", PLACES)
def test_every_string_at_every_place(place: str) -> None:
    accepted = []
    for text in STRINGS:
        for value in {text, _CLEAN.get(place, "") + text, PLACES[place] + text}:
            if plan := planned({place: value}):
                check(plan)
                accepted.append(value)
    assert all(unsafe_character(text) is None for text in accepted)
    if place in {"license", "revision", "upstream", "source", "cxx", "binding"}:
        assert any('"' in text for text in accepted)
    if place == "section":
        assert all(any(sign in text for text in accepted) for sign in ('"', " ", "$("))
    if place in {"file", "include", "pyext"}:
        assert accepted == []


def test_strings_arrive_as_they_were() -> None:
    plan = planned({"license": '{{7*7}} "$(id)" %s', "cxx": '-DX="$(id)\\', "revision": "e\u0301r\u0435lu"})
    assert plan
    targets = check(plan)
    assert targets["c"]["cxx_flags"] == ['-DX="$(id)\\']
    metadata = json.loads(targets["torch213-cxx11-cpu-x86_64-linux"]["metadata"])
    assert metadata["license"] == '{{7*7}} "$(id)" %s'
    assert metadata["kernel-depends"] == [{"repo-id": "owner/name", "revision": "e\u0301r\u0435lu"}]
    assert metadata["kernels-minver"] == "0.17.0"


@pytest.mark.parametrize(
    "text", [string for string in STRINGS if string.isascii() and "/" not in string and "\0" not in string]
)
def test_names_of_python_modules(text: str) -> None:
    for name in (f"{text}.py", f"a{text}.py"):
        if plan := planned({}, (name,)):
            assert f"torch-ext/relu/{name}" in plan.python or name.startswith("."), name
            check(plan)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(PLACES)), st.sampled_from(STRINGS) | st.text(max_size=6), max_size=4))
def test_any_strings(strings: dict[str, str]) -> None:
    if plan := planned({place: _CLEAN.get(place, "") + text for place, text in strings.items()}):
        check(plan)
