"""Analysis tests: ways to write targets by hand that the driver does not use."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:defs.bzl", "kernel_bundle", "kernel_objects", "kernel_variant")
load(":failures.bzl", "PROJECT")
load(":suite.bzl", "declare_tests")

def _make(implementation):
    return analysistest.make(implementation, config_settings = {str(Label("//rules/settings:backend")): "cpu"})

def _values(env, mnemonic, flag):
    """The values of an option of the only action with a mnemonic."""
    [action] = [action for action in analysistest.target_actions(env) if action.mnemonic == mnemonic]
    return [action.argv[i + 1] for i in range(len(action.argv) - 1) if action.argv[i] == flag]

def _includes_test_impl(ctx):
    env = analysistest.begin(ctx)
    root = "bazel-out/cfg/bin/tests/starlark/several_packages.sources"
    expected = [root + path for path in ["/tests/starlark/project/csrc", "", "/tests/starlark", "/tests/starlark/project"]]
    asserts.equals(env, ["rules/private/include"] + expected, _values(env, "KernelCxxCompile", "-I"))
    return analysistest.end(env)

includes_test = _make(_includes_test_impl)

def _own_directory_test_impl(ctx):
    env = analysistest.begin(ctx)
    asserts.equals(env, ["__init__.py", "_ops.py"], _values(env, "KernelVariant", "--file"))
    return analysistest.end(env)

own_directory_test = _make(_own_directory_test_impl)

def _bundle_test_impl(ctx):
    env = analysistest.begin(ctx)
    asserts.equals(env, ["torch-universal"], _values(env, "KernelBundle", "--variant"))
    return analysistest.end(env)

bundle_test = _make(_bundle_test_impl)

def _selects_test_impl(ctx):
    env = analysistest.begin(ctx)
    [action] = [action for action in analysistest.target_actions(env) if action.mnemonic == "KernelCxxCompile"]
    asserts.true(env, "-DFLAG=other" in action.argv)
    return analysistest.end(env)

selects_test = _make(_selects_test_impl)

def _by_torch(flag):
    """A list of flags that differs between nine releases of torch."""
    for i in range(8):
        if not native.existing_rule("torch_2_%d" % i):
            native.config_setting(name = "torch_2_%d" % i, flag_values = {"//rules/settings:torch": "2.%d" % i})
    return select({"torch_2_%d" % i: ["%s%d" % (flag, i)] for i in range(8)} | {"//conditions:default": [flag + "other"]})

def package_test_suite(name):
    """Declares the tests of packages.

    Args:
        name: string, the name of the test suite.
    """
    native.genrule(
        name = "package_files",
        outs = [
            "__init__.py",
            "source.cpp",
        ],
        cmd = "exit 1",
        tags = ["manual"],
    )
    kernel_objects(
        name = "several_packages",
        srcs = ["source.cpp"],
        hdrs = [PROJECT + "csrc/plain.h"],
        backend = "cpu",
        includes = [
            "project/csrc/",
            "../..",
            "./",
        ],
        tags = ["manual"],
    )
    declare_tests(
        name + "_includes",
        {"include_directories_may_be_in_other_packages": includes_test},
        target_under_test = ":several_packages",
    )
    kernel_variant(
        name = "own_directory/torch-universal",
        backend = "universal",
        id = PROJECT + "id",
        metadata = "{}",
        python = ["__init__.py"],
        tags = ["manual"],
    )
    declare_tests(
        name + "_python",
        {"python_root_may_be_the_directory_of_the_package": own_directory_test},
        target_under_test = ":own_directory/torch-universal",
    )
    kernel_bundle(name = "several_kernels", tags = ["manual"], variants = ["own_directory/torch-universal"])
    declare_tests(
        name + "_bundle",
        {"variant_in_a_bundle_has_the_end_of_its_name": bundle_test},
        target_under_test = ":several_kernels",
    )
    kernel_objects(
        name = "selects",
        srcs = ["source.cpp"],
        backend = "cpu",
        cuda_flags = _by_torch("-DFLAG="),
        cxx_flags = _by_torch("-DFLAG="),
        tags = ["manual"],
    )
    declare_tests(
        name + "_selects",
        {"flags_may_have_a_select_with_many_branches_each": selects_test},
        target_under_test = ":selects",
    )
    native.test_suite(name = name, tests = [name + "_" + part for part in ["bundle", "includes", "python", "selects"]])
