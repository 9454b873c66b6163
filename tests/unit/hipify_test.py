"""toolchains/hipify/hipify.py with torch's own hipify: what it makes of the files of a section, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from py_driver.fetch.entry import parse_entry
from py_driver.fetch.fetcher import Fetcher
from py_driver.fetch.unpacking import unpack
from py_driver.matrix.releases import Releases

pytestmark = pytest.mark.e2e

SCRIPT = Path(__file__).parents[2] / "toolchains" / "hipify" / "hipify.py"
HEADER = "#pragma once\n#include <cuda_runtime.h>\ncudaError_t f(cudaStream_t stream);\n"


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with torch's package `hipify` of the release that is the default."""
    entry = parse_entry(Releases().lock.parts["torch"][Releases().lock.parts["hipify"]["torch"]]["archive"])
    place = tmp_path_factory.mktemp("torch")
    fetched = Fetcher().fetch(entry)
    unpack(fetched.path, entry, place)
    return place / "torch" / "utils"


def run(module: Path, here: Path, files: dict[str, str | bytes], *options: str, code: int = 0) -> tuple[Any, str]:
    """Turn files into HIP; the report, and what was said."""
    arguments = []
    for name, content in files.items():
        path = here / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        arguments += ["-f", name, str(path)]
        arguments += ["-s", name] if name.endswith((".cu", ".cpp", ".hip")) else []
    out, report = here / "out", here / "report.json"
    command = [sys.executable, "-I", "-S", "-B", str(SCRIPT), "sources", str(module), str(out), str(report)]
    done = subprocess.run(
        [*command, *options, *arguments], capture_output=True, text=True, check=False, timeout=60, cwd=here
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return json.loads(report.read_text()) if code == 0 else None, done.stderr


def made(here: Path, name: str) -> str:
    return (here / "out" / name).read_text()


def test_names_includes_and_lines(module: Path, tmp_path: Path) -> None:
    source = '#include "f_cuda.h"\n#include <cuda_fp16.h>\n\ncudaError_t f(cudaStream_t s) { return cudaSuccess; }\n'
    report, said = run(module, tmp_path, {"csrc/f.cu": source, "csrc/f_cuda.h": HEADER}, "-I", ".")
    assert report["csrc/f.cu"]["name"] == "csrc/f.hip"
    assert report["csrc/f.cu"]["rewritten"]["cudaStream_t -> hipStream_t"] == 1
    text = made(tmp_path, "csrc/f.hip")
    assert '#line 1 "csrc/f.cu"\n#include "f_hip.h"\n#include <hip/hip_fp16.h>\n' in text
    assert "hipError_t f(hipStream_t s) { return hipSuccess; }" in text
    assert "hipError_t f(hipStream_t stream);" in made(tmp_path, "csrc/f_hip.h")
    assert said == ""


@pytest.mark.parametrize("include", ['#  include "f.h"', '#include"f.h"', '  #include   "f.h"'])
def test_however_an_include_is_written(module: Path, tmp_path: Path, include: str) -> None:
    run(module, tmp_path, {"f.cu": f"{include}\n", "f.h": HEADER})
    assert '#include "f_hip.h"' in made(tmp_path, "f.hip")


def test_first_directory_wins_as_in_a_compiler(module: Path, tmp_path: Path) -> None:
    files = {"f.cu": '#include "c.h"\n', "a/c.h": "int plain;\n", "b/c.h": HEADER}
    run(module, tmp_path, dict(files), "-I", "b", "-I", "a")  # as the rules call it: the last one wins in hipify
    assert '#include "c.h"' in made(tmp_path, "f.hip")


def test_first_line_that_hipify_makes_too_is_counted(module: Path, tmp_path: Path) -> None:
    run(module, tmp_path, {"f.cu": '#include "cuda_runtime.h"\n__global__ void k() {}\n'})
    assert '#line 1 "f.cu"\n#include "hip/hip_runtime.h"\n__global__' in made(tmp_path, "f.hip")


def test_lines_of_what_is_not_changed_are_named_too(module: Path, tmp_path: Path) -> None:
    run(module, tmp_path, {"f.hip": "int f;\n", "g.h": "int g;\n", "h.cu": '#include "g.h"\ncudaError_t h;\n'})
    assert made(tmp_path, "f.hip") == '#line 1 "f.hip"\nint f;\n'
    assert made(tmp_path, "g.h") == '#line 1 "g.h"\nint g;\n'


@pytest.mark.parametrize(
    "launch",
    ["k<<<dim3{4, 2}, 64>>>();", "k<<<c<4, 8>(n), 64>>>();", "k<<<CFG>>>();", 'f("a\\\\"); g("<<<");', "<<<<<<< HEAD"],
)
def test_kernel_launch_stays_as_it_is(module: Path, tmp_path: Path, launch: str) -> None:
    run(module, tmp_path, {"f.cu": f"void f() {{\n{launch}\n}}\n"})
    assert f"\n{launch}\n" in made(tmp_path, "f.hip")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"x.cpp": "cudaError_t x;\n", "x_hip.cpp": "int y;\n"},
            "x.cpp: error: hipify's output for this is `x_hip",
        ),
        ({"f.cu": '#include "u.h"\n', "u.h": HEADER, "u_hip.h": "int u;\n"}, "u.h: error: hipify's output"),
        ({"cuda/u.h": HEADER, "hip/u.h": "int u;\n", "f.cu": '#include "cuda/u.h"\n'}, "`hip/u.h`, which exists"),
        ({"f.cu": b"int f;\n// caf\xe9\n"}, "f.cu:2: error: this is not UTF-8"),
    ],
)
def test_what_cannot_be_done_is_refused(module: Path, tmp_path: Path, files: dict[str, str | bytes], said: str) -> None:
    assert said in run(module, tmp_path, files, "-I", ".", code=1)[1]


def test_mark_of_utf_8_is_taken_off(module: Path, tmp_path: Path) -> None:
    run(module, tmp_path, {"f.cu": b"\xef\xbb\xbfcudaError_t f;\n"})
    assert "\ufeff" not in made(tmp_path, "f.hip")


def test_names_that_stay_are_told_with_their_lines(module: Path, tmp_path: Path) -> None:
    source = '// cudaComment\nconst char* s = "cudaString";\ncudaNoSuchThing();\ncudaMalloc(nullptr, 0);\n'
    report, said = run(module, tmp_path, {"f.cu": source})
    assert report["f.cu"]["left"] == {"cudaNoSuchThing": 3}
    assert said == "f.cu:3: warning: hipify has no HIP name for `cudaNoSuchThing`\n"


@pytest.mark.parametrize(
    "name", ["max", "min", "ceil", "floor", "exp", "log", "pow", "fabs", "fmod", "remainder", "frexp"]
)
def test_functions_of_std_stay(module: Path, tmp_path: Path, name: str) -> None:
    text = f"double f(double a) {{ return std::{name}(a, 1.0) + ::{name}(a, 1.0); }}\n"
    run(module, tmp_path, {"f.cu": text, "g.cuh": text})
    assert text in made(tmp_path, "f.hip")
    assert text in made(tmp_path, "g.cuh")


@pytest.mark.parametrize(
    "data",
    [
        *(
            '"cudaMalloc USE_CUDA"',
            'u8"cub::Sum"',
            '"a \\" cudaFree "',
            '\'"\'; // "\n"cudaFree "',
            'L\'"\' "cudaFree "',
        ),
        *('R"x(\n" cudaFree )" cudaMalloc )x"', "1'000'000 ", '"/*" + " cudaFree */"'),
    ],
)
def test_strings_stay_as_they_are(module: Path, tmp_path: Path, data: str) -> None:
    run(module, tmp_path, {"f.cu": f"auto f = {data}; auto g = cudaSuccess;\n"})
    assert f"auto f = {data}; auto g = hipSuccess;\n" in made(tmp_path, "f.hip")


@pytest.mark.parametrize("call", ["dlsym(library", "nvrtcCreateProgram(&program", "cuGetProcAddress("])
def test_strings_follow_where_a_name_is_looked_up_at_run_time(module: Path, tmp_path: Path, call: str) -> None:
    files: dict[str, str | bytes] = {"f.cu": 'auto f = R"(cudaFree )";\n', "g.cpp": f'{call}, " cudaMalloc ");\n'}
    run(module, tmp_path, files)
    assert 'R"(hipFree )"' in made(tmp_path, "f.hip")
    assert '" hipMalloc "' in made(tmp_path, "g_hip.cpp")


@pytest.mark.parametrize("text", ["cudaStream_t f;", "auto f = cudaSuccess", "cudaStream_t"])
def test_first_and_last_name_of_a_file_are_replaced(module: Path, tmp_path: Path, text: str) -> None:
    run(module, tmp_path, {"f.cu": '#include "g.inc"\n;', "g.inc": text})
    assert made(tmp_path, "g_hip.inc").endswith(f'#line 1 "g.inc"\n{text.replace("cuda", "hip")}')


@pytest.mark.parametrize("text", ["// a comment on dlsym(x)\n", 'auto e = "dlsym(x) failed";\n'])
def test_strings_stay_if_only_a_comment_or_a_string_names_a_lookup(module: Path, tmp_path: Path, text: str) -> None:
    run(module, tmp_path, {"f.cu": f'{text}auto f = getenv("CUDA_LAUNCH_BLOCKING");\n'})
    assert 'getenv("CUDA_LAUNCH_BLOCKING")' in made(tmp_path, "f.hip")


def test_includes_in_a_string_stay(module: Path, tmp_path: Path) -> None:
    text = 'auto f = R"(\n#  include "g.h"\n#include "g.h"\n)";\n'
    run(module, tmp_path, {"f.cu": f'#  include "g.h"\n{text}', "g.h": HEADER})
    assert f'#include "g_hip.h"\n{text}' in made(tmp_path, "f.hip")


@pytest.mark.parametrize("name", ["cuda.h", "vector_types.h", "utils/device_functions.h", "cub/cub.cuh"])
def test_own_header_with_a_name_of_cuda_stays(module: Path, tmp_path: Path, name: str) -> None:
    run(module, tmp_path, {"csrc/f.cu": f'\n#include "{name}"\n', f"csrc/{name}": "int own;\n"})
    assert made(tmp_path, "csrc/f.hip").endswith(f'\n#include "{name}"\n')


@pytest.mark.parametrize("name", ["<vector_types.h>", '"vector_types.h"'])
def test_header_of_cuda_beside_an_own_one_becomes_that_of_hip(module: Path, tmp_path: Path, name: str) -> None:
    run(module, tmp_path, {"f.cu": f"#include {name}\n", "own_vector_types.h": "int own;\n"})
    assert name.replace("vector", "hip/hip_vector") in made(tmp_path, "f.hip")


@pytest.mark.parametrize("name", ["<cub/cub.cuh>", '"cub/cub.cuh"'])
def test_header_that_may_exist_becomes_that_of_hip(module: Path, tmp_path: Path, name: str) -> None:
    run(module, tmp_path, {"f.cu": f"\n#if __has_include({name})\n#endif\n"})
    assert f"__has_include({name.replace('cub/cub.cuh', 'hipcub/hipcub.hpp')})" in made(tmp_path, "f.hip")


@pytest.mark.parametrize(
    "text",
    [
        *("struct GpuDefs {};", "int mixed_utils(), max_pool_with_index_gpu();", "#define HIP_CHECK(x) check(x)"),
        *('#include "math/reduce.cuh"', "#ifdef MAJOR_VERSION", "enum { PATCH_LEVEL = MINOR_VERSION };"),
    ],
)
def test_names_of_others_stay(module: Path, tmp_path: Path, text: str) -> None:
    run(module, tmp_path, {"f.cu": f"\n{text}\n"})
    assert made(tmp_path, "f.hip").endswith(f"\n{text}\n")


@pytest.mark.parametrize(
    "text",
    [
        *("const unsigned ready = __ballot_sync(m, p);", "uint32_t a{__activemask()};", "int n = __popc(__ballot(p));"),
        "unsigned int const same =\n __match_any_sync(m, v);",
        *("f((unsigned)__ballot(p), g);", "f(static_cast<int>(__activemask()));", "f(uint32_t{__ballot(p)});"),
        *("a &= __ballot(p); unsigned a;", "if ((a = __activemask())) f(int(a)); uint32_t a;"),
        *("int n = __popc(b); auto b = __ballot(p);", "int n = __ffs(b); uint64_t b = __ballot(p);"),
        "unsigned lanes(bool p) { return __ballot(p); }",
    ],
)
def test_half_of_the_lanes_is_warned_of(module: Path, tmp_path: Path, text: str) -> None:
    said = run(module, tmp_path, {"f.cu": f"// unsigned a = __ballot(1);\n{text}\n"})[1]
    assert said.startswith("f.cu:2: warning: `__")
    assert "has 64 bits in HIP, and 32 are kept here" in said


def test_all_lanes_are_not_warned_of(module: Path, tmp_path: Path) -> None:
    text = (
        "unsigned long long a = __ballot(p); uint64_t b = __activemask(); bool c = __ballot(p); auto d = __ballot(p);\n"
        "a = __ballot(p); b &= __ballot(p); int n = __popcll(d); f(static_cast<uint64_t>(__ballot(p)), __ballot(p));\n"
        "uint64_t lanes(bool p) { return __ballot(p); }\n"
    )
    assert run(module, tmp_path, {"f.cu": text})[1] == ""


@pytest.mark.parametrize(
    ("test", "is_warned"),
    [
        ("#ifdef __CUDA_ARCH__", True),
        ("# if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800", True),
        ("#elif __CUDA_ARCH__ >= 800", True),
        ("#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)", False),
        ("#if __CUDA_ARCH__ >= 800 && !defined(USE_ROCM)", False),
    ],
)
def test_condition_that_is_false_in_device_code_is_warned_of(
    module: Path,
    tmp_path: Path,
    test: str,
    is_warned: bool,  # noqa: FBT001
) -> None:
    said = run(module, tmp_path, {"f.cu": f"// __CUDA_ARCH__\n#if 1\n{test}\n#endif\n"})[1]
    assert said.startswith("f.cu:3: warning: HIP does not define `__CUDA_ARCH__`") is is_warned
    assert bool(said) is is_warned
