"""The lock of the toolchains: the pinned archives that the variants of a build need."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.fetch.entry import parse_entry
from py_driver.matrix.backends import TOOLKITS, backend_of
from py_driver.matrix.configurations import USUAL_CPU
from py_driver.matrix.matrix import CPYTHON_PART, MACHINES_PART, TRITON_PART, TVM_FFI_PART

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from py_driver.fetch.entry import Entry
    from py_driver.matrix.configurations import Configuration

PARTS = tuple(
    sorted(
        {
            *(
                "cc",
                CPYTHON_PART,
                "cutlass",
                "gcc",
                "library",
                MACHINES_PART,
                "python",
                "torch",
                TRITON_PART,
                TVM_FFI_PART,
            ),
            *(part for backend in TOOLKITS for part in (backend.family, *backend.shared)),
        }
    )
)
"""The parts of the lock, each a file of toolchains/lock."""


def for_machine(kind: str, part: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """A part of the lock for a machine with another CPU than the default; toolchains/machines.bzl does the same.

    Args:
        kind: one of PARTS.
        part: the locked part.
        own: the archives that are locked for the machine.

    Returns:
        The part with archives of programs that run there, without incomplete releases of CUDA.
    """
    if kind == "cc":
        return {**part, "zig": own["zig"]}
    if kind == "gcc":
        cross = {cpu: packages for cpu, packages in own["gcc"].items() if cpu != USUAL_CPU}
        return {"packages": own["gcc"][USUAL_CPU], "cross": cross}
    if kind == "hipify":
        return {**part, "python": own["hipify"]}
    if kind != "cuda":
        return {**part}
    found = {}
    for version, release in part.items():
        programs = {(program["name"], program["version"]): program for program in own["cuda"].get(version, ())}
        keys = [(archive["name"], archive["version"]) for archive in release["archives"]]
        if programs and programs.keys() <= set(keys):
            archives = [programs.get(key, archive) for key, archive in zip(keys, release["archives"], strict=True)]
            found[version] = {**release, "archives": archives}
    return found


_WITH_PROGRAMS = ("cuda",)
"""The families of backends whose toolkits have their own programs."""


class Lock(NamedTuple):
    """The lock for a machine.

    Attributes:
        parts: the parts as JSON, by PARTS, with the user's own releases and the programs for the machine.
        machine: its CPU.
    """

    parts: Mapping[str, Mapping[str, Any]]
    machine: str = USUAL_CPU

    @property
    def entries(self) -> list[Entry]:
        """All unique archives."""
        found: dict[str, Entry] = {}
        waiting: list[Any] = [self.parts[kind] for kind in PARTS]
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict) and {"filename", "sha256"} <= value.keys():
                entry = parse_entry(value)
                found[entry.key] = entry
            elif isinstance(value, dict | list):
                waiting += value.values() if isinstance(value, dict) else value
        return list(found.values())

    @property
    def libraries(self) -> Mapping[str, Any]:
        """The libraries that kernel sections may depend on besides torch, by the value of `depends`: `cutlass_3_6`."""
        cutlass = {
            f"cutlass_{version.replace('.', '_')}": release for version, release in self.parts["cutlass"].items()
        }
        return {**cutlass, **self.parts["library"]}

    @property
    def implied(self) -> Mapping[str, Any]:
        """The libraries that sources depend on by including them, which `depends` of build.toml cannot name."""
        python, [tvm_ffi] = self.parts["python"], self.parts[TVM_FFI_PART].values()
        return {"python": {"archive": python["headers"][0], **python}, TVM_FFI_PART: {"archive": tvm_ffi["archive"]}}

    @property
    def depends(self) -> Mapping[str, Any]:
        """All libraries that sources may depend on besides torch: `libraries` and `implied`."""
        return {**self.libraries, **self.implied}

    def entries_for(self, configurations: Iterable[Configuration], *, read: bool = False) -> list[Entry]:
        """The unique archives that a build of variants needs, in a fixed order.

        Args:
            configurations: the variants; those without an extension need only the compiler.
            read: whether to return only archives that the variants are built from. The compiler comes with the C++
                library of the build machine, and nvcc with that of the default CPU; variants for another CPU read
                neither.

        Returns:
            The entries; unlocked versions are omitted, and Bazel reports them.
        """
        chosen = list(configurations)
        cc, torch = self.parts["cc"], self.parts["torch"]
        backends = sorted({configuration.backend for configuration in chosen})
        toolkits = [toolkit for toolkit in map(self._toolkit, backends) if toolkit is not None]
        found = [
            cc["zig"][zig] for zig in dict.fromkeys([cc["default"], *(toolkit["host"] for _, toolkit in toolkits)])
        ]
        cpus = {configuration.cpu or USUAL_CPU for configuration in chosen}
        if not read or not chosen:
            cpus |= {self.machine, USUAL_CPU} if toolkits else {self.machine}
        for cpu in sorted(cpus, key=lambda cpu: (cpu != USUAL_CPU, cpu)):
            found += cc["gcc"] if cpu == USUAL_CPU else cc["cross"].get(cpu, [])
        for version, cpu in sorted(
            {(configuration.torch, configuration.cpu or "") for configuration in chosen if configuration.torch}
        ):
            part = torch.get(version, {})
            found += [archive for archive in (part.get("cross", {}).get(cpu, part.get("archive")),) if archive]
        for _, toolkit in toolkits:
            found += toolkit["archives"]
        for part in dict.fromkeys(part for shared, _ in toolkits for part in shared):
            found += [*self.parts[part]["python"], torch[self.parts[part]["torch"]]["archive"]]
        return list({entry.key: entry for entry in map(parse_entry, found)}.values())

    def _toolkit(self, name: str) -> tuple[tuple[str, ...], Mapping[str, Any]] | None:
        """The shared parts and the release that a variant's backend needs; None without a locked toolkit."""
        backend = backend_of(name)
        version = backend.version_of(name) if backend else None
        if backend is None or version is None or version not in self.parts[backend.family]:
            return None
        return backend.shared, self.parts[backend.family][version]

    def without_programs(self, configurations: Iterable[Configuration]) -> list[str]:
        """The backends of variants whose toolkit is locked, but not for machines like this one."""
        if self.machine == USUAL_CPU:
            return []
        asked = {configuration.backend for configuration in configurations if configuration.family in _WITH_PROGRAMS}
        return sorted(backend for backend in asked if self._toolkit(backend) is None)

    def library_entries(self, depends: Iterable[str]) -> list[Entry]:
        """The unique archives of values of `depends`, in a fixed order, without torch's."""
        known = self.depends
        parts = [known[name] for name in sorted(set(depends) & set(known))]
        return [parse_entry(header) for part in parts for header in part.get("headers", [part["archive"]])]

    def cpython_entries(self, versions: Iterable[str]) -> list[Entry]:
        """The unique archives with the headers of Pythons; an installed Python has none.

        Args:
            versions: the names of the Pythons in variants.
        """
        part = self.parts[CPYTHON_PART]
        found = [header for version in sorted(set(versions)) for header in part.get(version, {}).get("headers", [])]
        return [parse_entry(header) for header in found]

    def triton_entries(self, releases: Iterable[str]) -> list[Entry]:
        """The unique archives of releases of Triton and of the Python that runs them."""
        chosen = sorted(set(releases))
        part = self.parts[TRITON_PART]
        found = [entry for release in chosen for entry in (part[release]["archive"], *part[release]["packages"])]
        found += self.parts["hipify"]["python"] if chosen else []
        return list({entry.key: entry for entry in map(parse_entry, found)}.values())

    def gcc_entries(self, cpus: Iterable[str]) -> list[Entry]:
        """The archives of gcc for CPUs: it compiles sources that ask for OpenMP, or all C++ on request."""
        part = self.parts["gcc"]
        found = [package for cpu in sorted(set(cpus)) for package in part["cross"].get(cpu, part["packages"])]
        return list({entry.key: entry for entry in map(parse_entry, found)}.values())

    def toolchain_digests(self) -> dict[str, str]:
        """Digests of the locked archives of `cc`, `gcc`, each backend (`cu130`), torch release (`2.13`), `library X`.

        The libraries of a release are excluded: no compile action reads their symbols.
        """
        libraries = {f"library {name}": depend for name, depend in self.depends.items()}
        libraries[f"library {CPYTHON_PART}"] = self.parts[CPYTHON_PART]
        found: dict[str, Any] = {
            "cc": self.parts["cc"],
            "gcc": self.parts["gcc"],
            **self.parts["torch"],
            **libraries,
        }
        for backend in TOOLKITS:
            shared = [self.parts[part] for part in backend.shared]
            for version, part in self.parts[backend.family].items():
                compiled = {key: value for key, value in part.items() if key != "libraries"}
                found[backend.name_of(version)] = [compiled, *shared]
        for version, release in self.parts[TRITON_PART].items():
            found[f"{TRITON_PART} {version}"] = [release, self.parts["hipify"]["python"]]
        return {name: hashlib.sha256(json.dumps(part).encode()).hexdigest() for name, part in found.items()}

    def torch_wheel(self, version: str, cpu: str) -> str:
        """The SHA-256 of the wheel of torch for a CPU; empty if none is locked."""
        part = self.parts["torch"].get(version, {})
        wheel = part.get("cross", {}).get(cpu) if cpu != USUAL_CPU else part.get("archive")
        return str(wheel["sha256"]) if wheel else ""

    def torch_release(self, version: str) -> str:
        """The release of torch that a version is locked to: `2.13.0` for `2.13`.

        Raises:
            KeyError: it is not locked.
        """
        release: str = self.parts["torch"][version]["archive"]["version"]
        return release

    def tvm_ffi_requirement(self, version: str) -> str:
        """The package that a version of tvm-ffi is locked to, as a requirement for pip.

        Raises:
            KeyError: it is not locked.
        """
        return "{name}=={version}".format_map(self.parts[TVM_FFI_PART][version]["archive"])
