"""Uses of torch's C++ API in sources, and the table of their stable equivalents."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from py_driver import __main__
from py_driver.inspecting.stable_uses import equivalents, stable_uses

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """\
#include <torch/library.h>
// at::Tensor in a comment
void relu(at::Tensor& out, const torch::Tensor& x) {
  TORCH_CHECK(x.scalar_type() == at::ScalarType::Float, "at::Tensor in a text");
  auto y = at::cat({x, out}); auto n = x.numel(); std::string().size();
  auto z = torch::stable::empty_like(x);
}
TORCH_LIBRARY(relu, m) {}
"""


def test_uses_are_found_where_they_are() -> None:
    uses = [*stable_uses(SOURCE, "a.cpp")]
    found = [(use.name, use.span.line, use.span.column) for use in uses]
    assert found[:4] == [
        ("at::Tensor", 3, 11),
        ("torch::Tensor", 3, 34),
        ("TORCH_CHECK", 4, 3),
        (".scalar_type", 4, 17),
    ]
    assert [name for name, _, _ in found[4:]] == ["at::ScalarType", "at::cat", ".numel", ".size", "TORCH_LIBRARY"]
    assert [use.name for use in uses if use.equivalent is None] == ["at::cat"]


def test_methods_count_in_sources_with_tensors_only() -> None:
    assert [*stable_uses("int n = text.size(0);", "a.cpp")] == []


def test_a_method_of_tensors_without_an_equivalent_is_a_use() -> None:
    [tensor, method] = stable_uses("auto f(at::Tensor x) { return x.packed_accessor32<float, 2>(); }", "a.cpp")
    assert (tensor.name, method.name, method.equivalent) == ("at::Tensor", ".packed_accessor32", None)


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("using at::Tensor;\nTensor f(Tensor x);", ["at::Tensor"] * 3),
        ("using T = torch::Tensor;\nT f();", ["torch::Tensor"] * 2),
        ("namespace ops = at;\nvoid f() { ops::cat({}); ops::empty({}); }", ["at::cat", "at::empty"]),
        ("namespace cu = c10::cuda;\ncu::CUDAGuard g;", ["c10::cuda", "c10::cuda::CUDAGuard"]),
        ("using namespace at;\nTensor x; float sum = 0; y = sum(x);", ["using namespace at", "at::Tensor", "at::sum"]),
        ("using namespace torch::stable;\nTensor x; x.sin(); x.numel();", []),
        ("using torch::stable::Tensor;\nvoid f(Tensor x) { x.numel(); }", []),
        ("void f(at :: Tensor x);", ["at::Tensor"]),
        ("template <class T> void f(T x) { at::zero(); x.template data_ptr<T>(); }", ["at::zero", ".data_ptr<>"]),
        ("at::cat(x.data_ptr<std::pair<int, std::pair<int, int>>>());", ["at::cat", ".data_ptr<>"]),
        ("using Tensor = Other; void f(Tensor x) { x.sin(); }", [".sin"]),
        ("at::zero(); auto y = x.sin();", ["at::zero", ".sin"]),
        ('auto t = R"(a " b)"; at::zero(); auto u = R"x(at::one " )" )x";', ["at::zero"]),
        (
            "TORCH_INTERNAL_ASSERT(x); TORCH_CHECK_EQ(x, y); TORCH_WARN(z);",
            ["TORCH_INTERNAL_ASSERT", "TORCH_CHECK_EQ", "TORCH_WARN"],
        ),
    ],
)
def test_a_use_is_found_however_it_is_written(text: str, uses: list[str]) -> None:
    assert [use.name for use in stable_uses(text, "a.cpp")] == uses


@pytest.mark.parametrize(
    ("call", "stable"),
    [
        ("x.data_ptr()", ".data_ptr"),
        ("x.data_ptr<float>()", ".mutable_data_ptr<T>"),
        ("x.is_contiguous()", ".is_contiguous"),
        ("x.is_contiguous(at::MemoryFormat::ChannelsLast)", None),
        ("x.clone( )", "torch::stable::clone(tensor, ...)"),
        ("x.clone(format)", None),
        ("x.squeeze(0)", "torch::stable::squeeze(tensor, ...)"),
        ("x.squeeze()", None),
        ("at::Tensor::wrap_tensor_impl(p)", None),
        ("at::ScalarType::Half", "torch::headeronly::ScalarType"),
    ],
)
def test_an_equivalent_is_for_the_call_that_compiles(call: str, stable: str | None) -> None:
    """What torch 2.13 compiles and what not: tensor_struct.h and ops.h of torch/csrc/stable."""
    use = next(use for use in stable_uses(f"at::zero();\n{call};", "a.cpp") if use.span.line > 1)
    assert (use.equivalent.stable if use.equivalent else None) == stable


def test_every_row_names_a_release_with_a_stable_abi_or_none() -> None:
    rows = equivalents().values()
    assert {row.since for row in rows} <= {"", "2.10", "2.11", "2.12", "2.13", "2.14", "2.15"}
    assert equivalents()["at::Tensor"].since == "2.10"
    assert not equivalents()["at::cat"].since, "ops.h of torch 2.15 has no cat"


def test_the_project_has_a_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.cpp").write_text(SOURCE)
    assert __main__.main(["stable", str(tmp_path), "--annotations"]) == 0
    bare = capsys.readouterr().out
    assert __main__.main(["stable", str(tmp_path), "--annotations", "github"]) == 0
    printed = capsys.readouterr().out
    assert printed == bare
    assert "1 of 9 uses have no known equivalent in the stable ABI; the others have one from torch 2.10 on" in printed
    assert "::notice" in printed
    assert __main__.main(["stable", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["missing"] == 1


def test_a_source_of_the_stable_abi_has_nothing_to_port(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.cpp").write_text("auto y = torch::stable::empty_like(x); STD_TORCH_CHECK(true, x.numel());")
    assert __main__.main(["stable", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "no use of torch's C++ API outside of its stable ABI was found\n"


@pytest.mark.parametrize("name", ["none", "empty"])
def test_a_path_without_sources_is_one_error(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert __main__.main(["stable", str(tmp_path / name)]) == 2
    assert "E101" in capsys.readouterr().err
