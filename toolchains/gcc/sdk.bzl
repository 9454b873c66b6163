"""The rule that describes gcc's C++ compiler to the rules."""

load("//toolchains:includes.bzl", "include_paths")
load("//toolchains/cc:flags.bzl", "triple")
load("//toolchains/library:sdk.bzl", "LibrarySdkInfo")

GccSdkInfo = provider(
    doc = "gcc's C++ compiler: it writes assembly, and its own dynamic loader starts it.",
    fields = {
        "assembler": "list of string; the first arguments of clang as its assembler",
        "compiler": "File; `cc1plus`",
        "flags": "list of string; flags of every compile",
        "headers": "depset of File; gcc's own headers",
        "include": "string; the directory of gcc's own headers, from the execution root",
        "libraries": "depset of File; the shared libraries that the compiler needs",
        "library_path": "list of string; directories of `libraries`, from the execution root",
        "loader": "File; the dynamic loader",
        "math": "list of File; the link stub of glibc's vectorised functions, which gcc calls with `-ffast-math`; possibly empty",
        "openmp": "dict; torch version to File: the link stub of the OpenMP runtime, of the release in that torch",
        "openmp_header": "LibrarySdkInfo; `omp.h` alone, for any compiler",
        "openmp_oldest": "File; the link stub for all other versions of torch",
    },
)

# The oldest supported machine of each CPU.
_MACHINES = {
    "aarch64": ["-march=armv8-a", "-mtune=generic"],
    "x86_64": ["-march=x86-64", "-mtune=generic"],
}

# As with clang, no default directory is searched. No symbol is unique in the process (STB_GNU_UNIQUE), and no text
# names the build directory. gcc does not use SOURCE_DATE_EPOCH for __TIMESTAMP__. gcc's driver adds the last three.
_FLAGS = [
    "-quiet",
    "-Wno-builtin-macro-redefined",
    "-D__TIMESTAMP__=\"Thu Jan  1 00:00:00 1970\"",
    "-nostdinc",
    "-nostdinc++",
    "-fno-gnu-unique",
    "-fno-working-directory",
    "-D_GNU_SOURCE",
]

TYPE = Label("//toolchains/gcc:toolchain_type")

def _gcc_sdk_impl(ctx):
    info = GccSdkInfo(
        assembler = ["clang", "--target=" + triple(ctx.attr.cpu)],
        compiler = ctx.file.compiler,
        flags = _FLAGS + _MACHINES[ctx.attr.cpu] + ["-D__GLIBC_MINOR__=" + ctx.attr.glibc.split(".")[1]],
        headers = depset(ctx.files.headers),
        include = ctx.files.headers[0].path,
        libraries = depset(ctx.files.libraries),
        library_path = include_paths(ctx, ctx.attr.library_directories),
        loader = ctx.file.loader,
        math = ctx.files.math,
        openmp = {
            version: target.files.to_list()[0]
            for target, versions in ctx.attr.openmp.items()
            for version in versions.split(" ")
        },
        openmp_header = ctx.attr.openmp_header[LibrarySdkInfo],
        openmp_oldest = ctx.file.openmp_oldest,
    )
    return [info, platform_common.ToolchainInfo(sdk = info)]

gcc_sdk = rule(
    implementation = _gcc_sdk_impl,
    attrs = {
        "compiler": attr.label(allow_single_file = True, mandatory = True, doc = "The program `cc1plus`."),
        "cpu": attr.string(mandatory = True, doc = "The CPU that it compiles for, e.g. `x86_64`."),
        "glibc": attr.string(mandatory = True, doc = "Version of glibc to compile for, e.g. `2.28`."),
        "headers": attr.label_list(allow_files = True, mandatory = True, doc = "The directory of gcc's own headers."),
        "libraries": attr.label_list(allow_files = True, mandatory = True, doc = "Shared libraries that the compiler needs."),
        "library_directories": attr.string_list(mandatory = True, doc = "The directories of `libraries`, relative to the package."),
        "loader": attr.label(allow_single_file = True, mandatory = True, doc = "The dynamic loader of `libraries`."),
        "math": attr.label(allow_single_file = True, doc = "The link stub of libmvec, if glibc has one for the CPU."),
        "openmp": attr.label_keyed_string_dict(
            allow_files = True,
            mandatory = True,
            doc = "Link stubs of the OpenMP runtime, each with its versions of torch.",
        ),
        "openmp_header": attr.label(mandatory = True, providers = [LibrarySdkInfo], doc = "The header `omp.h`."),
        "openmp_oldest": attr.label(allow_single_file = True, mandatory = True, doc = "The stub for all other versions."),
    },
    doc = "A hermetic gcc for C++.",
)

def _gcc_impl(ctx):
    return [ctx.toolchains[TYPE].sdk]

gcc = rule(
    implementation = _gcc_impl,
    toolchains = [TYPE],
    doc = "The gcc that runs on the execution platform and compiles for the target's CPU.",
)

def _gcc_choice_impl(ctx):
    return [ctx.attr.sdk[GccSdkInfo]] if ctx.attr.sdk else []

gcc_choice = rule(
    implementation = _gcc_choice_impl,
    attrs = {"sdk": attr.label(providers = [GccSdkInfo], doc = "The compiler, if a setting chooses it.")},
    doc = "gcc, if a setting chooses it.",
)
