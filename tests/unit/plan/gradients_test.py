"""Which ops `driver check` takes for ones that cut gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from relu import MANIFEST, write
from tree import write_files

from py_driver.matrix.releases import Releases
from py_driver.plan.gradients import gradient_notes
from py_driver.plan.project import load
from py_driver.plan.registered_gradients import ALL, registered

if TYPE_CHECKING:
    from pathlib import Path

END = "REGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n"
CPU = '[kernel.cpu]\nbackend = "cpu"\ndepends = []\nsrc = ["csrc/relu.h", "csrc/cpu.cpp"]\n'
OUT = 'ops.def("f(Tensor! out, Tensor x) -> ()");\n'
FUNCTION = 'ops.def("f(Tensor x) -> Tensor");\n'
KERNEL = 'ops.impl("f", c10::kCUDA, &f);\nops.impl("f", c10::kCPU, &f);\n'
AUTOGRAD = 'ops.impl("f", c10::DispatchKey::Autograd, &g);\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project for the CPU and CUDA."""
    write_files(write(tmp_path), {"csrc/cpu.cpp": ""})
    (tmp_path / "build.toml").write_text(MANIFEST.replace('["cuda"]', '["cpu", "cuda"]') + CPU, encoding="utf-8")
    return tmp_path


def binding(body: str, head: str = "", block: str = "") -> str:
    return f"{head}TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {{{block}\n{body}\n}}\n{END}"


def noted(project: Path, text: str, python: str = "") -> list[tuple[str, str]]:
    """The ops that the note names, as it does, and the place of the note."""
    write_files(project, {"torch-ext/binding.cpp": text, "torch-ext/relu/__init__.py": python})
    notes = gradient_notes(load(project, Releases()))
    assert all(note.code is None for note in notes)
    return [
        (
            note.message.partition(" for ")[2].partition(":")[0],
            note.span.text[note.span.column - 1 :][: note.span.length],
        )
        for note in notes
    ]


@pytest.mark.parametrize(
    "body",
    [
        OUT + KERNEL,
        FUNCTION + KERNEL,
        'ops.def("f(Tensor(a!)[] parts) -> ()");\n' + KERNEL,
        'ops.def("f(Tensor? x) -> (Tensor, int)");\n' + KERNEL,
        OUT + KERNEL + "// autograd: none\n",
        "// autograd: none\n\n" + OUT + KERNEL,
        'ops.def("g(Tensor x) -> int");  // autograd: none\n' + OUT + KERNEL,
        OUT + KERNEL + 'const char* text = "// autograd: none";',
        'auto text = "autograd: none"; ' + OUT + KERNEL,
        OUT + KERNEL + 'ops.def("g(Tensor x) -> Tensor");\nops.impl("g", c10::DispatchKey::Autograd, &g);',
    ],
)
def test_an_op_that_cuts_gradients_is_noted(project: Path, body: str) -> None:
    assert noted(project, binding(body)) == [("`f`", "f")]


@pytest.mark.parametrize(
    "body",
    [
        OUT + KERNEL + AUTOGRAD,
        FUNCTION + KERNEL + 'ops.impl("f", torch::dispatch(c10::DispatchKey::AutogradCUDA, &g));\n',
        OUT + KERNEL + "}\nTORCH_LIBRARY_IMPL(TORCH_EXTENSION_NAME, Autograd, m) {\n" + 'm.impl("f", &g);',
        'ops.def("f(Tensor x) -> Tensor", &f);',  # made of other ops
        'ops.def("f(Tensor x) -> int");\n' + KERNEL,
        'ops.def("f(int x) -> Tensor");\n' + KERNEL,
        'ops.def("f(Tensor x) -> ()");\n' + KERNEL,
        OUT,  # Python may implement it
        'ops.def("f(Tensor! x) -> ()");  // autograd: none\n' + KERNEL,
        "// autograd: none (an optimizer)\n" + OUT + KERNEL,
        "/* An optimizer.\n   autograd: none */\n" + OUT + KERNEL,
        "// autograd: none\n// Two lines.\n" + OUT + KERNEL,
        'ops.def(\n"f(Tensor! x)"\n" -> ()");  // autograd: none\n' + KERNEL,
        OUT + KERNEL + "for (auto name : names) ops.impl(name, c10::DispatchKey::Autograd, &g);",
    ],
)
def test_an_op_with_a_backward_a_refusal_or_a_statement_is_not_noted(project: Path, body: str) -> None:
    assert noted(project, binding(body)) == []


def test_a_block_has_a_statement(project: Path) -> None:
    assert noted(project, binding(OUT + KERNEL, head="// autograd: none\n")) == []
    assert noted(project, binding(OUT + KERNEL, block="  // autograd: none")) == []
    ops = 'm.def("g(Tensor x) -> Tensor");\nm.impl("g", c10::kCPU, &g);'
    other = f"TORCH_LIBRARY_FRAGMENT(TORCH_EXTENSION_NAME, m) {{\n{ops}\n}}\n"
    assert noted(project, binding(OUT + KERNEL, head="// autograd: none\n") + other) == [("`g`", "g")]


def test_a_class_that_computes_gradients_may_be_for_any_op(project: Path) -> None:
    head = "struct F : public torch::autograd::Function<F> {};\n"
    assert noted(project, binding(OUT + KERNEL, head=head)) == []
    assert noted(project, binding(OUT + KERNEL, head="std::function<int()> f; // Function<F>\n")) == [("`f`", "f")]


def test_many_ops_are_one_note(project: Path) -> None:
    body = [f'ops.def("{name}(Tensor x) -> Tensor");\nops.impl("{name}", c10::kCPU, &f);\n' for name in "abcde"]
    assert noted(project, binding("".join(body))) == [("`a`, `b`, `c` and 2 more", "a")]


def test_a_package_registers_gradients(project: Path) -> None:
    text = binding(FUNCTION + KERNEL)
    assert noted(project, text, 'register_autograd(add_op_namespace_prefix("f"), g)') == []
    assert noted(project, text, 'register_autograd(add_op_namespace_prefix("g"), g)') == [("`f`", "f")]
    assert noted(project, text, "def (") == [("`f`", "f")]
    assert noted(project, text, "import torch\nclass F(torch.autograd.Function):\n    pass") == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('torch.library.register_autograd("ns::f", backward)', {"f"}),
        ('torch.library.register_autograd(f"{ns}::f.out", backward)', {"f.out"}),
        ("torch.library.register_autograd(ops.f.default, backward)", {"f"}),
        ("library.register_autograd(name, backward)", {ALL}),
        ('library.register_autograd(f"{ns}::{name}", backward)', {ALL}),
        ('for name in ("f", "g"): register_autograd(prefix(name), backward)', {ALL}),
        ('register_autograd(prefix("f" + suffix), backward)', {ALL}),
        ("register_autograd(self.op, backward)", {ALL}),
        ("f.register_autograd(backward)", set()),
        ('library.impl("f", backward, "Autograd")', {"f"}),
        ('library.impl("f", backward, dispatch_key="AutogradCUDA")', {"f"}),
        ('library.impl("f", forward, "CUDA"); Autograd = 1', set()),
        ("class F(Function): pass", {ALL}),
        ("class F(nn.Module): pass  # Function", set()),
        ("register_autograd(", {ALL}),
        ("def g(ctx, x):\n    return ops.f(x)  # register_autograd", {"f"}),
        ("g = lambda ctx, x: (ops.f(x), register_autograd)", {"f"}),
    ],
)
def test_which_gradients_a_text_registers(text: str, names: set[str]) -> None:
    assert registered([text]) - {"save_for_backward"} == names
