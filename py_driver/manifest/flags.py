"""The compiler flags that a build.toml may have.

A flag is part of an action's key as a string, so it must not name a file, a program or the machine; and the rules
decide archs, outputs, the host compiler and the ABI. The admitted flags are listed. Flags that upstream's builder
accepts, but that have no meaning here, are ignored with a note; all others are refused.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from py_driver.errors import Code
from py_driver.manifest.model import values
from py_driver.manifest.openmp import asks_for_openmp
from py_driver.matrix.facts import facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from py_driver.manifest.model import Text, Texts
    from py_driver.manifest.section import Findings


def _any_of(*groups: str) -> str:
    """A pattern for one of the words of texts, each of which may be a pattern."""
    return "|".join(word for group in groups for word in group.split())


_FLAGS = facts("flags")
_RELOCATABLE = _any_of(*_FLAGS["RELOCATABLE"])
_LINKING = _any_of(*_FLAGS["RELOCATABLE_ALONE"], *_FLAGS["LINK_TIME_OPTIMIZATION"])
_THREADS = _any_of(*_FLAGS["THREADS"])

# -f<name> and -fno-<name> that affect only the generated code, and that clang knows.
_CODE_SWITCHES = _any_of(
    "approx-func associative-math builtin(-[a-z]\\w*)? cx-fortran-rules cx-limited-range fast-math finite-loops",
    "finite-math-only fp-contract honor-infinities honor-nans math-errno protect-parens reciprocal-math rounding-math",
    "signed-zeros trapping-math unsafe-math-optimizations",
    "gcse(-[a-z]+)? inline(-[a-z-]+)? ivopts jump-tables modulo-sched",
    "optimize-sibling-calls peel-loops prefetch-loop-arrays schedule-insns2?",
    "slp-vectorize tree-(slp-)?vectorize unroll(-all)?-loops unswitch-loops vectorize",
    "delete-null-pointer-checks merge-all-constants strict-aliasing strict-enums strict-overflow",
    "strict-vtable-pointers trapv wrapv asynchronous-unwind-tables common data-sections function-sections",
    "ident keep-inline-functions omit-frame-pointer plt semantic-interposition stack-protector(-all|-strong)?",
    "unique-section-names unwind-tables visibility-inlines-hidden zero-initialized-in-bss openmp-simd",
    "access-control char8_t coroutines cxx-exceptions elide-constructors elide-type exceptions gnu-keywords",
    "ms-extensions operator-names permissive rtti signed-char sized-deallocation threadsafe-statics unsigned-char",
    "assume-sane-operator-new caret-diagnostics color-diagnostics diagnostics-(?!show-caret$)[a-z-]+",
    "lax-vector-conversions",
)
# -f<name>=<value>, with the valid values.
_CODE_VALUES = (
    r"(align-(functions|jumps|labels|loops)|inline-limit|strict-flex-arrays|macro-backtrace-limit|message-length)=\d+"
    r"|(template-(depth|backtrace-limit)|constexpr-(depth|steps|backtrace-limit)|bracket-depth)=\d+"
    r"|(excess-precision|fp-contract|fp-model|fp-exception-behavior|complex-arithmetic|diagnostics-[a-z-]+)=[a-z-]+"
    r"|denormal-fp-math(-f32)?=[a-z,-]+|lax-vector-conversions=[a-z]+|visibility=hidden"
    r"|cf-protection(=(full|branch|return|none))?"
)
# The same of gcc, which clang does not know, or ignores although they change results.
_GCC_CODE = (
    r"-f(no-)?(crossjumping|diagnostics-show-caret|gnu-unique|if-conversion2?|ipa-[a-z-]+|move-loop-invariants"
    r"|signaling-nans|single-precision-constant|split-loops|tree-(?!(slp-)?vectorize$)[a-z-]+)"
    r"|-f(constexpr-(loop|ops)-limit=\d+|vect-cost-model=[a-z-]+)"
)
# -m<name> and -mno-<name>: instruction sets of x86-64, and their use.
_INSTRUCTIONS = _any_of(
    "3dnowa? abm adx aes amx-\\w+ apxf avx avx2 avx10\\.\\d(-\\d+)? avx512\\w* avxifma avxneconvert avxvnni\\w* bmi2?",
    "cldemote clflushopt clwb crc32 cx16 f16c fma fma4 fsgsbase fxsr gfni lzcnt mmx movbe movdir64b movdiri mwaitx",
    "pclmul popcnt prfchw rdpid rdrnd rdseed sahf serialize sha sha512 sm3 sm4 sse sse2 sse3 sse4 sse4\\.1 sse4\\.2",
    "sse4a ssse3 tbm vaes vpclmulqdq vzeroupper xop xsave xsavec xsaveopt xsaves",
    "omit-leaf-frame-pointer red-zone stackrealign",
)

# Prefixes of macros that the rules define, or that decide the ABI.
_DECIDED = (
    "_GLIBCXX_USE_CXX11_ABI|__GLIBC_MINOR__|TORCH_TARGET_VERSION|TORCH_EXTENSION_NAME"
    "|RULES_TORCH_KERNELS|torch_kernels_extension_name"
)
_DEFINITION = rf"-[DU](?!{_DECIDED})[A-Za-z_]"
_STANDARD = r"std=(c|gnu)\+\+[0-9][0-9a-z]"

_CXX = {
    "": rf"-O([0-3sgz]|fast)?|{_DEFINITION}.*|-{_STANDARD}|-g((gdb)?[0-3]?|dwarf-[2-5])|-p(edantic|thread)|-ansi|-w"
    r"|-W(?![lap],)[A-Za-z][\w+=-]*",
    "-f": rf"-f(no-)?({_CODE_SWITCHES})|-f({_CODE_VALUES})|-fPIC|-fpic",
    "-m": rf"-m(no-)?({_INSTRUCTIONS})|-m(arch|tune|cpu)=(?!native\b)[a-z0-9][\w.+-]*"
    r"|-m(64|prefer-vector-width=(\d+|none)|fpmath=sse|recip(=[\w,!:-]+)?)",
}
"""g++'s and clang's flags that only change how a translation unit is compiled, by the first two characters.

A pattern is compiled when a flag is compared with it: compiling all of them takes several milliseconds.
"""

_CPP = {**_CXX, "-f": _CXX["-f"] + "|-f(no-)?openmp", "-l": "-lgomp"}
"""The flags of C++ files."""

_OPENMP_CPP = {**_CPP, "-f": f"{_CPP['-f']}|{_GCC_CODE}"}
"""The flags of C++ files that ask for OpenMP: gcc, which has torch's OpenMP runtime, compiles them."""

_HOST = {**_CXX, "-f": _CXX["-f"] + "|-f(no-)?openmp"}
"""The flags of host code in CUDA sources, whose OpenMP runs on torch's runtime too (rules/private/include/openmp.c)."""

_CUDA = {
    "": rf"-O[0-3]|--optimize=[0-3]|{_DEFINITION}[^$`\\]*|--?{_STANDARD}"
    r"|-w|--disable-warnings|-lineinfo|--generate-line-info|-g|--?restrict"
    r"|--?(use_fast_math|extra-device-vectorization|extended-lambda|gen-opt-lto|expt-(relaxed-constexpr|extended-lambda))"
    r"|--?(ftz|prec-div|prec-sqrt|fmad|static-global-template-stub)=(true|false)"
    rf"|({_RELOCATABLE})=(true|false)|{_LINKING}|({_THREADS})=\d+"
    r"|--?(split-compile|maxrregcount|ftemplate-(depth|backtrace-limit))=\d+"
    r"|--?default-stream=(legacy|null|per-thread)"
    r"|--?compress-mode=[a-z]+"
    r"|-res-usage|--resource-usage|-err-no|--(no-)?display-error-number"
    r"|--?diag-(suppress|error|warn)=[\w,-]+|--?Wno-[\w-]+|--?W(reorder|[a-z]+-[a-z-]+)|--?Werror=[a-z,-]+"
    r"|--?forward-unknown-to-host-compiler",
}
"""nvcc's flags, after NVIDIA's nvcc manual."""

_HIP = {
    **_CXX,
    "-f": _CXX["-f"]
    + r"|-f(no-)?(gpu-(flush-denormals-to-zero|approx-transcendentals)|hip-fp32-correctly-rounded-divide-sqrt)"
    r"|-f(no-)?openmp|-fno-gpu-rdc|-fgpu-(inline-threshold=\d+|default-stream=(legacy|per-thread))",
    "-m": rf"-m(no-)?({_INSTRUCTIONS})|-m(arch|tune)=(?!native\b)[a-z0-9][\w.+-]*|-m64"
    r"|-m(no-)?(cumode|tgsplit|unsafe-fp-atomics|wavefrontsize64|amdgpu-ieee)",
}
"""clang's flags for HIP, after its command line reference."""

_MLLVM = "-mllvm"
_LLVM = r"-amdgpu-[a-z0-9-]+=(true|false|\d+)|-enable-post-misched=[01]"
"""The options of LLVM's AMDGPU backend that `-mllvm` may pass."""

_LONE = frozenset(("-D", "-U", "-l", "-L"))
"""The flags of C++ compilers whose value may be the next flag."""

_TAKER = (
    rf"{_THREADS}|{_RELOCATABLE}|--?(std|default-stream|split-compile|maxrregcount|diag-(suppress|error|warn)|ftz|prec-(div|sqrt)|fmad"
    r"|ftemplate-(depth|backtrace-limit)|compress-mode|cudart|keep-dir|Werror)|-Xlinker|--linker-options|-[DUlL]"
)
"""The options of nvcc whose value may be the next flag."""

_PTXAS = {
    "": r"-v|--verbose|-O[0-4]?|-w|--disable-warnings|-Werror|--warning-as-error|-g|--device-debug"
    r"|-lineinfo|--generate-line-info|--?(maxrregcount|register-usage-level|split-compile|opt-level)=\d+"
    r"|-d(lc|sc)m=[a-z]+|--(def|force)-(load|store)-cache=[a-z]+|-f(lc|sc)m=[a-z]+"
    r"|--?(fmad|allow-expensive-optimizations)(=(true|false))?|--?disable-optimizer-constants"
    r"|-warn-(spills|lmem-usage|double-usage)|--warn-on-(spills|local-memory-usage|double-precision-use)"
    r"|--?suppress-(stack-size|double-demote|debug-info|async-bulk-multicast-advisory)-warning"
    r"|--position-independent-code|--sp-bounds-check",
}
_CUDAFE = {
    "": r"--diag_(suppress|error|warning|remark|once|default)=\w+|--(display_error_number|no_wrap_diagnostics)|-w"
}
_FATBIN = {"": r"--?compress-all|--?no-compress|--compress=(true|false)|--compress-mode=[a-z]+"}

_NVLINK = {"": r"-v|--verbose|-w|--disable-warnings|-Werror|--warning-as-error|--suppress-(arch|stack-size)-warning"}

_PASSED_ON = {
    **dict.fromkeys(_FLAGS["PASS_ON"], _HOST),
    "-Xptxas": _PTXAS,
    "--ptxas-options": _PTXAS,
    "-Xcudafe": _CUDAFE,
    "--Xcudafe": _CUDAFE,
    "-Xfatbin": _FATBIN,
    "--fatbin-options": _FATBIN,
    "-Xnvlink": _NVLINK,
    "--nvlink-options": _NVLINK,
}
"""The options of nvcc that pass comma-separated flags to the program of a phase."""

_ABI_FLAG = (r"-[DU](_GLIBCXX_USE_CXX11_ABI|TORCH_EXTENSION_NAME)\b.*", "the rules define it for each variant")
_LTO_FLAG = (r"-f(no-)?(fat-)?lto(-[a-z-]+)?(=[\w-]+)?", "each file is compiled to machine code on its own")
_LINK_FLAG = (r"-[lL][^\s,]+|-Wl,.*|-shared|-rdynamic|-static-lib(gcc|stdc\+\+)", "nothing is linked in a compile")
_OUTPUT_FLAG = (
    r"-save-temps(=[a-z]+)?|-MM?D?|-MP|-pipe|-v|--verbose|-fstack-usage|-f(no-)?record-gcc-switches|-Rpass\S*",
    "its output is of no use here",
)

_IGNORED_CXX = (
    _ABI_FLAG,
    _LTO_FLAG,
    (r"-f(no-)?(pic|PIC|pie|PIE)", "the rules compile for a shared library"),
    (r"-fvisibility=(default|internal|protected)", "only the module's entry is exported"),
    _LINK_FLAG,
    _OUTPUT_FLAG,
    (_GCC_CODE, "clang, which compiles these sources, has no such flag"),
)
_IGNORED_CUDA = (
    _ABI_FLAG,
    (r"--?allow-unsupported-compiler", "the host compiler belongs to the toolchain"),
    (
        r"-Xlinker=.*|--linker-options=.*|--?cudart=[a-z]+|-L[^\s,]+|-l(?!to$|ib$|ink$)[^\s,]+",
        "nothing is linked in a compile",
    ),
    (r"--?(keep|keep-dir=.*|save-temps)|-v|--verbose|-MM?D?|-MP", "its output is of no use here"),
)
_IGNORED_HIP = (
    *_IGNORED_CXX,
    (r"--(no-)?offload-compress|-parallel-jobs=\d+", "the rules decide how code is bundled"),
)
"""The ignored flags, which upstream's builder accepts: a pattern of the complete flag, and why it has no meaning
here."""

# nvcc splits flags that it passes on at commas and writes them into its commands without quotes.
_SPLIT = r"""[\s"'$`\\;&|<>()]"""

_ADVICE = (
    (r"-[DU](TORCH_TARGET_VERSION)\b", "set `stable-abi` in [torch]"),
    (rf"-[DU]({_DECIDED})", "the rules define this name"),
    (
        r"-[DU](?![A-Za-z_])",
        "a macro is called by letters; nvcc splits definitions at each comma outside of double quotes",
    ),
    (r"-[DU].*[$`\\]", "nvcc cannot take `$`, a backquote or a backslash in a definition; write it in a header"),
    (r"-(I|isystem|iquote|-include-path)", "list the directory in `include`"),
    (r"-include|@", "include the file from the source"),
    (r"-?-(gencode|arch|code|gpu-)", "list the archs in `cuda-capabilities`"),
    (r"--(no-)?offload|-mcpu=gfx", "list the archs in `rocm-archs`"),
    (_FLAGS["HIP_RELOCATABLE"], "device code of HIP is not linked: define what a kernel calls in its own file"),
    (rf"({_RELOCATABLE})(=|$)", "write `-rdc=true` or `-rdc=false`"),
    (rf"({_any_of(*_FLAGS['DEVICE_LINK'])})$", "the rules link device code: give `-rdc=true` alone"),
    (r"-ewp|--extensible-whole-program", "give `-rdc=true`: all device code of an extension is linked"),
    (
        r"-f(pass-)?plugin|-wrapper|-B|--?specs|-fno-integrated",
        "a flag cannot load a program or a plugin",
    ),
    (r"-?-(ccbin|compiler-bindir)", "the host compiler belongs to the toolchain"),
    (
        r"-o|-c$|-dw$|--device-w$|-S$|-E$|-?-(output|objtemp|keep|save-temps)|-save-temps|-fdump|-M",
        "the rules decide the output",
    ),
    (r"-f(time-trace|stack-usage|save-|.*-record-file|proc-stat)", "the rules decide the output"),
    (r"-f(test-coverage|profile|cs-profile|auto-profile|memory-profile)", "a flag cannot read or write a profile"),
    (r"-G|--device-debug", "it produces slow code for debuggers; use `driver run --debug`"),
    (r"-src-in-ptx|--source-in-ptx", "it reads the source again, long after preprocessing; -lineinfo names its lines"),
    (r"-fopenmp=", "write `-fopenmp`: the runtime is torch's, which is gcc's"),
    (r"-fsanitize", "a variant is loaded into a Python without a sanitizer runtime"),
    (_any_of(*_FLAGS["TO_LINKER"]), "a kernel links nothing but torch and the CUDA runtime"),
    (r"-m.*=native", "name the instruction set: the result must run on other machines"),
    (r"-m(abi|32|x32|16)\b", "the rules decide the ABI"),
)
_NO_QUOTES = "nvcc passes it on without quotes: one flag in each string or between commas, no blanks and no quotes"


def read_cxx_flags(findings: Findings, flags: Texts) -> Texts:
    """The flags for C++ that are passed on; collects notes for ignored flags, BAD_FLAG for the others.

    The next flag is the value of a lone `-D`, `-U`, `-l` or `-L`.
    """
    key = "cxx-flags"
    joined = tuple(_joined(findings, key, flags))
    admitted = _OPENMP_CPP if asks_for_openmp(values(joined)) else _CPP
    return tuple(flag for flag in joined if _is_passed_on(findings, key, flag, admitted, _IGNORED_CXX))


def _joined(findings: Findings, key: str, flags: Texts) -> Iterator[Text]:
    """Flags, those of `_LONE` together with their values."""
    for words in _complete(findings, key, flags, _LONE.__contains__):
        yield words[0]._replace(value="".join(values(words)))


def _complete(findings: Findings, key: str, flags: Texts, takes: Callable[[str], bool]) -> Iterator[Texts]:
    """The same as `with_values`; collects BAD_FLAG for a last flag that lacks its value, and leaves it out."""
    for words in with_values(flags, takes):
        if len(words) == 1 and takes(words[0].value):
            findings.add(Code.BAD_FLAG, f"`{words[0].value}` in {key} lacks its value", words[0].span)
        else:
            yield words


def with_values(flags: Texts, takes: Callable[[str], bool]) -> Iterator[Texts]:
    """Flags, each alone or together with the next one if that is its value.

    Args:
        flags: the flags of a compiler.
        takes: whether the next flag is the value of a flag.
    """
    left = iter(flags)
    for flag in left:
        yield (flag, *(islice(left, 1) if takes(flag.value) else ()))


def read_cuda_flags(findings: Findings, flags: Texts) -> Texts:
    """The same for nvcc, some of whose flags have the next one as their value."""
    kept: list[Text] = []
    for words in _complete(findings, "cuda-flags", flags, _takes_next):
        first, flag = words[0], words[-1]
        joint = "" if re.fullmatch("-[DUlL]", first.value) else "="
        word = flag._replace(value=joint.join(values(words)))
        name, equals, value = word.value.partition("=")
        if name in _PASSED_ON and equals:
            parts = _passed_on_parts(findings, name, flag, value)
            if parts == value:
                kept += words
            elif parts:
                kept.append(flag._replace(value=f"{name}={parts}"))
        elif re.fullmatch("-f(no-)?openmp", word.value):
            kept.append(flag._replace(value=f"{_FLAGS['PASS_ON'][0]}={word.value}"))
        elif len(definitions := _definitions(word.value)) > 1:
            kept += _kept_definitions(findings, word, definitions)
        elif _is_passed_on(findings, "cuda-flags", word, _CUDA, _IGNORED_CUDA, " ".join(values(words))):
            kept += words
    return tuple(kept)


def _takes_next(flag: str) -> bool:
    """Whether the next flag is the value of an option of nvcc."""
    return flag in _PASSED_ON or re.fullmatch(_TAKER, flag) is not None


def _definitions(flag: str) -> list[str]:
    """The definitions in a -D or -U of nvcc, which splits only at commas outside of double quotes."""
    if flag[:2] not in {"-D", "-U"}:
        return []
    parts = re.findall(r"""(?:"[^"]*"|[^,])+""", flag[2:])
    return [flag[:2] + part.strip() for part in parts if part.strip()]


def _kept_definitions(findings: Findings, flag: Text, definitions: Sequence[str]) -> Iterator[Text]:
    """The definitions of a flag that are passed on, each as a separate flag; collects errors about the others."""
    bad = []
    for definition in definitions:
        if _matches(_CUDA, definition):
            yield flag._replace(value=definition)
        elif why := _why_ignored(_IGNORED_CUDA, definition):
            _note_ignored(findings, "cuda-flags", flag, definition, why)
        else:
            bad.append(definition)
    if bad:
        _refuse(findings, "cuda-flags", flag, bad)


def _passed_on_parts(findings: Findings, name: str, flag: Text, value: str) -> str:
    """The flag with the part of its value that nvcc's option `name` passes on; empty if nothing remains."""
    ignored = _IGNORED_CXX if _PASSED_ON[name] is _HOST else ()
    bad, left = [], []
    for part in value.split(","):
        if not re.search(_SPLIT, part) and _matches(_PASSED_ON[name], part):
            left.append(part)
        elif why := _why_ignored(ignored, part):
            _note_ignored(findings, "cuda-flags", flag, part, why)
        else:
            bad.append(part)
    if bad:
        _refuse(findings, "cuda-flags", flag, bad)
    return ",".join(left)


def read_hip_flags(findings: Findings, flags: Texts) -> Texts:
    """The same for HIP; the next flag is also the value of `-mllvm`."""
    kept: list[Text] = []
    for words in _complete(findings, "hip-flags", tuple(_joined(findings, "hip-flags", flags)), _MLLVM.__eq__):
        flag = words[-1]
        if words[0].value != _MLLVM:
            kept += words if _is_passed_on(findings, "hip-flags", flag, _HIP, _IGNORED_HIP) else ()
        elif re.fullmatch(_LLVM, flag.value, re.ASCII):
            kept += words
        else:
            _refuse(findings, "hip-flags", flag, [flag.value])
    return tuple(kept)


def _is_passed_on(  # noqa: PLR0913  (its position, and the patterns)
    findings: Findings,
    key: str,
    flag: Text,
    admitted: Mapping[str, str],
    ignored: Sequence[tuple[str, str]],
    spelled: str = "",
) -> bool:
    """Whether a flag, possibly `spelled` differently, is passed on; collects a note if it is ignored, else BAD_FLAG."""
    if _matches(admitted, flag.value):
        return True
    spelled = spelled or flag.value
    if why := _why_ignored(ignored, flag.value):
        _note_ignored(findings, key, flag, spelled, why)
    else:
        _refuse(findings, key, flag._replace(value=spelled), [flag.value])
    return False


def _why_ignored(ignored: Sequence[tuple[str, str]], flag: str) -> str:
    """Why a flag has no meaning here; "" if it is not ignored."""
    return next((why for pattern, why in ignored if re.fullmatch(pattern, flag, re.ASCII)), "")


def _note_ignored(findings: Findings, key: str, flag: Text, part: str, why: str) -> None:
    findings.note(f"the flag `{part}` in {key} is ignored: {why}", flag.span, Code.BAD_FLAG)


def _matches(patterns: Mapping[str, str], flag: str) -> bool:
    return re.fullmatch(patterns.get(flag[:2], patterns[""]), flag, re.ASCII) is not None


def _refuse(findings: Findings, key: str, flag: Text, parts: Sequence[str]) -> None:
    """Collect BAD_FLAG for a flag, with help for its first part that has a help."""
    advice = next((advice for part in parts for pattern, advice in _ADVICE if re.match(pattern, part)), "")
    if any(re.search(_SPLIT, part) for part in parts) and key == "cuda-flags" and not flag.value.startswith("-D"):
        advice = _NO_QUOTES
    findings.add(Code.BAD_FLAG, f"the flag `{flag.value}` is not admitted in {key}", flag.span, advice=advice)
