"""Link stubs for repository rules: shared libraries that hold a name and nothing else."""

load("//toolchains:fetch.bzl", "run")

def soname_stubs(rctx, zig, sonames):
    """Makes `lib/SONAME` for each name: enough for the linker to record that the library is needed.

    Args:
        rctx: repository_ctx.
        zig: Label of the program that compiles and links.
        sonames: list of string, e.g. `libc10.so`.
    """
    program = rctx.path(zig)
    rctx.file("lib/empty.s", "")
    run(rctx, [program, "clang", "--target=x86_64-linux-gnu", "-c", "lib/empty.s", "-o", "lib/empty.o"], "Making stubs")
    for soname in sonames:
        run(
            rctx,
            [program, "ld.lld", "-shared", "--build-id=none", "-soname", soname] +
            ["lib/empty.o", "-o", "lib/" + soname],
            "Making a stub of " + soname,
        )
    rctx.delete("lib/empty.s")
    rctx.delete("lib/empty.o")
