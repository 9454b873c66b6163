"""The extension modules that a build would compile: sources, flags, directories, libraries."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest
from setup_projects import BODY, CU130, SOABI, fault, project, record, write_project

from py_driver.errors import Code

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.recording.record import Module

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("cache")]


def module(directory: Path, call: str, identifier: str = CU130, head: str = "") -> Module:
    """The module of a setup.py that makes one by a call."""
    text = f"""
from setuptools import Extension, setup
from torch.utils import cpp_extension
from torch.utils.cpp_extension import BuildExtension, CUDAExtension, CppExtension
import os, pathlib
{head}
setup(name="thing", version="1", ext_modules=[{call}], cmdclass={{"build_ext": BuildExtension}})
"""
    [found] = record(write_project(directory / "project", text), identifier).record.modules
    return found


@pytest.mark.parametrize(
    ("args", "cxx", "nvcc"),
    [
        ("['-O3']", ("-O3",), ("-O3",)),
        ("{'cxx': ['-O2']}", ("-O2",), ()),
        ("{'cxx': ['-O2'], 'nvcc': ['-O1', '--use_fast_math']}", ("-O2",), ("-O1", "--use_fast_math")),
        ("{'nvcc': ['-I' + os.path.abspath('csrc'), '-I' + os.getcwd()]}", (), ("-Icsrc", "-I.")),
        (
            "{'cxx': ['-I' + p for p in cpp_extension.include_paths('cuda')]}",
            ("-Itorch:include", "-Itorch:include/torch/csrc/api/include", "-Icuda:include"),
            (),
        ),
    ],
)
def test_flags_are_those_of_each_compiler(
    tmp_path: Path, args: str, cxx: tuple[str, ...], nvcc: tuple[str, ...]
) -> None:
    found = module(tmp_path, f'CUDAExtension("x", ["a.cpp", "b.cu"], extra_compile_args={args})')
    assert (found.cxx_flags, found.nvcc_flags) == (cxx, nvcc)


def test_paths_are_those_of_the_project(tmp_path: Path) -> None:
    call = """CUDAExtension(
    "x", [os.path.abspath("a.cpp"), "sub/../b.cu"],
    include_dirs=[pathlib.Path(__file__).parent.resolve() / "csrc", ".", "sub/..", *cpp_extension.include_paths(),
                  "csrc", "csrc"],
    library_dirs=["/opt/lib"], libraries=["cublas"], extra_link_args=["-L" + cpp_extension.CUDA_HOME + "/lib64/stubs"],
    define_macros=[("A", None), ("B", "1"), ("HERE", os.getcwd())], undef_macros=["NDEBUG"], extra_objects=["o.a"])"""
    found = module(tmp_path, call)
    assert found.sources == ("a.cpp", "b.cu")
    assert found.include_dirs == ("csrc", ".", ".", "csrc", "csrc")
    assert (found.library_dirs, found.libraries) == (("/opt/lib",), ("cublas",))
    assert found.extra_link_args == ("-Lcuda:lib64/stubs",)
    assert found.define_macros == (("A", None), ("B", "1"), ("HERE", "."))
    assert (found.undef_macros, found.extra_objects) == (("NDEBUG",), ("o.a",))


def test_paths_are_those_of_the_directory_that_setup_py_changes_to(tmp_path: Path) -> None:
    setup = BODY.replace("setup(", "import os\nos.chdir('python')\nsetup(", 1)
    setup = setup.replace('["a.cpp", "b.cu"]', '["../a.cpp", "x.cpp"], include_dirs=["inc"]')
    directory = write_project(tmp_path / "project", setup, {"python/x.cpp": "", "python/inc/x.h": ""})
    [found] = record(directory).record.modules
    assert (found.sources, found.include_dirs) == (("a.cpp", "python/x.cpp"), ("python/inc",))


def test_a_string_of_flags_is_an_error(tmp_path: Path) -> None:
    setup = BODY.replace('["a.cpp", "b.cu"]', '["a.cpp", "b.cu"], extra_compile_args={"nvcc": "-O3"}')
    assert "has a string instead of a list" in fault(project(tmp_path, setup)).message


def test_headers_of_packages_have_names(tmp_path: Path) -> None:
    head = "import numpy, pybind11, sysconfig"
    includes = "numpy.get_include(), pybind11.get_include(), sysconfig.get_paths()['include']"
    call = f'Extension("x", ["a.cpp"], include_dirs=[{includes}, *cpp_extension.include_paths()])'
    found = module(tmp_path, call, head=head)
    assert found.kind == "cpp"
    assert found.include_dirs == (
        "numpy:include",
        "pybind11:include",
        "python:include",
        "torch:include",
        "torch:include/torch/csrc/api/include",
    )


def test_a_plain_extension_keeps_its_libraries(tmp_path: Path) -> None:
    found = module(tmp_path, 'Extension("pkg.x", ["a.cpp"], libraries=["torch", "m"], py_limited_api=True)')
    assert found.libraries == ("torch", "m")
    assert (found.file, found.limited_api) == ("pkg/x.abi3.so", True)


def test_lists_that_modules_share_are_not_the_worse_for_it(tmp_path: Path) -> None:
    setup = BODY.replace("setup(", "shared = ['cufft']\nsetup(").replace(
        'ext_modules=[CUDAExtension("thing_cuda", ["a.cpp", "b.cu"])]',
        'ext_modules=[CUDAExtension("x", ["b.cu"], libraries=shared), CUDAExtension("y", ["a.cpp"], libraries=shared)]',
    )
    modules = record(project(tmp_path, setup)).record.modules
    assert [found.libraries for found in modules] == [("cufft",), ("cufft",)]


def test_the_compiler_that_setup_py_names_is_no_flag(tmp_path: Path) -> None:
    found = module(
        tmp_path,
        "CUDAExtension('x', ['a.cpp', 'b.cu'], extra_compile_args=['-O3'])",
        head="os.environ['CC'] = 'ccache g++'; os.environ['CXX'] = 'g++'",
    )
    assert (found.cxx_flags, found.extra_link_args) == (("-O3",), ())


def test_macros_and_sources_are_in_the_order_of_setuptools(tmp_path: Path) -> None:
    macros = '[("A", "1"), ("B", None), ("C",), ("A", "2")]'
    found = module(tmp_path, f'CUDAExtension("x", ["b.cu", "a.cpp"], define_macros={macros}, undef_macros=["B"])')
    assert (found.define_macros, found.undef_macros) == ((("A", "2"),), ("B", "C"))
    assert found.sources == ("a.cpp", "b.cu")


def test_a_macro_that_setuptools_refuses_is_an_error(tmp_path: Path) -> None:
    setup = BODY.replace('["a.cpp", "b.cu"]', '["a.cpp", "b.cu"], define_macros=["WITH_CUDA"]')
    assert "bad macro definition 'WITH_CUDA'" in fault(project(tmp_path, setup)).message


def test_cflags_of_setup_py_replace_those_of_python(tmp_path: Path) -> None:
    head = "os.environ['CFLAGS'] = '-std=c++17 -DFROM_CFLAGS'"
    found = module(tmp_path, "CUDAExtension('x', ['a.cpp', 'b.cu'], extra_compile_args=['-O3'])", head=head)
    assert found.cxx_flags == ("-UNDEBUG", "-DFROM_CFLAGS", "-O3")
    assert found.nvcc_flags == ("-O3",)


@pytest.mark.parametrize(
    ("build", "source", "flags"),
    [
        ("BuildExtension", "a.cpp", ("-UNDEBUG", "-DOF_C")),
        ("setuptools.command.build_ext.build_ext", "a.cpp", ("-UNDEBUG", "-DOF_CXX")),
        ("setuptools.command.build_ext.build_ext", "a.c", ("-UNDEBUG", "-DOF_C")),
    ],
)
def test_cxxflags_are_for_what_setuptools_compiles_as_cxx(
    tmp_path: Path, build: str, source: str, flags: tuple[str, ...]
) -> None:
    setup = f"""
import os
import setuptools.command.build_ext
from torch.utils.cpp_extension import BuildExtension
os.environ["CFLAGS"], os.environ["CXXFLAGS"] = "-DOF_C", "-DOF_CXX"
setuptools.setup(name="thing", version="1", cmdclass={{"build_ext": {build}}},
                 ext_modules=[setuptools.Extension("x", ["{source}"])])
"""
    [found] = record(write_project(tmp_path / "project", setup, {source: ""})).record.modules
    assert found.cxx_flags == flags


def test_a_flag_that_build_ext_adds_to_a_module_is_not_in_those_that_share_its_list(tmp_path: Path) -> None:
    setup = """
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension
class Build(BuildExtension):
    def build_extensions(self):
        for ext in self.extensions:
            self._add_compile_flag(ext, "-DNAME_" + ext.name)
        super().build_extensions()
shared = ["-O2"]
setup(name="thing", version="1", cmdclass={"build_ext": Build},
      ext_modules=[CppExtension(name, ["a.cpp"], extra_compile_args=shared) for name in "xy"])
"""
    modules = record(project(tmp_path, setup)).record.modules
    assert [found.cxx_flags for found in modules] == [("-O2", "-DNAME_x"), ("-O2", "-DNAME_y")]


def test_a_subclass_of_build_extension_has_its_way(tmp_path: Path) -> None:
    setup = """
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension, CUDA_HOME
import os
class Build(BuildExtension):
    def __init__(self, *args, **kwargs):
        os.environ["MAX_JOBS"] = "1"
        super().__init__(*args, **kwargs)
    def build_extensions(self):
        assert self.compiler.compiler_type == "unix"
        self.compiler.compiler_so.append("-march=haswell")
        for ext in self.extensions:
            assert CUDA_HOME + "/include" in ext.include_dirs and "torch_cuda" in ext.libraries
            ext.extra_compile_args["nvcc"] += ["-lineinfo"]
            ext.define_macros.append(("FROM_BUILD", 1))
        super().build_extensions()
    def get_ext_filename(self, name):
        return super().get_ext_filename(name).replace("x.", "lib_x.")
setup(name="thing", version="1", cmdclass={"build_ext": Build.with_options(no_python_abi_suffix=True)},
      ext_modules=[CUDAExtension("x", ["a.cpp", "b.cu"], extra_compile_args={"nvcc": ["-O3"]})])
"""
    [found] = record(project(tmp_path, setup)).record.modules
    assert (found.cxx_flags, found.nvcc_flags) == (("-march=haswell",), ("-O3", "-lineinfo"))
    assert found.define_macros == (("FROM_BUILD", "1"),)
    assert found.file == "lib_x.so"


def test_numpy_added_by_build_ext_is_an_include_directory(tmp_path: Path) -> None:
    setup = """
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
class Build(build_ext):
    def finalize_options(self):
        super().finalize_options()
        import numpy
        self.include_dirs.append(numpy.get_include())
setup(name="thing", version="1", cmdclass={"build_ext": Build}, setup_requires=["numpy"],
      ext_modules=[Extension("x", ["a.cpp"])])
"""
    recorded = record(project(tmp_path, setup))
    assert recorded.record.modules[0].include_dirs == ("numpy:include",)
    assert any(text.startswith("numpy==") for text in recorded.record.requirements)


def test_modules_of_pyproject_toml_are_recorded(tmp_path: Path) -> None:
    pyproject = """
        [build-system]
        requires = ["setuptools>=74.1", "torch>=2"]
        build-backend = "setuptools.build_meta"
        [project]
        name = "thing"
        version = "1.0"
        [tool.setuptools]
        ext-modules = [{ name = "thing.ext", sources = ["a.cpp"] }]
        packages = ["thing"]
        package-dir = { "" = "src" }
        """
    directory = write_project(tmp_path / "project", "", {"pyproject.toml": pyproject, "src/thing/__init__.py": ""})
    (directory / "setup.py").unlink()
    [found] = record(directory).record.modules
    assert (found.name, found.script, found.line) == ("thing.ext", "pyproject.toml", 0)
    assert found.file == f"thing/ext.{SOABI}.so"


def test_cython_sources_are_translated(tmp_path: Path) -> None:
    setup = """
from setuptools import Extension, setup
from Cython.Build import cythonize
setup(name="thing", version="1", ext_modules=cythonize([Extension("fast", ["fast.pyx"], language="c++")]))
"""
    recorded = record(project(tmp_path, setup, {"fast.pyx": "def f(int x): return x\n"}))
    [found] = recorded.record.modules
    assert (found.sources, recorded.record.files) == (("fast.cpp",), ("fast.cpp",))


def test_helpers_of_pybind11_are_recorded(tmp_path: Path) -> None:
    setup = """
from setuptools import setup
from pybind11.setup_helpers import Pybind11Extension, build_ext
setup(name="thing", version="1", ext_modules=[Pybind11Extension("x", ["a.cpp"])], cmdclass={"build_ext": build_ext})
"""
    [found] = record(project(tmp_path, setup)).record.modules
    assert found.include_dirs == ("pybind11:include",)
    assert "-fvisibility=hidden" in found.cxx_flags


def test_a_library_that_the_project_moves_is_found(tmp_path: Path) -> None:
    setup = """
        import os, shutil
        from setuptools import Extension, setup
        from setuptools.command.build_ext import build_ext
        class Build(build_ext):
            def run(self):
                super().run()
                path = self.get_ext_fullpath("x")
                os.makedirs(self.build_lib + "/thing/lib")
                shutil.copy(path, self.build_lib + "/thing/lib")
                os.remove(path)
        setup(name="thing", version="1", ext_modules=[Extension("x", ["a.cpp"])], cmdclass={"build_ext": Build})
        """
    recorded = record(project(tmp_path, setup))
    [found] = recorded.record.modules
    assert (found.name, found.file) == ("x", f"thing/lib/x.{SOABI}.so")
    with zipfile.ZipFile(recorded.wheel) as wheel:
        assert wheel.getinfo(found.file).file_size == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            """
class CMakeExtension(Extension):
    def __init__(self, name): super().__init__(name, sources=[])
ext = CMakeExtension("x")
command = BuildExtension
""",
            "`x` has no sources: what builds it is no compiler",
        ),
        (
            """
ext = Extension("x", ["a.cpp"])
class command(build_ext):
    def build_extension(self, ext): pass
""",
            "the project's `command` builds `x` itself, not through setuptools",
        ),
        (
            """
ext = Extension("x", ["a.cpp"])
class command(build_ext):
    def run(self):
        try:
            subprocess.check_output(["meson", "--version"])
        except OSError:
            raise RuntimeError("Meson must be installed")
""",
            "setup.py builds with `meson`, not through setuptools",
        ),
    ],
)
def test_what_another_builder_makes_is_unsupported(tmp_path: Path, text: str, message: str) -> None:
    setup = f"""
import subprocess
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from torch.utils.cpp_extension import BuildExtension
{text}
setup(name="thing", version="1", ext_modules=[ext], cmdclass={{"build_ext": command}})
"""
    found = fault(project(tmp_path, setup))
    assert (found.code, found.message) == (Code.UNSUPPORTED, message)
