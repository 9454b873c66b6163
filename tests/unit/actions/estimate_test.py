"""What the actions that are expected cost: seconds and memory, and the sentence that says so."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from py_driver.actions.estimate import Estimate, History, Known, describe, doubt, estimate, learned, without_load
from py_driver.actions.executed import Did, Place, VariantAction
from py_driver.actions.expected import ExpectedAction
from py_driver.actions.phases import TorchHeaders, phases

if TYPE_CHECKING:
    from collections.abc import Sequence


def _action(mnemonic: str, source: str = "g.cu", arch: str | None = None) -> ExpectedAction:
    return ExpectedAction(
        variant="v",
        section="g",
        source=source,
        mnemonic=mnemonic,
        arch=arch,
        part="cu130",
        reads=source,
        headers=TorchHeaders.NONE,
    )


CHAIN = [
    _action("CudaPreprocess"),
    _action("CudaPreprocess", arch="sm_80"),
    _action("CudaDeviceCompile", arch="sm_80"),
    _action("CudaAssemble", arch="sm_80"),
    _action("CudaPreprocess", arch="sm_90"),
    _action("CudaDeviceCompile", arch="sm_90"),
    _action("CudaAssemble", arch="sm_90"),
    _action("CudaFatbinary"),
    _action("CudaFrontend"),
    _action("CudaHostCompile"),
]
SECONDS = {"CudaPreprocess": 1.0, "CudaDeviceCompile": 4.0, "CudaAssemble": 2.0, "CudaFrontend": 3.0}


def _learned(actions: Sequence[ExpectedAction]) -> History:
    return {s.place: Known(reads=("old",), key="", seconds=SECONDS.get(s.mnemonic, 0.5)) for s in actions}


def _ahead(actions: Sequence[ExpectedAction], history: History, jobs: int = 2, memory: int = 100_000) -> Estimate:
    return estimate(actions, history, jobs=jobs, memory=memory)


@pytest.mark.parametrize(("jobs", "seconds"), [(1, 19.0), (3, 7.5), (99, 7.5)])
def test_seconds_of_a_source(jobs: int, seconds: float) -> None:
    ahead = _ahead(CHAIN, _learned(CHAIN), jobs)
    assert (ahead.seconds, ahead.measured) == (seconds, True)


def test_each_waits_for_its_own_text() -> None:
    known = _learned(CHAIN) | {
        place: Known(reads=("old",), key="", seconds=seconds)
        for place, seconds in {"g|g.cu|CudaPreprocess|sm_90|cu130": 9.0, "g|g.cu|CudaFrontend||cu130": 20.0}.items()
    }
    assert _ahead(CHAIN, known, 99).seconds == 1.0 + 20.0 + 0.5
    assert (
        _ahead([action for action in CHAIN if action.mnemonic != "CudaFrontend"], known, 99).seconds
        == 9.0 + 4.0 + 2.0 + 0.5
    )


def test_what_a_text_takes_says_nothing_of_all_of_them() -> None:
    joined = {"g|g.cu|CudaPreprocess||cu130": Known(reads=("old",), key="", seconds=50.0)}
    assert _ahead([_action("CudaPreprocess", "new.cu", arch="sm_80")], joined, 1).seconds == 0.4


def test_memory_says_how_many_run_at_once() -> None:
    devices = [_action("CudaDeviceCompile", source=f"{i}.cu", arch="sm_80") for i in range(4)]
    wide = _ahead(devices, _learned(devices), 4)
    assert (wide.seconds, wide.memory) == (4.0, 3200)
    narrow = _ahead(devices, _learned(devices), 4, memory=1700)
    assert (narrow.seconds, narrow.memory) == (8.0, 1600)
    alone = _ahead(devices, _learned(devices), 4, memory=100)
    assert (alone.seconds, alone.memory) == (16.0, 800)


def test_seconds_of_what_never_ran() -> None:
    new = [_action("CudaDeviceCompile", source="new.cu", arch="sm_80"), _action("CudaFrontend", source="new.cu")]
    unknown = _ahead(new, {}, 1)
    assert unknown.seconds == sum(phases()[action.mnemonic].seconds[0] for action in new)
    assert not unknown.measured
    of_its_kind = _ahead(new, _learned(CHAIN), 1)
    assert (of_its_kind.seconds, of_its_kind.measured) == (4.0 + 3.0, False)
    another_arch = _ahead([_action("CudaDeviceCompile", arch="sm_100")], _learned(CHAIN), 1)
    assert (another_arch.seconds, another_arch.measured) == (4.0, True)


def test_many_actions_take_no_time() -> None:
    actions = [action._replace(source=f"{i}.cu", reads=str(i)) for i in range(2000) for action in CHAIN]
    moved = [action._replace(source=f"src/{action.source}") for action in actions]
    start = time.process_time()
    assert _ahead(moved, _learned(actions), 16).run == 2000 * len(CHAIN)
    assert time.process_time() - start < 10


def test_a_hit_keeps_the_seconds_of_the_run() -> None:
    [action] = actions = [_action("CudaFrontend")]
    place = Place(source="g.cu", section="g", mnemonic="CudaFrontend", arch=None)
    hit = VariantAction(variant="v", path="p", key="p", did=Did.CACHED, seconds=0.0, spawn=None)
    history = {action.place: Known(reads=("old",), key="k", seconds=3.0)}
    known = learned(history, actions, [(place, hit)], {("g", "g.cu")})[action.place]
    assert known == Known(reads=("g.cu", "old"), key="k", seconds=3.0)


def test_templates_take_more_than_others() -> None:
    plain = [_action("CudaDeviceCompile", source=f"{i}.cu", arch="sm_80") for i in range(4)]
    large = [action._replace(templates=True) for action in plain]
    before, ahead = _ahead(plain, {}, 4), _ahead(large, {}, 4)
    assert ahead.seconds > 10 * before.seconds
    assert ahead.memory is not None
    assert before.memory is not None
    assert ahead.memory > 3 * before.memory
    assert (before.templates, before.most) == (0, 0)
    assert (ahead.templates, ahead.most) == (4, 5600)
    assert doubt(before, 4, 1000) == ""
    assert doubt(ahead, 4, 4 * 5600) == ""
    assert doubt(ahead, 8, 4 * 5600) == ""
    assert doubt(ahead, 4, None) == ""
    assert doubt(ahead, 4, 12_000).startswith(
        "note: 4 actions compile headers of CUTLASS or CuTe; one alone has taken 5.6 GB"
    )
    assert doubt(ahead, 4, 12_000).endswith("--jobs 2")
    assert doubt(ahead, 1, 4_000).endswith("--jobs 1")
    # What was measured counts, for this source and for others with such headers, and not what others took.
    known = {large[0].place: Known(reads=("old",), key="", seconds=7.0)}
    assert _ahead(large, known, 1).seconds == 4 * 7.0
    light = _action("CudaDeviceCompile", source="light.cu", arch="sm_80")
    known = {light.place: Known(reads=("old",), key="", seconds=0.5)}
    assert _ahead([light, large[0]], known, 1).seconds > 50


def test_time_that_others_took_is_not_remembered() -> None:
    """Of a kind of which processors worked for half of the time that its actions took."""
    place = Place(source="g.cu", section="g", mnemonic="CudaFrontend", arch=None)
    other = Place(source="g.cu", section="g", mnemonic="CudaHostCompile", arch=None)
    third = Place(source="g.cu", section="g", mnemonic="CudaFatbinary", arch=None)

    def ran(seconds: float, did: Did = Did.RUN) -> VariantAction:
        return VariantAction(variant="v", path="p", key="p", did=did, seconds=seconds, spawn=None)

    done = [(place, ran(6.0)), (place, ran(2.0)), (place, ran(0.0, Did.CACHED)), (other, ran(3.0)), (third, ran(1.0))]
    cpu = {"CudaFrontend": 4.0, "CudaHostCompile": 7.5}
    assert [action.seconds for _, action in without_load(done, cpu)] == [3.0, 1.0, 0.0, 3.0, 1.0]


def test_a_sentence() -> None:
    ahead = Estimate(run=45, shared=33, cached=2, seconds=83.4, memory=2400, measured=True)
    assert describe(ahead, 2, 4) == (
        "plan: 2 variants, 80 compile actions: at most 45 run, 33 shared, 2 cached; "
        "about 1 min 23 s of compiling, 4 at once, in 2.4 GB"
    )
    assert "very roughly 1 min 23 s" in describe(ahead._replace(measured=False), 2, 4)
    assert describe(ahead._replace(memory=None), 2, 100).endswith("about 1 min 23 s of compiling, 100 at once")
    assert describe(ahead._replace(run=0), 1, 4) == "plan: 1 variant, 35 compile actions: none has to run"
    one = Estimate(run=1, shared=0, cached=0, seconds=2.0, memory=None, measured=False)
    assert describe(one, 1, 1) == (
        "plan: 1 variant, 1 compile action: at most 1 run, 0 shared, 0 cached; very roughly 2 s of compiling, 1 at once"
    )
    assert describe(Estimate(0, 0, 0, 0.0, 0, measured=True), 1, 4) == "plan: 1 variant, nothing to compile"


def test_kinds_of_actions_fit_together() -> None:
    known = phases().values()
    assert all(len(values) == 3 and min(values) > 0 for phase in known for values in (phase.memory, phase.seconds))
    earlier = [(phase.ways, phases()[name]) for phase in known for name in phase.after]
    assert all(set(ways).intersection(before.ways) and before.makes for ways, before in earlier)
    files = [file for phase in known for file in phase.makes.values()]
    assert len(files) == len(set(files))
