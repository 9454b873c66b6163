"""The report of a build: its actions, and the contents of its sources, for a page and for programs.

This module reads and writes no files: `make_report` gets the results of a build, `as_json` converts the report, and
`report_page` renders it. The keys of the JSON are the attributes of the dataclasses below.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from py_driver.actions.executed import Did, VariantActions, places_of
from py_driver.actions.phases import has_text, kind, phases
from py_driver.actions.rerun_reasons import Misses, place_key
from py_driver.reporting.preprocessed import header_share, ptx_code
from py_driver.reporting.timeline import make_timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from py_driver.actions.executed import Place, VariantAction
    from py_driver.actions.rerun_reasons import Calls
    from py_driver.reporting.preprocessed import Share
    from py_driver.reporting.timeline import Timeline

    Read = Callable[[str], bytes | None]
    Group = list[tuple[Place, VariantAction]]

VERSION = 2
"""The version of the format of `as_json`; it changes when a key is removed or changes its meaning."""

_HEADERS = "/headers.txt"
"""The suffix of the file that names the torch headers that a source was compiled with (compile.bzl)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """An action for one variant.

    Attributes:
        variant: the variant's identifier.
        did: `run`, `shared` or `cached`.
        seconds: its duration for this variant.
        how: the runner (`linux-sandbox`), the cache (`disk cache hit`), or `up to date`; empty if shared.
        why: if it ran, the changes since the last build with a report.
    """

    variant: str
    did: Did
    seconds: float
    how: str
    why: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """A compile action, with all its variants.

    Attributes:
        source: the path of the compiled file, within the project.
        section: its target, named like the section of build.toml.
        mnemonic: the kind of action.
        arch: `sm_80`; None if it is not for a single architecture.
        variants: the action for each variant, in the order of the build.
    """

    source: str
    section: str
    mnemonic: str
    arch: str | None
    variants: tuple[Part, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """The preprocessed text of a source, for all variants with the same text.

    Attributes:
        section: see `Action`.
        variants: the identifiers of the variants.
        share: its origins; None if the text is unknown.
    """

    section: str
    variants: tuple[str, ...]
    share: Share | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Code:
    """The PTX of a source, for all variants with the same PTX.

    Attributes:
        section: see `Action`.
        variants: the identifiers of the variants.
        archs: architectures with known PTX.
        unknown: architectures with unknown PTX; both are empty if there is no action for a single architecture.
        equal: groups of architectures whose PTX is equal apart from `.target` and comments.
    """

    section: str
    variants: tuple[str, ...]
    archs: tuple[str, ...]
    unknown: tuple[str, ...]
    equal: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TorchHeaders:
    """The torch headers that a source was compiled with.

    Attributes:
        section: the target.
        variants: the identifiers of the variants.
        read: `needed`: the headers that the source needs; `all`: all headers of the release; `unknown`: its actions
            were up to date before this build.
        why: if `all`, the reason: with fewer headers it would compile differently, or not at all, or the needed headers
            are unknown.
    """

    section: str
    variants: tuple[str, ...]
    read: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A source file.

    Attributes:
        source: its path within the project.
        texts: its preprocessed texts; each variant that compiles it is in one of the texts.
        ptx: its PTX, grouped in the same way; empty for C++.
        torch: its torch headers, grouped in the same way; empty if it was set to read all of them, or uses none.
    """

    source: str
    texts: tuple[Text, ...]
    ptx: tuple[Code, ...]
    torch: tuple[TorchHeaders, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Total:
    """The actions of one kind, over all variants: how many ran, were shared, were cached, and their seconds."""

    run: int
    shared: int
    cached: int
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The report of a build.

    Attributes:
        name: the name of the project.
        variants: the counts of each variant, in the order of the build; without `directory` in the JSON.
        actions: the actions, by source, section and phase.
        sources: the sources, in the order of the variants.
        totals: the totals, by mnemonic.
        timeline: the time line of its actions; None if none ran.
    """

    name: str
    variants: tuple[VariantActions, ...]
    actions: tuple[Action, ...]
    sources: tuple[Source, ...]
    totals: Mapping[str, Total]
    timeline: Timeline | None


def _by_number(arch: str) -> tuple[int, str]:
    return int(re.sub(r"\D", "", arch) or 0), arch


def _by_kind(mnemonic: str) -> tuple[int, str]:
    known = list(phases())
    return known.index(mnemonic) if mnemonic in known else len(known), mnemonic


def _turn(action: Action) -> int:
    """The order of a source's actions: preprocessing, then actions for one architecture, then the others."""
    return 1 if action.arch else 0 if kind(action.mnemonic).text == "preprocessed" else 2


def _part(place: Place, action: VariantAction, misses: Misses) -> Part:
    how = "" if action.did is Did.SHARED else action.spawn.runner if action.spawn else "up to date"
    ran = action.did is Did.RUN and action.spawn
    reasons = misses.why(place_key(action.variant, place), ran.call) if ran else ()
    return Part(variant=action.variant, did=action.did, seconds=round(action.seconds, 3), how=how, why=reasons)


def _total(actions: Sequence[VariantAction]) -> Total:
    run, shared, cached = (sum(action.did is did for action in actions) for did in Did)
    return Total(run=run, shared=shared, cached=cached, seconds=round(sum(action.seconds for action in actions), 3))


def make_report(
    name: str,
    variants: Sequence[VariantActions],
    actions: Iterable[VariantAction],
    read: Read,
    earlier: Calls | None = None,
) -> Report:
    """Make the report of a build.

    Args:
        name: the name of the project.
        variants: their counts, in the order of the build.
        actions: the actions for each variant; see `py_driver.actions.executed.trace_steps`.
        read: returns the content of a build's output by its SHA-256; None if it does not exist.
        earlier: the calls of actions in earlier builds.
    """
    placed = places_of(variants, list(actions))
    same: dict[str, Group] = {}
    sources: dict[str, Group] = {}
    kinds: dict[str, list[VariantAction]] = {}
    for place, action in placed:
        same.setdefault(action.key, []).append((place, action))
        sources.setdefault(place.source, []).append((place, action))
        kinds.setdefault(place.mnemonic, []).append(action)
    rank = {source: at for at, source in enumerate(sources)}
    misses = Misses(earlier or {})
    found = []
    for group in same.values():
        parts = tuple(_part(place, action, misses) for place, action in group)
        found.append(Action(**asdict(group[0][0]), variants=parts))
    found.sort(key=lambda s: (rank[s.source], s.section, _turn(s), _by_number(s.arch or ""), _by_kind(s.mnemonic)))
    source_rows = tuple(
        Source(
            source=source, texts=_texts(source, group, read), ptx=_codes(group, read), torch=_torch_headers(group, read)
        )
        for source, group in sources.items()
    )
    totals = {mnemonic: _total(kinds[mnemonic]) for mnemonic in sorted(kinds, key=_by_kind)}
    return Report(
        name=name,
        variants=tuple(variants),
        actions=tuple(found),
        sources=source_rows,
        totals=totals,
        timeline=make_timeline(placed),
    )


def _known(group: Group, text: str) -> dict[tuple[str, str], dict[str, str]]:
    """For each section and variant, the digest of the text of a kind, by architecture; empty if unknown."""
    known: dict[tuple[str, str], dict[str, str]] = {}
    for place, action in group:
        digests = known.setdefault((place.section, action.variant), {})
        if kind(place.mnemonic).text == text:
            digests[place.arch or ""] = action.spawn.outputs.get(action.path, "") if action.spawn else ""
    return known


def _texts(source: str, group: Group, read: Read) -> tuple[Text, ...]:
    names: dict[tuple[str, str], list[str]] = {}
    for (section, variant), digests in _known(group, "preprocessed").items():
        names.setdefault((section, digests.get("", "")), []).append(variant)
    found = []
    for (section, digest), variants in names.items():
        content = read(digest) if digest else None
        share = None if content is None else header_share(content, source)
        found.append(Text(section=section, variants=tuple(variants), share=share))
    return tuple(found)


def _codes(group: Group, read: Read) -> tuple[Code, ...]:
    if not any(has_text("ptx", place.mnemonic) for place, _ in group):
        return ()
    names: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}
    for (section, variant), digests in _known(group, "ptx").items():
        archs = tuple((arch, digests[arch]) for arch in sorted(digests, key=_by_number))
        names.setdefault((section, archs), []).append(variant)
    found = []
    for (section, archs), variants in names.items():
        texts = {arch: content for arch, digest in archs if digest and (content := read(digest)) is not None}
        equal: dict[bytes, list[str]] = {}
        for arch, content in texts.items():
            equal.setdefault(ptx_code(content), []).append(arch)
        found.append(
            Code(
                section=section,
                variants=tuple(variants),
                archs=tuple(texts),
                unknown=tuple(arch for arch, _ in archs if arch not in texts),
                equal=tuple(tuple(names) for names in equal.values() if len(names) > 1),
            )
        )
    return tuple(found)


def _torch_headers(group: Group, read: Read) -> tuple[TorchHeaders, ...]:
    """The torch headers of a source's last action, from the file beside its output."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for place, action in group:
        if not (names := kind(place.mnemonic).names_headers):
            continue
        outputs = action.spawn.outputs if action.spawn else {}
        digest = next((digest for path, digest in outputs.items() if path.endswith(_HEADERS)), None)
        if digest is not None:
            headers, _, why = ((read(digest) if digest else None) or b"unknown").decode().strip().partition("\n")
            found[place.section, action.variant] = (headers, why)
        elif not action.spawn and names == "always":
            found[place.section, action.variant] = ("unknown", "")
    variants: dict[tuple[str, str, str], list[str]] = {}
    for (section, variant), (headers, why) in found.items():
        variants.setdefault((section, headers, why), []).append(variant)
    return tuple(
        TorchHeaders(section=section, variants=tuple(variants), read=headers, why=why)
        for (section, headers, why), variants in variants.items()
    )


def as_json(report: Report) -> dict[str, Any]:
    """A report as a value for JSON: `version`, and the attributes of the dataclasses."""
    value = asdict(report)
    for variant in value["variants"]:
        del variant["directory"]
        variant["seconds"] = round(variant["seconds"], 3)
    return {"version": VERSION, **value}
