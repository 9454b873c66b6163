"""The facts about a release: its Python functions, ops, exports, device code, needed symbols and metadata."""

from __future__ import annotations

import json
import re
import zipfile
from configparser import ConfigParser
from configparser import Error as ConfigError
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py_driver.building.variant_dir import BUILD
from py_driver.errors import Code, error
from py_driver.fetch.wheel_members import BROKEN_ZIP
from py_driver.inspecting.device_functions import device_functions
from py_driver.inspecting.images import DEVICE_SECTIONS, PTX, images_in
from py_driver.inspecting.library_needs import is_python, needs_of
from py_driver.inspecting.load_table import load_table
from py_driver.inspecting.python_api import public_names
from py_driver.inspecting.python_ops import registered_ops
from py_driver.matrix.configurations import is_identifier
from py_driver.plan.metadata import METADATA
from py_driver.plan.op_schema import schema_problem
from py_driver.plan.project import MANIFEST
from py_driver.publishing.wheel_metadata import fields
from py_driver.spelling import near_path
from py_driver.system.elf import MAGIC, Elf, MalformedError
from py_driver.system.files import is_directory, is_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from py_driver.inspecting.device_functions import Used
    from py_driver.inspecting.library_needs import Needs
    from py_driver.inspecting.recorded_symbols import Recorded

ENTRY_POINT: Final = "entry point"
"""The prefix of an entry point's group and name."""

_TEXT: Final = re.compile(rb"[\x20-\x7e\n\t]{8,}")
_SCHEMA: Final = re.compile(r"[A-Za-z_][\w:.]*\s*\([^;]*\)\s*->\s*[^;]+", re.DOTALL)
_LONGEST: Final = 4096
_INIT, _PYTHON, _STUB = "__init__.py", ".py", ".pyi"
_ENTRY_POINTS: Final = ".dist-info/entry_points.txt"
_VENDORED: Final = ".libs/"
_COMPARED: Final = frozenset({"name", "version", "license", "requires-python", "requires-dist", "provides-extra"})


class LibraryFacts(NamedTuple):
    """The facts about a library.

    Attributes:
        size: its bytes.
        schemas: the op schemas in its strings.
        exports: its exported symbols.
        libraries: its needed libraries.
        symbols: its needed symbols.
        machine_code: the GPU architectures of its machine code, `9.0a`, `gfx942`.
        ptx: the GPU architectures of its PTX.
        functions: the resources of its device functions, by architecture and symbol.
        loads: the releases with which it loads: `torch 2.13 cxx11 cu130`, `cu130`, `Python 3.12`, `manylinux_2_28`.
    """

    size: int
    schemas: frozenset[str]
    exports: frozenset[str]
    libraries: frozenset[str]
    symbols: frozenset[str]
    machine_code: frozenset[str]
    ptx: frozenset[str]
    functions: Mapping[tuple[str, str], Used]
    loads: frozenset[str]


class ReleaseFacts(NamedTuple):
    """The facts about a release.

    Attributes:
        version: its version; empty if unknown.
        functions: the signatures of the functions and classes of its Python packages, by package and name.
        libraries: its libraries, by path without the id of the build.
        metadata: the values of METADATA or metadata.json, by file and key.
    """

    version: str
    functions: Mapping[str, str]
    libraries: Mapping[str, LibraryFacts]
    metadata: Mapping[str, str]


def release_facts(path: Path, recorded: Recorded) -> ReleaseFacts:
    """The facts about a release.

    Args:
        path: a project with built variants, a directory of variants or an installed package, a wheel, or a library.
        recorded: the recorded symbols of torch, CUDA and Python.

    Raises:
        DriverError: FILE_MISSING if the path does not exist, or contains neither a library nor a Python package;
            FILE_KIND if it cannot be read.
    """
    files = _files(path)
    stated_files = {name: _stated(content) for name, content in files.items() if name.rpartition("/")[2] == METADATA}
    identities = {str(stated.get("id", "")) for stated in stated_files.values()} - {""}
    try:
        libraries = dict(_libraries(files, identities, recorded))
    except MalformedError as problem:
        message = f"a library of {path} is truncated or malformed: cannot read {problem}"
        raise error(Code.FILE_KIND, message, help="name complete shared libraries for 64-bit Linux") from None
    metadata = dict(_metadata(files, stated_files))
    functions = {**dict(_functions(files, path.resolve().name)), **dict(_python_ops(files))}
    if not libraries and not functions:
        raise error(Code.FILE_MISSING, f"{path} contains no library and no Python package", help="build it first")
    stated = {value for key, value in metadata.items() if key.rpartition(" ")[2] == "version"}
    return ReleaseFacts(min(stated, default=""), functions, libraries, metadata)


def _files(path: Path) -> dict[str, bytes]:
    """The files of a release, by path in it.

    Raises:
        DriverError: FILE_MISSING, FILE_KIND.
    """
    if not path.exists():
        advice = near_path(path) or "name a project with built variants, a variant, a wheel or a library"
        raise error(Code.FILE_MISSING, f"{path} does not exist", help=advice)
    try:
        if is_directory(path):
            root = path / BUILD if is_file(path / MANIFEST) else path
            names = (file for file in sorted(root.rglob("*")) if file.is_file() and _is_read(file.name))
            return {file.relative_to(root).as_posix(): file.read_bytes() for file in names}
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as archive:
                return {name: archive.read(name) for name in archive.namelist() if _is_read(name)}
        return {path.name: path.read_bytes()}
    except (OSError, *BROKEN_ZIP) as problem:
        raise error(
            Code.FILE_KIND, f"{path} cannot be read: {problem}", help="name a complete wheel or library"
        ) from None


def _is_read(name: str) -> bool:
    return (
        name.endswith((_PYTHON, _STUB, METADATA, ".dist-info/METADATA", _ENTRY_POINTS))
        or ".so" in name.rpartition("/")[2]
    )


def _libraries(
    files: Mapping[str, bytes], identities: set[str], recorded: Recorded
) -> Iterator[tuple[str, LibraryFacts]]:
    """The libraries of a release; auditwheel's libraries beside them count as part of the system.

    Raises:
        MalformedError: a library is truncated.
    """
    found = {name: content for name, content in files.items() if content.startswith(MAGIC)}
    needs = {name: needs_of(Elf(content), name) for name, content in found.items()}
    tables = {table.needs.name: table for table in load_table([*needs.values()], recorded)}
    for path, content in found.items():
        if _VENDORED in path:
            continue
        table = tables[path]
        loads = {f"torch {' '.join(build)}" for build, missing in table.builds.items() if not missing}
        for places in (table.toolkits, table.systems):
            loads |= {name for name, missing in places.items() if not missing}
        loads |= {f"Python {version}" for version, missing in table.pythons.items() if missing == ()}
        yield _without(path, identities), _library(content, needs[path], frozenset(loads), identities)


def _library(content: bytes, needs: Needs, loads: frozenset[str], identities: set[str]) -> LibraryFacts:
    """What a library offers and needs.

    Raises:
        MalformedError: it is truncated.
    """
    elf = Elf(content)
    sections = [section for section in elf.sections if section.name in DEVICE_SECTIONS]
    images = [image for section in sections for image in images_in(elf.content_of(section), section.offset)]
    texts = b"".join(elf.content_of(section) for section in elf.sections if section.name.startswith(".rodata"))
    return LibraryFacts(
        size=len(content),
        schemas=frozenset(_schemas(texts)),
        exports=frozenset(_without(name, identities) for name in needs.defined if not name.startswith("_ZNSt")),
        libraries=frozenset(needs.libraries),
        symbols=frozenset(each.name for each in needs.symbols if not each.weak and not is_python(each.name)),
        machine_code=frozenset(image.arch for image in images if image.form != PTX),
        ptx=frozenset(image.arch for image in images if image.form == PTX),
        functions={(arch, symbol): used for symbol, arch, used in device_functions(elf)},
        loads=loads,
    )


def _schemas(texts: bytes) -> Iterator[str]:
    """The op schemas among the strings of a library that torch's parser accepts."""
    for found in _TEXT.finditer(texts):
        text = " ".join(found[0].decode("ascii").split())
        if len(text) <= _LONGEST and _SCHEMA.fullmatch(text) and schema_problem(text) is None:
            yield text


def _without(name: str, identities: set[str]) -> str:
    """A name without the id of the build, which differs between builds."""
    for identity in identities:
        name = name.replace(identity, "ID")
    return name


def _functions(files: Mapping[str, bytes], name: str) -> Iterator[tuple[str, str]]:
    """The public API of Python packages, by package and name; all variants of a kernel are one package.

    Args:
        files: the files of the release.
        name: the name of the release, which is the package's if the release is its directory.
    """
    roots = {PurePosixPath(path).parent for path in files if path.endswith(f"/{_INIT}") or path == _INIT}
    tops = [root for root in roots if not any(parent in roots for parent in root.parents)]
    for top in sorted(tops):
        prefix = "" if str(top) == "." else f"{top}/"
        texts = {
            path.removeprefix(prefix): content.decode("utf-8", "replace")
            for path, content in files.items()
            # The stub file of a compiled module has its signatures.
            if path.startswith(prefix)
            and path.endswith((_PYTHON, _STUB))
            and not (path.endswith(_STUB) and path.removesuffix("i") in files)
        }
        own = top.name or name
        package = "" if is_identifier(own) else f"{str(top).replace('/', '.') if prefix else own}."
        for public, text in public_names(texts, own).items():
            yield f"{package}{public}", text
    # Modules beside the packages of a wheel.
    for path, content in files.items():
        if path.endswith(_PYTHON) and "/" not in path and PurePosixPath(".") not in roots:
            module = PurePosixPath(path).stem
            for public, text in public_names({path: content.decode("utf-8", "replace")}, "").items():
                yield public if public.startswith(f"{module}.") else f"{module}.{public}", text


def _python_ops(files: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """The ops that Python files register with a literal name and schema, as `torch.ops.NAMESPACE.NAME`."""
    for path, content in files.items():
        if path.endswith(_PYTHON):
            for name, text in registered_ops(content.decode("utf-8", "replace")).items():
                yield f"torch.ops.{name.replace('::', '.').lstrip('.')}", text


def _entry_points(content: bytes) -> Iterator[tuple[str, str]]:
    """The commands and plugins that a wheel installs (entry points specification of the Python packaging guide)."""
    table = ConfigParser(delimiters=("=",), interpolation=None, strict=False)
    table.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        table.read_string(content.decode("utf-8", "replace"))
    except ConfigError:
        return
    for group in table.sections():
        for name, value in table.items(group):
            yield f"{ENTRY_POINT} {group} {name}", value


def _stated(content: bytes) -> Mapping[str, Any]:
    """The values of a metadata.json; empty if it belongs to another program."""
    try:
        stated = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return stated if isinstance(stated, dict) else {}


def _metadata(files: Mapping[str, bytes], stated: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """The metadata of a release."""
    for name, content in files.items():
        if name.endswith(_ENTRY_POINTS):
            yield from _entry_points(content)
        elif name.endswith(".dist-info/METADATA"):
            values: dict[str, list[str]] = {}
            for field in fields(content):
                if field.name in _COMPARED:
                    values.setdefault(field.name, []).append(field.value)
            yield from ((f"METADATA {key}", "\n".join(sorted(own))) for key, own in values.items())
        elif name in stated:
            for key in sorted({*stated[name]} - {"id", "digest", "provenance"}):
                yield f"{name} {key}", json.dumps(stated[name][key], sort_keys=True)
