"""The repository rule of a torch SDK: the wheel's headers, and link stubs instead of its libraries."""

load("//rules/facts:backends.bzl", "BACKENDS")
load("//rules/facts:compilers.bzl", "TORCH_INCLUDES")
load("//toolchains:fetch.bzl", "fetch", "host_python", "reproducible", "run")
load("//toolchains:gpus.bzl", "GPUS")
load("//toolchains:packs.bzl", "pack_headers")
load("//toolchains/cc:stub.bzl", "soname_stubs")
load(":needed.bzl", "write_needed_headers")

_HIPIFY = Label("//toolchains/hipify:hipify.py")

# Libraries that modules for one Python also need.
_PYTHON_LIBRARIES = ["libtorch_python.so"]

# As torch.utils.cpp_extension defines them up to torch 2.8: names of the compiler that built torch, by which pybind11 2
# decides whether modules share their types. pybind11 3 uses its own names, which are the same for gcc and clang.
_PYBIND = ["-DPYBIND11_COMPILER_TYPE=\"_gcc\"", "-DPYBIND11_STDLIB=\"_libstdcpp\"", "-DPYBIND11_BUILD_ABI=\"%s\""]

_BUILD = """load("@rules_torch_kernels//toolchains/torch:sdk.bzl", "torch_sdk")

package(default_visibility = ["//visibility:public"])

torch_sdk(
    name = "sdk",
    cpu_libraries = {cpu},
    cxx_abis = {abis},
    cxx_standard = {standard},
    gpu_libraries = {gpu},
    headers = ["include"],
    hipify = glob(["utils/hipify/*.py"]),
    includes = {includes},
    needed = "needed",
    pack = "{pack}",
    pybind_defines = {pybind},
    python_libraries = {python},
    version = "{version}",
    wheel = "{wheel}",
)
"""

def _torch_sdk_repository_impl(rctx):
    lock = json.decode(rctx.attr.lock)
    cpu = rctx.attr.cpu
    archive = lock.get("cross", {}).get(cpu, lock["archive"])
    fetch(rctx, archive, ".", strip_prefix = "torch")
    gpu = GPUS[rctx.attr.gpu]
    if gpu.rewriter:
        run(
            rctx,
            [host_python(rctx), "-I", "-S", "-B", rctx.path(_HIPIFY), "headers", rctx.path("utils"), rctx.path("include")],
            "Rewriting the headers of torch %s for HIP" % rctx.attr.version,
        )
    write_needed_headers(rctx, "include", "needed")
    libraries = [BACKENDS["cpu"]["torch_libraries"], gpu.torch_libraries, _PYTHON_LIBRARIES]
    abi = lock.get("pybind_abi")
    stubs = [soname_stubs(rctx, rctx.attr.zig, names, cpu) for names in libraries]
    rctx.file("BUILD.bazel", _BUILD.format(
        abis = json.encode(lock["abis"]),
        cpu = json.encode(stubs[0]),
        gpu = json.encode(stubs[1]),
        includes = json.encode(TORCH_INCLUDES),
        pack = pack_headers(rctx, ["include", "needed"], TORCH_INCLUDES + ["needed"]),
        pybind = json.encode(_PYBIND[:2] + [_PYBIND[2] % abi] if abi else []),
        python = json.encode(stubs[2]),
        standard = lock["cxx_standard"],
        version = rctx.attr.version,
        wheel = archive["sha256"],
    ))
    return reproducible(rctx)

torch_sdk_repository = repository_rule(
    implementation = _torch_sdk_repository_impl,
    attrs = {
        "cpu": attr.string(default = "x86_64", doc = "The CPU that the torch is for."),
        "gpu": attr.string(
            mandatory = True,
            values = GPUS.keys(),
            doc = "The backend whose GPUs the torch is for. For `rocm` the headers are those of the CUDA build, rewritten by hipify.",
        ),
        "lock": attr.string(mandatory = True, doc = "JSON: one entry of toolchains/lock/torch.json."),
        "version": attr.string(mandatory = True, doc = "E.g. `2.13`."),
        "zig": attr.label(mandatory = True, doc = "The program that makes the stubs."),
    },
    doc = "A torch SDK: headers, and stubs of the libraries.",
)
