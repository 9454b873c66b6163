"""Link stubs for repository rules: shared libraries that hold a name, and no code."""

load("//toolchains:fetch.bzl", "host_python", "run")
load(":flags.bzl", "CPU", "triple")

_STUBS = Label("//toolchains/cc:stubs.py")

def _stub(rctx, zig, soname, source, cpu):
    """Makes a stub out of assembly; its path."""
    program = rctx.path(zig)
    what = "Making a stub of " + soname
    directory = "lib/" if cpu == CPU else "lib/%s/" % cpu
    rctx.file("lib/stub.s", source)
    rctx.file(directory + soname, "")
    run(rctx, [program, "clang", "--target=" + triple(cpu), "-c", "lib/stub.s", "-o", "lib/stub.o"], what)
    run(
        rctx,
        [program, "ld.lld", "-shared", "--build-id=none", "-soname", soname, "lib/stub.o", "-o", directory + soname],
        what,
    )
    rctx.delete("lib/stub.s")
    rctx.delete("lib/stub.o")
    return directory + soname

def soname_stubs(rctx, zig, sonames, cpu = CPU):
    """Makes a library for each name: enough for the linker to record that it is needed.

    Args:
        rctx: repository_ctx.
        zig: Label of the program that compiles and links.
        sonames: list of string, e.g. `libc10.so`.
        cpu: string, that the libraries are for.

    Returns:
        list of string, the files: `lib/SONAME`, or `lib/CPU/SONAME` for another CPU than that of the machine that builds.
    """
    return [_stub(rctx, zig, soname, "", cpu) for soname in sonames]

def symbol_stubs(rctx, zig, table, without, cpu = CPU):
    """Makes a library for each one of a table: enough for the linker to see that it is called.

    Args:
        rctx: repository_ctx.
        zig: Label of the program that compiles and links.
        table: Label of the table, whose layout py_driver/matrix/library_symbols.py tells; None for no libraries.
        without: string, a SONAME for which none is made.
        cpu: string, that the libraries are for.

    Returns:
        list of string, the files, as `soname_stubs`; the table itself lies in `symbols`.
    """
    if not table:
        return []
    text = rctx.read(table)
    rctx.file("symbols", text, executable = False)
    made = []
    for part in text.split("\n[")[1:]:
        lines = part.splitlines()
        soname = lines[0].split("]")[0]
        if soname != without:
            source = ".text\n" + "".join([".globl {0}\n.type {0}, @function\n{0}:\n".format(name) for name in lines[1:]])
            made.append(_stub(rctx, zig, soname, source, cpu))
    return made

def versioned_stub(rctx, zig, library, stub, max_symbol_versions, cpu = CPU):
    """Makes a stub of a library with the symbols whose versions are no newer than these.

    Args:
        rctx: repository_ctx.
        zig: Label or path of the program that compiles and links.
        library: string, the library; below `work`, parts are made that are of no use afterwards.
        stub: string, the file to make, which is called as the library is.
        max_symbol_versions: dict of string, the newest version allowed of each family, e.g. `{"GLIBCXX": "3.4.24"}`.
        cpu: string, that the library is for.
    """
    soname = stub.rpartition("/")[2]
    program = rctx.path(zig)
    rctx.file("work/stub.s", "")
    rctx.file(stub, "")
    what = "Making a stub of " + soname
    run(
        rctx,
        [host_python(rctx), "-I", rctx.path(_STUBS), rctx.path(library), "work/stub.s", "work/stub.map"] +
        ["%s=%s" % (family, newest) for family, newest in max_symbol_versions.items()],
        "Reading the symbols of " + soname,
    )
    run(rctx, [program, "clang", "--target=" + triple(cpu), "-c", "work/stub.s", "-o", "work/stub.o"], what)
    run(
        rctx,
        [program, "ld.lld", "-shared", "--build-id=none", "-soname", soname, "--version-script", "work/stub.map"] +
        ["work/stub.o", "-o", stub],
        what,
    )
