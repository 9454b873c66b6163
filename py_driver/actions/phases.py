"""The kinds of actions that compile, as rules/facts/phases.bzl states them."""

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
"""The way in which the device code of several sources is linked."""

TRITON: Final = "TritonCompile"
"""The kind of action that compiles a function of an aot.toml."""

LINKED_CODE: Final = str(facts("phases")["LINKED_CODE"])
"""What is named as the source of the actions that do so."""


class Phase(NamedTuple):
    """A kind of action; phases.bzl says more of what the values mean.

    Attributes:
        ways: how sources are compiled that need it.
        work: what it does, for messages.
        memory: megabytes, as Bazel is told: without torch's headers in sight, with those needed, and with all of them.
        seconds: before one was measured, likewise.
        after: the kinds whose outputs it reads.
        archs: which architectures its key has in it besides its own.
        joined: the ways in which one for the source does what elsewhere one for each architecture does.
        makes: the first file that it makes, for a `source` or for each `arch`; none if that is the object.
        templates: what a source with the headers of CUTLASS or CuTe is taken for, if that is more: `memory`, `most` of
            it, and `seconds`.
        compresses: whether it compresses device code.
        reads_headers: whether it reads the headers though it follows others.
        reads_id: whether it reads the id of the kernel though it follows others.
        text: which text it makes that the report reads: `preprocessed`, `ptx` or none.
        names_headers: when it says which of torch's headers the source read: `always`, `sometimes` or never.
        elsewhere: how its messages tell of device code of another source: `undefined`, `twice` or not at all.
        words: what it does, for the pictures and tables of a report.
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
    """All kinds by mnemonic, in the order in which a page shows them.

    Raises:
        DriverError: see `facts`.
    """
    return {mnemonic: Phase(**row) for mnemonic, row in facts("phases")["PHASES"].items()}


def kind(mnemonic: str) -> Phase:
    """A kind of action by its mnemonic; one with nothing of its own if it does not compile.

    Raises:
        DriverError: see `facts`.
    """
    return phases().get(mnemonic, _OTHER)


def work_of(mnemonic: str) -> str:
    """What a kind of action does, for people; its mnemonic if that is unknown.

    Raises:
        DriverError: see `facts`.
    """
    return kind(mnemonic).work or str(facts("phases")["OTHER_WORK"].get(mnemonic, mnemonic))


def words_of(mnemonic: str) -> str:
    """What a kind of action does, for the pictures and tables of a report; its mnemonic if that is unknown.

    Raises:
        DriverError: see `facts`.
    """
    return kind(mnemonic).words or work_of(mnemonic)


class TorchHeaders(IntEnum):
    """Which of torch's headers a source reads; an index of `Phase.memory` and `Phase.seconds`."""

    NONE = 0
    NEEDED = 1
    FULL = 2


def has_text(text: str, mnemonic: str) -> bool:
    """Whether a text of a kind is made where sources are compiled as by a kind of action, or would be in phases.

    Args:
        text: see `Phase`.
        mnemonic: of the action.

    Raises:
        DriverError: see `facts`.
    """
    families = {way.partition("-")[0] for phase in phases().values() if phase.text == text for way in phase.ways}
    return any(way.partition("-")[0] in families for way in kind(mnemonic).ways)


def way_of(source: str, backend: Backend, *, monolithic: bool, headers: TorchHeaders = TorchHeaders.NONE) -> str:
    """How a source is compiled.

    Args:
        source: its path.
        backend: that it is for.
        monolithic: whether compilers that could be split are not.
        headers: which of torch's it reads.
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
    """Of a way, the kinds that no other one follows: they make what is linked."""
    own = {mnemonic: phase for mnemonic, phase in phases().items() if way in phase.ways}
    followed = {before for phase in own.values() for before in phase.after}
    return [mnemonic for mnemonic in own if mnemonic not in followed]
