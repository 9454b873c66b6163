"""compile_commands.json: the compilation of each source of a project, in terms of clang's own parser. Pure.

The flags are those of the rules (rules/private/compile.bzl, cuda.bzl), with three differences. Another clang uses its
own headers instead of the pinned clang's. nvcc's options for a GPU are missing: the host code of a CUDA source is
parsed in clang's CUDA mode, which sees device code, too. And all of torch's headers are read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py_driver.editor.header_trees import CXX
from py_driver.extensions.headers import PYBIND
from py_driver.manifest.model import TORCH
from py_driver.matrix.backends import BUILT
from py_driver.matrix.configurations import USUAL_CPU, spell
from py_driver.matrix.facts import facts
from py_driver.matrix.matrix import CPYTHON_PART
from py_driver.plan.includes import closure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from py_driver.editor.header_trees import UnpackedTree
    from py_driver.matrix.matrix import Matrix
    from py_driver.plan.groups import Group
    from py_driver.plan.plan import Variant

COMPILE_COMMANDS: Final = "compile_commands.json"
"""The name that clang's tools look for."""

OUTPUT: Final = "torch-kernels"
"""The prefix of all entries' outputs, which identifies a database of the driver."""

_CHANGED: Final = {"--driver-mode=g++": (), "-nostdinc": ("-nostdlibinc",), "-nostdinc++": ()}
"""Flags of the pinned clang, with replacements for other clangs: own headers, and libstdc++ from `_LIBSTDCXX`."""

_LIBSTDCXX: Final = "-stdlib++-isystem"
"""The option for libstdc++'s directories: clang's CUDA wrappers of its headers come first, unlike with `-isystem`."""

_LANGUAGES: Final = {"c": "c", "S": "assembler-with-cpp"}
_CUDA: Final = ".cu"
_HEADER: Final = "c++-header"
_CUDA_FLAGS: Final = ("-x", "cuda", "--cuda-host-only", "-nogpulib")


class Job(NamedTuple):
    """Sources of a variant that are compiled with the same flags.

    Attributes:
        group: the sources and their flags.
        variant: the variant that links them.
        trees: the headers, in search order; see `header_trees`.
        rules: the directory of the rules' own headers.
        glibc: the version whose headers are used, e.g. `2.28`.
        pybind_abi: the name of the C++ ABI in pybind11's names for torch's wheel; empty if its headers define it
            themselves.
    """

    group: Group
    variant: Variant
    trees: Mapping[str, UnpackedTree]
    rules: Path
    glibc: str
    pybind_abi: str = ""


def entries(
    jobs: Iterable[Job], directory: Path, matrix: Matrix, included: Callable[[str], Iterable[str] | None]
) -> list[dict[str, Any]]:
    """The entries of a compilation database: one for each source and header; among several jobs the first counts.

    A header is parsed like the C++ source that includes it; like a CUDA source if only CUDA sources include it, or if
    it is named `.cuh` and a CUDA source includes it.

    Args:
        jobs: the jobs, with the most informative variant first.
        directory: the directory of the project.
        matrix: the releases.
        included: returns the includes of a project's file, as written; None if they cannot be determined.
    """
    found: dict[str, dict[str, Any]] = {}
    readers: dict[str, tuple[Job, str]] = {}
    for job in jobs:
        for source in job.group.sources:
            if source in found or _is_foreign(job.group, source):
                continue
            found[source] = _entry(job, source, source, directory, matrix)
            for header in closure(source, job.group.headers, included)[1:]:
                known = readers.get(header)
                if known is None or (_is_cuda(known[1]) != _is_cuda(header) and _is_cuda(source) == _is_cuda(header)):
                    readers[header] = job, source
    for header, (job, source) in readers.items():
        found.setdefault(header, _entry(job, source, header, directory, matrix))
    return [found[path] for path in sorted(found)]


def _is_cuda(path: str) -> bool:
    """Whether a file's name marks it as CUDA."""
    return path.endswith((_CUDA, f"{_CUDA}h"))


def _entry(job: Job, source: str, path: str, directory: Path, matrix: Matrix) -> dict[str, Any]:
    """The entry of a source, or of a header that it includes."""
    language = [] if path == source or _is_cuda(source) else ["-x", _HEADER]
    return {
        "directory": str(directory),
        "file": path,
        "arguments": [*arguments(job, source, matrix), *language, "-c", path],
        "output": f"{OUTPUT}/{spell(job.variant.configuration)}/{path}.o",
    }


def _is_foreign(group: Group, source: str) -> bool:
    """Whether a source is for a GPU and not for clang's CUDA mode: HIP's, whose headers are not unpacked."""
    return group.backend != "cuda" and source.endswith(BUILT[group.backend].sources or ("\0",))


def arguments(job: Job, source: str, matrix: Matrix) -> list[str]:
    """The command that compiles a source, without the source.

    Args:
        job: the job of the source.
        source: the source, relative to the project.
        matrix: the releases.
    """
    table, cpu = facts("compilers"), job.variant.configuration.cpu or USUAL_CPU
    is_cuda = _is_cuda(source)
    language = _LANGUAGES.get(source.rpartition(".")[2], "")
    words = ["clang++", *(word for flag in table["CLANG_FLAGS"] for word in _CHANGED.get(flag, (flag,)))]
    words += [f"--target={cpu}-linux-gnu", f"-D__GLIBC_MINOR__={job.glibc.partition('.')[2]}"]
    if is_cuda:
        words += [*_CUDA_FLAGS, f"--cuda-path={job.trees['cuda'].root}", *_archs(job)]
    elif language:
        words += ["-x", language]
    words += [*table["VISIBILITY"], "-O3"]
    if not language:
        words.append(f"-std={'c' if is_cuda else 'gnu'}++{_standard(job, matrix)}")
    words += _defines(job)
    for directory in _searched(job):
        words += ["-I", str(directory)]
    words += _system_includes(job)
    if job.group.identity and not language:
        words += ["-include", str(job.rules / "extension_name.h")]
    flags = of_nvcc(job.group.cuda_flags) if is_cuda else job.group.cxx_flags
    return [*words, *(flag for flag in flags if not language or not flag.lstrip("-").startswith("std="))]


def _standard(job: Job, matrix: Matrix) -> int:
    """The C++ standard: the one that torch's headers need, if they are used."""
    if TORCH not in job.group.depends:
        return int(facts("compilers")["CXX_STANDARD"])
    return next(torch.cxx_standard for torch in matrix.torch if torch.version == job.variant.needs.torch)


def _defines(job: Job) -> list[str]:
    """The macros that the rules define."""
    group, needs = job.group, job.variant.needs
    backend = facts("backends")["BACKENDS"][group.backend]
    macros = ["NDEBUG", backend["macro"], *backend["defines"]]
    if needs.abi:
        macros.append(f"_GLIBCXX_USE_CXX11_ABI={int(needs.abi == 'cxx11')}")
    if job.variant.configuration.stable and job.variant.configuration.torch:
        major, minor = map(int, job.variant.configuration.torch.split("."))
        macros.append(f"TORCH_TARGET_VERSION=0x{major << 56 | minor << 48:x}ULL")
    macros += [macro for tree in job.trees.values() for macro in tree.defines]
    if CPYTHON_PART in job.trees and job.pybind_abi:
        macros += ['PYBIND11_COMPILER_TYPE="_gcc"', 'PYBIND11_STDLIB="_libstdcpp"']
        macros.append(f'PYBIND11_BUILD_ABI="{job.pybind_abi}"')
    return [f"-D{macro}" for macro in macros]


def _searched(job: Job) -> list[Path]:
    """The directories of headers of the rules and of the project."""
    binding = [job.rules / "pybind"] if PYBIND in job.group.depends else []
    return [job.rules, *binding, *map(Path, job.group.includes)]


def _system_includes(job: Job) -> list[str]:
    """The options for the headers of toolchains, in search order."""
    last = job.trees[CXX]
    trees = [tree for name, tree in job.trees.items() if name != CXX]
    words = [word for tree in trees for directory in tree.includes for word in ("-isystem", str(directory))]
    # Headers of the C library come after clang's own, which clang searches after all `-isystem` directories.
    words += [word for directory in last.includes for word in (_LIBSTDCXX, str(directory))]
    return [*words, *(word for directory in last.after for word in ("-idirafter", str(directory)))]


def _archs(job: Job) -> list[str]:
    """The newest GPU architecture of a group, for which clang's CUDA mode parses device code."""
    archs = job.group.archs.get(job.variant.configuration.backend)
    if not archs or not archs.kept:
        return []
    newest = max(archs.kept, key=BUILT["cuda"].order)
    return [f"--cuda-gpu-arch=sm_{newest.removesuffix('+PTX').replace('.', '')}"]


def of_nvcc(flags: Sequence[str]) -> list[str]:
    """An author's flags for nvcc that clang understands: macros, the standard, the host compiler's flags.

    Args:
        flags: the flags, in order.
    """
    found: list[str] = []
    words = iter(flags)
    for word in words:
        name, equals, value = word.partition("=")
        if name in facts("flags")["PASS_ON"]:
            found += (value if equals else next(words, "")).split(",")
        elif word in {"-D", "-U"}:
            found.append(f"{word}{next(words, '')}")
        elif word.startswith(("-D", "-U")):
            found.append(word)
        elif name.lstrip("-") == "std":
            found.append(f"-std={value if equals else next(words, '')}")
    return found
