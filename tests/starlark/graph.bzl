"""An aspect that shows an analysis test what a target is made of: all configured targets below it and their actions."""

GraphInfo = provider(
    doc = "The configured targets that a target is made of, itself first.",
    fields = {
        "nodes": "list of struct: `name`, `configuration` (string, its output directory), `actions`, " +
                 "`objects` (for kernel_objects: list of path), `parts` (dict: name of a dependency to its node)",
    },
)

_EDGES = ["variants", "objects", "id", "_abi_check", "_assemble", "_compile", "_link", "_precompiled", "triton"]

def _targets(value):
    return value if type(value) == type([]) else [value] if value else []

def _graph_impl(target, ctx):
    direct = []
    below = {}
    for edge in _EDGES:
        for dependency in _targets(getattr(ctx.rule.attr, edge, None)):
            direct.append(dependency[GraphInfo].nodes[0])
            for node in dependency[GraphInfo].nodes:
                below[(node.name, node.configuration)] = node
    node = struct(
        actions = target.actions,
        configuration = ctx.bin_dir.path,
        name = target.label.name,
        objects = [file.path for file in target[DefaultInfo].files.to_list()] if ctx.rule.kind == "kernel_objects" else [],
        parts = {dependency.name: dependency for dependency in direct},
    )
    return [GraphInfo(nodes = [node] + below.values())]

graph_aspect = aspect(
    implementation = _graph_impl,
    attr_aspects = _EDGES,
    doc = "Collects GraphInfo along the attributes by which the rules refer to each other.",
)

def actions_of(nodes, mnemonic, output = ""):
    """The actions of some nodes that have a mnemonic.

    Args:
        nodes: list of node, see GraphInfo.
        mnemonic: string, e.g. `KernelLink`.
        output: string, the end of the path of the first output; empty for any.

    Returns:
        list of Action.
    """
    return [
        action
        for node in nodes
        for action in node.actions
        if action.mnemonic == mnemonic and action.outputs.to_list()[0].path.endswith(output)
    ]

def mapped(path):
    """A path as path mapping writes it, for comparison with arguments, in which Bazel shows mapped paths.

    Args:
        path: string, e.g. `bazel-out/k8-fastbuild/bin/relu.o`.

    Returns:
        string, e.g. `bazel-out/cfg/bin/relu.o`; a path outside of bazel-out as it is.
    """
    return "/".join(["bazel-out", "cfg"] + path.split("/")[2:]) if path.startswith("bazel-out/") else path
