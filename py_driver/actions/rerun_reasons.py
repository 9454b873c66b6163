"""Why an action ran: the differences from its last run or cache hit. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.actions.author_paths import with_comments
from py_driver.actions.executed import Did

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from py_driver.actions.executed import Place, VariantAction
    from py_driver.bazel.spawns import Call

Calls = dict[str, "Call"]
"""The calls of actions, by `place_key`."""

_SHOWN = 5

NEW = "no earlier build with a report has this action"
"""The reason for an unknown action."""

SAME = "cache miss: none of its inputs has changed"
"""The reason for an action that should not have run."""


def place_key(variant: str, place: Place) -> str:
    """Identifies an action of a variant, independent of its inputs."""
    return "|".join((variant, place.section, place.source, place.mnemonic, place.arch or ""))


def calls_of(
    actions: Iterable[tuple[Place, VariantAction]], earlier: Calls, sources: Collection[tuple[str, str]]
) -> Calls:
    """The calls of a build's actions. An action without a process keeps the call of an earlier build.

    Args:
        actions: the actions of the build, each with its place; shared actions are kept once.
        earlier: the calls of earlier builds.
        sources: section and path of each source of the project.
    """
    found = {key: call for key, call in earlier.items() if tuple(key.split("|")[1:3]) in sources}
    for place, action in actions:
        if action.spawn and action.spawn.call and action.did is not Did.SHARED:
            found[place_key(action.variant, place)] = action.spawn.call
    return found


class Misses:
    """Finds the reasons why actions ran.

    Args:
        earlier: the calls of actions in earlier builds.
    """

    def __init__(self, earlier: Calls) -> None:
        self._earlier = earlier
        self._places: dict[str, list[Call]] = {}
        for key, call in earlier.items():
            self._places.setdefault(key.partition("|")[2], []).append(call)

    def why(self, key: str, call: Call | None) -> tuple[str, ...]:
        """The reasons why an action ran: at most five, and the number of others.

        Args:
            key: the key of the action, see `place_key`.
            call: its call; None if unknown.
        """
        if call is None:
            return ()
        if key in self._earlier:
            found = _changes(self._earlier[key], call)
        else:
            # Another variant's action may have been equal; the most similar one is the most informative.
            others = [_changes(other, call) for other in self._places.get(key.partition("|")[2], ())]
            found = min(others, key=len, default=[NEW])
        more = [f"{len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
        return (*found[:_SHOWN], *more)


def _changes(old: Call, new: Call) -> list[str]:
    read = [{with_comments(name): digest for name, digest in call.inputs.items()} for call in (old, new)]
    found = _difference(read[0], read[1])
    found += [f"argument `{word}` was removed" for word in _without(old.command, new.command)]
    found += [f"argument `{word}` was added" for word in _without(new.command, old.command)]
    found += _difference(old.environment, new.environment, "variable ")
    if not found and old.command != new.command:
        found.append("the order of the arguments has changed")
    return found or [SAME]


def _without(words: Sequence[str], others: Sequence[str]) -> list[str]:
    known = set(others)
    return [word for word in dict.fromkeys(words) if word not in known]


def _difference(old: Mapping[str, str], new: Mapping[str, str], kind: str = "") -> list[str]:
    found = [f"{kind}{name} has changed" for name in new if name in old and old[name] != new[name]]
    found += [f"{kind}{name} was added" for name in new if name not in old]
    return found + [f"{kind}{name} was removed" for name in old if name not in new]
