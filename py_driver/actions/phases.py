"""The kinds of compile actions from rules/facts/phases.bzl."""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.matrix.facts import facts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from py_driver.matrix.backends.backend import Backend


LINK: Final = "cuda-link"
"""The way of linking the device code of several sources."""

TRITON: Final = "TritonCompile"
"""The kind of action that compiles a function of an aot.toml."""

LINKED_CODE: Final = str(facts("phases")["LINKED_CODE"])
"""The name that stands for the source of these actions."""


class Phase(NamedTuple):
    """A kind of action; phases.bzl documents the values.

    Attributes:
        ways: the ways of compiling a source that include it.
        work: its name in messages.
        memory: the megabytes that Bazel reserves: without torch's headers, with the needed ones, and with all of them.
        seconds: the duration before one is measured, for the same three cases.
        after: the kinds whose outputs it reads.
        archs: the architectures that its key contains besides its own.
        joined: the ways in which a single action for the source replaces one for each architecture.
        makes: its first output, for a `source` or for each `arch`; empty if it is the object.
        templates: higher figures for a source with the headers of CUTLASS or CuTe: `memory`, `most` of it, and
            `seconds`.
        compresses: whether it compresses device code.
        reads_headers: whether it reads the headers although it follows other actions.
        reads_id: whether it reads the id of the kernel although it follows other actions.
        text: the kind of text that it produces for the report: `preprocessed`, `ptx` or none.
        names_headers: when it records the set of torch's headers that the source read: `always`, `sometimes` or never.
        elsewhere: how its messages report another source's device code: `undefined`, `twice` or not at all.
        words: its name in the pictures and tables of a report.
    """

    ways: Sequence[str]
    work: str
    memory: Sequence[int]
    seconds: Sequence[float]
    after: Sequence[str] = ()
    archs: str = ""
    joined: Sequence[str] = ()
    makes: Mapping[str, str] = MappingProxyType({})
    templates: Mapping[str, float] = MappingProxyType({})
    compresses: bool = False
    reads_headers: bool = False
    reads_id: bool = False
    text: str = ""
    names_headers: str = ""
    elsewhere: str = ""
    words: str = ""


_OTHER = Phase(ways=(), work="", memory=(), seconds=())


@cache
def phases() -> Mapping[str, Phase]:
    """All kinds by mnemonic, in the order of a report.

    Raises:
        DriverError: see `facts`.
    """
    return {mnemonic: Phase(**row) for mnemonic, row in facts("phases")["PHASES"].items()}


def kind(mnemonic: str) -> Phase:
    """A kind of action by its mnemonic; an empty one if it does not compile.

    Raises:
        DriverError: see `facts`.
    """
    return phases().get(mnemonic, _OTHER)


def work_of(mnemonic: str) -> str:
    """The name of a kind of action in messages; its mnemonic if unknown.

    Raises:
        DriverError: see `facts`.
    """
    return kind(mnemonic).work or str(facts("phases")["OTHER_WORK"].get(mnemonic, mnemonic))


def words_of(mnemonic: str) -> str:
    """The name of a kind of action in the pictures and tables of a report; its mnemonic if unknown.

    Raises:
        DriverError: see `facts`.
    """
    return kind(mnemonic).words or work_of(mnemonic)


class TorchHeaders(IntEnum):
    """The set of torch's headers that a source reads; an index of `Phase.memory` and `Phase.seconds`."""

    NONE = 0
    NEEDED = 1
    FULL = 2


def has_text(text: str, mnemonic: str) -> bool:
    """Whether compiling a source with a kind of action, or in phases, produces a kind of text.

    Args:
        text: see `Phase`.
        mnemonic: the mnemonic of the action.

    Raises:
        DriverError: see `facts`.
    """
    families = {way.partition("-")[0] for phase in phases().values() if phase.text == text for way in phase.ways}
    return any(way.partition("-")[0] in families for way in kind(mnemonic).ways)


def way_of(source: str, backend: Backend, *, monolithic: bool, headers: TorchHeaders = TorchHeaders.NONE) -> str:
    """The way of compiling a source.

    Args:
        source: its path.
        backend: its backend.
        monolithic: whether compilers are not split into phases.
        headers: the set of torch's headers that it reads.
    """
    if source == LINKED_CODE:
        return LINK
    if not source.endswith(backend.sources):
        return "cxx"
    if not backend.in_phases:
        return backend.way
    if monolithic:
        return f"{backend.way}-monolithic"
    return f"{backend.way}-{headers.name.lower()}" if headers else backend.way


def last_of(way: str) -> list[str]:
    """The last kinds of a way, which make the linked objects."""
    own = {mnemonic: phase for mnemonic, phase in phases().items() if way in phase.ways}
    followed = {before for phase in own.values() for before in phase.after}
    return [mnemonic for mnemonic in own if mnemonic not in followed]
