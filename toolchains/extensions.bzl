"""The module extension: a repository for each toolchain in the lock, and a repository that declares them all."""

load("//toolchains/cc:flags.bzl", "CPU", "MACHINES", "machine")
load("//toolchains/cc:repository.bzl", "cc_cross_repository", "cc_host_repository", "cc_sdk_repository")
load("//toolchains/cpython:repository.bzl", "cpython_repository", "installed_python_repository")
load("//toolchains/cuda:repository.bzl", "cuda_sdk_repository")
load("//toolchains/gcc:repository.bzl", "gcc_repository")
load("//toolchains/hipify:repository.bzl", "hipify_repository")
load("//toolchains/library:repository.bzl", "library_repository")
load("//toolchains/python:repository.bzl", "python_repository")
load("//toolchains/rocm:repository.bzl", "rocm_sdk_repository")
load("//toolchains/torch:repository.bzl", "torch_sdk_repository")
load("//toolchains/triton:repository.bzl", "triton_repository")
load("//toolchains/tvm_ffi:repository.bzl", "tvm_ffi_repository")
load(":declare.bzl", "cc_repository")
load(":gpus.bzl", "GPUS", "repository_name")
load(":machines.bzl", "lock_for")
load(":own_lock.bzl", "own_lock")

_SDK_REPOSITORIES = {"cuda": cuda_sdk_repository, "rocm": rocm_sdk_repository}

_ZIG = "@%s//:zig/zig"
_SDK = "@%s//:sdk"

_HUB = """load("@rules_torch_kernels//toolchains:declare.bzl", "declare_toolchains")

package(default_visibility = ["//visibility:public"])

declare_toolchains(
    name = "sdk",
    cpython = {cpython},
    cross = {cross},
    gpus = {gpus},
    torch = {torch},
)
"""

_LIBRARIES = """\"\"\"The libraries that a section's `depends` may name besides torch; Bazel fetches each when a target first names it.\"\"\"

# The libraries of tvm-ffi for the linker, by release.
TVM_FFI = {{
{tvm_ffi}}}

# The symbols of the variant's Python.
CPYTHON_SYMBOLS = Label("//:cpython_symbols")

# The compilers of kernels in Triton, by release.
TRITON = {{
{triton}}}

LIBRARIES = {{
    "cpython": Label("//:cpython"),
{entries}}}

# gcc's C++ compiler, which Bazel fetches when a target asks for it; and the target that has it if
# `//rules/settings:cxx` chooses gcc.
GCC = Label("//:gcc")
GCC_IF_CHOSEN = Label("//:gcc_if_chosen")
"""

_MACHINE = """\"\"\"The CPU of the build machine, for which Bazel builds unless `--platforms` names another one.\"\"\"

MACHINE = "{cpu}"
"""

def _hub_impl(rctx):
    rctx.file("BUILD.bazel", _HUB.format(
        cpython = json.encode(rctx.attr.cpython),
        cross = json.encode(rctx.attr.cross),
        gpus = json.encode(json.decode(rctx.attr.gpus)),
        torch = json.encode(rctx.attr.torch),
    ))
    rctx.file("machine.bzl", _MACHINE.format(cpu = rctx.attr.machine))
    rctx.file("libraries.bzl", _LIBRARIES.format(entries = "".join([
        "    \"%s\": Label(\"@%s//:sdk\"),\n" % (name, repository)
        for name, repository in sorted(rctx.attr.libraries.items())
    ]), triton = "".join([
        "    \"%s\": Label(\"@%s//:sdk\"),\n" % (version, repository_name("triton", version))
        for version in rctx.attr.triton
    ]), tvm_ffi = "".join([
        "    \"%s\": Label(\"@torch_kernels_tvm_ffi//:link\"),\n" % version
        for version in rctx.attr.tvm_ffi
    ])))

_hub_repository = repository_rule(
    implementation = _hub_impl,
    attrs = {
        "cpython": attr.string_dict(mandatory = True, doc = "The repositories of Pythons, by their name in variants: `3.13`."),
        "cross": attr.string_list_dict(mandatory = True, doc = "Versions for other CPUs, by kind and CPU: `torch aarch64`."),
        "gpus": attr.string(mandatory = True, doc = "JSON: the versions for each of GPUS and each of MACHINES, e.g. `13.0` for `cuda`."),
        "libraries": attr.string_dict(mandatory = True, doc = "The repositories of the libraries that `depends` may name, e.g. `cutlass_3_6`."),
        "machine": attr.string(mandatory = True, doc = "The CPU of the build machine."),
        "torch": attr.string_list(mandatory = True, doc = "Torch versions, e.g. `2.13`."),
        "triton": attr.string_list(mandatory = True, doc = "Releases of Triton, e.g. `3.9`."),
        "tvm_ffi": attr.string_list(mandatory = True, doc = "Releases of tvm-ffi, e.g. `0.1`."),
    },
    doc = "Declares every toolchain without fetching any.",
)

# The kinds whose releases a user's lock may add.
_EXTENSIBLE = GPUS.keys() + ["cutlass", "library", "torch"]

def _symbols(kind, version, entry, lock = None):
    """The table of the symbols that the libraries of a release define.

    Args:
        kind: string, a key of GPUS, e.g. `cuda`.
        version: string, e.g. `13.0`.
        entry: dict, the release in the lock.
        lock: Label, the user's lock with the release; None for the rules' own lock.

    Returns:
        Label, or None if there is no table.
    """
    if not entry.get("libraries"):
        return None
    name = "%s_%s.symbols" % (kind, version)
    if not lock:
        return Label("//toolchains/lock:" + name)
    return lock.relative(lock.name.removesuffix("lock.json") + name)

_extend = tag_class(
    attrs = {
        "lock": attr.label(mandatory = True, doc = "The lock that `driver lock --matrix FILE` writes beside FILE."),
    },
    doc = "Adds or replaces releases of torch, CUDA, ROCm and CUTLASS, and adds libraries of headers.",
)

_installed = tag_class(
    attrs = {
        "pythons": attr.label(mandatory = True, doc = "JSON: directories with headers and symbols of Pythons, by their name in variants."),
    },
    doc = "Adds Pythons that are installed on this machine, for modules that pybind11 binds.",
)

def _cpythons(mctx, lock):
    """Creates the repositories of Pythons, and returns their names by the Pythons' names in variants."""
    found = {}
    for version, entry in lock.items():
        found[version] = repository_name("cpython", version)
        cpython_repository(
            name = found[version],
            lock = json.encode(entry),
            symbols = Label("//toolchains/lock:cpython_%s.symbols" % version),
            version = version,
        )
    for module in mctx.modules:
        for tag in module.tags.installed:
            for key, directory in json.decode(mctx.read(tag.pythons)).items():
                if key not in found:
                    found[key] = repository_name("cpython", key)
                    installed_python_repository(name = found[key], directory = directory)
    return found

def _compilers(machine, lock, maker, zig, openmp):
    """Creates the repositories of the C++ compilers that run on a machine, and of its hipify.

    Args:
        machine: string, its CPU.
        lock: dict, the lock for it.
        maker: string, label of the program that makes stubs, if the machine's compiler does not run on the build
            machine; else None.
        zig: string, label of the program that makes stubs.
        openmp: string, the content of toolchains/lock/torch_openmp.json.
    """
    cc = json.encode(lock["cc"])
    cc_sdk_repository(name = cc_repository(machine, machine), cpu = machine, lock = cc, maker = maker)
    for cpu in [other for other in MACHINES if other != machine]:
        cc_cross_repository(
            name = cc_repository(cpu, machine),
            cpu = cpu,
            lock = cc,
            maker = zig,
            zig = _ZIG % cc_repository(machine, machine),
        )
    for version in lock["cc"]["zig"]:
        if version != lock["cc"]["default"]:
            cc_host_repository(
                name = repository_name("host", version, machine = machine),
                lock = cc,
                version = version,
            )
    for cpu in MACHINES:
        gcc_repository(
            name = repository_name("gcc", cpu = "" if cpu == CPU else cpu, machine = machine),
            cpu = cpu,
            glibc = lock["cc"]["glibc"],
            lock = json.encode(lock["gcc"]["packages"] if cpu == CPU else lock["gcc"]["cross"][cpu]),
            machine = machine,
            openmp = openmp,
            zig = zig,
        )
    hipify = lock["hipify"]
    hipify_repository(
        name = repository_name("hipify", machine = machine),
        cpu = machine,
        python = json.encode(hipify["python"]),
        torch = json.encode(lock["torch"][hipify["torch"]]["archive"]),
    )

def _gpu_compilers(machine, kind, lock, symbols, zig):
    """Creates the repositories of a kind's GPU compilers that run on a machine.

    Args:
        machine: string, its CPU.
        kind: string, a key of GPUS.
        lock: dict, the lock for it.
        symbols: dict of Label, the tables of the libraries' symbols, by kind and version.
        zig: string, label of the program that makes stubs.
    """
    usual = _SDK % cc_repository(CPU, machine)
    for version, entry in lock[kind].items():
        default = entry["host"] == lock["cc"]["default"]
        more = {
            "cross": {cpu: _SDK % cc_repository(cpu, machine) for cpu in entry.get("cross", [])},
            "machine": machine,
        } if kind == "cuda" else {
            "hipify": _SDK % repository_name("hipify", machine = machine),
            "system": usual,
        }
        _SDK_REPOSITORIES[kind](
            name = repository_name(kind, version, machine = machine),
            host = usual if default else _SDK % repository_name("host", entry["host"], machine = machine),
            lock = json.encode(entry),
            symbols = symbols[kind, version],
            version = version,
            zig = zig,
            **more
        )

def _toolchains_impl(mctx):
    lock = {
        kind: json.decode(mctx.read(Label("//toolchains/lock:%s.json" % kind)))
        for kind in ["cc", "cpython", "gcc", "hipify", "machines", "python", "triton", "tvm_ffi"] + _EXTENSIBLE
    }
    symbols = {
        (kind, version): _symbols(kind, version, entry)
        for kind in GPUS
        for version, entry in lock[kind].items()
    }
    for module in reversed(mctx.modules):  # modules nearer to the root come later, and win
        for tag in module.tags.extend:
            for kind, entries in own_lock(tag.lock, mctx.read(tag.lock), _EXTENSIBLE).items():
                lock[kind] = lock[kind] | entries
                symbols.update({(kind, version): _symbols(kind, version, one, tag.lock) for version, one in entries.items()})
    here = machine(mctx.os)
    zig = _ZIG % cc_repository(here, here)
    gpus = {kind: {} for kind in GPUS}
    for one in MACHINES:
        own = lock_for(one, lock)
        _compilers(one, own, zig if one != here else None, zig, mctx.read(Label("//toolchains/lock:torch_openmp.json")))
        for kind in GPUS:
            _gpu_compilers(one, kind, own, symbols, zig)
            gpus[kind][one] = own[kind].keys()
    for version, entry in lock["torch"].items():
        for kind, gpu in GPUS.items():
            torch_sdk_repository(
                name = repository_name("torch", version + gpu.torch_build),
                gpu = kind,
                lock = json.encode(entry),
                version = version,
                zig = zig,
            )
        for cpu in entry.get("cross", {}):
            torch_sdk_repository(
                name = repository_name("torch", version, cpu),
                cpu = cpu,
                gpu = "cuda",
                lock = json.encode(entry),
                version = version,
                zig = zig,
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
            zig = zig,
        )
    for version, entry in lock["triton"].items():
        triton_repository(
            name = repository_name("triton", version),
            cpu = CPU,
            lock = json.encode(entry),
            python = json.encode(lock["hipify"]["python"]),
        )
    _hub_repository(
        name = "torch_kernels_toolchains",
        cpython = _cpythons(mctx, lock["cpython"]),
        cross = {
            kind + " " + cpu: [version for version, entry in lock[kind].items() if cpu in entry.get("cross", {})]
            for cpu in lock["cc"]["cross"]
            for kind in ["cuda", "torch"]
        },
        gpus = json.encode(gpus),
        libraries = libraries,
        machine = here,
        torch = lock["torch"].keys(),
        triton = lock["triton"].keys(),
        tvm_ffi = lock["tvm_ffi"].keys(),
    )
    return mctx.extension_metadata(reproducible = True)

toolchains = module_extension(
    implementation = _toolchains_impl,
    arch_dependent = True,
    doc = "Declares the toolchains of toolchains/lock; Bazel fetches each when a variant first needs it.",
    tag_classes = {"extend": _extend, "installed": _installed},
)
