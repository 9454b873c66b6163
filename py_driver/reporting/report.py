"""What a build did, step by step, and what its sources are made of, for a page and for programs.

Nothing is read or written here: `make_report` gets what the build left, `as_json` makes a value of it, and
`report_page` draws it. The JSON has the attributes of the dataclasses below as its keys.
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
"""Of the shape of `as_json`; another one where a key has gone or means something else."""

_HEADERS = "/headers.txt"
"""How the name of the file ends that says which of torch's headers a source was compiled with (compile.bzl)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """What an action did for one variant.

    Attributes:
        variant: the variant's identifier.
        did: `run`, `shared` or `cached`.
        seconds: how long it ran for this variant.
        how: who ran it (`linux-sandbox`), which cache had it (`disk cache hit`), or `up to date`; empty if shared.
        why: if it ran, what has changed since the last build with a report, a reason each.
    """

    variant: str
    did: Did
    seconds: float
    how: str
    why: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """A compile action, with all variants that have it.

    Attributes:
        source: path of the file that it compiles, within the project.
        section: the target that it belongs to, which has the name of a section of build.toml.
        mnemonic: which action it is.
        arch: `sm_80`; None if it is not for a single architecture.
        variants: what it did for each, in the order of the build.
    """

    source: str
    section: str
    mnemonic: str
    arch: str | None
    variants: tuple[Part, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """The preprocessed text of a source, for those variants that have the same one.

    Attributes:
        section: as in `Step`.
        variants: identifiers.
        share: where it comes from; None if the text is not known.
    """

    section: str
    variants: tuple[str, ...]
    share: Share | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Code:
    """The PTX of a source, for those variants that have the same one.

    Attributes:
        section: as in `Step`.
        variants: identifiers.
        archs: those whose PTX is known.
        unknown: those whose PTX is not known; none of both if there is no action for a single architecture.
        equal: groups of architectures with equal PTX but for its `.target` and comments.
    """

    section: str
    variants: tuple[str, ...]
    archs: tuple[str, ...]
    unknown: tuple[str, ...]
    equal: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TorchHeaders:
    """Which of torch's headers a source was compiled with.

    Attributes:
        section: the target.
        variants: the identifiers of the variants for which it was so.
        read: `needed`: those that the source needs; `all`: the release's own; `unknown`: its actions were up to date
            before this build.
        why: if `all`, the reason: with fewer it would mean something else, or not compile, or no fewer are known.
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
        texts: its preprocessed texts; each variant that compiles it is in one of them.
        ptx: its PTX, likewise; empty for C++.
        torch: which of torch's headers it read, likewise; empty if it was told to read all of them, or sees none.
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
    """What a build did.

    Attributes:
        name: of the project.
        variants: the counts of each, in the order of the build; without `directory` in the JSON.
        actions: by source, section and phase.
        sources: in the order in which the variants name them.
        totals: by mnemonic.
        timeline: when its actions ran; None if none did.
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
    """Of the actions of a source, preprocessing is first, then comes what is for one architecture, then the rest."""
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
    """The report of a build.

    Args:
        name: of the project.
        variants: their counts, in the order of the build.
        actions: what each action did for each variant; see `py_driver.actions.executed.trace_steps`.
        read: the content of a file that the build made, by its SHA-256; None if it is not there.
        earlier: how actions were called in earlier builds.
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
    """For each section and variant, by architecture, the digest of the text of a kind; empty if not known."""
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
    """Which of torch's headers the last action of a source was given, as it says in a file beside what it makes."""
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
