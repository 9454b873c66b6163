"""The repository rule of hipify: a Python from Debian's packages, and the hipify of a torch release."""

load("//toolchains:fetch.bzl", "fetch", "reproducible")
load("//toolchains/cc:flags.bzl", "library_directories", "loader")

_BUILD = """load("@rules_torch_kernels//toolchains/hipify:sdk.bzl", "hipify_sdk")

package(default_visibility = ["//visibility:public"])

hipify_sdk(
    name = "sdk",
    files = glob(["python/**"]),
    libraries = {libraries},
    loader = "{loader}",
    module = glob(["torch/utils/hipify/*.py"]),
    python = "python/usr/bin/python3.11",
)
"""

# The parts of the packages that running Python needs. sitecustomize.py is a link to the machine's own.
_PARTS = ["usr/bin/", "usr/lib/python3.11/"]

def _hipify_repository_impl(rctx):
    directories = library_directories(rctx.attr.cpu)
    for entry in json.decode(rctx.attr.python):
        fetch(rctx, entry, "python", include = _PARTS + [one + "/" for one in directories], exclude = ["usr/lib/python3.11/sitecustomize.py"])
    fetch(rctx, json.decode(rctx.attr.torch), ".", include = ["torch/utils/hipify/"])
    rctx.file("BUILD.bazel", _BUILD.format(
        libraries = json.encode(["python/" + one for one in directories]),
        loader = "python/" + loader(rctx.attr.cpu),
    ))
    return reproducible(rctx)

hipify_repository = repository_rule(
    implementation = _hipify_repository_impl,
    attrs = {
        "cpu": attr.string(mandatory = True, doc = "The CPU that the Python runs on."),
        "python": attr.string(mandatory = True, doc = "JSON: the lock's entries of Debian's packages."),
        "torch": attr.string(mandatory = True, doc = "JSON: the lock's entry of a torch wheel."),
    },
    doc = "torch's hipify, and a Python that runs it.",
)
