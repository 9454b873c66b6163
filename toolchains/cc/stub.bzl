"""Link stubs for repository rules: shared libraries with a name and no code."""

load("//toolchains:fetch.bzl", "host_python", "run")
load(":flags.bzl", "CPU", "triple")

_LINK_STUBS = Label("//toolchains/cc:link_stubs.py")
_STUBS = Label("//toolchains/cc:stubs.py")

def _stubs(rctx, zig, sonames, cpu, table = ""):
    """Makes stubs in one run of a program: a repository rule would have to start two programs for each, in sequence.

    Args:
        rctx: repository_ctx.
        zig: Label of the program that compiles and links.
        sonames: list of string.
        cpu: string, the CPU that the libraries are for.
        table: path of the table of their symbols, or an empty string.

    Returns:
        list of string, the files.
    """
    directory = "lib" if cpu == CPU else "lib/" + cpu
    if sonames:
        command = [host_python(rctx), "-I", "-S", "-B", rctx.path(_LINK_STUBS), rctx.path(zig), triple(cpu), directory, table]
        run(rctx, command + sonames, "Making stubs of %d libraries" % len(sonames))
    return ["%s/%s" % (directory, soname) for soname in sonames]

def soname_stubs(rctx, zig, sonames, cpu = CPU):
    """Makes a library for each name: enough for the linker to record that it is needed.

    Args:
        rctx: repository_ctx.
        zig: Label of the program that compiles and links.
        sonames: list of string, e.g. `libc10.so`.
        cpu: string, that the libraries are for.

    Returns:
        list of string, the files: `lib/SONAME`, or `lib/CPU/SONAME` for another CPU than the default one.
    """
    return _stubs(rctx, zig, sonames, cpu)

def symbol_stubs(rctx, zig, table, without, cpu = CPU):
    """Makes a stub for each library of a table: enough for the linker to see which libraries are called.

    Args:
        rctx: repository_ctx.
        zig: Label of the program that compiles and links.
        table: Label of the table, whose format py_driver/matrix/library_symbols.py documents; None for no libraries.
        without: string, a SONAME that gets no stub.
        cpu: string, that the libraries are for.

    Returns:
        list of string, the files, as `soname_stubs`; the table itself is the file `symbols`.
    """
    if not table:
        return []
    text = rctx.read(table)
    rctx.file("symbols", text, executable = False)
    sonames = [part.partition("]")[0] for part in text.split("\n[")[1:]]
    return _stubs(rctx, zig, [soname for soname in sonames if soname != without], cpu, rctx.path("symbols"))

def versioned_stub(rctx, zig, library, stub, max_symbol_versions, cpu = CPU):
    """Makes a stub of a library with the symbols up to given versions.

    Args:
        rctx: repository_ctx.
        zig: Label or path of the program that compiles and links.
        library: string, the library; intermediate files are written below `work`.
        stub: string, the file to write, with the library's file name.
        max_symbol_versions: dict of string, the newest allowed version of each family, e.g. `{"GLIBCXX": "3.4.24"}`.
        cpu: string, the CPU that the library is for.
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
