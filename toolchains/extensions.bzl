"""The module extension that makes one repository for each toolchain in the lock, and one that declares them all."""

load("//toolchains/cc:flags.bzl", "CPU")
load("//toolchains/cc:repository.bzl", "cc_cross_repository", "cc_host_repository", "cc_sdk_repository")
load("//toolchains/cuda:repository.bzl", "cuda_sdk_repository")
load("//toolchains/gcc:repository.bzl", "gcc_repository")
load("//toolchains/hipify:repository.bzl", "hipify_repository")
load("//toolchains/library:repository.bzl", "library_repository")
load("//toolchains/python:repository.bzl", "python_repository")
load("//toolchains/rocm:repository.bzl", "rocm_sdk_repository")
load("//toolchains/torch:repository.bzl", "torch_sdk_repository")
load("//toolchains/tvm_ffi:repository.bzl", "tvm_ffi_repository")
load(":gpus.bzl", "GPUS", "repository_name")

_SDK_REPOSITORIES = {"cuda": cuda_sdk_repository, "rocm": rocm_sdk_repository}

_ZIG = "@torch_kernels_cc//:zig/zig"

_HUB = """load("@rules_torch_kernels//toolchains:declare.bzl", "declare_toolchains")

package(default_visibility = ["//visibility:public"])

declare_toolchains(
    name = "sdk",
    cross = {cross},
    gcc = {gcc},
    gpus = {gpus},
    torch = {torch},
)
"""

_LIBRARIES = """\"\"\"What a section's `depends` may name besides torch; each is fetched when a target first names it.\"\"\"

TVM_FFI = Label("@torch_kernels_tvm_ffi//:link")

LIBRARIES = {{
{entries}}}

# gcc's C++ compiler, which is fetched when a target asks for it; and what has it if `//rules/settings:cxx` chooses it.
GCC = Label("//:gcc")
GCC_IF_CHOSEN = Label("//:gcc_if_chosen")
"""

def _hub_impl(rctx):
    rctx.file("BUILD.bazel", _HUB.format(
        cross = json.encode(rctx.attr.cross),
        gcc = json.encode(rctx.attr.gcc),
        gpus = json.encode(rctx.attr.gpus),
        torch = json.encode(rctx.attr.torch),
    ))
    rctx.file("libraries.bzl", _LIBRARIES.format(entries = "".join([
        "    \"%s\": Label(\"@%s//:sdk\"),\n" % (name, repository)
        for name, repository in sorted(rctx.attr.libraries.items())
    ])))

_hub_repository = repository_rule(
    implementation = _hub_impl,
    attrs = {
        "cross": attr.string_list_dict(mandatory = True, doc = "Versions for other CPUs, by kind and CPU: `torch aarch64`."),
        "gcc": attr.string_list(mandatory = True, doc = "Other CPUs that gcc compiles for, e.g. `aarch64`."),
        "gpus": attr.string_list_dict(mandatory = True, doc = "Versions of each of GPUS, e.g. `13.0` of `cuda`."),
        "libraries": attr.string_dict(mandatory = True, doc = "What `depends` may name, e.g. `cutlass_3_6`, with its repository."),
        "torch": attr.string_list(mandatory = True, doc = "Torch versions, e.g. `2.13`."),
    },
    doc = "Declares every toolchain without fetching any.",
)

# Of what a user's lock may have releases.
_EXTENSIBLE = GPUS.keys() + ["cutlass", "library", "torch"]

def _symbols(kind, version, entry, lock = None):
    """Where it is recorded what the libraries of a release define.

    Args:
        kind: string, a key of GPUS, e.g. `cuda`.
        version: string, e.g. `13.0`.
        entry: dict, the release in the lock.
        lock: Label, the user's lock with the release; None for ours.

    Returns:
        Label, or None if it is not recorded.
    """
    if not entry.get("libraries"):
        return None
    name = "%s_%s.symbols" % (kind, version)
    if not lock:
        return Label("//toolchains/lock:" + name)
    return lock.relative(lock.name.removesuffix("lock.json") + name)

_extend = tag_class(
    attrs = {
        "lock": attr.label(mandatory = True, doc = "What `driver lock --matrix FILE` writes beside FILE."),
    },
    doc = "Adds releases of torch, CUDA, ROCm and CUTLASS, replaces those of the same version, and adds libraries of headers.",
)

def _toolchains_impl(mctx):
    lock = {
        kind: json.decode(mctx.read(Label("//toolchains/lock:%s.json" % kind)))
        for kind in ["cc", "gcc", "hipify", "python", "tvm_ffi"] + _EXTENSIBLE
    }
    symbols = {
        (kind, version): _symbols(kind, version, entry)
        for kind in GPUS
        for version, entry in lock[kind].items()
    }
    for module in reversed(mctx.modules):  # what is nearer to the root comes later, and wins
        for tag in module.tags.extend:
            for kind, entries in json.decode(mctx.read(tag.lock)).items():
                if kind not in _EXTENSIBLE:
                    fail("%s: a lock of your own has no `%s`: write it with `driver lock --matrix`" % (tag.lock, kind))
                lock[kind] = lock[kind] | entries
                symbols.update({(kind, version): _symbols(kind, version, one, tag.lock) for version, one in entries.items()})
    cc_sdk_repository(name = "torch_kernels_cc", lock = json.encode(lock["cc"]))
    for cpu in lock["cc"]["cross"]:
        cc_cross_repository(
            name = repository_name("cc", cpu),
            cpu = cpu,
            lock = json.encode(lock["cc"]),
            zig = _ZIG,
        )
    default = lock["cc"]["default"]
    for version in lock["cc"]["zig"]:
        if version != default:
            cc_host_repository(
                name = repository_name("host", version),
                lock = json.encode(lock["cc"]),
                version = version,
            )
    for kind, sdk_repository in _SDK_REPOSITORIES.items():
        for version, entry in lock[kind].items():
            host = repository_name("host", entry["host"]) if entry["host"] != default else "torch_kernels_cc"
            cross = {"cross": {
                cpu: "@%s//:sdk" % repository_name("cc", cpu)
                for cpu in entry.get("cross", [])
            }} if kind == "cuda" else {}
            sdk_repository(
                name = repository_name(kind, version),
                host = "@%s//:sdk" % host,
                lock = json.encode(entry),
                symbols = symbols[kind, version],
                version = version,
                zig = _ZIG,
                **cross
            )
    runtimes = mctx.read(Label("//toolchains/lock:torch_openmp.json"))
    for cpu, packages in ({CPU: lock["gcc"]["packages"]} | lock["gcc"]["cross"]).items():
        gcc_repository(
            name = "torch_kernels_gcc" if cpu == CPU else repository_name("gcc", cpu),
            cpu = cpu,
            glibc = lock["cc"]["glibc"],
            lock = json.encode(packages),
            openmp = runtimes,
            zig = _ZIG,
        )
    hipify = lock["hipify"]
    hipify_repository(
        name = "torch_kernels_hipify",
        python = json.encode(hipify["python"]),
        torch = json.encode(lock["torch"][hipify["torch"]]["archive"]),
    )
    for version, entry in lock["torch"].items():
        for kind, gpu in GPUS.items():
            torch_sdk_repository(
                name = repository_name("torch", version + gpu.torch_build),
                gpu = kind,
                lock = json.encode(entry),
                version = version,
                zig = _ZIG,
            )
        for cpu in entry.get("cross", {}):
            torch_sdk_repository(
                name = repository_name("torch", version, cpu),
                cpu = cpu,
                gpu = "cuda",
                lock = json.encode(entry),
                version = version,
                zig = _ZIG,
            )
    libraries = {}
    for version, entry in lock["cutlass"].items():
        depends = "cutlass_" + version.replace(".", "_")
        libraries[depends] = "torch_kernels_" + depends
        library_repository(name = libraries[depends], depends = depends, lock = json.encode(entry))
    for depends, entry in lock["library"].items():
        libraries[depends] = "torch_kernels_library_" + depends
        library_repository(name = libraries[depends], depends = depends, lock = json.encode(entry))
    libraries["python"] = "torch_kernels_python"
    python_repository(name = libraries["python"], lock = json.encode(lock["python"]))
    for version, entry in lock["tvm_ffi"].items():
        libraries["tvm_ffi"] = "torch_kernels_tvm_ffi"
        tvm_ffi_repository(
            name = libraries["tvm_ffi"],
            lock = json.encode(entry),
            symbols = _symbols("tvm_ffi", version, entry),
            zig = _ZIG,
        )
    _hub_repository(
        name = "torch_kernels_toolchains",
        cross = {
            kind + " " + cpu: [version for version, entry in lock[kind].items() if cpu in entry.get("cross", {})]
            for cpu in lock["cc"]["cross"]
            for kind in ["cuda", "torch"]
        },
        gcc = lock["gcc"]["cross"].keys(),
        gpus = {kind: lock[kind].keys() for kind in GPUS},
        libraries = libraries,
        torch = lock["torch"].keys(),
    )
    return mctx.extension_metadata(reproducible = True)

toolchains = module_extension(
    implementation = _toolchains_impl,
    doc = "Makes the toolchains of toolchains/lock available; each is fetched when a cell first needs it.",
    tag_classes = {"extend": _extend},
)
