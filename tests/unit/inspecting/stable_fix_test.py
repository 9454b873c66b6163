"""Sources rewritten for torch's stable ABI: what is mechanical is, and all else stays and is listed."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from py_driver import __main__
from py_driver.inspecting.stable_fix import fix_source
from py_driver.inspecting.stable_project import with_release

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "#include <ATen/core/Tensor.h>\n#include <torch/library.h>\n\nusing at::Tensor;\n"


def _fixed(line: str) -> str:
    """A line of a function, rewritten."""
    text = fix_source(f"{HEAD}void f(Tensor x, Tensor y, Tensor* p, int n) {{\n  {line}\n}}\n", "a.cpp").text
    return text.split("int n) {\n  ")[1].rsplit("\n}\n", 1)[0]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("auto a = x.contiguous();", "auto a = torch::stable::contiguous(x);"),
        ("auto a = -g(x)[0].clone() + 1;", "auto a = -torch::stable::clone(g(x)[0]) + 1;"),
        ("auto a = p->clone();", "auto a = torch::stable::clone(*p);"),
        (
            "auto a = s.x.view({2}).reshape({n});",
            "auto a = torch::stable::reshape(torch::stable::view(s.x, {2}), {n});",
        ),
        ("return x.flatten();", "return torch::stable::flatten(x);"),
        ("auto a = x.data_ptr<float>();", "auto a = x.mutable_data_ptr<float>();"),
        ("auto a = p->data_ptr<float>();", "auto a = p->mutable_data_ptr<float>();"),
        ("auto a = x.data_ptr();", "auto a = x.data_ptr();"),
        ("auto a = x.template data_ptr<float>();", "auto a = x.template mutable_data_ptr<float>();"),
        ("if (x.dtype() == at::kHalf) {}", "if (x.scalar_type() == torch::headeronly::ScalarType::Half) {}"),
        ("x.fill_(2);", "torch::stable::fill_(x, 2);"),
        ("x.zero_();", "torch::stable::fill_(x, 0.0);"),
        ("if (x.sizes() != y.sizes()) {}", "if (!x.sizes().equals(y.sizes())) {}"),
        (
            "auto a = at::empty_like(x, {}, at::MemoryFormat::Contiguous);",
            "auto a = torch::stable::new_empty(x, x.sizes());",
        ),
        (
            "auto a = torch::zeros({n, 2}, x.options().dtype(torch::kFloat32));",
            "auto a = torch::stable::new_zeros(x, {n, 2}, torch::headeronly::ScalarType::Float);",
        ),
        (
            'AT_DISPATCH_FLOATING_TYPES_AND(at::kHalf, x.scalar_type(), "f", [&] { g<scalar_t, 2>(x, y); });',
            'THO_DISPATCH_V2(x.scalar_type(), "f", AT_WRAP(([&] { g<scalar_t, 2>(x, y); })), '
            "AT_EXPAND(AT_FLOATING_TYPES), torch::headeronly::ScalarType::Half);",
        ),
        (
            "const c10::cuda::CUDAGuard guard(x.device());",
            "const torch::stable::accelerator::DeviceGuard guard(x.get_device_index());",
        ),
        ("C10_CUDA_CHECK(g(x)); // at::Tensor", "STD_CUDA_CHECK(g(x)); // at::Tensor"),
        (
            'TORCH_CHECK(n, "at::Half", x.sizes(), n);',
            'STD_TORCH_CHECK(n, "at::Half", stable_text(x.sizes()), n);',
        ),
        ('AT_ASSERTM(n, "on ", x.device());', 'STD_TORCH_CHECK(n, "on ", stable_text(x.device()));'),
    ],
)
def test_what_is_mechanical_is_rewritten(line: str, wanted: str) -> None:
    assert _fixed(line) == wanted
    fixed = fix_source(f"{HEAD}void f(Tensor x, Tensor y, Tensor* p, int n) {{\n  {line}\n}}\n", "a.cpp")
    assert fixed.left == []
    assert fix_source(fixed.text, "a.cpp").text == fixed.text, "a second time changes nothing"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("auto a = g<float>(x).clone();", ".clone"),
        ("x.fill_(y.numel());", ".fill_"),
        ("auto a = x.clone(at::MemoryFormat::Preserve);", ".clone"),
        ("auto a = at::empty_like(x, options);", "at::empty_like"),
        ("auto a = at::cat({x, y});", "at::cat"),
        ("auto a = x.to(at::kHalf, true);", ".to"),
        ("const c10::cuda::CUDAGuard guard(g(x));", "c10::cuda::CUDAGuard"),
        ("AT_DISPATCH_V2(x);", "AT_DISPATCH_V2"),
        ("if (x.is_contiguous(at::MemoryFormat::ChannelsLast)) {}", ".is_contiguous"),
        ("auto a = x.squeeze();", ".squeeze"),
        ("auto a = at::Tensor::wrap_tensor_impl(n);", "at::Tensor::wrap_tensor_impl"),
        ("using at::kHalf;", "at::kHalf"),
        ("at :: ScalarType a;", "at::ScalarType"),
    ],
)
def test_all_else_stays_and_is_listed(line: str, name: str) -> None:
    fixed = fix_source(f"{HEAD}void f(Tensor x, Tensor y) {{\n  {line}\n}}\n", "a.cpp")
    [left] = [use for use in fixed.left if use.name == name]
    assert left.reason
    assert name.lstrip(".").split("::")[-1] in left.span.text


@pytest.mark.parametrize(
    "line",
    [
        "using namespace at;",
        "namespace at { int own; }",
        "#define KERNEL(x) at::k##x",
        "int a; // goes on \\\nat::Tensor y;",
        "void g() { f(); ",
    ],
)
def test_a_text_that_hides_its_meaning_is_refused(line: str) -> None:
    text = f"{HEAD}{line}\nint f(Tensor x" + (");\n" if "g()" not in line else ";\n")
    fixed = fix_source(text, "a.cpp")
    assert fixed.refused
    assert fixed.text == text


def test_a_method_that_stays_counts_for_the_release() -> None:
    fixed = fix_source(f"{HEAD}auto f(Tensor x) {{ return x.layout(); }}\n", "a.cpp")
    assert (fixed.left, max(fixed.since)) == ([], "2.11")


REGISTRATION = """\
#include <torch/library.h>
at::Tensor f(at::Tensor x);
TORCH_LIBRARY(own, m) {
  // The schema.
  m.def("f(Tensor x) -> Tensor");
  m.def("g(Tensor x) -> Tensor", &g);
#ifdef GPU
  m.impl("f", torch::kCUDA, &f);
#else
  m.impl("f", c10::DispatchKey::CPU, TORCH_FN(f));
#endif
  m.impl("f", torch::dispatch(key), [](at::Tensor x) { return x; });
}
TORCH_LIBRARY_IMPL(own, Meta, m) { m.impl("f", &ns::f); }
"""

REGISTERED = """\
STABLE_TORCH_LIBRARY(own, m) {
  // The schema.
  m.def("f(Tensor x) -> Tensor");
  m.def("g(Tensor x) -> Tensor");
  m.impl("f", torch::dispatch(key), [](torch::stable::Tensor x) { return x; });
}

STABLE_TORCH_LIBRARY_IMPL(own, CompositeImplicitAutograd, m) {
  m.impl("g", TORCH_BOX(&g));
}
#ifdef GPU
STABLE_TORCH_LIBRARY_IMPL(own, CUDA, m) {
  m.impl("f", TORCH_BOX(&f));
}
#else
STABLE_TORCH_LIBRARY_IMPL(own, CPU, m) {
  m.impl("f", TORCH_BOX(&f));
}
#endif
STABLE_TORCH_LIBRARY_IMPL(own, Meta, m) { m.impl("f", TORCH_BOX(&ns::f)); }
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["unix", "dos"])
def test_implementations_get_blocks_of_their_own(newline: str) -> None:
    fixed = fix_source(REGISTRATION.replace("\n", newline), "a.cpp")
    assert fixed.text.endswith(REGISTERED.replace("\n", newline))
    assert "\n" not in fixed.text.replace(newline, "")
    assert [use.name for use in fixed.left] == ["m.impl", "torch::dispatch"]


def test_headers_of_torch_go_and_others_stay() -> None:
    text = """\
#pragma once
#include <vector>
#ifdef GPU
#include <c10/cuda/CUDAGuard.h>
#include "own.h"
#endif
#include <torch/all.h>  // torch
#include <torch/csrc/stable/tensor.h>
std::tuple<at::Tensor, std::vector<int>> f();
"""
    assert (
        fix_source(text, "a.h").text
        == """\
#pragma once
#include <vector>

#include <tuple>
#ifdef GPU
#include <cuda_runtime_api.h>
#include "own.h"
#endif
#include <torch/csrc/stable/tensor.h>
std::tuple<torch::stable::Tensor, std::vector<int>> f();
"""
    )


BUILD = '[general]\nname = "a"\nedition = 5\n\n[torch]\nsrc = ["a.cpp"]  # a\n\n# b\n[kernel.a]\nbackend = "cpu"\n'


def test_the_release_goes_into_build_toml() -> None:
    text, note = with_release(BUILD, "2.10")
    assert (text, note) == (BUILD.replace("# a\n", '# a\nstable-abi = "2.10"\n'), "")
    assert with_release(text, "2.10") == (text, "")
    assert with_release(text, "2.14") == (text.replace("2.10", "2.14"), "")
    assert "driver upgrade" in with_release(BUILD.replace("= 5", "= 3"), "2.10")[1]


def _git(directory: Path, *arguments: str) -> None:
    command = ["git", "-C", str(directory), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    subprocess.run(command, check=True, capture_output=True)


def test_uncommitted_changes_are_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "a.cpp"
    source.write_text(
        REGISTRATION.replace('  m.impl("f", torch::dispatch(key), [](at::Tensor x) { return x; });\n', "")
    )
    (tmp_path / "build.toml").write_text(BUILD)
    _git(tmp_path, "init")
    old = source.read_text()
    assert __main__.main(["stable", str(tmp_path), "--fix"]) == 2
    assert "E405" in capsys.readouterr().err
    assert source.read_text() == old
    _git(tmp_path, "add", "-A")
    _git(tmp_path, "commit", "-m", "a")
    assert __main__.main(["stable", str(tmp_path), "--fix"]) == 0
    assert "0 of 6 uses are left" in capsys.readouterr().out
    assert 'stable-abi = "2.10"' in (tmp_path / "build.toml").read_text()
    assert __main__.main(["stable", str(tmp_path), "--fix"]) == 0, "nothing is written, so nothing is in the way"


def test_what_is_left_keeps_the_release_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.cpp").write_text("#include <ATen/ATen.h>\nat::Tensor f(at::Tensor x) { return at::relu(x); }\n")
    (tmp_path / "build.toml").write_text(BUILD)
    assert __main__.main(["stable", str(tmp_path), "--fix"]) == 1
    printed = capsys.readouterr().out
    assert "1 of 3 uses are left" in printed
    assert "torch_call_dispatcher" in printed
    assert (tmp_path / "build.toml").read_text() == BUILD


@pytest.mark.parametrize(
    ("words", "message"), [(["--build"], "--build is for --fix"), (["--torch=2.13"], "--torch is")]
)
def test_options_that_need_others(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert __main__.main(["stable", str(tmp_path), *words]) == 2
    assert message in capsys.readouterr().err
