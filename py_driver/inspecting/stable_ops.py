"""The ops that a source registers, compared before and after it is rewritten for torch's stable ABI. Pure."""

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
    """The registrations of a source.

    Attributes:
        schemas: the count of each schema with its namespace and the conditions of its `#if`s.
        kernels: the count of each kernel, by op and dispatch key.
    """

    schemas: Counter[str]
    kernels: Counter[str]


def ops_of(text: str) -> Ops:
    """The registrations of a source, with torch's own macros or with those of its stable ABI.

    A kernel beside a schema, or without a key, counts as one for `CompositeImplicitAutograd`, as in torch.

    Args:
        text: the source.
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
    """The first schema or kernel that only one of them has, in words; empty if they are equal."""
    for old, new in zip(before, after, strict=True):
        for lost in old - new:
            return f"`{lost}` would no longer be registered"
        for fresh in new - old:
            return f"`{fresh}` would be registered additionally"
    return ""


def _under(call: Registration, words: str) -> str:
    """A registration with its namespace, and the backends that its `#if`s choose."""
    seen = call.seen
    backends = " ".join(sorted(seen.backends)) if seen.known else "some"
    condition = f" if {backends}" if seen.conditional else ""
    return f"{call.namespace or _UNREAD}: {words}{condition}"
