"""The reader of op schemas beside torch's own: whatever torch takes, `driver check` takes."""

from __future__ import annotations

import json
import random
import subprocess

import pytest

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.plan.op_schema import schema_problem

pytestmark = pytest.mark.e2e

_OWN = """
import json, torch
print(json.dumps(sorted({str(one) for one in torch._C._jit_get_all_schemas()})))
"""
_PARSE = """
import json, sys, torch
def taken(text):
    try:
        torch._C.parse_schema(text, False)
    except Exception:
        return False
    return True
print(json.dumps([taken(text) for text in json.load(sys.stdin)]))
"""
_PARTS = (
    *"()[]?!*|.:=,# \n&\\",
    "->",
    "...",
    "::",
    "Tensor",
    "int",
    "double",
    "x",
    "None",
    "-1",
    "1.5",
    "'a'",
    "in",
    "0x1",
)
_COUNT = 20_000
_SEED = 20261126


def _asked(program: str, texts: list[str]) -> list[str] | list[bool]:
    python = python_for([parse("torch213-cxx11-cpu-x86_64-linux")], Releases(), Output())
    command = [python, "-c", program]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True, cwd="/")
    answer: list[str] | list[bool] = json.loads(done.stdout)
    return answer


def _changed(text: str, chance: random.Random) -> str:
    """A schema with up to three places changed: something removed, put in, or left out up to another place."""
    for _ in range(chance.randint(0, 3)):
        first, second = sorted(chance.randrange(len(text) + 1) for _ in range(2))
        how = chance.random()
        end = min(second, first + 4) if how < 0.5 else second
        text = text[:first] + (chance.choice(_PARTS) + text[first:] if how > 0.7 else text[end:])
    return text


def test_what_torch_takes_is_taken() -> None:
    own = [str(schema) for schema in _asked(_OWN, [])]
    chance = random.Random(_SEED)  # noqa: S311
    texts = own + [_changed(chance.choice(own).partition("::")[2] or "f()", chance) for _ in range(_COUNT)]
    refused = [schema_problem(text) is not None for text in texts]
    taken = _asked(_PARSE, texts)
    assert [text for text, no, yes in zip(texts, refused, taken, strict=True) if no and yes] == []
    # And what torch refuses is refused, but for values that another release may take.
    wrong = sum(not yes for yes in taken)
    assert wrong > _COUNT // 4
    assert sum(not no and not yes for no, yes in zip(refused, taken, strict=True)) < wrong // 50
