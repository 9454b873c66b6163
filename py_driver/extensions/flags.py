"""Flags of extension modules: macros, `extra_compile_args`, and the GPU architectures among them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.errors import Code
from py_driver.extensions.for_rocm import family_of
from py_driver.manifest.flags import read_cuda_flags, read_cxx_flags, read_hip_flags, with_values
from py_driver.manifest.gencode import OPTIMIZED, take_gencode
from py_driver.manifest.linking import link_flags, linking_of
from py_driver.manifest.model import Located, values
from py_driver.manifest.section import Findings
from py_driver.matrix.backends import BUILT
from py_driver.matrix.facts import facts
from py_driver.recording.facts import facts as recording_facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from py_driver.errors import Span
    from py_driver.manifest.model import Text, Texts
    from py_driver.recording.record import Module

_KEYS: Final = {
    "cxx-flags": "extra_compile_args['cxx']",
    "cuda-flags": "extra_compile_args['nvcc']",
    "hip-flags": "extra_compile_args['nvcc'] for hipcc",
}
_OF_CMAKE: Final = {"cxx-flags": "the options for C++", "cuda-flags": "the options for CUDA"}
_LISTS: Final = "CMakeLists.txt"
_ADVICE: Final = {
    "list the directory in `include`": "list the directory in `include_dirs`",
    "list the archs in `cuda-capabilities`": "name architectures by `-gencode arch=compute_90,code=sm_90`",
}
_INCLUDE: Final = re.compile(r"(-I|-isystem|--?include-path|--?system-include)=?(.*)")
_EXTENSION_NAME: Final = "-DTORCH_EXTENSION_NAME"
_HAS_EXTENSION_HEADER: Final = "-DTORCH_API_INCLUDE_EXTENSION_H"
_NAMES: Final = re.compile(rf"(-DTORCH_TARGET_VERSION|{_EXTENSION_NAME})=\w+")
_AFTER: Final = ("-isystem", "-system-include", "--system-include")
"""Flags for directories that compilers search after those of `-I`."""

_QUOTED: Final = re.compile(r"""\A(['"])(-[^'"\s]+)\1\Z""")
"""A flag in quotes, as `'-fPIC'` after `--compiler-options`: nvcc passes it to a shell."""

_ASSERTS: Final = "-UNDEBUG"
"""Undoes NDEBUG, which the rules define.

Python's flags define it, too, and setuptools passes them to compilers of C and C++. Neither nvcc nor hipcc gets them
from torch's BuildExtension, nor any compiler from CMake, whose build types have their own.
"""

_OF_SETUPTOOLS: Final = (*facts("compilers")["SETUPTOOLS_FLAGS"],)
"""Further effects of Python's flags for the compilers that get them, before the flags of a module."""

_HIP_ARCH: Final = ("--offload-arch", "--amdgpu-target")
_NAME_ARCHS: Final = "name the architectures, or set TORCH_CUDA_ARCH_LIST"
_ARCH: Final = ("-arch", "--gpu-architecture")
_CODE: Final = ("-code", "--gpu-code")
_ALL_ARCHS: Final = ("all", "all-major", "native")


_LINKED_ANYWAY: Final = ("cudadevrt", "cudart", "cudart_static")
"""The libraries that nvcc itself adds when it links device code; only the first contains device code."""

_NO_LIBRARY: Final = ("-lineinfo", "-lto")
_OF_THE_CALL: Final = (*facts("flags")["DEVICE_LINK"], "-c", "-fPIC")
"""The arguments that the rules themselves pass when device code is linked."""


class SetupFindings(Findings):
    """Findings on a setup.py, whose messages name arguments of setup.py instead of keys of build.toml.

    Args:
        start: the location of errors that concern the whole project.
    """

    def __init__(self, start: Span) -> None:
        super().__init__({}, start)

    def add(self, code: Code, message: str, span: Span | None, *, label: str = "", advice: str = "") -> None:
        """Collect an error; see `Findings`."""
        of_hipcc = code is Code.BAD_FLAG and "in hip-flags" in message
        told = "leave it out where `torch.version.hip` is set" if of_hipcc else _ADVICE.get(advice, advice)
        super().add(code, _told(message, span), span, label=label, advice=told)

    def note(self, message: str, span: Span, code: Code | None = None) -> None:
        """Collect a note; see `Findings`. Equal notes of several configurations are merged."""
        told = _told(message, span)
        if not any(note.message == told and note.span == span for note in self.notes()):
            super().note(told, span, code)


class _LinkFindings(SetupFindings):
    """Findings on the flags for linking device code, which are in a separate list.

    Args:
        start: see `SetupFindings`.
        findings: receives the findings.
    """

    def __init__(self, start: Span, findings: Findings) -> None:
        super().__init__(start)
        self._findings = findings

    def add(self, code: Code, message: str, span: Span | None, *, label: str = "", advice: str = "") -> None:
        """Collect an error; see `Findings`."""
        self._findings.add(code, _of_linking(message), span, label=label, advice=advice)

    def note(self, message: str, span: Span, code: Code | None = None) -> None:
        """Collect a note; see `Findings`."""
        self._findings.note(_of_linking(message), span, code)


def _of_linking(message: str) -> str:
    return _told(message, None).replace(_KEYS["cuda-flags"], "extra_compile_args['nvcc_dlink']")


def _told(message: str, span: Span | None) -> str:
    for key, name in (_OF_CMAKE if span and span.file.endswith(_LISTS) else _KEYS).items():
        message = message.replace(f"in {key}", f"in {name}")
    return message.split(": list it in `cuda-capabilities`")[0]


class Flags(NamedTuple):
    """The flags of a module.

    Attributes:
        cxx: flags for C++ sources.
        cuda: flags for CUDA sources.
        hip: flags for CUDA sources that are compiled as HIP.
        archs: the architectures in the flags for nvcc: `8.0`, `9.0a`, `9.0+PTX`, `gfx942`; None if there are none.
        cxx_includes: the include directories in the flags for C++, in search order.
        cuda_includes: the include directories in the flags for nvcc.
        link: flags for nvcc when it links device code.
    """

    cxx: tuple[str, ...]
    cuda: tuple[str, ...]
    hip: tuple[str, ...]
    archs: tuple[str, ...] | None
    cxx_includes: tuple[str, ...]
    cuda_includes: tuple[str, ...]
    link: tuple[str, ...]


def is_device(source: str, family: str) -> bool:
    """Whether only a backend's own compiler can compile a source."""
    return source.endswith(BUILT[family].sources)


def read_flags(module: Module, family: str, standard: int, span: Span, findings: Findings) -> Flags:
    """The flags of a module, in the order in which setuptools and `BuildExtension` pass them to the compilers.

    Flags for a compiler without sources in the module are neither read nor refused.

    Args:
        module: the recorded module.
        family: the backend, `cpu`, `cuda` or `rocm`.
        standard: the C++ standard of torch's BuildExtension for flags without one, e.g. 20.
        span: the call that created the module.
        findings: receives BAD_FLAG, and a note for each flag that is ignored.
    """
    macros = [f"-D{name}" if value is None else f"-D{name}={value}" for name, value in module.define_macros]
    macros += [f"-U{name}" for name in module.undef_macros]
    by_torch = module.builder == "torch"
    own = [_HAS_EXTENSION_HEADER, f"{_EXTENSION_NAME}={module.name.rpartition('.')[2]}"] if by_torch else []
    default = (f"-std=c++{standard}",) if by_torch else ()
    own_family = family_of(module, family)
    kinds = {is_device(source, own_family) for source in module.sources}
    cxx_includes, cxx_flags = _take_includes(module.cxx_flags if False in kinds else ())
    device_flags = [_QUOTED.sub(r"\2", flag) for flag in module.nvcc_flags]
    cuda_includes, nvcc_flags = _take_includes(device_flags if True in kinds else ())
    names, macros = _take_names(macros)
    cxx_names, cxx_flags = _take_names(cxx_flags)
    nvcc_names, nvcc_flags = _take_names(nvcc_flags)
    cxx_macros = read_cxx_flags(findings, _texts(macros, span)) if False in kinds else ()
    cxx = read_cxx_flags(findings, _texts(cxx_flags, span)) if False in kinds else ()
    of_python = _OF_SETUPTOOLS if module.builder else (_ASSERTS,)
    of_torch = _of_torch(family, "flags")
    of_cxx = [*_undefined(own_family), *of_python, *names, *values(cxx_macros), *of_torch]
    of_cxx += [*cxx_names, *values(cxx), *own]
    before = [*_undefined(family), _ASSERTS, *names]
    if family == "rocm":
        archs, hip_macros, hip = _hip_flags(macros, nvcc_flags, span, findings) if True in kinds else (None, (), ())
        of_hip = [*before, *hip_macros, *of_torch, *_of_torch(family, "device-flags"), *nvcc_names, *hip, *own]
        return Flags(
            cxx=_with_standard(of_cxx, default),
            cuda=(),
            hip=_with_standard(of_hip, default),
            archs=archs,
            cxx_includes=cxx_includes,
            cuda_includes=cuda_includes,
            link=(),
        )
    written, archs = _choice_of_archs(_texts(nvcc_flags, span), findings)
    cuda_macros = read_cuda_flags(findings, _texts(macros, span)) if True in kinds else ()
    cuda = read_cuda_flags(findings, written) if True in kinds else ()
    link = _read_link_flags(module, archs, span, findings) if True in kinds else ()
    if linking_of(values(cuda)).relocatable and not module.dlink:
        message = f"{module.name} compiles relocatable device code without `dlink=True`; it is linked nonetheless"
        findings.note(message, span)
    common = recording_facts()["nvcc"]["common-flags"] if by_torch else ()
    of_cuda = [*before, *values(cuda_macros), *common, *nvcc_names, *values(cuda), *own]
    return Flags(
        cxx=_with_standard(of_cxx, default),
        cuda=_with_standard(of_cuda, default) if family != "cpu" else (),
        hip=(),
        archs=archs,
        cxx_includes=cxx_includes,
        cuda_includes=cuda_includes,
        link=link,
    )


def _with_standard(flags: Sequence[str], default: tuple[str, ...]) -> tuple[str, ...]:
    """Flags with the C++ standard that torch adds if they name none.

    As in torch's `append_std17_if_no_std_present`, only `-std=` counts: torch's own follows `--std=c++17`.
    """
    return (*flags, *(() if any(flag.startswith("-std=") for flag in flags) else default))


def _of_torch(family: str, key: str) -> list[str]:
    """The flags that torch itself adds for a backend."""
    return [*recording_facts()["hip"][key]] if family == "rocm" else []


def _hip_flags(
    macros: Sequence[str], flags: Sequence[str], span: Span, findings: Findings
) -> tuple[tuple[str, ...] | None, tuple[str, ...], tuple[str, ...]]:
    """The architectures in flags for hipcc, None if there are none; the macros, and the other flags.

    As in torch's `_hipify_compile_flags`, the first `CUDA` in the name of a flag is `HIP`; in macros it stays.
    """
    archs: list[str] = []
    left: list[str] = []
    for flag in flags:
        name, equals, value = flag.partition("=")
        if flag == f"{_HIP_ARCH[0]}=native":
            message = f"`{flag}` in {_KEYS['hip-flags']} is not the same on every machine"
            advice = "name the architectures, or set the variable that setup.py reads"
            findings.add(Code.BAD_FLAG, message, span, advice=advice)
        elif name in _HIP_ARCH and equals:
            archs += re.split("[,;]", value)
        else:
            left.append(name.replace("CUDA", "HIP", 1) + equals + value)
    of_macros = values(read_hip_flags(findings, _texts(macros, span)))
    return tuple(dict.fromkeys(archs)) or None, of_macros, values(read_hip_flags(findings, _texts(left, span)))


def _take_names(flags: Iterable[str]) -> tuple[list[str], list[str]]:
    """Split flags into definitions that a build.toml must not have, and others.

    The rules define TORCH_EXTENSION_NAME for it, and `stable-abi` TORCH_TARGET_VERSION; a setup.py defines them itself.
    """
    every = list(flags)
    return [flag for flag in every if _NAMES.fullmatch(flag)], [flag for flag in every if not _NAMES.fullmatch(flag)]


def _read_link_flags(module: Module, archs: tuple[str, ...] | None, span: Span, findings: Findings) -> tuple[str, ...]:
    """The flags for linking device code that have an effect.

    Each compiled architecture is linked, with link-time optimisation if it was compiled for that; `-dlto`, which torch
    adds, has no further effect.
    """
    own = _LinkFindings(span, findings)
    left = []
    words = iter(module.dlink_flags)
    for word in words:
        if word.startswith("-l") and word not in _NO_LIBRARY:
            name = word[2:] or next(words, "")
            if name not in _LINKED_ANYWAY:
                message = f"{module.name} links device code of the library `{name}`, which no toolchain has"
                advice = "remove it from `dlink_libraries`, or list its sources"
                findings.add(Code.UNSUPPORTED, message, span, advice=advice)
        elif word == "-L":
            next(words, None)
        elif not word.startswith("-L") and word not in _OF_THE_CALL:
            left.append(word)
    written, linked = _choice_of_archs(_texts(left, span), own)
    if linked is not None and {*map(_plain, linked)} != {*map(_plain, archs or ())}:
        message = f"the architectures in extra_compile_args['nvcc_dlink'] of {module.name} are not those of its sources"
        findings.note(f"{message}; device code is linked for all that these are compiled for", span)
    return link_flags(values(read_cuda_flags(own, written)))


def _plain(arch: str) -> str:
    return arch.removesuffix("+PTX")


def _take_includes(flags: Iterable[str]) -> tuple[tuple[str, ...], list[str]]:
    """Split flags into include directories and other flags, dropping empty flags and blanks around flags."""
    found: dict[bool, list[str]] = {False: [], True: []}
    left = []
    words = (flag.strip() for flag in flags if flag.strip())
    for flag in words:
        if match := _INCLUDE.fullmatch(flag):
            directory = match[2] or next(words, "")
            found[match[1] in _AFTER].append(directory)
        else:
            left.append(flag)
    return (*filter(None, found[False]), *filter(None, found[True])), left


def _undefined(family: str) -> list[str]:
    """Flags that undefine the macros that the rules define for a build.toml; a setup.py defines its own."""
    backend = facts("backends")["BACKENDS"][family]
    return [f"-U{macro.partition('=')[0]}" for macro in (backend["macro"], *backend["defines"])]


def _texts(flags: Iterable[str], span: Span) -> Texts:
    return tuple(Located(value=flag, span=span) for flag in flags)


def _choice_of_archs(flags: Texts, findings: Findings) -> tuple[Texts, tuple[str, ...] | None]:
    """Split flags into those without architectures and the architectures; None if no flag names any.

    As in torch's `_get_cuda_arch_flags`, one such flag is enough for TORCH_CUDA_ARCH_LIST to have no effect.
    """
    quiet = SetupFindings(flags[0].span) if flags else findings
    gencode, left = take_gencode(quiet, flags)
    found = [text.value for text in gencode]
    kept: list[Text] = []
    chosen: dict[str, Text] = {}
    for words in with_values(left, (*_ARCH, *_CODE).__contains__):
        name, _, value = "=".join(values(words)).partition("=")
        if name in _ARCH and value in _ALL_ARCHS:
            message = f"`{name}={value}` in extra_compile_args['nvcc'] is not the same on every machine"
            findings.add(Code.BAD_FLAG, message, words[0].span, advice=_NAME_ARCHS)
        elif name in (*_ARCH, *_CODE):
            chosen["arch" if name in _ARCH else "code"] = words[0]._replace(value=value)
        else:
            kept += words
    arch, code = chosen.get("arch"), chosen.get("code")
    if arch and code:
        pair, refused = take_gencode(quiet, (arch._replace(value=f"-gencode=arch={arch.value},code=[{code.value}]"),))
        found += values(pair)
        kept += refused
    elif arch and (capability := _capability(arch.value)):
        found.append(capability)
        kept += [arch._replace(value=OPTIMIZED)] if arch.value.startswith("lto_") else []
    elif alone := arch or code:
        kept.append(alone._replace(value=f"{_ARCH[0] if arch else _CODE[0]}={alone.value}"))
    return tuple(kept), tuple(dict.fromkeys(found)) if found else None


def _capability(arch: str) -> str:
    """The capability for `-arch`: `9.0+PTX` for `sm_90`, as nvcc compiles both; empty if it is unknown."""
    match = re.fullmatch(r"(sm|compute|lto)_(\d+)(\d)([af]?)", arch, re.ASCII)
    return f"{match[2]}.{match[3]}{match[4]}" + ("" if match[1] == "lto" else "+PTX") if match else ""


def asked(archs: Sequence[str] | None, arch_list: str) -> tuple[str, ...]:
    """The capabilities that a module is compiled for: from its flags, else from TORCH_CUDA_ARCH_LIST.

    Args:
        archs: the capabilities in its flags.
        arch_list: TORCH_CUDA_ARCH_LIST with names of architectures replaced: separated by `;` or blanks.
    """
    return tuple(archs) if archs is not None else tuple(part for part in re.split(r"[;\s]+", arch_list) if part)
