"""OpenMP: the flags that ask for it, and the object with which clang's OpenMP code runs on gcc's runtime."""

load("//rules/facts:flags.bzl", "OPENMP_LIBRARY", "OPENMP_OFF", "OPENMP_ON", "PASS_ON")
load(":actions.bzl", "ACTION")
load(":transitions.bzl", "neutral_transition")

_CC = "//toolchains/cc:toolchain_type"

# gcc 12's release of OpenMP, so that `_OPENMP` has one value in all sources; clang 19's default is 5.1.
_RELEASE = "-fopenmp-version=45"

def asks_for_openmp(flags):
    """Whether an author's flags ask for OpenMP.

    Args:
        flags: list of string, of the host compiler.

    Returns:
        bool.
    """
    asked = OPENMP_LIBRARY in flags
    for flag in flags:
        if flag in [OPENMP_ON, OPENMP_OFF]:
            asked = flag == OPENMP_ON or OPENMP_LIBRARY in flags
    return asked

def _host_flags(flags):
    """An author's flags for nvcc that it passes on to the host compiler."""
    found = []
    for flag, after in zip(flags, flags[1:] + [""]):
        name, equals, value = flag.partition("=")
        if name in PASS_ON:
            found += (value if equals else after).split(",")
    return found

def gpu_openmp(cuda_flags, hip_flags):
    """The use of OpenMP in the host code of GPU sources.

    Args:
        cuda_flags: list of string, the author's flags for nvcc.
        hip_flags: list of string, the author's flags for HIP's clang.

    Returns:
        struct: `asked`, bool, whether either asks for OpenMP; `cuda` and `hip`, list of string, the flags to add.
    """
    cuda = asks_for_openmp(_host_flags(cuda_flags))
    hip = asks_for_openmp(hip_flags)
    return struct(
        asked = cuda or hip,
        cuda = ["%s=%s" % (PASS_ON[0], _RELEASE)] if cuda else [],
        hip = [_RELEASE] if hip else [],
    )

def _openmp_object_impl(ctx):
    cc = ctx.toolchains[_CC].sdk
    object = ctx.actions.declare_file(ctx.label.name + ".o")
    arguments = ctx.actions.args()
    arguments.add("clang")
    arguments.add_all(cc.flags)
    arguments.add_all(["-O2", "-std=c11", "-ffunction-sections", "-fPIC", "-fvisibility=hidden"])
    arguments.add("-isystem", cc.clang_include)
    arguments.add_all(["-x", "c"])
    arguments.add("-c", ctx.file.src)
    arguments.add("-o", object)
    ctx.actions.run(
        executable = cc.compiler,
        arguments = [arguments],
        inputs = depset([ctx.file.src], transitive = [cc.headers]),
        outputs = [object],
        mnemonic = "KernelOpenmpObject",
        progress_message = "Compiling OpenMP's interface",
        toolchain = Label(_CC),
        **ACTION
    )
    return DefaultInfo(files = depset([object]))

openmp_object = rule(
    implementation = _openmp_object_impl,
    cfg = neutral_transition,
    attrs = {
        "src": attr.label(
            allow_single_file = [".c"],
            mandatory = True,
            doc = "LLVM's OpenMP interface on gcc's runtime, in C, without headers of the C library.",
        ),
    },
    toolchains = [_CC],
    doc = "The object that clang's OpenMP code calls.",
)
