"""Records of a setup.py as a plan: flags, architectures, headers, and the targets that configurations share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from py_driver.errors import Code, DriverError, Span
from py_driver.extensions.binding import Bindings
from py_driver.extensions.headers import ProjectTree
from py_driver.extensions.plan import ConfigurationRecord, plan_extensions
from py_driver.matrix.configurations import parse
from py_driver.matrix.pythons import Python
from py_driver.matrix.releases import Releases
from py_driver.plan.buildfile import render
from py_driver.recording.record import Module, Record, read_record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from py_driver.plan.plan import Plan

CPU = "torch213-cxx11-cpu-x86_64-linux"
CU130 = "torch213-cxx11-cu130-x86_64-linux"
CU132 = "torch213-cxx11-cu132-x86_64-linux"
NEXT = "torch215-cxx11-cu130-x86_64-linux"
ROCM = "torch213-cxx11-rocm72-x86_64-linux"
FILES = {
    "setup.py": "ext_modules=[CUDAExtension('pkg._C', [])]\n",
    "csrc/ops.cpp": '#include <torch/extension.h>\n#include "ops.h"\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}\n',
    "csrc/ops.h": '#pragma once\n#include "deep/more.h"\n',
    "csrc/deep/more.h": "#pragma once\n",
    "csrc/unused.h": "#pragma once\n",
    "csrc/kernel.cu": '#include "ops.h"\n__global__ void kernel() {}\n',
    "csrc/with_torch.cu": "#include <ATen/ATen.h>\n",
}
SOURCES = ("csrc/ops.cpp", "csrc/kernel.cu")


def module(**fields: object) -> Module:
    values: dict[str, object] = {
        "name": "pkg._C",
        "kind": "cuda",
        "file": "pkg/_C.cpython-311-x86_64-linux-gnu.so",
        "script": "setup.py",
        "line": 1,
        "sources": SOURCES,
        "include_dirs": ("csrc", "torch:include", "cuda:include"),
        **fields,
    }
    return Module(**values)  # type: ignore[arg-type]


def recorded(identifier: str, *modules: Module, arch_list: str = "8.0;9.0") -> ConfigurationRecord:
    configuration = parse(identifier)
    record = Record(
        torch=configuration.torch or "",
        backend=configuration.backend,
        cxx_abi=configuration.abi or "",
        cpu=configuration.cpu or "",
        arch_list="" if configuration.family == "cpu" else arch_list,
        name="pkg",
        version="1.0",
        wheel="pkg-1.0-py3-none-any.whl",
        modules=modules or (module(),),
    )
    return ConfigurationRecord(configuration=configuration, default=True, record=record)


def plan(
    directory: Path,
    *records: ConfigurationRecord,
    files: Mapping[str, str] = FILES,
    script: str = "setup.py",
    way: str = "",
    pythons: tuple[str, ...] = ("3.11", "3.13"),
) -> Plan:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def all_files() -> list[str]:
        return [
            os.path.relpath(os.path.join(path, name), directory)  # noqa: PTH118
            for path, _, names in os.walk(directory)
            for name in names
        ]

    tree = ProjectTree(lambda name: directory / name, all_files)
    start = Span(file=script, line=1, column=1, text=files["setup.py"].strip())
    spans = {"": start, **{known.name: start for entry in records for known in entry.record.modules}}
    bindings = Bindings(way, lambda _: tuple(Python(version, version) for version in pythons))
    return plan_extensions(records, tree, Releases().matrix, spans, bindings)


def failures(directory: Path, *records: ConfigurationRecord, files: Mapping[str, str] = FILES) -> list[Code]:
    with pytest.raises(DriverError) as failure:
        plan(directory, *records, files=files)
    return [diagnostic.code for diagnostic in failure.value.diagnostics]


def test_a_module_is_a_variant_with_the_files_that_it_reaches(tmp_path: Path) -> None:
    made = plan(tmp_path, recorded(CU130, module(builder="torch")))
    [variant] = made.variants
    assert (variant.name, variant.module, variant.binding) == (f"{CU130}-pkg._C", "pkg._C", True)
    assert variant.archs == ("8.0", "9.0")
    assert made.files == {*SOURCES, "csrc/ops.h", "csrc/deep/more.h"}
    cpp, cuda = (next(group for group in made.groups if f".{kind}." in group.name) for kind in ("cpp", "cuda"))
    assert (cpp.depends, cuda.depends) == (("pybind", "torch"), ())
    assert cpp.headers == cuda.headers == ("csrc/deep/more.h", "csrc/ops.h")
    assert "-DTORCH_EXTENSION_NAME=_C" in cpp.cxx_flags
    assert "-DTORCH_EXTENSION_NAME=_C" in cuda.cuda_flags
    text = render(made, "")
    assert 'module = "pkg._C"' in text
    assert "binding = True" in text
    assert "from setup.py" in text.partition("\n")[0]


def test_objects_are_linked_in_the_order_of_the_record(tmp_path: Path) -> None:
    order = ("csrc/kernel.cu", "csrc/ops.cpp")
    [variant] = plan(tmp_path, recorded(CU130, module(sources=order))).variants
    assert variant.link_order == order
    [variant] = plan(tmp_path, recorded(CU130, module(sources=tuple(reversed(order))))).variants
    assert variant.link_order == ()


def test_a_kernel_without_torch_headers_is_shared_and_a_release_adds_no_target(tmp_path: Path) -> None:
    made = plan(tmp_path, recorded(CU130), recorded(CU132), recorded(NEXT))
    assert len(made.groups) == 2
    assert len(made.identities) == 1
    cuda = next(group for group in made.groups if ".cuda." in group.name)
    assert [*cuda.archs] == ["cu130", "cu132"]


def test_no_choice_of_configurations_renames_a_target(tmp_path: Path) -> None:
    alone, both = plan(tmp_path, recorded(CU130)), plan(tmp_path, recorded(NEXT), recorded(CU130), recorded(CPU, cpu()))
    assert {group.name for group in alone.groups} <= {group.name for group in both.groups}
    assert {identity.name for identity in alone.identities} <= {identity.name for identity in both.identities}


def cpu() -> Module:
    return module(sources=("csrc/ops.cpp",), kind="cpp")


def test_the_rules_own_macros_are_undefined_and_the_authors_flags_come_last(tmp_path: Path) -> None:
    made = plan(
        tmp_path,
        recorded(
            CU130,
            module(
                builder="torch",
                define_macros=(("WITH_CUDA", None), ("VERSION", "3")),
                undef_macros=("NDEBUG",),
                cxx_flags=("-O2",),
                nvcc_flags=("--compiler-options", "'-fPIC'", "-U__CUDA_NO_HALF_OPERATORS__", "--use_fast_math"),
            ),
        ),
    )
    cpp, cuda = (next(group for group in made.groups if f".{kind}." in group.name) for kind in ("cpp", "cuda"))
    assert cpp.cxx_flags == (
        *("-UCUDA_KERNEL", "-UUSE_CUDA", "-UENABLE_FP8", "-fno-strict-overflow"),
        *("-DWITH_CUDA", "-DVERSION=3", "-UNDEBUG", "-O2"),
        *("-DTORCH_API_INCLUDE_EXTENSION_H", "-DTORCH_EXTENSION_NAME=_C", "-std=c++20"),
    )
    flags = cuda.cuda_flags
    assert "'-fPIC'" not in flags
    assert flags.index("-D__CUDA_NO_HALF_OPERATORS__") < flags.index("-U__CUDA_NO_HALF_OPERATORS__")
    assert flags.index("-U__CUDA_NO_HALF_OPERATORS__") < flags.index("--use_fast_math")


def test_macros_are_before_torchs_flags_and_torchs_macros_behind_the_authors(tmp_path: Path) -> None:
    asked = module(
        builder="torch",
        define_macros=(("SIZE", "1"), ("__CUDA_NO_HALF_OPERATORS__", "0")),
        undef_macros=("__CUDA_NO_HALF_CONVERSIONS__",),
        cxx_flags=("-DSIZE=2", "-UTORCH_API_INCLUDE_EXTENSION_H"),
        nvcc_flags=("-DSIZE=3", "-U__CUDA_NO_HALF2_OPERATORS__"),
    )
    made = plan(tmp_path, recorded(CU130, asked))
    cpp, cuda = (next(group for group in made.groups if f".{kind}." in group.name) for kind in ("cpp", "cuda"))

    def last(flags: tuple[str, ...], name: str) -> str:
        return next(flag for flag in reversed(flags) if flag.startswith((f"-D{name}", f"-U{name}")))

    assert last(cpp.cxx_flags, "SIZE") == "-DSIZE=2"
    assert last(cpp.cxx_flags, "TORCH_API_INCLUDE_EXTENSION_H").startswith("-D")
    assert last(cuda.cuda_flags, "SIZE") == "-DSIZE=3"
    assert last(cuda.cuda_flags, "__CUDA_NO_HALF_OPERATORS__") == "-D__CUDA_NO_HALF_OPERATORS__"
    assert last(cuda.cuda_flags, "__CUDA_NO_HALF_CONVERSIONS__").startswith("-D")
    assert last(cuda.cuda_flags, "__CUDA_NO_HALF2_OPERATORS__").startswith("-U")


@pytest.mark.parametrize(
    ("identifier", "builder", "of_cxx"), [(CU130, "torch", False), (CU130, "", True), (ROCM, "torch", False)]
)
def test_asserts_are_those_of_torchs_own_build(tmp_path: Path, identifier: str, builder: str, of_cxx: bool) -> None:  # noqa: FBT001
    def flags(*own: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        asked = module(builder=builder, cxx_flags=own, nvcc_flags=own)
        archs = "gfx942" if identifier == ROCM else "8.0"
        made = plan(tmp_path, recorded(identifier, asked, arch_list=archs))
        cpp, cuda = (next(group for group in made.groups if f".{kind}." in group.name) for kind in ("cpp", "cuda"))
        return cpp.cxx_flags, cuda.cuda_flags or cuda.hip_flags

    cxx, device = flags()
    assert ("-UNDEBUG" in cxx, "-UNDEBUG" in device) == (of_cxx, True)
    for chosen in flags("-DNDEBUG"):
        assert next(flag for flag in reversed(chosen) if "NDEBUG" in flag) == "-DNDEBUG"


@pytest.mark.parametrize("builder", ["torch", "setuptools", ""])
@pytest.mark.parametrize("identifier", [CU130, ROCM])
def test_overflow_wraps_in_what_setuptools_compiles(tmp_path: Path, identifier: str, builder: str) -> None:
    asked = module(builder=builder, cxx_flags=("-fstrict-overflow",))
    made = plan(tmp_path, recorded(identifier, asked, arch_list="gfx942" if identifier == ROCM else "8.0"))
    cpp, cuda = (next(group for group in made.groups if f".{kind}." in group.name) for kind in ("cpp", "cuda"))
    found = [flag for flag in cpp.cxx_flags if "overflow" in flag]
    assert found == [*(["-fno-strict-overflow"] if builder else []), "-fstrict-overflow"]
    assert "-fno-strict-overflow" not in (cuda.cuda_flags or cuda.hip_flags)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), ("8.0", "9.0")),
        (("-gencode", "arch=compute_80,code=sm_80"), ("8.0",)),
        (("-gencode=arch=compute_90a,code=sm_90a",), ("9.0a",)),
        (("-arch=compute_90", "-code=sm_90"), ("9.0",)),
        (("-arch", "compute_90", "--gpu-code", "sm_90,compute_90"), ("9.0+PTX",)),
        (("-arch=sm_80", "-arch=sm_90"), ("9.0+PTX",)),
        (("--generate-code=arch=compute_90,code=[sm_90,compute_90]",), ("9.0+PTX",)),
        (("-arch=sm_90",), ("9.0+PTX",)),
        (("-arch", "sm_80"), ("8.0+PTX",)),
        (("-gencode", "arch=compute_35,code=sm_35", "-gencode", "arch=compute_90,code=sm_90"), ("9.0",)),
    ],
)
def test_flags_choose_architectures(flags: tuple[str, ...], expected: tuple[str, ...], tmp_path: Path) -> None:
    made = plan(tmp_path, recorded(CU130, module(nvcc_flags=flags)))
    [variant] = made.variants
    assert variant.archs == expected
    cuda = next(group for group in made.groups if ".cuda." in group.name)
    assert not any("arch" in flag or "gencode" in flag for flag in cuda.cuda_flags)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"cxx_flags": ("-march=native",)}, Code.BAD_FLAG),
        ({"cxx_flags": ("-mtune=native",)}, Code.BAD_FLAG),
        ({"cxx_flags": ("-mcpu=native",), "builder": "setuptools"}, Code.BAD_FLAG),
        ({"nvcc_flags": ("-Xcompiler", "-march=native")}, Code.BAD_FLAG),
        ({"nvcc_flags": ("-Xcompiler=-O3,-mtune=native",)}, Code.BAD_FLAG),
        ({"nvcc_flags": ("--compiler-options", "'-mcpu=native'")}, Code.BAD_FLAG),
        ({"nvcc_flags": ("-arch=native",)}, Code.BAD_FLAG),
        ({"nvcc_flags": ("-ewp",)}, Code.BAD_FLAG),
        ({"nvcc_flags": ("-dlink",)}, Code.BAD_FLAG),
        ({"sources": ("csrc/none.cpp",)}, Code.FILE_MISSING),
        ({"sources": ("../out.cpp",)}, Code.PATH_ESCAPES),
        ({"sources": ("csrc/ops.h",)}, Code.FILE_KIND),
        ({"dlink": True, "dlink_flags": ("-dlink", "-lnvshmem_device", "-dlto")}, Code.UNSUPPORTED),
        ({"dlink": True, "dlink_flags": ("-dlink", "-ccbin=g++")}, Code.BAD_FLAG),
        ({"extra_link_args": ("-Wl,--wrap=malloc",)}, Code.BAD_FLAG),
        ({"extra_link_args": ("-static",)}, Code.BAD_FLAG),
        ({"extra_link_args": ("-Wl,-s,--wrap=malloc",)}, Code.BAD_FLAG),
        ({"extra_link_args": ("-Xlinker", "--wrap=malloc")}, Code.BAD_FLAG),
        ({"extra_link_args": ("-Wl,-u,symbol",)}, Code.BAD_FLAG),
        ({"extra_link_args": ("-fsanitize=address",)}, Code.BAD_FLAG),
        ({"extra_objects": ("a.o",)}, Code.UNSUPPORTED),
        ({"name": "my-ext"}, Code.UNSUPPORTED),
        ({"name": "pkg.\u00fc"}, Code.UNSUPPORTED),
        ({"nvcc_flags": ("-gencode", "arch=compute_35,code=sm_35")}, Code.EMPTY_ARCHS),
    ],
)
def test_what_cannot_be_built_is_refused(fields: dict[str, object], code: Code, tmp_path: Path) -> None:
    assert failures(tmp_path, recorded(CU130, module(**fields))) == [code]


def test_a_word_in_the_list_of_architectures_that_is_none_is_an_error(tmp_path: Path) -> None:
    assert failures(tmp_path, recorded(CU130, module(), arch_list="9.0;all")) == [Code.BAD_VALUE]


_DLINK = ("-Xnvlink", "-w", "-dlink", "-L/cuda/lib64", "-L", "lib", "-lcudadevrt", "-dlto")
"""What torch makes of `extra_compile_args` for linking device code."""


def test_device_code_is_linked_as_setup_py_asks(tmp_path: Path) -> None:
    asked = module(nvcc_flags=("-O2", "-rdc=true"), dlink=True, dlink_flags=_DLINK)
    made = plan(tmp_path, recorded(CU130, asked))
    assert not made.notes
    [variant] = made.variants
    link = made.device_links[variant.name]
    assert [".cuda." in group.name for group in link.groups] == [True]
    assert (link.flags, link.optimized) == (("-Xnvlink=-w",), False)


@pytest.mark.parametrize(
    ("flags", "archs"),
    [
        (("-gencode=arch=compute_90,code=lto_90",), ("9.0",)),
        (("-gencode", "arch=compute_90,code=[sm_90,lto_90]"), ("9.0",)),
        (("-arch=lto_90",), ("9.0",)),
        (("-arch=sm_90", "-dlto"), ("9.0+PTX",)),
    ],
)
def test_device_code_is_optimised_when_it_is_linked(
    flags: tuple[str, ...], archs: tuple[str, ...], tmp_path: Path
) -> None:
    made = plan(tmp_path, recorded(CU130, module(nvcc_flags=flags, dlink=True, dlink_flags=_DLINK)))
    [variant] = made.variants
    assert variant.archs == archs
    assert made.device_links[variant.name].optimized


def test_device_code_that_nothing_needs_to_link_is_not_linked(tmp_path: Path) -> None:
    made = plan(tmp_path, recorded(CU130, module(dlink=True, dlink_flags=_DLINK)))
    assert not made.device_links


def test_relocatable_device_code_without_dlink_is_linked_with_a_note(tmp_path: Path) -> None:
    made = plan(tmp_path, recorded(CU130, module(nvcc_flags=("-dc",))))
    assert len(made.device_links) == 1
    [note] = made.notes
    assert note.message.endswith("compiles relocatable device code without `dlink=True`; it is linked nonetheless")


def test_device_code_is_linked_for_the_architectures_of_the_sources(tmp_path: Path) -> None:
    flags = ("-rdc=true", "-gencode=arch=compute_90,code=sm_90")
    for arch, notes in (("sm_80", [True]), ("sm_90", [])):
        asked = module(nvcc_flags=flags, dlink=True, dlink_flags=(*_DLINK, f"-arch={arch}"))
        made = plan(tmp_path / arch, recorded(CU130, asked))
        [variant] = made.variants
        assert made.device_links[variant.name].archs("cu130") == ("9.0",)
        assert ["nvcc_dlink" in note.message for note in made.notes] == notes


def test_a_cuda_source_is_no_source_for_the_cpu(tmp_path: Path) -> None:
    assert failures(tmp_path, recorded(CPU)) == [Code.UNSUPPORTED]


def test_threads_of_nvcc_are_no_flag_and_bad_flags_name_the_argument(tmp_path: Path) -> None:
    with pytest.raises(DriverError) as failure:
        plan(tmp_path, recorded(CU130, module(nvcc_flags=("--threads", "4", "-ewp"))))
    [diagnostic] = failure.value.diagnostics
    assert "extra_compile_args['nvcc']" in diagnostic.message
    assert diagnostic.span
    assert diagnostic.span.file == "setup.py"


def test_openmp_is_for_those_compilers_whose_flags_ask_for_it(tmp_path: Path) -> None:
    for recorded_module, expected in [
        (module(cxx_flags=("-fopenmp",)), [(True, True), (False, False)]),
        (module(nvcc_flags=("-Xcompiler", "-fopenmp")), [(False, False), (True, False)]),
    ]:
        made = plan(tmp_path, recorded(CU130, recorded_module))
        found = [next(group for group in made.groups if f".{kind}." in group.name) for kind in ("cpp", "cuda")]
        assert [(group.openmp, group.gcc) for group in found] == expected


def test_a_file_whose_includes_nobody_can_tell_reaches_all_headers_in_sight(tmp_path: Path) -> None:
    text = "#define NAME(suffix) <unused.suffix>\n#include NAME(h)\n#include NAME(tcc)\n"
    made = plan(tmp_path, recorded(CU130), files={**FILES, "csrc/kernel.cu": text, "csrc/unused.tcc": ""})
    cuda = next(group for group in made.groups if ".cuda." in group.name)
    assert {"csrc/unused.h", "csrc/unused.tcc"} <= {*cuda.headers}


def test_an_include_leads_to_the_first_directory_of_the_search(tmp_path: Path) -> None:
    files = {**FILES, "first/ops.h": "", "csrc/kernel.cu": "#include <ops.h>\n"}
    made = plan(tmp_path, recorded(CU130, module(include_dirs=("first", "csrc"))), files=files)
    cuda = next(group for group in made.groups if ".cuda." in group.name)
    assert cuda.headers == ("first/ops.h",)
    assert cuda.includes == ("first", "csrc")[: len(cuda.includes)]


def test_include_directories_of_flags_are_searched_after_the_others_by_their_own_compiler(tmp_path: Path) -> None:
    files = {**FILES, "a/own.h": "", "b/own.h": "", "csrc/kernel.cu": "#include <own.h>\n"}
    flags = ("-isystem", "a", "-Ib", "-I", "csrc", "-Icuda:include", "-O3")
    made = plan(tmp_path, recorded(CU130, module(nvcc_flags=flags)), files=files)
    cpp, cuda = (next(group for group in made.groups if f".{kind}." in group.name) for kind in ("cpp", "cuda"))
    assert cuda.headers == ("b/own.h",)
    assert cuda.cuda_flags[-1] == "-O3"
    assert not any(flag.startswith(("-I", "-isystem")) for flag in cuda.cuda_flags)
    assert not {"a", "b"} & {*cpp.includes}


@pytest.mark.parametrize("directory", ["/opt/include", "../include"])
def test_an_include_directory_outside_of_the_project_is_a_note(directory: str, tmp_path: Path) -> None:
    made = plan(tmp_path, recorded(CU130, module(cxx_flags=(f"-I{directory}",))))
    assert [directory in note.message for note in made.notes] == [True]


@pytest.mark.parametrize(
    ("text", "depends"),
    [
        ("#if __has_include(<torch/extension.h>)\n#endif\n", ("pybind", "torch")),
        ('#if __has_include("c10/util/Half.h")\n#endif\n', ("torch",)),
        ("#define HALF <c10/util/Half.h>\n#include HALF\n", ("torch",)),
        ("#if __has_include(<vector>)\n#endif\n", ()),
    ],
)
def test_a_header_that_a_source_only_names_is_visible(tmp_path: Path, text: str, depends: tuple[str, ...]) -> None:
    made = plan(tmp_path, recorded(CU130), files=FILES | {"csrc/kernel.cu": text})
    [cuda] = [group for group in made.groups if "csrc/kernel.cu" in group.sources]
    assert cuda.depends == depends


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("#if __has_include(<unused.h>)\n#endif\n", "csrc/unused.h"),
        ('#if __has_include("../other/more.h")\n#endif\n', "other/more.h"),
        ("#define MORE <more.txt>\n#include MORE\n", "csrc/more.txt"),
    ],
)
def test_a_file_of_the_project_that_a_source_only_names_is_an_input(tmp_path: Path, text: str, header: str) -> None:
    files = FILES | {"csrc/kernel.cu": text, "csrc/more.txt": "", "other/more.h": ""}
    made = plan(tmp_path, recorded(CU130), files=files)
    [cuda] = [group for group in made.groups if "csrc/kernel.cu" in group.sources]
    assert header in cuda.headers


def test_the_target_of_torchs_stable_abi_is_a_macro_as_any_other(tmp_path: Path) -> None:
    target = "-DTORCH_TARGET_VERSION=0x020a000000000000"
    macros = (("TORCH_TARGET_VERSION", "0x0209000000000000"),)
    made = plan(tmp_path, recorded(CU130, module(cxx_flags=(target,), nvcc_flags=(target,), define_macros=macros)))
    cpp, cuda = (next(group for group in made.groups if f".{kind}." in group.name) for kind in ("cpp", "cuda"))
    for flags in (cpp.cxx_flags, cuda.cuda_flags):
        assert [flag for flag in flags if "TARGET" in flag] == [f"-D{'='.join(macros[0])}", target]


def test_flags_of_cmake_are_called_so(tmp_path: Path) -> None:
    with pytest.raises(DriverError) as failure:
        plan(tmp_path, recorded(CU130, module(nvcc_flags=("-G",))), script="sub/CMakeLists.txt")
    assert "in the options for CUDA" in failure.value.diagnostics[0].message


def test_flags_of_a_compiler_without_sources_do_not_matter(tmp_path: Path) -> None:
    wrong = ("-ffast-math", "-gencode", "arch=compute_35,code=sm_35")
    macros = (("A", "a$b"),)
    made = plan(tmp_path, recorded(CU130, module(sources=("csrc/ops.cpp",), nvcc_flags=wrong, define_macros=macros)))
    assert made.variants[0].archs is None
    made = plan(tmp_path, recorded(CU130, module(sources=("csrc/kernel.cu",), cxx_flags=("-march=native",))))
    assert made.variants[0].archs == ("8.0", "9.0")


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = recorded(CU130, module(define_macros=(("A", None), ("B", "1")))).record
    path = tmp_path / "record.json"
    path.write_text(record.as_json(), encoding="utf-8")
    assert read_record(path) == record
    path.write_text('{"format": 0}', encoding="utf-8")
    with pytest.raises(DriverError, match="format 0"):
        read_record(path)


def test_arguments_of_the_linker_that_change_nothing_are_taken(tmp_path: Path) -> None:
    words = (
        "-s",
        "-Wl,-rpath,$ORIGIN",
        "-Wl,--as-needed",
        "-L/opt/x",
        "-fopenmp",
        "-lcublas",
        "-l",
        "mystery",
        "-Wl,-z,defs",
        *("-Wl,-rpath", "-Wl,/opt/x", "-Xlinker", "-soname", "-Xlinker", "lib.so", "-Wl,--version-script=x.map"),
        *("-static-libgcc", "-static-libstdc++", "-rdynamic", "-fuse-ld=gold", "-flto=auto", "-Wl,--exclude-libs,ALL"),
        *("-DFROM_CFLAGS", "-Iinclude", "-Wall", "-std=c++17", "-mavx2", "-fvisibility=hidden", "-O2"),
    )
    made = plan(tmp_path, recorded(CU130, module(libraries=("cublas", "cuda", "other"), extra_link_args=words)))
    assert [note.message.split("`")[1] for note in made.notes] == ["other", "mystery"]


def test_a_link_that_changes_the_arithmetic_of_a_process_has_a_note(tmp_path: Path) -> None:
    made = plan(tmp_path, recorded(CU130, module(extra_link_args=("-Ofast",))))
    assert ["denormal" in note.message for note in made.notes] == [True]


OBJECTS = {**FILES, "csrc/ops.cpp": f"{FILES['csrc/ops.cpp']}py::dict summary();\n"}


def test_a_module_with_python_objects_is_a_variant_for_each_python(tmp_path: Path) -> None:
    made = plan(tmp_path, recorded(CU130), files=OBJECTS)
    assert [variant.name for variant in made.variants] == [f"{CU130}-cp311-pkg._C", f"{CU130}-cp313-pkg._C"]
    assert [variant.library_suffix for variant in made.variants] == [
        ".cpython-311-x86_64-linux-gnu.so",
        ".cpython-313-x86_64-linux-gnu.so",
    ]
    assert len({variant.groups for variant in made.variants}) == 1
    assert not any(variant.binding for variant in made.variants)
    cpp, cuda = (next(group for group in made.groups if f".{kind}." in group.name) for kind in ("cpp", "cuda"))
    assert (cpp.depends, cuda.depends) == (("cpython", "torch"), ())
    assert 'python_version = "3.13"' in render(made, "")
    [note] = made.notes
    assert note.span.file == "csrc/ops.cpp"
    assert note.span.line == 4
    assert note.message == "pkg._C is bound by pybind11, once for each Python: `py::dict` needs one"


def test_the_user_may_choose_how_modules_are_bound(tmp_path: Path) -> None:
    [variant] = plan(tmp_path, recorded(CU130), files=OBJECTS, way="library").variants
    assert (variant.python, variant.binding) == (None, True)
    assert len(plan(tmp_path, recorded(CU130), way="pybind").variants) == 2


def test_a_module_without_python_is_for_every_python_whatever_is_chosen(tmp_path: Path) -> None:
    files = {"setup.py": "setup()", "csrc/with_torch.cu": FILES["csrc/with_torch.cu"]}
    made = plan(tmp_path, recorded(CU130, module(sources=("csrc/with_torch.cu",))), files=files, way="pybind")
    assert [variant.python for variant in made.variants] == [None]


def test_the_limited_api_that_an_author_asks_for_is_for_every_python(tmp_path: Path) -> None:
    files = {
        "setup.py": "setup()",
        "csrc/a.cpp": "#include <Python.h>\nint f(PyObject* x) { return PyTuple_GET_SIZE(x); }\n",
    }
    limited, full = (recorded(CPU, module(sources=("csrc/a.cpp",), limited_api=limited)) for limited in (True, False))
    [variant] = plan(tmp_path, limited, files=files).variants
    assert (variant.python, variant.library_suffix) == (None, ".abi3.so")
    assert [variant.python for variant in plan(tmp_path, full, files=files).variants] != [None]


def test_a_library_whose_name_has_no_python_keeps_it(tmp_path: Path) -> None:
    made = plan(tmp_path, recorded(CU130, module(file="pkg/_C.so")), files=OBJECTS)
    assert [variant.library_suffix for variant in made.variants] == [".so", ".so"]


def test_a_python_that_torch_has_no_wheel_for_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DriverError) as failure:
        plan(tmp_path, recorded(CU130), files=OBJECTS, pythons=("3.15",))
    [diagnostic] = failure.value.diagnostics
    assert diagnostic.code is Code.UNSUPPORTED
    assert diagnostic.message == "torch 2.13 has no wheel for Python 3.15"


def test_for_rocm_sources_of_a_cuda_extension_are_hip_with_torchs_own_macros(tmp_path: Path) -> None:
    flags = ("-O3", "-DUSE_CUDA_FAST=CUDA", "--offload-arch=gfx942,gfx90a")
    made = plan(tmp_path, recorded(ROCM, module(nvcc_flags=flags, define_macros=(("WITH_CUDA", None),))))
    [variant] = made.variants
    assert variant.archs == ("gfx90a", "gfx942")
    cpp, cuda = (next(group for group in made.groups if f".{kind}." in group.name) for kind in ("cpp", "cuda"))
    assert (cpp.backend, cuda.backend, cuda.cuda_flags) == ("rocm", "rocm", ())
    wanted = ["-DWITH_CUDA", "-DUSE_ROCM=1", "-DHIPBLAS_V2", "-D__HIP_NO_HALF_OPERATORS__=1", "-DUSE_HIP_FAST=CUDA"]
    assert [flag for flag in cuda.hip_flags if flag in {*wanted, "-DUSE_CUDA_FAST=CUDA"}] == wanted
    assert [flag for flag in cpp.cxx_flags if flag in wanted] == ["-DWITH_CUDA", "-DUSE_ROCM=1", "-DHIPBLAS_V2"]


def test_for_rocm_a_cpp_extension_stays_as_it_is(tmp_path: Path) -> None:
    made = plan(tmp_path, recorded(ROCM, module(kind="cpp", sources=("csrc/ops.cpp",))))
    [group] = made.groups
    assert (group.backend, made.variants[0].archs) == ("cpu", None)
    assert "-DUSE_ROCM=1" in group.cxx_flags


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"nvcc_flags": ("--use_fast_math",)}, Code.BAD_FLAG, "--use_fast_math"),
        ({"nvcc_flags": ("-gencode", "arch=compute_90,code=sm_90")}, Code.BAD_FLAG, "-gencode"),
        ({"nvcc_flags": ("--offload-arch=native",)}, Code.BAD_FLAG, "not the same on every machine"),
        ({"dlink": True}, Code.UNSUPPORTED, "device code of HIP is not linked"),
    ],
    ids=["nvcc", "gencode", "native", "dlink"],
)
def test_what_rocm_cannot_have_is_refused(fields: dict[str, object], code: Code, words: str, tmp_path: Path) -> None:
    with pytest.raises(DriverError) as failure:
        plan(tmp_path, recorded(ROCM, module(**fields), arch_list="gfx942"))
    problem = failure.value.diagnostics[0]
    assert problem.code is code
    assert words in problem.message
    assert "cuda-capabilities" not in problem.help


def test_cmake_is_not_rewritten_for_rocm(tmp_path: Path) -> None:
    files = {**FILES, "CMakeLists.txt": "pybind11_add_module(_C ops.cpp)\n"}
    with pytest.raises(DriverError, match="nothing rewrites that as HIP"):
        plan(tmp_path, recorded(ROCM, arch_list="gfx942"), files=files, script="CMakeLists.txt")


@pytest.mark.parametrize(
    ("builder", "flags", "standard"),
    [
        ("torch", (), "-std=c++20"),
        ("torch", ("-std=c++17",), "-std=c++17"),
        ("torch", ("--std=c++17",), "-std=c++20"),
        ("setuptools", (), ""),
        ("", (), ""),
    ],
    ids=["torch", "named", "long", "setuptools", "cmake"],
)
def test_the_standard_is_the_one_that_torch_adds(
    builder: str, flags: tuple[str, ...], standard: str, tmp_path: Path
) -> None:
    made = plan(tmp_path, recorded(CU130, module(builder=builder, cxx_flags=flags, nvcc_flags=flags)))
    for group in made.groups:
        own = group.cuda_flags or group.cxx_flags
        assert [flag for flag in own if flag.startswith("-std")] == ([standard] if standard else [])
        assert ("-DTORCH_EXTENSION_NAME=_C" in own) == (builder == "torch")
        assert ("-D__CUDA_NO_HALF_OPERATORS__" in own) == (builder == "torch" and bool(group.cuda_flags))


@pytest.mark.parametrize("builder", ["setuptools", ""])
def test_without_torchs_build_a_module_has_the_name_that_its_author_defines(builder: str, tmp_path: Path) -> None:
    flags = ("-DTORCH_EXTENSION_NAME=ops",)
    made = plan(tmp_path, recorded(CU130, module(builder=builder, cxx_flags=flags, nvcc_flags=flags)))
    for group in made.groups:
        own = group.cuda_flags or group.cxx_flags
        assert [flag for flag in own if "EXTENSION_NAME" in flag] == ["-DTORCH_EXTENSION_NAME=ops"]
    assert not made.notes


def test_an_older_release_of_torch_adds_an_older_standard(tmp_path: Path) -> None:
    made = plan(tmp_path, recorded("torch211-cxx11-cu130-x86_64-linux", module(builder="torch")))
    assert all("-std=c++17" in (group.cuda_flags or group.cxx_flags) for group in made.groups)


def test_a_source_for_every_python_sees_the_limited_api_of_its_tag(tmp_path: Path) -> None:
    files = {**FILES, "csrc/plain.cpp": "#include <Python.h>\nPyMODINIT_FUNC PyInit__C() { return nullptr; }\n"}
    own = module(kind="cpp", sources=("csrc/plain.cpp",), limited_api=True, define_macros=(("FOO", None),))
    made = plan(tmp_path, recorded(CPU, own), files=files)
    [group] = made.groups
    flags = list(group.cxx_flags)
    assert flags.index("-UPy_LIMITED_API") < flags.index("-DPy_LIMITED_API=0x03090000") < flags.index("-DFOO")
