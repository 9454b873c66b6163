"""Sources that could compile after the rewriting and mean something else: they keep their meaning, or are listed."""

from __future__ import annotations

import pytest

from py_driver.inspecting.stable_fix import fix_source
from py_driver.inspecting.stable_ops import difference, ops_of

HEAD = "#include <ATen/core/Tensor.h>\n#include <torch/library.h>\n\nusing at::Tensor;\n"
STREAM = (
    "[&] { void* stable_stream = nullptr; TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream("
    "torch::stable::accelerator::getCurrentDeviceIndex(), &stable_stream)); "
    "return static_cast<cudaStream_t>(stable_stream); }()"
)


def _fixed(body: str, file: str = "a.cpp") -> tuple[str, list[str]]:
    """A body of a function, rewritten, and the names of what is left."""
    fixed = fix_source(f"{HEAD}void f(Tensor x, Tensor y, Tensor* p, int n) {{\n  {body}\n}}\n", file)
    return fixed.text.split("int n) {\n  ")[1].rsplit("\n}\n", 1)[0], [use.name for use in fixed.left]


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("auto a = x.select(g({1}), n);", "auto a = torch::stable::select(x, g({1}), n);"),
        (
            "auto a = at::matmul(x.view({1}), y);",
            "auto a = torch::stable::matmul(torch::stable::view(x, {1}), y);",
        ),
        ("auto a = x.select('\\0', n);", "auto a = torch::stable::select(x, '\\0', n);"),
        (
            "auto s = at::cuda::getCurrentCUDAStream(); g(s.stream()); }\nvoid h(S s) { s.stream();",
            f"auto s = {STREAM}; g(s); }}\nvoid h(S s) {{ s.stream();",
        ),
        ('auto a = "x.clone() \'at::Half"; // x.clone()', 'auto a = "x.clone() \'at::Half"; // x.clone()'),
        ('auto a = R"(x.clone(")"; auto b = 1\'0 + x.dim();', 'auto a = R"(x.clone(")"; auto b = 1\'0 + x.dim();'),
        ("auto a = std::abs(n);", "auto a = std::abs(n);"),
    ],
)
def test_the_meaning_stays(body: str, wanted: str) -> None:
    assert _fixed(body) == (wanted, [])


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("auto a = torch::zeros({n}, x.options().dtype(torch::kInt).pinned_memory(true));", "torch::zeros"),
        ("auto a = torch::empty({n}, x.options().dtype(torch::kInt).device(d));", "torch::empty"),
        ("auto a = torch::empty({n}, x.options().device(d));", "torch::empty"),
        ("auto a = x.view(torch::kInt32);", ".view"),
        ("auto a = x.view(y.dtype());", ".view"),
        ("auto a = this->clone();", ".clone"),
        ("auto a = b<c>::d.clone();", ".clone"),
        ("auto a = x\n#ifdef A\n  .clone()\n#endif\n  .contiguous();", ".contiguous"),
        ("auto a = abs(n);", "abs"),
    ],
)
def test_in_doubt_it_is_left(body: str, left: str) -> None:
    assert left in _fixed(body)[1]


def test_abs_is_that_of_nvcc_in_device_code() -> None:
    assert _fixed("auto a = abs(n);", "a.cu")[1] == []


@pytest.mark.parametrize(
    ("condition", "macro"),
    [
        ("#if TORCH_VERSION_MAJOR > 2", "TORCH_VERSION_MAJOR"),
        ("#if defined(A) || \\\n  defined(C10_MOBILE)", "C10_MOBILE"),
        ("#ifndef AT_PARALLEL_OPENMP", "AT_PARALLEL_OPENMP"),
    ],
)
def test_a_condition_that_asks_for_a_macro_of_torch_is_left(condition: str, macro: str) -> None:
    fixed = fix_source(f"{HEAD}{condition}\nvoid f(Tensor x);\n#endif\n", "a.h")
    [use] = fixed.left
    assert (use.name, use.span.text[use.span.column - 1 :][: len(macro)]) == (f"#if {macro}", macro)
    assert use.instead


def test_a_condition_that_asks_for_the_stable_release_is_not() -> None:
    text = f"{HEAD}#define C10_OWN\n#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_12_0 || defined(C10_OWN)\n#endif\n"
    assert fix_source(text, "a.h").left == []


@pytest.mark.parametrize(
    "line",
    [
        "#define TORCH_CHECK(x, ...) own(x)",
        "#undef C10_CUDA_CHECK",
        '#define REG(name, f) \\\n  TORCH_LIBRARY(name, m) { \\\n    m.def("f(Tensor x) -> Tensor", &f); \\\n  }',
    ],
)
def test_a_macro_that_takes_a_name_of_torch_is_refused(line: str) -> None:
    text = f"{HEAD}{line}\nint f(Tensor x);\n"
    fixed = fix_source(text, "a.cpp")
    assert fixed.refused
    assert fixed.text == text


DEFINED = """\
#include <torch/library.h>
TORCH_LIBRARY(n, m) {
#if defined(A) && \\
    defined(B)
  m.def("f(Tensor x) -> Tensor", &f);
#endif
}
"""

IMPLEMENTED = """\
#include <torch/csrc/stable/library.h>
STABLE_TORCH_LIBRARY(n, m) {
#if defined(A) && \\
    defined(B)
  m.def("f(Tensor x) -> Tensor");
#endif
}

#if defined(A) && \\
    defined(B)
STABLE_TORCH_LIBRARY_IMPL(n, CompositeImplicitAutograd, m) {
  m.impl("f", TORCH_BOX(&f));
}
#endif
"""


def test_a_condition_over_several_lines_stays_around_its_implementations() -> None:
    assert fix_source(DEFINED, "a.cpp").text == IMPLEMENTED


@pytest.mark.parametrize(
    "kernel", ["[](Tensor x) { return x; }", "static_cast<Tensor (*)(Tensor)>(&f)", "torch::CppFunction(f)"]
)
def test_an_implementation_that_is_not_boxed_is_left(kernel: str) -> None:
    fixed = fix_source(f'{HEAD}TORCH_LIBRARY_IMPL(n, CPU, m) {{ m.impl("f", {kernel}); }}\n', "a.cpp")
    assert "m.impl" in [use.name for use in fixed.left]


@pytest.mark.parametrize("argument", ["bool[2] mask", "complex z", "int[1] size"])
def test_what_would_be_boxed_as_other_bytes_is_left(argument: str) -> None:
    """`ToImpl` of torch/csrc/stable/stableivalue_conversions.h copies the bytes of types that it does not know."""
    text = f'{HEAD}void f(std::array<int64_t, 1>);\nTORCH_LIBRARY(n, m) {{ m.def("f({argument}) -> Tensor"); }}\n'
    [use] = fix_source(text, "a.cpp").left
    assert use.name == "m.def"
    assert argument.split(" ")[0] in use.reason


def test_lists_of_a_size_are_boxed_as_lists() -> None:
    text = f'{HEAD}void f(at::IntArrayRef);\nTORCH_LIBRARY(n, m) {{ m.def("f(int[2] size) -> Tensor"); }}\n'
    assert fix_source(text, "a.cpp").left == []


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (
            "auto a = torch::full(x.sizes(), y.size(n), x.options());",
            "auto a = torch::stable::fill_(torch::stable::new_empty(x, x.sizes()), y.size(n));",
        ),
        (
            "auto a = at::ones({n}, x.options().dtype(at::kInt));",
            "auto a = torch::stable::fill_(torch::stable::new_empty(x, {n}, torch::headeronly::ScalarType::Int), 1.0);",
        ),
        ("auto a = at::full_like(x, 3);", "auto a = torch::stable::fill_(torch::stable::empty_like(x), 3);"),
        (
            "auto a = x.cpu();",
            "auto a = torch::stable::to(x, torch::stable::Device(torch::headeronly::DeviceType::CPU));",
        ),
    ],
)
def test_values_that_a_double_has_are_filled_in(body: str, wanted: str) -> None:
    assert _fixed(body) == (wanted, [])


@pytest.mark.parametrize("call", ["at::full_like(x, value)", "at::full({n}, value, x.options())", "at::ones({n})"])
def test_other_values_are_left(call: str) -> None:
    assert call.partition("(")[0] in _fixed(f"auto a = {call};")[1]


@pytest.mark.parametrize(
    ("macro", "is_refused"),
    [
        ("#define K(x) at::k##x", True),
        ("#define K(x) at::##x", True),
        ("#define K(x) \\\n  torch::autograd::F ## x", True),
        ("#define K(x) AT_##x", True),
        ("#define K(x) struct Atomic##x##Half { at::Half value; };", False),
    ],
)
def test_a_macro_may_paste_names_that_are_not_torch_s(macro: str, is_refused: bool) -> None:  # noqa: FBT001
    assert bool(fix_source(f"{HEAD}{macro}\nint f(Tensor x);\n", "a.cu").refused) is is_refused


def test_macros_of_the_project_are_no_uses() -> None:
    text = f"{HEAD}void f(Tensor x) {{ AT_DISPATCH_OWN(x); }}\n"
    assert [use.name for use in fix_source(text, "a.cpp").left] == ["AT_DISPATCH_OWN"]
    assert fix_source(text, "a.cpp", frozenset({"AT_DISPATCH_OWN"})).left == []
    assert fix_source(f"#define AT_DISPATCH_OWN(x)\n{text}", "a.cpp").left == []


def test_a_macro_of_torch_that_another_file_defines_is_refused() -> None:
    text = f"{HEAD}void f(Tensor x) {{ TORCH_CHECK(x.is_cuda()); }}\n"
    assert fix_source(text, "a.cpp", frozenset({"TORCH_CHECK"})).refused


def test_registrations_are_compared() -> None:
    text = f'{HEAD}TORCH_LIBRARY(n, m) {{\n  m.def("f(Tensor x) -> Tensor", &f);\n  m.impl("g", torch::kCPU, &g);\n}}\n'
    old = ops_of(text)
    assert difference(old, ops_of(fix_source(text, "a.cpp").text)) == ""
    assert "f(Tensor x) -> Tensor" in difference(old, ops_of(text.replace("Tensor x", "Tensor y")))
    assert "for CPU" in difference(old, ops_of(text.replace("kCPU", "kCUDA")))
    assert "f for CompositeImplicitAutograd" in difference(old, ops_of(text.replace(", &f", "")))
    assert "n: " in difference(old, ops_of(text.replace("(n, m)", "(o, m)")))
    assert difference(old, ops_of(f"#ifdef __CUDACC__\n{text}#endif\n"))
