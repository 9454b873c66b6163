"""OpenMP: compiled by gcc, with torch's runtime and its threads; and all C++ with gcc, if that is chosen."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from clone import CPU, CU130, PROJECTS, ROCM, ROOT, copy_project, digests
from elftools.elf.elffile import ELFFile

from py_driver import __main__
from py_driver.bazel.invocation import Choices, Cxx
from py_driver.building.build import Options, build
from py_driver.building.installed_torch import python_for
from py_driver.errors import DriverError
from py_driver.fetch.entry import parse_entry
from py_driver.fetch.fetcher import Fetcher
from py_driver.fetch.store import Store
from py_driver.fetch.unpacking import unpack
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases, openmp_file
from py_driver.output import Output
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

pytestmark = pytest.mark.e2e

_THREADS = """
import json, os, sys, torch
from pathlib import Path
from kernels import get_local_kernel
kernel = get_local_kernel(Path(sys.argv[1]))
a, b = torch.rand(2, 300_000, dtype=torch.float64)
found = []
for count in (3, 2, 5):
    torch.set_num_threads(count)
    (torch.ones(4_000_000) + 1).sum()
    before = len(os.listdir("/proc/self/task"))
    torch.testing.assert_close(kernel.dot(a, b), 2 * torch.dot(a, b).item())
    team = kernel.team()
    after = len(os.listdir("/proc/self/task"))
    found.append([torch.get_num_threads(), kernel.threads(), team, after - before])
with open("/proc/self/maps") as maps:
    runtimes = sorted({line.split()[-1] for line in maps if "omp" in line.split()[-1].rpartition("/")[2]})
print(json.dumps([found, runtimes]))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = copy_project(PROJECTS / "openmp", tmp_path_factory.mktemp("openmp") / "openmp")
    build(made, [CPU], Releases(), Output())
    return made


def _elf(project: Path, variant: str) -> ELFFile:
    [path] = (project / "build" / variant).glob("*.abi3.so")
    return ELFFile(io.BytesIO(path.read_bytes()))


def _needed(elf: ELFFile) -> set[str]:
    dynamic: Any = elf.get_section_by_name(".dynamic")
    return {tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"}


def _versions(elf: ELFFile) -> dict[str, set[str]]:
    """By library, the versions of its symbols that are asked for."""
    needs: Any = elf.get_section_by_name(".gnu.version_r")
    return {library.name: {version.name for version in versions} for library, versions in needs.iter_versions()}


def _newest(names: Iterable[str], family: str) -> tuple[int, ...]:
    numbers = (name.partition("_")[2] for name in names if name.startswith(f"{family}_"))
    return max((tuple(map(int, number.split("."))) for number in numbers), default=())


def test_the_threads_are_those_of_torch(project: Path) -> None:
    python = python_for([parse(CPU)], Releases(), Output())
    env = curated(extra={"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1", "LD_BIND_NOW": "1"})
    done = subprocess.run(
        [python, "-c", _THREADS, project / "build"], capture_output=True, text=True, check=False, env=env, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    found, runtimes = json.loads(done.stdout)
    assert found == [[count, count, count, 0] for count in (3, 2, 5)]
    [runtime] = runtimes
    assert runtime.endswith("/torch/lib/libgomp.so.1")


def test_the_extension_runs_on_the_systems_that_all_variants_run_on(project: Path) -> None:
    elf = _elf(project, CPU)
    assert "libgomp.so.1" in _needed(elf)
    asked = _versions(elf)
    assert _newest(asked["libgomp.so.1"], "GOMP") == (4, 5)
    assert _newest((name for names in asked.values() for name in names), "GLIBC") <= (2, 28)
    assert _newest(asked.get("libstdc++.so.6", ()), "GLIBCXX") <= (3, 4, 24)


def test_instructions_of_avx512_and_amx(project: Path) -> None:
    elf = _elf(project, CPU)
    text: Any = elf.get_section_by_name(".text")
    code = text.data()
    # tdpbf16ps %tmm1, %tmm0, %tmm2; tdpbssd %tmm1, %tmm0, %tmm3; and the first bytes of vdpbf16ps of zmm registers.
    for instruction in ("c4e2725cd0", "c4e2735ed8", "62f2"):
        assert bytes.fromhex(instruction) in code


@pytest.mark.slow
def test_same_bytes_without_any_cache_and_elsewhere(project: Path, tmp_path: Path) -> None:
    other = copy_project(PROJECTS / "openmp", tmp_path / "another" / "place" / "openmp")
    build(other, [CPU], Releases(), Output())
    assert digests(other / "build") == digests(project / "build")
    assert __main__.main(["verify", str(project), "--variant", CPU]) == 0
    # What another compiler made is made again with that one.
    build(other, [CPU], Releases(), Output(), replace(Options(), choices=Choices(cxx=Cxx.GCC)))
    assert digests(other / "build") != digests(project / "build")
    assert __main__.main(["verify", str(other), "--variant", CPU]) == 0


@pytest.mark.slow
def test_openmp_beside_cuda_and_all_with_gcc(tmp_path: Path) -> None:
    made = copy_project(PROJECTS / "openmp", tmp_path / "openmp")
    build(made, [CU130], Releases(), Output(), replace(Options(), choices=Choices(cxx=Cxx.GCC)))
    elf = _elf(made, CU130)
    assert {"libgomp.so.1", "libcudart.so.13"} <= _needed(elf)
    assert json.loads((made / "build" / CU130 / "metadata.json").read_text())["cxx"] == "gcc"
    comment: Any = elf.get_section_by_name(".comment")
    assert b"GCC: (Debian 12.2.0-14" in comment.data()


_FAST = """
#include <math.h>
void each(float* y, const float* x, int n) {
  for (int i = 0; i < n; ++i) y[i] = expf(x[i]) + sinf(x[i]);
}
float sink[64];
extern const char stamp[];
const char stamp[] = "STAMP " __TIMESTAMP__ " " __DATE__;
struct Sink { Sink() { each(sink, sink, 64); sink[0] = stamp[(int)sink[1] & 7]; } } the_sink;
#if __has_include("../inc/found.h")
#include "../inc/found.h"
#endif
// __has_include("../../../elsewhere.h")
"""


def test_fast_math_and_what_gcc_says_of_time(tmp_path: Path) -> None:
    made = copy_project(PROJECTS / "openmp", tmp_path / "openmp")
    with (made / "csrc" / "dot.cpp").open("a", encoding="utf-8") as source:
        source.write(_FAST)
    (made / "inc").mkdir()
    (made / "inc" / "found.h").touch()
    manifest = made / "build.toml"
    text = manifest.read_text(encoding="utf-8").replace('"-pthread"', '"-ffast-math"')
    manifest.write_text(text.replace('"csrc/dot.h"]', '"csrc/dot.h", "inc/found.h"]', 1), encoding="utf-8")
    build(made, [CPU], Releases(), Output())
    elf = _elf(made, CPU)
    assert "libmvec.so.1" in _needed(elf)
    data: Any = elf.get_section_by_name(".rodata")
    assert b"STAMP Thu Jan  1 00:00:00 1970 Jan  1 1970" in data.data()


def test_gcc_finds_inputs_and_nothing_else(tmp_path: Path) -> None:
    made = copy_project(PROJECTS / "openmp", tmp_path / "openmp")
    with (made / "csrc" / "tiles.cpp").open("a", encoding="utf-8") as source:
        source.write('#if __has_include("/lib64/ld-linux-x86-64.so.2")\n#endif\n')
    with pytest.raises(DriverError) as caught:
        build(made, [CPU], Releases(), Output())
    said = "".join(diagnostic.message + diagnostic.text for diagnostic in caught.value.diagnostics)
    assert "/lib64/ld-linux-x86-64.so.2 is read, but is not an input of the action" in said


@pytest.mark.parametrize("version", ["2.4", "2.13"])
def test_a_torch_that_renamed_the_file_is_found_by_its_name(version: str, tmp_path: Path) -> None:
    """The loader knows a library by its SONAME, whatever its file is called: no second one is loaded."""
    recorded = json.loads(openmp_file().read_text())[version]
    entry = parse_entry(Releases().lock.parts["torch"][version]["archive"])
    part = replace(entry, include=("torch/lib/libgomp",), exclude=())
    unpack(Fetcher(Store(tmp_path / "store")).fetch(part).path, part, tmp_path)
    script = (
        "import ctypes, sys\n"
        "ctypes.CDLL(sys.argv[1])\n"
        "assert ctypes.CDLL('libgomp.so.1').omp_get_max_threads() > 0\n"
        "print(*sorted({line.split()[-1] for line in open('/proc/self/maps') if 'libgomp' in line}))\n"
    )
    library = tmp_path / recorded["file"]
    done = subprocess.run([sys.executable, "-c", script, library], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(library)]


_COUNTS = """
import sys, torch
from pathlib import Path
from kernels import get_local_kernel
kernel = get_local_kernel(Path(sys.argv[1]), backend="cpu")
torch.set_num_threads(3)
assert kernel.counts() == (3, 3, False), kernel.counts()
"""


def test_the_header_is_in_sight_of_what_does_not_ask_for_openmp(tmp_path: Path) -> None:
    made = copy_project(PROJECTS / "omp_header", tmp_path / "omp_header")
    build(made, [CPU, CU130], Releases(), Output())
    assert "libgomp.so.1" in _needed(_elf(made, CU130))
    python = python_for([parse(CPU)], Releases(), Output())
    env = curated(extra={"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1", "LD_BIND_NOW": "1"})
    command = [python, "-c", _COUNTS, str(made / "build")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd="/")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def gomp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the OpenMP runtime that torch 2.13 brings."""
    place = tmp_path_factory.mktemp("gomp")
    entry = parse_entry(Releases().lock.parts["torch"]["2.13"]["archive"])
    part = replace(entry, include=("torch/lib/libgomp",), exclude=())
    unpack(Fetcher(Store(place / "store")).fetch(part).path, part, place)
    return place / "torch" / "lib"


def test_openmp_that_clang_compiled_keeps_its_promises_on_gccs_runtime(gomp: Path, tmp_path: Path) -> None:
    source = PROJECTS / "openmp_runtime" / "check.cpp"
    interface = ROOT / "rules" / "private" / "include" / "openmp.c"
    zig = [sys.executable, "-m", "ziglang"]
    target = ["-target", "x86_64-linux-gnu.2.28", "-O2"]
    check, runtime, program = tmp_path / "check.o", tmp_path / "openmp.o", tmp_path / "check"
    for command in (
        [*zig, "cc", *target, "-std=c11", "-Wall", "-Werror", "-c", interface, "-o", runtime],
        [*zig, "c++", *target, "-std=c++17", "-fopenmp", "-fopenmp-version=45", "-c", source, "-o", check],
        [*zig, "c++", *target, check, runtime, gomp / "libgomp.so.1", "-o", program],
    ):
        subprocess.run(list(map(str, command)), check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False, env={"LD_LIBRARY_PATH": str(gomp)})
    assert (done.returncode, done.stdout) == (0, "0 failures\n")


@pytest.mark.parametrize("variant", [CU130, pytest.param(ROCM, marks=pytest.mark.slow)])
def test_host_code_of_gpu_sources_calls_torchs_runtime(variant: str, tmp_path: Path) -> None:
    made = copy_project(PROJECTS / "openmp_gpu", tmp_path / "openmp_gpu")
    build(made, [variant], Releases(), Output())
    elf = _elf(made, variant)
    assert "libgomp.so.1" in _needed(elf)
    dynamic: Any = elf.get_section_by_name(".dynsym")
    names = {symbol.name for symbol in dynamic.iter_symbols()}
    assert {"GOMP_parallel", "GOMP_loop_ull_dynamic_start", "omp_get_num_threads"} <= names
    assert not [name for name in names if name.startswith("__kmpc")]


@pytest.mark.slow
def test_a_part_of_openmp_that_is_missing_is_named(tmp_path: Path) -> None:
    made = copy_project(PROJECTS / "openmp_gpu", tmp_path / "openmp_gpu")
    with (made / "csrc" / "sum.cu").open("a", encoding="utf-8") as source:
        source.write("void more(int* x) {\n#pragma omp taskloop\n  for (int i = 0; i < 9; ++i) x[i] += 1;\n}\n")
    with pytest.raises(DriverError) as caught:
        build(made, [CU130], Releases(), Output())
    said = "".join(diagnostic.message + diagnostic.text for diagnostic in caught.value.diagnostics)
    assert "__kmpc_taskloop: no library defines it" in said
    assert "move it to a .cpp file" in said
