"""Calls of torch.utils.cpp_extension, as its documentation has them, and what comes of each, as JSON.

Run as `python jit_cases.py MODULE DIRECTORY [NAME...]`; MODULE is torch's or the one that takes its place.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import torch

EXTENSION: Any = importlib.import_module(sys.argv[1])
PLACE = Path(sys.argv[2])
ADD = "torch::Tensor add(torch::Tensor x, torch::Tensor y) { return x + y; }"
TWICE = "torch::Tensor twice(torch::Tensor x) { return 2 * x; }"
MODULE = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("value", &value); }'
ONE = torch.ones(2)


def inline(name: str, *sources: str, **options: Any) -> Any:  # noqa: ANN401  (torch's)
    """The module of some texts."""
    return EXTENSION.load_inline(name, list(sources), **options)


def one_function() -> object:
    return inline("one_function", ADD, functions="add").add(ONE, ONE).tolist()


def functions_with_docs() -> object:
    module = inline("with_docs", ADD, TWICE, functions={"add": "Adds tensors.", "twice": "Doubles one."})
    docs = ["Adds tensors." in module.add.__doc__, "Doubles one." in module.twice.__doc__]
    return [module.add(ONE, ONE).tolist(), module.twice(ONE).tolist(), *docs]


def own_binding() -> object:
    text = """
        #include <torch/extension.h>
        int64_t value(int64_t x, double scale) { return x * scale; }
        PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
          m.def("value", &value, py::arg("x"), py::arg("scale") = 2.5);
        }
    """
    module = EXTENSION.load_inline("own_binding", text, no_implicit_headers=True)
    return [module.value(2), module.value(x=4, scale=1), module.__name__]


def operators() -> object:
    text = f'{TWICE}\nTORCH_LIBRARY(jit_operators, m) {{ m.def("twice", &twice); }}'
    answer = inline("operators", text, is_python_module=False)
    return [type(answer).__name__, torch.ops.jit_operators.twice(ONE).tolist()]


def macros() -> object:
    text = f"int64_t value() {{ return VALUE; }}\n{MODULE}"
    return inline("macros", text, extra_cflags=["-DVALUE=42 -Wall"]).value()


def files() -> object:
    source = PLACE / "files" / "source.cpp"
    source.parent.mkdir(parents=True)
    (source.parent / "beside.h").write_text('#include "further/header.h"\n')
    (PLACE / "files" / "include" / "further").mkdir(parents=True)
    header = PLACE / "files" / "include" / "further" / "header.h"
    header.write_text("constexpr int64_t VALUE = 7;\n")
    text = f"int64_t value() {{ return VALUE; }}\n{MODULE}"
    source.write_text(f'#include <torch/extension.h>\n#include "beside.h"\n{text}')
    options = {"extra_include_paths": [str(PLACE / "files" / "include")]}
    first = EXTENSION.load("files", [str(source)], **options).value()
    header.write_text("constexpr int64_t VALUE = 8;\n")
    return [first, EXTENSION.load("files", str(source), **options).value()]


def an_edit() -> object:
    first = inline("an_edit", TWICE, functions=["twice"])
    second = inline("an_edit", TWICE.replace("2 *", "3 *"), functions=["twice"])
    return [module.twice(ONE).tolist() for module in (first, second)]


def a_mistake() -> object:
    try:
        return inline("a_mistake", TWICE.replace("2 * x", "unheard"), functions=["twice"])
    except RuntimeError:
        return inline("a_mistake", TWICE, functions=["twice"]).twice(ONE).tolist()


def wrong_arguments() -> object:
    found = []
    module = inline("wrong_arguments", ADD, functions=["add"])
    for arguments in ((1, 2), (ONE,), (ONE, torch.ones(3))):
        try:
            module.add(*arguments)
        except (TypeError, RuntimeError) as problem:
            found.append(type(problem).__name__)
    return found


def python_objects() -> object:
    text = f'py::dict value(py::object x) {{ py::dict d; d["x"] = x; return d; }}\n{MODULE}'
    return inline("python_objects", text).value([1, 2])


def types() -> object:
    text = f"""
        std::vector<torch::Tensor> value(std::optional<torch::Tensor> x, std::vector<int64_t> sizes, bool flag) {{
          return {{x.has_value() ? *x : torch::zeros(sizes), torch::full({{1}}, flag)}};
        }}
        {MODULE}
    """
    module = inline("types", text)
    answers = [module.value(None, [2], True), module.value(ONE, [2], False)]
    return [[tensor.tolist() for tensor in answer] for answer in answers]


def a_directory() -> object:
    (PLACE / "workspace").mkdir()
    module = inline("a_directory", TWICE, functions=["twice"], build_directory=str(PLACE / "workspace"))
    return [module.twice(ONE).tolist(), any(PLACE.joinpath("workspace").rglob("*.so"))]


def gradients() -> object:
    module = inline("gradients", TWICE, functions=["twice"])
    x = torch.ones(2, requires_grad=True)
    module.twice(x).sum().backward()
    return x.grad.tolist()


CASES = [
    one_function,
    functions_with_docs,
    own_binding,
    operators,
    macros,
    files,
    an_edit,
    a_mistake,
    wrong_arguments,
    python_objects,
    types,
    a_directory,
    gradients,
]

if __name__ == "__main__":
    chosen = [case for case in CASES if case.__name__ in sys.argv[3:] or not sys.argv[3:]]
    print(json.dumps({case.__name__: case() for case in chosen}))  # noqa: T201
