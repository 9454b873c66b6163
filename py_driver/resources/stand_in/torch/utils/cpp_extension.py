"""torch.utils.cpp_extension while a setup.py is recorded: the names and the behaviour of torch's, without a compiler.

Source of what is public and of what CUDAExtension and CppExtension add: torch 2.4 to 2.14.
"""

from __future__ import annotations

import copy
import os
import re
from pathlib import Path
from typing import Any, NoReturn

import setuptools
from setuptools.command.build_ext import build_ext

import torch
from torch._facts import FACTS, Refused, lacks
from torch.torch_version import TorchVersion

__all__ = [
    "BuildExtension",
    "CUDAExtension",
    "CppExtension",
    "SyclExtension",
    "check_compiler_is_gcc",
    "check_compiler_ok_for_platform",
    "get_compiler_abi_compatibility_and_version",
    "get_cxx_compiler",
    "get_default_build_root",
    "include_paths",
    "is_ninja_available",
    "library_paths",
    "load",
    "load_inline",
    "remove_extension_h_precompiler_headers",
    "verify_ninja_availability",
]

IS_WINDOWS = False
IS_MACOS = False
IS_LINUX = True
LIB_EXT = CLIB_EXT = ".so"
EXEC_EXT = ""
CLIB_PREFIX = "lib"
SHARED_FLAG = "-shared"
SUBPROCESS_DECODE_ARGS = ()
MINIMUM_GCC_VERSION = (5, 0, 0)
MINIMUM_CLANG_VERSION = (3, 3, 0)
MINIMUM_MSVC_VERSION = (19, 0, 24215)
COMMON_MSVC_FLAGS: list[str] = []
MSVC_IGNORE_CUDAFE_WARNINGS: list[str] = []
BUILT_FROM_SOURCE_VERSION_PATTERN = re.compile(r"\d+\.\d+\.\d+\w+\+\w+")

_TORCH_PATH = str(Path(__file__).parents[1])
TORCH_LIB_PATH = os.path.join(_TORCH_PATH, "lib")  # noqa: PTH118  (strings, as torch has them)

ROCM_HOME: str | None = FACTS["home"] if torch.version.hip else None
HIP_HOME: str | None = f"{ROCM_HOME}/hip" if ROCM_HOME else None
IS_HIP_EXTENSION = torch.version.hip is not None
ROCM_VERSION = tuple(map(int, torch.version.hip.split(".")[:2])) if torch.version.hip else None
CUDA_HOME: str | None = FACTS["home"] if torch.version.cuda else None
CUDNN_HOME: str | None = None
SYCL_HOME: str | None = None
WINDOWS_CUDA_HOME: str | None = None

COMMON_NVCC_FLAGS: list[str] = FACTS["common_nvcc_flags"]
COMMON_HIP_FLAGS = ["-D__HIP_PLATFORM_AMD__=1", "-DUSE_ROCM=1", "-DHIPBLAS_V2", "-fPIC"]
COMMON_HIPCC_FLAGS = [
    "-DCUDA_HAS_FP16=1",
    "-D__HIP_NO_HALF_OPERATORS__=1",
    "-D__HIP_NO_HALF_CONVERSIONS__=1",
    "-DHIP_ENABLE_WARP_SYNC_BUILTINS=1",
]

_TORCH_LIBRARIES = ("c10", "torch", "torch_cpu")
_OF_BACKEND = ("amdhip64", "c10_hip", "torch_hip") if IS_HIP_EXTENSION else ("cudart", "c10_cuda", "torch_cuda")

_NAMED_ARCHS = {
    "Kepler+Tesla": "3.7",
    "Kepler": "3.5+PTX",
    "Maxwell+Tegra": "5.3",
    "Maxwell": "5.0;5.2+PTX",
    "Pascal": "6.0;6.1+PTX",
    "Volta+Tegra": "7.2",
    "Volta": "7.0+PTX",
    "Turing": "7.5+PTX",
    "Ampere+Tegra": "8.7",
    "Ampere": "8.0;8.6+PTX",
    "Ada": "8.9+PTX",
    "Hopper": "9.0+PTX",
    "Blackwell+Tegra": "11.0",
    "Blackwell": "10.0;10.3;12.0;12.1+PTX",
}
_ARCH = re.compile(r"(\d+)\.(\d[af]?)(\+PTX)?")


class BuildExtension(build_ext):  # type: ignore[misc]  # setuptools has no types
    """torch's build_ext: flags for each compiler, and names without the ABI of Python."""

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:  # noqa: ANN401  (any that torch knows)
        """A class with some options set."""

        class WithOptions(cls):  # type: ignore[misc, valid-type]  # cls is a class at run time
            def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
                super().__init__(*args, **{**kwargs, **options})

        WithOptions.__name__ = cls.__name__
        return WithOptions

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs)
        self.no_python_abi_suffix = kwargs.get("no_python_abi_suffix", False)
        self.use_ninja = kwargs.get("use_ninja", True)

    def finalize_options(self) -> None:
        """Build what is there already, too: as torch does with ninja."""
        super().finalize_options()
        if self.use_ninja:
            self.force = True

    def build_extensions(self) -> None:
        """Complete the flags, as torch does before it compiles, and build."""
        for extension in self.extensions:
            if isinstance(extension.extra_compile_args, dict):
                for compiler in ("cxx", "nvcc", "sycl"):
                    extension.extra_compile_args.setdefault(compiler, [])
        self.compiler.src_extensions += [".cu", ".cuh", ".hip", ".sycl"]
        super().build_extensions()

    def get_ext_filename(self, ext_name: str) -> str:
        """The path of a library, without the ABI of Python on request."""
        path: str = super().get_ext_filename(ext_name)
        parts = path.split(".")
        return ".".join([*parts[:-2], parts[-1]]) if self.no_python_abi_suffix and len(parts) > 2 else path  # noqa: PLR2004

    def _check_abi(self) -> tuple[str, TorchVersion]:
        """The compiler and its version."""
        return get_cxx_compiler(), get_compiler_abi_compatibility_and_version(get_cxx_compiler())[1]

    def _add_compile_flag(self, extension: Any, flag: str) -> None:  # noqa: ANN401
        """Add a flag to those of all compilers, in lists of this extension's own."""
        args = extension.extra_compile_args = copy.deepcopy(extension.extra_compile_args)
        for flags in args.values() if isinstance(args, dict) else [args]:
            flags.append(flag)


def _extension(
    kind: str,
    name: str,
    sources: Any,  # noqa: ANN401  (what setuptools accepts)
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> setuptools.Extension:
    """An extension with what torch adds; lists of the caller's grow, as they do with torch."""
    device = "cuda" if kind == "cuda" else "cpu"
    library_dirs = kwargs.get("library_dirs", [])
    library_dirs += library_paths(device)
    include_dirs = kwargs.get("include_dirs", [])
    include_dirs += include_paths(device)
    libraries = kwargs.get("libraries", [])
    added = [*_TORCH_LIBRARIES, *([] if kwargs.get("py_limited_api", False) else ["torch_python"])]
    added += _OF_BACKEND if kind == "cuda" else ()
    libraries += added
    kwargs |= {
        "library_dirs": library_dirs,
        "include_dirs": include_dirs,
        "libraries": libraries,
        "language": "c++",
    }
    linked = kwargs.get("dlink_libraries", [])
    if kwargs.get("dlink", False) or linked:
        flags = kwargs.setdefault("extra_compile_args", {})
        linking = flags.get("nvcc_dlink", [])
        linking += ["-dlink", *(f"-L{path}" for path in library_dirs), *(f"-l{library}" for library in linked), "-dlto"]
        flags["nvcc_dlink"] = linking
    extension = setuptools.Extension(name, sources, *args, **kwargs)
    extension.of_torch = {
        "kind": kind,
        "libraries": added,
        "include_dirs": include_paths(device),
        "library_dirs": library_paths(device),
    }
    return extension


def CppExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> setuptools.Extension:  # noqa: ANN401, N802
    """An extension in C++."""
    return _extension("cpp", name, sources, args, kwargs)


def CUDAExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> setuptools.Extension:  # noqa: ANN401, N802
    """An extension in C++ and CUDA."""
    return _extension("cuda", name, sources, args, kwargs)


def SyclExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> NoReturn:  # noqa: ANN401, N802
    """An extension in SYCL, which no backend of the driver compiles."""
    del sources, args, kwargs
    raise Refused(f"`{name}` is a SyclExtension; no backend here compiles SYCL")


def _join_cuda_home(*paths: str) -> str:
    if CUDA_HOME is None:
        raise OSError("CUDA_HOME environment variable is not set. Please set it to your CUDA install root.")
    return os.path.join(CUDA_HOME, *paths)  # noqa: PTH118


def _join_rocm_home(*paths: str) -> str:
    if ROCM_HOME is None:
        raise OSError("ROCM_HOME environment variable is not set. Please set it to your ROCm install root.")
    return os.path.join(ROCM_HOME, *paths)  # noqa: PTH118


def _find_cuda_home() -> str | None:
    return CUDA_HOME


def _find_rocm_home() -> str | None:
    return ROCM_HOME


def include_paths(
    device_type: str | bool = "cpu",  # noqa: FBT001  (`cuda` was a bool up to torch 2.5)
    torch_include_dirs: bool = True,  # noqa: FBT001, FBT002
    *,
    cuda: bool = False,
) -> list[str]:
    """The directories of torch's headers, and of a backend's."""
    device = "cuda" if cuda or device_type is True else device_type
    include = f"{_TORCH_PATH}/include"
    found = [include, f"{include}/torch/csrc/api/include"] if torch_include_dirs else []
    if device == "cuda" and IS_HIP_EXTENSION:
        return [*found, f"{include}/THH", _join_rocm_home("include")]
    return [*found, _join_cuda_home("include")] if device == "cuda" else found


def library_paths(
    device_type: str | bool = "cpu",  # noqa: FBT001
    torch_include_dirs: bool = True,  # noqa: FBT001, FBT002
    cross_target_platform: str | None = None,
    *,
    cuda: bool = False,
) -> list[str]:
    """The directories of torch's libraries, and of a backend's."""
    del cross_target_platform
    device = "cuda" if cuda or device_type is True else device_type
    found = [TORCH_LIB_PATH] if torch_include_dirs else []
    if device == "cuda" and IS_HIP_EXTENSION:
        return [*found, _join_rocm_home("lib"), f"{HIP_HOME}/lib"]
    return [*found, _join_cuda_home("lib64")] if device == "cuda" else found


def is_ninja_available() -> bool:
    """Whether there is ninja: what compiles does not need it."""
    return True


def verify_ninja_availability() -> None:
    """Nothing: see `is_ninja_available`."""


def get_cxx_compiler() -> str:
    """The C++ compiler."""
    return os.environ.get("CXX", "c++")


def check_compiler_ok_for_platform(compiler: str) -> bool:
    """Whether torch takes a compiler: the one that compiles is chosen by the toolchains."""
    del compiler
    return True


def check_compiler_is_gcc(compiler: str) -> bool:
    """Whether it is gcc: flags of gcc are understood."""
    del compiler
    return True


def get_compiler_abi_compatibility_and_version(compiler: str) -> tuple[bool, TorchVersion]:
    """Whether a compiler has torch's ABI, and its version."""
    del compiler
    return True, TorchVersion(FACTS["gcc"])


def check_compiler_abi_compatibility(compiler: str) -> bool:
    """Whether a compiler has torch's ABI."""
    del compiler
    return True


def get_default_build_root() -> str:
    """Where `load` builds."""
    return str(Path.home() / ".cache" / "torch_extensions")


def remove_extension_h_precompiler_headers() -> None:
    """Nothing is precompiled."""


def _get_cuda_arch_flags(cflags: list[str] | None = None) -> list[str]:
    """The options for nvcc of TORCH_CUDA_ARCH_LIST; none if there are some in the flags already.

    Raises:
        ValueError: a word is no architecture.
    """
    if any("arch" in flag and "TORCH_EXTENSION_NAME" not in flag for flag in cflags or ()):
        return []
    text = os.environ.get("TORCH_CUDA_ARCH_LIST", "")
    if not text or text == "native":
        text = FACTS["arch_list"]
    text = text.replace(" ", ";")
    for name, archs in _NAMED_ARCHS.items():
        text = text.replace(name, archs)
    flags = set()
    for arch in text.split(";"):
        found = _ARCH.fullmatch(arch)
        if found is None:
            raise ValueError(f"Unknown CUDA arch ({arch}) or GPU not supported")
        number = found[1] + found[2]
        flags.add(f"-gencode=arch=compute_{number},code=sm_{number}")
        if found[3]:
            flags.add(f"-gencode=arch=compute_{number},code=compute_{number}")
    return sorted(flags)


def _get_rocm_arch_flags(cflags: list[str] | None = None) -> list[str]:
    """The options for hipcc of PYTORCH_ROCM_ARCH."""
    if any("amdgpu-target" in flag or "offload-arch" in flag for flag in cflags or ()):
        return ["-fno-gpu-rdc"]
    archs = os.environ.get("PYTORCH_ROCM_ARCH", "").replace(" ", ";") or ";".join(FACTS["archs"])
    return [*(f"--offload-arch={arch}" for arch in archs.split(";")), "-fno-gpu-rdc"]


def _is_cuda_file(path: str) -> bool:
    return path.endswith((".cu", ".cuh", ".hip") if IS_HIP_EXTENSION else (".cu", ".cuh"))


def load(name: str, *args: Any, **kwargs: Any) -> NoReturn:  # noqa: ANN401
    """Compile and load at once, which no recording can."""
    del args, kwargs
    raise Refused(f"`torch.utils.cpp_extension.load` compiles `{name}` while setup.py runs")


def load_inline(name: str, *args: Any, **kwargs: Any) -> NoReturn:  # noqa: ANN401
    """Compile and load at once, which no recording can."""
    del args, kwargs
    raise Refused(f"`torch.utils.cpp_extension.load_inline` compiles `{name}` while setup.py runs")


def __getattr__(name: str) -> object:
    return lacks(__name__, name)
