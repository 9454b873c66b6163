"""`driver lock`: the matrix's requirements, looked up on the user's origins and pinned in the lock."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py_driver.errors import Code, DriverError, error
from py_driver.fetch.debian import resolve_debian
from py_driver.fetch.entry import Entry, Origin, parse_entry
from py_driver.fetch.fetcher import Fetcher
from py_driver.fetch.resolution import resolve, resolve_members, resolve_sdist
from py_driver.matrix.lock import PARTS
from py_driver.matrix.releases import lock_file
from py_driver.matrix.requirements import Lock, Place, Requirement, wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from py_driver.errors import Diagnostic
    from py_driver.matrix.releases import Releases

_JOBS: Final = 8


class Texts(NamedTuple):
    """The current text of a lock file, empty if it does not exist, and its new text."""

    old: str
    new: str


def read(releases: Releases) -> Lock:
    """The existing lock: the driver's own, or the one of the user's matrix.

    Raises:
        DriverError: BAD_VALUE if it is not JSON.
    """
    own = releases.user_lock_file
    try:
        if own:
            lock: Lock = json.loads(_text(own) or "{}")
            return lock
        return {kind: json.loads(_text(lock_file(kind)) or "{}") for kind in PARTS}
    except ValueError as wrong:
        advice = "`driver lock --update` writes it anew"
        raise error(Code.BAD_VALUE, f"the lock is not JSON: {wrong}", help=advice) from wrong


def check_user_lock(releases: Releases) -> None:
    """Check that the lock of the user's matrix, if there is one, matches the matrix.

    Raises:
        DriverError: STALE_LOCK if it does not match, or cannot be read.
    """
    if releases.user_lock_file is None:  # errors of the matrix come first
        return
    old = releases.user_lock
    try:
        new, missing = complete(wanted(releases), old, {})
    except (AttributeError, KeyError, TypeError):
        new, missing = {}, []
    if missing or new != old:
        message = f"the lock {releases.user_lock_file} does not match your matrix"
        raise error(Code.STALE_LOCK, message, help=releases.lock_advice)


def texts_of(lock: Lock, releases: Releases) -> dict[Path, Texts]:
    """The files of a lock: several for the driver's own, a single one for the user's."""
    own = releases.user_lock_file
    parts = {own: lock} if own else {lock_file(kind): lock[kind] for kind in PARTS}
    return {path: Texts(_text(path), json.dumps(part, indent=2) + "\n") for path, part in parts.items()}


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def complete(want: Lock, old: Lock, found: Mapping[Requirement, Entry]) -> tuple[Lock, list[Requirement]]:
    """Fill in a lock with existing entries.

    Args:
        want: the result of `wanted`.
        old: a lock whose entries are kept if they meet the requirements.
        found: entries that were looked up; they take precedence.

    Returns:
        The lock, and the missing requirements, of which it has name and version instead of an entry.
    """
    missing: list[Requirement] = []

    def fill(place: Place) -> dict[str, Any]:
        need = place.need
        known = [entry for entry in (need.pinned, found.get(need)) if entry] or _entries(_part(old, place.near))
        entry = next((entry for entry in known if need.is_met_by(entry)), None)
        if entry is not None:
            return {**entry.to_json(), **place.more}
        missing.append(need)
        return {"name": need.name, "version": need.version, **place.more}

    return _replaced(want, fill), missing


def look_up(needs: Sequence[Requirement], report: Callable[[str], None]) -> dict[Requirement, Entry]:
    """Look up archives on the user's origins, many at a time.

    Args:
        needs: the requirements; duplicates are looked up once.
        report: gets progress messages.

    Raises:
        DriverError: the diagnostics of all failed look-ups; see `resolve` and `resolve_debian`.
    """
    fetcher = Fetcher()
    groups: dict[object, list[Requirement]] = {}
    for need in dict.fromkeys(needs):
        groups.setdefault((need.archive, need.cpu) if need.origin is Origin.DEBIAN else need, []).append(need)
    found: dict[Requirement, Entry] = {}
    wrong: list[Diagnostic] = []
    with ThreadPoolExecutor(_JOBS) as pool:
        running = [pool.submit(_resolved, fetcher, group) for group in groups.values()]
        for future in as_completed(running):
            try:
                found |= future.result()
            except DriverError as failure:
                wrong += failure.diagnostics
            report(f"{len(found)} of {len(needs)} archives")
    if wrong:
        raise DriverError(dict.fromkeys(wrong))
    return found


def _resolved(fetcher: Fetcher, needs: Sequence[Requirement]) -> dict[Requirement, Entry]:
    """The entries of a single wheel, or of packages of one suite and component for one CPU."""
    first = needs[0]
    if first.origin is Origin.DEBIAN:
        suite, component = first.archive
        entries = resolve_debian(
            [need.name for need in needs], suite, components=[component], architecture=first.debian_architecture
        )
        return dict(zip(needs, entries, strict=True))
    if first.sdist:
        return {first: resolve_sdist(fetcher, first.name, first.version)}
    entry = resolve(fetcher, first.name, first.version, python_tag=first.python_tag, cpu=first.cpu)
    return {first: resolve_members(fetcher, entry, first.include, first.exclude) if first.include else entry}


def _part(lock: Mapping[str, Any], path: Sequence[str]) -> Any:  # noqa: ANN401  (JSON)
    """The value at a path, or None."""
    part: Any = lock
    for key in path:
        part = part.get(key, {})
    return part


def _entries(value: Any) -> Iterator[Entry]:  # noqa: ANN401  (JSON)
    """The entries in a part of a lock."""
    if isinstance(value, dict) and "sha256" in value:
        yield parse_entry(value)
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _entries(inner)


def _replaced(value: Any, fill: Callable[[Place], dict[str, Any]]) -> Any:  # noqa: ANN401  (JSON with places)
    """A copy with every place filled."""
    if isinstance(value, Place):
        return fill(value)
    if isinstance(value, dict):
        return {key: _replaced(inner, fill) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, fill) for inner in value]
    return value
