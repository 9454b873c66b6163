"""Projects with a setup.py or a pyproject.toml: what their build would compile, and the wheel of their Python part."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import zipfile
from typing import TYPE_CHECKING

import pytest
from clone import make_cache
from setup_projects import CPU, CU130, RELEASES, SETUP, fault, record, write_project

from py_driver.building.installed_torch import python_for
from py_driver.errors import Code
from py_driver.matrix.configurations import parse
from py_driver.output import Output
from py_driver.recording.record import Module
from py_driver.system.cache import CACHE_VARIABLE, cache_root

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e
ROCM = "torch213-cxx11-rocm72-x86_64-linux"
BODY = "\n".join(map(str.strip, SETUP.splitlines())) + "\n"
SOABI = "cpython-311-x86_64-linux-gnu"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, with the packages that were installed before."""
    made = make_cache(tmp_path / "cache", {name: cache_root() / name for name in ("venvs", "build-requirements")})
    monkeypatch.setenv(CACHE_VARIABLE, str(made))
    return made


def project(directory: Path, setup: str, files: dict[str, str] | None = None) -> Path:
    return write_project(directory / "project", setup, files)


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


def test_a_setup_py_is_run_once_for_a_configuration(tmp_path: Path, cache: Path) -> None:
    directory = project(tmp_path, SETUP, {"setup.cfg": ""})
    first = record(directory)
    made = (first.directory / "record.json").stat().st_ino
    [wheel] = (first.directory / "wheel").iterdir()
    assert record(directory) == first
    assert (first.directory / "record.json").stat().st_ino == made
    assert wheel.stat().st_mtime == wheel.stat().st_mtime
    assert len(list((cache / "recordings").glob("*/record.json"))) == 1
    (directory / "b.cu").write_text("// changed\n", encoding="utf-8")
    assert record(directory).directory != first.directory


def test_a_setup_py_that_reads_itself_alone_is_run_once_for_all_edits_of_its_sources(tmp_path: Path) -> None:
    directory = project(tmp_path, SETUP)
    first = record(directory)
    (directory / "b.cu").write_text("// changed\n", encoding="utf-8")
    assert record(directory) == first
    (directory / "setup.py").write_text((directory / "setup.py").read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert record(directory).directory != first.directory


def test_a_module_of_python_is_recorded_again_after_an_edit(tmp_path: Path) -> None:
    setup = SETUP.replace('version="1.0",', 'version="1.0", packages=["thing"],')
    directory = project(tmp_path, setup, {"thing/__init__.py": "A = 1\n"})
    first = record(directory)
    (directory / "thing" / "__init__.py").write_text("A = 2\n", encoding="utf-8")
    recorded = record(directory)
    assert recorded.directory != first.directory
    with zipfile.ZipFile(recorded.directory / "wheel" / recorded.record.wheel) as wheel:
        assert wheel.read("thing/__init__.py") == b"A = 2\n"


def test_a_package_that_setuptools_finds_is_recorded_again_after_an_edit(tmp_path: Path) -> None:
    setup = """
        from setuptools import setup

        setup(name="thing", version="1.0")
    """
    directory = project(tmp_path, setup, {"thing/__init__.py": "A = 1\n"})
    record(directory)
    (directory / "thing" / "__init__.py").write_text("A = 2\n", encoding="utf-8")
    recorded = record(directory)
    with zipfile.ZipFile(recorded.directory / "wheel" / recorded.record.wheel) as wheel:
        assert wheel.read("thing/__init__.py") == b"A = 2\n"


def test_what_the_driver_built_is_not_packed(tmp_path: Path) -> None:
    setup = SETUP.replace("import setup\n", "import find_namespace_packages, setup\n")
    setup = setup.replace('version="1.0",', 'version="1.0", packages=find_namespace_packages(),')
    directory = project(tmp_path, setup, {"thing/__init__.py": ""})
    first = record(directory)
    for name in (f"build/{CU130}/thing/__init__.py", ".dev/installed/thing/__init__.py"):
        (directory / name).parent.mkdir(parents=True)
        (directory / name).write_text("", encoding="utf-8")
    assert record(directory) == first


def test_two_recordings_have_the_same_bytes(tmp_path: Path, cache: Path) -> None:
    directory = project(tmp_path, SETUP, {"thing/__init__.py": "", "z.txt": "", "y.txt": ""})
    contents = []
    for _ in range(2):
        recorded = record(directory)
        contents.append({path.name: path.read_bytes() for path in recorded.directory.rglob("*") if path.is_file()})
        shutil.rmtree(cache / "recordings")
    assert contents[0] == contents[1]


def test_a_wheel_has_an_empty_library_and_the_python_part(tmp_path: Path) -> None:
    setup = BODY.replace(
        'version="1.0",', 'version="1.0", packages=["thing"], entry_points={"console_scripts": ["x=thing:f"]},'
    )
    recorded = record(project(tmp_path, setup, {"thing/__init__.py": "def f(): pass\n"}))
    with zipfile.ZipFile(recorded.directory / "wheel" / recorded.record.wheel) as wheel:
        sizes = {entry.filename: entry.file_size for entry in wheel.infolist()}
    assert sizes[f"thing_cuda.{SOABI}.so"] == 0
    assert sizes["thing/__init__.py"] > 0
    assert "thing-1.0.dist-info/entry_points.txt" in sizes
    [found] = recorded.record.modules
    assert found == Module(
        name="thing_cuda",
        kind="cuda",
        file=f"thing_cuda.{SOABI}.so",
        script="setup.py",
        line=7,
        sources=("a.cpp", "b.cu"),
        builder="torch",
    )
    assert (recorded.record.name, recorded.record.version) == ("thing", "1.0")


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


def test_the_arch_list_that_setup_py_sets_is_recorded(tmp_path: Path) -> None:
    head = "os.environ['TORCH_CUDA_ARCH_LIST'] = '9.0a'"
    recorded = record(project(tmp_path, "import os\n" + head + "\n" + BODY))
    assert recorded.record.arch_list == "9.0a"


@pytest.mark.parametrize(
    ("value", "expected"), [("'Hopper'", "9.0+PTX"), ("''", "8.0;9.0+PTX"), ("'native'", "8.0;9.0+PTX")]
)
def test_an_arch_list_has_no_names(tmp_path: Path, value: str, expected: str) -> None:
    setup = f"import os\nos.environ['TORCH_CUDA_ARCH_LIST'] = {value}\n{BODY}"
    assert record(project(tmp_path, setup)).record.arch_list == expected


@pytest.mark.parametrize(
    "requirement", ["--pre", "-e .", "x @ https://example.invalid/x.tar.gz", "./tool", "git+file:///x"]
)
def test_a_build_requirement_from_elsewhere_is_refused(tmp_path: Path, requirement: str) -> None:
    pyproject = f'[build-system]\nrequires = ["setuptools", "{requirement}"]\n'
    found = fault(project(tmp_path, SETUP, {"pyproject.toml": pyproject}))
    assert found.code is Code.UNSUPPORTED
    assert found.message == f"`{requirement}` is no build requirement that the package index has"


def test_another_release_of_torch_may_be_asked_for(tmp_path: Path) -> None:
    setup = BODY.replace('version="1.0",', 'version="1.0", setup_requires=["torch<2", "ninja", "torchvision"],')
    assert record(project(tmp_path, setup)).record.modules


def test_what_torch_says_is_that_of_the_configuration(tmp_path: Path) -> None:
    setup = """
import torch, sys, os, platform, subprocess
from importlib.metadata import version
from torch.utils import cpp_extension as c
print(version("torch"))
sys.exit(repr([str(torch.__version__), torch.__version__ >= (2, 13), torch.version.cuda, torch.version.hip,
    torch.cuda.is_available(), torch.cuda.device_count(),
    torch.cuda.get_device_capability(), torch.cuda.get_arch_list(),
    torch._C._GLIBCXX_USE_CXX11_ABI, c.CUDA_HOME == os.getenv("CUDA_HOME"), c.ROCM_HOME, os.getenv("FORCE_CUDA"),
    platform.machine(), os.cpu_count(), torch.backends.mps.is_available(), hasattr(torch, "nothing"),
    "OpenMP" in torch.__config__.parallel_info(), c._get_cuda_arch_flags() if torch.version.cuda else None]))
"""
    directory = project(tmp_path, setup)
    archs = ["arch=compute_80,code=sm_80", "arch=compute_90,code=compute_90", "arch=compute_90,code=sm_90"]
    expected = [
        "2.13.0+cu130",
        True,
        "13.0",
        None,
        True,
        2,
        (9, 0),
        ["sm_80", "sm_90"],
        True,
        True,
        None,
        "1",
        "x86_64",
    ]
    expected += [4, False, False, True, [f"-gencode={arch}" for arch in archs]]
    assert fault(directory).message == f"setup.py ends with sys.exit: {expected!r}"
    assert fault(directory, CPU).message == "setup.py raises AssertionError: Torch not compiled with CUDA enabled"


@pytest.mark.parametrize(
    ("identifier", "version"),
    [
        ("torch24-cxx98-cu118-x86_64-linux", "11.8 11.8.89"),
        ("torch27-cxx11-cu128-x86_64-linux", "12.8 12.8.93"),
        (CU130, "13.0 13.0.88"),
        ("torch215-cxx11-cu132-x86_64-linux", "13.2 13.2.78"),
    ],
)
def test_nvcc_answers_with_the_version_of_the_toolkit(tmp_path: Path, identifier: str, version: str) -> None:
    setup = """
import subprocess, re, sys, os
text = subprocess.check_output([os.environ["CUDA_HOME"] + "/bin/nvcc", "--version"], text=True)
sys.exit(re.search(r"release (\\S+),", text)[1] + " " + re.search(r", V(\\S+)", text)[1])
"""
    assert fault(project(tmp_path, setup), identifier).message == f"setup.py ends with sys.exit: {version}"


FACTS = """
import json, os, sys
import torch
from torch.utils import cpp_extension as c
os.environ["TORCH_CUDA_ARCH_LIST"] = "7.5;8.0+PTX 9.0a;Hopper"
module = c.CppExtension("x", ["a.cpp"], libraries=["m"], include_dirs=["i"], library_dirs=["l"], py_limited_api=True)
torch_path = os.path.dirname(torch.__file__)
values = [
    str(torch.__version__), torch.__version__ > "2.9", torch.__version__ == "2.13.0+cpu", torch.version.cuda,
    torch.version.hip, torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.get_arch_list(),
    torch.compiled_with_cxx11_abi(), torch._C._GLIBCXX_USE_CXX11_ABI, torch.backends.mps.is_available(),
    torch.backends.openmp.is_available(), torch.xpu.is_available(),
    torch.has_cuda, torch.has_cudnn, torch.has_mkldnn, torch.has_mps,
    "backend: OpenMP" in torch.__config__.parallel_info(), "OpenMP not found" in torch.__config__.parallel_info(),
    c.CUDA_HOME, c.ROCM_HOME, c.HIP_HOME, c.IS_HIP_EXTENSION, c.IS_WINDOWS, c.CUDNN_HOME, c.ROCM_VERSION,
    c.COMMON_NVCC_FLAGS, c.COMMON_HIP_FLAGS, c.COMMON_HIPCC_FLAGS, c.LIB_EXT, c._get_cuda_arch_flags(),
    c._get_cuda_arch_flags(["-gencode=arch=compute_80,code=sm_80"]), sorted(c.__all__),
    [os.path.relpath(path, torch_path) for path in c.include_paths() + c.library_paths() + [c.TORCH_LIB_PATH]],
    module.libraries, len(module.include_dirs), len(module.library_dirs), module.language, module.extra_compile_args,
    [name for name in c.__all__ if not hasattr(c, name)],
    c.BuildExtension.with_options(use_ninja=False).__mro__[1].__name__,
]
with open("facts.json", "w") as file:
    json.dump(values, file, indent=1)
"""


def test_the_stand_in_answers_as_torch_does(tmp_path: Path) -> None:
    python = python_for([parse(CPU)], RELEASES, Output(io.StringIO(), io.StringIO()))
    real = tmp_path / "real"
    real.mkdir()
    env = {"PATH": "/usr/bin:/bin", "HOME": str(real)}
    subprocess.run([python, "-c", FACTS], cwd=real, env=env, check=True)
    setup = f"{FACTS}\nfrom setuptools import setup\nsetup(name='x', version='1', py_modules=[])\n"
    recorded = record(project(tmp_path, setup), CPU)
    ours = (recorded.directory / "tree" / "facts.json").read_text(encoding="utf-8")
    assert json.loads(ours) == json.loads((real / "facts.json").read_text(encoding="utf-8"))


def test_rocm_has_its_own_toolkit(tmp_path: Path) -> None:
    recorded = record(project(tmp_path, SETUP), ROCM)
    assert recorded.record.modules[0].sources == ("a.cpp", "b.cu")
    assert recorded.record.arch_list == "gfx942"
    message = "import torch, sys\nsys.exit(f'{torch.__version__} {torch.version.hip} {torch.version.cuda}')"
    assert fault(project(tmp_path / "other", message), ROCM).message.endswith("2.13.0+rocm7.2 7.2.4 None")


def test_another_cpu_names_files_and_wheels(tmp_path: Path) -> None:
    recorded = record(project(tmp_path, SETUP), "torch213-cxx11-cu130-aarch64-linux")
    assert recorded.record.modules[0].file == "thing_cuda.cpython-311-aarch64-linux-gnu.so"
    assert recorded.record.wheel == "thing-1.0-cp311-cp311-linux_aarch64.whl"


def test_a_project_without_modules_is_a_record(tmp_path: Path) -> None:
    pyproject = """
        [build-system]
        requires = ["hatchling"]
        build-backend = "hatchling.build"
        [project]
        name = "pure"
        version = "2.0"
        """
    directory = write_project(tmp_path / "project", "", {"pyproject.toml": pyproject, "src/pure/__init__.py": ""})
    (directory / "setup.py").unlink()
    recorded = record(directory)
    assert (recorded.record.name, recorded.record.modules) == ("pure", ())
    assert recorded.record.wheel == "pure-2.0-py2.py3-none-any.whl"


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


def test_setup_cfg_and_a_src_layout_are_read(tmp_path: Path) -> None:
    cfg = """
        [metadata]
        name = thing
        version = attr: thing.version.__version__
        [options]
        packages = find:
        package_dir =
            = src
        [options.packages.find]
        where = src
        [options.package_data]
        thing = *.json
        """
    files = {
        "setup.cfg": cfg,
        "src/thing/__init__.py": "import torch_that_is_not_there\n",
        "src/thing/version.py": "__version__ = '3.1'\n",
        "src/thing/data.json": "{}",
    }
    setup = BODY.replace('name="thing",', "").replace('version="1.0",', "").replace("thing_cuda", "thing._C")
    recorded = record(project(tmp_path, setup, files))
    assert (recorded.record.version, recorded.record.modules[0].file) == ("3.1", f"thing/_C.{SOABI}.so")
    with zipfile.ZipFile(recorded.directory / "wheel" / recorded.record.wheel) as wheel:
        assert "thing/data.json" in wheel.namelist()


def test_a_version_of_git_is_found(tmp_path: Path) -> None:
    pyproject = """
        [build-system]
        requires = ["setuptools>=61", "setuptools-scm>=8"]
        build-backend = "setuptools.build_meta"
        [project]
        name = "thing"
        dynamic = ["version"]
        [tool.setuptools_scm]
        """
    setup = BODY.replace('name="thing",', "").replace('version="1.0",', "py_modules=[],")
    directory = project(tmp_path, setup, {"pyproject.toml": pyproject})
    settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"], ["tag", "v4.5"]):
        subprocess.run(["git", *settings, *words], cwd=directory, check=True)
    assert record(directory).record.version == "4.5"


def test_a_git_worktree_has_its_version_as_well(tmp_path: Path) -> None:
    setup = """
import subprocess, sys
sys.exit(subprocess.check_output(["git", "describe", "--tags"], text=True).strip())
"""
    directory = project(tmp_path, setup)
    settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"], ["tag", "v4.5"]):
        subprocess.run(["git", *settings, *words], cwd=directory, check=True)
    subprocess.run(["git", "worktree", "add", "-q", str(tmp_path / "tree")], cwd=directory, check=True)
    assert fault(tmp_path / "tree").message == "setup.py ends with sys.exit: v4.5"


def test_generated_sources_are_in_the_tree(tmp_path: Path) -> None:
    text = """
import os, subprocess, sys
os.makedirs("build/made", exist_ok=True)
subprocess.check_call([sys.executable, "gen.py"])
os.path.exists("linked.cpp") or os.symlink("a.cpp", "linked.cpp")
"""
    setup = text + BODY.replace('["a.cpp", "b.cu"]', '["build/made/c.cu", "linked.cpp"]')
    recorded = record(project(tmp_path, setup, {"gen.py": "open('build/made/c.cu', 'w').write('// made')\n"}))
    assert recorded.record.files == ("build/made/c.cu", "linked.cpp")
    assert (recorded.directory / "tree" / "build" / "made" / "c.cu").read_text(encoding="utf-8") == "// made"


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


def test_what_a_setup_py_asks_before_it_builds_has_an_answer(tmp_path: Path) -> None:
    text = """
import subprocess
import torch.mps
from torch._C import parse_schema
subprocess.check_call(["pip", "uninstall", "thing", "-y"])
try:
    torch.mps.current_allocated_memory()
except RuntimeError:
    pass
"""
    assert record(project(tmp_path, text + BODY)).record.modules
    found = fault(project(tmp_path / "other", "from torch._C import parse_schema\nparse_schema('aten::f() -> ()')\n"))
    assert (found.code, found.message) == (
        Code.UNSUPPORTED,
        "`torch._C.parse_schema` asks for the ops of torch: aten::f",
    )


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


def test_what_only_rocm_needs_can_be_imported(tmp_path: Path) -> None:
    assert record(project(tmp_path, "from torch.utils.hipify import hipify_python\n" + BODY)).record.modules


def test_a_prebuilt_wheel_is_not_looked_for(tmp_path: Path) -> None:
    setup = "import os\nassert os.getenv('THING_FORCE_BUILD', 'FALSE') == 'TRUE'\n" + BODY
    assert record(project(tmp_path, setup)).record.modules


def test_a_variable_that_setup_py_reads_is_part_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = "import os\nname = os.environ.get('THING_NAME', 'thing_cuda')\n" + BODY.replace('"thing_cuda"', "name")
    directory = project(tmp_path, setup)
    assert record(directory).record.modules[0].name == "thing_cuda"
    monkeypatch.setenv("THING_NAME", "other")
    assert record(directory).record.modules[0].name == "other"


def test_a_build_requirement_without_a_wheel_is_refused(tmp_path: Path) -> None:
    pyproject = '[build-system]\nrequires = ["setuptools", "six<0.5"]\n'
    found = fault(project(tmp_path, SETUP, {"pyproject.toml": pyproject}))
    assert found.code is Code.UNSUPPORTED
    assert "six<0.5" in found.message


def test_leftovers_of_builds_are_not_seen(tmp_path: Path) -> None:
    files = {
        "build/lib.linux-x86_64-cpython-311/stale.py": "",
        "dist/old.whl": "",
        ".venv/pyvenv.cfg": "",
        "e/pyvenv.cfg": "",
    }
    setup = "import os, sys\nsys.exit(str(sorted(name for name in os.listdir('.'))))"
    found = fault(project(tmp_path, setup, files))
    assert found.message == "setup.py ends with sys.exit: ['a.cpp', 'b.cu', 'setup.py']"
