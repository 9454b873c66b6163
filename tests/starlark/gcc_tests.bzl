"""Analysis tests: what is compiled with gcc, and how."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load(":graph.bzl", "GraphInfo", "actions_of", "graph_aspect")
load(":suite.bzl", "declare_tests")

_CXX = str(Label("//rules/settings:cxx"))

def _make(implementation, **attributes):
    return analysistest.make(implementation, extra_target_under_test_aspects = [graph_aspect], **attributes)

def _compiles(env):
    """By target and mnemonic, the actions that compile C++."""
    return {
        (node.name, mnemonic): action
        for node in analysistest.target_under_test(env)[GraphInfo].nodes
        for mnemonic in ["KernelCxxCompile", "KernelCxxPreprocess"]
        for action in actions_of([node], mnemonic)
    }

def _uses_gcc(action):
    return bool([file for file in action.inputs.to_list() if file.basename == "cc1plus"])

def _sees_gcc(action):
    return bool([file for file in action.inputs.to_list() if "torch_kernels_gcc" in file.path])

def _command_test_impl(ctx):
    env = analysistest.begin(ctx)
    compiles = _compiles(env)
    action = compiles[("openmp_cpu", "KernelCxxCompile")]
    words = [word.split("/")[-1] for word in action.argv]
    asserts.equals(env, ["gcc_program", "compile", "zig", "clang", "--target=x86_64-linux-gnu", "--"], words[:6])
    asserts.equals(env, ["ld-linux-x86-64.so.2", "--library-path"], words[6:8])
    asserts.equals(env, "cc1plus", words[9])
    for flag in ["-fopenmp", "-mavx512f", "-D_GNU_SOURCE", "-D__GLIBC_MINOR__=28", "-nostdinc", "-fPIC"]:
        asserts.true(env, flag in action.argv, flag + " is missing")
    for flag in ["-pthread", "-lgomp", "-c", "--driver-mode=g++"]:
        asserts.false(env, flag in action.argv, flag + " is for gcc's driver, or for clang")
    argv = compiles[("openmp_cpu", "KernelCxxPreprocess")].argv
    asserts.true(env, "-D_REENTRANT" in argv, "-D_REENTRANT is missing")
    asserts.equals(env, ["preprocess", "--"], argv[1:3], "torch's headers, in a target without torch")
    found = [argv[i + 1] for i in range(len(argv) - 1) if argv[i] == "-isystem"]
    asserts.equals(env, ["gcc/include/c++/12", "usr/lib/gcc/x86_64-linux-gnu/12/include"], [
        path.split("/", 2)[2]
        for path in [found[0], found[3]]
    ])
    return analysistest.end(env)

command_test = _make(_command_test_impl)

def _text_test_impl(ctx):
    env = analysistest.begin(ctx)
    compiles = _compiles(env)
    text = compiles[("openmp_torch_cuda", "KernelCxxPreprocess")]
    asserts.true(env, "-E" in text.argv and "preprocess" in text.argv)
    asserts.true(env, bool([one for one in text.argv if "torch_kernels_cuda_13_0" in one]), "CUDA's headers are not searched")
    action = compiles[("openmp_torch_cuda", "KernelCxxCompile")]
    asserts.true(env, "-fpreprocessed" in action.argv and "-fopenmp" in action.argv)
    asserts.false(env, "-DOWN=1" in action.argv or "-isystem" in action.argv, "what preprocessing has read")
    for file in action.inputs.to_list():
        asserts.false(env, file.basename == "include", "headers among the inputs: " + file.path)
        asserts.false(env, "torch_kernels_cuda" in file.path, "of a release of CUDA: " + file.path)
    for word in action.argv:
        asserts.false(env, "torch_kernels_cuda" in word, "of a release of CUDA: " + word)
    asserts.true(env, "--needed-headers=" in "".join(text.argv), "all of torch's headers are read")
    return analysistest.end(env)

text_test = _make(_text_test_impl)

def _only_openmp_test_impl(ctx):
    env = analysistest.begin(ctx)
    for (name, _), action in _compiles(env).items():
        asserts.equals(env, name.startswith("openmp"), _uses_gcc(action), name)
        asserts.equals(env, name.startswith("openmp"), _sees_gcc(action), name)
    for node in analysistest.target_under_test(env)[GraphInfo].nodes:
        for action in actions_of([node], "KernelLink"):
            stubs = [one.dirname.split("/")[-1] for one in action.inputs.to_list() if one.basename == "libgomp.so.1"]
            asserts.equals(env, ["GOMP-4.5_OMP-4.5"] if node.name.endswith("openmp") else [], stubs, node.name)
    return analysistest.end(env)

only_openmp_test = _make(_only_openmp_test_impl)

def _all_test_impl(ctx):
    env = analysistest.begin(ctx)
    for (name, _), action in _compiles(env).items():
        asserts.true(env, _uses_gcc(action), name)
    for node in analysistest.target_under_test(env)[GraphInfo].nodes:
        for action in node.actions:
            device = action.mnemonic.startswith("Cuda") or action.mnemonic.startswith("Hip")
            if device or action.mnemonic == "KernelCudaCompile":
                asserts.false(env, _sees_gcc(action), node.name + " " + action.mnemonic)
    return analysistest.end(env)

all_test = _make(_all_test_impl, config_settings = {_CXX: "gcc"})

def _metadata_test_impl(ctx):
    env = analysistest.begin(ctx)
    written = [
        json.decode(action.content)
        for node in analysistest.target_under_test(env)[GraphInfo].nodes
        for action in node.actions
        if action.mnemonic == "FileWrite" and action.outputs.to_list()[0].basename == "metadata.json"
    ]
    with_extension = [one for one in written if one]
    asserts.true(env, len(with_extension) > 5)
    for one in with_extension:
        asserts.equals(env, "gcc", one["cxx"])
    asserts.equals(env, 1, len([one for one in written if not one]), "variants without an extension")
    return analysistest.end(env)

metadata_test = _make(_metadata_test_impl, config_settings = {_CXX: "gcc"})

def gcc_test_suite(name):
    """Declares the tests of what gcc compiles.

    Args:
        name: string, the name of the test suite.
    """
    declare_tests(
        name,
        {
            "all_cxx_is_compiled_by_gcc_if_that_is_chosen": all_test,
            "cc1plus_is_called_as_gccs_driver_does": command_test,
            "gcc_compiles_text": text_test,
            "gcc_is_recorded_if_it_is_chosen": metadata_test,
            "gcc_is_seen_by_what_asks_for_openmp_alone": only_openmp_test,
        },
        target_under_test = "//tests/starlark/project:bundle",
    )
