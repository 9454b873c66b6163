"""Wrong targets, each with the test of its message: it names target, attribute, problem and remedy."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:defs.bzl", "kernel_device_link", "kernel_objects", "kernel_variant")

PROJECT = "//tests/starlark/project:"

def _failure_test_impl(ctx):
    env = analysistest.begin(ctx)
    target = str(analysistest.target_under_test(env).label)
    asserts.expect_failure(env, "%s: attribute `%s`: " % (target, ctx.attr.attribute))
    asserts.expect_failure(env, ": %s\n  help: %s" % (ctx.attr.problem, ctx.attr.help))
    return analysistest.end(env)

def _make(torch, backend, stable_abi = "none", python = "none", more = {}):
    return analysistest.make(
        _failure_test_impl,
        attrs = {
            "attribute": attr.string(mandatory = True, doc = "The attribute that the message names."),
            "help": attr.string(mandatory = True, doc = "What the message says to do."),
            "problem": attr.string(mandatory = True, doc = "What the message says is wrong."),
        },
        config_settings = {
            str(Label("//rules/settings:backend")): backend,
            str(Label("//rules/settings:cxx_abi")): "cxx11",
            str(Label("//rules/settings:python")): python,
            str(Label("//rules/settings:stable_abi")): stable_abi,
            str(Label("//rules/settings:torch")): torch,
        } | more,
        expect_failure = True,
    )

known_cell_test = _make("2.13", "cu130")
rocm_cell_test = _make("2.13+rocm", "rocm72")
arm_platform_test = _make("2.13", "cpu", more = {"//command_line_option:platforms": str(Label("//toolchains:aarch64"))})
python_cell_test = _make("2.13", "cpu", python = "3.99")
unknown_torch_test = _make("9.9", "cu130")
unknown_cuda_test = _make("2.13", "cu999")
unknown_stable_abi_test = _make("2.13", "cu130", stable_abi = "29")

DECLARE = "declare it in toolchains/matrix.toml and lock it, or choose another variant"

def failing_target(name, attribute, problem, help, test_rule = known_cell_test):
    """Declares the test of the message of the wrong target `NAME.target`.

    Args:
        name: string, of the test.
        attribute: string, the attribute that the message names.
        problem: string, the problem in the message.
        help: string, the start of the remedy in the message.
        test_rule: rule of the test, for the settings of a variant.

    Returns:
        string, the name of the test.
    """
    test_rule(
        name = name,
        size = "small",
        attribute = attribute,
        help = help,
        problem = problem,
        target_under_test = name + ".target",
    )
    return name

def failing_objects(name, attribute, problem, help, test_rule = known_cell_test, **attributes):
    """Declares a wrong kernel_objects and the test of its message.

    Args:
        name: string, of the test.
        attribute: string, the attribute that the message names.
        problem: string, the problem in the message.
        help: string, the start of the remedy in the message.
        test_rule: rule of the test, for the settings of a variant.
        **attributes: attributes of the target.

    Returns:
        string, the name of the test.
    """
    values = {"backend": "cuda", "srcs": [PROJECT + "csrc/plain.cpp"]} | attributes
    kernel_objects(name = name + ".target", tags = ["manual"], **values)
    return failing_target(name, attribute, problem, help, test_rule)

def failing_variant(name, attribute, problem, help, test_rule = known_cell_test, **attributes):
    """Declares a wrong kernel_variant and the test of its message.

    Args:
        name: string, of the test.
        attribute: string, the attribute that the message names.
        problem: string, the problem in the message.
        help: string, the start of the remedy in the message.
        test_rule: rule of the test, for the settings of a variant.
        **attributes: attributes of the target.

    Returns:
        string, the name of the test.
    """
    values = {
        "backend": "cpu",
        "cxx_abi": "cxx11",
        "metadata": "{}",
        "objects": [PROJECT + "plain_cpu"],
        "python": [PROJECT + "torch-ext/fixture/__init__.py"],
        "python_root": "torch-ext/fixture",
        "torch": "2.13",
    } | attributes
    kernel_variant(name = name + ".target", id = PROJECT + "id", tags = ["manual"], **values)
    return failing_target(name, attribute, problem, help, test_rule)

def failing_device_link(name, problem, help, objects):
    """Declares a wrong kernel_device_link and the test of its message.

    Args:
        name: string, of the test.
        problem: string, the problem in the message.
        help: string, the start of the remedy in the message.
        objects: list of string, labels of its kernel_objects.

    Returns:
        string, the name of the test.
    """
    kernel_device_link(name = name + ".target", objects = objects, tags = ["manual"])
    return failing_target(name, "objects", problem, help)

def failing_module(name, **attributes):
    """Declares a wrong kernel_variant that is a module, and the test of its message.

    Args:
        name: string, of the test.
        **attributes: see `failing_variant`.

    Returns:
        string, the name of the test.
    """
    return failing_variant(name, **({"module": "pkg._C", "python": [], "python_root": ""} | attributes))
