"""`driver lock`: what the matrix asks for, looked up on the user's own origins and pinned in the lock."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py_driver.errors import Code, DriverError, error
from py_driver.fetch.debian import resolve_debian
from py_driver.fetch.entry import Entry, Origin, parse_entry
from py_driver.fetch.fetcher import Fetcher
from py_driver.fetch.resolution import resolve, resolve_sdist, resolve_slim
from py_driver.matrix.backends import TOOLKITS
from py_driver.matrix.cells import USUAL_CPU
from py_driver.matrix.lock import PARTS
from py_driver.matrix.releases import lock_file
from py_driver.matrix.user_matrix import key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from py_driver.errors import Diagnostic
    from py_driver.matrix.releases import Releases

_JOBS: Final = 8

_CPUS: Final = {"x86_64": ("x86_64", "amd64"), "aarch64": ("aarch64", "arm64")}
"""How names of wheels and of Debian packages say a CPU; the last one is Debian's."""

Lock = dict[str, dict[str, Any]]
"""The parts of the lock by their names, as JSON has them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Requirement:
    """An archive that the matrix asks for.

    Attributes:
        origin: where it is to come from.
        name: as the origin spells it.
        version: exact version; empty for a Debian package, of which the suite has one.
        sdist: whether it is a source archive of a Python package.
        python_tag: of a wheel.
        cpu: of a wheel or a Debian package that is for one.
        include: prefixes of the members wanted of a wheel; none for all.
        exclude: regular expressions of members not wanted.
        archive: suite and component of a Debian package.
        pinned: the entry itself, if the matrix has all of it.
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

    def is_met_by(self, entry: Entry) -> bool:
        """Whether an entry of the lock is what is asked for."""
        if self.pinned is not None:
            return entry == self.pinned
        # A cross compiler has another CPU in its name; what an archive is for comes last.
        tag = entry.basename.rpartition("-")[2]
        same = (self.origin, self.name, self.include, self.exclude, self.sdist)
        return (
            same == (entry.origin, entry.name, entry.include, entry.exclude, entry.sdist)
            and (not self.version or self.version == entry.version)
            and not any(word in tag for cpu, words in _CPUS.items() if cpu != self.cpu for word in words)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """Where the lock has an entry.

    Attributes:
        need: what for.
        near: path of the part of the lock in which an entry for it may be already.
        more: what stands beside the entry's own keys.
    """

    need: Requirement
    near: tuple[str, ...]
    more: Mapping[str, Any]


class Texts(NamedTuple):
    """A file of the lock as it is, empty if there is none, and as it should be."""

    old: str
    new: str


def read(releases: Releases) -> Lock:
    """The lock that there is: the driver's own, or that of the user's matrix.

    Raises:
        DriverError: BAD_VALUE if it is not JSON.
    """
    own = releases.user_lock_file
    try:
        if own:
            lock: Lock = json.loads(_text(own) or "{}")
            return lock
        return {kind: json.loads(_text(lock_file(kind)) or "{}") for kind in PARTS}
    except ValueError as wrong:
        advice = "`driver lock --update` writes it anew"
        raise error(Code.BAD_VALUE, f"the lock is not JSON: {wrong}", help=advice) from wrong


def check_user_lock(releases: Releases) -> None:
    """See that the lock of the user's matrix, if there is one, is what the matrix says.

    Raises:
        DriverError: STALE_LOCK if it is not, or cannot be read.
    """
    if releases.user_lock_file is None:  # what is wrong with the matrix comes first
        return
    old = releases.user_lock
    try:
        new, missing = complete(wanted(releases), old, {})
    except (AttributeError, KeyError, TypeError):
        new, missing = {}, []
    if missing or new != old:
        advice = f"run `driver lock --matrix {releases.user}`"
        message = f"the lock {releases.user_lock_file} does not match your matrix"
        raise error(Code.STALE_LOCK, message, help=advice)


def texts_of(lock: Lock, releases: Releases) -> dict[Path, Texts]:
    """The files of a lock: those of the driver's own, or one of the user's."""
    own = releases.user_lock_file
    parts = {own: lock} if own else {lock_file(kind): lock[kind] for kind in PARTS}
    return {path: Texts(_text(path), json.dumps(part, indent=2) + "\n") for path, part in parts.items()}


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def wanted(releases: Releases) -> Lock:
    """The lock as the matrix says, with places where it will have entries: of the driver's own or of the user's.

    Raises:
        DriverError: what is wrong with the user's.
    """
    want = _wanted(releases.table)
    if releases.user is None:
        return want
    own = {kind: {one[key_of(kind)] for one in tables} for kind, tables in releases.own.items()}
    return {
        kind: {version: part for version, part in want[kind].items() if version in versions}
        for kind, versions in sorted(own.items())
        if versions
    }


def _wanted(table: Mapping[str, Any]) -> Lock:
    """The lock with places for the entries.

    Args:
        table: of a matrix.
    """
    cc, wheel = table["cc"], table["torch-wheel"]
    zigs = {version: _zig(version, clang, ("cc",)) for version, clang in cc["zig"].items()}

    def torch(one: Mapping[str, Any], cpu: str = USUAL_CPU) -> _Place:
        need = Requirement(
            origin=Origin.PYTHON_INDEX,
            name="torch",
            version=one["release"],
            python_tag=wheel["python-tag"],
            cpu=cpu,
            include=tuple(wheel["include"]),
            exclude=tuple(wheel["exclude"]),
        )
        more = {"backends": one["cross"][cpu]} if cpu != USUAL_CPU else {}
        return _Place(need=need, near=("torch", one["version"]), more=more)

    torches = {
        one["version"]: {
            "abis": one["abis"],
            "archive": torch(one),
            **({"cross": {cpu: torch(one, cpu) for cpu in one["cross"]}} if "cross" in one else {}),
            "cxx_standard": one["cxx-standard"],
        }
        for one in table["torch"]
    }
    toolkits = {
        backend.family: {
            one["version"]: {
                **{name: one[key] for key, name in backend.locked_keys.items()},
                "archives": [_archive(archive, (backend.family, one["version"]), table) for archive in one["archives"]],
                **_libraries(one, (backend.family, one["version"]), table),
                **({"cross": one["cross"]} if "cross" in one else {}),
            }
            for one in table[backend.family]
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
            "floors": cc["floors"],
        },
        **toolkits,
        "cutlass": {one["version"]: _cutlass(one, table) for one in table["cutlass"]},
        "library": {one["name"]: _library(one) for one in table.get("library", ())},
        "gcc": {
            "packages": _packages(_with_libraries(table["gcc"], table["gcc"]["packages"]), "gcc"),
            "cross": {
                cpu: _packages(_with_libraries(table["gcc"], one), "gcc") for cpu, one in table["gcc"]["cross"].items()
            },
        },
        "hipify": {"python": _packages(hipify["python"], "hipify"), "torch": hipify["torch"]},
        "machines": {cpu: _machine(cpu, one, table) for cpu, one in table["machines"].items()},
        "python": {
            "headers": [
                one
                for cpu in (USUAL_CPU, *table["platform"]["cross"])
                for one in _packages(table["python"]["headers"], "python", cpu)
            ],
            "limited_api": table["python"]["limited-api"],
            "version": table["python"]["version"],
        },
        "torch": torches,
        "tvm_ffi": {table["tvm-ffi"]["version"]: _tvm_ffi(table["tvm-ffi"])},
    }


def _machine(cpu: str, own: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """The programs for machines with another CPU than the usual one."""
    near = ("machines", cpu)

    tree = {**table, "redistributables": own["redistributables"]}

    def program(archive: Mapping[str, Any], version: str) -> _Place:
        need = replace(_need(archive, ("cuda", version), tree), cpu=cpu)
        return _unpacked(archive, need, (*near, "cuda", version), table)

    return {
        "zig": {version: _zig(version, clang, near, cpu) for version, clang in table["cc"]["zig"].items()},
        "cuda": {version: [program(one, version) for one in archives] for version, archives in own["cuda"].items()},
        "gcc": {
            target: [replace(one, near=near) for one in _packages(_with_libraries(table["gcc"], packages), "gcc", cpu)]
            for target, packages in own["gcc"].items()
        },
        "hipify": [replace(one, near=near) for one in _packages(table["hipify"]["python"], "hipify", cpu)],
    }


def _zig(version: str, clang: int, near: tuple[str, ...], cpu: str = USUAL_CPU) -> _Place:
    """A version of zig that runs on a CPU."""
    need = Requirement(origin=Origin.PYTHON_INDEX, name="ziglang", version=version, cpu=cpu)
    return _Place(need=need, near=near, more={"clang": clang})


def _with_libraries(gcc: Mapping[str, Any], packages: Mapping[str, Any]) -> Mapping[str, Any]:
    """Packages of a compiler with those that it needs to run."""
    return {**packages, "packages": [*packages["packages"], *gcc["libraries"]]}


def _packages(table: Mapping[str, Any], near: str, cpu: str = USUAL_CPU) -> list[_Place]:
    """Some packages of one suite, for a CPU."""
    archive = (table["suite"], table["component"])
    return [
        _Place(need=Requirement(origin=Origin.DEBIAN, name=name, cpu=cpu, archive=archive), near=(near,), more={})
        for name in table["packages"]
    ]


def _tvm_ffi(table: Mapping[str, Any]) -> dict[str, Any]:
    """The release of tvm-ffi: its headers, and the archive of its library."""
    name, _, version = table["wheel"].partition("==")
    near = ("tvm_ffi", table["version"])

    def place(include: Sequence[str]) -> _Place:
        tag, parts = table["python-tag"], tuple(include)
        need = Requirement(origin=Origin.PYTHON_INDEX, name=name, version=version, python_tag=tag, include=parts)
        return _Place(need=need, near=near, more={})

    return {"archive": place(table["include"]), "libraries": [place(table["library"])]}


def _archive(archive: Mapping[str, Any], near: tuple[str, str], table: Mapping[str, Any]) -> _Place:
    """One of the archives of a CUDA or ROCm release, which is given by its kind and version."""
    version, need = near[1], _need(archive, near, table)
    component = need.name.removeprefix("nvidia-").removesuffix(f"-cu{version.partition('.')[0]}").replace("-", "_")
    words = {"component": component, "release": _release(near, table)}
    include = tuple(prefix.format(**words) for prefix in archive.get("slim", ()))
    if include:
        need = Requirement(origin=need.origin, name=need.name, version=need.version, include=include)
    return _unpacked(archive, need, near, table, **words)


def _unpacked(
    archive: Mapping[str, Any], need: Requirement, near: tuple[str, ...], table: Mapping[str, Any], **words: str
) -> _Place:
    """An archive of which parts are unpacked as its layout says, with some words in their names."""
    stem = PurePosixPath(need.pinned.filename if need.pinned else "").name.removesuffix(".tar.xz")
    layout = table["layouts"][archive["layout"]]
    unpack = [{**part, "strip": part["strip"].format(stem=stem, **words)} for part in layout]
    return _Place(need=need, near=near, more={"unpack": unpack})


def _libraries(release: Mapping[str, Any], near: tuple[str, str], table: Mapping[str, Any]) -> dict[str, list[_Place]]:
    """The archives whose libraries are read when the lock is written, if the matrix names some."""
    places = [_Place(need=_need(one, near, table), near=near, more={}) for one in release.get("libraries", ())]
    return {"libraries": places} if places else {}


def _need(archive: Mapping[str, Any], near: tuple[str, str], table: Mapping[str, Any]) -> Requirement:
    """A whole archive that the matrix names."""
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
    return {"archive": _Place(need=need, near=near, more={}), "release": number, "root": root, **vendored, **upstream}


def _library(library: Mapping[str, Any]) -> dict[str, Any]:
    """A library of headers."""
    name, url = library["name"], library["url"]
    need = _pinned(name, library.get("version", library["sha256"][:12]), url.rpartition("/")[2], url, library)
    place = _Place(need=need, near=("library", name), more={})
    return {"archive": place, "root": library["root"], "include": library["include"]}


def _published(archive: Mapping[str, Any], near: tuple[str, str], table: Mapping[str, Any]) -> Requirement:
    """An archive of a vendor's tree; nothing needs to be looked up."""
    kind = next(key for key in ("redistributable", "amd-package") if key in archive)
    tree = table[f"{kind}s"]
    name, _, version = archive[kind].partition("==")
    words = {"name": name, "version": version, "initial": name[0], "release": _release(near, table)}
    filename = tree["filename"].format(**words)
    return _pinned(name, version, filename, tree["url"].format(**words) + filename, archive)


def _release(near: tuple[str, str], table: Mapping[str, Any]) -> str:
    """The release of a toolkit, if the matrix says it."""
    kind, version = near
    found = next(one for one in table[kind] if one["version"] == version)
    release: str = found.get("release", version)
    return release


def _pinned(name: str, version: str, filename: str, url: str, digests: Mapping[str, Any]) -> Requirement:
    """An archive of which the matrix has the digest, and perhaps the size."""
    known = {key: digests[key] for key in ("size", "sha256") if key in digests}
    entry = {"name": name, "version": version, "filename": filename, **known, "origin": Origin.URL.value, "url": url}
    return Requirement(origin=Origin.URL, name=name, version=version, pinned=parse_entry(entry))


def complete(want: Lock, old: Lock, found: Mapping[Requirement, Entry]) -> tuple[Lock, list[Requirement]]:
    """Fill a lock in with the entries that there are already.

    Args:
        want: what `wanted` returned.
        old: a lock whose entries are kept where they are what is asked for.
        found: entries that were looked up; they come first.

    Returns:
        The lock, and what it lacks: name and version stand there in place of an entry.
    """
    missing: list[Requirement] = []

    def fill(place: _Place) -> dict[str, Any]:
        need = place.need
        known = [one for one in (need.pinned, found.get(need)) if one] or _entries(_part(old, place.near))
        entry = next((one for one in known if need.is_met_by(one)), None)
        if entry is not None:
            return {**entry.to_json(), **place.more}
        missing.append(need)
        return {"name": need.name, "version": need.version, **place.more}

    return _replaced(want, fill), missing


def look_up(needs: Sequence[Requirement], report: Callable[[str], None]) -> dict[Requirement, Entry]:
    """Look archives up on the user's own origins, many at a time.

    Args:
        needs: what is wanted; the same one twice is looked up once.
        report: called with how far the work is.

    Raises:
        DriverError: the diagnostics of everything that could not be looked up; see `resolve` and `resolve_debian`.
    """
    fetcher = Fetcher()
    groups: dict[object, list[Requirement]] = {}
    for need in dict.fromkeys(needs):
        groups.setdefault((need.archive, need.cpu) if need.origin is Origin.DEBIAN else need, []).append(need)
    found: dict[Requirement, Entry] = {}
    wrong: list[Diagnostic] = []
    with ThreadPoolExecutor(_JOBS) as pool:
        running = [pool.submit(_resolved, fetcher, group) for group in groups.values()]
        for future in as_completed(running):
            try:
                found |= future.result()
            except DriverError as failure:
                wrong += failure.diagnostics
            report(f"{len(found)} of {len(needs)} archives")
    if wrong:
        raise DriverError(dict.fromkeys(wrong))
    return found


def _resolved(fetcher: Fetcher, needs: Sequence[Requirement]) -> dict[Requirement, Entry]:
    """The entries of one wheel, or of packages of one suite and component for one CPU."""
    first = needs[0]
    if first.origin is Origin.DEBIAN:
        suite, component = first.archive
        entries = resolve_debian(
            [one.name for one in needs], suite, components=[component], architecture=_CPUS[first.cpu][-1]
        )
        return dict(zip(needs, entries, strict=True))
    if first.sdist:
        return {first: resolve_sdist(fetcher, first.name, first.version)}
    entry = resolve(fetcher, first.name, first.version, python_tag=first.python_tag, cpu=first.cpu)
    return {first: resolve_slim(fetcher, entry, first.include, first.exclude) if first.include else entry}


def _part(lock: Mapping[str, Any], path: Sequence[str]) -> Any:  # noqa: ANN401  (JSON)
    """What stands at a path, or nothing."""
    part: Any = lock
    for key in path:
        part = part.get(key, {})
    return part


def _entries(value: Any) -> Iterator[Entry]:  # noqa: ANN401  (JSON)
    """The entries in a part of a lock."""
    if isinstance(value, dict) and "sha256" in value:
        yield parse_entry(value)
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _entries(one)


def _replaced(value: Any, fill: Callable[[_Place], dict[str, Any]]) -> Any:  # noqa: ANN401  (JSON with places)
    """A copy with every place filled in."""
    if isinstance(value, _Place):
        return fill(value)
    if isinstance(value, dict):
        return {key: _replaced(one, fill) for key, one in value.items()}
    if isinstance(value, list):
        return [_replaced(one, fill) for one in value]
    return value
