"""A pack: the headers of an SDK in one file, which an action reads instead of the headers."""

load("//toolchains:fetch.bzl", "host_python", "run")

_PACKS = Label("//toolchains:packs.py")

def pack_headers(rctx, directories, roots):
    """Writes copies of a repository's headers into one file.

    Bazel stages each file of a directory for an action, and so does a remote worker; a source reads a tenth of ten
    thousand headers.

    Args:
        rctx: repository_ctx.
        directories: list of string, with the headers, relative to the repository.
        roots: list of string, the directories in which compilers search.

    Returns:
        string, the name of the file.
    """
    name = "headers.pack"
    command = [host_python(rctx), "-I", "-S", "-B", rctx.path(_PACKS), name, json.encode(roots)]
    run(rctx, command + directories, "Packing headers")
    return name
