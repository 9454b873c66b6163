"""The kinds of compile actions: the facts that the rules and the driver share, by mnemonic.

The driver reads this file as text (py_driver/matrix/facts.py): everything is a literal.
"""

# In the order in which a report shows them:
#
# after: the actions whose outputs it reads; an action for an architecture reads outputs for the same architecture.
#     Actions that the source's way does not have are ignored.
# archs: which of the variant's architectures its key contains besides its own: `all`, `all+PTX` (and which of them have
#     PTX), or the `last` one.
# compresses: true if it compresses device code, so that its key contains `//rules/settings:compress`.
# elsewhere: how its messages report device code that another source defines: `undefined`, as a linker does, or `twice`,
#     as a duplicate variable; if absent: not at all.
# joined: the ways in which a single action for the source replaces one action for each architecture; its key contains
#     all architectures.
# makes: the name of its first output, by which the driver recognises it, below the directory of the source's phases:
#     once for the source, in a directory for each architecture, or both. Names are unique. If absent: the object of the
#     source.
# memory: megabytes that Bazel reserves for it, see below: [without torch's headers, with the ones that the source
#     needs, with all of them].
# names_headers: when it writes `headers.txt`, which names the set of torch's headers that the source was compiled with:
#     `always`, or `sometimes`, where it had a choice; if absent: never.
# reads_headers: true if it reads the headers although it follows other actions; an action that follows none always
#     does.
# reads_id: true if it reads the id of the kernel although it follows other actions; an action that follows none does if
#     the source sees it.
# seconds: the duration that the driver expects before it has run one, for the same three cases.
# templates: the figures for a source with the headers of CUTLASS or CuTe, if they are higher: `memory`, which Bazel
#     reserves for all sources of a section that depends on CUTLASS; `most`, the largest measured size; and `seconds`.
# text: the kind of text that it produces for the report: `preprocessed` or `ptx`; if absent: none.
# ways: the ways of compiling a source that include it: `cxx`, `hip`, `cuda` or `cuda-monolithic`, a single call of
#     nvcc; with torch's headers also `cuda-needed` and `cuda-full`, depending on the headers that are read; `cuda-link`
#     links the device code of several sources; `triton` compiles a function of an aot.toml. A C++ source of the way
#     `cxx` needs the last action alone, unless it sees the id of the kernel; `cxx-text` is a source without an id that
#     gcc compiles.
# words: its name in the pictures and tables of a report.
# work: its name in messages.
#
# Memory: the largest resident sizes measured with CUDA 13.0 and torch 2.13 (November 2026), rounded up: for a source
#     with `torch/all.h` (cicc 2679 MiB, cudafe++ 2023, the host compiler 948), and for the largest of the sources
#     without torch, which used CUB's radix sort and a CUTLASS GEMM (cicc 660, cudafe++ 644, the host compiler 231;
#     ptxas 90). gcc needs 1222 with `torch/all.h`, and gets the same figures as clang. HIP (ROCm 7.2): 142 MiB without
#     torch, and 1139 for the host or a GPU with torch, thrust and hipCUB, the largest of clang. Bazel does not pass the
#     sizes of inputs, so a source that may include all of torch counts as if it did. Preprocessing a CUDA source needs
#     69 MiB without torch; with torch, one action preprocesses for all architectures at once, and the figure is for
#     six, of 130 MiB each.
#
# Seconds: medians of examples/relu for six architectures, and of a source with torch/all.h (CUDA 13.0, torch 2.13, a core
# of 2.5 GHz, November 2026); for `cuda-monolithic`, the sum for one architecture. HIP: of examples/relu for gfx942, and
# of a source with torch/all.h, thrust and hipCUB (ROCm 7.2).
#
# With only the headers that it needs, the source with torch/all.h took 1003 MiB and 4.8 s in cicc's front end, 1107 and
# 9.6 in cudafe++, 464 and 5.8 in the host compiler; the figure for a C++ source is less than twice the last.
#
# Linking device code reads no header: the third figures are for link-time optimization, which compiles the code.
#
# Triton 3.9: 640 MiB, most of it for its library, and 1 s for a function of ten lines, 3 s in a sandbox.
#
# Templates: one of the 72 sources of flash-attn2 took 453 s and 5.6 GB by itself (November 2026), most of it in cicc; a
#     GEMM of CUTLASS 660 MiB. The figure for Bazel lies between them, so that light sources of a section still run in
#     parallel.
#
# @unsorted-dict-items
PHASES = {
    "CudaPreprocess": {
        "joined": ["cuda-full", "cuda-needed"],
        "makes": {"arch": "device.ii", "source": "host.ii"},
        "memory": [150, 800, 800],
        "seconds": [0.4, 6.0, 10.0],
        "text": "preprocessed",
        "ways": ["cuda", "cuda-full", "cuda-needed"],
        "words": "preprocess",
        "work": "preprocessing",
    },
    "CudaDeviceFrontend": {
        "after": ["CudaPreprocess"],
        "makes": {"arch": "device.attempt.bc"},
        "memory": [800, 1200, 2900],
        "seconds": [1.3, 5.0, 18.0],
        "templates": {"memory": 2200, "most": 2200, "seconds": 20.0},
        "ways": ["cuda-full", "cuda-needed"],
        "words": "read device code",
        "work": "the device compile",
    },
    "CudaDeviceShare": {
        "after": ["CudaDeviceFrontend"],
        "archs": "all",
        "makes": {"source": "stub.c"},
        "memory": [150, 150, 150],
        "seconds": [0.1, 0.1, 0.1],
        "ways": ["cuda-full", "cuda-needed"],
        "words": "share device code",
        "work": "sharing the device code",
    },
    "CudaDeviceCompile": {
        "after": ["CudaPreprocess", "CudaDeviceShare"],
        "makes": {"arch": "device.ptx"},
        "memory": [800, 400, 400],
        "seconds": [1.3, 0.2, 0.2],
        "templates": {"memory": 2900, "most": 5600, "seconds": 60.0},
        "text": "ptx",
        "ways": ["cuda", "cuda-full", "cuda-needed"],
        "words": "device code to PTX",
        "work": "the device compile",
    },
    "CudaAssemble": {
        "after": ["CudaDeviceCompile"],
        "makes": {"arch": "device.cubin"},
        "memory": [250, 250, 250],
        "seconds": [0.2, 0.2, 0.2],
        "ways": ["cuda", "cuda-full", "cuda-needed"],
        "words": "PTX to machine code",
        "work": "assembling",
    },
    "CudaFatbinary": {
        "after": ["CudaAssemble"],
        "archs": "all+PTX",
        "compresses": True,
        "makes": {"source": "fatbin.o"},
        "memory": [150, 150, 150],
        "seconds": [0.1, 0.1, 0.1],
        "ways": ["cuda", "cuda-full", "cuda-needed"],
        "words": "bundle machine code",
        "work": "bundling the device code",
    },
    "CudaFrontend": {
        "after": ["CudaPreprocess"],
        "makes": {"source": "cudafe1.cpp"},
        "memory": [800, 1200, 2200],
        "seconds": [1.5, 10.0, 24.0],
        "templates": {"memory": 2200, "most": 2200, "seconds": 25.0},
        "ways": ["cuda", "cuda-full", "cuda-needed"],
        "words": "split host and device code",
        "work": "the separation of host and device code",
    },
    "CudaHostCompile": {
        "after": ["CudaFrontend", "CudaDeviceShare", "CudaDeviceCompile"],
        "archs": "last",
        "elsewhere": "twice",
        "makes": {"source": "host.o"},
        "memory": [400, 800, 1200],
        "seconds": [1.9, 6.0, 17.0],
        "templates": {"memory": 1200, "most": 1200, "seconds": 20.0},
        "ways": ["cuda", "cuda-full", "cuda-needed"],
        "words": "compile host code",
        "work": "the host compile",
    },
    "CudaFallback": {
        "after": ["CudaFatbinary", "CudaHostCompile"],
        "archs": "all+PTX",
        "compresses": True,
        "memory": [800, 2900, 2900],
        "names_headers": "always",
        "reads_headers": True,
        "seconds": [0.2, 0.5, 0.5],
        "ways": ["cuda-needed"],
        "words": "check, or compile anew with nvcc",
        "work": "nvcc",
    },
    "CudaDeviceLink": {
        "elsewhere": "undefined",
        "makes": {"arch": "linked.cubin"},
        "memory": [250, 250, 2900],
        "seconds": [0.2, 0.2, 20.0],
        "ways": ["cuda-link"],
        "words": "link device code",
        "work": "linking the device code",
    },
    "CudaRegisterLinked": {
        "after": ["CudaDeviceLink"],
        "archs": "all",
        "compresses": True,
        "memory": [150, 150, 150],
        "seconds": [0.2, 0.2, 0.2],
        "ways": ["cuda-link"],
        "words": "register linked code",
        "work": "registering the linked device code",
    },
    "KernelCudaCompile": {
        "archs": "all+PTX",
        "compresses": True,
        "memory": [800, 2900, 2900],
        "seconds": [6.0, 69.0, 69.0],
        "templates": {"memory": 2900, "most": 5600, "seconds": 150.0},
        "ways": ["cuda-monolithic"],
        "words": "compile with nvcc in one",
        "work": "nvcc",
    },
    "HipPreprocess": {
        "makes": {"arch": "device.hipi", "source": "host.hipi"},
        "memory": [150, 150, 150],
        "seconds": [0.4, 1.5, 1.5],
        "text": "preprocessed",
        "ways": ["hip"],
        "words": "preprocess",
        "work": "preprocessing",
    },
    "HipDeviceCompile": {
        "after": ["HipPreprocess"],
        "makes": {"arch": "device.s"},
        "memory": [400, 1200, 1200],
        "seconds": [1.4, 37.0, 37.0],
        "ways": ["hip"],
        "words": "device code to assembly",
        "work": "the device compile",
    },
    "HipAssemble": {
        "after": ["HipDeviceCompile"],
        "makes": {"arch": "device.o"},
        "memory": [150, 150, 150],
        "seconds": [0.1, 0.1, 0.1],
        "ways": ["hip"],
        "words": "assembly to machine code",
        "work": "assembling",
    },
    "HipLink": {
        "after": ["HipAssemble"],
        "elsewhere": "undefined",
        "makes": {"arch": "device.co"},
        "memory": [150, 150, 150],
        "seconds": [0.1, 0.1, 0.1],
        "ways": ["hip"],
        "words": "link device code",
        "work": "linking the device code",
    },
    "HipBundle": {
        "after": ["HipLink"],
        "archs": "all+PTX",
        "makes": {"source": "bundle.o"},
        "memory": [150, 150, 150],
        "seconds": [0.1, 0.1, 0.1],
        "ways": ["hip"],
        "words": "bundle machine code",
        "work": "bundling the device code",
    },
    "HipHostCompile": {
        "after": ["HipPreprocess"],
        "memory": [400, 1200, 1200],
        "seconds": [1.5, 35.0, 35.0],
        "ways": ["hip"],
        "words": "compile host code",
        "work": "the host compile",
    },
    "KernelCxxPreprocess": {
        "makes": {"source": "cxx.ii"},
        "memory": [150, 150, 150],
        "seconds": [0.2, 0.7, 0.7],
        "text": "preprocessed",
        "ways": ["cxx", "cxx-text"],
        "words": "preprocess",
        "work": "preprocessing",
    },
    "KernelCxxName": {
        "after": ["KernelCxxPreprocess"],
        "makes": {"source": "named.ii"},
        "memory": [150, 150, 150],
        "reads_id": True,
        "seconds": [0.1, 0.1, 0.1],
        "ways": ["cxx"],
        "words": "insert the id",
        "work": "putting the id into the text",
    },
    "KernelCxxCompile": {
        "after": ["KernelCxxPreprocess", "KernelCxxName"],
        "memory": [400, 800, 1200],
        "names_headers": "sometimes",
        "seconds": [0.2, 6.0, 13.0],
        "ways": ["cxx", "cxx-text"],
        "words": "compile C++",
        "work": "the compile",
    },
    "TritonCompile": {
        "makes": {"arch": "triton.code"},
        "memory": [800, 800, 800],
        "seconds": [3.0, 3.0, 3.0],
        "ways": ["triton"],
        "words": "compile with Triton",
        "work": "the compile by Triton",
    },
}

# The name that stands for the source in actions that link the device code of several sources.
LINKED_CODE = "device_code"

# The names of other actions in messages.
OTHER_WORK = {
    "Hipify": "the translation into HIP",
    "KernelCheck": "the ABI check",
    "KernelLink": "linking",
    "KernelSlice": "slicing the device code",
}
