"""The headers of an SDK in one file, which an action gets in place of them."""

load("//toolchains:fetch.bzl", "host_python", "run")

_PACKS = Label("//toolchains:packs.py")

def pack_headers(rctx, directories, roots):
    """Writes headers of a repository into one file as well.

    Bazel lays out each file of a directory for an action, and a worker does so too; of ten thousand headers a source
    reads a tenth.

    Args:
        rctx: repository_ctx.
        directories: list of string, with the headers, relative to the repository.
        roots: list of string, those in which compilers search.

    Returns:
        string, the name of the file.
    """
    name = "headers.pack"
    command = [host_python(rctx), "-I", "-S", "-B", rctx.path(_PACKS), name, json.encode(roots)]
    run(rctx, command + directories, "Packing headers")
    return name
