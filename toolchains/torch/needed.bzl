"""Headers that are searched before torch's own: torch's umbrella headers without the parts that a source does not name.

`torch/all.h` and `ATen/ATen.h` bring in the C++ front end, the autograd engine and every operator, which compilers read
for ten seconds and more. The headers here are copies of the release's headers with some `#include` lines removed or guarded by
a macro. `words.txt` beside them maps words of a project's files to macros, and lists the words that ask for all of
torch's headers; rules/private/tools/compile/needed.zig reads it. If the words mislead, comparison.zig notices it, and
all headers are read.
"""

# The prefix of the macros in words.txt.
_MACRO = "TORCH_KERNELS_"

_API = "torch/csrc/api/include/"

# Headers that torch/all.h includes and only the C++ front end needs. A word beside `::` that names one of them asks for
# all headers, and so does an `#include` of one; the words are the namespaces that the headers declare.
_FRONT_END = ["data", "fft", "jit", "linalg", "mps", "nested", "nn", "optim", "serialize", "sparse", "special", "xpu"]

# Headers that torch/script.h includes and only torch's interpreter needs.
_INTERPRETED = "torch/csrc/jit/"

# Names of torch/custom_class.h.
_CLASSES = ["CustomClassHolder", "class_", "custom_class_map", "getCustomClass", "make_custom_class"]

# Names of torch/autograd.h and torch/utils.h.
_AUTOGRAD = [
    "AutoFwGradMode",
    "AutoGradMode",
    "GradMode",
    "NoGradGuard",
    "Variable",
    "autograd",
    "get_num_interop_threads",
    "get_num_threads",
    # It returns a pointer to a type that the headers for the GPU do not define otherwise.
    "grad_fn",
    "init_num_threads",
    "manual_seed",
    "set_num_interop_threads",
    "set_num_threads",
    "variable_list",
]

# Operators that these headers call without including them.
_AUTOGRAD_OPERATORS = ["equal"]

# Functions of torch/csrc/autograd/generated/variable_factories.h whose parameters differ from the functions of the same
# name in the namespace `at`, so that a compiler for the GPU needs them.
_FACTORIES = ["from_blob", "tensor"]

# Names of a binding (rules/private/include/pybind), which needs torch/library.h and all values of torch's interpreter.
_BINDING = ["PYBIND11_MODULE", "py", "pybind11", "wrap_pybind_function", "wrap_pybind_function_no_gil"]

# Names of torch/library.h and its includes, which a compiler for the GPU otherwise omits.
_LIBRARY = [
    "CppFunction",
    "Dispatcher",
    "IValue",
    "Library",
    "TORCH_LIBRARY",
    "TORCH_LIBRARY_EXPAND",
    "TORCH_LIBRARY_FRAGMENT",
    "TORCH_LIBRARY_IMPL",
    "class_",
]

# Names of ATen/core/ivalue.h, of ATen/core/jit_type.h and of the lists that they include, which the GPU also omits.
_LISTS = [
    "AnyType",
    "Dict",
    "Future",
    "FutureType",
    "IListRef",
    "ITensorListRef",
    "IValue",
    "List",
    "ListType",
    "OptionalType",
    "TensorType",
    "TupleType",
    "TypePtr",
    # The only operator of namespace `at` with a parameter that refers to a list (`ITensorListRef` in ATen/ops/cat.h),
    # which `{a, b}` constructs.
    "cat",
    "cat_out",
    "cat_outf",
    "getTypePtr",
    "ivalue",
]

# Names of ATen/TensorIndexing.h, which includes lists, and which the GPU also omits.
_INDEXING = ["Ellipsis", "EllipsisIndexType", "Slice", "TensorIndex", "index", "index_put_", "indexing"]

# Headers that other headers include indirectly, with names that kernels also use for their own functions: a call finds
# both. By the macro that asks for the header: the umbrella header, the removed include that leads to it, the header,
# and the names.
_ON_THE_WAY = {
    "LOAD": ("ATen/ATen.h", "ATen/NativeFunctions.h", "c10/core/DynamicCast.h", ["cast_and_store", "fetch_and_cast", "load"]),
    "PARALLEL": (
        "torch/all.h",
        "torch/utils.h",
        "ATen/Parallel.h",
        ["divup", "get_thread_num", "in_parallel_region", "intraop_launch", "launch", "parallel_for", "parallel_reduce"],
    ),
    "VARIADIC": ("torch/all.h", "torch/autograd.h", "torch/csrc/utils/variadic.h", ["apply", "unpack"]),
}

# Headers of ATen/ATen.h that declare these names, and the macros that ask for them.
_INTERPRETER = {
    "ATen/TensorIndexing.h": ["INDEXING", "LISTS"],
    "ATen/core/ivalue.h": ["LISTS"],
    "ATen/core/jit_type.h": ["LISTS"],
}

# Prefixes of includes that lead to a header written here.
_UMBRELLAS = [
    "ATen/ATen",
    "ATen/Functions",
    "torch/all",
    "torch/csrc",
    "torch/extension",
    "torch/python",
    "torch/script",
    "torch/torch",
    "torch/types",
]

# Suffixes of the functions of an operator `NAME`: `at::NAME`, `at::NAME_out`, ...
_FORMS = ["", "_", "_out", "_outf", "_symint", "_symint_out", "_symint_outf"]

def _included(line):
    """The header that a line includes as `<NAME>`; None for another line."""
    return line[len("#include <"):].split(">")[0] if line.startswith("#include <") else None

def _guarded(line, condition):
    return "#if %s\n%s\n#endif" % (condition, line)

def _on_the_way(umbrella, line):
    """The lines that include a header of `_ON_THE_WAY` instead of another header."""
    return [
        _guarded("#include <%s>" % header, _defined(macro))
        for macro, (where, place, header, _) in _ON_THE_WAY.items()
        if where == umbrella and place == _included(line)
    ]

def _defined(name):
    return "defined(%s%s)" % (_MACRO, name)

def _on_host_or(*names):
    return " || ".join(["!defined(__CUDA_ARCH__)"] + [_defined(name) for name in names])

def _all(text):
    """torch/all.h without the C++ front end.

    One include of it stays, since objects would differ: in torch 2.4 only torch/optim.h includes <iostream>, which
    defines an object in each file. Later releases include it through headers that stay.
    """
    lines = []
    for line in text.split("\n"):
        lines += _on_the_way("torch/all.h", line)
        header = _included(line)
        name = header.removeprefix("torch/").removesuffix(".h") if header else None
        if name in ["autograd", "utils"]:
            lines.append(_guarded(line, _defined("AUTOGRAD")))
        elif name == "optim":
            lines.append(_guarded("#include <iostream>", _on_host_or()))
        elif name not in _FRONT_END:
            lines.append(line)
    return "\n".join(lines)

def _types(text):
    """torch/types.h; for a GPU without host code: factories that record gradients, and the dispatcher."""
    lines = []
    for line in text.split("\n"):
        header = _included(line)
        if header in ["torch/library.h", "ATen/core/dispatch/Dispatcher.h"]:
            line = _guarded(line, _on_host_or("LIBRARY"))
        elif header and header.startswith("torch/csrc/autograd/"):
            line = _guarded(line, _on_host_or("AUTOGRAD", "FACTORIES"))
        lines.append(line)
    return "\n".join(lines)

def _script(text):
    """torch/script.h without the interpreter, and without recorded gradients and classes unless a source names them."""
    lines = []
    for line in text.split("\n"):
        header = _included(line)
        if header and header.startswith("torch/csrc/autograd/"):
            line = _guarded(line, _defined("AUTOGRAD"))
        elif header == "torch/custom_class.h":
            line = _guarded(line, _defined("CLASSES"))
        if not header or not header.startswith(_INTERPRETED):
            lines.append(line)
    return "\n".join(lines)

def _aten(text):
    """ATen/ATen.h without the kernels of torch itself; for a GPU without the values of torch's interpreter."""
    lines = []
    for line in text.split("\n"):
        lines += _on_the_way("ATen/ATen.h", line)
        if _included(line) in _INTERPRETER:
            line = _guarded(line, _on_host_or(*_INTERPRETER[_included(line)]))
        if _included(line) != "ATen/NativeFunctions.h":
            lines.append(line)
    return "\n".join(lines)

def _functions(text):
    """ATen/Functions.h with the operators that a macro asks for; and their names."""
    operators = []
    lines = []
    for line in text.split("\n"):
        header = _included(line)
        if header and header.startswith("ATen/ops/"):
            name = header.removeprefix("ATen/ops/").removesuffix(".h")
            if ("at::%s(" % name) not in text:
                operators.append(name)
                line = _guarded(line, _defined("OP_" + name))
        lines.append(line)
    return "\n".join(lines), operators

def _device_guard(text):
    """ATen/DeviceGuard.h; for a GPU without the guard of a list, which includes all of torch's interpreter."""
    condition = _on_host_or("LISTS")
    function = "device_of(ITensorListRef t) {"
    if function not in text:
        return text
    before, after = text.split(function)
    start = before.rfind("\n") + 1
    body, end = after.split("\n}\n", 1)
    whole = before[start:] + function + body + "\n}"
    include = "#include <ATen/core/IListRef.h>"
    return before[:start].replace(include, _guarded(include, condition)) + _guarded(whole, condition) + "\n" + end

def _words(operators):
    """Lines of a word and its effect: a macro, `-` for all headers, or `+` for the name of an umbrella header."""
    words = {}
    for name in operators:
        for form in _FORMS:
            words.setdefault(name + form, []).append("OP_" + name)
    autograd = [("OP_" + name, _AUTOGRAD) for name in _AUTOGRAD_OPERATORS]
    lists = [("AUTOGRAD", _AUTOGRAD), ("CLASSES", _CLASSES), ("INDEXING", _INDEXING), ("LIBRARY", _LIBRARY), ("LISTS", _LISTS)]
    lists += [("LIBRARY", _BINDING), ("LISTS", _BINDING)]
    for macro, names in lists + [(macro, names) for macro, (_, _, _, names) in _ON_THE_WAY.items()] + autograd:
        for name in names:
            words.setdefault(name, []).append(macro)
    lines = ["%s %s%s" % (word, _MACRO, macro) for word, macros in words.items() for macro in macros]
    lines += ["%s:: %sFACTORIES" % (name, _MACRO) for name in _FACTORIES]
    lines += ["<%s +" % name for name in _UMBRELLAS]
    lines += ["%s:: -" % name for name in _FRONT_END]
    lines += ["<torch/%s -" % name for name in _FRONT_END]
    return "".join([line + "\n" for line in sorted(lines)])

def write_needed_headers(rctx, include, directory):
    """Writes the headers into a directory of a repository of torch.

    Args:
        rctx: repository context.
        include: string, the directory of torch's headers.
        directory: string, where to write.
    """

    def read(name):
        return rctx.read(include + "/" + name)

    functions, operators = _functions(read("ATen/Functions.h"))
    files = {
        "ATen/ATen.h": _aten(read("ATen/ATen.h")),
        "ATen/DeviceGuard.h": _device_guard(read("ATen/DeviceGuard.h")),
        "ATen/Functions.h": functions,
        "torch/all.h": _all(read(_API + "torch/all.h")),
        "torch/script.h": _script(read("torch/script.h")),
        "torch/types.h": _types(read(_API + "torch/types.h")),
        "words.txt": _words(operators),
        # The same under the path that some of torch's own headers use.
        _API + "torch/all.h": "#include <torch/all.h>\n",
        _API + "torch/types.h": "#include <torch/types.h>\n",
    }
    for name, text in files.items():
        rctx.file(directory + "/" + name, text, executable = False)
