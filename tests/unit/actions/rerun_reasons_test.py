"""Why an action ran: what has changed since the last time."""

from __future__ import annotations

import pytest

from py_driver.actions.executed import Did, Place, VariantAction
from py_driver.actions.rerun_reasons import NEW, SAME, Misses, calls_of, place_key
from py_driver.bazel.spawns import Call, Spawn

PLACE = Place(source="a.cu", section="g", mnemonic="CudaAssemble", arch="sm_80")
KEY = place_key("v", PLACE)
OLD = Call(
    command=("ptxas", "-O3", "-DX=1"),
    environment={"PATH": "/none", "A": "1"},
    inputs={"a.ptx": "1", "cuda_13_0": "2", "b.h": "3"},
)


@pytest.mark.parametrize(
    ("command", "environment", "inputs", "expected"),
    [
        (OLD.command, OLD.environment, OLD.inputs, [SAME]),
        (OLD.command, OLD.environment, {**OLD.inputs, "a.ptx": "9"}, ["a.ptx has changed"]),
        (
            OLD.command,
            OLD.environment,
            {"a.ptx": "1", "cuda_13_0": "2", "c.h": "3"},
            ["c.h was added", "b.h was removed"],
        ),
        (
            ("ptxas", "-O3", "-DX=2"),
            OLD.environment,
            OLD.inputs,
            ["argument `-DX=1` was removed", "argument `-DX=2` was added"],
        ),
        (("ptxas", "-DX=1", "-O3"), OLD.environment, OLD.inputs, ["the order of the arguments has changed"]),
        (OLD.command, {"PATH": "/other", "A": "1"}, OLD.inputs, ["variable PATH has changed"]),
        (OLD.command, {"PATH": "/none"}, OLD.inputs, ["variable A was removed"]),
        (
            OLD.command,
            {},
            {str(i): "1" for i in range(3)},
            ["0 was added", "1 was added", "2 was added", "a.ptx was removed", "cuda_13_0 was removed", "3 more"],
        ),
    ],
)
def test_reasons(
    command: tuple[str, ...], environment: dict[str, str], inputs: dict[str, str], expected: list[str]
) -> None:
    new = Call(command=command, environment=environment, inputs=inputs)
    assert list(Misses({KEY: OLD}).why(KEY, new)) == expected


def test_an_action_of_another_variant_tells_too() -> None:
    near = Call(command=OLD.command, environment=OLD.environment, inputs={**OLD.inputs, "a.ptx": "9"})
    far = Call(command=(), environment={}, inputs={})
    new = {"far|" + KEY.partition("|")[2]: far, "near|" + KEY.partition("|")[2]: near}
    assert Misses(new).why(KEY, OLD) == ("a.ptx has changed",)
    assert Misses({}).why(KEY, OLD) == (NEW,)
    assert Misses(new).why(KEY, None) == ()


def test_what_did_not_run_stays_known() -> None:
    def action(variant: str, call: Call | None) -> tuple[Place, VariantAction]:
        spawn = Spawn(call=call) if call else None
        return PLACE, VariantAction(variant=variant, path="p", key="k", did=Did.RUN, seconds=1.0, spawn=spawn)

    other, sources = place_key("other", PLACE), {("g", "a.cu")}
    assert calls_of([action("v", None), action("other", OLD)], {KEY: OLD}, sources) == {KEY: OLD, other: OLD}
    assert calls_of([], {KEY: OLD, "v|gone|b.cu|CudaAssemble|sm_80": OLD}, sources) == {KEY: OLD}
