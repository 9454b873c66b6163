"""What in the sources of a module needs one Python, and how the module is planned then."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from py_driver.extensions.binding import find_reason

ROOT = Path(__file__).parents[3]
HEAD = "#include <torch/extension.h>\n"


def word(code: str, *, binds: bool = True) -> str:
    reason = find_reason({"a.cpp": HEAD + code}, binds=binds)
    return reason.word if reason else ""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("py::dict f();", "py::dict"),
        ("pybind11::object f();", "pybind11::object"),
        ('m.def("f", [](py::object o) { return 1; });', "py::object"),
        ("::pybind11::list f();", "pybind11::list"),
        ("namespace pyb = pybind11;\npyb::array_t<float> f();", "pyb::array_t"),
        ("THPVariable_Wrap(x);", "THPVariable_Wrap"),
        ('auto torch = py::module_::import("torch");', "py::module_::import"),
        ("PyObject* f();", "PyObject"),
        ("PyGILState_Ensure();", "PyGILState_Ensure"),
        ("struct pybind11::detail::type_caster<X> {};", "pybind11::detail::type_caster"),
        ("#include <pybind11/functional.h>\nvoid f(std::function<int(int)> g);", "std::function"),
    ],
)
def test_python_objects_need_one_python(code: str, expected: str) -> None:
    assert word(code) == expected


@pytest.mark.parametrize(
    "code",
    [
        '// py::dict\n/* py::object */ const char* text = "py::list";',
        'm.attr("x") = py::int_(3); py::none(); py::gil_scoped_release release;',
        'py::enum_<Kind>(m, "Kind").value("A", Kind::A);',
        'py::class_<Counter>(m, "Counter").def(py::init<int>());',
        "void f(std::function<int(int)> g);",
        "happy::dict x; py::dictionary y;",
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("f", &f, py::arg("x")); }',
    ],
)
def test_what_needs_no_python(code: str) -> None:
    assert word(code) == ""


@pytest.mark.parametrize("name", ["wide.cpp", "classes.cpp"])
def test_all_that_the_place_holder_of_pybind_supports_needs_none(name: str) -> None:
    text = (ROOT / "tests" / "e2e" / "projects" / "binding" / name).read_text(encoding="utf-8")
    assert find_reason({name: text}, binds=True) is None


def test_a_module_without_a_binding_may_use_the_limited_api() -> None:
    assert word("PyObject* f() { return PyLong_FromLong(1); }", binds=False) == ""
    assert word("PyTuple_GET_ITEM(x, 0);", binds=False) == "PyTuple_GET_ITEM"
    assert word("PyTypeObject type = {};", binds=False) == "PyTypeObject type ="


def test_the_place_is_that_of_the_first_use() -> None:
    reason = find_reason({"a.cpp": HEAD, "b.h": "// py::list\n  py::dict f();\n"}, binds=True)
    assert reason is not None
    assert (reason.span.file, reason.span.line, reason.span.column) == ("b.h", 2, 3)
    assert reason.span.text == "  py::dict f();"


def test_a_copy_of_pybind11_is_not_looked_at() -> None:
    assert find_reason({"a.cpp": HEAD, "third/pybind11/cast.h": "pybind11::object x;"}, binds=True) is None


def test_every_name_that_the_place_holder_of_pybind_refuses_needs_one_python() -> None:
    header = ROOT / "rules" / "private" / "include" / "pybind" / "rules_torch_kernels" / "names.h"
    refused = re.findall(r"^RULES_TORCH_KERNELS_NAME\((\w+)\)", header.read_text(encoding="utf-8"), re.MULTILINE)
    assert refused
    assert [name for name in refused if word(f"py::{name}(x);") != f"py::{name}"] == []


@pytest.mark.parametrize("name", ["attribute_error", "buffer_error", "cast_error", "import_error"])
def test_an_exception_of_pybind_that_its_place_holder_lacks_needs_one_python(name: str) -> None:
    assert word(f'throw py::{name}("no");') == f"py::{name}"
