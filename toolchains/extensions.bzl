"""The module extension that makes one repository for each toolchain in the lock, and one that declares them all."""

load("//toolchains/cc:repository.bzl", "cc_sdk_repository", "cuda_host_repository")
load("//toolchains/cuda:repository.bzl", "cuda_sdk_repository")
load("//toolchains/torch:repository.bzl", "torch_sdk_repository")

_ZIG = "@torch_kernels_cc//:zig/zig"

_HUB = """load("@rules_torch_kernels//toolchains:declare.bzl", "declare_toolchains")

package(default_visibility = ["//visibility:public"])

declare_toolchains(
    name = "sdk",
    cuda = {cuda},
    torch = {torch},
)
"""

def _hub_impl(rctx):
    rctx.file("BUILD.bazel", _HUB.format(
        cuda = json.encode(rctx.attr.cuda),
        torch = json.encode(rctx.attr.torch),
    ))

_hub_repository = repository_rule(
    implementation = _hub_impl,
    attrs = {
        "cuda": attr.string_list(mandatory = True, doc = "CUDA versions, e.g. `13.0`."),
        "torch": attr.string_list(mandatory = True, doc = "Torch versions, e.g. `2.13`."),
    },
    doc = "Declares every toolchain without fetching any.",
)

def repository_name(kind, version):
    """The name of a toolchain's repository.

    Args:
        kind: string, `cuda`, `host` or `torch`.
        version: string, e.g. `13.0`.

    Returns:
        string, e.g. `torch_kernels_cuda_13_0`.
    """
    return "torch_kernels_%s_%s" % (kind, version.replace(".", "_"))

def _toolchains_impl(mctx):
    lock = {
        kind: json.decode(mctx.read(Label("//toolchains/lock:%s.json" % kind)))
        for kind in ["cc", "cuda", "torch"]
    }
    cc_sdk_repository(name = "torch_kernels_cc", lock = json.encode(lock["cc"]))
    default = lock["cc"]["default"]
    for version in lock["cc"]["zig"]:
        if version != default:
            cuda_host_repository(
                name = repository_name("host", version),
                lock = json.encode(lock["cc"]),
                version = version,
            )
    for version, entry in lock["cuda"].items():
        host = repository_name("host", entry["host"]) if entry["host"] != default else "torch_kernels_cc"
        cuda_sdk_repository(
            name = repository_name("cuda", version),
            host = "@%s//:sdk" % host,
            lock = json.encode(entry),
            version = version,
            zig = _ZIG,
        )
    for version, entry in lock["torch"].items():
        torch_sdk_repository(
            name = repository_name("torch", version),
            lock = json.encode(entry),
            version = version,
            zig = _ZIG,
        )
    _hub_repository(
        name = "torch_kernels_toolchains",
        cuda = lock["cuda"].keys(),
        torch = lock["torch"].keys(),
    )
    return mctx.extension_metadata(reproducible = True)

toolchains = module_extension(
    implementation = _toolchains_impl,
    doc = "Makes the toolchains of toolchains/lock available; each is fetched when a cell first needs it.",
)
