"""The repository rule of Triton: the compiler from its wheel, and hipify's Python with further libraries."""

load("//toolchains:fetch.bzl", "fetch", "reproducible")
load("//toolchains/cc:flags.bzl", "library_directories", "loader")

_BUILD = """load("@rules_torch_kernels//toolchains/triton:sdk.bzl", "triton_sdk")

package(default_visibility = ["//visibility:public"])

triton_sdk(
    name = "sdk",
    files = glob(["python/**", "site/**"]),
    libraries = {libraries},
    loader = "{loader}",
    python = "python/usr/bin/python3.11",
    version = "{version}",
)
"""

# The parts of the packages that running Python needs. sitecustomize.py is a link to the machine's own.
_PARTS = ["usr/bin/", "usr/lib/python3.11/"]

def _triton_repository_impl(rctx):
    directories = library_directories(rctx.attr.cpu)
    lock = json.decode(rctx.attr.lock)
    for entry in json.decode(rctx.attr.python) + lock["packages"]:
        fetch(
            rctx,
            entry,
            "python",
            include = _PARTS + [directory + "/" for directory in directories],
            exclude = ["usr/lib/python3.11/sitecustomize.py"],
        )
    fetch(rctx, lock["archive"], "site")
    rctx.file("BUILD.bazel", _BUILD.format(
        libraries = json.encode(["python/" + directory for directory in directories]),
        loader = "python/" + loader(rctx.attr.cpu),
        version = lock["archive"]["version"],
    ))
    return reproducible(rctx)

triton_repository = repository_rule(
    implementation = _triton_repository_impl,
    attrs = {
        "cpu": attr.string(mandatory = True, doc = "The CPU that the Python runs on."),
        "lock": attr.string(mandatory = True, doc = "JSON: one entry of toolchains/lock/triton.json."),
        "python": attr.string(mandatory = True, doc = "JSON: the lock's entries of Debian's packages."),
    },
    doc = "A release of Triton, and a Python that runs it.",
)
