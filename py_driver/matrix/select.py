"""Which variants a command means: globs with braces over identifiers."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from py_driver.errors import Code, DriverError, error
from py_driver.spelling import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from py_driver.errors import Diagnostic

_BRACES = re.compile(r"\{([^{}]*)\}")
_EXPANSION_LIMIT = 1000


def expand(pattern: str) -> tuple[str, ...]:
    """The patterns that braces stand for: `a-{b,c}` is `a-b` and `a-c`. Braces may stand inside one another.

    Raises:
        DriverError: USAGE if there are more than a thousand.
    """
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        one = waiting.pop()
        if found := _BRACES.search(one):
            choices = found[1].split(",")
            waiting += [one[: found.start()] + choice + one[found.end() :] for choice in reversed(choices)]
        else:
            done.append(one)
        if len(done) + len(waiting) > _EXPANSION_LIMIT:
            raise error(Code.USAGE, f"the pattern `{pattern}` stands for more than {_EXPANSION_LIMIT} patterns")
    return tuple(dict.fromkeys(done))


def select(patterns: Sequence[str], bundled: Sequence[str], others: Sequence[str] = ()) -> tuple[str, ...]:
    """The identifiers that patterns mean, in the order given here.

    A pattern looks through the bundled identifiers first and through the others only if it finds none, so that
    `*-cu130-*` means the default releases and `torch211-*` one that is built only when named.

    Args:
        patterns: globs with braces; none of them means every bundled identifier.
        bundled: what is built by default.
        others: what is built when named.

    Raises:
        DriverError: NO_SUCH_VARIANT, one diagnostic for each pattern that matches nothing.
    """
    chosen = set(() if patterns else bundled)
    failures: list[Diagnostic] = []
    for pattern in patterns:
        globs = expand(pattern)
        for group in (bundled, others):
            if matched := {name for name in group if any(fnmatchcase(name, glob) for glob in globs)}:
                chosen |= matched
                break
        else:
            failures.extend(_no_match(pattern, [*bundled, *others]).diagnostics)
    if failures:
        raise DriverError(failures)
    return tuple(name for name in (*bundled, *others) if name in chosen)


def _no_match(pattern: str, known: Sequence[str]) -> DriverError:
    hint = did_you_mean(pattern, known)
    return error(
        Code.NO_SUCH_VARIANT,
        f"no variant matches `{pattern}`",
        help=f"{hint}{' ' if hint else ''}the variants are {', '.join(known)}",
    )
