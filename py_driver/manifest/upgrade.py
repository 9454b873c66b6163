"""Rewrites a build.toml of any edition as edition 5, with its comments and its order."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import tomlkit

from py_driver.errors import Code, DriverError, error
from py_driver.manifest.model import CURRENT, NOARCH, TORCH, TVM_FFI, Located, Manifest
from py_driver.manifest.parts import PYTHON_PACKAGES
from py_driver.manifest.reader import read
from py_driver.manifest.statements import Statements, comments
from py_driver.matrix.backends import BACKENDS, UNIVERSAL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from py_driver.manifest.model import Kernel
    from py_driver.manifest.statements import Path, Statement

_GENERAL: Path = ("general",)
_CUDA: Path = ("general", "cuda")
_ORDER = ("name", "version", "edition", "license", "backends")
"""The first keys of [general]."""

_SHARED = ("src", "include", "depends")
"""The keys that both halves of a `cuda-hipify` section share."""


def upgrade(content: bytes, manifest: Manifest, libraries: Sequence[str] = ()) -> bytes:
    """Rewrite a build.toml as edition 5.

    Args:
        content: the current file, with its own line breaks.
        manifest: its manifest, without errors.
        libraries: the libraries of a user's matrix that sections may depend on.

    Returns:
        The new file; the same bytes for a file of edition 5 or later.

    Raises:
        DriverError: UNSUPPORTED if the new text would change the meaning, or tomlkit cannot read the file.
    """
    if manifest.edition >= CURRENT:
        return content
    try:
        file = Statements(content.decode())
    except Exception as problem:  # tomlkit's bugs raise many kinds of exceptions
        raise _unsupported(manifest, f"tomlkit says: {problem}") from problem
    if not file.exact:
        raise _unsupported(manifest, "tomlkit reads it differently")
    for step in _STEPS[manifest.edition :]:
        step(file, manifest)
    new = file.text.encode()
    _compare(new, manifest, libraries)
    return new


def _unsupported(manifest: Manifest, why: str) -> DriverError:
    advice = "write it with headers such as [general], [torch] and [kernel.relu], one key in a line, and try again"
    message = f"the layout of {manifest.file} cannot be rewritten: {' '.join(why.split())}"
    return error(Code.UNSUPPORTED, message, help=advice)


def _to_1(file: Statements, manifest: Manifest) -> None:
    """The name goes to [general], the Python package to torch-ext/, `capabilities` gets its later name."""
    file.insert(_GENERAL, "name", file.take(TORCH, "name"))
    file.drop(TORCH, "pyroot")
    _keep(file, TORCH)
    for kernel in manifest.kernels:
        table = _table(kernel)
        if statement := file.find(*table, "capabilities"):
            statement.name = re.sub("capabilities(?=[\"']?$)", "cuda-capabilities", statement.name)


def _to_2(file: Statements, manifest: Manifest) -> None:
    """`universal` goes to [general]; each kernel section has a single `backend`."""
    if universal := file.take(TORCH, "universal"):
        file.insert(_GENERAL, "universal", universal, _ORDER)
        _keep(file, TORCH)
    halves = {kernel.name.value for kernel in manifest.kernels if kernel.backend.value == "rocm"}
    for kernel in manifest.kernels:
        table = _table(kernel)
        if kernel.name.value in halves:
            continue
        backend = file.take(*table, "language") or file.pair("")
        backend[-1].value = f'"{kernel.backend.value}"'
        file.insert(table, "backend", backend)
        if kernel.backend.value != "cuda":
            file.drop(*table, "cuda-capabilities")
        if (half := f"{kernel.name.value}_rocm") in halves:
            archs = file.take(*table, "rocm-archs")
            keys = [("backend", file.pair('"rocm"')), *file.copies(table, _SHARED)]
            file.add_after(table, ("kernel", half), [*keys, *([("rocm-archs", archs)] if archs else [])])
        else:
            file.drop(*table, "rocm-archs")


def _to_3(file: Statements, manifest: Manifest) -> None:
    """`backends` replaces the sections' backends or `universal`; settings for CUDA go to [general.cuda]."""
    listed = [backend.value for backend in manifest.backends]
    backends = file.take(*_GENERAL, "universal") or file.pair("")
    backends[-1].value = _array(BACKENDS if listed == [UNIVERSAL] else listed)
    file.insert(_GENERAL, "backends", backends, _ORDER)
    if listed == [UNIVERSAL]:
        for key in ("src", "include", "minver", "maxver"):
            file.drop(TORCH, key)
        file.rename(TORCH, NOARCH)
    cuda = {
        "minver": file.take(*_GENERAL, "cuda-minver"),
        "maxver": file.take(*_GENERAL, "cuda-maxver"),
        "python-depends": _python_depends(file),
    }
    if any(cuda.values()):
        file.add_after(_GENERAL, _CUDA, [(key, moved) for key, moved in cuda.items() if moved])


def _python_depends(file: Statements) -> list[Statement]:
    """Take from [general] the Python packages that only CUDA needs, with their comments."""
    if (statement := file.find(*_GENERAL, "python-depends")) is None:
        return []
    array = tomlkit.parse(f"x = {statement.value}")["x"]
    packages = list(array.unwrap())
    moved = [package for package in packages if package in PYTHON_PACKAGES["cuda"]]
    if moved == packages:
        return file.take(*_GENERAL, "python-depends") if moved else []
    for index in reversed(range(len(packages))):
        if packages[index] in moved:
            del array[index]
    old, statement.value = statement.value, array.as_string()
    beside = comments(old)
    for name in comments(statement.value):
        beside.remove(name)
    return [*file.comment_lines(beside), *file.pair(_array(moved))] if moved else []


def _to_4(file: Statements, manifest: Manifest) -> None:
    """`version`, `license` and the framework table are required."""
    if version := file.find(*_GENERAL, "version"):
        version.value = str(manifest.version)
    else:
        file.insert(_GENERAL, "version", file.pair(str(manifest.version)), _ORDER[:1])
    if not file.find(*_GENERAL, "license"):
        file.insert(_GENERAL, "license", file.pair(f'"{manifest.license}"'), _ORDER[:3])
    if not any(file.has((framework,)) for framework in (TORCH, NOARCH, TVM_FFI)):
        file.append_table((NOARCH,))


def _to_5(file: Statements, manifest: Manifest) -> None:
    """The file has `edition`."""
    del manifest
    file.insert(_GENERAL, "edition", file.pair(str(CURRENT)), _ORDER[:2])
    file.sort(_GENERAL, _ORDER)


_STEPS: tuple[Callable[[Statements, Manifest], None], ...] = (_to_1, _to_2, _to_3, _to_4, _to_5)
"""The steps from each edition to the next."""


def _keep(file: Statements, table: str) -> None:
    """Write a table's header if its last key was removed."""
    if not file.has((table,)):
        file.append_table((table,))


def _table(kernel: Kernel) -> Path:
    return "kernel", kernel.name.value


def _array(values: tuple[str, ...] | list[str]) -> str:
    return json.dumps(list(values))


def _compare(content: bytes, manifest: Manifest, libraries: Sequence[str]) -> None:
    """Check that a new text has the meaning of the old one.

    Raises:
        DriverError: UNSUPPORTED.
    """
    try:
        new, findings = read(content, manifest.file, libraries)
    except DriverError as problem:
        raise _unsupported(manifest, f"the new text has an error: {problem}") from problem
    if findings.has_errors:
        raise _unsupported(manifest, f"the new text has an error: {findings.diagnostics()[0].message}")
    if where := _difference(meaning(manifest), meaning(new)):
        raise _unsupported(manifest, f"the new text would change `{where}`")


def meaning(manifest: Manifest) -> object:
    """The meaning of a manifest, equal for the same project in all editions.

    For edition 0 the Python package is where later editions expect it, and a universal project has all backends.
    """
    framework = manifest.framework
    if framework.noarch:
        framework = framework._replace(include=())  # no source could include anything
    fields = _plain(manifest._replace(framework=framework))
    assert isinstance(fields, dict)  # noqa: S101  (a manifest has fields)
    if fields["backends"] == [UNIVERSAL]:
        fields["backends"] = list(BACKENDS)
    if manifest.edition == 0:
        fields["python_root"] = f"torch-ext/{manifest.module}"
    fields["depends"] = {
        name: _plain(depend) for name, depend in manifest.depends.items() if depend.python or depend.kernels
    }
    return fields


def _plain(value: object) -> object:
    """A value of a manifest as dicts and lists, without positions, the file and its edition."""
    if isinstance(value, Located):
        return _plain(value.value)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):  # a type of the model
        value = {name: content for name, content in value._asdict().items() if name not in {"span", "file", "edition"}}
    if isinstance(value, Mapping):
        return {name: _plain(content) for name, content in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value


def _difference(old: object, new: object) -> str:
    """The first difference between two values of `_plain`, e.g. `kernels.0.src`; "" if they are equal."""
    if old == new:
        return ""
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        pairs = [(name, old[name], new[name]) for name in old]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = [(str(index), *both) for index, both in enumerate(zip(old, new, strict=True))]
    else:
        return "."
    name, before, after = next(pair for pair in pairs if pair[1] != pair[2])
    return f"{name}.{_difference(before, after)}".rstrip(".")
