"""What sources include, and what else in their texts counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from relu import BINDING, MANIFEST, codes, notes, plan, write
from tree import write_files

from py_driver import __main__
from py_driver.building.selection import archives
from py_driver.errors import Code, DriverError
from py_driver.matrix.releases import Releases
from py_driver.plan.includes import is_opaque, scan
from py_driver.plan.plan import plan_directory

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write(tmp_path)


@pytest.mark.parametrize(
    ("file", "line", "expected"),
    [
        ("csrc/relu.cu", '#include "more/deep.cuh"', Code.UNLISTED_HEADER),
        ("csrc/relu.h", '  #  include   "more/deep.cuh"  // x', Code.UNLISTED_HEADER),
        ("csrc/relu.cu", '#include "csrc/more/deep.cuh"', Code.UNLISTED_HEADER),
        ("csrc/relu.cu", "#include <csrc/more/deep.cuh>", Code.UNLISTED_HEADER),
        ("csrc/relu.cu", '#include "../csrc/more/deep.cuh"', Code.UNLISTED_HEADER),
        ("torch-ext/binding.cpp", '#include "csrc/more/deep.cuh"', Code.UNLISTED_HEADER),
        ("csrc/relu.cu", "#include <more/deep.cuh>", Code.UNLISTED_HEADER),
        ("csrc/relu.cu", "#include <deep.cuh>", None),
        ("csrc/relu.cu", '#include "../../outside.h"', Code.UNLISTED_HEADER),
        ("csrc/relu.cu", '#include "../gone.h"', Code.UNLISTED_HEADER),
        ("csrc/relu.cu", '#include "csrc/gone.h"', Code.UNLISTED_HEADER),
        ("csrc/relu.cu", '#include "more/gone.cuh"', Code.UNLISTED_HEADER),
        ("csrc/relu.cu", "#include <more/gone.cuh>", None),
        ("csrc/relu.cu", '#include "cuda_fp16.h"', None),
        ("csrc/relu.cu", '#include "cub/cub.cuh"', None),
        ("csrc/relu.cu", '#include "immintrin.h"', None),
        ("csrc/relu.cu", '#include "registration.h"', None),
        ("csrc/relu.cu", '#ifdef X\n#include "../gone.h"\n#endif', None),
        ("csrc/relu.cu", '#if __has_include("../gone.h")\n#include "../gone.h"\n#endif', None),
        ("csrc/relu.cu", '#include "/etc/x.h"', Code.PATH_ESCAPES),
        ("csrc/relu.h", "#include </etc/x.h>", Code.PATH_ESCAPES),
        ("csrc/relu.cu", '// #include "more/deep.cuh"', None),
        ("csrc/relu.cu", '/* x\n#include "more/deep.cuh"\n*/', None),
        ("csrc/relu.cu", 'const char *s = R"(\n#include "x.h"\n)";', None),
        ("csrc/relu.cu", "#include HEADER", None),
        ("torch-ext/binding.cpp", "#include <torch/library.h>", None),
    ],
)
def test_includes(project: Path, file: str, line: str, expected: Code | None) -> None:
    path = project / file
    path.write_text(f"{path.read_text(encoding='utf-8')}{line}\n", encoding="utf-8")
    if expected is None:
        assert notes(project) == []
        return
    with pytest.raises(DriverError) as caught:
        plan(project)
    (found,) = caught.value.diagnostics
    assert found.code is expected
    assert found.span
    assert (found.span.file, found.span.text) == (str(path), line)
    assert line[found.span.column - 1 :].startswith(("more/", "csrc/", "../", "torch/", "ATen/", "/etc/"))


def test_an_include_inside_an_if_is_a_note(project: Path) -> None:
    inner = '#if USE_ROCM\n#include "more/deep.cuh"\n#include <torch/all.h>\n#endif\n'
    text = f"#ifndef RELU_H\n#define RELU_H\n{inner}#endif\n"
    (project / "csrc/relu.h").write_text(text, encoding="utf-8")
    note, torch = plan(project).notes
    assert (note.span.line, note.span.column) == (4, 11)
    assert note.message.startswith("`csrc/more/deep.cuh` is included here, but no `src` lists it; where this `#if` ")
    assert (torch.span.line, torch.code) == (5, Code.TORCH_NOT_DECLARED)


def test_a_name_that_no_toolchain_is_known_to_have_is_noted(project: Path) -> None:
    (project / "csrc/relu.cu").write_text('#include "realu.h"\n#include "driver_types.h"\n', encoding="utf-8")
    [note] = plan(project).notes
    assert note.message == (
        "`realu.h` is included here, and no file of the project has this path; no toolchain is known to have it"
    )
    assert (note.code, note.span.line) == (Code.UNLISTED_HEADER, 1)


def test_what_only_an_if_leads_to_is_noted(project: Path) -> None:
    """A header that the section may not see reaches its own through directories of another section."""
    write_files(project, {"rocm/tile.h": '#include "inner.h"\n', "rocm/inc/inner.h": ""})
    (project / "csrc/relu.cu").write_text('#ifdef USE_ROCM\n#include "rocm/tile.h"\n#endif\n', encoding="utf-8")
    section = '[kernel.tile]\nbackend = "rocm"\ndepends = []\nsrc = ["rocm/tile.h", "csrc/relu.cu"]\n'
    (project / "build.toml").write_text(f"{MANIFEST}{section}", encoding="utf-8")
    (project / "inner.h").touch()
    [note] = [note for note in plan_directory(project, Releases()).notes if "inner.h" in note.message]
    assert "where the `#if` that leads here holds, the compiler will not find it" in note.message
    (project / "csrc/relu.cu").write_text('#include "rocm/tile.h"\n', encoding="utf-8")
    with pytest.raises(DriverError, match=r"inner\.h"):
        plan_directory(project, Releases())


def test_a_section_finds_the_headers_of_its_libraries(project: Path) -> None:
    """The project has a copy that no `src` lists, and `depends` names the library that has them all."""
    write_files(project, {"third_party/cutlass/arch.h": "", "third_party/cub/cub.cuh": "", "csrc/cute/own.h": ""})
    lines = ("<cutlass/arch.h>", '"cutlass/arch.h"', "<cub/cub.cuh>", '"cub/cub.cuh"')
    (project / "csrc/relu.cu").write_text("".join(f"#include {line}\n" for line in lines), encoding="utf-8")
    new = 'depends = ["cutlass_3_8"]\ninclude = ["third_party", "."]'
    text = MANIFEST.replace('depends = []\ninclude = ["."]', new)
    (project / "build.toml").write_text(text, encoding="utf-8")
    said = [note for note in plan_directory(project, Releases()).notes if note.code is Code.UNLISTED_HEADER]
    assert [diagnostic.message.partition(": the compiler uses the file of ")[2] for diagnostic in said] == [
        "cutlass_3_8, if it exists there", "cutlass_3_8, if it exists there", "a toolchain, if it exists there",
        "a toolchain, if it exists there",
    ]  # fmt: skip
    other = '[kernel.other]\nbackend = "cuda"\ndepends = ["cutlass_3_8"]\nsrc = ["csrc/relu.h"]\n'
    (project / "csrc/relu.cu").write_text("#include <cutlass/arch.h>\n", encoding="utf-8")
    (project / "build.toml").write_text(text.replace('["cutlass_3_8"]', "[]") + other, encoding="utf-8")
    made = plan_directory(project, Releases())
    assert [note.code for note in made.notes if note.span.file.endswith(".cu")] == [Code.TORCH_NOT_DECLARED]
    assert next(group.depends for group in made.groups if group.name == "relu") == ("cutlass_3_8",)


def test_a_source_of_the_binding_finds_what_its_section_finds(project: Path) -> None:
    write_files(project, {"inc/x.h": "", "csrc/host.cpp": '#include "x.h"\n#include "inc/x.h"\n'})
    section = '[kernel.host]\nbackend = "cuda"\ndepends = []\ninclude = ["inc"]\nsrc = ["csrc/host.cpp", "inc/x.h"]\n'
    text = MANIFEST.replace('"torch-ext/binding.cpp"', '"torch-ext/binding.cpp", "csrc/host.cpp"')
    (project / "build.toml").write_text(text + section, encoding="utf-8")
    groups = {group.sources: group for group in plan_directory(project, Releases()).groups}
    assert set(groups["csrc/host.cpp",].includes) == {".", "inc"}


@pytest.mark.parametrize(
    ("line", "flags", "needed"),
    [
        ("#include <omp.h>", "[]", True),
        ('#include "omp.h"', "[]", True),
        ("#include <omp.h>", '["-fopenmp"]', False),
        ("#ifdef _OPENMP\n#include <omp.h>\n#endif", "[]", False),
        ("#if defined(_OPENMP) && X\n#include <omp.h>\n#endif", "[]", False),
        ("#ifndef _OPENMP\n#else\n#if X\n#include <omp.h>\n#endif\n#endif", "[]", False),
        ("#ifndef _OPENMP\n#include <omp.h>\n#endif", "[]", True),
        ("#if defined(_OPENMP) || X\n#include <omp.h>\n#endif", "[]", True),
        ("#ifdef __AVX2__\n#include <omp.h>\n#endif", "[]", True),
    ],
)
def test_openmp_is_in_sight_of_what_does_not_ask_for_it(project: Path, line: str, flags: str, *, needed: bool) -> None:
    """As a header of a section with AVX and OpenMP is included by one without either."""
    write_files(project, {"cpu/avx.hpp": f"#pragma once\n{line}\n", "cpu/host.cpp": '#include "avx.hpp"\n'})
    section = (
        f'[kernel.cpu]\nbackend = "cpu"\ndepends = []\ncxx-flags = {flags}\nsrc = ["cpu/host.cpp", "cpu/avx.hpp"]\n'
    )
    text = MANIFEST.replace('["cuda"]', '["cpu"]').replace("[kernel.relu]", f"{section}[kernel.relu]")
    (project / "build.toml").write_text(text, encoding="utf-8")
    made = plan_directory(project, Releases())
    assert next(group.depends for group in made.groups if group.name == "cpu") == (("openmp",) if needed else ())
    wanted = {entry.name for entry in archives(made, made.variants[:1], Releases().lock)}
    assert ("g++-12" in wanted) == (needed or "-fopenmp" in flags)


SECTIONS = """
[kernel.other]
backend = "cuda"
depends = []
src = ["csrc/other.cu", "lib/deep.cuh", "lib/deeper.cuh", "lib/unused.cuh"]
"""


def test_a_section_reaches_what_any_section_lists(project: Path) -> None:
    files = {
        "csrc/relu.cu": '#include "../lib/deep.cuh"\n#include "other.cu"\n',
        "csrc/other.cu": "",
        "lib/deep.cuh": '#include "deeper.cuh"\n#include <torch/all.h>\n',
        "lib/deeper.cuh": "",
        "lib/unused.cuh": '#include "nowhere.cuh"\n',
        "torch-ext/binding.cpp": f"{BINDING}#include <more.h>\n",
        "csrc/more.h": "",
        "torch-ext/registration.h": "#error\n",
    }
    write_files(project, files)
    text = MANIFEST.replace('binding.cpp"', 'binding.cpp", "torch-ext/registration.h"') + SECTIONS
    (project / "build.toml").write_text(text.replace("lib/unused", 'csrc/more.h", "lib/unused'), encoding="utf-8")
    made = plan_directory(project, Releases())
    groups = {group.name: group for group in made.groups}
    assert groups["relu"].sources == ("csrc/relu.cu",)
    assert groups["relu"].headers == ("csrc/other.cu", "csrc/relu.h", "lib/deep.cuh", "lib/deeper.cuh")
    assert groups["relu"].depends == ("torch",)
    assert groups["other"].depends == ()
    assert groups["other"].headers == ("csrc/more.h", "lib/deep.cuh", "lib/deeper.cuh", "lib/unused.cuh")
    binding = groups["binding_cuda"]
    assert "torch-ext/registration.h" not in (*binding.sources, *binding.headers)
    assert binding.includes == (".", "csrc")
    assert [(note.code, note.span.file) for note in made.notes] == [
        (None, str(project / "build.toml")),
        (Code.TORCH_NOT_DECLARED, str(project / "lib/deep.cuh")),
    ]


@pytest.mark.parametrize(
    "include",
    [
        '#define H "x.h"\n#include H\n',
        '#define H "x.h"\n#include/**/H\n',
        "#include_next <x.h>\n",
        '#include \\\n"x.h"\n',
        '#import "x.h"\n',
        '#if __has_include("x.h")\n#endif\n',
        pytest.param(" " * (4 * 1024 * 1024 + 1), id="large"),
    ],
)
def test_an_include_that_cannot_be_named_may_reach_every_header(project: Path, include: str) -> None:
    (project / "csrc/relu.cu").write_text(include, encoding="utf-8")
    (project / "csrc/other.cu").touch()
    (project / "lib").mkdir()
    for name in ("deep", "deeper", "unused"):
        (project / f"lib/{name}.cuh").write_text('#include <torch/all.h>\n#include "/gone.h"\n', encoding="utf-8")
    (project / "build.toml").write_text(MANIFEST + SECTIONS, encoding="utf-8")
    group = next(group for group in plan_directory(project, Releases()).groups if group.name == "relu")
    assert group.headers == ("csrc/relu.h", "lib/deep.cuh", "lib/deeper.cuh", "lib/unused.cuh")
    assert group.includes == (".", "csrc")
    assert group.depends == ("torch",)


@pytest.mark.parametrize(
    "text", ['// #include H\nconst char* s = "#include H";\n', "#include <x.h>\n", '#include "x.h"\n']
)
def test_what_is_no_include_that_cannot_be_named(text: str) -> None:
    assert not is_opaque(text)


@pytest.mark.parametrize(("name", "includes"), [("lib/deep.cuh", (".",)), ("more.h", (".", "csrc"))])
def test_a_header_that_is_only_tested_for_is_there(project: Path, name: str, includes: tuple[str, ...]) -> None:
    write_files(project, {"csrc/relu.cu": f"#if __has_include(<{name}>)\nint x;\n#endif\n", "csrc/other.cu": ""})
    write_files(project, dict.fromkeys(("csrc/more.h", "lib/deep.cuh", "lib/deeper.cuh", "lib/unused.cuh"), ""))
    text = MANIFEST + SECTIONS.replace("lib/unused", 'csrc/more.h", "lib/unused')
    (project / "build.toml").write_text(text, encoding="utf-8")
    group = next(group for group in plan_directory(project, Releases()).groups if group.name == "relu")
    assert group.headers == tuple(sorted(("csrc/relu.h", name if "/" in name else f"csrc/{name}")))
    assert group.includes == includes


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("#ifdef CPU_KERNEL\n{}\n#endif\n", {"cpu"}),
        ("#ifndef CPU_KERNEL\n{}\n#endif\n", {"cuda", "rocm"}),
        ("#if defined(CUDA_KERNEL) || defined(ROCM_KERNEL)\n{}\n#endif\n", {"cuda", "rocm"}),
        ("#if defined(CPU_KERNEL)\n#elif defined CUDA_KERNEL\n{}\n#endif\n", {"cuda"}),
        ("#if defined(CPU_KERNEL)\n#elif X\n#else\n{}\n#endif\n", {"cuda", "rocm"}),
        ("#ifdef CUDA_KERNEL\n#ifdef CPU_KERNEL\n{}\n#endif\n#endif\n", set()),
        ("#ifdef CUDA_KERNEL\n#else\n#if X\n{}\n#endif\n#endif\n", {"cpu", "rocm"}),
        ("#ifdef USE_CUDA\n{}\n#endif\n", {"cpu", "cuda", "rocm"}),
        ("#if defined(CPU_KERNEL) && X\n{}\n#else\n#endif\n", {"cpu"}),
        ("#if 0\n{}\n#endif\n", set()),
        ("#if 0 && X\n#elif 0x0UL\n#else\n{}\n#endif\n", {"cpu", "cuda", "rocm"}),
        ("#if !(X && 0)\n#else\n{}\n#endif\n", set()),
        ("#if 0 && (X || defined(CPU_KERNEL))\n#else\n{}\n#endif\n", {"cpu", "cuda", "rocm"}),
        ("#if (defined(CPU_KERNEL)) || (defined(CUDA_KERNEL) && 1)\n{}\n#endif\n", {"cpu", "cuda"}),
        ("#if 0 ? X : 1\n{}\n#endif\n", {"cpu", "cuda", "rocm"}),
        ("#if !defined(CPU_KERNEL) == 0\n{}\n#endif\n", {"cpu", "cuda", "rocm"}),
        ("#if defined(CPU_KERNEL) && X\n#else\n{}\n#endif\n", {"cpu", "cuda", "rocm"}),
        ("#if !defined(ROCM_KERNEL)\n#elifdef ROCM_KERNEL\n{}\n#endif\n", {"rocm"}),
        ("\ufeff{}\n", {"cpu", "cuda", "rocm"}),
        ("#endif\n#else\n{}\n", {"cpu", "cuda", "rocm"}),
    ],
)
def test_backends_that_see_an_include(text: str, seen: set[str]) -> None:
    (found,) = scan(text.format('#include "x.h"'))
    assert found.backends == seen


@pytest.mark.parametrize(("guard", "noted"), [("#pragma once\n", True), ("#ifndef A\n#define A\n#endif\n", False)])
def test_a_header_by_two_names_needs_a_guard(project: Path, guard: str, *, noted: bool) -> None:
    write_files(project, {"csrc/relu.cu": '#include "relu.h"\n#include "../lib/same.h"\n', "csrc/relu.h": guard})
    (project / "lib").symlink_to("csrc")
    (project / "csrc/same.h").symlink_to("relu.h")
    text = MANIFEST.replace('"csrc/relu.h"]', '"csrc/relu.h", "lib/same.h"]')
    (project / "build.toml").write_text(text, encoding="utf-8")
    messages = [note.message for note in plan_directory(project, Releases()).notes]
    assert [message for message in messages if "link" in message] == (
        ["`lib/same.h` is a link to `csrc/relu.h`, and a section reads both: `#pragma once` does not hold for two names"
         "; use an include guard"] if noted else []
    )  # fmt: skip


def test_a_guarded_include_is_an_error(project: Path) -> None:
    text = '// x\n#ifndef RELU_H\n#define RELU_H 1\n#include "more/deep.cuh"\n#endif\n'
    (project / "csrc/relu.h").write_text(text, encoding="utf-8")
    assert codes(project) == [Code.UNLISTED_HEADER]


@pytest.mark.parametrize(
    ("text", "conditional"),
    [
        ("#ifndef BLOCK\n#define BLOCK 256\n#endif\n#if X\n{}\n#endif\n", True),
        ("#ifndef BLOCK\n#define BLOCK 256\n#endif\n{}\n", False),
        ("#ifndef BLOCK\n#define BLOCK 256\n{}\n#endif\nint x;\n", True),
        ("#ifndef BLOCK\n#define BLOCK 256\n#endif\n#ifdef A\n{}\n#endif\n", True),
        ("#ifndef A\n#define A\n#else\n{}\n#endif\n", True),
        ("#pragma once\n#ifndef H\n#define H\n{}\n#endif // H\n/* end */\n", False),
        ("#if !defined(H)\n#define H\n{}\n#endif", False),
        ("#if ! defined H\n#define H 1\n{}\n#endif\n", False),
        ("#if !defined(H) && X\n#define H\n{}\n#endif\n", True),
        ("#ifndef H\n#define G\n{}\n#endif\n", True),
        ("#ifndef H\n#define H\n#if X\n{}\n#endif\n#endif\n", True),
        ("#ifndef H\n#define H\n#if X\n#endif\n{}\n#endif\n", False),
    ],
)
def test_include_guards(text: str, *, conditional: bool) -> None:
    (found,) = scan(text.format('#include "x.h"'))
    assert found.conditional is conditional


def test_a_header_that_no_include_directory_leads_to(project: Path) -> None:
    with pytest.raises(DriverError) as caught:
        plan(project, 'include = ["."]\n', "")
    (found,) = caught.value.diagnostics
    assert (found.code, found.help) == (Code.UNLISTED_HEADER, 'write include = ["."] in [torch]')
    assert found.span
    assert found.span.file == str(project / "torch-ext/binding.cpp")
    with pytest.raises(DriverError) as caught:
        plan(project, 'include = ["."]\n', 'include = ["torch-ext"]\n')
    assert [diagnostic.help for diagnostic in caught.value.diagnostics] == ['add "." to `include` in [torch]']
    binding = project / "torch-ext/binding.cpp"
    binding.write_text(BINDING.replace('#include "csrc/relu.h"', '#if X\n#include "csrc/relu.h"\n#endif'))
    (note,) = notes(project, 'include = ["."]\n', "")
    assert note.startswith("`csrc/relu.h` is included here, but no directory of `include` in [torch] leads to it; ")


def test_a_header_that_lies_beside_the_including_one_is_found(project: Path) -> None:
    (project / "csrc/more/deep.cuh").write_text('#include "deeper.cuh"\n#include "../relu.h"\n', encoding="utf-8")
    (project / "csrc/more/deeper.cuh").touch()
    (project / "deeper.cuh").touch()
    (project / "csrc/relu.cu").write_text('#include "more/deep.cuh"\n', encoding="utf-8")
    text = MANIFEST.replace(
        'include = ["."]\nsrc = ["csrc', 'src = ["csrc/more/deep.cuh", "csrc/more/deeper.cuh", "csrc'
    )
    (project / "build.toml").write_text(text, encoding="utf-8")
    assert plan_directory(project, Releases()).notes == ()


def test_headers_of_libraries_that_the_project_has_besides(project: Path) -> None:
    for name in ("torch/all.h", "cutlass/cutlass.h"):
        (project / name).parent.mkdir()
        (project / name).touch()
    (project / "csrc/relu.cu").write_text('#include "torch/all.h"\n#include "cutlass/cutlass.h"\n', encoding="utf-8")
    depends = 'depends = ["torch", "cutlass_3_6"]'
    assert notes(project, 'depends = []\ninclude = ["."]', depends) == []
    assert codes(project, 'depends = []\ninclude = ["."]', "depends = []") == [Code.UNLISTED_HEADER]


LIST = "__CUDA_ARCH_LIST__"


@pytest.mark.parametrize(
    ("file", "text", "place"),
    [
        ("csrc/relu.cu", f"int all[] = {{{LIST}}};\nint more[] = {{{LIST}}};\n", (1, 14)),
        ("csrc/relu.cu", f"#ifdef {LIST}\n#  if FIRST({LIST}) > 800\n#  endif\n#endif\n", (2, 13)),
        ("csrc/relu.h", f'const char* é = "{LIST}"; // {LIST}\nint all[] = {{{LIST}}};\n', (2, 14)),
        ("csrc/relu.cu", f'// {LIST}\n/* {LIST}\n{LIST} */ const char* s = "{LIST}" R"({LIST})";\n', None),
        ("csrc/relu.cu", f"#if defined({LIST}) && defined {LIST}\n#elif !defined ( {LIST} )\n#endif\n", None),
        ("csrc/relu.cu", f"#ifndef {LIST}\n# define {LIST} 800\n# undef {LIST}\n#endif\nint {LIST}_ = 1;\n", None),
        ("torch-ext/binding.cpp", f"int all[] = {{{LIST}}};\n{BINDING}", None),
        ("csrc/more/deep.cuh", f"int all[] = {{{LIST}}};\n", None),
    ],
)
def test_a_use_of_the_list_of_architectures_is_a_note(
    project: Path, file: str, text: str, place: tuple[int, int] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = (project / file).read_text() if file == "csrc/relu.cu" else ""
    (project / file).write_text(text + kept, encoding="utf-8")
    old, new = 'src = ["csrc', 'src = ["csrc/more/deep.cuh", "csrc'
    found = plan(project, old, new).notes
    assert [(diagnostic.span.file, diagnostic.span.line, diagnostic.span.column) for diagnostic in found] == (
        [(str(project / file), *place)] if place else []
    )
    assert all(
        diagnostic.message.startswith(f"`{LIST}` names all architectures that nvcc knows, not ") for diagnostic in found
    )
    (project / "build.toml").write_text(MANIFEST.replace(old, new), encoding="utf-8")
    assert __main__.main(["check", str(project)]) == 0
    assert (LIST in capsys.readouterr().err) == bool(place)


def test_a_header_is_looked_through_for_the_list_where_cuda_includes_it(project: Path) -> None:
    (project / "csrc/relu.h").write_text('#include "more/deep.cuh"\n', encoding="utf-8")
    (project / "csrc/more/deep.cuh").write_text(f'#include "../relu.h"\nint all[] = {{{LIST}}};\n', encoding="utf-8")
    text = MANIFEST.replace('src = ["csrc', 'src = ["csrc/more/deep.cuh", "csrc')
    second = text[text.index("[kernel.relu]") :].replace("relu]", "again]")
    (project / "build.toml").write_text(text + second, encoding="utf-8")
    [same, note] = plan_directory(project, Releases()).notes
    assert "lists `csrc/relu.cu` too" in same.message
    assert (note.span.file, note.span.line) == (str(project / "csrc/more/deep.cuh"), 2)
    (project / "csrc/relu.cu").write_text("#include <cuda_runtime.h>\n", encoding="utf-8")
    assert plan_directory(project, Releases()).notes == (same,)


def test_upstreams_tree_has_what_no_section_lists(project: Path) -> None:
    text = MANIFEST.replace('include = ["."]\n\n', 'include = ["."]\npyext = ["py", "inc"]\n\n')
    (project / "build.toml").write_text(text, encoding="utf-8")
    listed = ("tests/data/t.inc", "torch-ext/more/m.inc", "torch-ext/relu/p.inc")
    for name in (*listed, "tests/.hidden/h.inc", "csrc/c.inc"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    found = '#include "tests/data/t.inc"\n#include "../torch-ext/more/m.inc"\n#include "torch-ext/relu/p.inc"\n'
    (project / "csrc/relu.cu").write_text(found, encoding="utf-8")
    made = plan_directory(project, Releases())
    [group] = [group for group in made.groups if group.name == "relu"]
    assert group.headers == ("csrc/relu.h", *listed)
    assert {"tests/data/t.inc", "torch-ext/more/m.inc"} <= made.files
    (project / "tests/data/t.inc").unlink()
    (project / "tests/data/t.inc").symlink_to(__file__)
    (project / "csrc/relu.cu").write_text(found + '#include "tests/.hidden/h.inc"\n#include "csrc/c.inc"\n')
    with pytest.raises(DriverError) as caught:
        plan_directory(project, Releases())
    assert [diagnostic.message for diagnostic in caught.value.diagnostics] == [
        f"`{name}` is included here, but no `src` lists it"
        for name in ("tests/data/t.inc", "tests/.hidden/h.inc", "csrc/c.inc")
    ]


@pytest.mark.parametrize(
    ("flags", "reached"),
    [("[]", False), ('["-DCPU_KERNEL"]', True), ('["-DCPU_KERNEL=1"]', True), ('["-UCUDA_KERNEL"]', True),
     ('["-DMY_CPU_KERNEL"]', False), ('["-DCPU_KERNELS"]', False)],
)  # fmt: skip
def test_a_project_that_defines_the_macros_of_the_rules(project: Path, flags: str, *, reached: bool) -> None:
    text = MANIFEST.replace('"csrc/relu.h"]', f'"csrc/relu.h"]\ncuda-flags = {flags}')
    text = text.replace('["torch-ext/binding.cpp"]', '["torch-ext/binding.cpp", "csrc/more/deep.cuh"]')
    (project / "build.toml").write_text(text, encoding="utf-8")
    (project / "csrc/relu.cu").write_text('#ifdef CPU_KERNEL\n#include "more/deep.cuh"\n#endif\n', encoding="utf-8")
    [group] = [group for group in plan_directory(project, Releases()).groups if group.name == "relu"]
    assert ("csrc/more/deep.cuh" in group.headers) == reached


def test_scan_keeps_places() -> None:
    text = (
        '/* é */ #include "a.h"\n"\\"" \'"\' /* */\n#include <b/c.h> // "x"\n# if 1\n#include "d"\n#endif\n#include "e"'
    )
    found = scan(text)
    assert [(include.path, include.quoted, include.conditional) for include in found] == [
        ("a.h", True, False), ("b/c.h", False, False), ("d", True, True), ("e", True, False)
    ]  # fmt: skip
    assert all(text[include.start :].startswith(include.path) for include in found)


@pytest.mark.parametrize(
    ("line", "depends"),
    [
        ("#include <Python.h>", ("python",)),
        ("#include <torch/extension.h>", ("python", "torch")),
        ("#include <pybind11/stl.h>", ("python",)),
        ("#include <torch/csrc/utils/pybind.h>", ("python", "torch")),
        ("#include <torch/csrc/autograd/python_variable.h>", ("python", "torch")),
        ("#include <torch/all.h>", ("torch",)),
        ('#include "registration.h"\nPyObject* x;', ("python",)),
        ('#include "registration.h"\nvoid* PyInit_x(); // PyObject', ()),
        ("#if __has_include(<Python.h>)\n#endif", ("python",)),
        ('#if defined(A) && \\\n  !__has_include("torch/all.h")\n#endif', ("torch",)),
        ("#define HALF <c10/util/Half.h>\n#include HALF", ("torch",)),
        ('#if __has_include("relu.h")\n#endif', ()),
        ("// __has_include(<torch/all.h>)", ()),
        ("#ifdef CPU_KERNEL\n#if __has_include(<torch/all.h>)\n#endif\n#endif", ()),
        ("// #include <Python.h>", ()),
        ("#ifdef CPU_KERNEL\n#include <Python.h>\n#endif", ()),
    ],
)
def test_a_section_gets_python_where_it_reaches_for_it(project: Path, line: str, depends: tuple[str, ...]) -> None:
    (project / "csrc/relu.h").write_text(f"#pragma once\n{line}\n", encoding="utf-8")
    made = plan(project)
    assert next(group.depends for group in made.groups if group.name == "relu") == depends
    needed = archives(made, made.variants[:1], Releases().lock)
    assert ("libpython3.11-dev" in {entry.name for entry in needed}) == ("python" in depends)


@pytest.mark.parametrize(
    ("line", "identity"),
    [
        ("#ifdef TORCH_EXTENSION_NAME\n#endif", "cuda_id"),
        ("#if !defined(TORCH_EXTENSION_NAME)\n#endif", "cuda_id"),
        ("#if defined(A) && \\\n  defined(TORCH_EXTENSION_NAME)\n#endif", "cuda_id"),
        ("#define TORCH_EXTENSION_NAME x", ""),
        ("// #ifdef TORCH_EXTENSION_NAME", ""),
    ],
)
def test_a_section_that_tests_the_id_gets_it(project: Path, line: str, identity: str) -> None:
    (project / "csrc/relu.h").write_text(f"#pragma once\n{line}\n", encoding="utf-8")
    [group] = [group for group in plan(project).groups if group.name == "relu"]
    assert group.identity == identity


def test_pybind11_is_an_error_where_it_is_compiled(project: Path) -> None:
    header, use = project / "csrc/relu.h", "PYBIND11_MODULE(x, m) { m.def(); }"
    header.write_text(f"#ifndef H\n#define H\n{use}\n#endif\n", encoding="utf-8")
    assert codes(project) == [Code.UNSUPPORTED]
    header.write_text(f"#ifdef OLD\n{use}\n#endif\n", encoding="utf-8")
    [note] = notes(project)
    assert note.startswith("`PYBIND11_MODULE` builds for a single Python version")
    for text in (f"// {use}\n", f"#ifdef CPU_KERNEL\n{use}\n#endif\n", "#ifdef PYBIND11_MODULE\n#endif\n"):
        header.write_text(text, encoding="utf-8")
        assert notes(project) == []
