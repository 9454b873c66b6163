"""kernel_bundle: the directory of all variants."""

load(":actions.bzl", "ACTION")
load(":attrs.bzl", "tool")
load(":errors.bzl", "fail_with")
load(":providers.bzl", "KernelVariantInfo")
load(":transitions.bzl", "neutral_transition")

def _variants(ctx):
    """The variants of a bundle; fails if there are none, or two have one name."""
    if not ctx.attr.variants:
        fail_with(ctx.label, "variants", "a bundle without variants", "name at least one kernel_variant")
    owners = {}
    for target in ctx.attr.variants:
        other = owners.setdefault(target[KernelVariantInfo].variant, target)
        if other.label != target.label:
            problem = "`%s` and `%s` would be one directory" % (other.label, target.label)
            fail_with(ctx.label, "variants", problem, "put variants of several kernels into several bundles")
    return [target[KernelVariantInfo] for target in owners.values()]

def _kernel_bundle_impl(ctx):
    variants = _variants(ctx)
    directory = ctx.actions.declare_directory(ctx.label.name)
    arguments = ctx.actions.args()
    arguments.use_param_file("@%s")
    arguments.set_param_file_format("multiline")
    arguments.add("bundle")
    arguments.add_all("--out", [directory], expand_directories = False)
    for variant in variants:
        arguments.add("--variant", variant.variant)
        arguments.add_all([variant.directory], expand_directories = False)
    ctx.actions.run(
        executable = ctx.executable._assemble,
        arguments = [arguments],
        inputs = [variant.directory for variant in variants],
        outputs = [directory],
        mnemonic = "KernelBundle",
        progress_message = "Bundling the variants of %{label}",
        **ACTION
    )
    return [
        DefaultInfo(files = depset([directory])),
        OutputGroupInfo(
            steps = depset(transitive = [target[OutputGroupInfo].steps for target in ctx.attr.variants]),
            variants = depset([variant.directory for variant in variants]),
        ),
    ]

kernel_bundle = rule(
    implementation = _kernel_bundle_impl,
    cfg = neutral_transition,
    attrs = {
        "variants": attr.label_list(
            providers = [KernelVariantInfo],
            mandatory = True,
            doc = "The kernel_variants; each sets its own configuration.",
        ),
        "_assemble": tool("assemble"),
    },
    doc = "A directory with every variant under its identifier: the `build/` of a kernel repository.",
)
