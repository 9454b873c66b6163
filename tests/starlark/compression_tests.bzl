"""Tests of how device code is compressed: fatbinary is told, and nothing else is."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load(":graph.bzl", "GraphInfo", "graph_aspect")
load(":suite.bzl", "declare_tests")

_FLAG = "--fatbinary"
_COMPRESSES = ["CudaFallback", "CudaFatbinary", "KernelCudaCompile"]
_BALANCE = ["--compress-all", "--compress-mode=balance"]
_SIZE = ["--compress-all", "--compress-mode=size"]

def _told(argv):
    return [word for flag, word in zip(argv[:-1], argv[1:]) if flag == _FLAG]

def _expect(env, expected):
    """Expects that all actions which call fatbinary tell it one thing, and that no other has a word of it."""
    nodes = analysistest.target_under_test(env)[GraphInfo].nodes
    seen = {}
    for action in [action for node in nodes for action in node.actions if action.argv]:
        if action.mnemonic in _COMPRESSES:
            seen[action.mnemonic] = None
            asserts.equals(env, expected, _told(action.argv), action.mnemonic)
        else:
            words = [word for word in action.argv if "compress" in word or word == _FLAG]
            asserts.equals(env, [], words, action.mnemonic)
    asserts.equals(env, _COMPRESSES, sorted(seen))

def _stated(env):
    """What metadata.json says of the compression; None if nothing."""
    nodes = analysistest.target_under_test(env)[GraphInfo].nodes
    [text] = [
        action.content
        for node in nodes
        for action in node.actions
        if action.mnemonic == "FileWrite" and action.outputs.to_list()[0].basename == "metadata.json"
    ]
    return json.decode(text).get("compress")

def _release_test_impl(ctx):
    env = analysistest.begin(ctx)
    _expect(env, _BALANCE)
    asserts.equals(env, None, _stated(env))
    return analysistest.end(env)

release_test = analysistest.make(_release_test_impl, extra_target_under_test_aspects = [graph_aspect])

def _size_test_impl(ctx):
    env = analysistest.begin(ctx)
    _expect(env, _SIZE)
    asserts.equals(env, "size", _stated(env))
    return analysistest.end(env)

size_test = analysistest.make(
    _size_test_impl,
    config_settings = {str(Label("//rules/settings:compress")): "size"},
    extra_target_under_test_aspects = [graph_aspect],
)

def _cpu_test_impl(ctx):
    env = analysistest.begin(ctx)
    asserts.equals(env, None, _stated(env))
    return analysistest.end(env)

cpu_test = analysistest.make(
    _cpu_test_impl,
    config_settings = {str(Label("//rules/settings:compress")): "size"},
    extra_target_under_test_aspects = [graph_aspect],
)

def compression_test_suite(name):
    """Declares the tests of how device code is compressed.

    Args:
        name: string, the name of the test suite.
    """
    declare_tests(
        name + "_actions",
        {
            "fatbinary_alone_is_told_the_choice": size_test,
            "fatbinary_alone_is_told_what_the_release_says": release_test,
        },
        target_under_test = "//tests/starlark/project:torch213-cxx11-cu130",
    )
    declare_tests(
        name + "_cpu",
        {"a_variant_for_the_cpu_says_no_choice": cpu_test},
        target_under_test = "//tests/starlark/project:torch213-cxx11-cpu",
    )
    native.test_suite(name = name, tests = [name + "_actions", name + "_cpu"])
