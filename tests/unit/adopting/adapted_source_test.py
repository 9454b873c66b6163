"""Sources of a setup.py project for a kernel: what is registered in the place of what was bound."""

from __future__ import annotations

import textwrap

import pytest

from py_driver.adopting.adapted_source import Adapted, adapt

HEAD = '#include <torch/extension.h>\n#include "own.h"\n\n'


def adapted(text: str, *others: str, first: bool = True) -> Adapted:
    return adapt("a.cpp", HEAD + textwrap.dedent(text), others, lambda bound: bound.name, first=first)


def schemas(text: str, *others: str) -> list[str]:
    found = adapted(text, *others)
    assert not found.losses
    return [op.schema for op in found.ops]


def bound(declaration: str, words: str = "&f") -> str:
    return f'{declaration}\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("f", {words}); }}\n'


@pytest.mark.parametrize(
    ("declaration", "words", "schema"),
    [
        ("at::Tensor f(const at::Tensor& x);", "&f", "f(Tensor x) -> Tensor"),
        ("static void f(torch::Tensor& x, double y) {}", "f", "f(Tensor(a!) x, float y) -> ()"),
        ("void f(c10::optional<at::Tensor> &x);", "&f", "f(Tensor(a!)? x) -> ()"),
        ("void f(const std::optional<at::Tensor>& x);", "&f", "f(Tensor? x) -> ()"),
        ("size_t f(unsigned int n, uintptr_t p);", "&f", "f(int n, int p) -> int"),
        ("std::vector<at::Tensor> f(std::vector<at::Tensor> x, std::vector<int> n);", "&f",
         "f(Tensor[] x, int[] n) -> Tensor[]"),
        ("std::tuple<at::Tensor, int, float> f(std::string s, bool b);", "&f",
         "f(str s, bool b) -> (Tensor, int, float)"),
        ("std::pair<at::Tensor, at::Tensor> f(at::ScalarType t, at::IntArrayRef n);", "&f",
         "f(ScalarType t, int[] n) -> (Tensor, Tensor)"),
        ("using Maybe = std::optional<at::Tensor>; void f(Maybe x);", "&f", "f(Tensor? x) -> ()"),
        ("namespace own { at::Tensor f(at::Tensor); }", "&own::f", "f(Tensor arg0) -> Tensor"),
        ("", "[](at::Tensor x) -> at::Tensor { return x; }", "f(Tensor x) -> Tensor"),
        ("", "[](at::Tensor x) { x.zero_(); }", "f(Tensor x) -> ()"),
        ("int64_t g(at::Tensor x);", "[](at::Tensor x) { return g(x); }", "f(Tensor x) -> int"),
        ("at::Tensor f(at::Tensor x);", "torch::wrap_pybind_function(f)", "f(Tensor x) -> Tensor"),
        ("EXPORT at::Tensor f(at::Tensor x) noexcept;", "&f", "f(Tensor x) -> Tensor"),
        ("auto f(at::Tensor x) -> at::Tensor { return x; }", "&f", "f(Tensor x) -> Tensor"),
        ("// int f(int);\nat::Tensor g() { return f(1); }\nat::Tensor f(int x);", "&f", "f(int x) -> Tensor"),
        (
            "void f(at::Tensor x, int n, float e, bool b, std::string s, std::optional<int64_t> m);",
            '&f, "doc", py::arg("x"), py::arg("n") = 0x10, py::arg("e") = 1e-5f, py::arg("b") = false,'
            ' py::arg("s") = "a", py::arg("m") = py::none()',
            'f(Tensor x, int n=16, float e=1e-05, bool b=False, str s="a", int? m=None) -> ()',
        ),
        ("void f(int x, int y);", '&f, "x"_a, py::kw_only(), "y"_a = 2', "f(int x, *, int y=2) -> ()"),
    ],
)  # fmt: skip
def test_schema_of_a_function(declaration: str, words: str, schema: str) -> None:
    assert schemas(bound(declaration, words)) == [schema]


@pytest.mark.parametrize(
    ("declaration", "words", "reason"),
    [
        ("void f(py::object x);", "&f", "its parameter `py::object` is not a type of an op"),
        ("Own f();", "&f", "its result `Own` is not a type of an op"),
        ("", "&f", "no declaration of `f` was found in the project"),
        ("void f(int x); void f(float x);", "&f", "`f` is overloaded"),
        ("template <typename T> void f(T x);", "&f<float>", "`&f<float>` is not the name of a function"),
        (
            "void f(int x);",
            '&f, py::arg("x") = Own::value',
            "the default `Own::value` of `x` is not a value in a schema",
        ),
        ("void f(int x, int y);", '&f, py::arg("x")', "it has 2 parameters, and the binding names 1"),
        ("void f(int* x);", "&f", "its parameter `int*` is not a type of an op"),
    ],
)
def test_what_is_no_op_is_a_loss_with_its_line(declaration: str, words: str, reason: str) -> None:
    found = adapted(bound(declaration, words))
    [loss] = [loss for loss in found.losses if "pybind11's" not in loss.reason]
    assert loss.reason == f"the function `f` is not bound: {reason}"
    assert (loss.file, loss.line) == ("a.cpp", 5)
    assert not found.ops


def test_other_statements_are_losses() -> None:
    found = adapted("""
        struct Own {};
        PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
          m.doc() = "what it does";
          m.attr("VERSION") = "1.0";
          pybind11::class_<Own>(m, "Own").def("f", &Own::f);
          bind_more(m);
        }
    """)
    assert found.doc == "what it does"
    assert found.values == (("VERSION", '"1.0"'),)
    assert [loss.line for loss in found.losses] == [9, 10]
    assert all(loss.missing for loss in found.losses)


def test_text_stays_but_for_the_binding() -> None:
    text = """\
        int f(int f) { return f; }  // py::dict here is a comment

        PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
          // first
          m.def("f", &f);
        #ifdef WITH_CUDA
          m.def("g", &g);
        #endif
        }
        int g(int x);
    """
    expected = """\
        #include <torch/all.h>
        #include "own.h"
        #include "registration.h"
        #include "torch_binding.h"

        int f(int f) { return f; }  // py::dict here is a comment

        TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CompositeImplicitAutograd, ops) {
          // first
          ops.impl("f", [](int64_t f_) -> int64_t {
            return torch_binding::Result<int>::from(f(torch_binding::Argument<int>::from(f_)));
          });
        #ifdef WITH_CUDA
          ops.impl("g", [](int64_t x) -> int64_t {
            return torch_binding::Result<int>::from(g(torch_binding::Argument<int>::from(x)));
          });
        #endif
        }
        int g(int x);
    """
    found = adapted(text)
    assert found.text == textwrap.dedent(expected)
    assert [op.python for op in found.ops] == [
        "def f(f, /):\n    return _ops.f(f)\n",
        "def g(x, /):\n    return _ops.g(x)\n",
    ]


def test_static_registrations_are_ops_of_the_kernel() -> None:
    found = adapted("""
        static auto registry = torch::RegisterOperators()
            .op("own::f", &f)
            .op("own::g", [] { return g(); });
        int after;
    """, "at::Tensor f(at::Tensor x); int64_t g();")  # fmt: skip
    assert [op.schema for op in found.ops] == ["f(Tensor x) -> Tensor", "g() -> int"]
    assert found.namespaces == ("own",)
    assert "RegisterOperators" not in found.text
    assert found.text.endswith("}\nint after;\n")


def test_libraries_move_to_the_namespace_of_the_kernel() -> None:
    text = "TORCH_LIBRARY(own, m) {}\nTORCH_LIBRARY_IMPL(own, CUDA, m) {}\nTORCH_LIBRARY_IMPL(aten, CUDA, m) {}\n"
    found = adapted(text)
    assert "TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, m) {}" in found.text
    assert "TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, m) {}" in found.text
    assert "TORCH_LIBRARY_IMPL(aten, CUDA, m) {}" in found.text
    assert (found.libraries, found.namespaces, found.losses) == (1, ("own",), ())
    second = adapted(text, first=False)
    assert "TORCH_LIBRARY_FRAGMENT_EXPAND(TORCH_EXTENSION_NAME, m) {}" in second.text
    assert [loss.missing for loss in second.losses] == [False]


def test_headers_without_a_binding_stay() -> None:
    text = "#pragma once\n#include <vector>\nint f();\n"
    assert adapt("a.h", text, (), lambda bound: bound.name, first=True).text == text
