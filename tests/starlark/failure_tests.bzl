"""Analysis tests: what is wrong with a target fails its analysis and names target, attribute and remedy."""

load("//rules:defs.bzl", "kernel_device_link", "kernel_objects")
load(
    ":failures.bzl",
    "DECLARE",
    "PROJECT",
    "arm_platform_test",
    "failing_device_link",
    "failing_module",
    "failing_objects",
    "failing_variant",
    "rocm_cell_test",
    "unknown_cuda_test",
    "unknown_stable_abi_test",
    "unknown_torch_test",
)

def _objects_failures():
    return [
        failing_objects(
            name = "unknown_dependency_fails",
            attribute = "depends",
            problem = "no such dependency: `numpy`",
            help = "choose from torch, openmp, pybind, cpython, cutlass_3_5, cutlass_3_6, ",
            depends = ["numpy"],
        ),
        failing_objects(
            name = "binding_without_torch_fails",
            attribute = "depends",
            problem = "`pybind` without `torch`: functions are bound as ops of torch",
            help = "add `torch`",
            depends = ["pybind"],
        ),
        failing_objects(
            name = "headers_for_one_python_and_for_all_fail",
            attribute = "depends",
            problem = "`cpython` and `pybind`: headers for one Python and for all",
            help = "remove one",
            depends = ["cpython", "pybind", "torch"],
        ),
        failing_objects(
            name = "stable_abi_that_is_no_version_fails",
            test_rule = unknown_stable_abi_test,
            attribute = "stable_abi",
            problem = "`29` is not a torch version",
            help = "write major and minor, e.g. `2.9`",
            depends = ["torch"],
        ),
        failing_objects(
            name = "unknown_backend_fails",
            attribute = "backend",
            problem = "unknown: `metal`",
            help = "choose from cpu, cuda, rocm",
            backend = "metal",
        ),
        failing_objects(
            name = "objects_for_an_undeclared_torch_fail",
            attribute = "depends",
            problem = "no torch SDK for `9.9`",
            help = DECLARE,
            depends = ["torch"],
            test_rule = unknown_torch_test,
        ),
        failing_objects(
            name = "objects_for_an_undeclared_cuda_fail",
            attribute = "backend",
            problem = "no CUDA SDK for `cu999`",
            help = DECLARE,
            test_rule = unknown_cuda_test,
        ),
        failing_objects(
            name = "cuda_source_in_a_cpu_group_fails",
            attribute = "srcs",
            problem = "`tests/starlark/project/csrc/plain.cu` is CUDA",
            help = "set backend = \"cuda\" or \"rocm\"",
            backend = "cpu",
            srcs = [PROJECT + "csrc/plain.cu"],
        ),
        failing_objects(
            name = "relocatable_hip_code_fails",
            test_rule = rocm_cell_test,
            attribute = "hip_flags",
            problem = "`-fgpu-rdc` asks for relocatable device code, which the rules link for CUDA alone",
            help = "define what a kernel calls in its own file, or in a header",
            archs = {"rocm72": ["gfx942"]},
            backend = "rocm",
            hip_flags = ["-fgpu-rdc"],
            srcs = [PROJECT + "csrc/plain.cu"],
        ),
        failing_objects(
            name = "hip_source_in_a_cuda_group_fails",
            attribute = "srcs",
            problem = "`tests/starlark/project/csrc/other.hip` is HIP",
            help = "set backend = \"rocm\"",
            archs = {"cu130": ["8.0"]},
            srcs = [PROJECT + "csrc/other.hip"],
        ),
        failing_objects(
            name = "sources_that_hipify_gives_one_name_fail",
            test_rule = rocm_cell_test,
            attribute = "srcs",
            problem = "hipify turns both `csrc/twin.cu` and `csrc/twin.hip` into `csrc/twin.hip`",
            help = "rename one of them",
            archs = {"rocm72": ["gfx942"]},
            backend = "rocm",
            srcs = [
                PROJECT + "csrc/twin.cu",
                PROJECT + "csrc/twin.hip",
            ],
        ),
        failing_objects(
            name = "c_source_with_openmp_fails",
            attribute = "srcs",
            problem = "`tests/starlark/project/csrc/plain.c` is C: the rules support OpenMP in C++ alone",
            help = "compile it in a target without OpenMP, or as C++",
            backend = "cpu",
            cxx_flags = ["-fopenmp"],
            srcs = [PROJECT + "csrc/plain.c"],
        ),
        failing_objects(
            name = "objects_for_rocm_in_a_cuda_cell_fail",
            attribute = "backend",
            problem = "no ROCm SDK for `cu130`",
            help = DECLARE,
            backend = "rocm",
        ),
        failing_objects(
            name = "cuda_source_without_capabilities_for_the_cell_fails",
            attribute = "archs",
            problem = "no architectures for `cu130`",
            help = "name at least one, e.g. \"8.0\"",
            archs = {"cu132": ["8.0"]},
            srcs = [PROJECT + "csrc/plain.cu"],
        ),
        failing_objects(
            name = "include_directory_without_files_fails",
            attribute = "includes",
            problem = "no listed file is below `include`",
            help = "list its headers in `hdrs`",
            includes = ["include"],
        ),
    ]

def _device_link_failures():
    for name, flags in [("relocatable", ["-rdc=true"]), ("optimized", ["-dlto"]), ("fixed", [])]:
        kernel_objects(
            name = name,
            srcs = [PROJECT + "csrc/plain.cu"],
            archs = {"cu130": ["8.0"]},
            backend = "cuda",
            cuda_flags = flags,
            tags = ["manual"],
        )
    kernel_device_link(name = "device_link", objects = ["relocatable"], tags = ["manual"])
    return [
        failing_variant(
            name = "device_code_that_nothing_links_fails",
            attribute = "objects",
            problem = "device code of `relocatable` is not linked, or more than once",
            help = "name one kernel_device_link that links all targets with `-rdc=true`",
            backend = "cu130",
            objects = ["relocatable"],
        ),
        failing_variant(
            name = "device_code_without_its_host_code_fails",
            attribute = "objects",
            problem = "device code of `relocatable` is linked, and its host code is not",
            help = "name that target too",
            backend = "cu130",
            objects = ["device_link"],
        ),
        failing_device_link(
            name = "device_link_of_nothing_fails",
            problem = "no target has device code to link",
            help = "add `-rdc=true` to the `cuda_flags` of the targets that share device code",
            objects = ["fixed"],
        ),
        failing_device_link(
            name = "device_link_of_optimized_and_other_code_fails",
            problem = "device code with and without link-time optimization is linked together",
            help = "add `-dlto` to the `cuda_flags` of all, or of none",
            objects = [
                "optimized",
                "relocatable",
            ],
        ),
    ]

def _variant_failures():
    kernel_objects(name = "plain_cpu", backend = "cpu", srcs = [PROJECT + "csrc/plain.cpp"], tags = ["manual"])
    kernel_objects(
        name = "monolithic",
        srcs = [PROJECT + "csrc/plain.cu"],
        archs = {"cu130": ["8.0"]},
        backend = "cuda",
        cuda_compile = "monolithic",
        tags = ["manual"],
    )
    return [
        failing_variant(
            name = "slice_of_what_is_not_linked_fails",
            attribute = "slice",
            problem = "no target of `objects` is named `other`",
            help = "remove it, or name the target too",
            backend = "cu130",
            objects = ["monolithic"],
            slice = {"other": ["8.0"]},
        ),
        failing_variant(
            name = "slice_of_a_source_that_is_compiled_with_its_host_code_fails",
            attribute = "slice",
            problem = "`csrc/plain.cu` of `monolithic` is compiled together with its host code",
            help = "set `cuda_compile = \"split\"`, or build no slice",
            backend = "cu130",
            objects = ["monolithic"],
            slice = {"monolithic": ["8.0"]},
        ),
        failing_variant(
            name = "variant_for_an_undeclared_torch_fails",
            attribute = "torch",
            problem = "no torch SDK for `9.9`",
            help = DECLARE,
            torch = "9.9",
        ),
        failing_variant(
            name = "variant_for_another_cpu_than_that_of_the_platform_fails",
            attribute = "cpu",
            problem = "the variant is for x86_64, and `--platforms` names another CPU",
            help = "build without `--platforms`, or build the variant for that CPU",
            test_rule = arm_platform_test,
        ),
        failing_variant(
            name = "variant_for_an_unknown_backend_fails",
            attribute = "backend",
            problem = "unknown: `metal`",
            help = "name `cpu`, or a release of CUDA or ROCm, e.g. `cu130`",
            backend = "metal",
        ),
        failing_variant(
            name = "variant_for_an_abi_that_torch_was_not_released_with_fails",
            attribute = "cxx_abi",
            problem = "torch 2.13 has no build with `cxx98`",
            help = "choose from cxx11",
            cxx_abi = "cxx98",
        ),
        failing_variant(
            name = "objects_of_two_targets_of_one_name_fail",
            attribute = "objects",
            problem = "two targets are named `plain_cpu`",
            help = "rename one: symbols have the name in them",
            objects = [PROJECT + "plain_cpu", "plain_cpu"],
        ),
        failing_variant(
            name = "python_file_outside_of_its_root_fails",
            attribute = "python",
            problem = "`torch-ext/fixture/__init__.py` is not below `torch-ext/other/`",
            help = "move it, or set `python_root`",
            python_root = "torch-ext/other",
        ),
        failing_variant(
            name = "missing_init_file_fails",
            attribute = "python",
            problem = "`torch-ext/__init__.py` is missing",
            help = "add it: `kernels` imports it",
            python_root = "torch-ext",
        ),
        failing_variant(
            name = "python_file_with_the_name_of_a_generated_one_fails",
            attribute = "python",
            problem = "`_ops.py` is generated",
            help = "rename your file",
            python = [
                PROJECT + "torch-ext/fixture/__init__.py",
                PROJECT + "torch-ext/fixture/_ops.py",
            ],
        ),
        failing_variant(
            name = "binding_that_is_no_module_fails",
            attribute = "binding",
            problem = "the variant is not a module",
            help = "set `module`, or remove it",
            binding = True,
        ),
        failing_variant(
            name = "module_with_python_files_fails",
            attribute = "python",
            problem = "a module stands alone in its variant",
            help = "remove it, or remove `module`",
            module = "pkg._C",
        ),
        failing_module(
            name = "module_that_python_cannot_import_fails",
            attribute = "module",
            problem = "`pkg.2c` is not a dotted name",
            help = "name it as Python imports it, e.g. `pkg._C`",
            module = "pkg.2c",
        ),
        failing_variant(
            name = "link_order_with_a_source_of_no_target_fails",
            attribute = "link_order",
            problem = "no target of `objects` compiles `csrc/other.cpp`",
            help = "remove it, or correct its path in the package",
            link_order = ["csrc/plain.cpp", "csrc/other.cpp"],
        ),
        failing_module(
            name = "module_without_objects_fails",
            attribute = "objects",
            problem = "a module without objects",
            help = "name the kernel_objects to link",
            objects = [],
        ),
        failing_module(
            name = "module_without_a_suffix_fails",
            attribute = "library_suffix",
            problem = "the file of the module has no suffix",
            help = "set `.abi3.so` or `.so`, or set `binding`",
        ),
        failing_module(
            name = "binding_with_a_suffix_fails",
            attribute = "library_suffix",
            problem = "a binding is loaded as `lib*.so`",
            help = "remove it",
            binding = True,
            library_suffix = ".so",
        ),
        failing_module(
            name = "binding_for_one_python_fails",
            attribute = "python_version",
            problem = "a binding without Python is for every Python",
            help = "remove it, or remove `binding`",
            binding = True,
            python_version = "3.13",
        ),
        failing_module(
            name = "module_for_every_python_with_the_suffix_of_one_fails",
            attribute = "library_suffix",
            problem = "no library of a module ends in `.cpython-313-x86_64-linux-gnu.so`",
            help = "for every Python it is `.abi3.so` or `.so`",
            library_suffix = ".cpython-313-x86_64-linux-gnu.so",
        ),
        failing_variant(
            name = "package_with_a_suffix_for_every_python_fails",
            attribute = "library_suffix",
            problem = "the variant is not a module, and for every Python",
            help = "set `module` or `python_version`, or remove it",
            library_suffix = ".so",
        ),
        failing_variant(
            name = "package_for_one_python_without_objects_fails",
            attribute = "objects",
            problem = "no extension for one Python without objects",
            help = "name the kernel_objects to link",
            objects = [],
            python_version = "3.13",
        ),
        failing_variant(
            name = "package_for_one_python_and_the_stable_abi_fails",
            attribute = "stable_abi",
            problem = "pybind11 needs torch's own headers",
            help = "remove it, or remove `python_version`",
            python_version = "3.13",
            stable_abi = "2.9",
        ),
        failing_variant(
            name = "package_for_one_python_without_a_suffix_fails",
            attribute = "library_suffix",
            problem = "no extension for one Python ends in ``",
            help = "set the suffix of that Python, e.g. `.cpython-313-x86_64-linux-gnu.so`",
            python_version = "3.13",
        ),
    ]

def failure_test_suite(name):
    """Declares the tests of messages, each with its wrong target.

    Args:
        name: string, the name of the test suite.
    """
    native.test_suite(name = name, tests = _objects_failures() + _device_link_failures() + _variant_failures())
