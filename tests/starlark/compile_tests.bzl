"""Analysis tests: the command lines of compile and link actions."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load(":graph.bzl", "GraphInfo", "actions_of", "graph_aspect", "mapped")
load(":suite.bzl", "declare_tests")

def _make(implementation):
    return analysistest.make(implementation, extra_target_under_test_aspects = [graph_aspect])

def _action(env, mnemonic, group, output = ""):
    nodes = analysistest.target_under_test(env)[GraphInfo].nodes
    found = actions_of([node for node in nodes if node.name == group], mnemonic, output)
    asserts.equals(env, 1, len(found), "actions %s of %s" % (mnemonic, group))
    return found[0]

def _starting(action, prefix):
    return [argument for argument in action.argv if argument.startswith(prefix)]

def _after(action, flag):
    """The values of an option that takes its value as the next argument."""
    argv = action.argv
    return [argv[i + 1] for i in range(len(argv) - 1) if argv[i] == flag]

def _expect_no_torch(env, action, standard):
    for argument in action.argv:
        asserts.false(env, "torch_kernels_torch" in argument, "torch's SDK in `%s`" % argument)
        asserts.false(env, "2.13" in argument or "2_13" in argument, "torch's version in `%s`" % argument)
    for file in action.inputs.to_list():
        asserts.false(env, "torch_kernels_torch" in file.path, "torch's SDK among the inputs: " + file.path)
    asserts.equals(env, [], _starting(action, "-D_GLIBCXX_USE_CXX11_ABI"))
    asserts.equals(env, ["-std=" + standard], _starting(action, "-std="))

# What makes a file, by the end of its name; those that begin with `device` are of one architecture each.
_PHASES = {
    "cudafe1.cpp": "CudaFrontend",
    "device.cubin": "CudaAssemble",
    "device.ii": "CudaPreprocess",
    "device.ptx": "CudaDeviceCompile",
    "fatbin.o": "CudaFatbinary",
    "host.ii": "CudaPreprocess",
    "host.o": "CudaHostCompile",
}

def _phases(env, group):
    """The actions of a split compile, by mnemonic and, where there are several, the directory of the architecture."""
    nodes = [node for node in analysistest.target_under_test(env)[GraphInfo].nodes if node.name == group]
    found = {}
    for output, mnemonic in _PHASES.items():
        for action in actions_of(nodes, mnemonic, output):
            arch = action.outputs.to_list()[0].dirname.split("/")[-1]
            found[(mnemonic, arch if output.startswith("device.") else "")] = action
    return found

def _torch_free_cuda_test_impl(ctx):
    env = analysistest.begin(ctx)
    phases = _phases(env, "plain_cuda")
    expected = [
        (mnemonic, arch)
        for output, mnemonic in _PHASES.items()
        for arch in (["120", "80", "90a"] if output.startswith("device.") else [""])
    ]
    asserts.equals(env, sorted(expected), sorted(phases))
    gencodes = {
        "120": ["-gencode=arch=compute_120,code=sm_120"],
        "80": ["-gencode=arch=compute_80,code=sm_80"],
        "90a": ["-gencode=arch=compute_90a,code=sm_90a"],
    }
    for (mnemonic, arch), action in phases.items():
        _expect_no_torch(env, action, "c++17")
        asserts.equals(env, [] if mnemonic == "CudaPreprocess" else ["csrc/plain.cu"], _after(action, "--source"))
        asserts.true(env, "--use_fast_math" in action.argv, "cuda_flags are missing")
        asserts.equals(env, ["-v"], _after(action, "-Xptxas"))
        if arch:
            asserts.equals(env, gencodes[arch], _starting(action, "-gencode"))
    asserts.equals(env, [
        "-gencode=arch=compute_80,code=sm_80",
        "-gencode=arch=compute_90a,code=sm_90a",
        "-gencode=arch=compute_120,code=[sm_120,compute_120]",
    ], _starting(phases[("CudaFatbinary", "")], "-gencode"))
    asserts.equals(env, ["sm_80", "sm_90a", "sm_120", "compute_120"], _after(phases[("CudaFatbinary", "")], "--in"))
    return analysistest.end(env)

torch_free_cuda_test = _make(_torch_free_cuda_test_impl)

def _preprocess_test_impl(ctx):
    env = analysistest.begin(ctx)
    action = _phases(env, "plain_cuda")[("CudaPreprocess", "")]
    root = "bazel-out/cfg/bin/tests/starlark/project/plain_cuda.sources/tests/starlark/project/"
    asserts.equals(env, [root + "csrc/plain.cu"], _after(action, "-c"))
    asserts.equals(env, ["rules/private/include", root + "csrc"], _after(action, "-I"))
    asserts.equals(env, ["-DNDEBUG", "-DCUDA_KERNEL", "-DUSE_CUDA=1", "-DENABLE_FP8", "-DOWN=1"], _starting(action, "-D"))
    for directory in [root, "tests/starlark/project/"]:
        asserts.true(env, "-ffile-prefix-map=%s=" % directory in _after(action, "-Xcompiler"), directory)
    with_comments = [file.path for file in action.inputs.to_list() if file.path.startswith("tests/")]
    asserts.equals(env, [], with_comments, "comments are read")
    known = _after(action, "--arch-list")[0].split(",")
    asserts.true(env, "750" in known and "1200" in known, "not all that nvcc knows: " + ",".join(known))
    for arch in ["", "80", "90a", "120"]:
        action = _phases(env, "plain_cuda")[("CudaPreprocess", arch)]
        texts = [file.path.split(".phases/")[1] for file in action.outputs.to_list()]
        asserts.equals(env, [arch + "/device.ii"] if arch else ["host.ii"], texts)
        asserts.equals(env, [arch] if arch else [], _after(action, "--device"))
        asserts.equals(env, 0 if arch else 1, len(_after(action, "--host")))
        asserts.equals(env, 1, len(_starting(action, "-gencode")), "more than one architecture is named")
        asserts.equals(env, [known], [one.split(",") for one in _after(action, "--arch-list")])
    return analysistest.end(env)

preprocess_test = _make(_preprocess_test_impl)

def _later_phases_test_impl(ctx):
    env = analysistest.begin(ctx)
    for (mnemonic, _), action in _phases(env, "plain_cuda").items():
        if mnemonic == "CudaPreprocess":
            continue
        asserts.equals(env, [], _starting(action, "-D") + _starting(action, "-I") + _after(action, "-isystem"), mnemonic)
        asserts.equals(env, [], _starting(action, "-ffile-prefix-map"))
        for file in action.inputs.to_list():
            own = "tests/starlark/project/" in file.path and not file.path.startswith("bazel-out/")
            asserts.false(env, own, "%s reads %s" % (mnemonic, file.path))
            header = "/include/" in file.path + "/" and mnemonic != "CudaHostCompile"
            asserts.false(env, header, "%s reads %s" % (mnemonic, file.path))
    return analysistest.end(env)

later_phases_test = _make(_later_phases_test_impl)

def _host_code_test_impl(ctx):
    env = analysistest.begin(ctx)
    action = _phases(env, "plain_cuda")[("CudaHostCompile", "")]
    read = [file.path.split(".phases/")[1] for file in action.inputs.to_list() if ".phases/" in file.path]
    asserts.equals(env, ["cudafe1.cpp", "stub.c"], sorted(read))
    return analysistest.end(env)

host_code_test = _make(_host_code_test_impl)

def _torch_free_cpu_test_impl(ctx):
    env = analysistest.begin(ctx)
    action = _action(env, "KernelCxxCompile", "plain_cpu")
    _expect_no_torch(env, action, "gnu++17")
    asserts.equals(env, ["-D__GLIBC_MINOR__=28", "-DNDEBUG", "-DCPU_KERNEL"], _starting(action, "-D"))
    for file in action.inputs.to_list():
        asserts.false(env, "torch_kernels_cuda" in file.path, "CUDA's SDK among the inputs: " + file.path)
    return analysistest.end(env)

torch_free_cpu_test = _make(_torch_free_cpu_test_impl)

def _expect_torch(env, action, name, standard):
    asserts.equals(env, ["-std=" + standard], _starting(action, "-std="))
    asserts.equals(env, ["-D_GLIBCXX_USE_CXX11_ABI=1"], _starting(action, "-D_GLIBCXX_USE_CXX11_ABI"))
    torch = [path.split("torch_kernels_torch_2_13/")[-1] for path in _after(action, "-isystem") if "torch_2_13" in path]
    asserts.equals(env, ["include", "include/torch/csrc/api/include"], torch)
    root = "bazel-out/cfg/bin/tests/starlark/project/torch_cuda.sources/tests/starlark/project"
    asserts.equals(env, [root, root + "/csrc"], _after(action, "-I")[1:])
    included = _after(action, "-include")
    asserts.equals(env, 1, len(included))
    asserts.true(env, included[0].endswith(name), included[0])
    asserts.true(env, included[0] in [mapped(file.path) for file in action.inputs.to_list()], "the id is no input")

def _torch_cuda_test_impl(ctx):
    env = analysistest.begin(ctx)
    action = _action(env, "KernelCudaCompile", "torch_cuda")
    _expect_torch(env, action, "tests/starlark/project/id/torch_extension_name.h", "c++20")
    asserts.true(env, "--never-for-clang" in action.argv, "cuda_flags are missing")
    asserts.false(env, "-DFOR_CLANG" in action.argv, "cxx_flags reach nvcc")
    return analysistest.end(env)

torch_cuda_test = _make(_torch_cuda_test_impl)

def _torch_split_test_impl(ctx):
    """What reads the text is an action of its own; none but the first and the last sees a header of torch."""
    env = analysistest.begin(ctx)
    [objects] = [node for node in analysistest.target_under_test(env)[GraphInfo].nodes if node.name == "torch_split"]
    counts = {}
    for action in objects.actions:
        if not action.mnemonic.startswith("Cuda"):
            continue
        counts[action.mnemonic] = counts.get(action.mnemonic, 0) + 1
        reads = [file.path for file in action.inputs.to_list() if "torch_kernels_torch_2_13" in file.path]
        needed = [one for one in action.argv if one.startswith("--needed-headers=")]
        if action.mnemonic in ["CudaPreprocess", "CudaFallback"]:
            asserts.true(env, len(reads) > 0, "no header of torch for " + action.mnemonic)
            asserts.equals(env, 1, len(needed), "which headers are needed is not told to " + action.mnemonic)
        else:
            asserts.equals(env, [], reads + needed, "headers of torch for " + action.mnemonic)
            asserts.equals(env, action.mnemonic != "CudaDeviceShare", "--attempt" in action.argv)
        if action.mnemonic == "CudaPreprocess":
            root = "bazel-out/cfg/bin/tests/starlark/project/torch_split.sources/tests/starlark/project/"
            scanned = [root + "csrc/torch.cu", root + "csrc/plain.h"]
            asserts.equals(env, scanned, _after(action, "--scan"))
            asserts.equals(env, ["80", "90"], _after(action, "--device"))
    asserts.equals(env, {
        "CudaAssemble": 2,
        "CudaDeviceCompile": 2,
        "CudaDeviceFrontend": 2,
        "CudaDeviceShare": 1,
        "CudaFallback": 1,
        "CudaFatbinary": 1,
        "CudaFrontend": 1,
        "CudaHostCompile": 1,
        "CudaPreprocess": 1,
    }, counts)
    return analysistest.end(env)

torch_split_test = _make(_torch_split_test_impl)

def _torch_cxx_test_impl(ctx):
    env = analysistest.begin(ctx)
    action = _action(env, "KernelCxxPreprocess", "torch_cuda")
    _expect_torch(env, action, "rules/private/include/extension_name.h", "gnu++20")
    asserts.true(env, "-DFOR_CLANG" in action.argv, "cxx_flags are missing")
    asserts.false(env, "--never-for-clang" in action.argv, "cuda_flags reach clang")
    inputs = [file.path for file in action.inputs.to_list()]
    packs = [path.split("torch_kernels_")[-1] for path in inputs if path.endswith("/headers.pack")]
    asserts.equals(env, ["cc/headers.pack", "cuda_13_0/headers.pack", "torch_2_13/headers.pack"], sorted(packs))
    asserts.equals(env, [], [path for path in inputs if path.endswith("/include")], "headers outside of packs")
    asserts.equals(env, [], [path for path in inputs if "cuda_13_0/bin/" in path], "nvcc, though clang compiles")
    compile = _action(env, "KernelCxxCompile", "torch_cuda")
    asserts.equals(env, ["-std=gnu++20"], _starting(compile, "-std="))
    asserts.equals(env, ["-D__GLIBC_MINOR__=28"], _starting(compile, "-D"))
    asserts.equals(env, [], _after(compile, "-I") + _after(compile, "-isystem") + _after(compile, "-include"))
    read = [file.path for file in compile.inputs.to_list() if "torch_kernels_cc/" not in file.path]
    read = [path.split("/")[-1] for path in read if "/compile_" not in path and "tools_Scompile" not in path]
    asserts.equals(env, ["named.ii", "named-full.ii", "tried.txt"], read, "more than the texts is read")
    named = [file.path.split("/")[-1] for file in _action(env, "KernelCxxName", "torch_cuda").inputs.to_list()]
    for name in ["id.txt", "cxx.ii", "full.ii"]:
        asserts.true(env, name in named, name + " is not read")
    return analysistest.end(env)

torch_cxx_test = _make(_torch_cxx_test_impl)

def _stable_abi_test_impl(ctx):
    env = analysistest.begin(ctx)
    for mnemonic, group in [("KernelCudaCompile", "torch_cuda"), ("KernelCxxPreprocess", "torch_cpu")]:
        action = _action(env, mnemonic, group)
        asserts.equals(env, ["-DTORCH_TARGET_VERSION=0x209000000000000ULL"], _starting(action, "-DTORCH_"))
        asserts.equals(env, ["-D_GLIBCXX_USE_CXX11_ABI=1"], _starting(action, "-D_GLIBCXX"))
        asserts.true(env, [path for path in _after(action, "-isystem") if "torch_2_15" in path], "not torch 2.15")
    for mnemonic, group, output in [("CudaPreprocess", "plain_cuda", "/host.ii"), ("KernelCxxCompile", "plain_cpu", "")]:
        asserts.equals(env, [], _starting(_action(env, mnemonic, group, output), "-DTORCH_"))
    return analysistest.end(env)

stable_abi_test = _make(_stable_abi_test_impl)

def _cutlass_test_impl(ctx):
    env = analysistest.begin(ctx)
    for mnemonic, output, group, name in [
        ("CudaPreprocess", "/host.ii", "cutlass_cuda", "cutlass_3_6"),
        ("KernelCxxCompile", "", "older_cutlass_cuda", "cutlass_3_5"),
        ("CudaPreprocess", "/80/device.ii", "plain_cuda", None),
    ]:
        action = _action(env, mnemonic, group, output)
        repositories = [path.split("torch_kernels_")[-1] for path in _after(action, "-isystem")]
        found = [path.split("/", 1) for path in repositories if path.startswith("cutlass")]
        asserts.equals(env, [[name, "include"], [name, "tools/util/include"]] if name else [], found)
        maps = [argument for argument in action.argv if argument.endswith("torch_kernels_%s/=" % name)]
        asserts.equals(env, 1 if name else 0, len(maps), "the way to CUTLASS stays in `__FILE__`")
        for file in action.inputs.to_list():
            asserts.true(env, "kernels_cutlass" not in file.path or name in file.path, "another release: " + file.path)
    return analysistest.end(env)

cutlass_test = _make(_cutlass_test_impl)

# Options of the linker that are for the files behind them.
_MODES = ["--as-needed", "--end-lib", "--start-lib"]

def _link_test_impl(ctx):
    env = analysistest.begin(ctx)
    action = _action(env, "KernelLink", "torch213-cxx11-cu130")
    asserts.equals(env, "shared_types.txt", action.argv[action.argv.index("--types") + 1].split("/")[-1])
    texts = [action.argv[i + 1].split("/")[-1] for i, argument in enumerate(action.argv) if argument == "--text"]
    asserts.true(env, "binding.cpp" in texts and "torch.cu" in texts and "plain.h" in texts, "texts: %s" % texts)
    linker = action.argv[action.argv.index("ld.lld") + 1:]
    files = [argument.split("/")[-1] for argument in linker if "/" in argument or argument in _MODES]
    asserts.equals(env, [
        "exports.map",
        "extension.so",
        "crtbeginS.o",
        "binding.cpp.o",
        "plain.cpp.o",
        "torch.cu.o",
        "binding.cpp.o",
        "fatbin.o",
        "plain.cu.o",
        "code.o",
        "torch.cu.o",
        "--start-lib",
        "id.o",
        "module.o",
        "--end-lib",
        "libtorch.so",
        "libtorch_cpu.so",
        "libc10.so",
        "libtorch_cuda.so",
        "libc10_cuda.so",
        "libcudart.so.13",
        "--as-needed",
        "libstdc++.so.6",
        "libgcc_s.so.1",
        "libm.so.6",
        "libpthread.so.0",
        "libdl.so.2",
        "librt.so.1",
        "libc.so.6",
        "ld-linux-x86-64.so.2",
        "libc_nonshared.a",
        "single_threaded.o",
        "libstdc++.a",
        "libgcc.a",
        "crtendS.o",
        "libcublas.so.13",
        "libcublasLt.so.13",
        "libcuda.so.1",
        "libcudnn.so.9",
        "libcufft.so.12",
        "libcurand.so.10",
        "libcusolver.so.12",
        "libcusparse.so.12",
        "libnvJitLink.so.13",
        "libnvrtc.so.13",
    ], files)
    asserts.true(env, "--build-id=none" in action.argv)
    inputs = [mapped(file.path) for file in action.inputs.to_list()]
    for argument in linker:
        if "/" in argument and not argument.endswith("/extension.so"):
            asserts.true(env, argument in inputs, "no input of the link: " + argument)
    return analysistest.end(env)

link_test = _make(_link_test_impl)

def _cpu_link_test_impl(ctx):
    env = analysistest.begin(ctx)
    action = _action(env, "KernelLink", "torch213-cxx11-cpu")
    for argument in action.argv:
        asserts.false(env, "cuda" in argument, "`%s` in the link of a CPU variant" % argument)
    return analysistest.end(env)

cpu_link_test = _make(_cpu_link_test_impl)

def _universal_test_impl(ctx):
    env = analysistest.begin(ctx)
    nodes = analysistest.target_under_test(env)[GraphInfo].nodes
    asserts.equals(env, [], actions_of(nodes, "KernelLink"))
    argv = actions_of(nodes, "KernelVariant")[0].argv
    asserts.false(env, "--extension" in argv)
    asserts.equals(env, ["__init__.py", "_ops.py"], _after(struct(argv = argv), "--file"))
    return analysistest.end(env)

universal_test = _make(_universal_test_impl)

def _outside_test_impl(ctx):
    env = analysistest.begin(ctx)
    node = analysistest.target_under_test(env)[GraphInfo].nodes[0]
    asserts.equals(env, [], node.objects)
    asserts.equals(env, [], node.actions)
    return analysistest.end(env)

outside_test = _make(_outside_test_impl)

def compile_test_suite(name):
    """Declares the tests of command lines.

    Args:
        name: string, the name of the test suite.
    """
    declare_tests(
        name + "_cuda",
        {
            "cpp_source_of_a_cuda_group_sees_headers_of_cuda_but_not_nvcc": torch_cxx_test,
            "cuda_extension_is_linked_in_this_order": link_test,
            "cuda_source_that_depends_on_torch_gets_its_headers_standard_and_abi": torch_cuda_test,
            "cuda_source_with_torch_is_read_once_for_each_text": torch_split_test,
            "host_code_is_compiled_without_that_of_the_gpu": host_code_test,
            "nvcc_is_told_all_defines_and_headers_where_it_preprocesses": preprocess_test,
            "phases_after_preprocessing_depend_on_no_header_and_no_define": later_phases_test,
            "torch_free_cpp_source_sees_neither_torch_nor_cuda": torch_free_cpu_test,
            "torch_free_cuda_source_sees_no_torch_and_gets_its_archs": torch_free_cuda_test,
        },
        target_under_test = "//tests/starlark/project:torch213-cxx11-cu130",
    )
    declare_tests(
        name + "_cpu",
        {"cpu_extension_is_linked_without_cuda": cpu_link_test},
        target_under_test = "//tests/starlark/project:torch213-cxx11-cpu",
    )
    declare_tests(
        name + "_stable_abi",
        {
            "section_sees_the_cutlass_that_it_names_and_no_other": cutlass_test,
            "sources_that_depend_on_torch_are_told_its_stable_abi": stable_abi_test,
        },
        target_under_test = "//tests/starlark/project:torch-stable-abi29-cu130",
    )
    declare_tests(
        name + "_universal",
        {"variant_without_objects_has_no_extension": universal_test},
        target_under_test = "//tests/starlark/project:torch-universal",
    )
    declare_tests(
        name + "_outside",
        {"objects_outside_of_a_cell_are_none": outside_test},
        target_under_test = "//tests/starlark/project:torch_cuda",
    )
    native.test_suite(name = name, tests = [name + "_" + part for part in ["cpu", "cuda", "outside", "stable_abi", "universal"]])
