"""The time line of a build: lanes, and the chain that it had to wait for."""

from __future__ import annotations

from py_driver.actions.executed import Did, Place, VariantAction
from py_driver.bazel.spawns import Call, Spawn
from py_driver.reporting.timeline import Timeline, make_timeline


def action(  # noqa: PLR0913  (all that a time line reads of an action)
    name: str,
    start: float | None,
    seconds: float,
    *,
    reads: tuple[str, ...] = (),
    configuration: str = "1",
    did: Did = Did.RUN,
) -> tuple[Place, VariantAction]:
    """An action that makes a file of its name, and reads those of others."""
    path = f"bazel-out/{configuration}/bin/p/{name}"
    spawn = Spawn(
        runner="linux-sandbox",
        seconds=seconds,
        start=start,
        outputs={path: f"digest of {name}"},
        call=Call(command=(), environment={}, inputs={f"p/{read}": f"digest of {read}" for read in reads}),
    )
    variant = VariantAction(variant="v", path=path, key=name, did=did, seconds=seconds, spawn=spawn)
    return Place(source=name, section="k", mnemonic="CudaAssemble", arch=None), variant


def told(line: Timeline | None) -> list[tuple[str, float, int, bool]]:
    assert line is not None
    return [(bar.source, bar.start, bar.lane, bar.critical) for bar in line.bars]


def test_actions_at_the_same_time_have_lanes_of_their_own() -> None:
    line = make_timeline(
        [action("c", 1012.0, 1.0), action("a", 1000.0, 10.0), action("b", 1001.5, 10.0), action("d", 1010, 1)]
    )
    assert told(line) == [("a", 0.0, 0, True), ("b", 1.5, 1, False), ("d", 10.0, 0, False), ("c", 12.0, 0, False)]
    assert line is not None
    assert (line.seconds, line.lanes, line.critical) == (13.0, 2, 10.0)


def test_critical_path_is_the_longest_chain() -> None:
    actions = [
        action("text", 0, 2),
        action("short", 2, 1, reads=("text",)),
        action("long", 2, 5, reads=("text",)),
        action("object", 7, 1, reads=("short", "long")),
        action("alone", 0, 7),
    ]
    line = make_timeline(actions)
    assert [name for name, _, _, critical in told(line) if critical] == ["text", "long", "object"]
    assert line is not None
    assert line.critical == 8.0


def test_what_another_variant_made_counts_by_its_content() -> None:
    actions = [action("a", 0, 2, configuration="other"), action("b", 2, 1, reads=("a",))]
    assert [critical for *_, critical in told(make_timeline(actions))] == [True, True]
    first, (place, second) = actions
    changed = Spawn(seconds=1, start=2, call=Call(command=(), environment={}, inputs={"p/a": "another digest"}))
    variant = VariantAction(variant="v", path="p/b", key="b", did=Did.RUN, seconds=1, spawn=changed)
    assert second.spawn is not None
    assert [critical for *_, critical in told(make_timeline([first, (place, variant)]))] == [True, False]


def test_what_ended_later_was_not_waited_for() -> None:
    actions = [action("a", 0, 2), action("b", 1, 5, reads=("a",))]
    assert [critical for *_, critical in told(make_timeline(actions))] == [False, True]


def test_only_what_ran_at_a_known_time_is_there() -> None:
    assert make_timeline([]) is None
    assert (
        make_timeline([action("a", None, 2), action("b", 1, 2, did=Did.SHARED), action("c", 1, 0, did=Did.CACHED)])
        is None
    )
