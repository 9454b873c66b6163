"""The compile actions that a build will need, and digests of what each depends on. Pure: files are values."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from py_driver.actions.phases import LINK, LINKED_CODE, TRITON, TorchHeaders, last_of, phases, way_of
from py_driver.manifest.linking import linking_of
from py_driver.manifest.model import TORCH
from py_driver.manifest.paths import OTHER_SOURCES
from py_driver.matrix.backends import BUILT, version_of
from py_driver.matrix.facts import facts
from py_driver.matrix.matrix import CPYTHON_PART
from py_driver.plan.identity import canonical
from py_driver.plan.includes import CUTLASS_FOLDERS, TORCH_FOLDERS, closure, is_opaque, scan, without_comments
from py_driver.plan.section_search import OPENMP

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from py_driver.plan.device_links import DeviceLink
    from py_driver.plan.groups import Group
    from py_driver.plan.plan import Plan, Variant

_DIGITS = 20
"""Of a digest, which tells what was built before and nothing more."""


class ExpectedAction(NamedTuple):
    """A compile action that a variant will need.

    Attributes:
        variant: the variant's identifier.
        section: the group that it belongs to.
        source: path of the file that it compiles, within the project.
        mnemonic: of its action.
        arch: `sm_80`, `gfx942`; None if it is not for a single architecture.
        part: what of the variant it depends on: `2.13-cxx11 cu130`, or less.
        reads: digest of the files, flags and settings that it depends on.
        headers: which of torch's are in its sight.
        templates: whether the source includes headers of CUTLASS or CuTe.
    """

    variant: str
    section: str
    source: str
    mnemonic: str
    arch: str | None
    part: str
    reads: str
    headers: TorchHeaders
    templates: bool = False

    @property
    def place(self) -> str:
        """Names the action among those of the project, whatever it reads."""
        return "|".join((self.section, self.source, self.mnemonic, self.arch or "", self.part))


class Settings(NamedTuple):
    """What decides besides the project which actions there are, and what they read.

    Attributes:
        split: whether nvcc compiles in phases.
        whole: CUDA releases whose nvcc compiles as a whole nonetheless.
        needed: whether only those of torch's headers are read that a source needs.
        gcc: whether gcc compiles all C++, and not only what asks for OpenMP.
        standards: the C++ standard of each torch release.
        compress: how device code is compressed; empty for what the release says.
        toolchains: digests of what is pinned; see `Lock.toolchain_digests`.
        rules: digest of the rules themselves.
    """

    split: bool
    whole: tuple[str, ...]
    needed: bool
    gcc: bool
    compress: str
    standards: Mapping[str, int]
    toolchains: Mapping[str, str]
    rules: str


def expected_actions(
    plan: Plan, chosen: Iterable[Variant], files: Mapping[str, bytes], settings: Settings
) -> list[ExpectedAction]:
    """The compile actions of variants, in their order.

    Args:
        plan: of the project.
        chosen: the variants to build.
        files: the content of all that they are made of, by path.
        settings: see there.
    """
    groups = {group.name: group for group in plan.groups}
    links = plan.device_links
    contents = _Contents(plan, files)
    found = []
    for variant in chosen:
        own = [action for name in variant.groups for action in _actions(variant, groups[name], contents, settings)]
        found += own
        found += _ahead(variant, plan, contents, settings)
        if link := links.get(variant.name):
            found += _of_device_link(variant, link, own, settings)
    return found


def compiled_sources(plan: Plan) -> set[tuple[str, str]]:
    """What actions may be for: the sources, and what stands for those whose device code is linked, with their targets.

    Args:
        plan: of the project.
    """
    linked = {(link.name, LINKED_CODE) for link in plan.device_links.values()}
    return plan.sources | linked | {(target.name, name) for target in plan.triton for name in target.requests}


class _Content(NamedTuple):
    """What a source is made of.

    Attributes:
        offered: digest of all that it may include.
        included: digest of itself and what it does include of the project.
        torch: whether it includes a header of torch, itself or through others of the project.
        templates: whether it includes one of CUTLASS or CuTe, likewise.
        gpu: whether it includes a header of a GPU's toolkit, or of torch's that does.
    """

    offered: str
    included: str
    torch: bool
    templates: bool
    gpu: bool


class _Contents:
    """What the sources of a project are made of, each looked at once."""

    def __init__(self, plan: Plan, files: Mapping[str, bytes]) -> None:
        self._files = files
        digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        self._identities = {
            identity.name: _digest([identity.config, [[name, digests.get(name, "")] for name in identity.files]])
            for identity in plan.identities
        }
        self._digests = digests
        self._bare: dict[str, str] = {}
        self._includes: dict[str, tuple[str, ...] | None] = {}
        self._known: dict[tuple[str, str], _Content] = {}

    def of(self, group: Group, source: str) -> _Content:
        """Of a source of a group."""
        key = group.name, source
        if key not in self._known:
            files = closure(source, group.headers, self._scanned)
            includes = [path for name in files for path in self._scanned(name) or ()]
            # hipify makes all files of a section at once, and what it made is offered to each of them.
            own = group.sources if BUILT[group.backend].rewriter else (source,)
            self._known[key] = _Content(
                offered=_digest(self._of([*own, *group.headers])),
                included=_digest(self._of(sorted(files))),
                torch=any(path.startswith(TORCH_FOLDERS) for path in includes),
                templates=any(path.startswith(CUTLASS_FOLDERS) for path in includes),
                gpu=any("cuda" in path.lower() or "hip" in path.lower() for path in includes),
            )
        return self._known[key]

    def whole(self, names: Sequence[str]) -> str:
        """Digest of files as they are."""
        return _digest([[name, self._digests.get(name, "")] for name in names])

    def identity_of(self, group: Group) -> str:
        """Digest of what the id of the kernel is made from; empty if the group does not see that."""
        return self._identities.get(group.identity, "")

    def _scanned(self, name: str) -> tuple[str, ...] | None:
        """What a file includes; None if that cannot be told."""
        if name not in self._includes:
            text = self._files.get(name, b"").decode(errors="replace")
            found = tuple(include.path for include in scan(text))
            self._includes[name] = None if is_opaque(text) else found
        return self._includes[name]

    def _of(self, names: Sequence[str]) -> list[list[str]]:
        """The digests of files, of their texts without comments."""
        for name in names:
            if name not in self._bare:
                text = without_comments(self._files.get(name, b"").decode(errors="surrogateescape"))
                self._bare[name] = hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
        return [[name, self._bare[name]] for name in names]


def _digest(value: object) -> str:
    return hashlib.sha256(canonical(value).encode("ascii")).hexdigest()[:_DIGITS]


def _actions(variant: Variant, group: Group, contents: _Contents, settings: Settings) -> Iterator[ExpectedAction]:
    """The actions of a group, for a variant."""
    configuration, needs = variant.configuration, variant.needs
    backend = configuration.backend if BUILT[group.backend].prefix else group.backend
    # Without torch a section depends on the C++ ABI alone, and that has no name where it is what compilers take anyway.
    torch = standard = needs.abi if needs.abi and needs.abi != facts("settings")["CXX_ABIS"][0] else ""
    if TORCH in group.depends:
        torch = f"{needs.torch}-{needs.abi}" + (f"-{configuration.torch}" if configuration.stable else "")
        standard = f"c++{settings.standards[needs.torch or '']}-{needs.abi}"
    if CPYTHON_PART in group.depends and variant.python:
        torch, standard = (f"{text} {variant.python.key}".strip() for text in (torch, standard))
    linking = linking_of(group.cuda_flags)
    monolithic = not settings.split or version_of(backend) in settings.whole or linking.optimized
    archs = group.archs[backend].kept if backend in group.archs else ()
    names = tuple(map(BUILT[group.backend].label, archs))
    flags = [group.includes, group.cxx_flags, group.cuda_flags, group.hip_flags, group.depends]
    compilers = [settings.rules, settings.toolchains.get("cc")]
    other = {TORCH: needs.torch or "", OPENMP: "gcc"}
    pinned = [other.get(depend, f"library {depend}") for depend in group.depends]
    headers = [settings.toolchains.get(name) for name in pinned]
    gcc = settings.gcc or group.gcc
    narrow = settings.needed and not BUILT[group.backend].rewriter
    for source in group.sources:
        content = contents.of(group, source)
        seen = TorchHeaders.NONE
        if TORCH in group.depends and not configuration.stable:
            by_other = monolithic if source.endswith(BUILT[group.backend].sources) else source.endswith(OTHER_SOURCES)
            seen = TorchHeaders.NEEDED if narrow and not by_other else TorchHeaders.FULL
        way = way_of(source, BUILT[group.backend], monolithic=monolithic, headers=seen)
        host = way == "cxx"
        is_cxx = way == "cxx" and not source.endswith(OTHER_SOURCES)
        by_gcc = gcc and is_cxx
        if by_gcc and not group.identity:
            way = "cxx-text"
        at_once = way == "cxx" and not (is_cxx and group.identity)
        for mnemonic, arch in _kinds(way, names, at_once=at_once):
            phase = phases()[mnemonic]
            # What does not read the headers itself depends on a torch release through its text only.
            # With torch's stable ABI the text of a binding has the id in it.
            first = not phase.after or phase.reads_headers or at_once or (way == "cxx" and configuration.stable)
            # Releases of a toolkit share what gcc makes of a text, if nothing of a toolkit is in it.
            toolkit = "" if by_gcc and not first and not content.gpu else backend
            part = f"{torch if first or content.torch else standard} {toolkit}".strip()
            used = [*compilers, settings.toolchains.get(toolkit), by_gcc and settings.toolchains.get("gcc")]
            read = [content.offered, headers] if first and not phase.reads_id else [content.included]
            if phase.reads_id or (first and not host) or (configuration.stable and phase.after):
                read.append(contents.identity_of(group))
            if phase.compresses and not linking.optimized and settings.compress:
                read.append(settings.compress)
            own = {
                "": (),
                "all": names,
                "all+PTX": archs,
                "last": names[-1:],
            }["all" if way in phase.joined else phase.archs]
            yield ExpectedAction(
                variant=variant.name,
                section=group.name,
                source=source,
                mnemonic=mnemonic,
                arch=arch,
                part=part,
                reads=_digest(
                    [flags, seen, used, group.name, source, mnemonic, arch, own, part, configuration.cpu, read]
                ),
                headers=seen,
                templates=content.templates and not host,
            )


def _ahead(variant: Variant, plan: Plan, contents: _Contents, settings: Settings) -> Iterator[ExpectedAction]:
    """The actions of functions in Triton, for a variant; they depend on nothing of it."""
    for target in plan.triton:
        if target.name != variant.triton:
            continue
        part = f"triton {target.release}"
        for name, request in target.requests.items():
            texts = contents.whole(target.reads[request["function"]])
            used = [settings.rules, settings.toolchains.get(part), texts]
            for arch in map(BUILT[target.family].label, target.archs):
                yield ExpectedAction(
                    variant=variant.name,
                    section=target.name,
                    source=name,
                    mnemonic=TRITON,
                    arch=arch,
                    part=part,
                    reads=_digest([target.name, request, arch, used]),
                    headers=TorchHeaders.NONE,
                )


def _of_device_link(
    variant: Variant, link: DeviceLink, compiled: Sequence[ExpectedAction], settings: Settings
) -> Iterator[ExpectedAction]:
    """The actions that link the device code of groups, for a variant, given those that compile it."""
    backend = variant.configuration.backend
    groups = {group.name for group in link.groups}
    linked = [action for action in compiled if action.section in groups]
    torch = f"{variant.needs.torch}-{variant.needs.abi} " if link.depends else ""
    names = tuple(map(BUILT[link.groups[0].backend].label, link.archs(backend)))
    for mnemonic, arch in _kinds(LINK, names, at_once=False):
        has_arch = {(action.section, action.source) for action in linked if action.arch == arch}
        reads = [
            action.reads
            for action in linked
            if arch is None
            or action.arch == arch
            # nvlink reads the code of all architectures only where there is none of its own.
            or (
                action.arch is None
                and not (phases()[action.mnemonic].compresses and (action.section, action.source) in has_arch)
            )
        ]
        if phases()[mnemonic].compresses and settings.compress:
            reads.append(settings.compress)
        yield ExpectedAction(
            variant=variant.name,
            section=link.name,
            source=LINKED_CODE,
            mnemonic=mnemonic,
            arch=arch,
            part=f"{torch}{backend}",
            reads=_digest([link.name, link.flags, mnemonic, arch, variant.configuration.cpu, reads]),
            headers=TorchHeaders.FULL if link.optimized else TorchHeaders.NONE,
        )


def _kinds(way: str, archs: Sequence[str], *, at_once: bool) -> Iterable[tuple[str, str | None]]:
    """The mnemonics of the actions of a source, with the architecture of each, after those that it waits for."""

    def until(mnemonic: str, arch: str | None) -> Iterator[tuple[str, str | None]]:
        for before in () if at_once else phases()[mnemonic].after:
            if way not in phases()[before].ways:
                continue
            phase = phases()[before]
            only = arch if "arch" in phase.makes and way not in phase.joined else None
            for input_arch in [only] if only or "source" in phase.makes else archs:
                yield from until(before, input_arch)
        yield mnemonic, arch

    return dict.fromkeys(action for mnemonic in last_of(way) for action in until(mnemonic, None))
