"""Which compiler flags are admitted: what kernels use, and nothing that names a file, a program or the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from py_driver.errors import Code
from py_driver.manifest.flags import read_cuda_flags, read_cxx_flags, read_hip_flags
from py_driver.manifest.gencode import take_gencode
from py_driver.manifest.linking import Linking, link_flags, linking_of
from py_driver.manifest.locate import Source
from py_driver.manifest.model import Located, values
from py_driver.manifest.section import Findings

if TYPE_CHECKING:
    from collections.abc import Callable

    from py_driver.manifest.model import Texts

SPAN = Source("build.toml", "").span(0, 1)


@pytest.mark.parametrize(
    "flag",
    ["-fplugin=x.so", "-fplugin-arg-x=1", "-fpass-plugin=x.so", "@file", "-include", "-wrapper", "-o", "-I/usr/include",
     "-march=native", "-mtune=native", "-Wa,-x", "-Wp,-x", "-specs=x", "-B/x", "x.o", "--sysroot=/",
     "-fuse-ld=/x", "-fdump-tree-all", "-x",
     "-fsanitize=address", "-fsyntax-only", "-m32", "-mllvm", "-mrelocation-model",
     "-fno-integrated-as", "-fauto-profile=x", "-fbasic-block-sections=list=x", "-ftime-trace=x",
     "-foptimization-record-file=x", "-fproc-stat-report=x", "-ftest-coverage",
     "-fcs-profile-generate=d", "-fmemory-profile=d", "-fabi-version=2", "-fno-such-flag",
     "-DTORCH_TARGET_VERSION=1", "-mabi=ms", "-mcmodel=large",
     "-mno-such", "-march=native ", "-fopenmp=libomp", "-falign-loops=\u0663"],
)  # fmt: skip
def test_flags_that_are_refused(flag: str) -> None:
    for check in (read_cxx_flags, read_cuda_flags):
        findings = Findings({}, SPAN)
        check(findings, (Located(value=flag, span=SPAN),))
        assert [diagnostic.code for diagnostic in findings.diagnostics()] == [Code.BAD_FLAG]


IGNORED = [
    ("-flto", "cxx"), ("-flto=thin", "cxx"), ("-ffat-lto-objects", "cxx"), ("-fno-pic", "cxx"), ("-fPIE", "cxx"),
    ("-fvisibility=default", "cxx"), ("-lfoo", "cxx"), ("-L/x", "cxx"), ("-Wl,-rpath,/x", "cxx"), ("-pipe", "cxx"),
    ("-fno-gnu-unique", "cxx"), ("-ftree-loop-vectorize", "cxx"), ("-fno-diagnostics-show-caret", "cxx"),
    ("-fif-conversion", "hip"), ("-fsingle-precision-constant", "cxx"), ("-fvect-cost-model=dynamic", "cxx"),
    ("-Xcompiler=-fno-split-loops,-fno-ipa-cp-clone", "cuda"), ("-fconstexpr-ops-limit=9", "cxx"),
    ("-save-temps", "cxx"), ("-D_GLIBCXX_USE_CXX11_ABI=0", "cxx"), ("-DTORCH_EXTENSION_NAME=x", "cxx"),
    ("-D_GLIBCXX_USE_CXX11_ABI=0", "cuda"), ("--allow-unsupported-compiler", "cuda"), ("-lcuda", "cuda"),
    ("-Xlinker=-s", "cuda"), ("--cudart=shared", "cuda"), ("--keep", "cuda"), ("-Xcompiler=-flto,-fPIE", "cuda"),
    ("--offload-compress", "hip"), ("-pipe", "hip"), ("-s", "cxx"), ("-gsplit-dwarf", "cxx"), ("-gz", "cxx"),
    ("-ffile-prefix-map=a=b", "cxx"), ("-fdebug-prefix-map=a=b", "cxx"), ("-fmax-errors=1", "cxx"),
    ("-fconcepts", "cxx"), ("--param=inline-unit-growth=100", "cxx"), ("-fuse-ld=gold", "cxx"), ("--shared", "cuda"),
]  # fmt: skip


@pytest.mark.parametrize(("flag", "kind"), IGNORED)
def test_flags_without_a_meaning_here_are_ignored(flag: str, kind: str) -> None:
    read = {"cxx": read_cxx_flags, "cuda": read_cuda_flags, "hip": read_hip_flags}[kind]
    findings = Findings({}, SPAN)
    kept = read(findings, tuple(Located(value=value, span=SPAN) for value in ("-O2", flag, "-DX=1")))
    assert [text.value for text in kept] == ["-O2", "-DX=1"]
    assert findings.diagnostics() == ()
    notes = findings.notes()
    parts = flag.partition("=")[2].split(",") if flag.startswith("-Xcompiler") else [flag]
    assert [note.message.partition("`")[2].partition("`")[0] for note in notes] == parts
    assert {note.code for note in notes} == {Code.BAD_FLAG}


def test_gcc_gets_its_own_flags() -> None:
    flags = ["-fopenmp", "-fno-gnu-unique", "-ftree-loop-vectorize", "-fvect-cost-model=dynamic"]
    findings = Findings({}, SPAN)
    kept = read_cxx_flags(findings, tuple(Located(value=value, span=SPAN) for value in flags))
    assert [text.value for text in kept] == flags
    assert (findings.diagnostics(), findings.notes()) == ((), ())


def test_ignored_values_go_with_their_flags_and_ignored_parts_alone() -> None:
    flags = [
        "-l",
        "cublas",
        "-L",
        "/x",
        "-Xlinker",
        "-s",
        "-t",
        "4",
        "-Xcompiler",
        "-O2,-flto",
        "--keep-dir",
        "x",
        "-Xcompiler",
        "-pipe",
        "-g",
    ]
    findings = Findings({}, SPAN)
    kept = read_cuda_flags(findings, tuple(Located(value=flag, span=SPAN) for flag in flags))
    assert [text.value for text in kept] == ["-t", "4", "-Xcompiler=-O2", "-g"]
    assert findings.diagnostics() == ()
    assert [note.message.partition(":")[0] for note in findings.notes()] == [
        f"the flag `{flag}` in cuda-flags is ignored"
        for flag in ("-l cublas", "-L /x", "-Xlinker -s", "-flto", "--keep-dir x", "-pipe")
    ]


@pytest.mark.parametrize(
    ("flags", "capabilities", "left"),
    [
        (["-O3", "-gencode", "arch=compute_90a,code=sm_90a", "-DX"], ["9.0a"], ["-O3", "-DX"]),
        (["--generate-code=arch=compute_100,code=[sm_100,compute_100]"], ["10.0+PTX"], []),
        (["-gencode=arch=compute_80,code=compute_80", "-gencode=arch=compute_80,code=compute_80"], ["8.0+PTX"], []),
        (["-gencode=arch=compute_80,code=sm_86"], [], ["-gencode=arch=compute_80,code=sm_86"]),
        (["-gencode", "-O3"], [], ["-gencode", "-O3"]),
        (["-gencode=arch=compute_90;id,code=sm_90"], [], ["-gencode=arch=compute_90;id,code=sm_90"]),
    ],
)
def test_gencode_adds_architectures(flags: list[str], capabilities: list[str], left: list[str]) -> None:
    findings = Findings({}, SPAN)
    found, others = take_gencode(findings, tuple(Located(value=flag, span=SPAN) for flag in flags))
    assert ([capability.value for capability in found], [other.value for other in others]) == (capabilities, left)
    assert findings.diagnostics() == ()
    assert {note.code for note in findings.notes()} == ({Code.BAD_FLAG} if capabilities else set())
    read_cuda_flags(findings, others)
    assert bool(findings.diagnostics()) == any("gencode" in text for text in left)


@pytest.mark.parametrize("flag", ["-fopenmp", "-fno-openmp"])
def test_openmp_of_host_code_is_passed_on(flag: str) -> None:
    for read, flags, kept in (
        (read_cxx_flags, [flag], [flag]),
        (read_cuda_flags, [flag], [f"-Xcompiler={flag}"]),
        (read_cuda_flags, ["-Xcompiler", flag], ["-Xcompiler", flag]),
        (read_cuda_flags, [f"--compiler-options={flag},-lgomp"], [f"--compiler-options={flag}"]),
        (read_hip_flags, [flag], [flag]),
    ):
        findings = Findings({}, SPAN)
        found = read(findings, tuple(Located(value=word, span=SPAN) for word in flags))
        assert [text.value for text in found] == kept
        assert findings.diagnostics() == ()


@pytest.mark.parametrize(
    ("flags", "kept", "ignored"),
    [
        (["-DX=1,_GLIBCXX_USE_CXX11_ABI=0"], ["-DX=1"], ["-D_GLIBCXX_USE_CXX11_ABI=0"]),
        (["-D", "X, TORCH_EXTENSION_NAME=evil,Y"], ["-DX", "-DY"], ["-DTORCH_EXTENSION_NAME=evil"]),
        (["-UX,_GLIBCXX_USE_CXX11_ABI"], ["-UX"], ["-U_GLIBCXX_USE_CXX11_ABI"]),
        (["-DX='\"',Y='\"'"], ["-DX='\"',Y='\"'"], []),
        (['-DX="a,_GLIBCXX_USE_CXX11_ABI=0"'], ['-DX="a,_GLIBCXX_USE_CXX11_ABI=0"'], []),
        (["-DX=1,,Y=2"], ["-DX=1", "-DY=2"], []),
        (["-DX=')',_GLIBCXX_USE_CXX11_ABI=0,Y='('"], ["-DX=')'", "-DY='('"], ["-D_GLIBCXX_USE_CXX11_ABI=0"]),
    ],
)
def test_nvcc_parts_definitions_at_commas(flags: list[str], kept: list[str], ignored: list[str]) -> None:
    findings = Findings({}, SPAN)
    found = read_cuda_flags(findings, tuple(Located(value=flag, span=SPAN) for flag in flags))
    assert [flag.value for flag in found] == kept
    assert findings.diagnostics() == ()
    assert [note.message.partition("`")[2].partition("`")[0] for note in findings.notes()] == ignored


@pytest.mark.parametrize(
    ("flag", "advice"),
    [
        ("-DX=1,TORCH_TARGET_VERSION=1", "stable-abi"),
        ("-DX=(1,TORCH_EXTENSION_NAME_IS_LINKED)", "the rules define"),
        ("-DX={1,2}", "comma"),
        ('-DX="a","b"', "comma"),
    ],
)
def test_definitions_after_a_comma_that_are_refused(flag: str, advice: str) -> None:
    findings = Findings({}, SPAN)
    read_cuda_flags(findings, (Located(value=flag, span=SPAN),))
    [found] = findings.diagnostics()
    assert (found.code, f"`{flag}`" in found.message, advice in found.help) == (Code.BAD_FLAG, True, True)


@pytest.mark.parametrize("kind", ["-D", "-U", "-Xcompiler=-D"])
@pytest.mark.parametrize(
    "name",
    ["TORCH_EXTENSION_NAME_IS_LINKED", "RULES_TORCH_KERNELS_STRING(A)=x", "torch_kernels_extension_name=x"],
)
def test_names_of_the_rules_are_refused(kind: str, name: str) -> None:
    readers = [read_cuda_flags] if kind.startswith("-X") else [read_cxx_flags, read_cuda_flags, read_hip_flags]
    for read in readers:
        findings = Findings({}, SPAN)
        assert read(findings, (Located(value=f"{kind}{name}", span=SPAN),)) == ()
        assert [diagnostic.code for diagnostic in findings.diagnostics()] == [Code.BAD_FLAG]


@pytest.mark.parametrize("flag", ["-DX=$(id)", "-DX=`id`", "-DX=a\\", "-DX=$HOME", '-Xptxas=a"b'])
def test_cuda_flags_that_a_shell_would_read_are_refused(flag: str) -> None:
    findings = Findings({}, SPAN)
    read_cuda_flags(findings, (Located(value=flag, span=SPAN),))
    assert [diagnostic.code for diagnostic in findings.diagnostics()] == [Code.BAD_FLAG]


@pytest.mark.parametrize(
    "flags",
    [
        ["-O3", "-std=c++17", '-DA="b c"', "-U__X__", "-lineinfo", "--use_fast_math", "-Xptxas", "-O3,-v"],
        ["--expt-relaxed-constexpr", "--expt-extended-lambda", "-maxrregcount=64", "-Xptxas=-v", "--threads=4"],
        ["-Xcompiler", "-fPIC,-O2", "-Xcompiler=-fno-strict-aliasing", "-static-global-template-stub=false"],
        ["--diag-suppress=20012,177", "-diag-suppress", "20012", "-Xcudafe", "--diag_suppress=177"],
        ["-Xptxas=-v,-O3,-dlcm=ca", "--ptxas-options=--verbose,--warn-on-local-memory-usage", "-Xptxas", "-v"],
        ["-Xptxas=--allow-expensive-optimizations=true", "--ptxas-options=--register-usage-level=10"],
        ["-t", "4", "--threads", "2", "-std", "c++17", "--ftemplate-backtrace-limit=0", "--resource-usage"],
        ["-D", "X=1", "-U", "Y", "-Werror", "all-warnings", "--compress-mode", "size"],
        ["-Xfatbin", "-compress-all", "-U__CUDA_NO_HALF_OPERATORS__", "-DCUTLASS_ENABLE_TENSOR_CORE_MMA=1"],
        ["-Xcompiler", "-Wall -O2", "-Xcudafe", "--diag_suppress=177 --display_error_number", "-m64", "-O4"],
        ["-Xcompiler=-DX=1,-fno-math-errno,-mavx2", "--compiler-options", "-Wall,-fPIC", "-Werror=all-warnings"],
    ],
)  # fmt: skip
def test_cuda_flags_that_are_admitted(flags: list[str]) -> None:
    findings = Findings({}, SPAN)
    read_cuda_flags(findings, tuple(Located(value=flag, span=SPAN) for flag in flags))
    assert findings.diagnostics() == ()


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        (["--define-macro", "X=1", "--define-macro=Y", "--undefine-macro=Z"], ["-D", "X=1", "-DY", "-UZ"]),
        (["-Xcompiler", " -Wall  -O2 "], ["-Xcompiler=-Wall,-O2"]),
        (['-DNAME=\\"a b\\"', '-DNAME="a b"'], ['-DNAME="a b"', '-DNAME="a b"']),
        (
            ["--forward-unknown-to-host-compiler", "-Wall", "-mavx2", "-O2", "-pipe"],
            ["--forward-unknown-to-host-compiler", "-Xcompiler=-Wall", "-Xcompiler=-mavx2", "-O2"],
        ),
        (["-forward-unknown-opts", "-ffast-math"], ["-forward-unknown-opts", "-Xcompiler=-ffast-math"]),
    ],
)
def test_what_nvcc_reads_in_several_ways_has_one(flags: list[str], kept: list[str]) -> None:
    findings = Findings({}, SPAN)
    found = read_cuda_flags(findings, tuple(Located(value=flag, span=SPAN) for flag in flags))
    assert (values(found), findings.diagnostics()) == (tuple(kept), ())


@pytest.mark.parametrize(
    ("flag", "advice"), [("@file", "list the flags of the file"), ("-openmp", "write `-fopenmp`"), ("-iquote", "")]
)
def test_the_help_is_about_the_flag(flag: str, advice: str) -> None:
    findings = Findings({}, SPAN)
    read_cxx_flags(findings, (Located(value=flag, span=SPAN),))
    [diagnostic] = findings.diagnostics()
    assert diagnostic.help.startswith(advice)


@pytest.mark.parametrize("flag", ["-Wall", "-mavx2"])
def test_nvcc_does_not_know_flags_of_the_host_compiler(flag: str) -> None:
    findings = Findings({}, SPAN)
    read_cuda_flags(findings, (Located(value=flag, span=SPAN),))
    assert [diagnostic.code for diagnostic in findings.diagnostics()] == [Code.BAD_FLAG]


@pytest.mark.parametrize(
    ("flags", "wrong"),
    [
        (["-Xcompiler=-DX=1 -include /etc/passwd"], 0),
        (["-Xcompiler", "-UX -B/usr/bin -fplugin=/x.so"], 1),
        (["-Xcompiler=-O2,-fplugin=/x.so"], 0),
        (["-Xcompiler=-DX=1,-include,/etc/passwd"], 0),
        (["-Xcompiler", '-DX="a"'], 1),
        (["-Xcompiler=-DX='a'"], 0),
        (["-Xcompiler=-DX=a\\ -B/x"], 0),
        (["-Xcompiler=-DX=$(id)"], 0),
        (["-Xcompiler=-DX=`id`"], 0),
        (["-Xcompiler=-DX;id"], 0),
        (["-Xcompiler=-DX=1,"], 0),
        (["-Xcompiler="], 0),
        (["-Xptxas=--options-file=x"], 0),
        (["-Xptxas", "--options-file=x"], 1),
        (["-Xptxas=-v,-o,x"], 0),
        (["-Xptxas=--gpu-name=sm_90"], 0),
        (["-Xcudafe=--preinclude=x.h"], 0),
        (["-Xcudafe", "--diag_suppress=177 --preinclude=x.h"], 1),
        (["-Xfatbin=-image=x"], 0),
        (["-maxrregcount=\u0663\u0662"], 0),
        (["--threads=native"], 0),
        (["-threads=4"], 0),
        (["--t=4"], 0),
        (["-O3", "-G"], 1),
        (["--device-debug"], 0),
        (["-src-in-ptx"], 0),
        (["--threads", "-O3"], 1),
        (["--threads", "--threads"], 1),
        (["-Xptxas", "-Xptxas"], 1),
        (["-O3", "-Xptxas"], 1),
    ],
)
def test_what_nvcc_passes_on_is_looked_at(flags: list[str], wrong: int) -> None:
    findings = Findings({}, SPAN)
    spans = [SPAN._replace(line=number) for number in range(len(flags))]
    read_cuda_flags(findings, tuple(map(Located, flags, spans)))
    assert [(diagnostic.code, diagnostic.span) for diagnostic in findings.diagnostics()] == [
        (Code.BAD_FLAG, spans[wrong])
    ]


@pytest.mark.parametrize(
    ("flag", "advice"),
    [
        ("-rdc=TRUE", "write `-rdc=true` or `-rdc=false`"),
        ("-rdc=", "write `-rdc=true` or `-rdc=false`"),
        ("-dlink", "the rules link device code: give `-rdc=true` alone"),
        ("--device-link", "the rules link device code: give `-rdc=true` alone"),
        ("-ewp", "give `-rdc=true`: all device code of an extension is linked"),
        ("-Xptxas=--extensible-whole-program", "give `-rdc=true`: all device code of an extension is linked"),
        ("-Xnvlink=-lfoo", "a kernel links nothing but torch and the CUDA runtime"),
        ("-Xnvlink=--use-host-info", ""),
    ],
)
def test_flags_for_linking_device_code_that_are_refused(flag: str, advice: str) -> None:
    findings = Findings({}, SPAN)
    read_cuda_flags(findings, (Located(value=flag, span=SPAN),))
    [found] = findings.diagnostics()
    assert found.code is Code.BAD_FLAG
    assert found.help == advice


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["-rdc=true"], Linking(relocatable=True, optimized=False)),
        (["-rdc", "true", "-O3"], Linking(relocatable=True, optimized=False)),
        (["--relocatable-device-code=true"], Linking(relocatable=True, optimized=False)),
        (["--relocatable-device-code", "true"], Linking(relocatable=True, optimized=False)),
        (["-dc"], Linking(relocatable=True, optimized=False)),
        (["--device-c"], Linking(relocatable=True, optimized=False)),
        (["-dlto"], Linking(relocatable=True, optimized=True)),
        (["--lto", "-rdc=true"], Linking(relocatable=True, optimized=True)),
        (["--dlink-time-opt", "-gen-opt-lto"], Linking(relocatable=True, optimized=True)),
        (["-rdc=true", "-rdc=false"], Linking(relocatable=False, optimized=False)),
        (["-rdc", "false"], Linking(relocatable=False, optimized=False)),
        (["--relocatable-device-code=false", "-O3"], Linking(relocatable=False, optimized=False)),
        (["-Xnvlink", "-w"], Linking(relocatable=False, optimized=False)),
        ([], Linking(relocatable=False, optimized=False)),
    ],
)
def test_flags_that_ask_for_the_linking_of_device_code(flags: list[str], expected: Linking) -> None:
    findings = Findings({}, SPAN)
    kept = read_cuda_flags(findings, tuple(Located(value=flag, span=SPAN) for flag in flags))
    assert findings.diagnostics() == ()
    assert values(kept) == tuple(flags)
    assert linking_of(flags) == expected


def test_flags_that_change_what_linking_makes() -> None:
    flags = ["-O3", "-maxrregcount=32", "-Xptxas", "-v", "-rdc=true", "-g", "-Xnvlink=-w", "-lineinfo", "-DX=-g"]
    assert link_flags(flags) == ("-maxrregcount=32", "-Xptxas=-v", "-g", "-Xnvlink=-w")


def test_the_compression_of_sections_is_that_of_what_is_linked_of_them() -> None:
    flags = ["-Xfatbin", "-compress-all", "-rdc=true", "--compress-mode=size", "-no-compress", "--fatbin-options=-v"]
    assert link_flags(flags) == (
        "-Xfatbin=-compress-all",
        "--compress-mode=size",
        "-no-compress",
        "--fatbin-options=-v",
    )


@pytest.mark.parametrize("codes", ["lto_90", "[lto_90,sm_90]", "lto_90,sm_90"])
def test_code_for_link_time_optimization_is_an_architecture_and_a_flag(codes: str) -> None:
    flag = f"-gencode=arch=compute_90,code={codes}"
    found, left = take_gencode(Findings({}, SPAN), (Located(value=flag, span=SPAN),))
    assert (values(found), values(left)) == (("9.0",), ("-dlto",))


@pytest.mark.parametrize(
    ("flags", "kept", "said"),
    [
        (["-D", 'X="a b"', "-U", "Y", "-D", "-"], ['-DX="a b"', "-UY"], ["the flag `-D-` is not admitted in KEY"]),
        (["-O2", "-D"], ["-O2"], ["`-D` in KEY lacks its value"]),
        (["-include", "f.h", "-O2"], ["-O2"], ["the flag `-include f.h` is not admitted in KEY"]),
        (["--param", "inline-unit-growth=9", "-Xlinker", "-s"], [], []),
        (["-l", "m", "-L", "lib", "-D", "TORCH_EXTENSION_NAME=x"], [], []),
    ],
)
@pytest.mark.parametrize(("read", "key"), [(read_cxx_flags, "cxx-flags"), (read_hip_flags, "hip-flags")])
def test_a_value_may_be_the_next_flag(
    read: Callable[[Findings, Texts], Texts], key: str, flags: list[str], kept: list[str], said: list[str]
) -> None:
    findings = Findings({}, SPAN)
    left = read(findings, tuple(Located(value=flag, span=SPAN) for flag in flags))
    assert [text.value for text in left] == kept
    messages = [diagnostic.message for diagnostic in findings.diagnostics()]
    assert messages == [message.replace("KEY", key) for message in said]


@pytest.mark.parametrize(
    "flag",
    ["-O3", "-Ofast", "-mavx2", "-mavx512f", "-mavx512bf16", "-mfma", "-mf16c", "-mamx-tile", "-mno-avx512f",
     "-msse4.2", "-Wno-unused", "-march=x86-64-v3", "-march=sapphirerapids", "-mtune=generic",
     "-mprefer-vector-width=512", "-g", "-ggdb3", "-gdwarf-4", "-fcf-protection=full",
     "-w", "-ffast-math", "-fno-math-errno", "-funroll-loops", "-ftree-vectorize", "-fno-strict-aliasing", "-fPIC",
     "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-ffp-contract=fast", "-ftemplate-depth=1024",
     "-fdiagnostics-color=always", "-fopenmp-simd", "-fno-exceptions", "-fno-builtin-memcpy", '-DX=$(id) "a b"',
     "--std=c++17", "-std=c11", "-std=gnu99", "-pedantic-errors", "-O4", "-ftemplate-depth-900", "-fshort-enums",
     "-DTORCH_TARGET", "-DCUTLASS_DEBUG_TRACE_LEVEL=1", "-UNDEBUG"],
)  # fmt: skip
def test_cxx_flags_that_are_admitted(flag: str) -> None:
    findings = Findings({}, SPAN)
    read_cxx_flags(findings, (Located(value=flag, span=SPAN),))
    assert findings.diagnostics() == ()
