"""Unit tests of the functions that need no analysis."""

load("@bazel_skylib//lib:unittest.bzl", "asserts", "unittest")
load("//rules/facts:compression.bzl", "FATBINARY")
load("//rules/private:actions.bzl", "dirname", "package_path")
load("//rules/private:compile.bzl", "without_definitions")
load("//rules/private:compression.bzl", "compression")
load("//rules/private:cuda.bzl", "without_threads")
load("//rules/private:gcc.bzl", "cc1plus_flags")
load("//rules/private:hipify.bzl", "hip_name")
load("//rules/private:linking.bzl", "linking_of")
load("//rules/private:openmp.bzl", "asks_for_openmp")
load("//rules/private:resources.bzl", "resources")
load("//rules/private:stable_abi.bzl", "target_version")
load("//toolchains:declare.bzl", "cc_repository")
load("//toolchains:gpus.bzl", "gpu_of", "repository_name")
load("//toolchains:machines.bzl", "lock_for")
load("//toolchains/cc:flags.bzl", "cc_flags", "machine")
load("//toolchains/library:repository.bzl", "places", "wrong_release")
load(":suite.bzl", "declare_tests")

def _file(package, short_path):
    return struct(owner = struct(package = package), short_path = short_path)

def _package_path_test_impl(ctx):
    env = unittest.begin(ctx)
    cases = [
        (_file("", "csrc/relu.cu"), "csrc/relu.cu"),
        (_file("kernels/relu", "kernels/relu/csrc/relu.cu"), "csrc/relu.cu"),
        (_file("kernels/relu", "../other~/kernels/relu/relu.cu"), "relu.cu"),
        (_file("", "../other~/csrc/relu.cu"), "csrc/relu.cu"),
        (_file("", "..hidden/relu.cu"), "..hidden/relu.cu"),
    ]
    for file, expected in cases:
        asserts.equals(env, expected, package_path(file))
    return unittest.end(env)

package_path_test = unittest.make(_package_path_test_impl)

def _dirname_test_impl(ctx):
    env = unittest.begin(ctx)
    asserts.equals(env, "sdk/include", dirname(struct(dirname = "sdk/include")))
    return unittest.end(env)

dirname_test = unittest.make(_dirname_test_impl)

def _compression_test_impl(ctx):
    env = unittest.begin(ctx)
    balance = ["--compress-all", "--compress-mode=balance"]
    size = ["--compress-all", "--compress-mode=size"]
    new = struct(compress = "balance", compressions = FATBINARY["--compress-mode"], version = "13.0")
    old = struct(compress = "speed", compressions = FATBINARY["--compress-all"], version = "12.4")
    unknown = struct(compress = "", compressions = {}, version = "14.0")
    cases = [
        (new, "release", [], balance),
        (new, "none", [], ["--compress-mode=none"]),
        (old, "release", [], ["--compress-all"]),
        (old, "none", [], ["--compress=false"]),
        (unknown, "release", [], []),
        (new, "release", ["-O3", "-DX=compress", "-Xptxas=-v"], balance),
        (new, "release", ["-G"], []),
        (new, "release", ["--device-debug"], []),
        (new, "size", ["-G"], size),
        (new, "release", ["-Xfatbin", "-compress-all"], []),
        (new, "release", ["-Xfatbin=-compress-all"], []),
        (new, "release", ["--fatbin-options=-v,--compress-mode=speed"], []),
        (new, "release", ["--compress-mode=size"], []),
        (new, "release", ["--no-compress"], []),
        (new, "size", ["-Xfatbin=-compress-all"], size),
    ]
    for gpu, choice, flags, expected in cases:
        asserts.equals(env, expected, compression(Label("//:x"), gpu, choice, flags), str((gpu.version, choice, flags)))
    return unittest.end(env)

compression_test = unittest.make(_compression_test_impl)

def _cc_flags_test_impl(ctx):
    env = unittest.begin(ctx)
    for clang, mangling in [(13, []), (17, []), (18, ["-fclang-abi-compat=17"]), (19, ["-fclang-abi-compat=17"])]:
        flags = cc_flags(clang, "2.28", "x86_64")
        asserts.equals(env, mangling, [flag for flag in flags if "abi-compat" in flag])
        asserts.equals(env, "-D__GLIBC_MINOR__=28", flags[-1])
        asserts.true(env, "--target=x86_64-linux-gnu" in flags)
    asserts.true(env, "--target=aarch64-linux-gnu" in cc_flags(19, "2.28", "aarch64"))
    return unittest.end(env)

cc_flags_test = unittest.make(_cc_flags_test_impl)

def _hip_name_test_impl(ctx):
    env = unittest.begin(ctx)
    cases = {
        "a.hip": "a.hip",
        "csrc/relu.cpp": "csrc/relu_hip.cpp",
        "csrc/relu.cu": "csrc/relu.hip",
        "cuda/relu.h": "hip/relu.h",
        "relu.tail.h": "relu.tail_hip.h",
        "relu_CUDA/cuda_relu.cuh": "relu_HIP/hip_relu.cuh",
        "torch-ext/binding.cpp": "torch-ext/binding_hip.cpp",
    }
    for path, expected in cases.items():
        asserts.equals(env, expected, hip_name(path))
    return unittest.end(env)

hip_name_test = unittest.make(_hip_name_test_impl)

def _gpu_of_test_impl(ctx):
    env = unittest.begin(ctx)
    for backend, gpu in {"cpu": None, "cu130": "cuda", "cu1310": "cuda", "cuda": "cuda", "rocm72": "rocm", "universal": None}.items():
        asserts.equals(env, gpu, gpu_of(backend))
    return unittest.end(env)

gpu_of_test = unittest.make(_gpu_of_test_impl)

def _repository_name_test_impl(ctx):
    env = unittest.begin(ctx)
    asserts.equals(env, "torch_kernels_cuda_13_0", repository_name("cuda", "13.0"))
    asserts.equals(env, "torch_kernels_torch_2_13", repository_name("torch", "2.13"))
    asserts.equals(env, "torch_kernels_torch_2_13_rocm", repository_name("torch", "2.13+rocm"))
    asserts.equals(env, "torch_kernels_torch_2_13_aarch64", repository_name("torch", "2.13", "aarch64"))
    asserts.equals(env, "torch_kernels_cuda_13_0_on_aarch64", repository_name("cuda", "13.0", machine = "aarch64"))
    asserts.equals(env, "torch_kernels_gcc", repository_name("gcc"))
    names = [cc_repository(cpu, machine) for machine in ["x86_64", "aarch64"] for cpu in ["x86_64", "aarch64"]]
    asserts.equals(env, ["cc", "cc_aarch64", "cc_x86_64_on_aarch64", "cc_on_aarch64"], [
        name.removeprefix("torch_kernels_")
        for name in names
    ])
    return unittest.end(env)

repository_name_test = unittest.make(_repository_name_test_impl)

def _machine_test_impl(ctx):
    env = unittest.begin(ctx)
    for arch, cpu in {"aarch64": "aarch64", "amd64": "x86_64", "arm64": "aarch64", "x86_64": "x86_64"}.items():
        asserts.equals(env, cpu, machine(struct(arch = arch)))
    lock = {
        "cc": {"glibc": "2.28", "zig": {"1": "zig"}},
        "cuda": {
            version: {"archives": [{"name": "crt", "version": version}, {"name": "nvcc", "version": version}]}
            for version in ["13.0", "13.2", "13.7"]
        },
        "gcc": {"cross": {"aarch64": ["cross"]}, "packages": ["own"]},
        "hipify": {"python": ["python"], "torch": "2.13"},
        "machines": {"aarch64": {
            "cuda": {
                "13.0": [{"arm": True, "name": "nvcc", "version": "13.0"}],
                "13.2": [{"arm": True, "name": "nvcc", "version": "13.1"}],
            },
            "gcc": {"aarch64": ["own on arm"], "x86_64": ["cross on arm"]},
            "hipify": ["python on arm"],
            "zig": {"1": "zig on arm"},
        }},
    }
    asserts.equals(env, lock, lock_for("x86_64", lock))
    there = lock_for("aarch64", lock)
    asserts.equals(env, {"glibc": "2.28", "zig": {"1": "zig on arm"}}, there["cc"])
    asserts.equals(env, ["13.0"], there["cuda"].keys(), "another version, or none, is no program of the release")
    asserts.equals(env, [None, True], [one.get("arm") for one in there["cuda"]["13.0"]["archives"]])
    asserts.equals(env, {"cross": {"aarch64": ["own on arm"]}, "packages": ["cross on arm"]}, there["gcc"])
    asserts.equals(env, {"python": ["python on arm"], "torch": "2.13"}, there["hipify"])
    return unittest.end(env)

machine_test = unittest.make(_machine_test_impl)

def _resources_test_impl(ctx):
    env = unittest.begin(ctx)
    cases = [
        (struct(gcc = None, needed = None, target_version = [], templates = False, torch = None), 400),
        (struct(gcc = None, needed = None, target_version = [], templates = False, torch = "torch"), 1200),
        (struct(gcc = None, needed = None, target_version = ["-DTORCH"], templates = False, torch = "torch"), 400),
        (struct(gcc = None, needed = "needed", target_version = [], templates = False, torch = "torch"), 800),
        (struct(gcc = "gcc", needed = "needed", target_version = [], templates = False, torch = "torch"), 1200),
    ]
    for job, memory in cases:
        function = resources("KernelCxxCompile", job)
        asserts.equals(env, {"cpu": 1, "memory": memory}, function("linux", 1))
    for templates, memory in [(False, 800), (True, 2900)]:
        job = struct(gcc = None, needed = None, target_version = [], templates = templates, torch = None)
        asserts.equals(env, memory, resources("CudaDeviceCompile", job)("linux", 1)["memory"])
        asserts.equals(env, 250, resources("CudaAssemble", job)("linux", 1)["memory"])
    return unittest.end(env)

resources_test = unittest.make(_resources_test_impl)

def _target_version_test_impl(ctx):
    env = unittest.begin(ctx)
    asserts.equals(env, "-DTORCH_TARGET_VERSION=0x209000000000000ULL", target_version(None, "2.9"))
    asserts.equals(env, "-DTORCH_TARGET_VERSION=0x20a000000000000ULL", target_version(None, "2.10"))
    return unittest.end(env)

target_version_test = unittest.make(_target_version_test_impl)

def _without_threads_test_impl(ctx):
    env = unittest.begin(ctx)
    flags = ["-O3", "--threads", "4", "-t=2", "-t", "8", "-Xptxas", "-v", "--threads=0"]
    asserts.equals(env, ["-O3", "-Xptxas", "-v"], without_threads(flags))
    return unittest.end(env)

without_threads_test = unittest.make(_without_threads_test_impl)

def _linking_of_test_impl(ctx):
    env = unittest.begin(ctx)
    cases = [
        (["-O3", "-rdc=true"], (True, False, ["-O3"])),
        (["-rdc", "true", "-O3"], (True, False, ["-O3"])),
        (["--relocatable-device-code=true"], (True, False, [])),
        (["--relocatable-device-code", "true"], (True, False, [])),
        (["-O3", "-dc"], (True, False, ["-O3"])),
        (["--device-c"], (True, False, [])),
        (["-dlto", "-gen-opt-lto"], (True, True, ["-gen-opt-lto"])),
        (["-rdc=true", "-lto"], (True, True, [])),
        (["-rdc=true", "-rdc=false"], (False, False, [])),
        (["-rdc=false", "-rdc", "false", "--relocatable-device-code=false", "-DX=-dc", "-O3"], (False, False, ["-DX=-dc", "-O3"])),
        ([], (False, False, [])),
    ]
    for flags, expected in cases:
        linking = linking_of(flags)
        asserts.equals(env, expected, (linking.relocatable, linking.optimized, linking.flags))
    return unittest.end(env)

linking_of_test = unittest.make(_linking_of_test_impl)

def _without_definitions_test_impl(ctx):
    env = unittest.begin(ctx)
    cases = [
        (["-O3", "-DA=1", "-UB", "-lineinfo"], ["-O3", "-lineinfo"]),
        (["-D", "A", "-U", "B", "-O3"], ["-O3"]),
        (["-Xcompiler", "-DA", "-DB"], ["-Xcompiler", "-DA"]),
        (["--compiler-options", "-DA", "-Xptxas", "-O1"], ["--compiler-options", "-DA", "-Xptxas", "-O1"]),
        (["--Xcudafe", "-DA", "--ptxas-options", "-DB"], ["--Xcudafe", "-DA", "--ptxas-options", "-DB"]),
    ]
    for flags, expected in cases:
        asserts.equals(env, expected, without_definitions(flags))
    return unittest.end(env)

without_definitions_test = unittest.make(_without_definitions_test_impl)

def _wrong_release_test_impl(ctx):
    env = unittest.begin(ctx)
    lock = {"release": "4.5.2", "vendored_by": "demo 1.0"}
    text = "#pragma once\n#define CUTLASS_MAJOR  4\n#define CUTLASS_MINOR 5 // of it\n#define CUTLASS_PATCH 2\n"
    said = "CUTLASS 4.5.2, as vendored by demo 1.0, says in version.h that it is "
    cases = [
        (text, None),
        (text.replace("MINOR 5", "MINOR 4"), said + "4.4.2"),
        (text.replace("#define CUTLASS_PATCH 2", "#undef CUTLASS_PATCH"), said + "4.5.?"),
        ("", said + "?.?.?"),
    ]
    for content, expected in cases:
        asserts.equals(env, expected, wrong_release(lock, content))
    return unittest.end(env)

wrong_release_test = unittest.make(_wrong_release_test_impl)

def _places_test_impl(ctx):
    env = unittest.begin(ctx)
    cases = [
        (["include", "."], {"include": "include", "root": "."}),
        (["root", "."], {"root": "root", "root_": "."}),
        ([".", "root/include", "root_"], {"root__": ".", "root/include": "root/include", "root_": "root_"}),
    ]
    for include, expected in cases:
        asserts.equals(env, expected, places(include))
    return unittest.end(env)

places_test = unittest.make(_places_test_impl)

def _gcc_flags_test_impl(ctx):
    env = unittest.begin(ctx)
    for flags, expected in [
        ([], False),
        (["-O3", "-fopenmp-simd"], False),
        (["-fopenmp"], True),
        (["-fopenmp", "-fno-openmp"], False),
        (["-fno-openmp", "-fopenmp"], True),
        (["-lgomp"], True),
    ]:
        asserts.equals(env, expected, asks_for_openmp(flags), str(flags))
    for flags, expected in [
        (["-O2", "-lgomp", "-Wl,-x", "-L/x"], ["-D_REENTRANT", "-O2"]),
        (["-pthread", "-march=haswell"], ["-D_REENTRANT", "-march=haswell"]),
        (["-fopenmp", "-DX"], ["-D_REENTRANT", "-fopenmp", "-DX"]),
        (["-w"], ["-w"]),
    ]:
        asserts.equals(env, expected, cc1plus_flags(flags))
    return unittest.end(env)

gcc_flags_test = unittest.make(_gcc_flags_test_impl)

def unit_test_suite(name):
    """Declares the unit tests.

    Args:
        name: string, the name of the test suite.
    """
    declare_tests(name, {
        "an_author_s_options_of_compression_count_where_nobody_chooses": compression_test,
        "cc_flags_follow_clang_and_glibc": cc_flags_test,
        "count_of_threads_is_no_flag_of_a_kernel": without_threads_test,
        "definitions_are_no_flags_of_later_phases": without_definitions_test,
        "backend_of_a_cell_says_whose_release_it_is": gpu_of_test,
        "dirname_is_the_directory_of_the_marker": dirname_test,
        "copy_of_cutlass_is_of_the_release_that_is_locked": wrong_release_test,
        "directories_of_a_library_have_places_of_their_own": places_test,
        "flags_that_ask_for_openmp": gcc_flags_test,
        "device_code_that_is_linked_is_told_by_its_flags": linking_of_test,
        "hipified_files_have_the_names_that_hipify_gives_them": hip_name_test,
        "package_path_is_the_same_in_every_workspace": package_path_test,
        "resources_follow_whether_all_of_torch_is_in_sight": resources_test,
        "target_version_is_a_number_that_torch_compares": target_version_test,
        "programs_are_those_of_the_machine": machine_test,
        "repository_name_holds_kind_and_version": repository_name_test,
    })
