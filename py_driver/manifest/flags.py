"""Which compiler flags a build.toml may give.

A flag is part of an action's key as a string, so it must not name a file, a program or the machine; and what the
rules decide (archs, outputs, the host compiler) is not a flag's business. What is admitted is a list; the rest is
refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from py_driver.errors import Code, Span

if TYPE_CHECKING:
    from py_driver.manifest.model import Texts
    from py_driver.manifest.section import Findings

_CXX = (
    r"-O([0-3sg]|fast)?",
    r"-[DU][A-Za-z_].*",
    r"-std=(c|gnu)\+\+\w+",
    r"-g[0-3]?",
    r"-p(edantic|thread)",
    r"-w|-W(?![lap],)[A-Za-z][\w+=-]*",
    r"-f(?!plugin|pass-plugin|profile|dump|file-|debug-|macro-|random-seed|save|use-ld|crash|module|sanitize|syntax-only|no-p|openmp)[A-Za-z][\w+,=-]*",
    r"-m(?!arch=native|tune=native|cpu=native|32$|16$|x32$|llvm|relocation-model|cmodel)[a-z0-9][\w.+=-]*",
    r"-ansi",
)
"""g++'s and clang's flags that only change how a translation unit is compiled."""

_VALUE = r"[\w.,:+=-]+"
_CUDA = (
    r"-O[0-3]",
    r"-[DU][A-Za-z_][^$`\\]*",
    r"--?std=(c|gnu)\+\+\w+",
    r"-w|-lineinfo|--generate-line-info|-G|--device-debug|-g|-restrict|--restrict",
    r"-use_fast_math|--use_fast_math|-extra-device-vectorization|--extra-device-vectorization",
    r"--?(ftz|prec-div|prec-sqrt|fmad|static-global-template-stub|default-stream|split-compile|threads|t)=\w+",
    r"(-maxrregcount|--maxrregcount)=\d+",
    r"(-expt|--expt)-(relaxed-constexpr|extended-lambda)|(-extended-lambda|--extended-lambda)",
    r"(-diag-(suppress|error|warn)|--diag-(suppress|error|warn))=[\w,-]+",
    rf"(-Xptxas|--ptxas-options|-Xnvvm|-Xcudafe|--Xcudafe)={_VALUE}",
    r"-forward-unknown-to-host-compiler|--forward-unknown-to-host-compiler",
    r"-Wno-[\w-]+",
)
"""nvcc's flags, after NVIDIA's nvcc manual."""

_CUDA_WITH_VALUE = {
    "-Xptxas",
    "--ptxas-options",
    "-Xnvvm",
    "-Xcudafe",
    "--Xcudafe",
    "-diag-suppress",
    "--diag-suppress",
}
_HOST = {"-Xcompiler", "--compiler-options"}
_ADVICE = (
    (r"-[DU].*[$`\\]", "nvcc cannot take `$`, a backquote or a backslash in a definition; write it in a header"),
    (r"-(I|isystem|iquote|-include-path)", "list the directory in `include`"),
    (r"-include|@", "include the file from the source"),
    (r"-?-(gencode|arch|code|gpu-)", "list the archs in `cuda-capabilities`"),
    (r"-f(pass-)?plugin|-wrapper|-B|--?specs", "a flag cannot load a program or a plugin of the machine"),
    (r"-?-(ccbin|compiler-bindir)", "the host compiler belongs to the toolchain"),
    (r"-o|-c$|-S$|-E$|-?-(output|objtemp|keep|save-temps)|-save-temps|-fdump|-M", "the rules decide what is written"),
    (r"-fopenmp", "there is no OpenMP runtime; use at::parallel_for, which has torch's"),
    (r"-fsanitize", "a variant is loaded into a Python that has no sanitizer's runtime"),
    (r"-l|-L|-Wl,", "a kernel links nothing but torch and the CUDA runtime"),
    (r"-m.*=native", "name the instruction set: the result must run on other machines"),
)


def check_cxx_flags(findings: Findings, flags: Texts) -> None:
    """Collect a BAD_FLAG error for each flag that is not admitted for C++."""
    for flag in flags:
        if not _matches(_CXX, flag.value):
            _refuse(findings, flag.value, "cxx-flags", flag.span)


def check_cuda_flags(findings: Findings, flags: Texts) -> None:
    """Collect a BAD_FLAG error for each flag that is not admitted for nvcc; some take the next one as their value."""
    taker = ""
    for flag in flags:
        text, before, taker = flag.value, taker, ""
        host = text.partition("=")[2] if text.startswith(tuple(f"{name}=" for name in _HOST)) else ""
        if before in _HOST or host:
            good = all(_matches(_CXX, part) for part in (host or text).split(","))
        elif before:
            good = re.fullmatch(_VALUE, text) is not None
        elif text in _CUDA_WITH_VALUE | _HOST:
            taker, good = text, True
        else:
            good = _matches(_CUDA, text)
        if not good:
            _refuse(findings, text, "cuda-flags", flag.span)
    if taker:
        findings.add(Code.BAD_FLAG, f"`{taker}` in cuda-flags lacks its value", flags[-1].span)


def _matches(patterns: tuple[str, ...], flag: str) -> bool:
    return any(re.fullmatch(pattern, flag) for pattern in patterns)


def _refuse(findings: Findings, flag: str, key: str, span: Span) -> None:
    advice = next((advice for pattern, advice in _ADVICE if re.match(pattern, flag)), "")
    findings.add(Code.BAD_FLAG, f"the flag `{flag}` is not admitted in {key}", span, advice=advice)
