"""Analysis tests: which variants share which configured targets, and so compile once."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load(":graph.bzl", "GraphInfo", "actions_of", "graph_aspect")
load(":suite.bzl", "declare_tests")

def _make(implementation):
    return analysistest.make(implementation, extra_target_under_test_aspects = [graph_aspect])

def _variants(env):
    bundle = analysistest.target_under_test(env)[GraphInfo].nodes[0]
    return bundle.parts

def _configurations(env, group):
    """For each variant that links a group, the group's configuration."""
    return {
        name.removesuffix("-cxx11"): variant.parts[group].configuration
        for name, variant in _variants(env).items()
        if group in variant.parts
    }

def _count(env, group):
    return len({configuration: None for configuration in _configurations(env, group).values()})

def _paths(env, variant, group):
    paths = _variants(env)[variant].parts[group].objects
    asserts.true(env, len(paths) > 0, "%s has no objects in %s" % (group, variant))
    return paths

def _torch_free_cuda_test_impl(ctx):
    env = analysistest.begin(ctx)
    old = _paths(env, "torch213-cxx11-cu130", "plain_cuda")
    asserts.equals(env, old, _paths(env, "torch215-cxx11-cu130", "plain_cuda"))
    asserts.equals(env, old, _paths(env, "torch-stable-abi29-cu130", "plain_cuda"))
    asserts.true(env, old != _paths(env, "torch213-cxx11-cu132", "plain_cuda"), "cu130 and cu132 share objects")
    asserts.equals(env, old, _paths(env, "torch26-cxx11-cu130", "plain_cuda"))
    asserts.equals(env, 3, _count(env, "plain_cuda"), "one configuration for each of two CUDA versions, and for cxx98")
    return analysistest.end(env)

torch_free_cuda_test = _make(_torch_free_cuda_test_impl)

def _torch_cuda_test_impl(ctx):
    env = analysistest.begin(ctx)
    old = _paths(env, "torch213-cxx11-cu130", "torch_cuda")
    asserts.true(env, old != _paths(env, "torch215-cxx11-cu130", "torch_cuda"), "torch 2.13 and 2.15 share objects")
    asserts.true(env, old != _paths(env, "torch213-cxx11-cu132", "torch_cuda"), "cu130 and cu132 share objects")
    plain = _paths(env, "torch215-cxx11-cu130", "torch_cuda")
    asserts.true(env, plain != _paths(env, "torch-stable-abi29-cu130", "torch_cuda"), "the stable ABI shares objects")
    asserts.equals(env, 4, _count(env, "torch_cuda"), "one configuration for each of four CUDA variants")
    return analysistest.end(env)

torch_cuda_test = _make(_torch_cuda_test_impl)

def _rocm_test_impl(ctx):
    env = analysistest.begin(ctx)
    old = _paths(env, "torch212-cxx11-rocm72", "plain_rocm")
    asserts.equals(env, old, _paths(env, "torch213-cxx11-rocm72", "plain_rocm"))
    asserts.equals(env, 1, _count(env, "plain_rocm"), "one configuration for all torch versions")
    asserts.equals(env, 2, _count(env, "torch_rocm"), "one for each torch version")
    return analysistest.end(env)

rocm_test = _make(_rocm_test_impl)

def _torch_free_cpu_test_impl(ctx):
    env = analysistest.begin(ctx)
    asserts.equals(env, 9, len(_configurations(env, "plain_cpu")))
    asserts.equals(env, 2, _count(env, "plain_cpu"), "neither torch nor its stable ABI nor the CUDA version enter")
    return analysistest.end(env)

torch_free_cpu_test = _make(_torch_free_cpu_test_impl)

def _cxx_abi_test_impl(ctx):
    env = analysistest.begin(ctx)
    for group, mnemonic, output in [("plain_cpu", "KernelCxxCompile", ""), ("plain_cuda", "CudaPreprocess", "/host.ii")]:
        old = _paths(env, "torch24-cxx98-cu130", group)
        asserts.equals(env, old, _paths(env, "torch26-cxx98-cu130", group))
        asserts.true(env, old != _paths(env, "torch26-cxx11-cu130", group), "both C++ ABIs share " + group)
        for variant, flags in [("torch26-cxx98-cu130", ["-D_GLIBCXX_USE_CXX11_ABI=0"]), ("torch26-cxx11-cu130", [])]:
            [action] = actions_of([_variants(env)[variant].parts[group]], mnemonic, output)
            found = [one for one in action.argv if one.startswith("-D_GLIBCXX_USE_CXX11_ABI")]
            asserts.equals(env, flags, found, "%s of %s" % (group, variant))
    return analysistest.end(env)

cxx_abi_test = _make(_cxx_abi_test_impl)

def _torch_cpu_test_impl(ctx):
    env = analysistest.begin(ctx)
    asserts.equals(
        env,
        _paths(env, "torch213-cxx11-cpu", "torch_cpu"),
        _paths(env, "torch213-cxx11-cu132", "torch_cpu"),
    )
    asserts.equals(env, 6, _count(env, "torch_cpu"), "one for each of two torch versions and the stable ABI, and of the older ones for each ABI")
    return analysistest.end(env)

torch_cpu_test = _make(_torch_cpu_test_impl)

def _neutral_test_impl(ctx):
    env = analysistest.begin(ctx)
    asserts.equals(env, 1, _count(env, "id"), "an id is the same for every variant")
    nodes = analysistest.target_under_test(env)[GraphInfo].nodes
    for program in ["abi_check", "assemble", "compile"]:
        built = [node for node in nodes if node.name == program]
        asserts.equals(env, 1, len(built), "%s is built once for all variants" % program)
    return analysistest.end(env)

neutral_test = _make(_neutral_test_impl)

def _pythons_test_impl(ctx):
    env = analysistest.begin(ctx)
    old, new = ["torch213-cxx11-cu130-python-" + version for version in ["3.11", "3.13"]]
    package = "torch213-cxx11-cu130-package-3.13"
    asserts.equals(env, _paths(env, new, "python_cpu"), _paths(env, package, "python_cpu"), "of one Python")
    for group in ["plain_cuda", "torch_cuda"]:
        paths = _paths(env, "torch213-cxx11-cu130", group)
        asserts.equals(env, paths, _paths(env, old, group), group)
        asserts.equals(env, paths, _paths(env, new, group), group)
        asserts.equals(env, paths, _paths(env, package, group), group)
    asserts.true(env, _paths(env, old, "python_cpu") != _paths(env, new, "python_cpu"), "Pythons share objects that see them")
    for variant, version in [(old, "3.11"), (new, "3.13")]:
        [action] = actions_of([_variants(env)[variant].parts["python_cpu"]], "KernelCxxCompile")
        found = [word for word in action.argv if "/usr/include/python" in word]
        asserts.equals(env, 1, len(found))
        asserts.true(env, found[0].endswith("/usr/include/python" + version), found[0])
        asserts.equals(env, [], [word for word in action.argv if "Py_LIMITED_API" in word or "needed" in word])
    for variant in [old, new, package]:
        [link] = actions_of([_variants(env)[variant]], "KernelLink")
        names = [file.basename for file in link.inputs.to_list()]
        asserts.true(env, "libtorch_python.so" in names, "it is not linked with torch for Python")
        asserts.true(env, "shared_types.txt" not in names, "types become its own")
    [link] = actions_of([_variants(env)["torch213-cxx11-cu130"]], "KernelLink")
    asserts.true(env, "libtorch_python.so" not in [file.basename for file in link.inputs.to_list()], "for every Python")
    return analysistest.end(env)

pythons_test = _make(_pythons_test_impl)

def _triton_test_impl(ctx):
    env = analysistest.begin(ctx)
    variants = [variant for variant in _variants(env).values() if "triton" in variant.parts]
    asserts.equals(env, 4, len(variants), "variants of two torch releases, of two of CUDA and for the stable ABI")
    asserts.equals(env, 1, _count(env, "triton"), "one configuration for all of them")
    actions = actions_of([variants[0].parts["triton"]], "TritonCompile")
    asserts.equals(env, 3 * 2, len(actions), "one for each signature and architecture")
    nodes = analysistest.target_under_test(env)[GraphInfo].nodes
    asserts.equals(env, len(actions), len(actions_of(nodes, "TritonCompile")), "a further torch has further actions")
    for action in actions:
        files = [file.path for file in action.inputs.to_list()]
        asserts.true(env, any([path.endswith("/libtriton.so") for path in files]), "no Triton")
        asserts.equals(env, [], [path for path in files if "torch_kernels_torch" in path or "torch_kernels_cuda" in path])
    for variant in variants:
        [assembling] = actions_of([variant], "KernelVariant")
        names = [file.basename for file in assembling.inputs.to_list()]
        asserts.equals(env, len(actions), len([name for name in names if name == "triton.code"]))
        asserts.true(env, "_cuda.py" in names, "it has no launcher")
    return analysistest.end(env)

triton_test = _make(_triton_test_impl)

_TESTS = {
    "cpu_objects_that_depend_on_torch_are_shared_by_backends": torch_cpu_test,
    "cuda_objects_that_depend_on_torch_are_not_shared": torch_cuda_test,
    "functions_in_triton_are_compiled_once_for_all_torch_and_cuda_versions": triton_test,
    "ids_and_tools_are_shared_by_all_cells": neutral_test,
    "rocm_objects_are_shared_by_torch_versions_unless_they_depend_on_torch": rocm_test,
    "torch_free_cpu_objects_are_shared_by_all_cells_of_one_cxx_abi": torch_free_cpu_test,
    "torch_free_cuda_objects_are_shared_by_torch_versions_not_by_cuda_versions": torch_free_cuda_test,
    "torch_free_objects_are_compiled_for_the_cxx_abi_of_their_cell": cxx_abi_test,
}

def sharing_test_suite(name):
    """Declares the tests of what variants share.

    Args:
        name: string, the name of the test suite.
    """
    declare_tests(name + "_cells", _TESTS, target_under_test = "//tests/starlark/project:bundle")
    declare_tests(
        name + "_pythons",
        {"kernels_are_shared_by_pythons_and_sources_that_see_one_are_not": pythons_test},
        target_under_test = "//tests/starlark/project:pythons",
    )
    native.test_suite(name = name, tests = [name + "_cells", name + "_pythons"])
