"""The real Bazel reads from a generated BUILD.bazel the very strings that build.toml has, and no other rule."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from nasty import STRINGS, write

from py_driver.manifest.section import unsafe_character
from py_driver.matrix.releases import Releases
from py_driver.plan.plan import plan_directory

if TYPE_CHECKING:
    from clone import Driver

    from py_driver.plan.plan import Plan

pytestmark = pytest.mark.e2e

_SAFE = [text for text in STRINGS if unsafe_character(text) is None]
_SCRATCH = "scratch/strings"


def _as_utf8(value: Any) -> Any:  # noqa: ANN401  (JSON)
    """A value without what Bazel does to its output: it keeps the bytes of a string, and writes each as a character."""
    if isinstance(value, list):
        return [_as_utf8(item) for item in value]
    return value.encode("latin-1").decode("utf-8") if isinstance(value, str) else value


def _targets(answer: str) -> dict[str, dict[str, Any]]:
    """The rules of a query's answer with the values of their attributes."""
    found = {}
    for target in map(json.loads, answer.splitlines()):
        if target["type"] == "RULE":
            rule = target["rule"]
            values = {
                attribute["name"]: _as_utf8(attribute.get("stringValue", attribute.get("stringListValue")))
                for attribute in rule["attribute"]
            }
            found[rule["name"].rpartition(":")[2]] = {"class": rule["ruleClass"], **values}
    return found


@pytest.fixture(scope="module")
def plan(clone: Driver) -> Plan:
    """A project inside the clone, whose flags and metadata are made of all nasty strings that are accepted."""
    project = clone.root / _SCRATCH
    write(
        project,
        {
            "license": " ".join(_SAFE),
            "cxx": "-DNASTY=" + "".join(_SAFE),
            "binding": "-DNASTY=" + "|".join(_SAFE),
            "cuda": "-DNASTY=" + "".join(text for text in _SAFE if not set("$`\\") & set(text)),
        },
    )
    clone.run("gen", project)
    return plan_directory(project, Releases())


def test_bazel_reads_what_the_plan_says(clone: Driver, plan: Plan) -> None:
    targets = _targets(clone.bazel("query", "--output=streamed_jsonproto", f"//{_SCRATCH}:all"))
    made = [
        [identity.name for identity in plan.identities],
        [group.name for group in plan.groups],
        [variant.name for variant in plan.variants],
    ]
    assert set(targets) == {name for names in made for name in names} | {"all_variants"}
    assert {target["class"] for target in targets.values()} <= {
        "kernel_id", "kernel_objects", "kernel_variant", "kernel_bundle"
    }  # fmt: skip
    for group in plan.groups:
        assert targets[group.name]["cxx_flags"] == (list(group.cxx_flags) or None)
        assert targets[group.name]["cuda_flags"] == (list(group.cuda_flags) or None)
    for variant in plan.variants:
        assert json.loads(targets[variant.name]["metadata"]) == json.loads(json.dumps(variant.metadata))
    assert "@evil" in str(targets["c"]["cxx_flags"])
