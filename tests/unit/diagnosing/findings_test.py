"""What compilers really printed, in the files of `said/`: each thing once, at the author's path, in which variants."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tree import write_files

from py_driver.actions.author_paths import AuthorPaths, BuiltProject
from py_driver.actions.phases import phases, work_of
from py_driver.actions.workspace import Workspace
from py_driver.bazel.events import Action
from py_driver.diagnosing.compiler_text import Severity, parse
from py_driver.diagnosing.findings import Finding, Telling, findings, text_of
from py_driver.matrix.releases import Releases
from py_driver.plan.plan import plan_directory

RELOCATABLE = ": that requires relocatable device code (`-rdc=true`)"
OF_HIP = ": that requires relocatable device code, which is linked only for CUDA"
SAID = Path(__file__).with_name("said")
CU130, CU132 = "torch213-cxx11-cu130-x86_64-linux", "torch213-cxx11-cu132-x86_64-linux"
CPU = "torch213-cxx11-cpu-x86_64-linux"
FILES = {
    "build.toml": """\
[general]
name = "oops"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cpu", "cuda", "rocm"]
[torch]
src = ["torch-ext/binding.cpp"]
[kernel.one]
backend = "cpu"
depends = []
src = ["csrc/one.cpp", "csrc/one.h", "csrc/deep/er.h"]
[kernel.two]
backend = "cuda"
depends = []
src = ["csrc/two.cu", "csrc/two.cuh", "csrc/three.cu"]
cuda-capabilities = ["8.0", "9.0"]
[kernel.amd]
backend = "rocm"
depends = []
src = ["csrc/two.cu", "csrc/two.cuh"]
rocm-archs = ["gfx942"]
""",
    "csrc/one.cpp": '#include "one.h"\n\nint one() {\n    int unused = 3;\n    return twice(1);\n}\n',
    "csrc/one.h": '#pragma once\n#include "deep/er.h"\nint one();\n',
    "csrc/deep/er.h": "#pragma once\ntemplate <class T> T twice(T t) { return t + t.nothing(); }\n",
    "csrc/two.cu": (
        '#include "two.cuh"\n\n__global__ void two(int* out) {\n    int never;\n    *out = helper(2) + missing;\n}\n'
    ),
    "csrc/two.cuh": "#pragma once\ntemplate <class T> __device__ T helper(T x) { return x.nothing(); }\n",
    "csrc/three.cu": "\n",
    "torch-ext/binding.cpp": '\n\n\nint add(torch::Tensor a) { return at::add(a, "x"); }\nREGISTER_EXTENSION(X)\n',
    "torch-ext/oops/__init__.py": "\n",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BuiltProject:
    """The project as one calls it from the directory above."""
    write_files(tmp_path / "oops", FILES)
    monkeypatch.chdir(tmp_path)
    plan = plan_directory(Path("oops"), Releases())
    chosen = [variant for variant in plan.variants if variant.name.startswith("torch213-") and variant.default]
    workspace = Workspace(root=Path("/cache/w"), package="projects/oops")
    return BuiltProject(directory=Path("oops"), plan=plan, chosen=chosen, workspace=workspace)


def action(  # noqa: PLR0913  (what it is, and what differs from a usual one)
    mnemonic: str, made: str, said: str, *, ok: bool = False, code: int = 1, config: str = "k8"
) -> Action:
    """An action of the project; `said` is a file of `said/`, or the text itself."""
    path = SAID / f"{said}.txt"
    target = made.partition(".objects/")[0].partition(".parts/")[0]
    return Action(
        output=f"bazel-out/{config}/bin/projects/oops/{made}",
        label=f"//projects/oops:{target}",
        mnemonic=mnemonic,
        succeeded=ok,
        exit_code=0 if ok else code,
        command=(),
        text=said if not said or "\n" in said or not path.is_file() else path.read_text(encoding="utf-8"),
    )


def found(project: BuiltProject, *actions: Action, **variants: list[str]) -> list[Finding]:
    """What the actions said; `variants` are those of a configuration."""
    of = {entry.output: variants.get(entry.output.split("/")[1], []) for entry in actions}
    return findings(actions, AuthorPaths([project]), of)


ONE = "one.objects/csrc/one.cpp.o"
CICC = "two.objects/csrc/two.cu.phases/{}/device.ptx"


def test_clang(project: BuiltProject) -> None:
    error, warning = found(project, action("KernelCxxCompile", ONE, "clang"))
    assert text_of(error, Telling()).splitlines() == [
        "In file included from oops/csrc/one.cpp:1:",
        "In file included from oops/csrc/one.h:2:",
        "oops/csrc/deep/er.h:2:47: error: member reference base type 'int' is not a structure or union",
        "    2 | template <class T> T twice(T t) { return t + t.nothing(); }",
        "      |                                              ~^~~~~~~~",
        "oops/csrc/one.cpp:5:12: note: in instantiation of function template specialization 'twice<int>' "
        "requested here",
        "    5 |     return twice(1);",
        "      |            ^",
        "  (compiling oops/csrc/one.cpp)",
    ]
    assert (error.file, error.line, error.column) == ("oops/csrc/deep/er.h", 2, 47)
    assert (warning.severity, warning.line, warning.column) == (Severity.WARNING, 4, 9)
    assert Path(error.file).is_file()


@pytest.mark.parametrize(("line", "column"), [("return /* o */ no; // o", 12), ("result /* o */ no;", 0)])
def test_comments_that_became_blanks_keep_the_column(project: BuiltProject, line: str, column: int) -> None:
    (project.directory / "csrc" / "one.cpp").write_text(f"{line}\n")
    place = "bazel-out/cfg/bin/projects/oops/one.sources/projects/oops/csrc/one.cpp"
    quoted = "    1 | return         no;\n      |                ^~\n"
    said = f"{place}:1:12: error: use of undeclared identifier 'no'\n{quoted}"
    [error] = found(project, action("KernelCxxCompile", ONE, said))
    assert (error.file, error.line, error.column) == ("oops/csrc/one.cpp", 1, column)


def test_headers_of_sdks_have_short_names(project: BuiltProject) -> None:
    first, second, third = found(project, action("KernelCxxCompile", "binding_cpu.objects/x.cpp.o", "clang_torch"))
    assert [finding.column for finding in (first, second)] == [16, 35]
    assert "<libc>/bits/mathcalls-narrow.h:24:14: note: 'fadd' declared here" in second.lines
    assert (
        "<torch 2.13>/include/torch/headeronly/core/DeviceType.h:64:22: note: 'at::kCPU' declared here" in third.lines
    )


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("external/rules_torch_kernels~~toolchains~torch_kernels_cuda_13_0/include/a.h", "<cuda 13.0>/include/a.h"),
        ("external/rules_torch_kernels++toolchains+torch_kernels_cuda_13_0/include/a.h", "<cuda 13.0>/include/a.h"),
        (
            "external/rules_torch_kernels~~toolchains~torch_kernels_cc/gcc/include/c++/12/vector",
            "<libstdc++>/c++/12/vector",
        ),
        ("external/a~torch_kernels_torch_2_13_rocm/include/a.h", "<torch 2.13 rocm>/include/a.h"),
        ("external/rules_torch_kernels~/rules/private/include/registration.h", "<rules_torch_kernels>/registration.h"),
        ("/b/sandbox/linux-sandbox/3/execroot/_main/projects/oops/csrc/one.h", "oops/csrc/one.h"),
        ("bazel-out/cfg/bin/projects/oops/amd.hipified/csrc/two.cuh", "oops/csrc/two.cuh"),
        ("bazel-out/cfg/bin/projects/oops/gpu.sources/projects/oops/csrc/two.cuh", "oops/csrc/two.cuh"),
        ("csrc/two.cuh", "oops/csrc/two.cuh"),
        ("/usr/include/stdio.h", "/usr/include/stdio.h"),
    ],
)
def test_paths(project: BuiltProject, path: str, shown: str) -> None:
    assert AuthorPaths([project]).shown(path, project) == shown


def test_all_that_fail_alike_are_one(project: BuiltProject) -> None:
    """The device compiles of two architectures and two releases, and what the host's code says of the same."""
    device = [
        action("CudaDeviceCompile", CICC.format(arch), "cicc", config=config)
        for config in ("k130", "k132")
        for arch in ("90", "80")
    ]
    host = action("CudaFrontend", "two.objects/csrc/two.cu.phases/cudafe1.cpp", "cudafe", config="k132")
    warning, missing, header = found(project, *device, host, k130=[CU130], k132=[CU132])
    assert text_of(missing, Telling()).splitlines() == [
        'oops/csrc/two.cu:5:24: error: identifier "missing" is undefined',
        "      *out = helper(2) + missing;",
        "                         ^",
        f"  (in 2 variants: {CU130}, {CU132})",
    ]
    assert text_of(header, Telling()).splitlines() == [
        'oops/csrc/two.cuh:2: error: expression must have class type but it has type "int"',
        "  template <class T> __attribute__((device)) T helper(T x) { return x.nothing(); }",
        "                                                                    ^",
        '          detected during instantiation of "T helper(T) [with T=int]" at line 5 of oops/csrc/two.cu',
        f"  (compiling oops/csrc/two.cu; in 2 variants: {CU130}, {CU132}; for 8.0 and 9.0)",
    ]
    assert header.column == 0  # of the line with its macros expanded
    assert (warning.severity, warning.archs) == (Severity.WARNING, ("8.0", "9.0"))


def test_many_variants_are_counted_unless_all_are_asked_for(project: BuiltProject) -> None:
    names = [variant.name for variant in project.plan.variants][:5]
    wide = BuiltProject(
        directory=project.directory, plan=project.plan, chosen=project.plan.variants, workspace=project.workspace
    )
    [one, _] = found(wide, action("KernelCxxCompile", ONE, "clang"), k8=names[::-1])
    assert text_of(one, Telling()).endswith("\n  (compiling oops/csrc/one.cpp; in 5 variants)")
    assert text_of(one, Telling(stopped=True)).endswith("\n  (compiling oops/csrc/one.cpp; first seen in 5 variants)")
    assert text_of(one, Telling(verbose=True)).endswith(f"; in 5 variants: {', '.join(names)})")


def test_nvcc_as_a_whole(project: BuiltProject) -> None:
    [one] = found(project, action("KernelCudaCompile", "two.objects/csrc/two.cu.o", "nvcc"))
    assert one.lines[0] == 'oops/csrc/two.cu:5:24: error: identifier "missing" is undefined'


def test_hip(project: BuiltProject) -> None:
    """hipify has the compiler name the author's file and its lines."""
    header, source = sorted(
        found(project, action("HipDeviceCompile", "amd.objects/csrc/two.cu.phases/gfx942/device.s", "hip")),
        key=lambda one: one.file,
        reverse=True,
    )
    assert source.lines[0] == "oops/csrc/two.cu:5:24: error: use of undeclared identifier 'missing'"
    assert header.lines[:3] == (
        "In file included from oops/csrc/two.cu:1:",
        "oops/csrc/two.cuh:2: error: member reference base type 'int' is not a structure or union",
        "    2 | template <class T> __device__ T helper(T x) { return x.nothing(); }",
    )
    assert header.lines[3].startswith("oops/csrc/two.cu:5:12: note: in instantiation of ")
    assert header.archs == ("gfx942",)


def test_ptxas(project: BuiltProject) -> None:
    made = [
        action("CudaAssemble", f"two.objects/csrc/two.cu.phases/{arch}/device.cubin", "ptxas", code=255)
        for arch in ("80", "100a", "90")
    ]
    [one] = found(project, *made)
    assert text_of(one, Telling()).splitlines() == [
        f"oops/csrc/two.cu: error: `elsewhere` is device code that this source calls and does not define{RELOCATABLE}",
        "    ptxas fatal   : Unresolved extern function '_Z9elsewherei'",
        "    help: put its definition into a header that each source includes (`inline` or `static`), or what uses it "
        "into the source that has it; or compile both with `-rdc=true`, and their device code is linked",
        "  (for 8.0, 9.0 and 10.0a)",
    ]


def test_undefined_symbol_of_device_code(project: BuiltProject) -> None:
    made = "amd.objects/csrc/two.cu.phases/gfx942/device.co"
    [one] = found(project, action("HipLink", made, "lld_undefined"))
    assert one.lines[:3] == (
        f"oops/csrc/two.cu: error: `elsewhere(int)` is device code that this source calls and does not define{OF_HIP}",
        "    ld.lld: error: undefined symbol: elsewhere(int)",
        "    >>> referenced by oops/csrc/two.cu, of [kernel.amd]:(two(int*))",
    )


@pytest.mark.parametrize(
    ("mnemonic", "text", "head"),
    [
        (
            "CudaAssemble",
            "ptxas fatal   : Unresolved extern function '_ZN2ns6helperEf'\n",
            "oops/csrc/two.cu:5: error: `ns::helper` is device code that this source calls and does not define",
        ),
        (
            "CudaDeviceFrontend",
            "oops/csrc/two.cuh(2): warning #20044-D: extern declaration of the entity helper is treated as a static "
            "definition\n  extern __constant__ int helper;\n                          ^\n\nRemark: The warnings can be "
            'suppressed with "-diag-suppress <warning-number>"\n',
            "oops/csrc/two.cuh:2: warning: `helper` is a separate variable here, all zeros, not that of another source",
        ),
    ],
)
def test_device_code_of_another_source(project: BuiltProject, mnemonic: str, text: str, head: str) -> None:
    text = text.replace("oops/", "projects/oops/")
    ok = "warning" in text
    [one] = found(project, action(mnemonic, CICC.format("90"), text, ok=ok))
    assert one.lines[0] == f"{head}{RELOCATABLE}"
    assert one.lines[-1].startswith("    help: put its definition into a header")
    assert (one.line, "oops/csrc/two.cuh has it too" in "".join(one.lines)) == ((2, False) if ok else (5, True))


def test_device_code_that_no_linked_source_defines(project: BuiltProject) -> None:
    used = "/sandbox/7/execroot/_main/bazel-out/k8/bin/projects/oops/two.objects/csrc/two.cu.phases/80/device.cubin"
    made = "device_link.objects/device_code.phases/80/linked.cubin"
    for name, text, advice in [
        (
            "_Z7missingi",
            "`missing` is device code that no source with `-rdc=true` defines",
            "compile the source that defines it with `-rdc=true`, too",
        ),
        (
            "__cudaCDP2GetParameterBufferV2",
            "device code launches kernels, or is optimised at link time, and this toolkit has no libcudadevrt",
            "build for CUDA 13.0 or newer, on a machine with the CPU of the variant: others have no libcudadevrt",
        ),
    ]:
        [one] = found(
            project, action("CudaDeviceLink", made, f"nvlink error   : Undefined reference to '{name}' in '{used}'\n")
        )
        line = ":5" if "missing" in name else ""
        assert one.lines[0] == f"oops/csrc/two.cu{line}: error: {text}"
        assert one.lines[-1] == f"    help: {advice}"


def test_link_time_optimization_without_the_runtime(project: BuiltProject) -> None:
    made = "device_link.objects/device_code.phases/80/linked.cubin"
    [one] = found(project, action("CudaDeviceLink", made, "nvlink fatal   : expected libcudadevrt object\n"))
    assert one.lines[0].endswith("is optimised at link time, and this toolkit has no libcudadevrt")
    assert "CUDA 13.0 or newer" in one.lines[-1]


def test_device_variable_that_is_extern_and_defined(project: BuiltProject) -> None:
    text = "projects/oops/csrc/two.cu:2: error: redefinition of 'never'\n    2 | static int never;\n"
    [one] = found(project, action("CudaHostCompile", "two.objects/csrc/two.cu.o", text))
    assert one.message == "redefinition of 'never'"
    header = project.directory / "csrc" / "two.cuh"
    header.write_text("extern __constant__ int never;\n", encoding="utf-8")
    [one] = found(project, action("CudaHostCompile", "two.objects/csrc/two.cu.o", text))
    assert one.message.startswith(
        "`never` is a variable of device code that is declared `extern`: that requires relocatable"
    )


def test_duplicate_symbol_names_sources_and_sections(project: BuiltProject) -> None:
    [one] = found(project, action("KernelLink", f"{CPU}.parts/extension.so", "lld_duplicate"), k8=[CPU])
    assert text_of(one, Telling()).splitlines() == [
        "oops/torch-ext/binding.cpp: ld.lld: error: duplicate symbol: one()",
        ">>> defined at binding.cpp",
        ">>>            oops/torch-ext/binding.cpp, of [torch]:(one())",
        ">>> defined at one.cpp",
        ">>>            oops/csrc/one.cpp, of [kernel.one]:(.text+0x0)",
        f"  (in 1 variant: {CPU})",
    ]


def test_abi_check_names_sources(project: BuiltProject) -> None:
    [one] = found(project, action("KernelCheck", f"{CPU}.parts/checked", "check"), k8=[CPU, CU130])
    assert one.code.number == "E402"
    assert text_of(one, Telling()).splitlines() == [
        "error[E402]: the extension fails the ABI check: 3 findings",
        "  undefined-symbol: missing_function(int): no library defines it",
        "    referenced by oops/csrc/one.cpp, of [kernel.one] in one()",
        "    did you mean: missing_function(long), which oops/torch-ext/binding.cpp, of [torch] defines",
        "  undefined-symbol: ns::twice<int, f(long)>(int)::{lambda()#1}: no library defines it",
        "    referenced by oops/csrc/one.cpp, of [kernel.one] at oops/csrc/one.h:3 in one()",
        "  undefined-symbol: own::twice[abi:cxx11]<int>(int): no library defines it",
        "    referenced by oops/csrc/one.cpp, of [kernel.one] (line 5) in one()",
        "    referenced 4 more times",
        "    help: add the source that defines it to `src`, or remove the call",
        f"  (in 2 variants: {CPU}, {CU130})",
    ]


def test_gcc(project: BuiltProject) -> None:
    text = (SAID / "gcc.txt").read_text(encoding="utf-8").replace("oops/a.h", "oops/csrc/one.h")
    warning, error = found(project, action("KernelCxxCompile", ONE, text.replace("oops/one.cpp", "oops/csrc/one.cpp")))
    assert error.lines[:4] == (
        "In file included from oops/csrc/one.cpp:1:",
        "oops/csrc/one.h: In instantiation of ‘T twice(T) [with T = int]’:",  # noqa: RUF001  (gcc's quotes)
        "oops/csrc/one.cpp:4:17:   required from here",
        "oops/csrc/one.h:1: error: request for member ‘nothing’ in ‘t’, which is of non-class type ‘int’",  # noqa: RUF001
    )
    assert warning.lines[0] == "oops/csrc/one.cpp: In function ‘int one()’:"  # noqa: RUF001


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 137),
        ("step: killed by signal 9: cicc\n", 1),
        ("nvcc error   : 'cicc' died due to signal 9 (Kill signal)\n", 1),
        ("LLVM ERROR: out of memory\n", 134),
    ],
)
def test_killed(project: BuiltProject, text: str, code: int) -> None:
    [one] = found(project, action("CudaDeviceCompile", CICC.format("90"), text, code=code))
    assert one.lines[0] == "oops/csrc/two.cu: error: the device compile for 9.0 was killed, or ran out of memory"


def test_an_error_that_speaks_of_memory_is_none_of_memory(project: BuiltProject) -> None:
    text = "k/a.cpp:3:5: error: no std::bad_alloc\n    3 | catch (std::bad_alloc&)\n"
    [one] = found(project, action("KernelCxxCompile", ONE, text))
    assert one.message == "no std::bad_alloc"


@pytest.mark.parametrize(
    "last",
    [
        "k/a.cpp:3:5: internal compiler error: in foo",
        "k/a.cpp:3:5: sorry, unimplemented: x",
        "LLVM ERROR: Cannot select",
    ],
)
def test_errors_of_compilers_that_gave_up(project: BuiltProject, last: str) -> None:
    text = f"k/a.cpp:1:2: warning: w\n    1 | int x\n      |  ^\n{last}\n"
    those = found(project, action("KernelCxxCompile", ONE, text))
    assert sorted(finding.severity.value for finding in those) == ["error", "warning"]


def test_a_failure_after_a_warning_shows_all(project: BuiltProject) -> None:
    text = "k/a.cpp:1:2: warning: w\n    1 | int x\nsomething else entirely\n"
    [one] = [one for one in found(project, action("KernelCxxCompile", ONE, text)) if one.severity.value == "error"]
    assert "something else entirely" in one.lines


def test_long_lines_take_no_time(project: BuiltProject) -> None:
    line = "a.cpp:1:2: error: " + "=" * 300_000 + " a/" * 100_000
    started = time.process_time()
    [one] = found(project, action("KernelCxxCompile", ONE, f"{line}\n{line[18:]}\n"))
    assert len(one.lines) == 2
    assert time.process_time() - started < 10


def test_unknown_form_loses_nothing(project: BuiltProject) -> None:
    [one] = found(
        project, action("KernelCxxCompile", ONE, "Segmentation fault\nin projects/oops/csrc/one.h\n", code=139)
    )
    assert one.lines == (
        "oops/csrc/one.cpp: error: the compile failed with exit code 139",
        "Segmentation fault",
        "in oops/csrc/one.h",
    )


def test_other_messages_of_what_succeeded(project: BuiltProject) -> None:
    made = action(
        "CudaAssemble", "two.objects/csrc/two.cu.phases/90/device.cubin", "ptxas info    : 0 bytes\n", ok=True
    )
    [one] = found(project, made)
    assert (one.severity, one.lines) == (Severity.OTHER, ("oops/csrc/two.cu: ptxas info    : 0 bytes",))


def test_twice_the_same_in_one_text_stays_twice(project: BuiltProject) -> None:
    line = "projects/oops/csrc/one.cpp:4:9: error: no\n"
    assert len(found(project, action("KernelCxxCompile", ONE, line * 2), action("KernelCxxCompile", ONE, line))) == 2


def test_toolchains_of_others_are_not_told_apart_by_their_releases(project: BuiltProject) -> None:
    text = "external/a~torch_kernels_torch_2_{}/include/x.h:1:2: error: bad\n"
    actions = [action("KernelCxxCompile", ONE, text.format(release)) for release in (13, 15)]
    [one] = found(project, *actions)
    assert one.file == "<torch 2.13>/include/x.h"


def test_files_of_other_names(project: BuiltProject, tmp_path: Path) -> None:
    """Of a Python package, whose files alone may have any name."""
    name = "torch-ext/oops/a b.h"
    (tmp_path / "oops" / name).touch()
    manifest = tmp_path / "oops" / "build.toml"
    manifest.write_text(FILES["build.toml"].replace('binding.cpp"]', 'binding.cpp"]\npyext = ["py", "h"]'))
    plan = plan_directory(Path("oops"), Releases())
    renamed = BuiltProject(directory=Path("oops"), plan=plan, chosen=project.chosen, workspace=project.workspace)
    [other] = plan.own_names
    assert AuthorPaths([renamed]).shown(f"projects/oops/torch-ext/oops/{other}", None) == f"oops/{name}"


def test_every_kind_of_action_has_words() -> None:
    assert all(work_of(mnemonic) != mnemonic for mnemonic in (*phases(), "Hipify", "KernelCheck", "KernelLink"))


@pytest.mark.parametrize("name", [path.stem for path in sorted(SAID.glob("*.txt")) if path.stem != "check"])
def test_no_line_is_lost_but_counts(name: str) -> None:
    text = (SAID / f"{name}.txt").read_text(encoding="utf-8")
    said, loose = parse(text)
    kept = [line for message in said for line in (*message.before, message.head, *message.after)] + loose
    lost = [line for line in text.splitlines() if line.strip() and line not in kept]
    assert all("generated" in line or "detected in the compilation" in line or "Remark" in line for line in lost)
