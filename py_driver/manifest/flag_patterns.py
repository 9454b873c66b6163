"""Patterns of compiler flags: the admitted ones, those without a meaning here, and the help about others."""

from __future__ import annotations

import re

from py_driver.matrix.facts import facts


def _any_of(*groups: str) -> str:
    """A pattern for one of the words of texts, each of which may be a pattern."""
    return "|".join(word for group in groups for word in group.split())


FLAGS = facts("flags")
_RELOCATABLE = _any_of(*FLAGS["RELOCATABLE"])
_LINKING = _any_of(*FLAGS["RELOCATABLE_ALONE"], *FLAGS["LINK_TIME_OPTIMIZATION"])
_THREADS = _any_of(*FLAGS["THREADS"])

# -f<name> and -fno-<name> that affect only the generated code, and that clang knows.
_CODE_SWITCHES = _any_of(
    "approx-func associative-math builtin(-[a-z]\\w*)? cx-fortran-rules cx-limited-range fast-math finite-loops",
    "finite-math-only honor-infinities honor-nans math-errno protect-parens reciprocal-math rounding-math",
    "signed-zeros trapping-math unsafe-math-optimizations",
    "gcse(-after-reload|-las|-sm)? inline(-[a-z-]+)? ivopts jump-tables modulo-sched",
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
    "aligned-new asm freestanding hosted implicit-templates keep-static-consts non-call-exceptions",
    "short-enums stack-clash-protection use-cxa-atexit verbose-asm",
)
# -f<name>=<value>, with the valid values.
_CODE_VALUES = (
    r"(align-(functions|jumps|labels|loops)|inline-limit|strict-flex-arrays|macro-backtrace-limit|message-length)=\d+"
    r"|(template-(depth|backtrace-limit)|constexpr-(depth|steps|backtrace-limit)|bracket-depth)=\d+"
    r"|(excess-precision|fp-contract|fp-model|fp-exception-behavior|complex-arithmetic|diagnostics-[a-z-]+)=[a-z-]+"
    r"|denormal-fp-math(-f32)?=[a-z,-]+|lax-vector-conversions=[a-z]+|visibility=hidden"
    r"|cf-protection(=(full|branch|return|none))?|aligned-(new|allocation)=\d+|template-depth-\d+"
    r"|trivial-auto-var-init=(zero|pattern|uninitialized)"
)
# The same of gcc, which clang does not know, or ignores although they change results.
_GCC_CODE = (
    r"-f(no-)?(crossjumping|diagnostics-show-caret|gcse-lm|gnu-unique|if-conversion2?|implicit-inline-templates|ipa-[a-z-]+"
    r"|move-loop-invariants|signaling-nans|single-precision-constant|split-loops|tree-(?!(slp-)?vectorize$)[a-z-]+)"
    r"|-fno-trapv|-felide-type|-fbuiltin-\w+|-f(constexpr-(loop|ops)-limit=\d+|vect-cost-model=[a-z-]+)"
)
# -m<name> and -mno-<name>: instruction sets of x86-64, and their use.
_INSTRUCTIONS = _any_of(
    "3dnowa? abm adx aes amx-\\w+ apxf avx avx2 avx10\\.\\d(-\\d+)? avx512\\w* avxifma avxneconvert avxvnni\\w* bmi2?",
    "cldemote clflushopt clwb crc32 cx16 f16c fma fma4 fsgsbase fxsr gfni lzcnt mmx movbe movdir64b movdiri mwaitx",
    "pclmul popcnt prfchw rdpid rdrnd rdseed sahf serialize sha sha512 sm3 sm4 sse sse2 sse3 sse4 sse4\\.1 sse4\\.2",
    "sse4a ssse3 tbm vaes vpclmulqdq vzeroupper xop xsave xsavec xsaveopt xsaves",
    "lwp rtm shstk 80387 ieee-fp omit-leaf-frame-pointer red-zone stackrealign",
)

# Prefixes of macros that the rules define, or that decide the ABI.
_DECIDED = (
    "_GLIBCXX_USE_CXX11_ABI|__GLIBC_MINOR__|TORCH_TARGET_VERSION|TORCH_EXTENSION_NAME"
    "|RULES_TORCH_KERNELS|torch_kernels_extension_name"
)
_DEFINITION = rf"-[DU](?!{_DECIDED})[A-Za-z_]"
_STANDARD = r"std=(c|gnu)\+\+[0-9][0-9a-z]"
_C_STANDARD = r"std=((c|gnu)[0-9][0-9a-z]|iso9899:[0-9x]+)"

_CXX = {
    "": rf"-O(\d|[sgz]|fast)?|{_DEFINITION}.*|--?({_STANDARD}|{_C_STANDARD})|-g((gdb)?[0-3]?|dwarf-[2-5])"
    r"|-p(edantic(-errors)?|thread)|-ansi|-trigraphs|-w|-W(?![lap],)[A-Za-z][\w+=-]*",
    "-f": rf"-f(no-)?({_CODE_SWITCHES})|-f({_CODE_VALUES})|-fPIC|-fpic",
    "-m": rf"-m(no-)?({_INSTRUCTIONS})|-m(arch|tune|cpu)=(?!native\b)[a-z0-9][\w.+-]*"
    r"|-m(64|prefer-vector-width=(\d+|none)|fpmath=sse|recip(=[\w,!:-]+)?)",
}
"""g++'s and clang's flags that only change how a translation unit is compiled, by the first two characters.

A pattern is compiled when a flag is compared with it: compiling all of them takes several milliseconds.
"""

CPP = {**_CXX, "-f": _CXX["-f"] + "|-f(no-)?openmp", "-l": "-lgomp"}
"""The flags of C++ files."""

OPENMP_CPP = {**CPP, "-f": f"{CPP['-f']}|{_GCC_CODE}"}
"""The flags of C++ files that ask for OpenMP: gcc, which has torch's OpenMP runtime, compiles them."""

HOST = {**_CXX, "-f": _CXX["-f"] + "|-f(no-)?openmp"}
"""The flags of host code in CUDA sources, whose OpenMP runs on torch's runtime too (rules/private/include/openmp.c)."""

CUDA = {
    "": rf"-O\d|--optimize=\d|-m64|--machine=64|{_DEFINITION}[^$`\\]*|--?{_STANDARD}"
    r"|-w|--disable-warnings|-lineinfo|--generate-line-info|-g|--?restrict"
    r"|--?(use_fast_math|extra-device-vectorization|extended-lambda|gen-opt-lto|expt-(relaxed-constexpr|extended-lambda))"
    r"|--?(ftz|prec-div|prec-sqrt|fmad|static-global-template-stub)=(true|false)"
    rf"|({_RELOCATABLE})=(true|false)|{_LINKING}|({_THREADS})=\d+"
    r"|--?(split-compile|maxrregcount|ftemplate-(depth|backtrace-limit))=\d+"
    r"|--?default-stream=(legacy|null|per-thread)"
    r"|--?(compress-mode=[a-z]+|no-compress)"
    r"|-res-usage|--resource-usage|-err-no|--(no-)?display-error-number"
    r"|--?diag-(suppress|error|warn)=[\w,-]+|--?Wno-[\w-]+|--?W(reorder|[a-z]+-[a-z-]+)|--?Werror=[a-z,-]+"
    r"|--?forward-unknown-(to-host-compiler|opts)",
}
"""nvcc's flags, after NVIDIA's nvcc manual."""

HIP = {
    **_CXX,
    "-f": _CXX["-f"]
    + r"|-f(no-)?(gpu-(flush-denormals-to-zero|approx-transcendentals)|hip-fp32-correctly-rounded-divide-sqrt)"
    r"|-f(no-)?openmp|-fno-gpu-rdc|-fgpu-(inline-threshold=\d+|default-stream=(legacy|per-thread))",
    "-m": rf"-m(no-)?({_INSTRUCTIONS})|-m(arch|tune)=(?!native\b)[a-z0-9][\w.+-]*|-m64"
    r"|-m(no-)?(cumode|tgsplit|unsafe-fp-atomics|wavefrontsize64|amdgpu-ieee)",
}
"""clang's flags for HIP, after its command line reference."""

MLLVM = "-mllvm"
LLVM = r"-amdgpu-[a-z0-9-]+=(true|false|\d+)|-enable-post-misched=[01]"
"""The options of LLVM's AMDGPU backend that `-mllvm` may pass."""

LONE = {
    **dict.fromkeys(("-D", "-U", "-l", "-L"), ""),
    "--param": "=",
    **dict.fromkeys(("-include", "-imacros", "-iquote", "-idirafter", "-x", "-B", "-o", "-MF", "-MT", "-MQ"), " "),
    **dict.fromkeys(("-Xassembler", "-Xclang", "-Xlinker"), " "),
}
"""The flags of C++ compilers whose value may be the next flag, with the text between both."""

FORWARDING = re.compile(r"--?forward-unknown-(to-host-compiler|opts)")
"""The options with which nvcc passes options that it does not know to the host compiler."""

LONG_NAMES = {"--define-macro": "-D", "--undefine-macro": "-U"}
"""Other names of options of nvcc."""

TAKER = (
    rf"{_THREADS}|{_RELOCATABLE}|--?(std|default-stream|split-compile|maxrregcount|diag-(suppress|error|warn)|ftz|prec-(div|sqrt)|fmad"
    r"|ftemplate-(depth|backtrace-limit)|compress-mode|cudart|keep-dir|Werror)|-Xlinker|--linker-options|-[DUlL]"
    r"|-include|--pre-include|-optf|--options-file|-ccbin|--compiler-bindir|--?x|-M[FTQ]|-o|--output-file"
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

PASSED_ON = {
    **dict.fromkeys(FLAGS["PASS_ON"], HOST),
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
_LINK_FLAG = (
    r"-[lL][^\s,]+|-Wl,.*|-s|-shared|-rdynamic|-static-lib(gcc|stdc\+\+)|-fuse-ld=[a-z]+|-Wa,--noexecstack|-Xlinker .*",
    "nothing is linked in a compile",
)
_OUTPUT_FLAG = (
    r"-save-temps(=[a-z]+)?|-MM?D?|-MP|-pipe|-v|--verbose|-fstack-usage|-f(no-)?record-gcc-switches|-Rpass\S*"
    r"|-f(max-errors|error-limit)=\d+|-fopt-info\S*|-ftree-vectorizer-verbose=\d+|-ftime-report|-time|-H|-Q\S*"
    r"|-g(z(=\w+)?|split-dwarf|(no-)?(column-info|record-gcc-switches|strict-dwarf|pubnames))",
    "its output is of no use here",
)
_PATH_FLAG = (r"-f(debug|file|macro)-prefix-map=.*|-frandom-seed=.*", "no path of this machine gets into an object")
_TUNING_FLAG = (r"--param=.*", "it tunes gcc's optimizer")
_CONCEPTS_FLAG = (r"-fconcepts(-ts)?", "C++20 has concepts")

IGNORED_CXX = (
    _ABI_FLAG,
    _LTO_FLAG,
    (r"-f(no-)?(pic|PIC|pie|PIE)", "the rules compile for a shared library"),
    (r"-fvisibility=(default|internal|protected)", "only the module's entry is exported"),
    _LINK_FLAG,
    _OUTPUT_FLAG,
    _PATH_FLAG,
    _TUNING_FLAG,
    _CONCEPTS_FLAG,
    (_GCC_CODE, "clang, which compiles these sources, has no such flag"),
)
IGNORED_CUDA = (
    _ABI_FLAG,
    (r"--?allow-unsupported-compiler", "the host compiler belongs to the toolchain"),
    (
        r"-Xlinker=.*|--linker-options=.*|--?cudart=[a-z]+|-L[^\s,]+|-l(?!to$|ib$|ink$)[^\s,]+|--?shared"
        r"|--?forward-unknown-to-host-linker",
        "nothing is linked in a compile",
    ),
    (r"--?(keep|keep-dir=.*|save-temps)|-v|--verbose|-MM?D?|-MP", "its output is of no use here"),
)
IGNORED_HIP = (
    *IGNORED_CXX,
    (r"--(no-)?offload-compress|-parallel-jobs=\d+", "the rules decide how code is bundled"),
)
"""The ignored flags, which upstream's builder accepts: a pattern of the complete flag, and why it has no meaning
here."""

# nvcc splits flags that it passes on at commas and writes them into its commands without quotes.
SPLIT = r"""[\s"'$`\\;&|<>()]"""

ADVICE = (
    (r"-[DU](TORCH_TARGET_VERSION)\b", "set `stable-abi` in [torch]"),
    (rf"-[DU]({_DECIDED})", "the rules define this name"),
    (
        r"-[DU](?![A-Za-z_])",
        "a macro is called by letters; nvcc splits definitions at each comma outside of double quotes",
    ),
    (r"-[DU].*[$`\\]", "nvcc cannot take `$`, a backquote or a backslash in a definition; write it in a header"),
    (r"-(I|isystem|iquote|idirafter|-include-path)", "list the directory in `include`"),
    (r"-include|-imacros|--pre-include", "include the file from the source"),
    (r"@|-optf|--options-file", "list the flags of the file"),
    (r"-?-(gencode|arch|code|gpu-)", "list the archs in `cuda-capabilities`"),
    (r"--(no-)?offload|-mcpu=gfx", "list the archs in `rocm-archs`"),
    (FLAGS["HIP_RELOCATABLE"], "device code of HIP is not linked: define what a kernel calls in its own file"),
    (rf"({_RELOCATABLE})(=|$)", "write `-rdc=true` or `-rdc=false`"),
    (rf"({_any_of(*FLAGS['DEVICE_LINK'])})$", "the rules link device code: give `-rdc=true` alone"),
    (r"-ewp|--extensible-whole-program", "give `-rdc=true`: all device code of an extension is linked"),
    (
        r"-f(pass-)?plugin|-wrapper|-B|--?specs|-fno-integrated",
        "a flag cannot load a program or a plugin",
    ),
    (r"-?-(ccbin|compiler-bindir)", "the host compiler belongs to the toolchain"),
    (
        r"-o(?!penmp)|-c$|-dw$|--device-w$|-S$|-E$|-?-(output|objtemp|keep|save-temps)|-save-temps|-fdump|-M",
        "the rules decide the output",
    ),
    (r"-f(time-trace|stack-usage|save-|.*-record-file|proc-stat)", "the rules decide the output"),
    (r"-f(test-coverage|profile|cs-profile|auto-profile|memory-profile)", "a flag cannot read or write a profile"),
    (r"-G|--device-debug", "it produces slow code for debuggers; use `driver run --debug`"),
    (r"-src-in-ptx|--source-in-ptx", "it reads the source again, long after preprocessing; -lineinfo names its lines"),
    (r"-f?openmp", "write `-fopenmp`: the runtime is torch's, which is gcc's"),
    (r"-fsanitize", "a variant is loaded into a Python without a sanitizer runtime"),
    (_any_of(*FLAGS["TO_LINKER"]), "a kernel links nothing but torch and the CUDA runtime"),
    (r"-m.*=native", "name the instruction set: the result must run on other machines"),
    (r"-m(abi|32|x32|16)\b", "the rules decide the ABI"),
)
NO_QUOTES = "nvcc passes it on without quotes: one flag in each string or between commas, and no quotes"
