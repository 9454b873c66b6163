"""Analysis tests: where actions run on machines with another CPU, all of their programs are for that."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load(":graph.bzl", "GraphInfo", "actions_of", "graph_aspect")
load(":suite.bzl", "declare_tests")

def _make(implementation):
    return analysistest.make(
        implementation,
        config_settings = {
            "//command_line_option:extra_execution_platforms": [str(Label("//toolchains:aarch64"))],
        },
        extra_target_under_test_aspects = [graph_aspect],
    )

def _compilers(actions):
    """The repositories of the compilers that some actions read."""
    files = [file.path for action in actions for file in action.inputs.to_list() if file.path.endswith("/zig/zig")]
    return sorted({path.split("/")[1].split("torch_kernels_")[-1]: None for path in files})

def _compilers_test_impl(ctx):
    env = analysistest.begin(ctx)
    nodes = analysistest.target_under_test(env)[GraphInfo].nodes
    builds = actions_of(nodes, "ZigBuild")
    asserts.true(env, len(builds) > 1, "no programs of ours")
    for build in builds:
        asserts.equals(env, "aarch64-linux-none", build.argv[build.argv.index("-target") + 1])
    asserts.equals(env, ["cc_on_aarch64"], _compilers(builds))
    compiles = actions_of(nodes, "KernelCxxCompile")
    asserts.true(env, len(compiles) > 1, "nothing is compiled")
    for compile in compiles:
        asserts.true(env, "--target=x86_64-linux-gnu" in compile.argv, "compiled for another CPU than the variant's")
    asserts.equals(env, ["cc_x86_64_on_aarch64"], _compilers(compiles + actions_of(nodes, "KernelLink")))
    return analysistest.end(env)

compilers_test = _make(_compilers_test_impl)

def machine_test_suite(name):
    """Declares the tests of machines with another CPU than the usual one.

    Args:
        name: string, the name of the test suite.
    """
    declare_tests(
        name,
        {"compilers_run_where_the_actions_do": compilers_test},
        target_under_test = "//tests/starlark/project:torch213-cxx11-cpu",
    )
