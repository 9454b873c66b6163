"""The repository rule of Python's headers for the limited API.

An extension is for every Python from 3.9 on. pybind11 is not: it needs parts of the API that the limited API hides, and
does not compile with it. Sources that include torch/extension.h, which includes pybind11, seldom use more of it than
torch's own headers. So short headers replace it and pybind11's headers: they include torch's headers, and their
PYBIND11_MODULE names the alternative.
"""

load("//toolchains:fetch.bzl", "fetch", "reproducible")
load("//toolchains:packs.bzl", "pack_headers")

_BUILD = """load("@rules_torch_kernels//toolchains/library:sdk.bzl", "library_sdk")

package(default_visibility = ["//visibility:public"])

library_sdk(
    name = "sdk",
    defines = ["Py_LIMITED_API={limited_api}"],
    depends = "python",
    headers = {headers},
    includes = {includes},
    pack = "{pack}",
)
"""

# The headers in `limited/` beside this file that replace Python's, pybind11's and torch's.
_LIMITED = ["Python.h", "pybind11/pybind11.h", "torch/csrc/utils/pybind.h", "torch/extension.h", "torch/python.h"]

# pybind11 3.0's headers, except the headers in detail/.
_OTHERS = [
    "attr",
    "buffer_info",
    "cast",
    "chrono",
    "common",
    "complex",
    "critical_section",
    "eigen",
    "eigen/matrix",
    "eigen/tensor",
    "embed",
    "eval",
    "functional",
    "gil",
    "gil_safe_call_once",
    "gil_simple",
    "iostream",
    "native_enum",
    "numpy",
    "operators",
    "options",
    "pytypes",
    "stl",
    "stl/filesystem",
    "stl_bind",
    "subinterpreter",
    "trampoline_self_life_support",
    "type_caster_pyobject_ptr",
    "typing",
    "warnings",
]

def _python_repository_impl(rctx):
    lock = json.decode(rctx.attr.lock)
    for entry in lock["headers"]:
        fetch(rctx, entry, ".", include = ["usr/include"])
    for name in _LIMITED:
        rctx.file("limited/" + name, rctx.read(Label("//toolchains/python:limited/" + name)), executable = False)
    for name in _OTHERS:
        rctx.file("limited/pybind11/%s.h" % name, "#include <pybind11/pybind11.h>\n", executable = False)
    headers = ["limited", "usr/include"]
    includes = ["limited", "usr/include/python" + lock["version"], "usr/include"]
    rctx.file("BUILD.bazel", _BUILD.format(
        headers = json.encode(headers),
        includes = json.encode(includes),
        limited_api = lock["limited_api"],
        pack = pack_headers(rctx, headers, includes),
    ))
    return reproducible(rctx)

python_repository = repository_rule(
    implementation = _python_repository_impl,
    attrs = {
        "lock": attr.string(mandatory = True, doc = "JSON: the object in toolchains/lock/python.json."),
    },
    doc = "Python's headers for the limited API.",
)
