"""The lock of the toolchains: which pinned archives the variants of a build need."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.fetch.entry import parse_entry
from py_driver.matrix.backends import TOOLKITS, backend_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from py_driver.fetch.entry import Entry
    from py_driver.matrix.cells import Cell

PARTS = tuple(
    sorted({"cc", "cutlass", "library", "torch", *(part for one in TOOLKITS for part in (one.family, *one.shared))})
)
"""The parts of the lock, each a file of toolchains/lock."""


class Lock(NamedTuple):
    """What is pinned.

    Attributes:
        parts: as JSON has them, by PARTS, with the user's own releases in them.
    """

    parts: Mapping[str, Mapping[str, Any]]

    @property
    def libraries(self) -> Mapping[str, Any]:
        """What kernel sections may depend on besides torch, by the value of `depends`: `cutlass_3_6`."""
        cutlass = {f"cutlass_{version.replace('.', '_')}": one for version, one in self.parts["cutlass"].items()}
        return {**cutlass, **self.parts["library"]}

    def entries_for(self, cells: Iterable[Cell]) -> list[Entry]:
        """The archives that building some variants needs, in a fixed order, each once.

        Args:
            cells: what is built; those without an extension need only the compiler.

        Returns:
            The entries; versions that are not locked are left to Bazel, which names them.
        """
        chosen = list(cells)
        cc, torch = self.parts["cc"], self.parts["torch"]
        backends = sorted({cell.backend for cell in chosen})
        toolkits = [one for one in map(self._toolkit, backends) if one is not None]
        found = [cc["zig"][zig] for zig in dict.fromkeys([cc["default"], *(one["host"] for _, one in toolkits)])]
        found += cc["gcc"]
        for version in sorted({cell.torch for cell in chosen if cell.torch}):
            found += [torch[version]["archive"]] if version in torch else []
        for _, one in toolkits:
            found += one["archives"]
        for part in dict.fromkeys(part for shared, _ in toolkits for part in shared):
            found += [*self.parts[part]["python"], torch[self.parts[part]["torch"]]["archive"]]
        return list({entry.key: entry for entry in map(parse_entry, found)}.values())

    def _toolkit(self, name: str) -> tuple[tuple[str, ...], Mapping[str, Any]] | None:
        """The shared parts and the release that a variant's backend needs; None if it has none, or none is locked."""
        backend = backend_of(name)
        version = backend.version_of(name) if backend else None
        if backend is None or version is None or version not in self.parts[backend.family]:
            return None
        return backend.shared, self.parts[backend.family][version]

    def library_entries(self, depends: Iterable[str]) -> list[Entry]:
        """The archives of some values of `depends`, in a fixed order, each once; torch has none here."""
        libraries = self.libraries
        return [parse_entry(libraries[name]["archive"]) for name in sorted(set(depends) & set(libraries))]

    def toolchain_digests(self) -> dict[str, str]:
        """Digests of what is pinned of `cc`, each backend (`cu130`), torch release (`2.13`) and `library cutlass_4_0`.

        The libraries of a release are left out: no compile action reads what they define.
        """
        libraries = {f"library {name}": one for name, one in self.libraries.items()}
        found: dict[str, Any] = {"cc": self.parts["cc"], **self.parts["torch"], **libraries}
        for backend in TOOLKITS:
            shared = [self.parts[part] for part in backend.shared]
            for version, one in self.parts[backend.family].items():
                compiled = {key: value for key, value in one.items() if key != "libraries"}
                found[backend.name_of(version)] = [compiled, *shared]
        return {name: hashlib.sha256(json.dumps(one).encode()).hexdigest() for name, one in found.items()}

    def torch_release(self, version: str) -> str:
        """The release of torch that a version is locked to: `2.13.0` for `2.13`.

        Raises:
            KeyError: it is not locked.
        """
        release: str = self.parts["torch"][version]["archive"]["version"]
        return release
