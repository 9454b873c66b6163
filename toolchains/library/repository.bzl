"""The repository rule of a library of headers, from a Python package or another archive."""

load("//rules/facts:compilers.bzl", "CUTLASS_INCLUDES")
load("//toolchains:fetch.bzl", "fetch", "host_python", "reproducible", "run")
load("//toolchains:packs.bzl", "pack_headers")

# A Bazel package inside the library would hide its headers from our package.
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
    pack = "{pack}",
)
"""

def wrong_release(lock, text):
    """The error if a copy of CUTLASS is not the locked release.

    Args:
        lock: dict, one entry of the lock.
        text: string, the copy's version.h.

    Returns:
        string, or None if it is the locked release.
    """
    numbers = {}
    for line in text.splitlines():
        words = [word for word in line.split(" ") if word]
        if len(words) > 2 and words[0] == "#define" and words[1] in _NUMBERS:
            numbers[words[1]] = words[2]
    found = ".".join([numbers.get(name, "?") for name in _NUMBERS])
    if found == lock["release"]:
        return None
    return "CUTLASS %s, as vendored by %s, says in version.h that it is %s" % (lock["release"], lock["vendored_by"], found)

def places(include):
    """The directories of a library in its repository.

    Args:
        include: list of string, the directories, `.` for the archive's root.

    Returns:
        dict of string, the directory in the archive by the directory in the repository: the same name, or an unused
        name for the root.
    """
    taken = [directory.split("/")[0] for directory in include]
    root = [name for name in ["root" + "_" * count for count in range(len(include) + 1)] if name not in taken][0]
    return {root if directory == "." else directory: directory for directory in include}

def _library_repository_impl(rctx):
    lock = json.decode(rctx.attr.lock)
    directories = places(lock.get("include", CUTLASS_INCLUDES))
    for place, directory in directories.items():
        prefix = lock["root"] if directory == "." else "%s/%s" % (lock["root"], directory)
        fetch(rctx, lock["archive"], place, strip_prefix = prefix)
    if "include" in lock:
        run(rctx, [host_python(rctx), "-I", "-c", _REMOVE] + directories.keys(), "Removing BUILD files")
    wrong = wrong_release(lock, rctx.read("include/cutlass/version.h")) if "vendored_by" in lock else None
    if wrong:
        fail(wrong)
    rctx.file("BUILD.bazel", _BUILD.format(
        depends = rctx.attr.depends,
        directories = json.encode(directories.keys()),
        pack = pack_headers(rctx, directories.keys(), directories.keys()),
    ))
    return reproducible(rctx)

library_repository = repository_rule(
    implementation = _library_repository_impl,
    attrs = {
        "depends": attr.string(mandatory = True, doc = "Its name in a section's `depends`, e.g. `cutlass_3_6`."),
        "lock": attr.string(mandatory = True, doc = "JSON: one entry of toolchains/lock/cutlass.json, or of `library` in a lock."),
    },
    doc = "The headers of a library.",
)
