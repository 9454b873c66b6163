"""The compile actions that a build will need, and digests of their dependencies. Pure: files are values."""

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
"""The length of a digest, which only identifies earlier results."""


class ExpectedAction(NamedTuple):
    """A compile action that a variant will need.

    Attributes:
        variant: the variant's identifier.
        section: the group that it belongs to.
        source: the path of the file that it compiles, in the project.
        mnemonic: its mnemonic.
        arch: `sm_80`, `gfx942`; None if it is not for a single architecture.
        part: the part of the variant that it depends on: `2.13-cxx11 cu130`, or less.
        reads: the digest of the files, flags and settings that it depends on.
        headers: the set of torch's headers that it may read.
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
        """Identifies the action in the project, independent of its inputs."""
        return "|".join((self.section, self.source, self.mnemonic, self.arch or "", self.part))


class Settings(NamedTuple):
    """The settings besides the project that determine actions and their inputs.

    Attributes:
        split: whether nvcc compiles in phases.
        whole: CUDA releases whose nvcc always compiles monolithically.
        needed: whether only the needed headers of torch are read.
        gcc: whether gcc compiles all C++, not only sources that ask for OpenMP.
        standards: the C++ standard of each torch release.
        compress: the compression of device code; empty for the release's default.
        toolchains: digests of the locked archives; see `Lock.toolchain_digests`.
        rules: the digest of the rules.
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
    """The compile actions of variants, in order.

    Args:
        plan: the plan of the project.
        chosen: the variants to build.
        files: the content of all their input files, by path.
        settings: the settings.
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
    """The sources of actions, with their targets, including the name that stands for linked device code.

    Args:
        plan: the plan of the project.
    """
    linked = {(link.name, LINKED_CODE) for link in plan.device_links.values()}
    return plan.sources | linked | {(target.name, name) for target in plan.triton for name in target.requests}


class _Content(NamedTuple):
    """The content of a source and its includes.

    Attributes:
        offered: the digest of everything that it may include.
        included: the digest of itself and its includes in the project.
        torch: whether it includes a header of torch, directly or through the project's headers.
        templates: whether it includes a header of CUTLASS or CuTe, directly or indirectly.
        gpu: whether it includes a header of a GPU's toolkit, or a header of torch that does.
    """

    offered: str
    included: str
    torch: bool
    templates: bool
    gpu: bool


class _Contents:
    """The contents of a project's sources, each computed once."""

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
        """The content of a source of a group."""
        key = group.name, source
        if key not in self._known:
            files = closure(source, group.headers, self._scanned)
            includes = [path for name in files for path in self._scanned(name) or ()]
            # hipify rewrites all files of a section together, and each source may include the results.
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
        """The digest of unchanged files."""
        return _digest([[name, self._digests.get(name, "")] for name in names])

    def identity_of(self, group: Group) -> str:
        """The digest of the inputs of the kernel's id; empty if the group does not see the id."""
        return self._identities.get(group.identity, "")

    def _scanned(self, name: str) -> tuple[str, ...] | None:
        """The includes of a file; None if they cannot be determined."""
        if name not in self._includes:
            text = self._files.get(name, b"").decode(errors="replace")
            found = tuple(include.path for include in scan(text))
            self._includes[name] = None if is_opaque(text) else found
        return self._includes[name]

    def _of(self, names: Sequence[str]) -> list[list[str]]:
        """The digests of files' texts without comments."""
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
    # Without torch a section depends only on the C++ ABI, which is not named if it is the compilers' default.
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
            # An action that does not read the headers depends on a torch release only through its text.
            # With torch's stable ABI, the text of a binding contains the id.
            first = not phase.after or phase.reads_headers or at_once or (way == "cxx" and configuration.stable)
            # Releases of a toolkit share gcc's object of a text that contains nothing of a toolkit.
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
    """The actions of functions in Triton, for a variant, on which they do not depend."""
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
    """The actions that link the device code of groups, for a variant, from the actions that compile it."""
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
            # nvlink reads the code of all architectures only if there is none for its own.
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
    """The mnemonics and architectures of a source's actions, each after its dependencies."""

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
