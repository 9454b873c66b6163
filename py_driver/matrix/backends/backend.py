"""The interface of a backend that the driver builds, with defaults."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from py_driver.matrix.toolkits import Archs, Dropped, Known, Toolkit, numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class Backend:
    """A backend: everything that the driver does differently for it. This one has no toolkit, like the CPU.

    Args:
        facts: its row of rules/facts/backends.bzl, which documents the values.

    Attributes:
        family: its name in build.toml and in metadata.json.
        compiler: the name of its compiler in messages.
        digits: regular expression of the text after the prefix in an identifier, in two groups: major and minor
            version.
        example: the version of a toolkit, for messages.
        arch: regular expression of its GPU architectures as build.toml spells them; empty if it has none.
        defaults: the key of toolchains/matrix.toml with a section's default architectures.
        release_keys: the keys of a toolkit in a matrix, besides those of all toolkits, with their types.
        locked_keys: the keys that go into the lock, in order, each with its name there.
        identity_keys: the keys of build.toml that enter the unique id of its variants only, not of every backend's.
        without: values of `depends`, up to a `_`, that it does not support.
        shared: parts of the lock that each of its variants needs besides its toolkit.
        recorded: libraries whose symbols toolchains/lock records besides those of `torch_libraries`; None if it records
            neither.
        first_torch: the first torch release that it can be built for, or None.
        in_phases: whether the rules compile in phases only with toolkits that are tested.
        splits_paths: whether its compiler splits a path at a comma.
        arch_list_macro: a macro that depends on all architectures of a compiler run; empty if there is none.
        title: its name in messages.
        prefix: the prefix of its toolkits in identifiers: `cu` of `cu130`; empty without toolkits.
        newer_toolkits: whether its variants run with a later minor version of the toolkit.
        macro: the macro that the rules define for it alone, by which bindings tell backends apart.
        sources: suffixes of the sources that only its compiler compiles; the first backend with a suffix owns it.
        flags: the key of build.toml with the options of its compiler.
        dispatch_keys: torch's dispatch keys of the tensors that its kernels accept.
        torch_libraries: the libraries of torch that its extensions are linked with besides the CPU's.
        torch_attribute: the attribute of `torch.version` that names the toolkit torch was built with.
        device_arch: the attribute of torch's device properties with the architecture; empty if that is a number.
        way: how its sources are compiled: `ways` of rules/facts/phases.bzl.
        rewriter: the action that rewrites all sources of a section together, so that each may read the rewritten
            others; empty if there is none.
    """

    family: ClassVar[str]
    compiler: ClassVar[str] = ""
    digits: ClassVar[str] = ""
    example: ClassVar[str] = ""
    arch: ClassVar[str] = ""
    defaults: ClassVar[str] = ""
    release_keys: ClassVar[Mapping[str, type]] = MappingProxyType({})
    locked_keys: ClassVar[Mapping[str, str]] = MappingProxyType({})
    identity_keys: ClassVar[tuple[str, ...]] = ()
    without: ClassVar[tuple[str, ...]] = ()
    shared: ClassVar[tuple[str, ...]] = ()
    recorded: ClassVar[tuple[str, ...] | None] = None
    first_torch: ClassVar[tuple[int, ...] | None] = None
    in_phases: ClassVar[bool] = False
    splits_paths: ClassVar[bool] = False
    arch_list_macro: ClassVar[str] = ""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.title: str = facts["title"]
        self.prefix: str = facts["prefix"]
        self.newer_toolkits: bool = facts["newer_toolkits"]
        self.macro: str = facts["macro"]
        self._languages: Mapping[str, str] = {f".{suffix}": name for suffix, name in facts["languages"].items()}
        self.sources = tuple(self._languages)
        self.flags: str = facts["flags"].replace("_", "-")
        self.dispatch_keys: tuple[str, ...] = tuple(facts["dispatch_keys"])
        self.torch_libraries: tuple[str, ...] = tuple(facts["torch_libraries"])
        self.torch_attribute: str = facts["torch_attribute"]
        self.device_arch: str = facts["device_arch"]
        self.way: str = facts["way"]
        self.rewriter: str = facts["rewriter"]

    @property
    def spelling(self) -> str:
        """Regular expression of its names in identifiers, without groups."""
        return self.prefix + re.sub(r"\((?!\?)", "(?:", self.digits) if self.prefix else self.family

    def version_of(self, name: str) -> str | None:
        """The version of the toolkit that a name in an identifier means: `13.0` for `cu130`; else None."""
        found = re.fullmatch(self.prefix + self.digits, name) if self.prefix else None
        return f"{found[1]}.{found[2]}" if found else None

    def name_of(self, version: str) -> str:
        """The name of a toolkit in identifiers: `cu130` for `13.0`."""
        return self.prefix + version.replace(".", "")

    def language_of(self, source: str) -> str:
        """The language of one of `sources`, for messages.

        Args:
            source: its path.
        """
        return next(name for suffix, name in self._languages.items() if source.endswith(suffix))

    def toolkit(self, row: Mapping[str, Any]) -> Toolkit:
        """A toolkit from its table in toolchains/matrix.toml."""
        return Toolkit(
            family=self.family,
            backend=self.name_of(row["version"]),
            version=row["version"],
            archs=tuple(row["archs"]),
            default_archs=tuple(row[self.defaults]),
            host=row["host"],
            tested=row["run-here"],
        )

    def known(self, table: Mapping[str, Any]) -> Known:
        """The known architectures of toolchains/matrix.toml.

        Args:
            table: the content of the file.
        """
        del table
        return Known()

    def plain(self, arch: str) -> str:
        """An architecture as metadata.json names it."""
        return arch

    def capability(self, arch: str) -> str:
        """The GPU of an architecture, in the spelling of `serving`: `9.0` for `9.0a+PTX`."""
        return self.plain(arch)

    def label(self, arch: str) -> str:
        """An architecture as compilers and reports name it: `sm_90a` for `9.0a+PTX`."""
        return arch

    def arch_of_directory(self, name: str) -> str:
        """The `label` of the architecture whose outputs are in a directory."""
        return name

    def order(self, arch: str) -> tuple[int, int, str]:
        """The sort key of architectures, ascending."""
        return 0, 0, arch

    def choose(self, requested: Sequence[str] | None, toolkit: Toolkit) -> Archs:
        """The architectures of a kernel section with a toolkit: those that both name.

        Args:
            requested: the section's architectures; None for the toolkit's default list.
            toolkit: the release.
        """
        asked = toolkit.default_archs if requested is None else tuple(requested)
        kept = tuple(sorted({arch for arch in asked if self.plain(arch) in toolkit.archs}, key=self.order))
        reason = f"{self.compiler} {toolkit.version} does not compile for "
        dropped = tuple(Dropped(arch=arch, reason=reason + self.plain(arch)) for arch in asked if arch not in kept)
        return Archs(requested=asked, kept=kept, dropped=dropped)

    def serving(self, kept: Sequence[str], archs: Sequence[str]) -> tuple[str, ...]:
        """Compiled architectures that the given GPUs can run, ascending.

        Args:
            kept: the compiled architectures, of any backend.
            archs: the architectures of the GPUs, of any backend.
        """
        ours = {arch for arch in kept if self.arch and re.fullmatch(self.arch, arch)}
        return tuple(sorted((our for our in ours if our in archs or self.plain(our) in archs), key=self.order))

    def arch_problem(self, arch: str, asked: Sequence[str], known: Known) -> tuple[str, str] | None:
        """The error about an architecture, as a message and a remark; None if a compiler supports it.

        Args:
            arch: as build.toml spells it, which `arch` matches.
            asked: all architectures of the section.
            known: see `Known`.
        """
        del asked
        return None if arch in known.archs else (f"no {self.compiler} compiles for `{arch}`", "")

    def release_problems(self, row: Mapping[str, Any], clangs: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        """The errors of a toolkit of the user's own matrix: messages, each with a help that may be empty.

        Args:
            row: its table, with valid keys and types.
            clangs: the major version of the clang in each zig, by the version of zig.
        """
        if row["host"] not in clangs:
            yield "`host` must be a zig", zigs(clangs)

    def runs_with(self, ours: str, theirs: str) -> bool:
        """Whether a variant runs with a torch, by the rules of the `kernels` client.

        Args:
            ours: the variant's backend, e.g. `cu130`.
            theirs: torch's backend.
        """
        if not self.newer_toolkits:
            return ours == theirs
        versions = self.version_of(ours), self.version_of(theirs)
        (major, minor), (other, newest) = (numbers(version) if version else (0, 0) for version in versions)
        return major == other and minor <= newest


def zigs(clangs: Mapping[str, int]) -> str:
    """The releases of zig in a matrix, for a help."""
    return "there are: " + ", ".join(f"{zig} (clang {number})" for zig, number in clangs.items())
