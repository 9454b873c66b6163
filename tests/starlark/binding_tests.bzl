"""Analysis tests: modules, and sources that are bound without Python."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load(":graph.bzl", "GraphInfo", "actions_of", "graph_aspect", "mapped")
load(":suite.bzl", "declare_tests")

def _make(implementation):
    return analysistest.make(implementation, extra_target_under_test_aspects = [graph_aspect])

def _actions(env, mnemonic, group):
    nodes = analysistest.target_under_test(env)[GraphInfo].nodes
    return actions_of([node for node in nodes if node.name == group], mnemonic)

def _after(action, flag):
    argv = action.argv
    return [argv[i + 1] for i in range(len(argv) - 1) if argv[i] == flag]

_HEADERS = "rules/private/include/pybind"

def _headers_test_impl(ctx):
    env = analysistest.begin(ctx)
    compiles = _actions(env, "KernelCxxCompile", "pybind_cpu") + _actions(env, "CudaPreprocess", "pybind_cuda")
    asserts.equals(env, 2, len(compiles))
    for action in compiles:
        before_all_others = _after(action, "-I")[:2]
        asserts.equals(env, ["rules/private/include", _HEADERS], before_all_others, action.mnemonic)
        inputs = [mapped(file.path) for file in action.inputs.to_list()]
        for name in ["torch/extension.h", "torch/python.h", "pybind11/pybind11.h", "pybind11/stl.h"]:
            asserts.true(env, "%s/%s" % (_HEADERS, name) in inputs, "%s does not read %s" % (action.mnemonic, name))
        scanned = [path for path in _after(action, "--scan") if _HEADERS in path]
        asserts.equals(env, [], scanned, "words of our headers ask for headers of torch")
    return analysistest.end(env)

headers_test = _make(_headers_test_impl)

def _precompiled_test_impl(ctx):
    env = analysistest.begin(ctx)
    [compile] = _actions(env, "KernelCxxCompile", "pybind_cpu")
    header = "bazel-out/cfg/bin/rules/private/include/precompiled.pch"
    asserts.equals(env, [header], _after(compile, "--precompiled"))
    asserts.true(env, header in [mapped(file.path) for file in compile.inputs.to_list()], "the header is no input")
    for action in _actions(env, "CudaPreprocess", "pybind_cuda"):
        asserts.equals(env, [], _after(action, "--precompiled"))
    [made] = _actions(env, "KernelCxxPrecompile", "precompiled")
    words = [word for word in made.argv if "projects" in word or "tests/" in word or "EXTENSION_NAME" in word]
    asserts.equals(env, [], words, "a header for all projects names one")
    return analysistest.end(env)

precompiled_test = _make(_precompiled_test_impl)

def _binding_test_impl(ctx):
    env = analysistest.begin(ctx)
    name = "torch213-cxx11-cu130-module-binding"
    [link] = _actions(env, "KernelLink", name)
    asserts.equals(env, ["rules/private/include/exports_binding.map"], _after(link, "--version-script"))
    [check] = _actions(env, "KernelCheck", name)
    asserts.equals(env, ["_C"], _after(check, "--binding"))
    asserts.equals(env, [], _after(check, "--id") + _after(check, "--module"))
    [variant] = _actions(env, "KernelVariant", name)
    asserts.equals(env, ["pkg/_C.py", "pkg/lib_C.so"], _after(variant, "--file"))
    asserts.equals(env, [], _after(variant, "--extension"))
    [code] = _actions(env, "TemplateExpand", name)
    asserts.equals(env, {
        "@BACKEND@": "cu130",
        "@CXX_ABI@": "cxx11",
        "@LIBRARY@": "lib_C.so",
        "@MODULE@": "pkg._C",
        "@TORCH@": "2.13",
    }, code.substitutions)
    return analysistest.end(env)

binding_test = _make(_binding_test_impl)

def _module_test_impl(ctx):
    env = analysistest.begin(ctx)
    name = "torch213-cxx11-cpu-module"
    [link] = _actions(env, "KernelLink", name)
    asserts.equals(env, ["rules/private/include/exports.map"], _after(link, "--version-script"))
    [check] = _actions(env, "KernelCheck", name)
    asserts.equals(env, ["_C"], _after(check, "--module"))
    [variant] = _actions(env, "KernelVariant", name)
    asserts.equals(env, ["pkg/_C.abi3.so"], _after(variant, "--file"))
    asserts.equals(env, [], _after(variant, "--extension") + _actions(env, "TemplateExpand", name))
    return analysistest.end(env)

module_test = _make(_module_test_impl)

def _package_test_impl(ctx):
    env = analysistest.begin(ctx)
    name = "torch213-cxx11-cu130-package-3.13"
    [link] = _actions(env, "KernelLink", name)
    asserts.equals(env, ["rules/private/include/exports.map"], _after(link, "--version-script"))
    [check] = _actions(env, "KernelCheck", name)
    asserts.equals(env, 1, len(_after(check, "--id")))
    asserts.equals(env, 1, len(_after(check, "--torch-python")))
    [variant] = _actions(env, "KernelVariant", name)
    asserts.equals(env, ["__init__.py", "_ops.py"], sorted(_after(variant, "--file")))
    asserts.equals(env, [".cpython-313-x86_64-linux-gnu.so"], _after(variant, "--extension"))
    [code] = _actions(env, "TemplateExpand", name)
    asserts.equals(env, ["_ops_pybind.py.template"], [file.basename for file in code.inputs.to_list()])
    return analysistest.end(env)

package_test = _make(_package_test_impl)

def binding_test_suite(name):
    """Declares the tests of modules.

    Args:
        name: string, the name of the test suite.
    """
    declare_tests(
        name + "_binding",
        {
            "binding_is_a_python_file_and_a_library_beside_it": binding_test,
            "headers_of_a_binding_are_found_before_all_others": headers_test,
            "sources_of_a_binding_get_a_precompiled_header": precompiled_test,
        },
        target_under_test = "//tests/starlark/project:torch213-cxx11-cu130-module-binding",
    )
    declare_tests(
        name + "_module",
        {"module_is_its_library_alone": module_test},
        target_under_test = "//tests/starlark/project:torch213-cxx11-cpu-module",
    )
    declare_tests(
        name + "_package",
        {"package_for_one_python_has_an_extension_that_this_python_imports": package_test},
        target_under_test = "//tests/starlark/project:torch213-cxx11-cu130-package-3.13",
    )
    native.test_suite(name = name, tests = [name + "_binding", name + "_module", name + "_package"])
