"""The record of a setup.py for one configuration: its extension modules, and the wheel of its Python part."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from py_driver.errors import Code, error

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Final = 1
"""The version of record.json."""

RECORD: Final = "record.json"
"""The file of a record, in the directory of the record."""

TREE: Final = "tree"
"""The directory, beside `RECORD`, of the files of the project that the run created or changed."""

WHEEL: Final = "wheel"
"""The directory, beside `RECORD`, of the wheel with an empty file for each extension module."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Module:
    """An extension module, as passed to `build_ext`.

    Attributes:
        name: its dotted name, e.g. `torch_scatter._scatter_cuda`.
        kind: `cuda` for CUDAExtension, `cpp` for CppExtension and setuptools' Extension.
        file: the path of its library in the wheel, named by this project's `build_ext`.
        script: the file of the project that created it, e.g. `setup.py`.
        line: the line of the call in `script`, 1-based; 0 if unknown.
        sources: the sources relative to the project, in the order of the link.
        include_dirs: directories of the project, relative to it, `.` for itself; others as `cuda:include`,
            `torch:include`, `numpy:include`, `python:include`, `pybind11:include` with the rest of the path, or as an
            absolute path.
        define_macros: (name, value); None for a macro without a value.
        undef_macros: names of macros.
        cxx_flags: `extra_compile_args` for C++ sources, in order.
        nvcc_flags: `extra_compile_args` for CUDA sources, in order.
        libraries: names as after `-l`; without the libraries that CUDAExtension and CppExtension add.
        library_dirs: its library directories, in the form of `include_dirs`.
        runtime_library_dirs: its runtime library directories, as written.
        extra_objects: its objects, as written.
        extra_link_args: its linker arguments, as written.
        limited_api: whether `py_limited_api` is set.
        dlink: whether `dlink=True` is set, so that device code is linked.
        dlink_flags: `extra_compile_args` for linking device code, with torch's additions.
        builder: `torch` for torch's BuildExtension, `setuptools` for any other build_ext; empty for CMake.
    """

    name: str
    kind: str
    file: str
    script: str
    line: int
    sources: tuple[str, ...]
    include_dirs: tuple[str, ...] = ()
    define_macros: tuple[tuple[str, str | None], ...] = ()
    undef_macros: tuple[str, ...] = ()
    cxx_flags: tuple[str, ...] = ()
    nvcc_flags: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    library_dirs: tuple[str, ...] = ()
    runtime_library_dirs: tuple[str, ...] = ()
    extra_objects: tuple[str, ...] = ()
    extra_link_args: tuple[str, ...] = ()
    limited_api: bool = False
    dlink: bool = False
    dlink_flags: tuple[str, ...] = ()
    builder: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """The build of a setup.py for one configuration.

    Attributes:
        torch: the release of torch, e.g. `2.13`.
        backend: `cpu`, `cu130`, ...
        cxx_abi: `cxx11` or `cxx98`.
        cpu: `x86_64` or `aarch64`.
        arch_list: TORCH_CUDA_ARCH_LIST of the run, e.g. `8.0;9.0+PTX`; empty for the CPU.
        name: the name of the distribution, from its metadata.
        version: the version of the distribution, from its metadata.
        wheel: the file name of the wheel in `WHEEL`.
        modules: the modules, in the order of `ext_modules`.
        files: the files in `TREE`, sorted, relative to the project.
        asked: commands and addresses that the run requested, with the answer: `nvcc -V: CUDA 13.0`.
        requirements: the installed build requirements: `setuptools==80.9.0`.
    """

    torch: str
    backend: str
    cxx_abi: str
    cpu: str
    arch_list: str
    name: str
    version: str
    wheel: str
    modules: tuple[Module, ...]
    files: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()

    def as_json(self) -> str:
        """The text of record.json: equal records give equal bytes."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=2, sort_keys=True) + "\n"


def read_record(path: Path) -> Record:
    """Read a record.json.

    Args:
        path: the file.

    Raises:
        DriverError: BAD_VALUE if it is not a record of this format.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if (edition := value.pop("format")) != FORMAT:
            raise _another(edition)
        modules = tuple(Module(**{key: _tuples(part) for key, part in module.items()}) for module in value["modules"])
        return Record(**{**{key: _tuples(part) for key, part in value.items()}, "modules": modules})
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as problem:
        advice = "delete the file; the next command writes it again"
        raise error(Code.BAD_VALUE, f"{path} is not a record of a setup.py: {problem}", help=advice) from None


def _another(edition: object) -> ValueError:
    return ValueError(f"format {edition}, not {FORMAT}")


def _tuples(value: Any) -> Any:  # noqa: ANN401  (a JSON value)
    """A JSON value with tuples for lists."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
