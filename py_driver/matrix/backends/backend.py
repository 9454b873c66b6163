"""What the driver has to know of a backend that it builds, and what holds for most of them."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from py_driver.matrix.toolkits import Archs, Dropped, Known, Toolkit, numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class Backend:
    """A backend: everything that the driver does otherwise for it than for others. This one has no toolkit, as the CPU.

    Args:
        facts: its row of rules/facts/backends.bzl, which says more of what the values mean.

    Attributes:
        family: its name in build.toml and in metadata.json.
        compiler: what compiles for it, in messages.
        digits: regular expression of what follows the prefix in such a name, in two groups: major and minor version.
        example: the version of a toolkit, for messages.
        arch: regular expression of its GPU architectures as build.toml spells them; empty if it has none.
        defaults: the key of toolchains/matrix.toml with the architectures that a section asks for by default.
        release_keys: the keys of a toolkit in a matrix, besides those that all have, with their types.
        locked_keys: the keys that go into the lock, in their order, each with the name that it has there.
        identity_keys: the keys of build.toml that enter the unique id of its variants only, not of every backend's.
        without: values of `depends`, up to a `_`, that exist and are not for it.
        shared: parts of the lock that each of its variants needs besides its toolkit.
        recorded: libraries whose symbols toolchains/lock has with those of `torch_libraries`; None if of neither.
        first_torch: the first torch release that it can be built for, or None.
        in_phases: whether the rules compile in phases only with toolkits that are tested.
        splits_paths: whether its compiler takes a comma in a path for the end of it.
        arch_list_macro: a macro that depends on all architectures of one run of its compiler; empty if there is none.
        title: its name in messages.
        prefix: what the names of its toolkits begin with in identifiers: `cu` of `cu130`; empty if it has none.
        newer_toolkits: whether its variants run with a later minor version of the toolkit.
        macro: that the rules define for it alone, and by which bindings tell backends apart.
        sources: suffixes of the sources that only its compiler takes; the first backend with a suffix owns it.
        flags: the key of build.toml with the options of its compiler.
        dispatch_keys: torch's keys of the tensors that its kernels take.
        torch_libraries: the libraries of torch that its extensions are linked with besides the CPU's.
        torch_attribute: the attribute of `torch.version` that names the toolkit torch was built with.
        device_arch: the attribute of torch's device properties with the architecture; empty if that is a number.
        way: how its sources are compiled: `ways` of rules/facts/phases.bzl.
        rewriter: the kind of action that rewrites all sources of a section at once, and each may read what it made of
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
        """The version of the toolkit that a name in an identifier means: `13.0` for `cu130`; None if it means none."""
        found = re.fullmatch(self.prefix + self.digits, name) if self.prefix else None
        return f"{found[1]}.{found[2]}" if found else None

    def name_of(self, version: str) -> str:
        """The name of a toolkit in identifiers: `cu130` for `13.0`."""
        return self.prefix + version.replace(".", "")

    def language_of(self, source: str) -> str:
        """What messages call one of `sources`.

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
        """The architectures that toolchains/matrix.toml knows.

        Args:
            table: the file.
        """
        del table
        return Known()

    def plain(self, arch: str) -> str:
        """An architecture as metadata.json names it."""
        return arch

    def capability(self, arch: str) -> str:
        """The GPU that an architecture is of, in the spelling of `serving`: `9.0` for `9.0a+PTX`."""
        return self.plain(arch)

    def label(self, arch: str) -> str:
        """An architecture as compilers and reports name it: `sm_90a` for `9.0a+PTX`."""
        return arch

    def arch_of_directory(self, name: str) -> str:
        """What `label` gives for the architecture whose outputs lie in a directory."""
        return name

    def order(self, arch: str) -> tuple[int, int, str]:
        """The key that sorts architectures ascending."""
        return 0, 0, arch

    def choose(self, requested: Sequence[str] | None, toolkit: Toolkit) -> Archs:
        """What a kernel section is compiled for with a toolkit: what both name.

        Args:
            requested: what the section asks for; None for the toolkit's default list.
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
            kept: what is compiled, of any backend.
            archs: of the GPUs, of any backend.
        """
        ours = {arch for arch in kept if self.arch and re.fullmatch(self.arch, arch)}
        return tuple(sorted((our for our in ours if our in archs or self.plain(our) in archs), key=self.order))

    def arch_problem(self, arch: str, asked: Sequence[str], known: Known) -> tuple[str, str] | None:
        """What is wrong with an architecture, as a message and a remark on it; None if a compiler knows it.

        Args:
            arch: as build.toml spells it, which `arch` matches.
            asked: all that the section asks for.
            known: see `Known`.
        """
        del asked
        return None if arch in known.archs else (f"no {self.compiler} compiles for `{arch}`", "")

    def release_problems(self, row: Mapping[str, Any], clangs: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        """What is wrong with a toolkit of the user's own matrix: messages, each with help or nothing.

        Args:
            row: its table, whose keys and types are right.
            clangs: the major version of the clang in each zig, by the version of zig.
        """
        if row["host"] not in clangs:
            yield "`host` must be a zig", zigs(clangs)

    def runs_with(self, ours: str, theirs: str) -> bool:
        """Whether a variant runs in a torch, by the rules of the `kernels` client.

        Args:
            ours: the variant's backend, e.g. `cu130`.
            theirs: torch's.
        """
        if not self.newer_toolkits:
            return ours == theirs
        versions = self.version_of(ours), self.version_of(theirs)
        (major, minor), (other, newest) = (numbers(version) if version else (0, 0) for version in versions)
        return major == other and minor <= newest


def zigs(clangs: Mapping[str, int]) -> str:
    """The zigs of a matrix, for help."""
    return "there are: " + ", ".join(f"{zig} (clang {number})" for zig, number in clangs.items())
