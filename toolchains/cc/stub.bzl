"""Link stubs for repository rules: shared libraries that hold a name, and no code."""

load("//toolchains:fetch.bzl", "host_python", "run")

_STUBS = Label("//toolchains/cc:stubs.py")

def _stub(rctx, zig, soname, source):
    """Makes `lib/SONAME` out of assembly."""
    program = rctx.path(zig)
    what = "Making a stub of " + soname
    rctx.file("lib/stub.s", source)
    run(rctx, [program, "clang", "--target=x86_64-linux-gnu", "-c", "lib/stub.s", "-o", "lib/stub.o"], what)
    run(
        rctx,
        [program, "ld.lld", "-shared", "--build-id=none", "-soname", soname, "lib/stub.o", "-o", "lib/" + soname],
        what,
    )
    rctx.delete("lib/stub.s")
    rctx.delete("lib/stub.o")

def soname_stubs(rctx, zig, sonames):
    """Makes `lib/SONAME` for each name: enough for the linker to record that the library is needed.

    Args:
        rctx: repository_ctx.
        zig: Label of the program that compiles and links.
        sonames: list of string, e.g. `libc10.so`.
    """
    for soname in sonames:
        _stub(rctx, zig, soname, "")

def symbol_stubs(rctx, zig, table, without):
    """Makes `lib/SONAME` for each library of a table: enough for the linker to see that a library is called.

    Args:
        rctx: repository_ctx.
        zig: Label of the program that compiles and links.
        table: Label of the table, whose layout py_driver/matrix/library_symbols.py tells; None for no libraries.
        without: string, a SONAME for which none is made.

    Returns:
        list of string, the files; the table itself lies in `symbols`.
    """
    if not table:
        return []
    text = rctx.read(table)
    rctx.file("symbols", text, executable = False)
    made = []
    for part in text.split("\n[")[1:]:
        lines = part.splitlines()
        soname = lines[0].split("]")[0]
        if soname == without:
            continue
        source = ".text\n" + "".join([".globl {0}\n.type {0}, @function\n{0}:\n".format(name) for name in lines[1:]])
        _stub(rctx, zig, soname, source)
        made.append("lib/" + soname)
    return made

def versioned_stub(rctx, zig, library, stub, floors):
    """Makes a stub of a library with the symbols whose versions are no newer than the floors.

    Args:
        rctx: repository_ctx.
        zig: Label or path of the program that compiles and links.
        library: string, the library; below `work`, parts are made that are of no use afterwards.
        stub: string, the file to make, which is called as the library is.
        floors: dict of string, the newest version allowed of each family, e.g. `{"GLIBCXX": "3.4.24"}`.
    """
    soname = stub.rpartition("/")[2]
    program = rctx.path(zig)
    rctx.file("work/stub.s", "")
    rctx.file(stub, "")
    what = "Making a stub of " + soname
    run(
        rctx,
        [host_python(rctx), "-I", rctx.path(_STUBS), rctx.path(library), "work/stub.s", "work/stub.map"] +
        ["%s=%s" % (family, floor) for family, floor in floors.items()],
        "Reading the symbols of " + soname,
    )
    run(rctx, [program, "clang", "--target=x86_64-linux-gnu", "-c", "work/stub.s", "-o", "work/stub.o"], what)
    run(
        rctx,
        [program, "ld.lld", "-shared", "--build-id=none", "-soname", soname, "--version-script", "work/stub.map"] +
        ["work/stub.o", "-o", stub],
        what,
    )
