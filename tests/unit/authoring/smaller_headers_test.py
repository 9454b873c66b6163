"""Headers of torch in place of umbrella headers: what is proposed for a text, and how its lines are rewritten."""

from __future__ import annotations

import pytest

from py_driver.authoring.smaller_headers import Edit, asked_macros, proposals, rewritten, unknown_macro

_KERNEL = """\
#include <torch/all.h>
#include <ATen/cuda/CUDAContext.h>

void scale(at::Tensor& out, const at::Tensor& in) {
  // torch::nn in a comment, and "torch::nn" in a string, name nothing
  const char* name = "torch::nn";
  auto sum = at::softmax(in, 0);
  AT_DISPATCH_FLOATING_TYPES(in.scalar_type(), "scale", [] {});
  run<<<1, 1, 0, at::cuda::getCurrentCUDAStream()>>>();
}
"""


def _headers(text: str) -> list[list[tuple[str, tuple[str, ...]]]]:
    return [[(edit.header, edit.instead) for edit in way] for way in proposals(text)]


def test_headers_by_name_come_first() -> None:
    names = ("ATen/core/Tensor.h", "ATen/Dispatch.h", "ATen/ops/softmax.h")
    cuda = ("ATen/cuda/CUDAContext.h", ("c10/cuda/CUDAStream.h",))
    every = [("torch/all.h", smaller) for smaller in (names, ("ATen/ATen.h",), ("torch/types.h",))]
    assert _headers(_KERNEL) == [*([header, cuda] for header in every), [cuda], *([header] for header in every)]
    assert [edit.line for edit in proposals(_KERNEL)[0]] == [1, 2]


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("torch::Tensor f();", [[("torch/all.h", ("torch/types.h",))]]),
        ("using namespace torch;", [[("torch/all.h", ("torch/types.h",))]]),
        (
            "TORCH_LIBRARY(x, m) { m.impl(torch::dispatch(a, f)); }",
            [
                [("torch/all.h", ("ATen/core/Tensor.h", "torch/library.h"))],
                [("torch/all.h", ("ATen/ATen.h", "torch/library.h"))],
                [("torch/all.h", ("torch/types.h",))],
            ],
        ),
    ],
)
def test_what_names_torch_keeps_its_namespace(use: str, expected: object) -> None:
    assert _headers(f"#include <torch/all.h>\n{use}\n") == expected


@pytest.mark.parametrize("text", ["", "#include <ATen/core/Tensor.h>\n", "// #include <torch/all.h>\n"])
def test_without_an_umbrella_header_there_is_nothing_to_say(text: str) -> None:
    assert proposals(text) == ()


def test_a_header_that_is_there_is_not_included_again() -> None:
    text = "#include <ATen/core/Tensor.h>\n#include <ATen/ATen.h>  // at::Tensor\nat::Tensor f();\n"
    [way] = proposals(text)
    assert way == (Edit(line=2, header="ATen/ATen.h", instead=()),)
    assert rewritten(text, way) == "#include <ATen/core/Tensor.h>\n// at::Tensor\nat::Tensor f();\n"


def test_one_in_an_if_may_not_be_there() -> None:
    text = "#ifdef X\n#include <ATen/core/Tensor.h>\n#endif\n#include <ATen/ATen.h>\nat::Tensor f();\n"
    assert _headers(text) == [[("ATen/ATen.h", ("ATen/core/Tensor.h",))]]


@pytest.mark.parametrize(
    ("line", "new"),
    [
        ("#include <torch/all.h>\n", "#include <a.h>\n#include <b.h>\n"),
        ("#include <torch/all.h>", "#include <a.h>\n#include <b.h>"),
        ('  #  include "torch/all.h"  // why\r\n', "  #include <a.h>\r\n  #include <b.h>  // why\r\n"),
        ("#include <torch/all.h> /* which\nends */\n", "#include <a.h>\n#include <b.h> /* which\nends */\n"),
        ("/* \u2028 \x0c */ #include <torch/all.h>\n", "/* \u2028 \x0c */ #include <torch/all.h>\n"),
    ],
)
def test_lines_keep_how_they_are_written(line: str, new: str) -> None:
    edit = Edit(line=1, header="torch/all.h", instead=("a.h", "b.h"))
    assert rewritten(line + "int x;\n" * line.endswith("\n"), [edit]) == new + "int x;\n" * line.endswith("\n")


@pytest.mark.parametrize(
    "line", ["/* # */ #include <torch/all.h>", "#include <torch/all.h> \\", "\ufeff#include <torch/all.h>"]
)
def test_odd_lines_are_left_alone(line: str) -> None:
    assert proposals(f"{line}\n\nat::Tensor f();\n") == ()


def test_lines_are_those_of_compilers() -> None:
    text = "// \u2028 \x0c \x85\n#include <torch/all.h>\nat::Tensor f();\n"
    first, *_ = proposals(text)
    assert first == (Edit(line=2, header="torch/all.h", instead=("ATen/core/Tensor.h",)),)
    assert rewritten(text, first) == text.replace("torch/all.h", "ATen/core/Tensor.h")


def test_macros_that_are_asked_for() -> None:
    text = "#define MINE 1\n#if defined(MINE) && TORCH_VERSION_MAJOR >= 2 && !defined USE_ROCM\n#elif OTHER\n#endif\n"
    assert asked_macros(text + "#ifdef CPU_KERNEL\n#endif\n#if __CUDA_ARCH__ > 800 // WORD\n#endif\n") == {
        "TORCH_VERSION_MAJOR",
        "OTHER",
    }
    assert unknown_macro({"TORCH_VERSION_MAJOR", "AT_PARALLEL_OPENMP", "CUDA_VERSION"}) == ""
    assert unknown_macro({"TORCH_VERSION_MAJOR", "OTHER"}) == "OTHER"


def test_a_macro_brings_its_header_in_every_way() -> None:
    ways = proposals("#include <torch/all.h>\nat::Tensor f();\n", {"TORCH_VERSION_MINOR"})
    assert len(ways) == 3
    assert all("torch/version.h" in edit.instead for way in ways for edit in way)


def test_an_include_inside_an_if_stays() -> None:
    text = "#include <torch/all.h>\n#ifdef DEBUG\n#include <torch/torch.h>\n#endif\n"
    assert {edit.header for way in proposals(text) for edit in way} == {"torch/all.h"}
