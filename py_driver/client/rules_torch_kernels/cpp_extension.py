"""What torch.utils.cpp_extension offers, built by the driver: no CUDA toolkit and no compiler is needed, only torch.

    from rules_torch_kernels import cpp_extension

    module = cpp_extension.load_inline("scaled", cpp_sources=source, functions=["scaled"])

Signatures and meaning are those of torch 2.13 (torch/utils/cpp_extension.py), with these differences. Sources are
compiled as `driver build` compiles those of a setup.py: with optimization, by clang, for the C++ standard of the
installed torch, for the GPUs of this machine or TORCH_CUDA_ARCH_LIST. A module is bound on torch::Library unless its
sources use Python objects. What was built is found again by its sources and flags, in any process.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rules_torch_kernels.inline_project import Inline, copied, copies
from rules_torch_kernels.loading import BuildError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from rules_torch_kernels.setup_classes import BuildExtension, CppExtension, CUDAExtension

__all__ = [
    "CUDA_HOME",
    "ROCM_HOME",
    "BuildExtension",
    "CUDAExtension",
    "CppExtension",
    "include_paths",
    "load",
    "load_inline",
]

CUDA_HOME: str | None = None
ROCM_HOME: str | None = None
"""No toolkit of this machine is used."""

_OF_SETUP = ("BuildExtension", "CUDAExtension", "CppExtension")
_DEVICE = (".cu", ".cuh")
MAIN, KERNELS = "main.cpp", "cuda.cu"
"""The files that `load_inline` makes of its texts."""

HEADERS = {
    MAIN: ["#include <torch/extension.h>"],
    KERNELS: ["#include <torch/types.h>", "#include <cuda.h>", "#include <cuda_runtime.h>"],
}
"""What `load_inline` puts in front of sources, as torch does."""

_INCLUDE, _SYSTEM = ("-I", "--include-path"), ("-isystem",)
"""Options with a directory, in the same word or in the next one; compilers search those of `-isystem` last."""

_NOWHERE = Path(os.devnull)
"""A directory that is none."""


def __getattr__(name: str) -> object:
    """The classes for a setup.py; setuptools is loaded for them alone."""
    if name in _OF_SETUP:
        from rules_torch_kernels import setup_classes

        return getattr(setup_classes, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load(  # noqa: PLR0913  (torch's signature)
    name: str,
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_sycl_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[str | os.PathLike[str]] | None = None,
    build_directory: str | os.PathLike[str] | None = None,
    verbose: bool = False,  # noqa: FBT001, FBT002
    with_cuda: bool | None = None,  # noqa: FBT001
    with_sycl: bool | None = None,  # noqa: FBT001
    is_python_module: bool = True,  # noqa: FBT001, FBT002
    is_standalone: bool = False,  # noqa: FBT001, FBT002
    keep_intermediates: bool = True,  # noqa: ARG001, FBT001, FBT002
) -> ModuleType | str:
    """Build sources into a module, unless they are built, and import it.

    Files that the sources include, beside them or in `extra_include_paths`, belong to what is built: a change of one is
    another build.

    Args:
        name: of the module, as C++ has it.
        sources: paths of C++ and CUDA sources, or one path.
        extra_cflags: options for C++ sources.
        extra_cuda_cflags: options of nvcc for CUDA sources.
        extra_sycl_cflags: not supported.
        extra_ldflags: options of the linker: libraries of the toolchains, e.g. `-lcublas`.
        extra_include_paths: directories for `#include`.
        build_directory: where the project and its results are written; the user's cache if None.
        verbose: show what the driver says.
        with_cuda: build for CUDA or ROCm; if None, when a source is CUDA's.
        with_sycl: not supported.
        is_python_module: import a module; else load operators by `torch.ops.load_library`.
        is_standalone: not supported.
        keep_intermediates: has no meaning; the driver's cache keeps them.

    Returns:
        The module; or the path of the library, if it is no Python module.

    Raises:
        BuildError: a RuntimeError; the sources cannot be built.
        ValueError: an argument is wrong or not supported.
        TypeError: options are a text instead of a list.
        OSError: a source cannot be read.
    """
    name = name if is_python_module else _library_name(name)
    _refuse(name, sycl=bool(with_sycl or extra_sycl_cflags), standalone=is_standalone)
    paths = [Path(path).absolute() for path in ([sources] if isinstance(sources, (str, os.PathLike)) else sources)]
    if not paths:
        raise ValueError(f"`{name}` has no sources")
    compiled_with = options(extra_cflags, extra_cuda_cflags, extra_include_paths)
    inline = Inline(
        name=name,
        texts=copies({path: path.read_bytes() for path in paths}, compiled_with.directories),
        sources=[copied(path) for path in paths],
        include_dirs=[copied(path) for path in compiled_with.directories],
        flags=compiled_with.flags,
        link_flags=_words(extra_ldflags),
        **_target(cuda=any(path.suffix in _DEVICE for path in paths) if with_cuda is None else with_cuda),
    )
    return _import(inline, build_directory, verbose=verbose, is_module=is_python_module)


def load_inline(  # noqa: PLR0913  (torch's signature)
    name: str,
    cpp_sources: str | Sequence[str],
    cuda_sources: str | Sequence[str] | None = None,
    sycl_sources: str | Sequence[str] | None = None,
    functions: str | Sequence[str] | Mapping[str, str] | None = None,
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_sycl_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[str | os.PathLike[str]] | None = None,
    build_directory: str | os.PathLike[str] | None = None,
    verbose: bool = False,  # noqa: FBT001, FBT002
    with_cuda: bool | None = None,  # noqa: FBT001
    with_sycl: bool | None = None,  # noqa: FBT001
    is_python_module: bool = True,  # noqa: FBT001, FBT002
    with_pytorch_error_handling: bool = True,  # noqa: FBT001, FBT002
    keep_intermediates: bool = True,  # noqa: ARG001, FBT001, FBT002
    use_pch: bool = False,  # noqa: ARG001, FBT001, FBT002
    no_implicit_headers: bool = False,  # noqa: FBT001, FBT002
) -> ModuleType | str:
    """Build texts into a module, unless they are built, and import it.

    Args:
        name: of the module, as C++ has it.
        cpp_sources: texts in C++, or one.
        cuda_sources: texts in CUDA, or one.
        sycl_sources: not supported.
        functions: C++ functions that the module is to have: a name, names, or names with their docs. `cpp_sources`
            declares them. None if the texts have a PYBIND11_MODULE of their own.
        extra_cflags: see `load`, as for the arguments below without a word here.
        extra_cuda_cflags: see `load`.
        extra_sycl_cflags: not supported.
        extra_ldflags: see `load`.
        extra_include_paths: see `load`.
        build_directory: see `load`.
        verbose: see `load`.
        with_cuda: see `load`; if None, when there are `cuda_sources`.
        with_sycl: not supported.
        is_python_module: see `load`.
        with_pytorch_error_handling: whether exceptions and warnings of the functions are those of torch's own: all but
            torch's are a RuntimeError, and `TORCH_WARN` is a warning of Python.
        keep_intermediates: has no meaning, see `load`.
        use_pch: has no meaning; torch's headers are not read whole.
        no_implicit_headers: leave out `#include <torch/extension.h>` in C++, and torch/types.h, cuda.h and
            cuda_runtime.h in CUDA.

    Returns:
        See `load`.

    Raises:
        BuildError: a RuntimeError; the texts cannot be built.
        ValueError: an argument is wrong or not supported.
        TypeError: options are a text instead of a list.
        OSError: a file in `extra_include_paths` cannot be read.
    """
    name = name if is_python_module else _library_name(name)
    _refuse(name, sycl=bool(with_sycl or extra_sycl_cflags or sycl_sources), standalone=False)
    inline = inline_of(
        name,
        cpp_sources,
        cuda_sources,
        functions=functions,
        extra_cflags=extra_cflags,
        extra_cuda_cflags=extra_cuda_cflags,
        extra_ldflags=extra_ldflags,
        extra_include_paths=extra_include_paths,
        with_cuda=with_cuda,
        with_pytorch_error_handling=with_pytorch_error_handling,
        no_implicit_headers=no_implicit_headers,
    )
    if inline.backend != "cpu":
        inline = replace(inline, **_target(cuda=True))
    return _import(inline, build_directory, verbose=verbose, is_module=is_python_module)


def inline_of(  # noqa: PLR0913  (torch's arguments)
    name: str,
    cpp_sources: str | Sequence[str] = (),
    cuda_sources: str | Sequence[str] | None = None,
    *,
    functions: str | Sequence[str] | Mapping[str, str] | None = None,
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[str | os.PathLike[str]] | None = None,
    with_cuda: bool | None = None,
    with_pytorch_error_handling: bool = True,
    no_implicit_headers: bool = False,
) -> Inline:
    """What a call of `load_inline` builds; for CUDA it has no GPUs yet, which needs torch.

    Args:
        name: see `load_inline`, as for all of them.
        cpp_sources: likewise.
        cuda_sources: likewise.
        functions: likewise.
        extra_cflags: likewise.
        extra_cuda_cflags: likewise.
        extra_ldflags: likewise.
        extra_include_paths: likewise.
        with_cuda: likewise.
        with_pytorch_error_handling: likewise.
        no_implicit_headers: likewise.

    Raises:
        ValueError: an argument is wrong or not supported.
        TypeError: options are a text instead of a list.
        OSError: a file in `extra_include_paths` cannot be read.
    """
    _refuse(name, sycl=False, standalone=False)
    cpp, cuda = _texts(cpp_sources), _texts(cuda_sources)
    if functions is not None:
        cpp.append(binding(functions, wrapped=with_pytorch_error_handling))
    files = {MAIN: cpp, **({KERNELS: cuda} if cuda else {})}
    texts = {
        path: "\n".join([*([] if no_implicit_headers else HEADERS[path]), *parts, ""]).encode()
        for path, parts in files.items()
    }
    compiled_with = options(extra_cflags, extra_cuda_cflags, extra_include_paths)
    # The texts are beside no file.
    included = copies({_NOWHERE / path: text for path, text in texts.items()}, compiled_with.directories)
    return Inline(
        name=name,
        texts={**{path: text for path, text in included.items() if not path.startswith(copied(_NOWHERE))}, **texts},
        sources=list(texts),
        include_dirs=[copied(path) for path in compiled_with.directories],
        flags=compiled_with.flags,
        link_flags=_words(extra_ldflags),
        backend="cuda" if (bool(cuda) if with_cuda is None else with_cuda) else "cpu",
    )


def include_paths(
    device_type: str = "cpu",
    torch_include_dirs: bool = True,  # noqa: FBT001, FBT002  (torch's signature)
) -> list[str]:
    """Where the installed torch has its headers; a build does not need them.

    Args:
        device_type: `cpu` or `cuda`; a toolkit's headers are in neither, since none is needed.
        torch_include_dirs: list the directories of torch; else none.
    """
    del device_type
    if not torch_include_dirs:
        return []
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("no torch is installed", name="torch")
    root = Path(spec.origin).parent / "include"
    return [str(root), str(root / "torch/csrc/api/include")]


def _library_name(name: str) -> str:
    """The name of a module that nobody imports: torch accepts any name for it, e.g. `my-ops`."""
    return re.sub(r"\W|^(?=\d)", "_", name, flags=re.ASCII)


def _refuse(name: str, *, sycl: bool, standalone: bool) -> None:
    """Refuse what cannot be built.

    Raises:
        ValueError: always then.
    """
    if not name.isidentifier() or not name.isascii():
        raise ValueError(f"`{name}` is no name of a module: C++ needs letters, digits and underscores")
    if sycl:
        raise ValueError("SYCL cannot be built: leave out the arguments with `sycl` in their names")
    if standalone:
        raise ValueError("programs cannot be built: leave out `is_standalone`")


class Options(NamedTuple):
    """What sources are compiled with.

    Attributes:
        flags: as `Inline` has them, without directories.
        directories: for `#include`, of the user.
    """

    flags: dict[str, list[str]]
    directories: list[Path]


def options(
    cflags: Sequence[str] | None,
    cuda_cflags: Sequence[str] | None,
    include_paths: Sequence[str | os.PathLike[str]] | None,
) -> Options:
    """The options of a call. Directories among the flags follow the others; those of torch and CUDA are left out.

    Args:
        cflags: for C++.
        cuda_cflags: for CUDA.
        include_paths: directories for `#include`.

    Raises:
        TypeError: options or directories are a text.
        ValueError: a directory is missing.
    """
    if isinstance(include_paths, str):
        raise TypeError(f"`extra_include_paths` is a list, not the text {include_paths!r}")
    flags: dict[str, list[str]] = {}
    directories, last = [Path(path).absolute() for path in include_paths or ()], list[Path]()
    for kind, texts in (("cxx", cflags), ("nvcc", cuda_cflags)):
        words = iter(_words(texts))
        flags[kind] = []
        for word in words:
            option = next((option for option in (*_INCLUDE, *_SYSTEM) if word.startswith(option)), None)
            if option is None:
                flags[kind].append(word)
            else:
                directory = word.removeprefix(option).removeprefix("=") or next(words, "")
                if not directory:
                    raise ValueError(f"no directory follows `{option}`")
                (last if option in _SYSTEM else directories).append(Path(directory).absolute())
    own = [path for path in dict.fromkeys([*directories, *last]) if not _is_of_toolchains(path)]
    return Options(flags, own)


def _is_of_toolchains(directory: Path) -> bool:
    """Whether a directory has the headers of torch or of a CUDA toolkit, which a build has of its own."""
    return any((directory / name).is_file() for name in ("torch/extension.h", "cuda_runtime.h"))


def _words(flags: Sequence[str] | None) -> list[str]:
    """Options as words; torch takes several in one text.

    Raises:
        TypeError: they are one text, whose letters torch would take for options.
    """
    if isinstance(flags, str):
        raise TypeError(f"options are a list, not the text {flags!r}")
    return [word for flag in flags or () for word in shlex.split(flag)]


def _texts(sources: str | Sequence[str] | None) -> list[str]:
    return [sources] if isinstance(sources, str) else list(sources or ())


def binding(functions: str | Sequence[str] | Mapping[str, str], *, wrapped: bool = True) -> str:
    """The text of a module with some functions.

    Args:
        functions: as `load_inline` gets them.
        wrapped: whether torch handles their errors.
    """
    call = "torch::wrap_pybind_function({})" if wrapped else "{}"
    if isinstance(functions, str):
        functions = [functions]
    docs = functions if isinstance(functions, Mapping) else {name: name for name in functions}
    # JSON's texts are C++'s, but for escaped signs beyond U+FFFF.
    lines = [
        f'  m.def("{name}", {call.format(name)}, {json.dumps(doc, ensure_ascii=False)});' for name, doc in docs.items()
    ]
    return "\n".join(["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {", *lines, "}"])


def _target(*, cuda: bool) -> dict[str, Any]:
    """The backend and the GPUs to build for, as fields of `Inline`."""
    if not cuda:
        return {"backend": "cpu"}
    import torch

    count = torch.cuda.device_count()
    gpus = sorted({".".join(map(str, torch.cuda.get_device_capability(index))) for index in range(count)})
    return {"backend": "rocm" if torch.version.hip else "cuda", "gpus": gpus}


def _import(
    inline: Inline, build_directory: str | os.PathLike[str] | None, *, verbose: bool, is_module: bool
) -> ModuleType | str:
    """Build, and import what was built: in a process that has not imported torch yet, its libraries are found so."""
    import torch

    parent = Path(build_directory).absolute() if build_directory else None
    path = inline.build(parent, verbose=verbose)
    if not is_module:
        found = [*path.glob("*.so")]
        if len(found) != 1:
            raise BuildError(f"{path} has {len(found)} libraries; one was to be built")
        [library] = found
        torch.ops.load_library(library)
        return str(library)
    spec = importlib.machinery.PathFinder.find_spec(inline.name, [str(path)])
    if spec is None or spec.loader is None:
        raise BuildError(f"{path} has no module `{inline.name}`; without PYBIND11_MODULE set is_python_module=False")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
