"""The repository rule of a CUTLASS release: its headers, out of NVIDIA's wheel or the archive of a git tag."""

load("//toolchains:fetch.bzl", "fetch", "reproducible")

# The library, and the utilities for the host side, which kernels use for packed strides and the like.
_DIRECTORIES = ["include", "tools/util/include"]

_BUILD = """load("@rules_torch_kernels//toolchains/cutlass:sdk.bzl", "cutlass_sdk")

package(default_visibility = ["//visibility:public"])

cutlass_sdk(
    name = "sdk",
    depends = "{depends}",
    headers = {directories},
    includes = {directories},
)
"""

def _cutlass_sdk_repository_impl(rctx):
    lock = json.decode(rctx.attr.lock)
    for directory in _DIRECTORIES:
        fetch(rctx, lock["archive"], directory, strip_prefix = "%s/%s" % (lock["root"], directory))
    rctx.file("BUILD.bazel", _BUILD.format(
        depends = rctx.attr.depends,
        directories = json.encode(_DIRECTORIES),
    ))
    return reproducible(rctx)

cutlass_sdk_repository = repository_rule(
    implementation = _cutlass_sdk_repository_impl,
    attrs = {
        "depends": attr.string(mandatory = True, doc = "What a section's `depends` calls it, e.g. `cutlass_3_6`."),
        "lock": attr.string(mandatory = True, doc = "JSON: one entry of toolchains/lock/cutlass.json."),
    },
    doc = "The headers of a CUTLASS release.",
)
