"""Providers that the rules hand to each other."""

KernelIdInfo = provider(
    doc = "The unique id of a kernel for one backend.",
    fields = {
        "header": "File; C header that defines TORCH_EXTENSION_NAME as the id",
        "objects": "list of File; ELF objects with the id and the entry point, to link where another object asks for them",
        "text": "File; the id `_<module>_<backend>_<hash>` alone, without a line break",
    },
)

KernelObjectsInfo = provider(
    doc = "Compiled sources of one section of build.toml.",
    fields = {
        "archives": "list of File; static libraries of which the objects need parts",
        "backend": "string; `cpu`, `cuda` or `rocm`",
        "device": "list of File; those of the objects that are nothing but device code",
        "linked": "list of string; the names of the targets whose device code was linked, if the objects are what came of that",
        "objects": "list of File; position-independent ELF objects, in the order of the sources",
        "openmp": "GccSdkInfo, whose OpenMP runtime the objects may call; None if they call none",
        "openmp_by_clang": "bool; whether clang compiled OpenMP, whose code calls LLVM's runtime",
        "relocatable": "list of struct; the sources whose device code is to be linked: `source` and `section`, strings that name it; `archs`, its capabilities; `cubins`, its code by the number of the architecture, and `object`, which has all of that; whether it is `optimized` then",
        "steps": "list of File; the first output of each action that makes the objects",
        "texts": "list of File; the sources and headers of the objects, without comments",
        "undivided": "list of string; the sources whose device code is in one object with the host code",
    },
)

KernelTritonInfo = provider(
    doc = "Functions in Triton that were compiled, and what launches them.",
    fields = {
        "files": "dict of File; machine code, facts and the launcher, by their paths in the variant directory",
        "steps": "list of File; the first output of each action that compiles",
    },
)

PrecompiledHeaderInfo = provider(
    doc = "Headers that clang has parsed.",
    fields = {
        "header": "File; what clang made of them, or None",
        "text": "File; the options and the text that it is of, see precompiled.zig, or None",
    },
)

KernelVariantInfo = provider(
    doc = "One built variant.",
    fields = {
        "directory": "File; directory in the layout that the `kernels` client loads",
        "variant": "string; the identifier, e.g. `torch213-cxx11-cu130-x86_64-linux`",
    },
)

def no_objects(backend):
    """What a target has that is built by its own name, outside of any variant.

    Args:
        backend: string.

    Returns:
        KernelObjectsInfo.
    """
    return KernelObjectsInfo(
        archives = [],
        backend = backend,
        device = [],
        linked = [],
        objects = [],
        openmp = None,
        openmp_by_clang = False,
        relocatable = [],
        steps = [],
        texts = [],
        undivided = [],
    )
