"""Every key of build.toml, by table and edition: the source of the readers, the schema and the reference page.

The editions and their keys follow upstream's kernel-builder: 0 its README of January 2025 (toml2cmake), 1 its
documentation of April 2025 (build2cmake), 2 to 5 its sources (kernels-data/src/config/v2.rs to v5.rs, 2026) and what
its parser in the `kernels` wheel 0.17.2 answers, 6 its sources of autumn 2026 (kernels-common/src/config/v6.rs).
"""

from __future__ import annotations

from py_driver.manifest.keys import EXTENSION, GIT_REF, GIT_URL, REPO_ID, Key, Kind, Table
from py_driver.manifest.model import DEPENDS
from py_driver.matrix.backends import BACKENDS, KERNEL_BACKENDS, LANGUAGES
from py_driver.matrix.backends.cuda import CAPABILITY
from py_driver.matrix.backends.rocm import GFX

_PYTHON_DEPENDS = Key(
    name="python-depends",
    kind=Kind.TEXTS,
    since=3,
    doc="Python packages that the kernel needs at run time on this backend. The `kernels` client admits only a few: "
    "see [Python dependencies](#python-dependencies).",
    example='["nvidia-cutlass-dsl"]',
)
_KERNEL_DEPENDS = Key(
    name="kernel-depends",
    kind=Kind.TABLES,
    since=5,
    doc="Other kernels on the Hub that the kernel loads at run time on this backend.",
    example='[{ repo-id = "owner/name", version = 1 }]',
)
_PYEXT = Key(
    name="pyext",
    kind=Kind.TEXTS,
    pattern=EXTENSION,
    noun="a file extension without its dot",
    doc="Extensions, without the first dot, of the files of the Python package that are shipped; "
    '`["py", "pyi"]` where absent. Add others to ship data files.',
    example='["py", "pyi", "json"]',
)
_INCLUDE = Key(
    name="include",
    kind=Kind.TEXTS,
    doc="Directories to include from, relative to the project; `.` is the project itself.",
    example='["."]',
)
_CXX_FLAGS = Key(
    name="cxx-flags",
    kind=Kind.TEXTS,
    since=2,
    doc="Flags for C++ sources. Only flags that cannot break hermeticity are admitted.",
    example='["-O2"]',
)
_MINVER = Key(
    name="minver",
    kind=Kind.VERSION,
    since=2,
    doc="The lowest version to build for, inclusive.",
    example='"2.11"',
)
_MAXVER = Key(
    name="maxver",
    kind=Kind.VERSION,
    since=2,
    doc='The highest version to build for, inclusive; `"2.12"` admits 2.12.1.',
    example='"2.13"',
)

TABLES = (
    Table(
        path="",
        doc="A file has `[general]`, one framework table, and any number of kernel sections.",
        keys=(
            Key(name="general", kind=Kind.TABLE, required=0, doc="What the project is and what it is built for."),
            Key(name="torch", kind=Kind.TABLE, doc="The framework table of kernels that are compiled."),
            Key(name="torch-noarch", kind=Kind.TABLE, since=4, doc="The framework table of pure Python kernels."),
            Key(name="tvm-ffi", kind=Kind.TABLE, since=3, doc="The framework table of kernels bound with tvm-ffi."),
            Key(name="kernel", kind=Kind.TABLE, doc="The kernel sections, by name."),
        ),
    ),
    Table(
        path="general",
        doc="What the project is and what it is built for.",
        keys=(
            Key(
                name="name",
                kind=Kind.TEXT,
                since=1,
                required=1,
                pattern="[a-z][a-z0-9_-]*[a-z0-9]",
                doc="The name of the project. The Python package has the same name with `_` for `-`.",
                example='"relu"',
            ),
            Key(
                name="version",
                kind=Kind.TEXT,
                until=0,
                doc="The version of the project. Its first number is what `version` is in later editions.",
                example='"0.0.1"',
            ),
            Key(
                name="version",
                kind=Kind.INTEGER,
                since=3,
                required=4,
                doc="Major version of the kernel's interface; a new one where callers would break. 0 is for trials.",
                example="1",
            ),
            Key(
                name="edition",
                kind=Kind.INTEGER,
                since=5,
                required=5,
                doc="The edition of build.toml that the file is written in.",
                example="5",
            ),
            Key(
                name="license",
                kind=Kind.TEXT,
                since=3,
                required=4,
                doc="The Hub's identifier of the licence.",
                example='"apache-2.0"',
            ),
            Key(
                name="backends",
                kind=Kind.TEXTS,
                since=3,
                required=3,
                choices=BACKENDS,
                noun="backend",
                doc="What to build for. Without a kernel section a backend gets Python files only, if another has one.",
                example='["cpu", "cuda"]',
            ),
            Key(
                name="universal",
                kind=Kind.BOOLEAN,
                since=2,
                until=2,
                doc="`true` for a project of Python files that runs on every backend.",
                example="true",
            ),
            Key(
                name="upstream",
                kind=Kind.TEXT,
                since=3,
                pattern=GIT_URL,
                noun="a git URL",
                doc="Where the kernel came from: a git URL.",
                example='"https://example.org/kernels.git"',
            ),
            Key(
                name="source",
                kind=Kind.TEXT,
                since=4,
                pattern=GIT_URL,
                noun="a git URL",
                doc="Where this project lives: a git URL.",
                example='"https://example.org/relu.git"',
            ),
            Key(
                name="cuda-minver",
                kind=Kind.VERSION,
                since=2,
                until=2,
                doc="The lowest CUDA version to build for.",
                example='"12.8"',
            ),
            Key(
                name="cuda-maxver",
                kind=Kind.VERSION,
                since=2,
                until=2,
                doc="The highest CUDA version to build for.",
                example='"13.0"',
            ),
            Key(
                name="python-depends",
                kind=Kind.TEXTS,
                since=2,
                doc="Python packages that the kernel needs at run time on every backend: see "
                "[Python dependencies](#python-dependencies).",
                example='["einops"]',
            ),
            Key(
                name="kernel-depends",
                kind=Kind.TABLES,
                since=5,
                doc="Other kernels on the Hub that the kernel loads at run time on every backend.",
                example='[{ repo-id = "owner/name", version = 1 }]',
            ),
            Key(name="cuda", kind=Kind.TABLE, since=3, doc="Settings for CUDA only."),
            Key(name="neuron", kind=Kind.TABLE, since=3, doc="Settings for Neuron only."),
            Key(name="tpu", kind=Kind.TABLE, since=5, doc="Settings for TPUs only."),
            Key(name="xpu", kind=Kind.TABLE, since=3, doc="Settings for XPUs only."),
            Key(name="hub", kind=Kind.TABLE, since=2, doc="Where the kernel is published."),
        ),
    ),
    Table(
        path="general.cuda",
        doc="Settings for the CUDA backend only.",
        keys=(_MINVER, _MAXVER, _PYTHON_DEPENDS, _KERNEL_DEPENDS),
    ),
    Table(
        path="general.neuron",
        doc="Settings for the Neuron backend only.",
        keys=(_PYTHON_DEPENDS, _KERNEL_DEPENDS),
    ),
    Table(path="general.tpu", doc="Settings for the TPU backend only.", keys=(_PYTHON_DEPENDS,)),
    Table(path="general.xpu", doc="Settings for the XPU backend only.", keys=(_PYTHON_DEPENDS, _KERNEL_DEPENDS)),
    Table(
        path="general.hub",
        doc="Where the kernel is published.",
        keys=(
            Key(
                name="repo-id",
                kind=Kind.TEXT,
                since=2,
                pattern=REPO_ID,
                noun="a repository on the Hub",
                doc="The repository on the Hub.",
                example='"kernels-community/relu"',
            ),
            Key(
                name="branch",
                kind=Kind.TEXT,
                since=2,
                pattern=GIT_REF,
                noun="the name of a branch",
                doc="The branch to publish to, instead of `v<version>`.",
                example='"v1"',
            ),
        ),
    ),
    Table(
        path="kernel-depends",
        doc="An entry of `kernel-depends`; it has either `version` or `revision`.",
        keys=(
            Key(
                name="repo-id",
                kind=Kind.TEXT,
                since=5,
                required=5,
                pattern=REPO_ID,
                noun="a repository on the Hub",
                doc="The repository of the other kernel on the Hub.",
                example='"owner/name"',
            ),
            Key(name="version", kind=Kind.INTEGER, since=5, doc="Its major version.", example="1"),
            Key(
                name="revision",
                kind=Kind.TEXT,
                since=5,
                pattern=GIT_REF,
                noun="a git revision",
                doc="Its git revision.",
                example='"main"',
            ),
        ),
    ),
    Table(
        path="torch",
        doc="The framework table of kernels that are compiled and bound to torch.",
        keys=(
            Key(
                name="name",
                kind=Kind.TEXT,
                until=0,
                required=0,
                pattern="[a-z][a-z0-9_-]*[a-z0-9]",
                doc="The name of the project and of its Python package.",
                example='"relu"',
            ),
            Key(
                name="pyroot",
                kind=Kind.TEXT,
                until=0,
                required=0,
                doc="The directory that holds the Python package.",
                example='"ext-torch"',
            ),
            Key(
                name="src",
                kind=Kind.TEXTS,
                doc="Sources and headers of the binding: the C++ code that registers the ops. Headers of the kernel "
                "sections need no second entry.",
                example='["torch-ext/torch_binding.cpp"]',
            ),
            _INCLUDE,
            _PYEXT,
            Key(
                name="universal",
                kind=Kind.BOOLEAN,
                since=1,
                until=1,
                doc="`true` for a project of Python files that runs on every backend.",
                example="true",
            ),
            _MINVER,
            _MAXVER,
            Key(
                name="stable-abi",
                kind=Kind.VERSION,
                since=4,
                until=4,
                doc="Build one variant for this torch version and all later ones, against torch's stable ABI.",
                example='"2.9"',
            ),
            Key(
                name="stable-abi",
                kind=Kind.VERSIONS,
                since=5,
                doc="Build one variant for this torch version and all later ones, against torch's stable ABI; a table "
                "sets it for each backend, and other backends are built without it.",
                example='"2.9"',
            ),
            Key(
                name="cxx-flags",
                kind=Kind.TEXTS,
                since=4,
                doc="Flags for the C++ sources of the binding.",
                example='["-O2"]',
            ),
        ),
    ),
    Table(
        path="torch-noarch",
        doc="The framework table of kernels that are Python files only, such as Triton kernels.",
        keys=(
            _PYEXT,
            Key(
                name="cuda-capabilities",
                kind=Kind.TEXTS,
                since=4,
                pattern=CAPABILITY,
                noun="a CUDA capability",
                doc="CUDA capabilities that metadata.json states; nothing is compiled for them.",
                example='["8.0", "9.0"]',
            ),
            Key(
                name="cuda_capabilities",
                kind=Kind.TEXTS,
                since=4,
                pattern=CAPABILITY,
                noun="a CUDA capability",
                doc="The same; upstream's parser knows only this spelling.",
                example='["8.0", "9.0"]',
            ),
            Key(
                name="rocm-archs",
                kind=Kind.TEXTS,
                since=4,
                pattern=GFX,
                noun="an AMD architecture",
                doc="AMD architectures that metadata.json states; nothing is compiled for them.",
                example='["gfx942"]',
            ),
            Key(
                name="rocm_archs",
                kind=Kind.TEXTS,
                since=4,
                pattern=GFX,
                noun="an AMD architecture",
                doc="The same; upstream's parser knows only this spelling.",
                example='["gfx942"]',
            ),
        ),
    ),
    Table(
        path="tvm-ffi",
        doc="The framework table of kernels bound with tvm-ffi.",
        keys=(
            Key(
                name="src",
                kind=Kind.TEXTS,
                since=3,
                until=5,
                required=3,
                doc="Sources and headers of the binding, in `tvm-ffi-ext/`.",
                example='["tvm-ffi-ext/binding.cpp"]',
            ),
            Key(
                name="src",
                kind=Kind.TEXTS,
                since=6,
                doc="The same; kernels in Rust have none.",
                example='["tvm-ffi-ext/binding.cpp"]',
            ),
            _INCLUDE,
            _PYEXT,
            Key(
                name="cxx-flags",
                kind=Kind.TEXTS,
                since=4,
                doc="Flags for the C++ sources of the binding.",
                example='["-O2"]',
            ),
        ),
    ),
    Table(
        path="kernel.*",
        doc="A kernel section: files that are compiled with the same flags for one backend. Its name is a label.",
        keys=(
            Key(
                name="backend",
                kind=Kind.TEXT,
                since=2,
                until=5,
                required=2,
                choices=KERNEL_BACKENDS,
                noun="backend",
                doc="The backend that the section is for.",
                example='"cuda"',
            ),
            Key(
                name="language",
                kind=Kind.TEXT,
                since=1,
                until=1,
                choices=("cuda", "cuda-hipify", "metal"),
                noun="language",
                doc="`cuda` where absent; `cuda-hipify` is for CUDA and for ROCm.",
                example='"cuda"',
            ),
            Key(
                name="language",
                kind=Kind.TEXT,
                since=6,
                required=6,
                choices=tuple(LANGUAGES),
                noun="language",
                doc="The language of the section, and the backend that it is for.",
                example='"cpp-cuda"',
            ),
            Key(
                name="cargo-manifest",
                kind=Kind.TEXT,
                since=6,
                backends=("cpu",),
                doc="The `Cargo.toml` of a section in Rust. The driver reads it, and cannot build it.",
                example='"relu/Cargo.toml"',
            ),
            Key(
                name="depends",
                kind=Kind.TEXTS,
                required=0,
                choices=DEPENDS,
                noun="dependency",
                doc="What the sources include besides their own headers; `[]` if they include nothing. Without `torch` "
                "in it a section is compiled once for all torch versions of a C++ ABI.",
                example='["torch"]',
            ),
            Key(
                name="src",
                kind=Kind.TEXTS,
                required=0,
                doc="Sources and headers, relative to the project. A header that is not listed does not exist for the "
                "compiler.",
                example='["relu/relu.cu", "relu/relu.h"]',
            ),
            _INCLUDE,
            _CXX_FLAGS,
            Key(
                name="capabilities",
                kind=Kind.TEXTS,
                until=0,
                required=0,
                pattern=CAPABILITY,
                noun="a CUDA capability",
                doc="The GPU architectures to compile for.",
                example='["8.0", "9.0a"]',
            ),
            Key(
                name="cuda-capabilities",
                kind=Kind.TEXTS,
                since=1,
                backends=("cuda",),
                pattern=CAPABILITY,
                noun="a CUDA capability",
                doc="The GPU architectures to compile for; the list of the CUDA version where absent. See "
                "[GPU architectures](#gpu-architectures).",
                example='["8.0", "9.0a"]',
            ),
            Key(
                name="cuda-flags",
                kind=Kind.TEXTS,
                since=2,
                backends=("cuda",),
                doc="Flags for nvcc.",
                example='["--use_fast_math"]',
            ),
            Key(
                name="cuda-minver",
                kind=Kind.VERSION,
                since=2,
                backends=("cuda",),
                doc="The CUDA version below which the section is excluded.",
                example='"12.8"',
            ),
            Key(
                name="rocm-archs",
                kind=Kind.TEXTS,
                since=1,
                backends=("rocm",),
                pattern=GFX,
                noun="an AMD architecture",
                doc="The AMD architectures to compile for.",
                example='["gfx90a", "gfx942"]',
            ),
            Key(
                name="hip-flags",
                kind=Kind.TEXTS,
                since=2,
                backends=("rocm",),
                doc="Flags for the HIP compiler.",
                example='["-O3"]',
            ),
            Key(
                name="sycl-flags",
                kind=Kind.TEXTS,
                since=2,
                backends=("xpu",),
                doc="Flags for the SYCL compiler.",
                example='["-O3"]',
            ),
        ),
    ),
)
"""The tables, in the order of the reference page."""


def table(path: str) -> Table:
    """The table of a path such as `general.cuda` or `kernel.*`."""
    return next(known for known in TABLES if known.path == path)
