"""The changes since the last release that `driver release-check` found, kept for the card of the same build."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py_driver.building.variant_dir import DEV
from py_driver.system.files import keep_from_git, write, writing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

RECORD: Final = "release-changes.json"
_SHOWN: Final = ("function", "op", "architecture")


class Change(NamedTuple):
    """A change since the last release that callers notice.

    Attributes:
        kind: `function`, `op` or `architecture`.
        subject: the name of the changed part.
        before: the old form; empty for an addition.
        after: the new form; empty for a removal.
        breaking: why callers of the last release fail; empty if they do not.
    """

    kind: str
    subject: str
    before: str
    after: str
    breaking: str


class Changed(NamedTuple):
    """The changes since the last release.

    Attributes:
        since: the last release: `version 1`, or a commit.
        changes: the changes that callers notice, breaking ones first.
    """

    since: str
    changes: Sequence[Change]


def record_changes(
    directory: Path, since: str, ids: Mapping[str, str], changes: Iterable[tuple[str, str, str, str, str]]
) -> None:
    """Record changes in the directory of development builds.

    Args:
        directory: the directory of the project.
        since: the last release.
        ids: the ids of the variants that were compared, by their names.
        changes: the changes, with the fields of `Change`; changes of other kinds are dropped.

    Raises:
        DriverError: PERMISSION, NO_SPACE.
    """
    kept = [Change(*change)._asdict() for change in changes if change[0] in _SHOWN]
    root = directory / DEV
    with writing(root):
        root.mkdir(exist_ok=True)
        keep_from_git(root)
        write(root / RECORD, json.dumps({"since": since, "ids": dict(ids), "changes": kept}, indent=2).encode() + b"\n")


def recorded_changes(directory: Path, variants: Mapping[str, Mapping[str, Any]]) -> Changed | None:
    """The changes since the last release; None unless they were recorded for these builds of the variants.

    Args:
        directory: the directory of the project.
        variants: the metadata.json of each built variant, by name.
    """
    try:
        record = json.loads((directory / DEV / RECORD).read_bytes())
        ids = {str(name): str(value) for name, value in record["ids"].items()}
        found = Changed(str(record["since"]), [Change(**change) for change in record["changes"]])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return found if ids and ids == {name: str(variants.get(name, {}).get("id")) for name in ids} else None
