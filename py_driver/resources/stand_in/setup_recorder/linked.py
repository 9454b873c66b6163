"""Extension modules that CMake or another build tool has linked, found in the wheel by what their libraries say."""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch._facts import FACTS, Refused

from . import compiler

if TYPE_CHECKING:
    from .places import Places

_DATA = re.compile(r"[^/]+\.data/(?:plat|pure)lib/")
"""Where a wheel has what is installed beside its other files."""

_TARGET = re.compile(r"CMakeFiles/([^/]+)\.dir/")
_GENERATE = re.compile(r"(?:--generate-code|-gencode)=arch=(\w+),code=\[([\w,]+)\]")
_LIBRARY = re.compile(r"lib([\w+-]+?)\.(?:so|a)(?:\.[\d.]+)?")
_DIRECTORY = re.compile(r"(-I|-isystem|-iquote|-idirafter)=?(.+)")
_DIRECTORIES = ("-I", "-isystem", "-iquote", "-idirafter")
_NOT_COMPILED = re.compile(r"-l(?!ineinfo$|to$).*|-L.*|-x|-ccbin(=.*)?")
_ABI = f"-D_GLIBCXX_USE_CXX11_ABI={int(FACTS['cxx11'])}"
"""What find_package(Torch) adds, and the rules as well."""

_SYSTEM = ("cudadevrt", "cudart_static", "dl", "m", "pthread", "rt")
"""Libraries that each extension may call, or that stand for the CUDA runtime, which the rules link."""

_NOT_LINKED = re.compile(
    r"-shared|-fPIC|-O\w*|-g\w*|-s|-f(?:visibility|lto|no-fat-lto).*|-std=.*|-D.*|-Wl,(?:-soname|-rpath|--dependency-file).*"
)
"""Flags of a link that name the library, or that only its objects need."""


def modules_of(wheel: Path, noted: list[dict[str, Any]], places: Places) -> list[dict[str, Any]]:
    """The modules in a wheel; their libraries are empty from then on.

    Args:
        wheel: its file.
        noted: the modules of setuptools; a project may have moved their libraries.
        places: of the project.

    Raises:
        Refused: for a library that is linked from more than objects of its own, or that no wheel has; for a program
            that ran.
    """
    with zipfile.ZipFile(wheel) as archive:
        entries = [(entry, archive.read(entry)) for entry in archive.infolist()]
    made = {entry.filename: value for entry, text in entries if (value := compiler.value(text)) is not None}
    _check_log(places, installed=any(value["kind"] != compiler.MODULE for value in made.values()))
    if not made:
        return noted
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, text in entries:
            archive.writestr(entry, b"" if entry.filename in made else text)
    files = {value["name"]: file for file, value in sorted(made.items()) if value["kind"] == compiler.MODULE}
    own = [{**module, "file": files.get(module["name"], module["file"])} for module in noted]
    others = {file: value for file, value in sorted(made.items()) if value["kind"] != compiler.MODULE}
    return [*own, *(_module(file, value, places) for file, value in others.items())]


def _check_log(places: Places, *, installed: bool) -> None:
    """See what the build did with its outputs: the programs ran, or no library is installed."""
    log = Path(os.environ.get(compiler.LOG, os.devnull))
    for line in log.read_text(encoding="utf-8").splitlines() if log.is_file() else ():
        kind = compiler.RAN if line.startswith(compiler.RAN) else compiler.LIBRARY
        path = line.removeprefix(kind)
        shown = next((name for name, _ in places.of_file(path, 1)), os.path.basename(path))  # noqa: PTH119
        if kind == compiler.RAN:
            raise Refused(f"the build runs `{shown}`, which it has compiled")
        if not installed:
            raise Refused(f"the build links `{shown}`, and the wheel does not have it")


def _module(file: str, made: dict[str, Any], places: Places) -> dict[str, Any]:
    """A module, as `Modules` notes those of setuptools."""
    if made["kind"] != "library":
        raise Refused(f"`{file}` in the wheel is no library, and nothing here compiles it")
    parent, _, base = _DATA.sub("", file).rpartition("/")
    name = ".".join([*filter(None, parent.split("/")), base.partition(".")[0]])
    objects = []
    libraries = []
    dlink = False
    for part in made["inputs"]:
        if isinstance(part, str):
            libraries.append(_library(part, file))
        elif part["kind"] == "object":
            objects.append(part)
        elif part["kind"] == "device-link":
            dlink = True
        elif part["kind"] == "archive":
            sources = ", ".join(f"`{_shown(member, places)}`" for member in part["members"][:3])
            raise Refused(f"`{file}` is linked with a static library of the project, of {sources}")
        else:
            raise Refused(f"`{file}` is linked with another library of the project")
    cxx = [part for part in objects if part["program"] != "nvcc"]
    device = [part for part in objects if part["program"] == "nvcc"]
    for part in objects:
        if (part["program"] == "nvcc") != part["source"].endswith(".cu"):
            raise Refused(f"`{_shown(part, places)}` is compiled by {part['program']}")
    words = [word for word in made["flags"] if not _NOT_LINKED.fullmatch(word)]
    compiled = {flag for part in objects for flag in part["flags"]}  # CMake links with the flags of the language, too
    words = [word for word in words if word not in compiled and word not in _paths(made)]
    libraries += [word[2:] for word in words if re.fullmatch(r"-l.+", word)]
    flags = {key: _common(parts, file, places) for key, parts in (("cxx_flags", cxx), ("nvcc_flags", device))}
    return {
        "name": name,
        "kind": "cuda" if device else "cpp",
        "file": file,
        "place": _place(made["output"], objects, places),
        "define_macros": [],
        "limited_api": ".abi3." in file,
        "dlink": dlink,
        "dlink_flags": [],
        "sources": [part["source"] for part in objects],
        "include_dirs": [],
        "undef_macros": [],
        "cxx_flags": flags["cxx_flags"],
        "nvcc_flags": flags["nvcc_flags"],
        "libraries": [library for library in dict.fromkeys(libraries) if library not in _SYSTEM],
        "library_dirs": [],
        "runtime_library_dirs": [],
        "extra_objects": [],
        "extra_link_args": [word for word in words if not re.fullmatch(r"-[lL].*", word)],
    }


def _paths(made: dict[str, Any]) -> list[str]:
    """The words of a link that are files."""
    return [word for word in made["flags"] if not word.startswith("-")]


def _library(path: str, file: str) -> str:
    """The name, as after `-l`, of a library that a link names by its path."""
    found = _LIBRARY.fullmatch(os.path.basename(path))  # noqa: PTH119
    if found is None:
        raise Refused(f"`{file}` is linked with `{path}`, which nothing here has compiled")
    return found[1]


def _shown(part: dict[str, Any], places: Places) -> str:
    """A source, relative to the project."""
    return next((name for name, _ in places.of_file(part["source"], 1)), part["source"])


def _common(parts: list[dict[str, Any]], file: str, places: Places) -> list[str]:
    """The flags that all sources of a kind are compiled with.

    Raises:
        Refused: for sources that have different ones.
    """
    if not parts:
        return []
    flags = [_flags(part) for part in parts]
    for part, own in zip(parts, flags, strict=True):
        if own != flags[0]:
            differs = next((word for word in (*own, *flags[0]) if (word in own) != (word in flags[0])), own[-1])
            first, other = _shown(parts[0], places), _shown(part, places)
            raise Refused(f"`{first}` and `{other}` of `{file}` are compiled with different flags, such as `{differs}`")
    return flags[0]


def _flags(part: dict[str, Any]) -> list[str]:
    """The flags of an object: paths are absolute, and architectures are written as torch does."""
    found: list[str] = []
    words = iter(part["flags"])
    for word in words:
        if word in _DIRECTORIES:
            found += [word, _absolute(next(words, ""), part)]
        elif directory := _DIRECTORY.fullmatch(word):
            path = _absolute(directory[2], part)
            found += [f"-I{path}"] if directory[1] == "-I" else [directory[1], path]
        elif generate := _GENERATE.fullmatch(word):
            found += [f"-gencode=arch={generate[1]},code={code}" for code in generate[2].split(",")]
        elif _NOT_COMPILED.fullmatch(word):
            if word in {"-x", "-ccbin", "-l", "-L"}:
                next(words, "")
        elif word != _ABI:
            found.append(word)
    return found


def _absolute(path: str, part: dict[str, Any]) -> str:
    return os.path.normpath(os.path.join(part["directory"], path))  # noqa: PTH118


def _place(output: str, objects: list[dict[str, Any]], places: Places) -> tuple[str, int] | None:
    """The line of a CMakeLists.txt, of those above the sources of a library, that adds its target."""
    targets = {found[1] for part in objects if (found := _TARGET.search(part["output"]))}
    stem = os.path.basename(output).partition(".")[0]  # noqa: PTH119
    target = next(
        (name for name in sorted(targets) if name in {stem, stem.removeprefix("lib")}), min(targets, default="")
    )
    added = re.compile(rf"\w+\s*\(\s*{re.escape(target)}\s")
    first = None
    for directory in dict.fromkeys(parent for part in objects for parent in Path(part["source"]).parents):
        lists = directory / "CMakeLists.txt"
        if not places.of_file(str(lists), 1):
            continue
        first = first or places.of_file(str(lists), 1)[0]
        text = lists.read_text(encoding="utf-8", errors="replace")
        if target and (found := added.search(text)):
            return places.of_file(str(lists), text.count("\n", 0, found.start()) + 1)[0]
    return first
