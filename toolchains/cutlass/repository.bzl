"""The repository rule of a CUTLASS release: its headers, out of a Python package or the archive of a git tag."""

load("//toolchains:fetch.bzl", "fetch", "reproducible")

# The library, and the utilities for the host side, which kernels use for packed strides and the like.
_DIRECTORIES = ["include", "tools/util/include"]

_NUMBERS = ["CUTLASS_MAJOR", "CUTLASS_MINOR", "CUTLASS_PATCH"]

_BUILD = """load("@rules_torch_kernels//toolchains/cutlass:sdk.bzl", "cutlass_sdk")

package(default_visibility = ["//visibility:public"])

cutlass_sdk(
    name = "sdk",
    depends = "{depends}",
    headers = {directories},
    includes = {directories},
)
"""

def _check_version(rctx, lock):
    """Fails if a copy is not of the release that it is locked for.

    Args:
        rctx: repository_ctx.
        lock: dict, one entry of the lock, whose headers are there.
    """
    numbers = {}
    for line in rctx.read("include/cutlass/version.h").splitlines():
        words = [word for word in line.split(" ") if word]
        if len(words) > 2 and words[0] == "#define" and words[1] in _NUMBERS:
            numbers[words[1]] = words[2]
    found = ".".join([numbers.get(name, "?") for name in _NUMBERS])
    if found != lock["release"]:
        fail("CUTLASS %s, as vendored by %s, says in version.h that it is %s" % (lock["release"], lock["vendored_by"], found))

def _cutlass_sdk_repository_impl(rctx):
    lock = json.decode(rctx.attr.lock)
    for directory in _DIRECTORIES:
        fetch(rctx, lock["archive"], directory, strip_prefix = "%s/%s" % (lock["root"], directory))
    if "vendored_by" in lock:
        _check_version(rctx, lock)
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
