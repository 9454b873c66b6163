"""The kinds of actions that compile: all that the rules and the driver both need to know of them, by mnemonic.

The driver reads this file as text (py_driver/building/phases.py): `PHASES` is a literal, and nothing follows it.
"""

# In the order in which a page shows them:
#
# after: those whose outputs it reads; one for an architecture reads what those for the same one made.
# archs: which of the variant's architectures its key has in it besides its own: `all`, `all+PTX` (and which of them have
#     PTX), the `last` one, or the `lowest` of the same major number, if PTX is shared with that.
# makes: the name of the first file that it makes, by which the driver knows it, below the directory of the source's
#     phases: once for the source, or in a directory of each architecture, or both. No two share a name. Without: the
#     object of the source.
# memory: megabytes that Bazel takes it for, see below: [without torch's headers in sight, with all of them].
# seconds: what the driver expects before it ran one, likewise.
# way: how a source is compiled that needs it: `cxx`, `hip`, `cuda` or `cuda-monolithic`, which is all of nvcc in one. A
#     C++ source needs the last action alone, unless it sees the id of the kernel.
#
# Memory: the largest resident sizes that were measured with CUDA 13.0 and torch 2.13 (November 2026), rounded up: of a
# source with `torch/all.h` (cicc 2679 MiB, cudafe++ 2023, the host compiler 948), and of the largest of sources without
# torch, which used CUB's radix sort and a CUTLASS GEMM (cicc 660, cudafe++ 644, the host compiler 231; ptxas 90). gcc
# takes 1222 with `torch/all.h`, and is counted as clang. HIP
# (ROCm 7.2): 142 MiB without torch, and 1139 for the host or a GPU with torch, thrust and hipCUB; clang's largest. Bazel
# tells the size of no input, so what may include all of torch counts as if it did. A CUDA source is preprocessed for all
# architectures at once; six are counted, of 69 MiB each, or 130 with all of torch.
#
# Seconds: medians of examples/relu for six architectures, and of a source with torch/all.h (CUDA 13.0, torch 2.13, a core
# of 2.5 GHz, November 2026); of nvcc in one, the sum for one architecture. HIP: of examples/relu for gfx942, and of a
# source with torch/all.h, thrust and hipCUB (ROCm 7.2).
#
# @unsorted-dict-items
PHASES = {
    "CudaPreprocess": {
        "archs": "all",
        "makes": {"source": "host.ii"},
        "memory": [450, 800],
        "seconds": [2.5, 10.0],
        "way": "cuda",
    },
    "CudaDeviceCompile": {
        "after": ["CudaPreprocess"],
        "archs": "lowest",
        "makes": {"arch": "device.ptx"},
        "memory": [800, 2900],
        "seconds": [1.3, 24.0],
        "way": "cuda",
    },
    "CudaAssemble": {
        "after": ["CudaDeviceCompile"],
        "makes": {"arch": "device.cubin"},
        "memory": [250, 250],
        "seconds": [0.2, 0.2],
        "way": "cuda",
    },
    "CudaFatbinary": {
        "after": ["CudaAssemble"],
        "archs": "all+PTX",
        "makes": {"source": "fatbin.o"},
        "memory": [150, 150],
        "seconds": [0.1, 0.1],
        "way": "cuda",
    },
    "CudaFrontend": {
        "after": ["CudaPreprocess"],
        "makes": {"source": "cudafe1.cpp"},
        "memory": [800, 2200],
        "seconds": [1.5, 24.0],
        "way": "cuda",
    },
    "CudaHostCompile": {
        "after": ["CudaFrontend", "CudaDeviceCompile"],
        "archs": "last",
        "memory": [400, 1200],
        "seconds": [1.9, 17.0],
        "way": "cuda",
    },
    "KernelCudaCompile": {
        "archs": "all+PTX",
        "memory": [800, 2900],
        "seconds": [6.0, 69.0],
        "way": "cuda-monolithic",
    },
    "HipPreprocess": {
        "makes": {"arch": "device.hipi", "source": "host.hipi"},
        "memory": [150, 150],
        "seconds": [0.4, 1.5],
        "way": "hip",
    },
    "HipDeviceCompile": {
        "after": ["HipPreprocess"],
        "makes": {"arch": "device.s"},
        "memory": [400, 1200],
        "seconds": [1.4, 37.0],
        "way": "hip",
    },
    "HipAssemble": {
        "after": ["HipDeviceCompile"],
        "makes": {"arch": "device.o"},
        "memory": [150, 150],
        "seconds": [0.1, 0.1],
        "way": "hip",
    },
    "HipLink": {
        "after": ["HipAssemble"],
        "makes": {"arch": "device.co"},
        "memory": [150, 150],
        "seconds": [0.1, 0.1],
        "way": "hip",
    },
    "HipBundle": {
        "after": ["HipLink"],
        "archs": "all+PTX",
        "makes": {"source": "bundle.o"},
        "memory": [150, 150],
        "seconds": [0.1, 0.1],
        "way": "hip",
    },
    "HipHostCompile": {
        "after": ["HipPreprocess"],
        "memory": [400, 1200],
        "seconds": [1.5, 35.0],
        "way": "hip",
    },
    "KernelCxxPreprocess": {
        "makes": {"source": "cxx.ii"},
        "memory": [150, 150],
        "seconds": [0.2, 0.7],
        "way": "cxx",
    },
    "KernelCxxCompile": {
        "after": ["KernelCxxPreprocess"],
        "memory": [400, 1200],
        "seconds": [0.2, 13.0],
        "way": "cxx",
    },
}
