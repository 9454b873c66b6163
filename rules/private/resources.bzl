"""What Bazel takes a compile step for, in memory and processors, when it decides how many to run at once.

The figures are the largest resident sizes that were measured with CUDA 13.0 and torch 2.13 (November 2026), rounded up:
of a source with `torch/all.h` (cicc 2679 MiB, cudafe++ 2023, the host compiler 948), and of the largest of sources
without torch, which used CUB's radix sort and a CUTLASS GEMM (cicc 660, cudafe++ 644, the host compiler 231; ptxas 90).
HIP (ROCm 7.2): 142 MiB without torch, and 1139 for the host or a GPU with torch, thrust and hipCUB; clang's largest.
Bazel tells the size of no input, so what may include all of torch counts as if it did. A source is preprocessed for all
architectures at once; six are counted, of 69 MiB each, or 130 with all of torch.
"""

def _one(megabytes):
    return {"cpu": 1, "memory": megabytes}

def _preprocessor(_os, _inputs):
    return _one(150)

def _preprocessors(_os, _inputs):
    return _one(450)

def _torch_preprocessors(_os, _inputs):
    return _one(800)

def _assembler(_os, _inputs):
    return _one(250)

def _compiler(_os, _inputs):
    return _one(400)

def _front(_os, _inputs):
    return _one(800)

def _torch_compiler(_os, _inputs):
    return _one(1200)

def _torch_front(_os, _inputs):
    return _one(2200)

def _torch_device(_os, _inputs):
    return _one(2900)

_PLAIN = {
    "CudaAssemble": _assembler,
    "CudaDeviceCompile": _front,
    "CudaFatbinary": _preprocessor,
    "CudaFrontend": _front,
    "CudaHostCompile": _compiler,
    "CudaPreprocess": _preprocessors,
    "HipAssemble": _preprocessor,
    "HipBundle": _preprocessor,
    "HipDeviceCompile": _compiler,
    "HipHostCompile": _compiler,
    "HipLink": _preprocessor,
    "HipPreprocess": _preprocessor,
    "KernelCudaCompile": _front,
    "KernelCxxCompile": _compiler,
    "KernelCxxPreprocess": _preprocessor,
}

_TORCH = _PLAIN | {
    "CudaDeviceCompile": _torch_device,
    "CudaFrontend": _torch_front,
    "CudaHostCompile": _torch_compiler,
    "CudaPreprocess": _torch_preprocessors,
    "HipDeviceCompile": _torch_compiler,
    "HipHostCompile": _torch_compiler,
    "KernelCudaCompile": _torch_device,
    "KernelCxxCompile": _torch_compiler,
}

def resources(mnemonic, job):
    """The `resource_set` of an action that compiles.

    Args:
        mnemonic: string, of the action.
        job: struct of what all sources of a target have in common; see kernel_objects.bzl.

    Returns:
        function of the operating system and the number of inputs.
    """
    whole_torch = job.torch and not job.target_version
    return (_TORCH if whole_torch else _PLAIN)[mnemonic]
