"""The kinds of actions that compile: all that the rules and the driver both need to know of them, by mnemonic.

The driver reads this file as text (py_driver/matrix/facts.py): everything is a literal.
"""

# In the order in which a page shows them:
#
# after: those whose outputs it reads; one for an architecture reads what those for the same one made.
#     Only those count that the source's way has.
# archs: which of the variant's architectures its key has in it besides its own: `all`, `all+PTX` (and which of them have
#     PTX), or the `last` one.
# compresses: true if it compresses device code, so that its key has `//rules/settings:compress` in it.
# elsewhere: how its messages tell of device code that another source defines: `undefined`, as a linker does, or `twice`, as
#     a variable that is there already; without: neither.
# joined: in which of its ways one action for the source does what elsewhere one for each architecture does; its key has
#     all of them in it.
# makes: the name of the first file that it makes, by which the driver knows it, below the directory of the source's
#     phases: once for the source, or in a directory of each architecture, or both. No two share a name. Without: the
#     object of the source.
# memory: megabytes that Bazel takes it for, see below: [without torch's headers in sight, with those that the source
#     needs, with all of them].
# names_headers: when it writes `headers.txt`, which says with which of torch's headers the source was compiled: `always`,
#     or `sometimes`, where it had a choice; without: never.
# reads_headers: true if it reads the headers though it follows others; what follows none does so anyway.
# reads_id: true if it reads the id of the kernel though it follows others; what follows none does if the source sees it.
# seconds: what the driver expects before it ran one, likewise.
# templates: what a source with the headers of CUTLASS or CuTe is taken for, if that is more: `memory`, as Bazel is told of
#     all sources of a section that depends on CUTLASS; `most`, the largest that was measured; and `seconds`.
# text: which text it makes that the report reads: `preprocessed` or `ptx`; without: none.
# ways: how sources are compiled that need it: `cxx`, `hip`, `cuda` or `cuda-monolithic`, which is all of nvcc in one;
#     with torch's headers in sight also `cuda-needed` and `cuda-full`, by which of them are read; `cuda-link` is how the
#     device code of several sources is linked; `triton` is how a function of an aot.toml is compiled. A C++ source of the way
#     `cxx` needs the last action alone, unless it sees the id of the kernel; `cxx-text` is what gcc compiles without one.
# words: what it does, for the pictures and tables of a report.
# work: what it does, for messages.
#
# Memory: the largest resident sizes that were measured with CUDA 13.0 and torch 2.13 (November 2026), rounded up: of a
# source with `torch/all.h` (cicc 2679 MiB, cudafe++ 2023, the host compiler 948), and of the largest of sources without
# torch, which used CUB's radix sort and a CUTLASS GEMM (cicc 660, cudafe++ 644, the host compiler 231; ptxas 90). gcc
# takes 1222 with `torch/all.h`, and is counted as clang. HIP
# (ROCm 7.2): 142 MiB without torch, and 1139 for the host or a GPU with torch, thrust and hipCUB; clang's largest. Bazel
# tells the size of no input, so what may include all of torch counts as if it did. To preprocess a CUDA source takes 69
# MiB without torch; with it an action does so for all architectures at once, and six are counted, of 130 MiB each.
#
# Seconds: medians of examples/relu for six architectures, and of a source with torch/all.h (CUDA 13.0, torch 2.13, a core
# of 2.5 GHz, November 2026); of nvcc in one, the sum for one architecture. HIP: of examples/relu for gfx942, and of a
# source with torch/all.h, thrust and hipCUB (ROCm 7.2).
#
# With the headers that it needs, the source with torch/all.h took 1003 MiB and 4.8 s in cicc's front end, 1107 and 9.6 in
# cudafe++, 464 and 5.8 in the host compiler; a C++ source is taken for less than twice that.
#
# Device code that is linked sees no header: the third figures are those with link-time optimization, which compiles it.
#
# Triton 3.9: 640 MiB, of which its library is most, and 1 s for a function of ten lines, 3 s in a sandbox.
#
# Templates: one of the 72 sources of flash-attn2 took 453 s and 5.6 GB by itself (November 2026), most of it in cicc; a GEMM
# of CUTLASS 660 MiB. What is told is between them, so that a section of light sources still runs side by side.
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

# What is named as the source of actions that link the device code of several sources.
LINKED_CODE = "device_code"

# What other actions do, for people.
OTHER_WORK = {
    "Hipify": "the translation into HIP",
    "KernelCheck": "the ABI check",
    "KernelLink": "linking",
    "KernelSlice": "slicing the device code",
}
