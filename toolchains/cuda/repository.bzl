"""The repository rule of a CUDA SDK: nvcc and headers, from NVIDIA's wheels, Debian's packages or NVIDIA's archives."""

load("//rules/facts:compilers.bzl", "CUDA_INCLUDES")
load("//toolchains:fetch.bzl", "fetch_parts", "reproducible")
load("//toolchains:packs.bzl", "pack_headers")
load("//toolchains/cc:flags.bzl", "CPU")
load("//toolchains/cc:stub.bzl", "soname_stubs", "symbol_stubs")

_BUILD = """load("@rules_torch_kernels//toolchains/cuda:sdk.bzl", "cuda_sdk")

package(default_visibility = ["//visibility:public"])
"""

_SDK = """
cuda_sdk(
    name = "{name}",
    archs = {archs},
    compiler_files = glob(["bin/**", "nvvm/**"], exclude = ["bin/nvcc", "nvvm/lib64/**"]),
    compress = "{compress}",
    compress_option = "{compress_option}",
    device_host = "{device_host}",
    device_runtime = {device_runtime},
    headers = ["include"],
    host = "{host}",
    host_flags = {host_flags},
    include = "include",
    libraries = {libraries},
    link_stub = "bin/crt/link.stub",
    linker_files = glob(["nvvm/lib64/**"], allow_empty = True),
    max_clang = {max_clang},
    nvcc = "bin/nvcc",
    pack = "{pack}",
    runtime = "{runtime}",
    split = {split},
    symbols = {symbols},
    version = "{version}",
)
"""

# nvcc.profile, by which nvcc finds its toolkit; NVIDIA's and Debian's own files are for their layouts.
_PROFILE = """TOP = $(_HERE_)/..
CICC_PATH = $(TOP)/nvvm/bin
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH += $(CICC_PATH):$(_HERE_):
INCLUDES += "-I$(TOP)/include" $(_SPACE_)
"""

# If nvcc's CPU differs from the code's, nvcc passes options to cudafe++ and cicc for code for Arm. These flags have
# nvcc pass them also if the CPUs are the same: its commands and their outputs are then the same on all machines.
_ARM_ON_ARM = ["-Xcudafe=--arm_cross_compiler"]

# The paths in NVIDIA's archives of libcudadevrt, and of libnvvm, which nvlink expects elsewhere.
_DEVICE_RUNTIME = "lib/libcudadevrt.a"
_NVVM = "lib/libnvvm.so.4"
_NVVM_OF_NVLINK = "nvvm/lib64/libnvvm.so"

def _sdk(rctx, lock, cpu, host, pack):
    """Makes the stubs for a CPU, and returns their target. nvcc gets the CPU from the host compiler that it calls."""

    # The archive contains host code too, for the machine's own CPU.
    has_runtime = cpu == rctx.attr.machine and rctx.path(_DEVICE_RUNTIME).exists
    [runtime] = soname_stubs(rctx, rctx.attr.zig, [lock["runtime"]], cpu)
    return _SDK.format(
        archs = json.encode(lock["archs"]),
        compress = lock.get("compress", ""),
        compress_option = lock.get("compress_option", ""),
        device_host = rctx.attr.host,
        device_runtime = "\"%s\"" % _DEVICE_RUNTIME if has_runtime else None,
        host = host,
        host_flags = json.encode(_ARM_ON_ARM if cpu == rctx.attr.machine and cpu == "aarch64" else []),
        libraries = json.encode(symbol_stubs(rctx, rctx.attr.zig, rctx.attr.symbols, lock["runtime"], cpu)),
        max_clang = lock["max_clang"],
        name = "sdk" if cpu == CPU else "sdk_" + cpu,
        pack = pack,
        runtime = runtime,
        split = lock["split"],
        symbols = "\"symbols\"" if rctx.attr.symbols else None,
        version = rctx.attr.version,
    )

def _cuda_sdk_repository_impl(rctx):
    lock = json.decode(rctx.attr.lock)
    fetch_parts(rctx, lock["archives"])
    if not rctx.path("bin/nvcc.profile").exists:
        rctx.file("bin/nvcc.profile", _PROFILE)
    if rctx.path(_NVVM).exists:
        rctx.symlink(_NVVM, _NVVM_OF_NVLINK)
    hosts = {CPU: rctx.attr.host} | rctx.attr.cross
    pack = pack_headers(rctx, ["include"], CUDA_INCLUDES)
    rctx.file("BUILD.bazel", _BUILD + "".join([_sdk(rctx, lock, cpu, host, pack) for cpu, host in hosts.items()]))
    return reproducible(rctx)

cuda_sdk_repository = repository_rule(
    implementation = _cuda_sdk_repository_impl,
    attrs = {
        "cross": attr.string_dict(doc = "Labels of the host compilers for CPUs other than the default one, by CPU."),
        "host": attr.string(mandatory = True, doc = "Label of the host compiler, as written in the repository's BUILD file."),
        "lock": attr.string(mandatory = True, doc = "JSON: one entry of toolchains/lock/cuda.json."),
        "machine": attr.string(mandatory = True, doc = "The CPU that nvcc runs on."),
        "symbols": attr.label(doc = "The table of the libraries' symbols, if there is one: toolchains/lock/*.symbols."),
        "version": attr.string(mandatory = True, doc = "E.g. `13.0`."),
        "zig": attr.label(mandatory = True, doc = "The program that makes the stubs."),
    },
    doc = "A CUDA SDK: nvcc, its headers, and stubs of its libraries.",
)
