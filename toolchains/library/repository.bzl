"""The repository rule of a library of headers, out of a Python package or another archive."""

load("//toolchains:fetch.bzl", "fetch", "host_python", "reproducible", "run")

# Of CUTLASS: the library, and the utilities for the host side, which kernels use for packed strides and the like.
_CUTLASS = ["include", "tools/util/include"]

# A package of the library's own would hide its headers from ours.
_REMOVE = """import pathlib, sys
for place in sys.argv[1:]:
    for name in ("BUILD", "BUILD.bazel", "WORKSPACE", "MODULE.bazel", "REPO.bazel"):
        for path in pathlib.Path(place).rglob(name):
            if not path.is_dir():
                path.unlink()
"""

_NUMBERS = ["CUTLASS_MAJOR", "CUTLASS_MINOR", "CUTLASS_PATCH"]

_BUILD = """load("@rules_torch_kernels//toolchains/library:sdk.bzl", "library_sdk")

package(default_visibility = ["//visibility:public"])

library_sdk(
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

def _library_repository_impl(rctx):
    lock = json.decode(rctx.attr.lock)
    directories = {}
    for directory in lock.get("include", _CUTLASS):
        place = "root" if directory == "." else directory
        directories[place] = None
        prefix = lock["root"] if directory == "." else "%s/%s" % (lock["root"], directory)
        fetch(rctx, lock["archive"], place, strip_prefix = prefix)
    if "include" in lock:
        run(rctx, [host_python(rctx), "-I", "-c", _REMOVE] + directories.keys(), "Removing BUILD files")
    if "vendored_by" in lock:
        _check_version(rctx, lock)
    rctx.file("BUILD.bazel", _BUILD.format(
        depends = rctx.attr.depends,
        directories = json.encode(directories.keys()),
    ))
    return reproducible(rctx)

library_repository = repository_rule(
    implementation = _library_repository_impl,
    attrs = {
        "depends": attr.string(mandatory = True, doc = "What a section's `depends` calls it, e.g. `cutlass_3_6`."),
        "lock": attr.string(mandatory = True, doc = "JSON: one entry of toolchains/lock/cutlass.json, or of `library` in a lock."),
    },
    doc = "The headers of a library.",
)
