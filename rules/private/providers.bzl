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
        "backend": "string; `cpu`, `cuda` or `rocm`",
        "objects": "list of File; position-independent ELF objects, in the order of the sources",
        "openmp": "GccSdkInfo, whose OpenMP runtime the objects may call; None if they call none",
        "openmp_by_clang": "bool; whether clang compiled OpenMP, whose code calls LLVM's runtime",
        "steps": "list of File; the first output of each action that makes the objects",
        "texts": "list of File; the sources and headers of the objects, without comments",
    },
)

KernelVariantInfo = provider(
    doc = "One built variant.",
    fields = {
        "directory": "File; directory in the layout that the `kernels` client loads",
        "variant": "string; the identifier, e.g. `torch213-cxx11-cu130-x86_64-linux`",
    },
)
