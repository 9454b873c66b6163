"""The ops that a source registers, compared before and after it was rewritten for torch's stable ABI. Pure."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.plan.op_registrations import registrations

if TYPE_CHECKING:
    from py_driver.plan.op_registrations import Registration

_EVERY_KEY: Final = "CompositeImplicitAutograd"
_NAME: Final = re.compile(r"\s*([\w:.]+)")
_UNREAD: Final = "?"


class Ops(NamedTuple):
    """What a source registers.

    Attributes:
        schemas: how often each, with its namespace and what its `#if`s say.
        kernels: how often each, by the name of its op and the dispatch key.
    """

    schemas: Counter[str]
    kernels: Counter[str]


def ops_of(text: str) -> Ops:
    """What a source registers, with torch's own macros or with those of its stable ABI.

    A kernel beside a schema, or without a key, is what torch makes of it: one for `CompositeImplicitAutograd`.

    Args:
        text: of the source.
    """
    schemas, kernels = Counter[str](), Counter[str]()
    for call in registrations(text).found:
        words = " ".join(call.text.split()) if call.text is not None else _UNREAD
        if call.what == "def":
            schemas[_under(call, words)] += 1
        name = _NAME.match(words)
        if call.what == "impl" or (call.what == "def" and not call.alone):
            key = call.key if call.what == "impl" and call.key else _EVERY_KEY
            kernels[_under(call, f"{name[1] if name else words} for {key}")] += 1
    return Ops(schemas, kernels)


def difference(before: Ops, after: Ops) -> str:
    """The first schema or kernel that only one of two has, in words; empty if both have the same."""
    for old, new in zip(before, after, strict=True):
        for lost in old - new:
            return f"`{lost}` would be registered no more"
        for fresh in new - old:
            return f"`{fresh}` would be registered anew"
    return ""


def _under(call: Registration, words: str) -> str:
    """A registration with its namespace, and the backends that its `#if`s choose."""
    seen = call.seen
    backends = " ".join(sorted(seen.backends)) if seen.known else "some"
    condition = f" if {backends}" if seen.conditional else ""
    return f"{call.namespace or _UNREAD}: {words}{condition}"
