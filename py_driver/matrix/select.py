"""The selection of variants: globs with braces, words of identifiers, and plain words for torch and backend."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from itertools import chain, product
from typing import TYPE_CHECKING, NamedTuple

from py_driver.errors import Code, Diagnostic, DriverError, error
from py_driver.matrix.backends import UNIVERSAL, backend_of
from py_driver.matrix.configurations import USUAL_CPU, is_identifier, parse, spell
from py_driver.matrix.toolkits import numbers
from py_driver.spelling import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from py_driver.matrix.configurations import Configuration

_BRACES = re.compile(r"\{([^{}]*)\}")
_EXPANSION_LIMIT = 1000
_RELEASES = tuple(f"2.{minor}" for minor in range(100))
"""Torch releases that patterns may name, existing or not."""
_ABIS = ("cxx11", "cxx98")
_SIGNS = frozenset("*?[")
_NEAR = 0.6
"""The average similarity of a near miss's words, from 0 to 1."""
_NEAR_COUNT = 3
"""The number of near misses in a message."""
_FEW = 6
"""The number of variants in a message without a near miss."""


class Words(NamedTuple):
    """A selection of variants in plain words.

    Attributes:
        torch: releases, e.g. `2.13`; empty for every release.
        backends: names of backends, e.g. `cu130`, or of all releases of a backend, e.g. `cuda`; empty for every
            backend.
        cpus: `x86_64`, `aarch64`; empty for the build machine's CPU, and for others only where a pattern finds nothing
            else.
        in_any: whether they select from several projects, so that a word may match nothing in one of them.
    """

    torch: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    cpus: tuple[str, ...] = ()
    in_any: bool = False

    @property
    def given(self) -> bool:
        """Whether they select less than everything."""
        return bool(self.torch or self.backends or self.cpus)


ANY = Words()
"""Every variant."""


def expand(pattern: str) -> tuple[str, ...]:
    """The expansion of braces: `a-{b,c}` is `a-b` and `a-c`. Braces may be nested.

    Raises:
        DriverError: USAGE if there are more than a thousand.
    """
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        glob = waiting.pop()
        if found := _BRACES.search(glob):
            choices = found[1].split(",")
            waiting += [glob[: found.start()] + choice + glob[found.end() :] for choice in reversed(choices)]
        else:
            done.append(glob)
        if len(done) + len(waiting) > _EXPANSION_LIMIT:
            raise error(Code.USAGE, f"the pattern `{pattern}` expands to more than {_EXPANSION_LIMIT} patterns")
    return tuple(dict.fromkeys(done))


def matches(name: str, pattern: str) -> bool:
    """Whether a pattern without braces matches an identifier: `torch213-cu130` is any with these words in this order.

    A pattern with a wildcard is a glob of the complete identifier.
    """
    if _SIGNS.intersection(pattern):
        return fnmatchcase(name, pattern)
    words = iter(name.split("-"))
    return all(word in words for word in pattern.split("-"))


def _found(pattern: str, groups: Sequence[Sequence[str]]) -> set[str]:
    """The first group's matches of a pattern without braces; a complete identifier matches only itself."""
    if any(pattern in group for group in groups):
        return {pattern}
    return next(filter(None, ({name for name in group if matches(name, pattern)} for group in groups)), set())


def select(patterns: Sequence[str], default: Sequence[str], *others: Sequence[str]) -> tuple[str, ...]:
    """The identifiers that match patterns, in the order of the groups.

    A pattern searches the default identifiers first, and the next group only without a match, so that `*-cu130-*` means
    the default releases and `torch211-*` a release that is built only on request. Each alternative in braces searches
    separately.

    Args:
        patterns: globs with braces, or words in order; see `matches`. Without patterns, every default identifier is
            selected.
        default: the default identifiers.
        others: the identifiers on request: for this machine's CPU, and for others.

    Raises:
        DriverError: NO_SUCH_VARIANT, one diagnostic for each pattern that matches nothing.
    """
    chosen = set(() if patterns else default)
    failures: list[Diagnostic] = []
    for pattern in patterns:
        found = set().union(*(_found(glob, (default, *others)) for glob in expand(pattern)))
        chosen |= found
        if not found:
            failures.extend(_no_match(pattern, [*default, *chain(*others)]).diagnostics)
    if failures:
        raise DriverError(failures)
    return tuple(name for name in (*default, *chain(*others)) if name in chosen)


def _no_match(pattern: str, known: Sequence[str]) -> DriverError:
    hint = _for_all_releases(pattern, known) or _near_misses(pattern, known)
    advice = (
        f"the variants are {', '.join(known)}"
        if len(known) <= _FEW
        else f"`driver variants --all` lists all {len(known)} variants"
    )
    return error(Code.NO_SUCH_VARIANT, f"no variant matches `{pattern}`", help=f"{hint}{' ' if hint else ''}{advice}")


def _near_misses(pattern: str, known: Sequence[str]) -> str:
    """`did you mean ...?` for the identifiers with the words most similar to a pattern's; empty if there are none."""
    likeness = {
        name: max(_likeness([word for word in glob.split("-") if word.strip("*?")], name) for glob in expand(pattern))
        for name in known
    }
    best = max(likeness.values(), default=0)
    if best < _NEAR:
        return ""
    near = [name for name in known if likeness[name] > best - 1e-9][:_NEAR_COUNT]
    return f"did you mean {' or '.join(f'`{name}`' for name in near)}?"


def _likeness(words: Sequence[str], name: str) -> float:
    """The average similarity of words to an identifier's, from 0 to 1."""
    from difflib import SequenceMatcher  # noqa: PLC0415  (only messages need it)

    there = name.split("-")
    return sum(max(SequenceMatcher(None, word, other).ratio() for other in there) for word in words) / max(
        len(words), 1
    )


def _for_all_releases(pattern: str, known: Sequence[str]) -> str:
    """A hint for a pattern with a torch release, if the variants for it have another name; else empty.

    The name of a variant for torch's stable ABI contains its first release, and that of Python files contains none.
    """
    configurations = {name: parse(name) for name in known if is_identifier(name)}
    meant: dict[str, None] = {}
    late: dict[str, None] = {}
    for name, configuration in configurations.items():
        if configuration.tvm_ffi or not (configuration.stable or configuration.is_noarch):
            continue
        releases = {release for glob in expand(pattern) for release in _releases(glob, configuration)}
        if any(configuration.torch is None or numbers(release) >= numbers(configuration.torch) for release in releases):
            meant[name] = None
        elif releases:
            late[configuration.torch or ""] = None
    if meant:
        kind = (
            "of Python files only"
            if any(configurations[name].is_noarch for name in meant)
            else "for torch's stable ABI"
        )
        return f"this project is {kind}: do you mean {' or '.join(f'`{name}`' for name in meant)}?"
    return f"this project is for torch's stable ABI, from torch {' or '.join(late)} on;" if late else ""


def _releases(glob: str, configuration: Configuration) -> Iterator[str]:
    """The torch releases for which a pattern would match a variant, if the variant were for that release alone."""
    named = {word: known.family for word in glob.split("-") if (known := backend_of(word))}
    backends = [
        word
        for word, family in named.items()
        if configuration.is_noarch and configuration.backend in {family, UNIVERSAL}
    ]
    alone = configuration._replace(stable=False, cpu=configuration.cpu or USUAL_CPU, os=configuration.os or "linux")
    for release, abi, backend in product(_RELEASES, _ABIS, [configuration.backend, *backends]):
        if matches(spell(alone._replace(torch=release, abi=abi, backend=backend)), glob):
            yield release


def narrow(
    words: Words, default: Sequence[Configuration], others: Sequence[Configuration], *, default_first: bool = True
) -> tuple[list[Configuration], list[Configuration]]:
    """The variants that words select, from the default ones and the others.

    Args:
        words: the words.
        default: the default variants.
        others: the variants on request.
        default_first: whether to search for each torch with each backend as for a pattern: among the default variants,
            and among the others only without a match. Otherwise among all.

    Raises:
        DriverError: NO_SUCH_VARIANT, one diagnostic for each word without a match.
    """
    configurations = dict.fromkeys((*default, *others))
    chosen: set[Configuration] = set()
    for torch, backend in product(words.torch or (None,), words.backends or (None,)):
        for group in (default, others):
            found = {configuration for configuration in group if is_for(configuration, torch, backend)}
            chosen |= found
            if found and default_first:
                break
    for found, beside in (
        ({*configurations}, ANY),
        (chosen, words),
    ):  # a word without a match by itself, or together with the others
        torches = [
            release
            for release in words.torch
            if not any(is_for(configuration, release, None) for configuration in found)
        ]
        backends = [
            backend
            for backend in words.backends
            if not any(is_for(configuration, None, backend) for configuration in found)
        ]
        if words.in_any and chosen and all(backend_of(backend) for backend in backends):
            continue
        if torches or backends:
            failures = [_no_word("torch", torch, beside.backends, configurations) for torch in torches]
            raise DriverError(
                failures + [_no_word("backend", backend, beside.torch, configurations) for backend in backends]
            )
    return [configuration for configuration in default if configuration in chosen], [
        configuration for configuration in others if configuration in chosen
    ]


def means(words: Words, configuration: Configuration) -> bool:
    """Whether words select a variant, apart from its CPU."""
    pairs = product(words.torch or (None,), words.backends or (None,))
    return any(is_for(configuration, torch, backend) for torch, backend in pairs)


def is_for(configuration: Configuration, torch: str | None, backend: str | None) -> bool:
    """Whether a variant is for a torch release and a backend; None stands for any.

    A variant for torch's stable ABI is for its release and all later ones; a variant with only Python files is for
    every release of torch and of its backend, and a universal one for every backend.
    """
    if (
        torch
        and configuration.torch
        and torch != configuration.torch
        and not (configuration.stable and numbers(torch) > numbers(configuration.torch))
    ):
        return False
    if backend is None or backend in {configuration.backend, configuration.family}:
        return True
    known = backend_of(backend)
    return known is not None and configuration.is_noarch and configuration.backend in {UNIVERSAL, known.family}


def _no_word(kind: str, word: str, beside: Sequence[str], configurations: Collection[Configuration]) -> Diagnostic:
    """The error for a word that selects no variant.

    Args:
        kind: `torch` or `backend`.
        word: the word.
        beside: the words of the other kind, which limit the choice.
        configurations: all configurations of the project.
    """
    torches = sorted({configuration.torch for configuration in configurations if configuration.torch}, key=numbers)
    backends = sorted(
        {name for configuration in configurations for name in (configuration.backend, configuration.family)}
    )
    hint = did_you_mean(word, torches) if kind == "torch" else _near_backends(word, backends)
    there = [f"torch {', '.join(torches)}"] if torches and (kind == "torch" or beside) else []
    there += [f"the backends {', '.join(backends)}"] if kind == "backend" or beside else []
    with_others = f" with {' or '.join(f'`{word}`' for word in beside)}" if beside else ""
    return Diagnostic(
        code=Code.NO_SUCH_VARIANT,
        message=f"no variant is for {'torch' if kind == 'torch' else 'the backend'} `{word}`{with_others}",
        help=f"{hint}{' ' if hint else ''}there are variants for {' and for '.join(there)}",
    )


def _near_backends(word: str, backends: Sequence[str]) -> str:
    """`did you mean ...?` for the releases of a toolkit with the word's first digits, or for the most similar name."""
    digits = re.sub(r"\D", "", word)
    near = [
        backend
        for backend in backends
        if digits and backend[:2] == word[:2].casefold() and re.sub(r"\D", "", backend).startswith(digits)
    ]
    return f"did you mean {' or '.join(f'`{name}`' for name in near)}?" if near else did_you_mean(word, backends)
