"""Whether enough builders have rebuilt a kernel: what signed statements come to by a policy."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rules_torch_kernels.statements import (
    LONGEST,
    SUFFIX,
    TIME,
    StatementError,
    fingerprint,
    read_bundle,
    read_statement,
    signed_by,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from rules_torch_kernels.policies import Policy

_SKEW: Final = timedelta(days=1)
"""How far the clock of a builder may be ahead."""

_SHOWN: Final = 3
_FILE: Final = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)


class Wanted(NamedTuple):
    """What is to be confirmed: a variant as it is, and where it is from.

    Attributes:
        repository: `owner/name`.
        version: of the kernel; None if nobody asks for one.
        variant: its identifier.
        files: the SHA-256 of each file in hexadecimal, by its path in the repository.
    """

    repository: str
    version: int | None
    variant: str
    files: Mapping[str, str]


class Verdict(NamedTuple):
    """What statements come to.

    Attributes:
        builders: who has confirmed these bytes, in the policy's order.
        refused: why a statement does not count, by its name.
        problem: one sentence; empty if enough of the builders have confirmed them.
    """

    builders: tuple[str, ...]
    refused: Mapping[str, str]
    problem: str


def statements_below(directory: Path, variant: str, name: str = "") -> dict[str, bytes]:
    """The bundles of a variant in a directory of statements, by their paths; of what is no file, or too long, a part.

    Args:
        directory: with a directory for each variant.
        variant: its identifier.
        name: what messages call the directory; empty for its path.
    """
    paths = [path for path in sorted((directory / variant).glob(f"*{SUFFIX}")) if _FILE.fullmatch(path.name)]
    return {f"{name or directory}/{variant}/{path.name}": _content(path) for path in paths}


def _content(path: Path) -> bytes:
    """What a file has, or enough to refuse it: who can write there cannot stop the others from counting."""
    try:
        if not path.is_file():
            return b""  # a pipe would be waited for
        with path.open("rb") as file:
            return file.read(LONGEST + 1)
    except OSError:
        return b""


def judge(policy: Policy, wanted: Wanted, bundles: Mapping[str, bytes], now: datetime | None = None) -> Verdict:
    """Whether enough builders have confirmed a variant.

    Args:
        policy: whose statements count.
        wanted: the variant.
        bundles: signed statements, by their names; also of others and of other variants.
        now: the time; None for the present one.
    """
    confirmed, refused = set[str](), dict[str, str]()
    for name, bundle in bundles.items():
        try:
            confirmed.add(_confirmed_by(policy, wanted, bundle, now or datetime.now(UTC)))
        except StatementError as wrong:
            refused[name] = str(wrong)
    builders = tuple(name for name in policy.builders if name in confirmed)
    return Verdict(builders, refused, _problem(policy, wanted, builders, refused))


def _confirmed_by(policy: Policy, wanted: Wanted, bundle: bytes, now: datetime) -> str:
    """The builder whose statement confirms a variant.

    Raises:
        StatementError: none does.
    """
    signed = read_bundle(bundle)
    builder = signed_by(signed, policy.builders)
    if not builder:
        known = next((name for name, key in policy.builders.items() if fingerprint(key) == signed.hint), "")
        raise StatementError(f"has no valid signature of {known}" if known else "has a key that the policy lacks")
    files, predicate = read_statement(signed.payload)
    found = (*_other(wanted, predicate), *_other_files(wanted.files, files), *_untimely(policy, predicate, now))
    if found:
        raise StatementError(f"of {builder} {found[0]}")
    return builder


def _problem(policy: Policy, wanted: Wanted, builders: tuple[str, ...], refused: Mapping[str, str]) -> str:
    if len(builders) >= policy.require:
        return ""
    known = f" ({', '.join(builders)})" if builders else ""
    message = (
        f"{len(builders)} of {len(policy.builders)} builders{known} have confirmed {wanted.variant} of "
        f"{wanted.repository}, and the policy requires {policy.require}"
    )
    shown = [f"the statement {name} {why}" for name, why in refused.items()]
    more = [f"{len(shown) - _SHOWN} more"] if len(shown) > _SHOWN else []
    return "; ".join([message, *shown[:_SHOWN], *more])


def _other(wanted: Wanted, predicate: Mapping[str, Any]) -> Iterator[str]:
    """What a statement is for that is not what is to be confirmed."""
    if predicate.get("result") != "same":
        yield "does not state that the bytes are the same"
    for key in ("repository", "variant", "version"):
        value = getattr(wanted, key)
        if value is not None and predicate.get(key) != value:
            yield f"is for {key} {predicate.get(key)}"


def _other_files(here: Mapping[str, str], stated: Mapping[str, str]) -> Iterator[str]:
    """Files that are not as a statement has them."""
    for name in sorted({*here, *stated}):
        if name not in here:
            yield f"is for other files: {name} is missing here"
        elif name not in stated:
            yield f"is for other files: it lacks {name}"
        elif here[name] != stated[name]:
            yield f"is for other files: {name} has other bytes here"


def _untimely(policy: Policy, predicate: Mapping[str, Any], now: datetime) -> Iterator[str]:
    """What is wrong with the time of a statement."""
    try:
        time = datetime.strptime(str(predicate["time"]), TIME).replace(tzinfo=UTC)
    except (ValueError, LookupError):
        yield "has no time"
        return
    if time > now + _SKEW:
        yield f"is dated {predicate['time']}, which is in the future"
    if policy.max_age_days is not None and now - time > timedelta(days=policy.max_age_days):
        yield f"is {(now - time).days} days old, and the policy allows {policy.max_age_days}"
