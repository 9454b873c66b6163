"""The providers of the rules."""

KernelIdInfo = provider(
    doc = "The unique id of a kernel for one backend.",
    fields = {
        "header": "File; C header that defines TORCH_EXTENSION_NAME as the id",
        "objects": "list of File; ELF objects with the id and the entry point, linked only if another object needs them",
        "text": "File; the id `_<module>_<backend>_<hash>` alone, without a line break",
    },
)

KernelObjectsInfo = provider(
    doc = "Compiled sources of one section of build.toml.",
    fields = {
        "archives": "list of File; static libraries that the objects need parts of",
        "backend": "string; `cpu`, `cuda` or `rocm`",
        "device": "list of File; the objects with device code alone",
        "id": "Label; the kernel_id that the sources see, or None",
        "linked": "list of string; the names of the targets whose device code was linked into the objects",
        "objects": "list of File; position-independent ELF objects, in the order of the sources",
        "openmp": "GccSdkInfo, whose OpenMP runtime the objects may call; None if they do not use OpenMP",
        "openmp_by_clang": "bool; whether clang compiled OpenMP code, which calls LLVM's runtime",
        "relocatable": "list of struct; the sources whose device code needs linking: `source` and `section`, strings that name the source; `archs`, its capabilities; `cubins`, its code by the number of the architecture; `object`, with all of its code; `optimized`, whether it is optimised at link time",
        "sources": "list of string; the source of each of `objects`, relative to its package; empty for linked device code",
        "steps": "list of File; the first output of each action that makes the objects",
        "texts": "list of File; the sources and headers of the objects, without comments",
        "undivided": "list of string; the sources whose object contains both device code and host code",
    },
)

KernelTritonInfo = provider(
    doc = "Compiled functions in Triton, and their launcher.",
    fields = {
        "files": "dict of File; machine code, facts and the launcher, by their paths in the variant directory",
        "steps": "list of File; the first output of each action that compiles",
    },
)

PrecompiledHeaderInfo = provider(
    doc = "A header that clang has precompiled.",
    fields = {
        "header": "File; the precompiled header, or None",
        "text": "File; its options and its text, see precompiled.zig, or None",
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
    """The provider of a target that is built outside of any variant.

    Args:
        backend: string.

    Returns:
        KernelObjectsInfo.
    """
    return KernelObjectsInfo(
        archives = [],
        backend = backend,
        device = [],
        id = None,
        linked = [],
        objects = [],
        openmp = None,
        openmp_by_clang = False,
        relocatable = [],
        sources = [],
        steps = [],
        texts = [],
        undivided = [],
    )
