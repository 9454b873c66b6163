"""Which compiler flags are admitted: what kernels use, and nothing that names a file, a program or the machine."""

from __future__ import annotations

import pytest

from py_driver.errors import Code
from py_driver.manifest.flags import asks_for_openmp, check_cuda_flags, check_cxx_flags, check_hip_flags
from py_driver.manifest.locate import Source
from py_driver.manifest.model import Located
from py_driver.manifest.section import Findings

SPAN = Source("build.toml", "").span(0, 1)


@pytest.mark.parametrize(
    "flag",
    ["-fplugin=x.so", "-fplugin-arg-x=1", "-fpass-plugin=x.so", "@file", "-include", "-wrapper", "-o", "-I/usr/include",
     "-march=native", "-mtune=native", "-Wl,-rpath,/x", "-Wa,-x", "-Wp,-x", "-specs=x", "-B/x", "x.o", "-lfoo", "-L/x",
     "--sysroot=/", "-fuse-ld=/x", "-fdebug-prefix-map=a=b", "-fdump-tree-all", "-save-temps", "-x",
     "-fsanitize=address", "-fsyntax-only", "-fno-pic", "-m32", "-mllvm", "-mrelocation-model",
     "-fno-integrated-as", "-fno-PIC", "-fPIE", "-fauto-profile=x", "-fbasic-block-sections=list=x", "-ftime-trace=x",
     "-foptimization-record-file=x", "-fproc-stat-report=x", "-fstack-usage", "-ftest-coverage", "-flto", "-fno-lto",
     "-fcs-profile-generate=d", "-fmemory-profile=d", "-fvisibility=default", "-fabi-version=2", "-fno-such-flag",
     "-D_GLIBCXX_USE_CXX11_ABI=0", "-U_GLIBCXX_USE_CXX11_ABI", "-DTORCH_TARGET_VERSION=1", "-mabi=ms", "-mcmodel=large",
     "-mno-such", "-march=native ", "-fopenmp=libomp", "-falign-loops=\u0663", "-ffile-prefix-map=a=b"],
)  # fmt: skip
def test_flags_that_are_refused(flag: str) -> None:
    for check in (check_cxx_flags, check_cuda_flags):
        findings = Findings({}, SPAN)
        check(findings, (Located(value=flag, span=SPAN),))
        assert [one.code for one in findings.diagnostics()] == [Code.BAD_FLAG]


@pytest.mark.parametrize("flag", ["-fopenmp", "-fno-openmp", "-lgomp"])
def test_openmp_is_for_cpp_files_alone(flag: str) -> None:
    text = (Located(value=flag, span=SPAN),)
    for check, wanted in ((check_cxx_flags, 0), (check_cuda_flags, 1), (check_hip_flags, 1)):
        findings = Findings({}, SPAN)
        check(findings, text)
        assert len(findings.diagnostics()) == wanted
    findings = Findings({}, SPAN)
    check_cuda_flags(findings, (Located(value="-Xcompiler", span=SPAN), *text))
    [refused] = findings.diagnostics()
    assert "-fno" in flag or "move that code to a .cpp file" in refused.help


@pytest.mark.parametrize(
    ("flags", "asked"),
    [
        ([], False),
        (["-fopenmp-simd", "-mavx512f"], False),
        (["-O3", "-fopenmp"], True),
        (["-fopenmp", "-fno-openmp"], False),
        (["-fno-openmp", "-fopenmp"], True),
        (["-lgomp"], True),
    ],
)
def test_flags_that_ask_for_openmp(flags: list[str], asked: bool) -> None:  # noqa: FBT001  (a parameter of the test)
    assert asks_for_openmp(flags) is asked


@pytest.mark.parametrize("flag", ["-DX=$(id)", "-DX=`id`", "-DX=a\\", "-DX=$HOME", '-Xptxas=a"b'])
def test_cuda_flags_that_a_shell_would_read_are_refused(flag: str) -> None:
    findings = Findings({}, SPAN)
    check_cuda_flags(findings, (Located(value=flag, span=SPAN),))
    assert [one.code for one in findings.diagnostics()] == [Code.BAD_FLAG]


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
        ["-Xfatbin", "-compress-all", "-U__CUDA_NO_HALF_OPERATORS__", "-DCUTLASS_ENABLE_TENSOR_CORE_MMA=1"],
        ["-Xcompiler=-DX=1,-fno-math-errno,-mavx2", "--compiler-options", "-Wall,-fPIC", "-Werror=all-warnings"],
    ],
)  # fmt: skip
def test_cuda_flags_that_are_admitted(flags: list[str]) -> None:
    findings = Findings({}, SPAN)
    check_cuda_flags(findings, tuple(Located(value=flag, span=SPAN) for flag in flags))
    assert findings.diagnostics() == ()


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
    check_cuda_flags(findings, tuple(map(Located, flags, spans)))
    assert [(one.code, one.span) for one in findings.diagnostics()] == [(Code.BAD_FLAG, spans[wrong])]


@pytest.mark.parametrize(
    "flags",
    [["-rdc=true"], ["-rdc", "true"], ["--relocatable-device-code=true"], ["--relocatable-device-code", "true"],
     ["-rdc=TRUE"], ["-rdc="], ["-dc"], ["--device-c"], ["-dlink"], ["--device-link"], ["-dlto"], ["--dlink-time-opt"],
     ["-lto"], ["--lto"], ["-gen-opt-lto"], ["--gen-opt-lto"], ["-ewp"], ["--extensible-whole-program"],
     ["-Xptxas=-ewp"], ["-Xptxas", "-v,--extensible-whole-program"]],
)  # fmt: skip
def test_gpu_code_that_would_have_to_be_linked_is_refused(flags: list[str]) -> None:
    findings = Findings({}, SPAN)
    check_cuda_flags(findings, tuple(Located(value=flag, span=SPAN) for flag in flags))
    [found] = findings.diagnostics()
    assert found.code is Code.BAD_FLAG
    assert found.message.startswith(
        "the flag `" + (" ".join(flags) if "rdc" in flags[0] or "--rel" in flags[0] else "-")
    )
    assert found.help == "device code is not linked: define what a kernel calls in its own file, or in a header"


@pytest.mark.parametrize(
    "flags",
    [
        ["-rdc=false"],
        ["-rdc", "false"],
        ["--relocatable-device-code=false", "-O3"],
        ["--relocatable-device-code", "false"],
    ],
)
def test_gpu_code_of_each_file_for_itself_is_what_there_is(flags: list[str]) -> None:
    findings = Findings({}, SPAN)
    check_cuda_flags(findings, tuple(Located(value=flag, span=SPAN) for flag in flags))
    assert findings.diagnostics() == ()


@pytest.mark.parametrize(
    "flag",
    ["-O3", "-Ofast", "-mavx2", "-mavx512f", "-mavx512bf16", "-mfma", "-mf16c", "-mamx-tile", "-mno-avx512f",
     "-msse4.2", "-Wno-unused", "-march=x86-64-v3", "-march=sapphirerapids", "-mtune=generic",
     "-mprefer-vector-width=512", "-g",
     "-w", "-ffast-math", "-fno-math-errno", "-funroll-loops", "-ftree-vectorize", "-fno-strict-aliasing", "-fPIC",
     "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-ffp-contract=fast", "-ftemplate-depth=1024",
     "-fdiagnostics-color=always", "-fopenmp-simd", "-fno-exceptions", "-fno-builtin-memcpy", '-DX=$(id) "a b"',
     "-DTORCH_TARGET", "-DCUTLASS_DEBUG_TRACE_LEVEL=1", "-UNDEBUG"],
)  # fmt: skip
def test_cxx_flags_that_are_admitted(flag: str) -> None:
    findings = Findings({}, SPAN)
    check_cxx_flags(findings, (Located(value=flag, span=SPAN),))
    assert findings.diagnostics() == ()
