"""Counting compile actions: what ran, what variants share, what a cache had; on records as the rules write them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from py_driver.actions.executed import (
    Did,
    Place,
    VariantAction,
    VariantActions,
    actions_of,
    count_actions,
    place_of,
    read_in_order,
    trace_actions,
)
from py_driver.bazel.events import Events
from py_driver.bazel.spawns import Spawn

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ONE, TWO = "bazel-out/k8-ST-1/bin/p/a.o", "bazel-out/k8-ST-2/bin/p/a.o"


def _record(variant: str, *actions: str) -> dict[str, Any]:
    return {"variant": variant, "directory": f"bazel-out/{variant}", "steps": list(actions)}


def _ran(path: str, seconds: float = 1.0, key: str = "") -> Spawn:
    return Spawn(key=key, runner="linux-sandbox", seconds=seconds, outputs={path: "d"})


def _hit(path: str, key: str = "") -> Spawn:
    return Spawn(key=key, runner="disk cache hit", outputs={path: "d"})


def _count(records: list[dict[str, Any]], completed: Iterable[str], spawns: Iterable[Spawn]) -> list[VariantActions]:
    return count_actions(records, trace_actions(records, dict.fromkeys(completed, ("x",)), spawns))


def _counts(variants: list[VariantActions]) -> list[tuple[int, int, int]]:
    return [(variant.run, variant.shared, variant.cached) for variant in variants]


def test_action_that_ran_counts_for_the_first_variant_that_has_it() -> None:
    records = [_record("a", ONE), _record("b", ONE, TWO)]
    variants = _count(records, [ONE, TWO], [_ran(TWO, 2.0, "2"), _ran(ONE, 5.0, "1")])
    assert _counts(variants) == [(1, 0, 0), (1, 1, 0)]
    assert [variant.seconds for variant in variants] == [5.0, 2.0]


def test_action_that_is_up_to_date_is_cached() -> None:
    [variant] = _count([_record("a", ONE)], [], [])
    assert _counts([variant]) == [(0, 0, 1)]
    assert variant.seconds == 0.0


def test_action_that_a_cache_had_is_cached() -> None:
    variants = _count([_record("a", ONE), _record("b", TWO)], [ONE, TWO], [_hit(ONE, "1"), _ran(TWO, key="2")])
    assert _counts(variants) == [(0, 0, 1), (1, 0, 0)]


def test_action_that_ran_before_the_build_was_tried_again_has_run() -> None:
    records = [_record("a", ONE, TWO)]
    assert _counts(_count(records, [TWO], [_ran(ONE, key="1"), _ran(TWO, key="2")])) == [(2, 0, 0)]
    assert _counts(_count(records, [ONE, TWO], [_ran(ONE, key="1"), _hit(ONE, "1"), _hit(TWO, "2")])) == [(1, 0, 1)]


def test_actions_with_equal_commands_and_inputs_are_shared_whichever_ran() -> None:
    records = [_record("a", ONE), _record("b", TWO)]
    assert _counts(_count(records, [ONE, TWO], [_ran(ONE, key="1"), _hit(TWO, "1")])) == [(1, 0, 0), (0, 1, 0)]
    assert _counts(_count(records, [ONE, TWO], [_hit(ONE, "1"), _ran(TWO, key="1")])) == [(0, 1, 0), (1, 0, 0)]
    assert _counts(_count(records, [ONE, TWO], [_hit(ONE, "1"), _hit(TWO, "1")])) == [(0, 0, 1), (0, 1, 0)]


def test_equal_actions_that_ran_twice_are_not_shared() -> None:
    records = [_record("a", ONE), _record("b", TWO)]
    assert _counts(_count(records, [ONE, TWO], [_ran(ONE, key="1"), _ran(TWO, key="1")])) == [(1, 0, 0), (1, 0, 0)]


def test_completed_action_without_a_record_of_its_process_ran() -> None:
    assert _counts(_count([_record("a", ONE)], [ONE], [])) == [(1, 0, 0)]


def test_variant_without_actions() -> None:
    [variant] = _count([_record("torch-universal")], [], [])
    assert _counts([variant]) == [(0, 0, 0)]
    assert (variant.variant, variant.directory) == ("torch-universal", "bazel-out/torch-universal")


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("k.objects/a/b.cu.phases/90a/device.ptx", ("a/b.cu", "k", "CudaDeviceCompile", "sm_90a")),
        ("k.objects/a/b.cu.phases/host.ii", ("a/b.cu", "k", "CudaPreprocess", None)),
        ("k.objects/a/b.cu.phases/90a/device.ii", ("a/b.cu", "k", "CudaPreprocess", "sm_90a")),
        ("k.objects/a/b.cu.phases/host.o", ("a/b.cu", "k", "CudaHostCompile", None)),
        ("k.objects/a/b.cu.phases/90/device.attempt.bc", ("a/b.cu", "k", "CudaDeviceFrontend", "sm_90")),
        ("k.objects/a/b.cu.o", ("a/b.cu", "k", "CudaFallback", None)),
        ("k.objects/whole.cu.o", ("whole.cu", "k", "KernelCudaCompile", None)),
        ("k.objects/b.cpp.phases/cxx.ii", ("b.cpp", "k", "KernelCxxPreprocess", None)),
        ("k.objects/b.cpp.o", ("b.cpp", "k", "KernelCxxCompile", None)),
        ("x.objects.objects/y.objects/z.phases/c.cu.phases/fatbin.o", None),
    ],
)
def test_path_of_an_action_says_what_it_compiles(path: str, place: tuple[str, str, str, str | None] | None) -> None:
    place = place or ("y.objects/z.phases/c.cu", "x.objects", "CudaFatbinary", None)
    paths = {f"bazel-out/2/bin/{package}k.objects/a/b.cu.phases/host.ii" for package in ("", "p/q/")}
    for package in ("", "p/q/"):
        full = f"bazel-out/2/bin/{package}{path}"
        action = VariantAction(variant="v", path=full, key=full, did=Did.CACHED, seconds=0.0, spawn=None)
        found = place_of(action, f"bazel-out/1/bin/{package}v", paths)
        assert (found.source, found.section, found.mnemonic, found.arch) == place


def test_log_knows_better_than_the_path_what_an_action_is() -> None:
    path = "bazel-out/2/bin/p/k.objects/a.cpp.o"
    spawn = Spawn(mnemonic="Other", outputs={path: ""})
    action = VariantAction(variant="v", path=path, key=path, did=Did.RUN, seconds=1.0, spawn=spawn)
    found = place_of(action, "bazel-out/1/bin/p/v", ())
    assert found == Place(source="a.cpp", section="k", mnemonic="Other", arch=None)


def test_records_come_in_the_order_of_the_variants(tmp_path: Path) -> None:
    files = []
    for name in ("b", "a", "c"):
        (tmp_path / name).write_text(json.dumps(_record(name)))
        files.append(tmp_path / name)
    assert [record["variant"] for record in read_in_order(files, ["a", "b"])] == ["a", "b"]
    log = tmp_path / "log.json"
    log.touch()
    events = Events(groups={"steps": tuple(files)})
    variants, actions = actions_of(events, ["c", "a", "b"], log)
    assert [variant.variant for variant in variants] == ["c", "a", "b"]
    assert actions == []
