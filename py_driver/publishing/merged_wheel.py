"""One wheel of several variants of a project with a setup.py, whose modules load the one for the installed torch.

A small Python module replaces each extension module; the directory beside it has the variants.
"""

from __future__ import annotations

import posixpath
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.errors import Code, Diagnostic, DriverError, error
from py_driver.matrix.backends import version_of
from py_driver.matrix.configurations import Configuration, spell
from py_driver.matrix.toolkits import numbers
from py_driver.matrix.torch_symbols import defined
from py_driver.publishing import wheel_loader
from py_driver.publishing.extension_wheel import (
    ANY_PYTHON,
    SBOM,
    STATEMENT,
    WHEEL,
    make_extension_wheel,
    parameters_of,
    sbom,
    tag_of,
    wheel_text,
)
from py_driver.publishing.found_by_path import find_path_use
from py_driver.publishing.provenance import wheel_statement
from py_driver.publishing.release import make_file
from py_driver.publishing.skeleton import INFO, LIBRARY, METADATA, check_libraries, ordered, read_skeleton
from py_driver.publishing.wheel import LOADER, backends
from py_driver.publishing.wheel_archive import write_wheel
from py_driver.publishing.wheel_loader import MODULE_PLACE, Variant
from py_driver.publishing.wheel_metadata import for_torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from py_driver.errors import Span
    from py_driver.publishing.extension_wheel import ExtensionWheel
    from py_driver.publishing.release import File
    from py_driver.publishing.skeleton import Skeleton
    from py_driver.recording.record import Module, Record

VARIANTS: Final = "variants"
"""The key in the wheel's statement with the parameters of each variant; see `extension_wheel.parameters_of`."""

_OS: Final = "linux"
_TOP_LEVEL: Final = "top_level.txt"
_INIT: Final = "__init__"
_ALONE: Final = "make a wheel for each variant: leave out `--merge`"

_STUB: Final = """\
# Becomes the variant of this module that fits the installed torch.


def {function}():
    import importlib.util
    import os

    variants = os.path.join(os.path.dirname(os.path.abspath(__file__)), {directory!r})
    spec = importlib.util.spec_from_file_location({loader!r}, os.path.join(variants, {loader!r} + ".py"))
    chooser = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(chooser)
    Backend, Variant = chooser.Backend, chooser.Variant
    del globals()[{function!r}]
    chooser.load_module(
        __name__,
        variants,
        (
{variants}        ),
        {{
{backends}        }},
        {{
{files}        }},
    )


{function}()
"""
"""The module that replaces an extension module; it has no docstring, which a reload would write into a library."""

_FUNCTION: Final = "__rules_torch_kernels__"


class Recorded(NamedTuple):
    """The output of setup.py for a configuration.

    Attributes:
        record: the record of setup.py.
        skeleton: the wheel that setup.py made.
    """

    record: Record
    skeleton: Path


def check_merge(parts: Sequence[Recorded]) -> None:
    """Check that variants can share a wheel, before anything is compiled for it.

    Args:
        parts: the variants; at least one.

    Raises:
        DriverError: UNSUPPORTED if they are for several CPUs, their Python parts differ, or the Python files find
            modules by path; see also `check_skeleton`.
    """
    if len(parts) > 1:
        _merged([(part.record, read_skeleton(part.skeleton)) for part in parts])


def make_merged_wheel(wheels: Sequence[ExtensionWheel], directory: Path) -> Path:
    """Write the wheel of several variants; equal variants give equal bytes.

    For one variant, or for a project without modules, it is the wheel of `make_extension_wheel`.

    Args:
        wheels: the parts of each variant's wheel; all for one Python, or for every Python.
        directory: an existing directory.

    Returns:
        The file.

    Raises:
        DriverError: see `check_merge`; UNSUPPORTED also if a library has no function that imports it; DUPLICATE_FILE if
            two files of the wheel have the same path.
        OSError: it cannot be written.
    """
    if len(wheels) == 1 or not any(wheel.record.modules for wheel in wheels):
        return make_extension_wheel(wheels[0], directory)
    skeleton = _merged([(wheel.record, read_skeleton(wheel.skeleton)) for wheel in wheels])
    info = f"{skeleton.stem}{INFO}"
    tags = (*skeleton.tags[:-3], *_tag(wheels).split("-"))
    union = _union(wheels)
    metadata = for_torch(skeleton.files[f"{info}/{METADATA}"], "", *_torches([wheel.record for wheel in wheels]))
    texts = {
        **skeleton.files,
        f"{info}/{METADATA}": metadata,
        f"{info}/{WHEEL}": wheel_text(tags),
        f"{info}/{SBOM}": sbom(union, metadata),
    }
    files = {path: make_file(path, text) for path, text in texts.items()}
    modules = {module.file: module for wheel in wheels for module in wheel.record.modules}
    for module in modules.values():
        for path, file in _module(module, wheels).items():
            if path in files:
                message = f"the build makes {path} for the module `{module.name}`, and the project has that file"
                raise error(Code.DUPLICATE_FILE, message, help="rename the file")
            files[path] = file
    version = skeleton.name.partition("-")[2]
    parameters = {
        "name": union.record.name,
        "version": version,
        VARIANTS: [parameters_of(wheel, version) for wheel in wheels],
    }
    statement = f"{info}/{STATEMENT}"
    text = wheel_statement(ordered(files, info), parameters, union.source, union.archives)
    files[statement] = make_file(statement, text)
    target = directory / f"{'-'.join((skeleton.name, *tags))}.whl"
    write_wheel(ordered(files, info), info, target, skeleton.executable)
    return target


def identifier(record: Record) -> str:
    """The identifier of a recorded variant, without a Python."""
    return spell(_configuration(record))


def _configuration(record: Record) -> Configuration:
    return Configuration(record.backend, record.torch, abi=record.cxx_abi, cpu=record.cpu, os=_OS)


def _torches(records: Sequence[Record]) -> list[str]:
    """The releases of torch, ascending."""
    return sorted({record.torch for record in records}, key=numbers)


def _union(wheels: Sequence[ExtensionWheel]) -> ExtensionWheel:
    """A wheel with the archives and requirements of all."""
    archives = {entry.key: entry for wheel in wheels for entry in wheel.archives}
    requirements = tuple(dict.fromkeys(name for wheel in wheels for name in wheel.record.requirements))
    first = wheels[0]
    return replace(first, archives=tuple(archives.values()), record=replace(first.record, requirements=requirements))


def _tag(wheels: Sequence[ExtensionWheel]) -> str:
    """The tag of the libraries of all variants: the most specific."""
    of_one = [wheel for wheel in wheels if wheel.python is not None]
    tags = dict.fromkeys(tag_of(wheel) for wheel in of_one or wheels)
    return next((tag for tag in tags if not tag.startswith(ANY_PYTHON)), next(iter(tags)))


def _merged(parts: Sequence[tuple[Record, Skeleton]]) -> Skeleton:
    """The Python part of all variants, without the libraries.

    Raises:
        DriverError: see `check_merge`.
    """
    cpus = sorted({record.cpu for record, _ in parts})
    if len(cpus) > 1:
        message = f"a wheel is for one CPU, and these variants are for {' and '.join(cpus)}"
        raise error(Code.UNSUPPORTED, message, help=f"make one for each: --cpu {cpus[0]}, then --cpu {cpus[1]}")
    for record, skeleton in parts:
        check_libraries(record, skeleton)
    first, base = parts[0]
    files = _python_part(first, base)
    tops = {f"{base.stem}{INFO}/{_TOP_LEVEL}": set[bytes]()}
    for record, skeleton in parts:
        own = _python_part(record, skeleton)
        for path, lines in tops.items():
            lines.update(own.get(path, b"").splitlines())
        changed = sorted(path for path in {*files, *own} - {*tops} if files.get(path) != own.get(path))
        if changed or skeleton.name != base.name:
            names = f"{identifier(first)} and {identifier(record)}"
            difference = changed[0] if changed else "the version"
            message = f"setup.py makes different wheels for {names}, which cannot be one: {difference} differs"
            raise error(Code.UNSUPPORTED, message, help=_ALONE)
    files |= {path: b"".join(line + b"\n" for line in sorted(lines)) for path, lines in tops.items() if lines}
    for_torch(files[f"{base.stem}{INFO}/{METADATA}"], "", *_torches([record for record, _ in parts]))
    modules = [module.name for record, _ in parts for module in record.modules]
    if modules and (use := find_path_use(files, modules)) is not None:
        raise _by_path(f"`{use.word}` may find a module by its path, and not by an import", use.span)
    if of_packages := [name for name in modules if name.rpartition(".")[2] == _INIT]:
        raise error(Code.UNSUPPORTED, f"the module `{of_packages[0]}` is a package", help=_ALONE)
    executable = base.executable.intersection(files)
    return replace(base, files=files, executable=executable)


def _python_part(record: Record, skeleton: Skeleton) -> dict[str, bytes]:
    """The files of a wheel except the libraries of modules and the tags in WHEEL."""
    own = {module.file for module in record.modules} | {f"{skeleton.stem}{INFO}/{WHEEL}"}
    return {path: content for path, content in skeleton.files.items() if path not in own}


def _by_path(reason: str, span: Span | None = None) -> DriverError:
    message = f"several variants cannot be in one wheel: {reason}"
    return DriverError([Diagnostic(code=Code.UNSUPPORTED, message=message, span=span, help=_ALONE)])


def _module(module: Module, wheels: Sequence[ExtensionWheel]) -> dict[str, File]:
    """The files of a module, by their paths in the wheel."""
    folder, last = posixpath.split(module.file)[0], module.name.rpartition(".")[2]
    directory = posixpath.join(folder, f"{last}{MODULE_PLACE}")
    files = {f"{directory}/{LOADER}.py": Path(wheel_loader.__file__).read_bytes()}
    found: dict[str, File] = {path: make_file(path, content) for path, content in files.items()}
    entries = {}
    variants = []
    for wheel in wheels:
        variant = identifier(wheel.record)
        paths = wheel.modules.get(module.file, {})
        entries[variant] = _entry(module, folder, paths)
        variants.append(_variant(wheel, module.file))
        for path, content in paths.items():
            name = f"{directory}/{variant}/{posixpath.relpath(path, folder or '.')}"
            found[name] = make_file(name, content)
    stub = posixpath.join(folder, f"{last}.py")
    text = _STUB.format(
        function=_FUNCTION,
        directory=posixpath.basename(directory),
        loader=LOADER,
        variants="".join(f"            {variant!r},\n" for variant in variants),
        backends="".join(f"            {family!r}: {backend!r},\n" for family, backend in backends().items()),
        files="".join(f"            {variant!r}: {entry!r},\n" for variant, entry in entries.items()),
    )
    return {**found, stub: make_file(stub, text.encode())}


def _entry(module: Module, folder: str, paths: Mapping[str, Path]) -> str:
    """The file of a module in the directory of a variant; empty if the variant has no such module.

    Raises:
        DriverError: UNSUPPORTED if it is a library that cannot be imported.
    """
    last = module.name.rpartition(".")[2]
    names = {posixpath.relpath(path, folder or "."): file for path, file in paths.items()}
    if f"{last}.py" in names or not names:
        return f"{last}.py" if names else ""
    [library] = [name for name in names if name.startswith(f"{last}.") and name.endswith(LIBRARY)]
    if f"PyInit_{last}" not in defined(names[library]):
        raise _by_path(f"`{module.name}` cannot be imported, since no source has PYBIND11_MODULE or PyInit_{last}")
    return library


def _variant(wheel: ExtensionWheel, file: str) -> Variant:
    """The facts by which the module chooses a variant."""
    configuration = _configuration(wheel.record)
    toolkit = version_of(configuration.backend)
    return Variant(
        name=spell(configuration),
        id="",
        family=configuration.family,
        torch=numbers(wheel.record.torch),
        abi=wheel.record.cxx_abi,
        toolkit=numbers(toolkit) if toolkit else (),
        platform=f"{wheel.record.cpu}-{_OS}",
        archs=tuple(wheel.archs.get(file, ())),
    )
