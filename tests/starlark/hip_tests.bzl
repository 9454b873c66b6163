"""Analysis tests: the command lines that compile HIP."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load(":graph.bzl", "GraphInfo", "actions_of", "graph_aspect", "mapped")
load(":suite.bzl", "declare_tests")

_ARCHS = ["gfx90a:xnack-", "gfx1100"]
_PLACES = {"gfx1100": "gfx1100", "gfx90a:xnack-": "gfx90a_xnackm"}
_EACH = {
    "HipAssemble": "device.o",
    "HipDeviceCompile": "device.s",
    "HipLink": "device.co",
    "HipPreprocess": "device.hipi",
}
_ONCE = {
    "HipBundle": "bundle.o",
    "HipHostCompile": "plain.cu.o",
    "HipPreprocess": "host.hipi",
}

def _make(implementation):
    return analysistest.make(implementation, extra_target_under_test_aspects = [graph_aspect])

def _nodes(env, group):
    return [node for node in analysistest.target_under_test(env)[GraphInfo].nodes if node.name == group]

def _starting(action, prefix):
    return [argument for argument in action.argv if argument.startswith(prefix)]

def _after(action, flag):
    argv = action.argv
    return [argv[i + 1] for i in range(len(argv) - 1) if argv[i] == flag]

def _phases(env, group, source):
    """The actions that compile a source, by mnemonic and architecture; of the host's the architecture is empty."""
    nodes = _nodes(env, group)
    found = {}
    for arch in _ARCHS:
        for mnemonic, name in _EACH.items():
            for action in actions_of(nodes, mnemonic, "%s.phases/%s/%s" % (source, _PLACES[arch], name)):
                found[(mnemonic, arch)] = action
    for mnemonic, name in _ONCE.items():
        output = name if name == "plain.cu.o" else "%s.phases/%s" % (source, name)
        for action in actions_of(nodes, mnemonic, output):
            found[(mnemonic, "")] = action
    return found

def _phases_test_impl(ctx):
    env = analysistest.begin(ctx)
    phases = _phases(env, "plain_rocm", "csrc/plain.cu")
    expected = [(mnemonic, arch) for arch in _ARCHS for mnemonic in _EACH] + [(mnemonic, "") for mnemonic in _ONCE]
    asserts.equals(env, sorted(expected), sorted(phases))
    for (mnemonic, arch), action in phases.items():
        for argument in action.argv:
            asserts.false(env, "torch_kernels_torch" in argument, "torch's SDK in `%s`" % argument)
        if mnemonic in ["HipAssemble", "HipBundle", "HipLink"]:
            continue
        asserts.equals(env, ["-std=gnu++17"], _starting(action, "-std="), mnemonic)
        asserts.equals(env, [arch or "gfx906"], [one[15:] for one in _starting(action, "--offload-arch=")])
        side = "--offload-device-only" if arch else "--offload-host-only"
        asserts.equals(env, [side], _starting(action, "--offload-host") + _starting(action, "--offload-device"))
        asserts.true(env, "-ffast-math" in action.argv, "hip_flags are missing in " + mnemonic)
        asserts.equals(env, ["-cuid=plain_rocm:csrc/plain.cu"], _starting(action, "-cuid="))
    for arch in _ARCHS:
        asserts.equals(env, ["-mcpu=" + arch], _starting(phases[("HipAssemble", arch)], "-mcpu"))
    bundle = phases[("HipBundle", "")]
    asserts.equals(env, _ARCHS, _after(bundle, "--code"))
    asserts.equals(env, ["plain_rocm:csrc/plain.cu"], _after(bundle, "--cuid"))
    for file in phases[("HipHostCompile", "")].inputs.to_list():
        asserts.false(env, ".phases/" in file.path and not file.path.endswith("/host.hipi"), file.path)
    return analysistest.end(env)

phases_test = _make(_phases_test_impl)

def _preprocess_test_impl(ctx):
    env = analysistest.begin(ctx)
    action = _phases(env, "plain_rocm", "csrc/plain.cu")[("HipPreprocess", "gfx1100")]
    tree = "bazel-out/cfg/bin/tests/starlark/project/plain_rocm.hipified"
    asserts.equals(env, ["rules/private/include", tree + "/csrc"], _after(action, "-I"))
    asserts.equals(env, [tree + "/csrc/plain.hip"], _after(action, "-E"))
    asserts.true(env, "-ffile-prefix-map=%s/=" % tree in action.argv)
    asserts.equals(env, [
        "-D__GLIBC_MINOR__=28",
        "-D__HIP_DEFINE_EXTENDED_HOST_MIN_MAX__=1",
        "-D__HIP_DEFINE_MIXED_HOST_MIN_MAX__=1",
        "-DNDEBUG",
        "-DROCM_KERNEL",
        "-DUSE_ROCM=1",
        "-D__HIP_PLATFORM_AMD__=1",
        "-DCUDA_HAS_FP16=1",
        "-DENABLE_FP8",
        "-DOWN=1",
    ], _starting(action, "-D"))
    places = [path.split("torch_kernels_")[-1] for path in _after(action, "-isystem")]
    asserts.equals(env, "rocm_7_2/clang/include/cuda_wrappers", places[0], "the wrappers come before what they wrap")
    asserts.true(env, "rocm_7_2/clang/include" in places and "cc/zig/lib/include" not in places, "zig lacks HIP's")
    asserts.equals(env, "rocm_7_2/include", places[-1])
    inputs = [mapped(file.path) for file in action.inputs.to_list()]
    asserts.true(env, tree in inputs)
    asserts.false(env, "tests/starlark/project/csrc/plain.cu" in inputs, "the source that is not HIP is read")
    return analysistest.end(env)

preprocess_test = _make(_preprocess_test_impl)

def _later_phases_test_impl(ctx):
    env = analysistest.begin(ctx)
    for (mnemonic, _), action in _phases(env, "plain_rocm", "csrc/plain.cu").items():
        if mnemonic == "HipPreprocess":
            continue
        found = _starting(action, "-D") + _starting(action, "-ffile-prefix-map") + _after(action, "-I") + _after(action, "-isystem")
        asserts.equals(env, [], [one for one in found if one != "-D__GLIBC_MINOR__=28"], mnemonic)
        for file in action.inputs.to_list():
            asserts.false(env, "/include" in file.path, "%s reads %s" % (mnemonic, file.path))
            asserts.false(env, file.path.endswith(".hipified"), "%s reads %s" % (mnemonic, file.path))
        bitcode = [file for file in action.inputs.to_list() if file.extension == "bc"]
        asserts.equals(env, mnemonic == "HipDeviceCompile", len(bitcode) > 0, "device libraries of " + mnemonic)
    return analysistest.end(env)

later_phases_test = _make(_later_phases_test_impl)

def _hip_source_test_impl(ctx):
    env = analysistest.begin(ctx)
    tree = "bazel-out/cfg/bin/tests/starlark/project/plain_rocm.hipified"
    [action] = actions_of(_nodes(env, "plain_rocm"), "HipPreprocess", "csrc/other.hip.phases/host.hipi")
    asserts.equals(env, [tree + "/csrc/other.hip"], _after(action, "-E"))
    asserts.equals(env, [], _starting(action, "-D__HIP_DEFINE"), "a HIP source means what hipcc makes of it")
    return analysistest.end(env)

hip_source_test = _make(_hip_source_test_impl)

def _hipify_test_impl(ctx):
    env = analysistest.begin(ctx)
    for group, module in {"plain_rocm": "hipify/torch/utils", "torch_rocm": "torch_2_13_rocm/utils"}.items():
        [action] = actions_of(_nodes(env, group), "Hipify")
        asserts.true(env, [one for one in action.argv if one.endswith("torch_kernels_" + module)], "not the hipify of " + module)
        asserts.true(env, action.argv[0].endswith("/ld-linux-x86-64.so.2"), "the C library of the machine is used")
        read = [file.path.split("torch_kernels_")[1] for file in action.inputs.to_list() if file.path.endswith("hipify_python.py")]
        asserts.equals(env, [module + "/hipify/hipify_python.py"], read)
    return analysistest.end(env)

hipify_test = _make(_hipify_test_impl)

def _torch_test_impl(ctx):
    env = analysistest.begin(ctx)
    [action] = actions_of(_nodes(env, "torch_rocm"), "KernelCxxPreprocess")
    tree = "bazel-out/cfg/bin/tests/starlark/project/torch_rocm.hipified"
    asserts.equals(env, [tree + "/torch-ext/binding_hip.cpp"], _after(action, "-E"))
    torch = [path.split("torch_kernels_torch_2_13_rocm/")[-1] for path in _after(action, "-isystem") if "torch_2_13" in path]
    asserts.equals(env, ["include", "include/torch/csrc/api/include"], torch)
    asserts.true(env, _after(action, "-isystem")[-1].endswith("torch_kernels_rocm_7_2/include"), "HIP's headers")
    return analysistest.end(env)

torch_test = _make(_torch_test_impl)

def _link_test_impl(ctx):
    env = analysistest.begin(ctx)
    [action] = actions_of(_nodes(env, "torch213-cxx11-rocm72"), "KernelLink")
    files = [argument.split("/")[-1] for argument in action.argv if "/lib" in argument and ".so" in argument]
    libraries = ["libtorch.so", "libtorch_cpu.so", "libc10.so", "libtorch_hip.so", "libc10_hip.so", "libamdhip64.so.7"]
    asserts.equals(env, libraries, files[:len(libraries)])
    for argument in action.argv:
        asserts.false(env, "cuda" in argument, "`%s` in the link of a ROCm variant" % argument)
    return analysistest.end(env)

link_test = _make(_link_test_impl)

def _check_test_impl(ctx):
    env = analysistest.begin(ctx)
    [action] = actions_of(_nodes(env, "torch213-cxx11-rocm72"), "KernelCheck")
    asserts.equals(env, ["gfx1100,gfx90a:xnack-,gfx942"], _after(action, "--archs"))
    asserts.equals(env, ["gfx1100,gfx90a,gfx942"], _after(action, "--metadata-archs"))
    return analysistest.end(env)

check_test = _make(_check_test_impl)

def hip_test_suite(name):
    """Declares the tests of compiling HIP.

    Args:
        name: string, the name of the test suite.
    """
    declare_tests(
        name,
        {
            "binding_for_rocm_is_rewritten_and_sees_the_torch_for_rocm": torch_test,
            "check_gets_archs_with_features_and_as_metadata_states_them": check_test,
            "clang_is_told_all_defines_and_headers_where_it_preprocesses_hip": preprocess_test,
            "hip_source_is_compiled_as_it_stands": hip_source_test,
            "hipify_is_that_of_the_torch_or_the_default_one": hipify_test,
            "phases_of_hip_after_preprocessing_depend_on_no_header_and_no_define": later_phases_test,
            "phases_of_hip_get_their_archs_and_no_torch": phases_test,
            "rocm_extension_is_linked_without_cuda": link_test,
        },
        target_under_test = "//tests/starlark/project:torch213-cxx11-rocm72",
    )
