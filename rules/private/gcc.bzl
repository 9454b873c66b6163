"""gcc's command line for C++."""

load("//rules/facts:flags.bzl", "TO_LINKER")
load(":openmp.bzl", "asks_for_openmp")

# gcc's driver defines this for OpenMP and for -pthread, since both have threads.
_THREADS = "-D_REENTRANT"

def cc1plus_flags(flags):
    """An author's flags as gcc's driver passes them to cc1plus.

    Args:
        flags: list of string.

    Returns:
        list of string.
    """
    kept = [flag for flag in flags if flag != "-pthread" and not flag.startswith(tuple(TO_LINKER))]
    threads = "-pthread" in flags or asks_for_openmp(flags)
    return ([_THREADS] if threads else []) + kept

def gcc_compiler(ctx, job, scan):
    """gcc as `compile_cxx` calls a compiler.

    Args:
        ctx: rule context, with the attribute `_gcc_step`.
        job: struct of what all sources of a target have in common, with `gcc`; see kernel_objects.bzl.
        scan: list of File, whose words determine which of torch's headers a source needs; empty if all are read.

    Returns:
        struct: `options` begin each command and `flags` are the author's; `compile` precedes a source, `before_text`
            and `at_text` stand before and behind the author's flags for a preprocessed text; `by_text` is whether every
            source is preprocessed in an action of its own, so that releases of CUDA share the compile; `includes` and
            `files` are the include directories and the headers in them; `start` is a function of a step (`preprocess`,
            `compile` or `compile-text`) and two lists of File, the text with all headers and the files of
            `headers_file`, both possibly empty; it returns a dict, the program of the action, and a list, its first
            Args.
    """
    gcc = job.gcc
    tools = depset([gcc.loader, gcc.compiler, job.cc.compiler], transitive = [gcc.libraries])

    def start(step, full, read):
        arguments = ctx.actions.args()
        arguments.add("preprocess" if step == "preprocess" else "compile")
        if step == "preprocess":
            arguments.add_all(scan, before_each = "--scan")
        arguments.add_all(full, before_each = "--full")
        arguments.add_all(read[:1], before_each = "--read")
        arguments.add_all(read[1:])
        if step != "preprocess":
            arguments.add(job.cc.compiler)
            arguments.add_all(gcc.assembler)
        arguments.add("--")
        arguments.add(gcc.loader)
        arguments.add_joined("--library-path", gcc.library_path, join_with = ":")
        arguments.add(gcc.compiler)
        return {"executable": ctx.executable._gcc_step, "tools": tools}, [arguments]

    return struct(
        at_text = ["-fpreprocessed"],
        before_text = [],
        by_text = True,
        compile = [],
        files = [job.cc.headers, gcc.headers],
        flags = cc1plus_flags(job.cxx_flags),
        includes = [gcc.include if path == job.cc.clang_include else path for path in job.cc.includes],
        options = gcc.flags,
        start = start,
    )
