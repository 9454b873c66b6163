"""Repository rules of a Python with its full API, for modules that pybind11 binds: headers and symbols."""

load("//toolchains:fetch.bzl", "fetch", "host_python", "reproducible", "run")
load("//toolchains:packs.bzl", "pack_headers")

_BUILD = """load("@rules_torch_kernels//toolchains/library:sdk.bzl", "library_sdk")

package(default_visibility = ["//visibility:public"])

library_sdk(
    name = "sdk",
    depends = "cpython",
    headers = {headers},
    includes = {includes},
    pack = "{pack}",
)

filegroup(
    name = "symbols",
    srcs = ["python.symbols"],
)
"""

def _write(rctx, headers, includes):
    rctx.file("BUILD.bazel", _BUILD.format(
        headers = json.encode(headers),
        includes = json.encode(includes),
        pack = pack_headers(rctx, headers, includes),
    ))
    return reproducible(rctx)

def _cpython_repository_impl(rctx):
    for entry in json.decode(rctx.attr.lock)["headers"]:
        fetch(rctx, entry, ".", include = ["usr/include"])
    rctx.file("python.symbols", rctx.read(rctx.attr.symbols), executable = False)
    return _write(rctx, ["usr/include"], ["usr/include/python" + rctx.attr.version, "usr/include"])

cpython_repository = repository_rule(
    implementation = _cpython_repository_impl,
    attrs = {
        "lock": attr.string(mandatory = True, doc = "JSON: one entry of toolchains/lock/cpython.json."),
        "symbols": attr.label(mandatory = True, doc = "The table of the Python's symbols, see py_driver/matrix/library_symbols.py."),
        "version": attr.string(mandatory = True, doc = "E.g. `3.13`."),
    },
    doc = "A Python of the lock, with headers for all CPUs.",
)

# Copies, not links: an action sees no other directory of the machine.
_COPY = "import shutil, sys; shutil.copytree(sys.argv[1], sys.argv[2], dirs_exist_ok=True)"

def _installed_python_repository_impl(rctx):
    run(rctx, [host_python(rctx), "-I", "-c", _COPY, rctx.attr.directory, rctx.path(".")], "Copying the headers of a Python")
    return _write(rctx, ["include"], ["include/python", "include"])

installed_python_repository = repository_rule(
    implementation = _installed_python_repository_impl,
    attrs = {
        "directory": attr.string(
            mandatory = True,
            doc = "The directory with `include/python` and `python.symbols`; its name contains the digest of its content. The driver writes it.",
        ),
    },
    doc = "An installed Python, with headers for the machine's CPU.",
)
