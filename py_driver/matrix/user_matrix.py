"""The user's own matrix, which adds releases of torch, CUDA, ROCm and CUTLASS, libraries of headers, and CPUs."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import tomli

from py_driver.errors import Code, Diagnostic, DriverError, error
from py_driver.matrix.backends import BUILT, TOOLKITS, backend_of
from py_driver.matrix.configurations import CPUS, USUAL_CPU
from py_driver.matrix.toolkits import numbers
from py_driver.matrix.user_sources import PACKAGE, cutlass_faults, library_faults
from py_driver.spelling import did_you_mean, near_path

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

Table = dict[str, Any]
"""A table of TOML."""

_MINOR: Final = r"[1-9]\.(0|[1-9][0-9]?)"
_VERSIONS: Final = {
    "torch": (_MINOR, "of torch, e.g. 2.13"),
    **{
        backend.family: (backend.digits.replace(")(", r")\.("), f"of {backend.title}, e.g. {backend.example}")
        for backend in TOOLKITS
    },
    "cutlass": (_MINOR, "of CUTLASS, e.g. 4.5"),
}
"""The valid versions: others do not fit into the identifiers of variants, or would be ambiguous."""

_TORCH: Final[Mapping[str, type]] = {
    "version": str,
    "release": str,
    "cxx-standard": int,
    "abis": list,
    "backends": list,
    "on-request": list,
    "default": bool,
    "pythons": list,
    "pybind-abi": str,
}
_TOOLKIT: Final[Mapping[str, type]] = {
    "version": str,
    "archs": list,
    "host": str,
    "runtime": str,
    "run-here": bool,
    "archives": list,
    "libraries": list,
}
_CUTLASS: Final[Mapping[str, type]] = {
    "version": str,
    "release": str,
    "wheel": str,
    "sdist": str,
    "root": str,
    "sha256": str,
}
_LIBRARY: Final[Mapping[str, type]] = {
    "name": str,
    "version": str,
    "url": str,
    "sha256": str,
    "root": str,
    "include": list,
    "minimum-cuda": str,
}
_PAIRED: Final[Mapping[str, type]] = {key: _TORCH[key] for key in ("version", "on-request")}
"""The keys of a table that names further backends of a torch release."""
_PAIR: Final = _PAIRED.keys()
_PLATFORM: Final = "platform"
_DEFAULT_CPUS: Final = "cpus"
_MOST: Final = 1000
_OPTIONAL: Final = {
    "on-request",
    "wheel",
    "sdist",
    "root",
    "sha256",
    "libraries",
    "pythons",
    "pybind-abi",
    "compress",
    "compress-option",
}
_NEW_NAMES: Final = {"bundled": "default", "named": "on-request", "slim": "members"}
"""Keys of 0.1 that are still read, and their new names."""
_OF_ARCHIVES: Final = {"members"}
"""The names among them that belong to archives, not to releases."""
_LIBRARY_OPTIONAL: Final = {"version", "minimum-cuda"}
_ARCHIVE_LISTS: Final = {"archives", "libraries"}
_TABLES: Final[Mapping[str, Mapping[str, type]]] = {
    "torch": _TORCH,
    **{backend.family: {**_TOOLKIT, **backend.release_keys} for backend in TOOLKITS},
    "cutlass": _CUTLASS,
    "library": _LIBRARY,
}
_BRACES: Final = re.compile(r"\{(component|stem|release)\}")
_OF_PYTHON: Final = {
    "pythons": (re.compile(r"3\.[1-9][0-9]?t?"), "3.13"),
    "pybind-abi": (re.compile(r"_cxxabi[0-9]{4}"), "_cxxabi1016"),
}
_ARCHIVES: Final = {
    "wheel": {"wheel"},
    "deb": {"deb", "suite", "component"},
    "redistributable": {"redistributable", "sha256"},
    "amd-package": {"amd-package", "sha256"},
}
"""The kinds of archives, and the required keys of each; archives in `archives` also need a layout."""


class Extension(NamedTuple):
    """The content of the user's own matrix.

    Attributes:
        tables: its releases and libraries, by kind.
        cpus: the CPUs of default variants; empty if it does not list any.
        pairs: further backends, on request, of torch releases that the driver's own matrix has.
    """

    tables: Mapping[str, list[Table]]
    cpus: tuple[str, ...] = ()
    pairs: Mapping[str, tuple[str, ...]] = MappingProxyType({})


def extended(table: Table, extension: Extension, file: str) -> Table:
    """A matrix with the releases of a user's file, which replace its own releases of the same version or follow them.

    Args:
        table: the driver's own matrix.
        extension: the user's matrix.
        file: its path, for messages.

    Raises:
        DriverError: BAD_VALUE or MISSING_KEY, one diagnostic for each inconsistent release.
    """
    own = extension.tables
    merged = dict(table)
    if extension.cpus:
        merged["platform"] = {**table["platform"], "cpus": [*extension.cpus]}
    for kind in _TABLES:
        key = key_of(kind)
        releases = {release[key]: release for release in table.get(kind, ())} | {
            release[key]: release for release in own[kind]
        }
        merged[kind] = list(releases.values())
    merged["torch"] = [_paired(release, extension.pairs) for release in merged["torch"]]
    if wrong := [*_contradictions(own, merged, file), *_pairs(extension.pairs, merged, file)]:
        raise DriverError(wrong)
    return merged


def _paired(release: Table, pairs: Mapping[str, tuple[str, ...]]) -> Table:
    """A torch release with the backends that it is paired with on request."""
    more = pairs.get(release["version"], ())
    return {**release, "on-request": [*dict.fromkeys([*release.get("on-request", ()), *more])]} if more else release


def _pairs(pairs: Mapping[str, tuple[str, ...]], merged: Table, file: str) -> Iterator[Diagnostic]:
    """The errors of further backends of torch releases."""
    releases = {release["version"]: release for release in merged["torch"]}
    for version in pairs:
        origin = f"{file}: [[torch]] {version}"
        if version in releases:
            yield from _torch(releases[version], merged, origin)
        else:
            advice = f"a table with `version` and `on-request` alone is for {', '.join(releases)}"
            yield Diagnostic(code=Code.MISSING_KEY, message=f"{origin}: `release` is missing", help=advice)


def _is_pair(release: Table) -> bool:
    """Whether a torch table only names further backends of a release."""
    return release.keys() == _PAIR


def key_of(kind: str) -> str:
    """The key that identifies a table of a kind."""
    return "name" if kind == "library" else "version"


def read_extension(path: Path, warn: Callable[[str], None]) -> Extension:
    """The content of a user's file: `torch`, `cuda`, `rocm`, `cutlass` and `library` tables, and `platform`.

    Args:
        path: the path of the file.
        warn: gets a warning for each renamed key, before errors are raised.

    Raises:
        DriverError: the file cannot be read (FILE_MISSING, TOML_SYNTAX, TOML_LIMIT), or is invalid (UNKNOWN_KEY,
            MISSING_KEY, WRONG_TYPE, BAD_VALUE); all errors at once.
    """
    try:
        table = tomli.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        message = f"cannot read the matrix {path}: {problem.strerror}"
        raise error(Code.FILE_MISSING, message, help=near_path(path)) from None
    except RecursionError:
        raise error(Code.TOML_LIMIT, f"{path}: too many brackets inside one another") from None
    except (tomli.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise error(Code.TOML_SYNTAX, f"{path}: {problem}") from None
    except ValueError:  # of more than 4300 digits
        raise error(Code.TOML_SYNTAX, f"{path}: an integer is larger than TOML allows") from None
    for warning in _with_new_keys(table, str(path)):
        warn(warning)
    if wrong := list(_faults(table, str(path))):
        raise DriverError(wrong)
    cpus = tuple(table.get(_PLATFORM, {}).get(_DEFAULT_CPUS, ()))
    tables = {kind: table.get(kind, []) for kind in _TABLES}
    pairs = {release["version"]: tuple(release["on-request"]) for release in tables["torch"] if _is_pair(release)}
    tables["torch"] = [release for release in tables["torch"] if not _is_pair(release)]
    return Extension(tables=tables, cpus=cpus, pairs=pairs)


def _with_new_keys(table: Table, file: str) -> Iterator[str]:
    """Rename old keys in place, and return a warning for each."""
    renamed = set()
    for kind, keys in _TABLES.items():
        releases = table.get(kind)
        for release in releases if isinstance(releases, list) else ():
            if not isinstance(release, dict):
                continue
            archives = (release[key] for key in _ARCHIVE_LISTS if isinstance(release.get(key), list))
            for part, known in (
                (release, keys),
                *((archive, _OF_ARCHIVES) for listed in archives for archive in listed),
            ):
                for old in _NEW_NAMES if isinstance(part, dict) else ():
                    if (new := _NEW_NAMES[old]) in known and old in part and new not in part:
                        part[new] = part.pop(old)
                        renamed.add(old)
    for old in sorted(renamed):
        yield f"{file}: `{old}` is now called `{_NEW_NAMES[old]}`; the next release will reject the old name"


def _faults(table: Table, file: str) -> Iterator[Diagnostic]:
    """The errors in the structure of a file."""
    for name in sorted(table.keys() - _TABLES - {_PLATFORM}):
        message = f"{file}: a matrix of your own has no `{name}`"
        advice = f"the tables are {', '.join(f'[[{kind}]]' for kind in _TABLES)} and [{_PLATFORM}]"
        yield Diagnostic(code=Code.UNKNOWN_KEY, message=message, help=advice)
    if _PLATFORM in table:
        yield from _platform(table[_PLATFORM], file)
    for kind, keys in _TABLES.items():
        releases = table.get(kind, [])
        if not isinstance(releases, list) or not all(isinstance(release, dict) for release in releases):
            yield Diagnostic(code=Code.WRONG_TYPE, message=f"{file}: `{kind}` must be tables: [[{kind}]]")
            continue
        for number, release in enumerate(releases, 1):
            origin = f"{file}: [[{kind}]] {release.get(key_of(kind), f'number {number}')}"
            yield from _keys(release, _PAIRED if kind == "torch" and _is_pair(release) else keys, origin)
            pattern, words = _VERSIONS.get(kind, (".+", ""))
            if "version" in release and not re.fullmatch(pattern, str(release["version"])):
                message = f"{origin}: `version` must be a major and a minor number {words}"
                yield Diagnostic(code=Code.BAD_VALUE, message=message)
        versions = [str(release.get(key_of(kind))) for release in releases]
        for version in sorted({version for version in versions if versions.count(version) > 1}):
            yield Diagnostic(code=Code.BAD_VALUE, message=f"{file}: [[{kind}]] {version} is defined more than once")


def _platform(platform: object, file: str) -> Iterator[Diagnostic]:
    """The errors of `[platform]`."""
    if not isinstance(platform, dict):
        yield Diagnostic(code=Code.WRONG_TYPE, message=f"{file}: `{_PLATFORM}` must be a table: [{_PLATFORM}]")
        return
    origin = f"{file}: [{_PLATFORM}]"
    for name in sorted(platform.keys() - {_DEFAULT_CPUS}):
        advice = f"the only key is `{_DEFAULT_CPUS}`"
        yield Diagnostic(code=Code.UNKNOWN_KEY, message=f"{origin}: unknown key `{name}`", help=advice)
    cpus = platform.get(_DEFAULT_CPUS, [USUAL_CPU])
    if not isinstance(cpus, list) or not all(isinstance(cpu, str) for cpu in cpus):
        yield Diagnostic(code=Code.WRONG_TYPE, message=f"{origin}: `{_DEFAULT_CPUS}` must be a list of strings")
    elif not cpus or len(set(cpus)) < len(cpus) or not set(cpus) <= set(CPUS):
        message = (
            f"{origin}: `{_DEFAULT_CPUS}` must list one or both of {', '.join(f'`{cpu}`' for cpu in CPUS)}, each once"
        )
        yield Diagnostic(code=Code.BAD_VALUE, message=message)


def _keys(release: Table, keys: Mapping[str, type], origin: str) -> Iterator[Diagnostic]:
    for name in sorted(release.keys() - keys.keys()):
        hint = did_you_mean(name, keys)
        yield Diagnostic(code=Code.UNKNOWN_KEY, message=f"{origin}: unknown key `{name}`", help=hint)
    for name, kind in keys.items():
        if name not in release:
            if name not in (_LIBRARY_OPTIONAL if keys is _LIBRARY else _OPTIONAL):
                yield Diagnostic(code=Code.MISSING_KEY, message=f"{origin}: `{name}` is missing")
        elif type(release[name]) is not kind:
            yield Diagnostic(code=Code.WRONG_TYPE, message=f"{origin}: `{name}` must be of the type {kind.__name__}")
        elif kind is list and name not in _ARCHIVE_LISTS and not all(isinstance(text, str) for text in release[name]):
            yield Diagnostic(code=Code.WRONG_TYPE, message=f"{origin}: `{name}` must be a list of strings")
        elif kind is list and name != "on-request" and not release[name]:
            yield Diagnostic(code=Code.BAD_VALUE, message=f"{origin}: `{name}` is empty")
        elif kind is list and name not in _ARCHIVE_LISTS and len(set(release[name])) < len(release[name]):
            yield Diagnostic(code=Code.BAD_VALUE, message=f"{origin}: `{name}` has a duplicate")
        elif kind is int and not 0 < release[name] < _MOST:
            yield Diagnostic(code=Code.BAD_VALUE, message=f"{origin}: `{name}` must be from 1 to {_MOST - 1}")


def _contradictions(own: Mapping[str, list[Table]], merged: Table, file: str) -> Iterator[Diagnostic]:
    """The inconsistencies within the matrix."""
    for release in own["torch"]:
        yield from _torch(release, merged, f"{file}: [[torch]] {release['version']}")
    for backend in TOOLKITS:
        for release in own[backend.family]:
            origin = f"{file}: [[{backend.family}]] {release['version']}"
            for problem, advice in backend.release_problems(release, merged["cc"]["zig"]):
                yield Diagnostic(code=Code.BAD_VALUE, message=f"{origin}: {problem}", help=advice)
            yield from _toolkit(release, merged, origin)
    for release in own["cutlass"]:
        yield from cutlass_faults(release, f"{file}: [[cutlass]] {release['version']}")
    for library in own["library"]:
        yield from library_faults(library, f"{file}: [[library]] {library['name']}")


def _toolkit(release: Table, merged: Table, origin: str) -> Iterator[Diagnostic]:
    """The errors of a toolkit of any backend."""
    if not re.fullmatch(r"lib[\w.+-]+\.so[\w.]*", release["runtime"]):
        yield Diagnostic(code=Code.BAD_VALUE, message=f"{origin}: `runtime` must be the name of a library")
    for archive in release["archives"]:
        yield from _archive(archive, ["layout"], merged, origin)
    for archive in release.get("libraries", ()):
        yield from _archive(archive, [], merged, origin)


def _torch(release: Table, merged: Table, origin: str) -> Iterator[Diagnostic]:
    """The errors of a torch release."""
    backends = {name for name, family in BUILT.items() if not family.prefix}
    backends |= {backend.name_of(release["version"]) for backend in TOOLKITS for release in merged[backend.family]}
    for name in [*release["backends"], *release.get("on-request", ())]:
        if name not in backends:
            advice = f"the backends are {', '.join(sorted(backends))}"
            titles = " or ".join(backend.title for backend in TOOLKITS)
            message = f"{origin}: no release of {titles} has the backend `{name}`"
            yield Diagnostic(code=Code.BAD_VALUE, message=message, help=advice)
        elif problem := _too_early(release["version"], name):
            yield Diagnostic(code=Code.BAD_VALUE, message=f"{origin}: {problem}", help="see docs/toolchains.md")
    if twice := set(release["backends"]) & set(release.get("on-request", ())):
        message = f"{origin}: `{min(twice)}` is both in `backends` and in `on-request`"
        yield Diagnostic(code=Code.BAD_VALUE, message=message)
    if unknown := set(release["abis"]) - {"cxx11", "cxx98"}:
        yield Diagnostic(code=Code.BAD_VALUE, message=f"{origin}: unknown ABI `{min(unknown)}`")
    for key, values in (
        ("pythons", release.get("pythons", [])),
        ("pybind-abi", [*filter(None, [release.get("pybind-abi")])]),
    ):
        if wrong := [value for value in values if not _OF_PYTHON[key][0].fullmatch(value)]:
            message = f"{origin}: `{wrong[0]}` in `{key}` is not like `{_OF_PYTHON[key][1]}`"
            yield Diagnostic(code=Code.BAD_VALUE, message=message)


def _too_early(torch: str, name: str) -> str:
    """Why a torch release has no variants for a backend, or an empty text."""
    backend = backend_of(name)
    if backend is None or backend.first_torch is None or numbers(torch) >= backend.first_torch:
        return ""
    since = ".".join(map(str, backend.first_torch))
    return f"there is no {backend.title} for it: its headers cannot be derived before {since}"


def _archive(archive: object, more: Collection[str], merged: Table, origin: str) -> Iterator[Diagnostic]:
    """The errors of an archive, which must have further keys besides those of its kind."""
    kind = next((key for key in _ARCHIVES if isinstance(archive, dict) and key in archive), None)
    if kind is None or not isinstance(archive, dict):
        message = f"{origin}: an archive must have one of `{'`, `'.join(_ARCHIVES)}`"
        yield Diagnostic(code=Code.BAD_VALUE, message=message)
        return
    texts = all(isinstance(value, str) for key, value in archive.items() if key not in ("members", "size"))
    members = archive.get("members", [])
    if not texts or not isinstance(members, list) or not all(isinstance(member, str) for member in members):
        message = f"{origin}: the values of an archive are strings, and `members` is a list of strings"
        yield Diagnostic(code=Code.WRONG_TYPE, message=message)
        return
    missing = _ARCHIVES[kind].union(more) - archive.keys()
    pinned = kind == "deb" or PACKAGE.fullmatch(archive[kind]) is not None
    if missing or not pinned:
        lack = f"`{min(missing)}`" if missing else "a name, `==` and a version"
        yield Diagnostic(code=Code.MISSING_KEY, message=f"{origin}: the archive `{archive[kind]}` lacks {lack}")
    elif wrong := [member for member in members if re.search("[{}]", _BRACES.sub("", member))]:
        advice = "known are {component}, {stem} and {release}"
        yield Diagnostic(code=Code.BAD_VALUE, message=f"{origin}: unknown word in `members`: `{wrong[0]}`", help=advice)
    elif more and archive["layout"] not in merged["layouts"]:
        advice = f"the layouts are {', '.join(merged['layouts'])}"
        yield Diagnostic(code=Code.BAD_VALUE, message=f"{origin}: unknown layout `{archive['layout']}`", help=advice)
