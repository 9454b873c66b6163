"""Projects built by CMake: what it would compile is recorded as that of setuptools, or refused with its line."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from setup_projects import CPU, CU130, RELEASES, fault, record, write_project

from py_driver import __main__
from py_driver.building.build import Options
from py_driver.building.extension import plan_extension
from py_driver.errors import Code, DriverError
from py_driver.extensions.binding import Bindings
from py_driver.output import Output
from py_driver.recording.recorder import Recorded

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("cache")]

PYPROJECT = """
    [build-system]
    requires = ["scikit-build-core>=0.10", "torch"]
    build-backend = "scikit_build_core.build"
    [project]
    name = "thing"
    version = "1.0"
    """
HEAD = """
    cmake_minimum_required(VERSION 3.24)
    project(thing LANGUAGES CXX)
    find_package(Torch REQUIRED)
    """
MODULE = """
    add_library(_C MODULE a.cpp)
    target_link_libraries(_C PRIVATE ${TORCH_LIBRARIES})
    set_target_properties(_C PROPERTIES PREFIX "")
    install(TARGETS _C DESTINATION thing)
    """


def project(directory: Path, lists: str, files: dict[str, str] | None = None) -> Path:
    texts = {"pyproject.toml": PYPROJECT, "CMakeLists.txt": lists, "thing/__init__.py": "", **(files or {})}
    made = write_project(directory / "project", "", texts)
    (made / "setup.py").unlink()
    return made


def test_a_module_of_cmake_is_recorded_and_planned(tmp_path: Path) -> None:
    directory = project(tmp_path, HEAD + MODULE)
    recorded = record(directory, CPU)
    [module] = recorded.record.modules
    assert (module.name, module.kind, module.file) == ("thing._C", "cpp", "thing/_C.so")
    assert (module.script, module.line) == ("CMakeLists.txt", 5)
    assert module.sources == ("a.cpp",)
    assert module.libraries == ("torch", "torch_cpu", "c10")
    definitions = ("-DUSE_C10D_GLOO", "-DUSE_DISTRIBUTED", "-DUSE_RPC", "-DUSE_TENSORPIPE", "-D_C_EXPORTS")
    assert set(definitions) <= set(module.cxx_flags)
    headers = ("-isystem", "torch:include", "-isystem", "torch:include/torch/csrc/api/include")
    assert [flag for flag in module.cxx_flags if flag.startswith(("torch:", "-isystem"))] == list(headers)
    assert recorded.record.asked == ()
    output = Output(io.StringIO(), io.StringIO())
    extension = plan_extension(directory, (CPU,), RELEASES, output, Options(), Bindings("", lambda _: ()))
    [plan] = extension.plans
    assert [variant.module for variant in plan.variants] == ["thing._C"]
    assert extension.notes == ()


def test_the_cpu_of_this_machine_is_refused(tmp_path: Path) -> None:
    """Also where the project asks whether the compiler knows the flag, and in host code of CUDA sources."""
    lists = f"""{HEAD}
    enable_language(CUDA)
    include(CheckCXXCompilerFlag)
    check_cxx_compiler_flag(-march=native HAS_NATIVE)
    if(HAS_NATIVE)
      set(CMAKE_CXX_FLAGS "-O3 -march=native")
    endif()
    {MODULE.replace("a.cpp", "a.cpp b.cu")}
    target_compile_options(_C PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-mtune=native>")
    """
    directory, output = project(tmp_path, lists), Output(io.StringIO(), io.StringIO())
    with pytest.raises(DriverError) as failure:
        plan_extension(directory, (CU130,), RELEASES, output, Options(), Bindings("", lambda _: ()))
    found = failure.value.diagnostics
    assert [diagnostic.message for diagnostic in found] == [
        "the flag `-march=native` is not admitted in the options for C++",
        "the flag `-Xcompiler=-mtune=native` is not admitted in the options for CUDA",
    ]
    reason = "name the instruction set: the result must run on other machines"
    assert {(diagnostic.code, diagnostic.help) for diagnostic in found} == {(Code.BAD_FLAG, reason)}


@pytest.mark.slow
def test_cuda_sources_have_the_architectures_of_torch(tmp_path: Path) -> None:
    lists = HEAD + MODULE.replace("a.cpp", "a.cpp b.cu")
    [module] = record(project(tmp_path, lists), CU130).record.modules
    assert (module.kind, module.sources) == ("cuda", ("a.cpp", "b.cu"))
    codes = [flag for flag in module.nvcc_flags if flag.startswith("arch=")]
    assert codes == ["arch=compute_80,code=sm_80", "arch=compute_90,code=sm_90", "arch=compute_90,code=compute_90"]
    assert {"--expt-relaxed-constexpr", "--expt-extended-lambda", "-DONNX_NAMESPACE=onnx_c2"} <= set(module.nvcc_flags)
    assert "c10_cuda" in module.libraries


@pytest.mark.slow
def test_cuda_sources_without_torch_have_those_of_the_command_line(tmp_path: Path) -> None:
    lists = """
        cmake_minimum_required(VERSION 3.24)
        project(thing LANGUAGES CXX CUDA)
        find_package(CUDAToolkit REQUIRED)
        add_library(_C SHARED b.cu)
        target_link_libraries(_C PRIVATE CUDA::cublas)
        install(TARGETS _C DESTINATION thing)
        """
    [module] = record(project(tmp_path, lists), CU130).record.modules
    assert module.file == "thing/lib_C.so"
    codes = [flag for flag in module.nvcc_flags if "arch=" in flag]
    assert codes == [
        "-gencode=arch=compute_80,code=sm_80",
        "-gencode=arch=compute_90,code=compute_90",
        "-gencode=arch=compute_90,code=sm_90",
    ]
    assert module.libraries == ("cublas", "cublasLt")


@pytest.mark.slow
def test_a_generated_source_and_an_object_library_are_parts_of_a_module(tmp_path: Path) -> None:
    text = """
    add_custom_command(OUTPUT made.cpp COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_SOURCE_DIR}/a.cpp made.cpp)
    add_library(objects OBJECT made.cpp)
    set_property(TARGET objects PROPERTY POSITION_INDEPENDENT_CODE ON)
    target_link_libraries(objects PRIVATE ${TORCH_LIBRARIES})
    target_compile_definitions(objects PRIVATE _C_EXPORTS)
    """
    flags = '\n    set(CMAKE_CXX_FLAGS "-Wall -fno-math-errno -L/opt")\n'
    lists = HEAD + flags + text + MODULE.replace("a.cpp", "a.cpp $<TARGET_OBJECTS:objects>")
    recorded = record(project(tmp_path, lists), CPU)
    [module] = recorded.record.modules
    assert sorted(module.sources) == ["a.cpp", "build/cmake/made.cpp"]
    assert {"-Wall", "-fno-math-errno"} <= set(module.cxx_flags)
    assert module.extra_link_args == ()
    assert not any("/opt" in flag for flag in module.cxx_flags)
    assert recorded.record.files == ("build/cmake/made.cpp",)
    assert (recorded.tree / "build" / "cmake" / "made.cpp").read_text(encoding="utf-8") == "// a\n"


@pytest.mark.slow
def test_an_extension_of_setuptools_may_be_built_by_cmake(tmp_path: Path) -> None:
    setup = """
        import subprocess, sys
        from pathlib import Path
        import torch
        from setuptools import Extension, setup
        from setuptools.command.build_ext import build_ext
        class Build(build_ext):
            def build_extension(self, ext):
                directory = Path(self.build_temp).resolve()
                directory.mkdir(parents=True, exist_ok=True)
                target = Path(self.get_ext_fullpath(ext.name)).resolve()
                options = [f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={target.parent}",
                           f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}", f"-DNAME={target.name[:-3]}"]
                subprocess.check_call(["cmake", str(Path().resolve()), *options], cwd=directory)
                subprocess.check_call(["cmake", "--build", "."], cwd=directory)
        setup(name="thing", version="1", ext_modules=[Extension("thing._C", [])], cmdclass={"build_ext": Build},
              packages=["thing"])
        """
    lists = HEAD + MODULE.replace('PREFIX ""', 'PREFIX "" OUTPUT_NAME ${NAME}')
    directory = write_project(tmp_path / "project", setup, {"CMakeLists.txt": lists, "thing/__init__.py": ""})
    [module] = record(directory, CPU).record.modules
    assert (module.name, module.sources) == ("thing._C", ("a.cpp",))
    assert module.file == "thing/_C.cpython-311-x86_64-linux-gnu.so"


ADDRESS = "https://example.invalid/cutlass.git"
FETCH = f"""
    include(FetchContent)
    FetchContent_Declare(cutlass GIT_REPOSITORY {ADDRESS} GIT_TAG v1)
    FetchContent_MakeAvailable(cutlass)
    """


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        (
            FETCH,
            f"CMakeLists.txt wants FetchContent of cutlass from {ADDRESS}; builds have no network",
            7,
        ),
        pytest.param(
            "\n    find_package(Nothing REQUIRED)\n",
            'CMake fails in CMakeLists.txt: By not providing "FindNothing.cmake"',
            5,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            MODULE.replace("install", "#"),
            "the build links `build/cmake/_C.so`, and the wheel does not have it",
            None,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "\n    add_library(core STATIC c.cpp)\n" + MODULE + "\n    target_link_libraries(_C PRIVATE core)\n",
            "`thing/_C.so` is linked with a static library of the project, of `c.cpp`",
            None,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            MODULE.replace("a.cpp", "a.cpp c.cpp")
            + "\n    set_source_files_properties(c.cpp PROPERTIES COMPILE_OPTIONS -O1)\n",
            "`a.cpp` and `c.cpp` of `thing/_C.so` are compiled with different flags, such as `-O1`",
            None,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            MODULE + '\n    try_run(RAN COMPILED SOURCE_FROM_CONTENT t.cpp "int main() { return 0; }")\n',
            "the build runs `cmTC_",
            None,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "\n    add_executable(tool c.cpp)\n    install(TARGETS tool DESTINATION thing)\n",
            "`thing/tool` in the wheel is no library, and nothing here compiles it",
            None,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_cmake_cannot_have_is_an_error(tmp_path: Path, text: str, message: str, line: int | None) -> None:
    found = fault(project(tmp_path, HEAD + text, {"c.cpp": "int main() { return 0; }"}), CPU)
    assert found.message.startswith(message)
    assert found.code in {Code.UNSUPPORTED, Code.SETUP_FAILED}
    assert found.help
    if line:
        assert found.span is not None
        assert (found.span.file.rpartition("/")[2], found.span.line) == ("CMakeLists.txt", line)


@pytest.mark.slow
def test_files_that_are_there_need_not_be_fetched(tmp_path: Path) -> None:
    text = FETCH.replace(f"GIT_REPOSITORY {ADDRESS} GIT_TAG v1", "SOURCE_DIR ${CMAKE_SOURCE_DIR}/other")
    lists = HEAD + text + MODULE
    files = {"other/CMakeLists.txt": "add_library(cutlass INTERFACE)\n"}
    assert isinstance(record(project(tmp_path, lists, files), CPU), Recorded)


OPS = """\
#include <torch/all.h>
#include <torch/library.h>

at::Tensor scaled(const at::Tensor& input) { return input * FACTOR; }

TORCH_LIBRARY(thing, m) {
  m.def("scaled(Tensor input) -> Tensor");
  m.impl("scaled", torch::kCPU, &scaled);
}
"""
PACKAGE = """\
import pathlib

import torch

torch.ops.load_library(next(pathlib.Path(__file__).parent.glob("_C*.so")))
scaled = torch.ops.thing.scaled
"""
TEST = """\
import thing
import torch


def test_scaled():
    assert thing.scaled(torch.ones(2)).tolist() == [3, 3]
"""


@pytest.mark.slow
def test_a_module_of_cmake_is_built_and_its_own_tests_pass(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the cache of all tests, which has the toolchains
    lists = HEAD + MODULE + "\n    target_compile_definitions(_C PRIVATE FACTOR=3)\n"
    files = {"a.cpp": OPS, "thing/__init__.py": PACKAGE, "tests/test_scaled.py": TEST}
    directory = project(tmp_path_factory.mktemp("cmake"), lists, files)
    assert __main__.main(["test", str(directory), "--torch=2.13", "--backend=cpu", "--", "-q"]) == 0
