"""The archives that the matrix requires, each with its place in the lock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from py_driver.fetch.entry import Entry, Origin, parse_entry
from py_driver.matrix.backends import TOOLKITS
from py_driver.matrix.configurations import USUAL_CPU
from py_driver.matrix.matrix import CPYTHON_PART, TRITON_PART
from py_driver.matrix.user_matrix import key_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from py_driver.matrix.releases import Releases

_CPUS: Final = {"x86_64": ("x86_64", "amd64"), "aarch64": ("aarch64", "arm64")}
"""Spellings of a CPU in names of wheels and Debian packages; the last one is Debian's."""

Lock = dict[str, dict[str, Any]]
"""The parts of the lock as JSON, by name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Requirement:
    """An archive that the matrix requires.

    Attributes:
        origin: its origin.
        name: its name at the origin.
        version: exact version; empty for a Debian package, of which the suite has one.
        sdist: whether it is a source archive of a Python package.
        python_tag: the Python tag of a wheel.
        cpu: the CPU of a wheel or Debian package, if it is for a single one.
        include: prefixes of the members to unpack; empty for all.
        exclude: regular expressions of members to skip.
        archive: suite and component of a Debian package.
        pinned: the entry itself, if the matrix contains all of it.
    """

    origin: Origin
    name: str
    version: str = ""
    sdist: bool = False
    python_tag: str = "py3"
    cpu: str = USUAL_CPU
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    archive: tuple[str, str] = ("", "")
    pinned: Entry | None = None

    @property
    def debian_architecture(self) -> str:
        """Debian's name of the CPU."""
        return _CPUS[self.cpu][-1]

    def is_met_by(self, entry: Entry) -> bool:
        """Whether an entry of the lock meets the requirement."""
        if self.pinned is not None:
            return entry == self.pinned
        # A cross compiler has another CPU in its name; the archive's own CPU comes last.
        tag = entry.basename.rpartition("-")[2]
        same = (self.origin, self.name, self.include, self.exclude, self.sdist)
        return (
            same == (entry.origin, entry.name, entry.include, entry.exclude, entry.sdist)
            and (not self.version or self.version == entry.version)
            and not any(word in tag for cpu, words in _CPUS.items() if cpu != self.cpu for word in words)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A place in the lock for an entry.

    Attributes:
        need: the requirement.
        near: the path of the part of the lock that may already have an entry for it.
        more: further keys beside the entry's own.
    """

    need: Requirement
    near: tuple[str, ...]
    more: Mapping[str, Any]


def wanted(releases: Releases) -> Lock:
    """The lock of the matrix, the driver's own or the user's, with places for entries.

    Raises:
        DriverError: the errors of the user's matrix.
    """
    want = _wanted(releases.table)
    if releases.user is None:
        return want
    own = {kind: {table[key_of(kind)] for table in tables} for kind, tables in releases.own.items()}
    return {
        kind: {version: part for version, part in want[kind].items() if version in versions}
        for kind, versions in sorted(own.items())
        if versions
    }


def _wanted(table: Mapping[str, Any]) -> Lock:
    """The lock with places for entries.

    Args:
        table: the content of a matrix.
    """
    cc, wheel = table["cc"], table["torch-wheel"]
    zigs = {version: _zig(version, clang, ("cc",)) for version, clang in cc["zig"].items()}

    def torch(release: Mapping[str, Any], cpu: str = USUAL_CPU) -> Place:
        need = Requirement(
            origin=Origin.PYTHON_INDEX,
            name="torch",
            version=release["release"],
            python_tag=wheel["python-tag"],
            cpu=cpu,
            include=tuple(wheel["include"]),
            exclude=tuple(wheel["exclude"]),
        )
        more = {"backends": release["cross"][cpu]} if cpu != USUAL_CPU else {}
        return Place(need=need, near=("torch", release["version"]), more=more)

    torches = {
        release["version"]: {
            "abis": release["abis"],
            "archive": torch(release),
            **({"cross": {cpu: torch(release, cpu) for cpu in release["cross"]}} if "cross" in release else {}),
            "cxx_standard": release["cxx-standard"],
            **({"pybind_abi": release["pybind-abi"]} if "pybind-abi" in release else {}),
        }
        for release in table["torch"]
    }
    toolkits = {
        backend.family: {
            release["version"]: {
                **{name: release[key] for key, name in backend.locked_keys.items() if key in release},
                "archives": [
                    _archive(archive, (backend.family, release["version"]), table) for archive in release["archives"]
                ],
                **_libraries(release, (backend.family, release["version"]), table),
                **({"cross": release["cross"]} if "cross" in release else {}),
            }
            for release in table[backend.family]
        }
        for backend in TOOLKITS
    }
    gcc, hipify = _packages(cc["gcc"], "cc"), table["hipify"]
    return {
        "cc": {
            "default": cc["default"],
            "zig": zigs,
            "gcc": gcc,
            "cross": {cpu: _packages(cc["gcc"], "cc", cpu) for cpu in table["platform"]["cross"]},
            "glibc": cc["glibc"],
            "max_symbol_versions": cc["max-symbol-versions"],
        },
        **toolkits,
        CPYTHON_PART: {release["version"]: _cpython(release, table) for release in table["cpython"]},
        "cutlass": {release["version"]: _cutlass(release, table) for release in table["cutlass"]},
        "library": {library["name"]: _library(library) for library in table.get("library", ())},
        "gcc": {
            "packages": _packages(_with_libraries(table["gcc"], table["gcc"]["packages"]), "gcc"),
            "cross": {
                cpu: _packages(_with_libraries(table["gcc"], packages), "gcc")
                for cpu, packages in table["gcc"]["cross"].items()
            },
        },
        "hipify": {"python": _packages(hipify["python"], "hipify"), "torch": hipify["torch"]},
        "machines": {cpu: _machine(cpu, machine, table) for cpu, machine in table["machines"].items()},
        "python": {
            "headers": [
                package
                for cpu in (USUAL_CPU, *table["platform"]["cross"])
                for package in _packages(table["python"]["headers"], "python", cpu)
            ],
            "limited_api": table["python"]["limited-api"],
            "version": table["python"]["version"],
        },
        "torch": torches,
        TRITON_PART: {release["version"]: _triton(release, table["triton-wheel"]) for release in table["triton"]},
        "tvm_ffi": {table["tvm-ffi"]["version"]: _tvm_ffi(table["tvm-ffi"])},
    }


def _cpython(release: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """A Python: its headers for each CPU, and its library for the default one, whose symbols are the same for all."""
    version, archive = release["version"], (release["suite"], "main")
    near = (CPYTHON_PART, version)

    def package(name: str, cpu: str) -> Place:
        return Place(need=Requirement(origin=Origin.DEBIAN, name=name, cpu=cpu, archive=archive), near=near, more={})

    cpus = (USUAL_CPU, *table["platform"]["cross"])
    return {
        "headers": [package(f"libpython{version}-dev", cpu) for cpu in cpus],
        "libraries": [package(f"libpython{version}", USUAL_CPU)],
    }


def _machine(cpu: str, own: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """The programs for machines with another CPU than the default one."""
    near = ("machines", cpu)

    tree = {**table, "redistributables": own["redistributables"]}

    def program(archive: Mapping[str, Any], version: str) -> Place:
        need = replace(_need(archive, ("cuda", version), tree), cpu=cpu)
        return _unpacked(archive, need, (*near, "cuda", version), table)

    return {
        "zig": {version: _zig(version, clang, near, cpu) for version, clang in table["cc"]["zig"].items()},
        "cuda": {
            version: [program(archive, version) for archive in archives] for version, archives in own["cuda"].items()
        },
        "gcc": {
            target: [
                replace(package, near=near)
                for package in _packages(_with_libraries(table["gcc"], packages), "gcc", cpu)
            ]
            for target, packages in own["gcc"].items()
        },
        "hipify": [replace(package, near=near) for package in _packages(table["hipify"]["python"], "hipify", cpu)],
    }


def _zig(version: str, clang: int, near: tuple[str, ...], cpu: str = USUAL_CPU) -> Place:
    """A version of zig that runs on a CPU."""
    need = Requirement(origin=Origin.PYTHON_INDEX, name="ziglang", version=version, cpu=cpu)
    return Place(need=need, near=near, more={"clang": clang})


def _with_libraries(gcc: Mapping[str, Any], packages: Mapping[str, Any]) -> Mapping[str, Any]:
    """The packages of a compiler and of the libraries that it needs."""
    return {**packages, "packages": [*packages["packages"], *gcc["libraries"]]}


def _packages(table: Mapping[str, Any], near: str, cpu: str = USUAL_CPU) -> list[Place]:
    """Packages of a suite, for a CPU."""
    archive = (table["suite"], table["component"])
    return [
        Place(need=Requirement(origin=Origin.DEBIAN, name=name, cpu=cpu, archive=archive), near=(near,), more={})
        for name in table["packages"]
    ]


def _tvm_ffi(table: Mapping[str, Any]) -> dict[str, Any]:
    """The release of tvm-ffi: its headers, and the archive of its library."""
    name, _, version = table["wheel"].partition("==")
    near = ("tvm_ffi", table["version"])

    def needed(include: Sequence[str]) -> Place:
        tag, parts = table["python-tag"], tuple(include)
        need = Requirement(origin=Origin.PYTHON_INDEX, name=name, version=version, python_tag=tag, include=parts)
        return Place(need=need, near=near, more={})

    return {"archive": needed(table["include"]), "libraries": [needed(table["library"])]}


def _triton(release: Mapping[str, Any], wheel: Mapping[str, Any]) -> dict[str, Any]:
    """A release of Triton."""
    need = Requirement(
        origin=Origin.PYTHON_INDEX,
        name="triton",
        version=release["release"],
        python_tag=wheel["python-tag"],
        include=tuple(prefix.format(release=release["release"]) for prefix in wheel["include"]),
        exclude=tuple(wheel["exclude"]),
    )
    near = (TRITON_PART, release["version"])
    packages = [replace(package, near=near) for package in _packages(wheel["libraries"], TRITON_PART)]
    return {"archive": Place(need=need, near=near, more={}), "packages": packages}


def _archive(archive: Mapping[str, Any], near: tuple[str, str], table: Mapping[str, Any]) -> Place:
    """An archive of a CUDA or ROCm release, which `near` names by kind and version."""
    version, need = near[1], _need(archive, near, table)
    component = need.name.removeprefix("nvidia-").removesuffix(f"-cu{version.partition('.')[0]}").replace("-", "_")
    words = {"component": component, "release": _release(near, table)}
    include = tuple(prefix.format(**words) for prefix in archive.get("members", ()))
    if include:
        need = Requirement(origin=need.origin, name=need.name, version=need.version, include=include)
    return _unpacked(archive, need, near, table, **words)


def _unpacked(
    archive: Mapping[str, Any], need: Requirement, near: tuple[str, ...], table: Mapping[str, Any], **words: str
) -> Place:
    """An archive whose parts are unpacked according to its layout, with words replaced in their names."""
    stem = PurePosixPath(need.pinned.filename if need.pinned else "").name.removesuffix(".tar.xz")
    layout = table["layouts"][archive["layout"]]
    unpack = [{**part, "strip": part["strip"].format(stem=stem, **words)} for part in layout]
    return Place(need=need, near=near, more={"unpack": unpack})


def _libraries(release: Mapping[str, Any], near: tuple[str, str], table: Mapping[str, Any]) -> dict[str, list[Place]]:
    """The archives whose libraries are read when the lock is written, if the matrix names any."""
    places = [Place(need=_need(library, near, table), near=near, more={}) for library in release.get("libraries", ())]
    return {"libraries": places} if places else {}


def _need(archive: Mapping[str, Any], near: tuple[str, str], table: Mapping[str, Any]) -> Requirement:
    """An archive that the matrix names and that is unpacked completely."""
    if "wheel" in archive:
        name, _, version = archive["wheel"].partition("==")
        return Requirement(origin=Origin.PYTHON_INDEX, name=name, version=version)
    if "deb" in archive:
        suite = (archive["suite"], archive["component"])
        return Requirement(origin=Origin.DEBIAN, name=archive["deb"], archive=suite)
    return _published(archive, near, table)


def _cutlass(release: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """A CUTLASS release."""
    near, number = ("cutlass", release["version"]), release["release"]
    if kind := next((key for key in ("wheel", "sdist") if key in release), ""):
        wheel = table["cutlass-wheel"]
        root = release.get("root", wheel["root"])
        name, _, version = release[kind].partition("==")
        need = Requirement(origin=Origin.PYTHON_INDEX, name=name, version=version, sdist=kind == "sdist")
        if kind == "wheel":
            include = tuple(f"{root}/{directory}" for directory in wheel["include"])
            need = replace(need, include=include, exclude=tuple(wheel["exclude"]))
    else:
        root, url = (table["cutlass-tag"][key].format(release=number) for key in ("root", "url"))
        need = _pinned("cutlass", number, f"{root}.tar.gz", url, release)
    vendored = {"vendored_by": f"{need.name} {need.version}"} if "root" in release else {}
    upstream = {"upstream": release["upstream"]} if "upstream" in release else {}
    return {"archive": Place(need=need, near=near, more={}), "release": number, "root": root, **vendored, **upstream}


def _library(library: Mapping[str, Any]) -> dict[str, Any]:
    """A library of headers."""
    name, url = library["name"], library["url"]
    need = _pinned(name, library.get("version", library["sha256"][:12]), url.rpartition("/")[2], url, library)
    archive = Place(need=need, near=("library", name), more={})
    return {"archive": archive, "root": library["root"], "include": library["include"]}


def _published(archive: Mapping[str, Any], near: tuple[str, str], table: Mapping[str, Any]) -> Requirement:
    """An archive of a vendor's tree, which needs no look-up."""
    kind = next(key for key in ("redistributable", "amd-package") if key in archive)
    tree = table[f"{kind}s"]
    name, _, version = archive[kind].partition("==")
    words = {"name": name, "version": version, "initial": name[0], "release": _release(near, table)}
    filename = tree["filename"].format(**words)
    return _pinned(name, version, filename, tree["url"].format(**words) + filename, archive)


def _release(near: tuple[str, str], table: Mapping[str, Any]) -> str:
    """The release of a toolkit, if the matrix has it."""
    kind, version = near
    found = next(release for release in table[kind] if release["version"] == version)
    release: str = found.get("release", version)
    return release


def _pinned(name: str, version: str, filename: str, url: str, digests: Mapping[str, Any]) -> Requirement:
    """An archive whose digest, and perhaps size, is in the matrix."""
    known = {key: digests[key] for key in ("size", "sha256") if key in digests}
    entry = {"name": name, "version": version, "filename": filename, **known, "origin": Origin.URL.value, "url": url}
    return Requirement(origin=Origin.URL, name=name, version=version, pinned=parse_entry(entry))
