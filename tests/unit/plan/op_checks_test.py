"""What a project registers with torch: read from its sources, and compared with what it declares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from relu import MANIFEST, write
from tree import write_files

from py_driver.errors import Code, DriverError
from py_driver.matrix.releases import Releases
from py_driver.plan.op_registrations import registrations
from py_driver.plan.plan import plan_directory

if TYPE_CHECKING:
    from pathlib import Path

END = "REGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n"
CPU = '[kernel.cpu]\nbackend = "cpu"\ndepends = []\nsrc = ["csrc/relu.h", "csrc/cpu.cpp"]\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project for the CPU and CUDA."""
    write_files(write(tmp_path), {"csrc/cpu.cpp": ""})
    (tmp_path / "build.toml").write_text(MANIFEST.replace('["cuda"]', '["cpu", "cuda"]') + CPU, encoding="utf-8")
    return tmp_path


def binding(body: str, head: str = "") -> str:
    return f"{head}TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {{\n{body}\n}}\n{END}"


def said(project: Path, text: str) -> list[tuple[str, str]]:
    """What is collected of a binding: errors, else notes; each with the part that it is about."""
    (project / "torch-ext/binding.cpp").write_text(text, encoding="utf-8")
    try:
        found = [(note.message, note.span, note.code) for note in plan_directory(project, Releases()).notes]
    except DriverError as failure:
        found = [
            (f"error: {diagnostic.message}", diagnostic.span, diagnostic.code)
            for diagnostic in failure.diagnostics
            if diagnostic.span
        ]
    assert all(code is Code.OP_REGISTRATION or " only, in the variants " in text for text, _, code in found)
    return [(message, span.text[span.column - 1 :][: span.length]) for message, span, _ in found if span]


@pytest.mark.parametrize(
    ("body", "message", "part"),
    [
        ('ops.def("f(double x) -> ()");', "error: torch rejects the schema of `f`: there", "double"),
        ('ops . def ( "f(" /* , */ "double x) -> ()" , &f);', "error: torch rejects the schema of `f`", "double"),
        ('ops.def(R"x(f(double x) -> ())x");', "error: torch rejects the schema of `f`", "double"),
        ('ops.def("g() -> int", &g).def("f(double x) -> ()", &f);', "error: torch rejects", "double"),
        ('ops.def("f(str s=\\"a\\", double x) -> ()", &f);', "error: torch rejects", "double"),
        ('#if CUDA_VERSION > 1\nops.def("f(double x) -> ()", &f);\n#endif', "torch rejects the schema", "double"),
        ('#ifdef CUDA_KERNEL\nops.def("f(double x) -> ()", &f);\n#endif', "error: torch rejects", "double"),
        (
            'ops.def("f() -> ()", &f);\n}\nTORCH_LIBRARY_FRAGMENT(TORCH_EXTENSION_NAME, m) {\nm.def("f() -> ()", &f);',
            "error: the op `f` is defined twice for",
            "f",
        ),
        ('ops.def("mine::f(Tensor x) -> Tensor", &f);', "error: torch rejects the schema of `f`: its n", "mine"),
        ('ops.def("f() -> ()", &f);\nops.impl("mine::f", &f);', "error: torch rejects the name of `f`", "mine"),
        ("}\nTORCH_LIBRARY(a, m) {\n}\nTORCH_LIBRARY(a, m) {\n", "error: cuda has TORCH_LIBRARY for `a` twice", "a"),
        (
            '}\nTORCH_LIBRARY_IMPL(a, CPU, m) {\nm.def("f() -> ()", &f);',
            "error: torch rejects the schema of `f`: `def` is allowed only in a block",
            "f() -> ()",
        ),
        ('ops.def("f.default() -> ()", &f);', "error: torch rejects the schema of `f.default`", "default"),
        ('ops.def("g(int x) -> int", [] { return (1); });\nops.def("f(double x) -> ()");', "error: torch", "double"),
        ('if (c) ops.def("f(double x) -> ()");', "torch rejects the schema of `f`", "double"),
        ('if (c) return;\nops.def("f(double x) -> ()");', "torch rejects the schema of `f`", "double"),
        ('}\nvoid f(torch::Library& m) {\nm.def("f(double x) -> ()");', "torch rejects the schema", "double"),
        ('}\n#define F TORCH_LIBRARY(a, m) { m.def("f(double)"); }\nint f() {', "torch rejects", "double"),
        ('ops.def("f() -> ()", &f);\nops.def("f(int x) -> ()", &f);', "error: the op `f` is defined twice for", "f"),
        ('ops.impl("f(int x) -> ()", &f);', "error: torch rejects the name of `f`: the end is expected", "("),
        ('ops.def("f() -> ()");', "no `impl` implements `f` for cuda and cpu; a call with", "f"),
        ('ops.def("f() -> ()");\nops.impl("f", torch::kCUDA, &f);', "`f` is implemented for CUDA only, in the", "f"),
        ('ops.def("f() -> ()", &f);\nops.impl("fg", &f);', "no `def` declares `fg`, which this implements; did", "fg"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_where_it_stands(project: Path, body: str, message: str, part: str) -> None:
    [(found, where)] = said(project, binding(body))
    assert found.startswith(message)
    assert where == part


@pytest.mark.parametrize(
    "body",
    [
        'ops.def("f(float x) -> ()", &f);',
        'ops.def("f", &f);',
        'ops.def("f.out(Tensor! x) -> ()");\nops.impl("f.out", &f);',
        'ops.def("f() -> ()");\nops.impl("f", c10::DispatchKey::CompositeExplicitAutograd, &f);',
        'ops.def("f() -> ()");\nops.impl("f", c10::kCPU, &f);\nops.impl("f", at::kCUDA, &f);',
        '#ifdef CPU_KERNEL\nops.def("f() -> ()", &f);\n#else\nops.def("f() -> ()", &g);\n#endif',
        'ops.def("f() -> ()");\n#if defined(CPU_KERNEL)\nops.impl("f", torch::kCPU, &f);\n'
        '#elif defined(CUDA_KERNEL) || defined(ROCM_KERNEL)\nops.impl("f", torch::kCUDA, &f);\n#endif',
        'ops.def("f() -> ()");\nops.impl("f", torch::dispatch(KEY, &f));',
        'ops.def("f() -> ()");\nops.impl("f", KEY, &f);',
        'ops.def(SCHEMA);\nops.def(MAKE(f) "(double x) -> ()");',
        'ops.def("f(double x) -> ()" MORE, &f);',
        '// ops.def("f(double x) -> ()");\nauto s = "ops.def(\\"f(double x)\\")";',
        'other.def("f(double x) -> ()");',
        '#ifdef ROCM_KERNEL\nops.def("f(double x) -> ()");\n#endif',
        'ops.class_<Foo>("Foo").def(torch::init<>()).def("f(double x)", &f);',
        'ops.def("f() -> ()", &f);\n}\nTORCH_LIBRARY_FRAGMENT(shared, m) {\nm.def("shared::f() -> ()", &f);',
        'if (c) ops.def("f() -> ()", &f); else ops.def("f() -> ()", &g);',
        'if constexpr (c) {\nops.def("f() -> ()", &f);\n} else {\nops.def("f() -> ()", &g);\n}',
        'ops.def("f() -> ()", &f);\n[](torch::Library& ops) { ops.def("f() -> ()", &f); };',
        '}\nvoid a(torch::Library& m) { m.def("f() -> ()", &f); }\n'
        'void b(torch::Library& m) { m.def("f() -> ()", &f); }\nTORCH_LIBRARY_FRAGMENT(x, m) {\nc ? a(m) : b(m);',
        '}\nvoid a(my::Library& m) { m.def("f(double x) -> ()", &f); }\nvoid b(Library& m) { m.def("f(double)");',
        'ops.def("f\\x28Tensor x\\51 -> ()", &f);',
        "}\nTORCH_LIBRARY_FRAGMENT(a, m) {\n}\nTORCH_LIBRARY_FRAGMENT(a, m) {\n}\nTORCH_LIBRARY(a, m) {",
        "}\n#ifdef CPU_KERNEL\nTORCH_LIBRARY(a, m) {\n}\n#else\nTORCH_LIBRARY(a, m) {\n}\n#endif\nvoid f() {",
        '}\nTORCH_LIBRARY_EXPAND(NAME, m) {\nm.def("mine::f() -> ()", &f);',
        '// f\nops.def("f(Tensor x) -> (Tensor)", {at::Tag::pt2_compliant_tag}, &f);',
    ],
)
def test_of_what_is_right_or_cannot_be_told_nothing_is_said(project: Path, body: str) -> None:
    assert said(project, binding(body)) == []


def test_blocks_of_impl_and_functions_for_a_library(project: Path) -> None:
    head = 'void more(torch::Library& m) { m.def("g(double x) -> ()", &g); }\n'
    tail = 'TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) { ops.impl("f", &f); }\n'
    other = 'TORCH_LIBRARY_IMPL(aten, CPU, m) { m.impl("add.Tensor", &f); }\n'
    [(message, part)] = said(project, binding('ops.def("f() -> ()");\nmore(ops);', head))
    assert (message.startswith("error"), part) == (True, "double")
    [(message, _)] = said(project, binding('ops.def("f() -> ()");') + tail + other)
    assert message == "`f` is implemented for CUDA only, in the variants for cpu"
    tail += 'STABLE_TORCH_LIBRARY_IMPL(TORCH_EXTENSION_NAME, CPU, m) { m.impl("f", TORCH_BOX(&f)); }\n'
    assert said(project, binding('ops.def("f() -> ()");') + tail) == []


def test_two_heads_of_one_block(project: Path) -> None:
    tail = (
        "#ifdef CUDA_KERNEL\nTORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {\n#else\n"
        'TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {\n#endif\n  ops.impl("f", &f);\n}\n'
    )
    assert said(project, binding('ops.def("f() -> ()");') + tail) == []


def test_nothing_is_said_of_what_is_not_there(project: Path) -> None:
    (project / "torch-ext/binding.cpp").unlink()
    with pytest.raises(DriverError) as caught:
        plan_directory(project, Releases())
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == [Code.FILE_MISSING]


def test_what_python_may_register_is_not_missed(project: Path) -> None:
    text = binding('ops.def("f() -> ()");')
    (project / "torch-ext/relu/__init__.py").write_text('torch.library.impl(add("f"), "CPU", f)\n', encoding="utf-8")
    assert said(project, text) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "error"),
        (f"// {END}", "error"),
        ("PyMODINIT_FUNC PyInit_x() { return nullptr; }\n", None),
        (f"#if 0\n{END}#endif\n", "error"),
        (f"#define BIND {END}", "error"),
        (f"#define C {END}int Cat;\n", "error"),
        (f"#define A {END}#define B A\nB\n", None),
        ("REGISTER_EXTENSION(relu)\n", "error"),
        ("#define relu TORCH_EXTENSION_NAME\nREGISTER_EXTENSION(relu)\n", None),
        (f"REGISTER_EXTENSION(relu)\n{END}", None),
        ("#define BIND REGISTER_EXTENSION(TORCH_EXTENSION_NAME)\nBIND\n", None),
        ('#include "csrc/relu.h"\n', "note"),
        ("#include MORE\n", "note"),
    ],
)
def test_a_library_that_python_cannot_import(project: Path, text: str, found: str | None) -> None:
    (project / "csrc/relu.h").write_text(f"#pragma once\n#define BIND {END}", encoding="utf-8")
    (project / "csrc/relu.cu").write_text("" if found == "error" else '#include "relu.h"\n', encoding="utf-8")
    messages = [message for message, _ in said(project, text)]
    assert [message.startswith("error") for message in messages] == ([] if found is None else [found == "error"])


def test_places_of_escapes_and_raw_strings() -> None:
    text = 'TORCH_LIBRARY(a, m) { m.def("a\\"b\\\n" R"(c"d)"  "e"); }'
    _, one = registrations(text).found
    assert one.text == 'a"bc"de'
    assert [text[start] for start in one.places[:-1]] == ["a", "\\", "b", "c", '"', "d", "e"]


@pytest.mark.parametrize(
    "text", ["TORCH_LIBRARY(", "TORCH_LIBRARY(a, m) {", 'TORCH_LIBRARY(a, m) { m.def("', "Library& m) {"]
)
def test_texts_that_do_not_end(text: str) -> None:
    assert all(
        registration.text is None for registration in registrations(text).found if registration.what != "library"
    )
