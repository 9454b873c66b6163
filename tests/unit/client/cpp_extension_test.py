"""Projects that `cpp_extension` writes: what belongs to them, what tells them apart, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from rules_torch_kernels import cpp_extension, notebook
from rules_torch_kernels.inline_project import Inline, copied, copies, told
from rules_torch_kernels.setup_classes import files_of


def _written(place: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)


def test_copies_hold_what_sources_include(tmp_path: Path) -> None:
    files = {
        "csrc/main.cpp": '#include "beside.h"\n#  include <own/far.h>\n#include <vector>\n',
        "csrc/beside.h": '#include "../up.h"\n#if __has_include("asked.h")\n#endif\n'
        '#include "macros.h"\n#include FILE\n',
        "csrc/macros.h": '#define FILE "macro.h"\n',
        "csrc/asked.h": "",
        "csrc/macro.h": "#include \\\n  <own/continued.h>\n",
        "csrc/unseen.h": "",
        "up.h": "// é\n",
        "include/own/far.h": '#include "near.h"\n',
        "include/own/near.h": '#include "far.h"\n',
        "include/own/continued.h": "",
    }
    _written(tmp_path, files)
    source = tmp_path / "csrc" / "main.cpp"
    found = copies({source: source.read_bytes()}, [tmp_path / "include"])
    assert found == {copied(tmp_path / name): text.encode() for name, text in files.items() if name != "csrc/unseen.h"}


def test_a_file_that_two_directories_have_is_copied_from_both(tmp_path: Path) -> None:
    _written(tmp_path, {"main.cpp": "#include <x.h>\n", "one/x.h": "1", "two/x.h": "2"})
    source = tmp_path / "main.cpp"
    found = copies({source: source.read_bytes()}, [tmp_path / "one", tmp_path / "two"])
    assert set(found) == {copied(tmp_path / name) for name in ("main.cpp", "one/x.h", "two/x.h")}


def test_a_file_behind_a_link_is_the_one_that_a_compiler_reads(tmp_path: Path) -> None:
    _written(
        tmp_path, {"real/csrc/main.cpp": '#include "../x.h"\n', "real/x.h": '#include "y.h"\n', "real/y.h": "real"}
    )
    (tmp_path / "link").symlink_to("real/csrc")
    source = tmp_path / "link" / "main.cpp"
    found = copies({source: source.read_bytes()}, [])
    assert found[copied(tmp_path / "y.h")] == b"real"
    assert set(found) == {copied(tmp_path / name) for name in ("link/main.cpp", "x.h", "y.h")}
    _written(tmp_path, {"x.h": "another", "link/main.cpp": '#include "../x.h"\n#include <x.h>\n'})
    with pytest.raises(ValueError, match="is behind a link"):
        copies({source: source.read_bytes()}, [tmp_path])


def _inline(**changed: Any) -> Inline:  # noqa: ANN401
    fields: dict[str, Any] = {"name": "m", "texts": {"main.cpp": b"1", "a.h": b"2"}, "sources": ["main.cpp"]}
    return Inline(**{**fields, **changed})


@pytest.mark.parametrize(
    "changed",
    [
        {"name": "n"},
        {"texts": {"main.cpp": b"1", "a.h": b"3"}},
        {"texts": {"main.cpp": b"1", "b.h": b"2"}},
        {"sources": ["main.cpp", "a.h"]},
        {"include_dirs": ["sources/x"]},
        {"flags": {"cxx": ["-O1"], "nvcc": []}},
        {"flags": {"nvcc": ["-O1"], "cxx": []}},
        {"link_flags": ["-lcublas"]},
        {"backend": "cuda"},
        {"gpus": ["9.0"]},
    ],
)
def test_whatever_a_build_depends_on_is_another_key(changed: dict[str, Any]) -> None:
    assert _inline().key() == _inline().key()
    assert _inline(**changed).key() != _inline().key()


def test_architectures_and_the_driver_are_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {_inline().key()}
    names = ("TORCH_CUDA_ARCH_LIST", "PYTORCH_ROCM_ARCH", "RULES_TORCH_KERNELS_DRIVER", "RULES_TORCH_KERNELS_MATRIX")
    for name in names:
        monkeypatch.setenv(name, "9.0")
        keys.add(_inline().key())
    assert len(keys) == 5


def test_a_change_of_a_checkout_of_the_driver_is_another_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = ("driver", "py_driver/__main__.py", "py_driver/cli/a.py", "rules/defs.bzl", "docs/index.md")
    _written(tmp_path, dict.fromkeys(files, ""))
    monkeypatch.setenv("RULES_TORCH_KERNELS_DRIVER", str(tmp_path / "driver"))
    first = _inline().key()
    _written(tmp_path, {"docs/index.md": "changed", "py_driver/cli/__pycache__/a.pyc": ""})
    assert _inline().key() == first
    _written(tmp_path, {"rules/defs.bzl": "changed"})
    assert _inline().key() != first


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": "a-b"}, "`a-b` is no name of a module"),
        ({"name": "größe"}, "is no name of a module"),
        ({"sycl_sources": "x"}, "SYCL cannot be built"),
        ({"with_sycl": True}, "SYCL cannot be built"),
    ],
)
def test_what_cannot_be_built_is_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        cpp_extension.load_inline(**{"name": "m", "cpp_sources": "", **arguments})


def test_what_load_refuses(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="programs cannot be built"):
        cpp_extension.load("m", ["main.cpp"], is_standalone=True)
    with pytest.raises(ValueError, match="`m` has no sources"):
        cpp_extension.load("m", [])
    with pytest.raises(FileNotFoundError, match=r"main\.cpp"):
        cpp_extension.load("m", [tmp_path / "main.cpp"])
    (tmp_path / "main.cpp").touch()
    with pytest.raises(TypeError, match="options are a list, not the text '-O1'"):
        cpp_extension.load("m", tmp_path / "main.cpp", extra_cflags="-O1")
    with pytest.raises(TypeError, match="`extra_include_paths` is a list, not the text 'include'"):
        cpp_extension.load("m", tmp_path / "main.cpp", extra_include_paths="include")


def test_a_library_that_is_no_module_may_have_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    monkeypatch.setattr(cpp_extension, "_import", lambda inline, *_, **__: found.append(inline.name))
    for name in ("my-ops", "3d.ops", "plain"):
        cpp_extension.load_inline(name, "", is_python_module=False)
    assert found == ["my_ops", "_3d_ops", "plain"]


def test_files_of_a_module(tmp_path: Path) -> None:
    for name in ("pkg/_c.py", "pkg/lib_c.so", "pkg/_cx.so", "one.cpython-311-x86_64-linux-gnu.so", "oneself.so"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [file.name for file in files_of(tmp_path, "pkg._c")] == ["_c.py", "lib_c.so"]
    assert [file.name for file in files_of(tmp_path, "one")] == ["one.cpython-311-x86_64-linux-gnu.so"]
    with pytest.raises(FileNotFoundError, match=r"no module `pkg\.two`"):
        files_of(tmp_path, "pkg.two")


@pytest.mark.parametrize(
    ("cell", "declared"),
    [
        ("torch::Tensor f(torch::Tensor x) {\n}", "torch::Tensor f(torch::Tensor x);"),
        (
            "static int g();\nstd::vector<at::Tensor> *f (int a,\n   int b)\n{",
            "std::vector<at::Tensor> *f (int a,\n   int b);",
        ),
        ("void f();\nvoid f() {}", "void f();"),
        ("namespace {}\n  auto f(int a) -> std::vector<int> {", "auto f(int a) -> std::vector<int>;"),
        ("int f(std::optional<int> a = {}) noexcept {", "int f(std::optional<int> a = {}) noexcept;"),
        ("int f(double a = g(h()), int b = 0) {}", "int f(double a = g(h()), int b = 0);"),
        ("__host__ int f(int a /* {;} */) {", "int f(int a );"),
        ("int f(int a, // the {first}; (one)\n int b) {", "int f(int a, \n int b);"),
        ("[[nodiscard]] int f() {", "[[nodiscard]] int f();"),
    ],
)
def test_a_cell_is_declared_by_its_definitions(cell: str, declared: str) -> None:
    assert notebook.declaration(cell, "f") == declared


@pytest.mark.parametrize("cell", ["", "int f();", "int ff() {", "  return f(1) {"])
def test_a_cell_without_the_function_is_told(cell: str) -> None:
    with pytest.raises(ValueError, match="the cell defines no function `f`"):
        notebook.declaration(cell, "f")


def test_a_message_names_the_files_of_the_user() -> None:
    place = Path("/cache/inline/m-1")
    said = "sources/home/sources/a.cpp:1: `sources/b.h` and /cache/inline/m-1/sources/c.h, not of/sources/d.h"
    assert told(said, place) == "/home/sources/a.cpp:1: `/b.h` and /c.h, not of/sources/d.h"


@pytest.mark.parametrize("name", ["My Drive/a b", "jürgen", "a=3d", "$x's (1)#%:;&", "a+b,@~^!-_.c", "\udcff"])
def test_any_path_has_a_copy(name: str) -> None:
    path = Path("/home", name, "a.cpp")
    assert re.fullmatch(r"[A-Za-z0-9_.+,=@~^!/-]+", copied(path))
    assert told(f"/cache/m-1/{copied(path)}:3: no `{copied(path)}`", Path("/cache/m-1")) == f"{path}:3: no `{path}`"


def test_directories_among_options(tmp_path: Path) -> None:
    for header in ("torch/include/torch/extension.h", "cuda/include/cuda_runtime.h"):
        _written(tmp_path, {header: ""})
    own = [f"{tmp_path}/{name}" for name in ("a", "b", "c", "d")]
    flags = [f"-I{own[0]} -DX=1", "-isystem", own[1], f"-I{tmp_path}/torch/include", f"-I{tmp_path}/cuda/include"]
    found = cpp_extension.options(flags, ["-O2", "-I", own[2]], [own[3], own[0]])
    assert found.flags == {"cxx": ["-DX=1"], "nvcc": ["-O2"]}
    assert [*map(str, found.directories)] == [own[3], own[0], own[2], own[1]], "those of -isystem come last"
    assert cpp_extension.options(None, ["--include-path=/x"], None).directories == [Path("/x")]
    with pytest.raises(ValueError, match="no directory follows `-I`"):
        cpp_extension.options(["-O2", "-I"], None, None)


def test_docs_are_texts_of_cpp() -> None:
    docs = MappingProxyType({"f": 'a "quoted"\nline, \U0001f600 é'})
    assert (
        '  m.def("f", torch::wrap_pybind_function(f), "a \\"quoted\\"\\nline, \U0001f600 é");'
        in cpp_extension.binding(docs).splitlines()
    )
    assert '  m.def("g", torch::wrap_pybind_function(g), "g");' in cpp_extension.binding("g").splitlines()
    assert '  m.def("g", g, "g");' in cpp_extension.binding("g", wrapped=False).splitlines()
