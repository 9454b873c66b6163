"""What a build did, step by step, and what its sources are made of, for a page and for programs.

Nothing is read or written here: `make_report` gets what the build left, `as_json` makes a value of it, and
`report_page` draws it. The JSON has the attributes of the dataclasses below as its keys.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from py_driver.actions.executed import CellSteps, Did, places_of
from py_driver.actions.phases import has_text, kind, phases
from py_driver.actions.rerun_reasons import Misses, place_key
from py_driver.reporting.timeline import make_timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from py_driver.actions.executed import CellStep, Place
    from py_driver.actions.rerun_reasons import Calls
    from py_driver.reporting.timeline import Timeline

    Read = Callable[[str], bytes | None]
    Group = list[tuple[Place, CellStep]]

VERSION = 1
"""Of the shape of `as_json`; another one where a key has gone or means something else."""

_MARKER = re.compile(rb'^# \d+ "((?:[^"\\\n]|\\.)*)"((?: \d)*)\r?\n', re.MULTILINE)
_PTX = re.compile(rb'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/|^[ \t]*\.target\b[^\n]*', re.DOTALL | re.MULTILINE)
_UMBRELLAS = ("torch/all.h", "torch/extension.h", "torch/torch.h", "ATen/ATen.h")
_ADVICE = (
    "is an umbrella header: include only what is used, as ATen/core/Tensor.h, which `driver check --headers` finds, or "
    "headers of torch/csrc/stable/."
)
_SOURCE, _COMPILER = "the source itself", "the compiler and its command line"
_SHOWN = 5
_HEADERS = "/headers.txt"
"""How the name of the file ends that says which of torch's headers a source was compiled with (compile.bzl)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """What a step did for one cell.

    Attributes:
        variant: the cell's identifier.
        did: `run`, `shared` or `cached`.
        seconds: how long it ran for this cell.
        how: who ran it (`linux-sandbox`), which cache had it (`disk cache hit`), or `up to date`; empty if shared.
        why: if it ran, what has changed since the last build with a report, a reason each.
    """

    variant: str
    did: Did
    seconds: float
    how: str
    why: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A compile step, with all cells that have it.

    Attributes:
        source: path of the file that it compiles, within the project.
        section: the target that it belongs to, which has the name of a section of build.toml.
        mnemonic: which action it is.
        arch: `sm_80`; None if it is not for a single architecture.
        cells: what it did for each, in the order of the build.
    """

    source: str
    section: str
    mnemonic: str
    arch: str | None
    cells: tuple[Part, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Amount:
    """A part of a preprocessed text.

    Attributes:
        name: the header that it comes in through, as an `#include` would name it; for what else there is, words.
        lines: how many; line markers do not count.
        size: in bytes.
        percent: of the lines of the text.
    """

    name: str
    lines: int
    size: int
    percent: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """Where a preprocessed text comes from.

    Attributes:
        lines: of the text; line markers do not count.
        size: in bytes.
        source: what stands in the source itself.
        compiler: what the compiler and its command line put in front, such as cuda_runtime.h.
        headers: of the headers that the source includes directly, the five that bring most, with all that they include.
        advice: what to do about one of torch's umbrella headers with more than half of the lines; else empty.
    """

    lines: int
    size: int
    source: Amount
    compiler: Amount
    headers: tuple[Amount, ...]
    advice: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """The preprocessed text of a source, for those cells that have the same one.

    Attributes:
        section: as in `Step`.
        cells: identifiers.
        share: where it comes from; None if the text is not known.
    """

    section: str
    cells: tuple[str, ...]
    share: Share | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Code:
    """The PTX of a source, for those cells that have the same one.

    Attributes:
        section: as in `Step`.
        cells: identifiers.
        archs: those whose PTX is known.
        unknown: those whose PTX is not known; none of both if there is no step for a single architecture.
        equal: groups of architectures with equal PTX but for its `.target` and comments.
    """

    section: str
    cells: tuple[str, ...]
    archs: tuple[str, ...]
    unknown: tuple[str, ...]
    equal: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TorchHeaders:
    """Which of torch's headers a source was compiled with.

    Attributes:
        section: the target.
        cells: the identifiers of the variants for which it was so.
        read: `needed`: those that the source needs; `all`: the release's own; `unknown`: its actions were up to date
            before this build.
        why: if `all`, the reason: with fewer it would mean something else, or not compile, or no fewer are known.
    """

    section: str
    cells: tuple[str, ...]
    read: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A source file.

    Attributes:
        source: its path within the project.
        texts: its preprocessed texts; each cell that compiles it is in one of them.
        ptx: its PTX, likewise; empty for C++.
        torch: which of torch's headers it read, likewise; empty if it was told to read all of them, or sees none.
    """

    source: str
    texts: tuple[Text, ...]
    ptx: tuple[Code, ...]
    torch: tuple[TorchHeaders, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Total:
    """The steps of one kind, over all cells: how many ran, were shared, were cached, and the seconds that they ran."""

    run: int
    shared: int
    cached: int
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What a build did.

    Attributes:
        name: of the project.
        cells: the counts of each, in the order of the build; without `directory` in the JSON.
        steps: by source, section and phase.
        sources: in the order in which the cells name them.
        totals: by mnemonic.
        timeline: when its actions ran; None if none did.
    """

    name: str
    cells: tuple[CellSteps, ...]
    steps: tuple[Step, ...]
    sources: tuple[Source, ...]
    totals: Mapping[str, Total]
    timeline: Timeline | None


def _by_number(arch: str) -> tuple[int, str]:
    return int(re.sub(r"\D", "", arch) or 0), arch


def _by_kind(mnemonic: str) -> tuple[int, str]:
    known = list(phases())
    return known.index(mnemonic) if mnemonic in known else len(known), mnemonic


def _turn(step: Step) -> int:
    """Of the steps of a source, its preprocessing is first, then comes what is for one architecture, then the rest."""
    return 1 if step.arch else 0 if kind(step.mnemonic).text == "preprocessed" else 2


def _part(place: Place, step: CellStep, misses: Misses) -> Part:
    how = "" if step.did is Did.SHARED else step.spawn.runner if step.spawn else "up to date"
    ran = step.did is Did.RUN and step.spawn
    reasons = misses.why(place_key(step.variant, place), ran.call) if ran else ()
    return Part(variant=step.variant, did=step.did, seconds=round(step.seconds, 3), how=how, why=reasons)


def _total(steps: Sequence[CellStep]) -> Total:
    run, shared, cached = (sum(step.did is did for step in steps) for did in Did)
    return Total(run=run, shared=shared, cached=cached, seconds=round(sum(step.seconds for step in steps), 3))


def make_report(
    name: str, cells: Sequence[CellSteps], steps: Iterable[CellStep], read: Read, earlier: Calls | None = None
) -> Report:
    """The report of a build.

    Args:
        name: of the project.
        cells: their counts, in the order of the build.
        steps: what each step did for each cell; see `py_driver.actions.executed.trace_steps`.
        read: the content of a file that the build made, by its SHA-256; None if it is not there.
        earlier: how steps were called in earlier builds.
    """
    placed = places_of(cells, list(steps))
    same: dict[str, Group] = {}
    sources: dict[str, Group] = {}
    kinds: dict[str, list[CellStep]] = {}
    for place, step in placed:
        same.setdefault(step.key, []).append((place, step))
        sources.setdefault(place.source, []).append((place, step))
        kinds.setdefault(place.mnemonic, []).append(step)
    rank = {source: at for at, source in enumerate(sources)}
    misses = Misses(earlier or {})
    found = []
    for group in same.values():
        parts = tuple(_part(place, step, misses) for place, step in group)
        found.append(Step(**asdict(group[0][0]), cells=parts))
    found.sort(key=lambda s: (rank[s.source], s.section, _turn(s), _by_number(s.arch or ""), _by_kind(s.mnemonic)))
    made = tuple(
        Source(
            source=source, texts=_texts(source, group, read), ptx=_codes(group, read), torch=_torch_headers(group, read)
        )
        for source, group in sources.items()
    )
    totals = {mnemonic: _total(kinds[mnemonic]) for mnemonic in sorted(kinds, key=_by_kind)}
    return Report(
        name=name,
        cells=tuple(cells),
        steps=tuple(found),
        sources=made,
        totals=totals,
        timeline=make_timeline(placed),
    )


def _known(group: Group, text: str) -> dict[tuple[str, str], dict[str, str]]:
    """For each section and cell, by architecture, the digest of the text of a kind; empty if not known."""
    known: dict[tuple[str, str], dict[str, str]] = {}
    for place, step in group:
        digests = known.setdefault((place.section, step.variant), {})
        if kind(place.mnemonic).text == text:
            digests[place.arch or ""] = step.spawn.outputs.get(step.path, "") if step.spawn else ""
    return known


def _texts(source: str, group: Group, read: Read) -> tuple[Text, ...]:
    cells: dict[tuple[str, str], list[str]] = {}
    for (section, variant), digests in _known(group, "preprocessed").items():
        cells.setdefault((section, digests.get("", "")), []).append(variant)
    found = []
    for (section, digest), variants in cells.items():
        content = read(digest) if digest else None
        share = None if content is None else header_share(content, source)
        found.append(Text(section=section, cells=tuple(variants), share=share))
    return tuple(found)


def _codes(group: Group, read: Read) -> tuple[Code, ...]:
    if not any(has_text("ptx", place.mnemonic) for place, _ in group):
        return ()
    cells: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}
    for (section, variant), digests in _known(group, "ptx").items():
        archs = tuple((arch, digests[arch]) for arch in sorted(digests, key=_by_number))
        cells.setdefault((section, archs), []).append(variant)
    found = []
    for (section, archs), variants in cells.items():
        texts = {arch: content for arch, digest in archs if digest and (content := read(digest)) is not None}
        equal: dict[bytes, list[str]] = {}
        for arch, content in texts.items():
            equal.setdefault(ptx_code(content), []).append(arch)
        found.append(
            Code(
                section=section,
                cells=tuple(variants),
                archs=tuple(texts),
                unknown=tuple(arch for arch, _ in archs if arch not in texts),
                equal=tuple(tuple(names) for names in equal.values() if len(names) > 1),
            )
        )
    return tuple(found)


def _torch_headers(group: Group, read: Read) -> tuple[TorchHeaders, ...]:
    """Which of torch's headers the last action of a source was given, as it says in a file beside what it makes."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for place, step in group:
        if not (names := kind(place.mnemonic).names_headers):
            continue
        outputs = step.spawn.outputs if step.spawn else {}
        digest = next((digest for path, digest in outputs.items() if path.endswith(_HEADERS)), None)
        if digest is not None:
            headers, _, why = ((read(digest) if digest else None) or b"unknown").decode().strip().partition("\n")
            found[place.section, step.variant] = (headers, why)
        elif not step.spawn and names == "always":
            found[place.section, step.variant] = ("unknown", "")
    cells: dict[tuple[str, str, str], list[str]] = {}
    for (section, variant), (headers, why) in found.items():
        cells.setdefault((section, headers, why), []).append(variant)
    return tuple(
        TorchHeaders(section=section, cells=tuple(variants), read=headers, why=why)
        for (section, headers, why), variants in cells.items()
    )


def ptx_code(text: bytes) -> bytes:
    """PTX without comments, its `.target` and blanks around lines: equal for architectures that get the same code."""
    return b"\n".join(line.strip() for line in _PTX.sub(rb"\1", text).splitlines() if line.strip())


def header_share(text: bytes, source: str) -> Share:
    """Where a preprocessed text comes from, by its line markers (`# 12 "file" flags`).

    What a header includes counts for the header that the source itself includes, the first one that does.

    Args:
        text: what clang or gcc -E writes.
        source: path of the source within the project.
    """
    stack: list[str] = []
    found: dict[tuple[str, ...], list[int]] = {}
    at = 0
    for marker in [*_MARKER.finditer(text), None]:
        end = marker.start() if marker else len(text)
        # The source, `<built-in>` or another thing that is no file, or a header that the source includes.
        amount = found.setdefault(tuple(stack[1:2]), [0, 0])
        amount[0] += text.count(b"\n", at, end) + (marker is None and end > at and not text.endswith(b"\n"))
        amount[1] += end - at
        if marker:
            at = marker.end()
            _follow(stack, re.sub(rb"\\(.)", rb"\1", marker[1]).decode(errors="replace"), marker[2].split())
    root = stack[0].removesuffix(source) if stack and stack[0].endswith(source) else ""
    named: dict[str, list[int]] = {_SOURCE: [0, 0], _COMPILER: [0, 0]}
    for way, amount in found.items():
        name = _spelled(way[0], root) if way else _SOURCE
        sums = named.setdefault(_COMPILER if name.startswith("<") else name, [0, 0])
        sums[:] = [one + other for one, other in zip(sums, amount, strict=True)]
    lines, size = (sum(sums[i] for sums in named.values()) for i in (0, 1))
    own, compiler, *headers = (
        Amount(name=name, lines=n, size=m, percent=round(100 * n / lines, 1) if lines else 0.0)
        for name, (n, m) in named.items()
    )
    headers.sort(key=lambda one: (-one.lines, -one.size, one.name))
    umbrella = headers and headers[0].name in _UMBRELLAS and 2 * headers[0].lines > lines
    advice = f"{headers[0].name} {_ADVICE}" if umbrella else ""
    headers = headers[:_SHOWN]
    return Share(lines=lines, size=size, source=own, compiler=compiler, headers=tuple(headers), advice=advice)


def _follow(stack: list[str], name: str, flags: Sequence[bytes]) -> None:
    """Do to the files that are open, the source first, what a line marker says: 1 enters a file, 2 returns to one."""
    if not stack or b"1" in flags or (name.startswith("<") and name not in stack):
        stack.append(name)
    elif b"2" in flags or name == stack[0]:
        # The file that is left goes in any case: a header may include itself. A `#line` may have renamed the other.
        del stack[max(1, len(stack) - 1) :]
        while name in stack and stack[-1] != name:
            stack.pop()


def _spelled(path: str, root: str) -> str:
    """A header as an `#include` would name it: within the project, or below the include directory that it is in."""
    if root and path.startswith(root):
        return path.removeprefix(root)
    return re.sub(r"^(c\+\+/[^/]+|cccl)/", "", path.rpartition("/include/")[2])


def as_json(report: Report) -> dict[str, Any]:
    """A report as a value for JSON: `version`, and the attributes of the dataclasses."""
    value = asdict(report)
    for cell in value["cells"]:
        del cell["directory"]
        cell["seconds"] = round(cell["seconds"], 3)
    return {"version": VERSION, **value}
