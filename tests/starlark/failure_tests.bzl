"""Analysis tests: what is wrong with a target fails its analysis and names target, attribute and remedy."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:defs.bzl", "kernel_device_link", "kernel_objects", "kernel_variant")

_PROJECT = "//tests/starlark/project:"

def _failure_test_impl(ctx):
    env = analysistest.begin(ctx)
    target = str(analysistest.target_under_test(env).label)
    asserts.expect_failure(env, "%s: attribute `%s`: " % (target, ctx.attr.attribute))
    asserts.expect_failure(env, ": %s\n  help: %s" % (ctx.attr.problem, ctx.attr.help))
    return analysistest.end(env)

def _make(torch, backend, stable_abi = "none", more = {}):
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
            str(Label("//rules/settings:stable_abi")): stable_abi,
            str(Label("//rules/settings:torch")): torch,
        } | more,
        expect_failure = True,
    )

known_cell_test = _make("2.13", "cu130")
rocm_cell_test = _make("2.13+rocm", "rocm72")
arm_platform_test = _make("2.13", "cpu", more = {"//command_line_option:platforms": str(Label("//toolchains:aarch64"))})
unknown_torch_test = _make("9.9", "cu130")
unknown_cuda_test = _make("2.13", "cu999")
unknown_stable_abi_test = _make("2.13", "cu130", stable_abi = "29")

_DECLARE = "declare it in toolchains/matrix.toml and lock it, or choose another variant"

def _objects(name, attribute, problem, help, test_rule = known_cell_test, **attributes):
    """Declares a wrong kernel_objects and the test of its message."""
    values = {"backend": "cuda", "srcs": [_PROJECT + "csrc/plain.cpp"]} | attributes
    kernel_objects(name = name + ".target", tags = ["manual"], **values)
    test_rule(
        name = name,
        size = "small",
        attribute = attribute,
        help = help,
        problem = problem,
        target_under_test = name + ".target",
    )
    return name

def _variant(name, attribute, problem, help, test_rule = known_cell_test, **attributes):
    """Declares a wrong kernel_variant and the test of its message."""
    values = {
        "backend": "cpu",
        "cxx_abi": "cxx11",
        "objects": [_PROJECT + "plain_cpu"],
        "python": [_PROJECT + "torch-ext/fixture/__init__.py"],
        "python_root": "torch-ext/fixture",
        "torch": "2.13",
    } | attributes
    kernel_variant(name = name + ".target", id = _PROJECT + "id", metadata = "{}", tags = ["manual"], **values)
    test_rule(
        name = name,
        size = "small",
        attribute = attribute,
        help = help,
        problem = problem,
        target_under_test = name + ".target",
    )
    return name

def _device_link(name, problem, help, objects):
    """Declares a wrong kernel_device_link and the test of its message."""
    kernel_device_link(name = name + ".target", objects = objects, tags = ["manual"])
    known_cell_test(
        name = name,
        size = "small",
        attribute = "objects",
        help = help,
        problem = problem,
        target_under_test = name + ".target",
    )
    return name

def _module(name, **attributes):
    """Declares a wrong kernel_variant that is a module, and the test of its message."""
    return _variant(name, **({"module": "pkg._C", "python": [], "python_root": ""} | attributes))

def _objects_failures():
    return [
        _objects(
            name = "unknown_dependency_fails",
            attribute = "depends",
            problem = "no such dependency: `numpy`",
            help = "choose from torch, openmp, pybind, cpython, cutlass_3_5, cutlass_3_6, ",
            depends = ["numpy"],
        ),
        _objects(
            name = "binding_without_torch_fails",
            attribute = "depends",
            problem = "`pybind` without `torch`: functions are bound as ops of torch",
            help = "add `torch`",
            depends = ["pybind"],
        ),
        _objects(
            name = "headers_for_one_python_and_for_all_fail",
            attribute = "depends",
            problem = "`cpython` and `pybind`: headers for one Python and for all",
            help = "remove one",
            depends = ["cpython", "pybind", "torch"],
        ),
        _objects(
            name = "stable_abi_that_is_no_version_fails",
            test_rule = unknown_stable_abi_test,
            attribute = "stable_abi",
            problem = "`29` is not a torch version",
            help = "write major and minor, e.g. `2.9`",
            depends = ["torch"],
        ),
        _objects(
            name = "unknown_backend_fails",
            attribute = "backend",
            problem = "unknown: `metal`",
            help = "choose from cpu, cuda, rocm",
            backend = "metal",
        ),
        _objects(
            name = "objects_for_an_undeclared_torch_fail",
            attribute = "depends",
            problem = "no torch SDK for `9.9`",
            help = _DECLARE,
            depends = ["torch"],
            test_rule = unknown_torch_test,
        ),
        _objects(
            name = "objects_for_an_undeclared_cuda_fail",
            attribute = "backend",
            problem = "no CUDA SDK for `cu999`",
            help = _DECLARE,
            test_rule = unknown_cuda_test,
        ),
        _objects(
            name = "cuda_source_in_a_cpu_group_fails",
            attribute = "srcs",
            problem = "`tests/starlark/project/csrc/plain.cu` is CUDA",
            help = "set backend = \"cuda\" or \"rocm\"",
            backend = "cpu",
            srcs = [_PROJECT + "csrc/plain.cu"],
        ),
        _objects(
            name = "relocatable_hip_code_fails",
            test_rule = rocm_cell_test,
            attribute = "hip_flags",
            problem = "`-fgpu-rdc` asks for relocatable device code, which the rules link for CUDA alone",
            help = "define what a kernel calls in its own file, or in a header",
            archs = {"rocm72": ["gfx942"]},
            backend = "rocm",
            hip_flags = ["-fgpu-rdc"],
            srcs = [_PROJECT + "csrc/plain.cu"],
        ),
        _objects(
            name = "hip_source_in_a_cuda_group_fails",
            attribute = "srcs",
            problem = "`tests/starlark/project/csrc/other.hip` is HIP",
            help = "set backend = \"rocm\"",
            archs = {"cu130": ["8.0"]},
            srcs = [_PROJECT + "csrc/other.hip"],
        ),
        _objects(
            name = "sources_that_hipify_gives_one_name_fail",
            test_rule = rocm_cell_test,
            attribute = "srcs",
            problem = "hipify turns both `csrc/twin.cu` and `csrc/twin.hip` into `csrc/twin.hip`",
            help = "rename one of them",
            archs = {"rocm72": ["gfx942"]},
            backend = "rocm",
            srcs = [
                _PROJECT + "csrc/twin.cu",
                _PROJECT + "csrc/twin.hip",
            ],
        ),
        _objects(
            name = "c_source_with_openmp_fails",
            attribute = "srcs",
            problem = "`tests/starlark/project/csrc/plain.c` is C: the rules support OpenMP in C++ alone",
            help = "compile it in a target without OpenMP, or as C++",
            backend = "cpu",
            cxx_flags = ["-fopenmp"],
            srcs = [_PROJECT + "csrc/plain.c"],
        ),
        _objects(
            name = "objects_for_rocm_in_a_cuda_cell_fail",
            attribute = "backend",
            problem = "no ROCm SDK for `cu130`",
            help = _DECLARE,
            backend = "rocm",
        ),
        _objects(
            name = "cuda_source_without_capabilities_for_the_cell_fails",
            attribute = "archs",
            problem = "no architectures for `cu130`",
            help = "name at least one, e.g. \"8.0\"",
            archs = {"cu132": ["8.0"]},
            srcs = [_PROJECT + "csrc/plain.cu"],
        ),
        _objects(
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
            srcs = [_PROJECT + "csrc/plain.cu"],
            archs = {"cu130": ["8.0"]},
            backend = "cuda",
            cuda_flags = flags,
            tags = ["manual"],
        )
    kernel_device_link(name = "device_link", objects = ["relocatable"], tags = ["manual"])
    return [
        _variant(
            name = "device_code_that_nothing_links_fails",
            attribute = "objects",
            problem = "device code of `relocatable` is not linked, or more than once",
            help = "name one kernel_device_link that links all targets with `-rdc=true`",
            backend = "cu130",
            objects = ["relocatable"],
        ),
        _variant(
            name = "device_code_without_its_host_code_fails",
            attribute = "objects",
            problem = "device code of `relocatable` is linked, and its host code is not",
            help = "name that target too",
            backend = "cu130",
            objects = ["device_link"],
        ),
        _device_link(
            name = "device_link_of_nothing_fails",
            problem = "no target has device code to link",
            help = "add `-rdc=true` to the `cuda_flags` of the targets that share device code",
            objects = ["fixed"],
        ),
        _device_link(
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
    kernel_objects(name = "plain_cpu", backend = "cpu", srcs = [_PROJECT + "csrc/plain.cpp"], tags = ["manual"])
    kernel_objects(
        name = "monolithic",
        srcs = [_PROJECT + "csrc/plain.cu"],
        archs = {"cu130": ["8.0"]},
        backend = "cuda",
        cuda_compile = "monolithic",
        tags = ["manual"],
    )
    return [
        _variant(
            name = "slice_of_what_is_not_linked_fails",
            attribute = "slice",
            problem = "no target of `objects` is named `other`",
            help = "remove it, or name the target too",
            backend = "cu130",
            objects = ["monolithic"],
            slice = {"other": ["8.0"]},
        ),
        _variant(
            name = "slice_of_a_source_that_is_compiled_with_its_host_code_fails",
            attribute = "slice",
            problem = "`csrc/plain.cu` of `monolithic` is compiled together with its host code",
            help = "set `cuda_compile = \"split\"`, or build no slice",
            backend = "cu130",
            objects = ["monolithic"],
            slice = {"monolithic": ["8.0"]},
        ),
        _variant(
            name = "variant_for_an_undeclared_torch_fails",
            attribute = "torch",
            problem = "no torch SDK for `9.9`",
            help = _DECLARE,
            torch = "9.9",
        ),
        _variant(
            name = "variant_for_another_cpu_than_that_of_the_platform_fails",
            attribute = "cpu",
            problem = "the variant is for x86_64, and `--platforms` names another CPU",
            help = "build without `--platforms`, or build the variant for that CPU",
            test_rule = arm_platform_test,
        ),
        _variant(
            name = "variant_for_an_unknown_backend_fails",
            attribute = "backend",
            problem = "unknown: `metal`",
            help = "name `cpu`, or a release of CUDA or ROCm, e.g. `cu130`",
            backend = "metal",
        ),
        _variant(
            name = "variant_for_an_abi_that_torch_was_not_released_with_fails",
            attribute = "cxx_abi",
            problem = "torch 2.13 has no build with `cxx98`",
            help = "choose from cxx11",
            cxx_abi = "cxx98",
        ),
        _variant(
            name = "objects_of_two_targets_of_one_name_fail",
            attribute = "objects",
            problem = "two targets are named `plain_cpu`",
            help = "rename one: symbols have the name in them",
            objects = [_PROJECT + "plain_cpu", "plain_cpu"],
        ),
        _variant(
            name = "python_file_outside_of_its_root_fails",
            attribute = "python",
            problem = "`torch-ext/fixture/__init__.py` is not below `torch-ext/other/`",
            help = "move it, or set `python_root`",
            python_root = "torch-ext/other",
        ),
        _variant(
            name = "missing_init_file_fails",
            attribute = "python",
            problem = "`torch-ext/__init__.py` is missing",
            help = "add it: `kernels` imports it",
            python_root = "torch-ext",
        ),
        _variant(
            name = "python_file_with_the_name_of_a_generated_one_fails",
            attribute = "python",
            problem = "`_ops.py` is generated",
            help = "rename your file",
            python = [
                _PROJECT + "torch-ext/fixture/__init__.py",
                _PROJECT + "torch-ext/fixture/_ops.py",
            ],
        ),
        _variant(
            name = "binding_that_is_no_module_fails",
            attribute = "binding",
            problem = "the variant is not a module",
            help = "set `module`, or remove it",
            binding = True,
        ),
        _variant(
            name = "module_with_python_files_fails",
            attribute = "python",
            problem = "a module stands alone in its variant",
            help = "remove it, or remove `module`",
            module = "pkg._C",
        ),
        _module(
            name = "module_that_python_cannot_import_fails",
            attribute = "module",
            problem = "`pkg.2c` is not a dotted name",
            help = "name it as Python imports it, e.g. `pkg._C`",
            module = "pkg.2c",
        ),
        _variant(
            name = "link_order_with_a_source_of_no_target_fails",
            attribute = "link_order",
            problem = "no target of `objects` compiles `csrc/other.cpp`",
            help = "remove it, or correct its path in the package",
            link_order = ["csrc/plain.cpp", "csrc/other.cpp"],
        ),
        _module(
            name = "module_without_objects_fails",
            attribute = "objects",
            problem = "a module without objects",
            help = "name the kernel_objects to link",
            objects = [],
        ),
        _module(
            name = "module_without_a_suffix_fails",
            attribute = "library_suffix",
            problem = "the file of the module has no suffix",
            help = "set `.abi3.so` or `.so`, or set `binding`",
        ),
        _module(
            name = "binding_with_a_suffix_fails",
            attribute = "library_suffix",
            problem = "a binding is loaded as `lib*.so`",
            help = "remove it",
            binding = True,
            library_suffix = ".so",
        ),
        _module(
            name = "binding_for_one_python_fails",
            attribute = "python_version",
            problem = "a binding without Python is for every Python",
            help = "remove it, or remove `binding`",
            binding = True,
            python_version = "3.13",
        ),
        _module(
            name = "module_for_every_python_with_the_suffix_of_one_fails",
            attribute = "library_suffix",
            problem = "no library of a module ends in `.cpython-313-x86_64-linux-gnu.so`",
            help = "for every Python it is `.abi3.so` or `.so`",
            library_suffix = ".cpython-313-x86_64-linux-gnu.so",
        ),
        _variant(
            name = "package_with_a_suffix_for_every_python_fails",
            attribute = "library_suffix",
            problem = "the variant is not a module, and for every Python",
            help = "set `module` or `python_version`, or remove it",
            library_suffix = ".so",
        ),
        _variant(
            name = "package_for_one_python_without_objects_fails",
            attribute = "objects",
            problem = "no extension for one Python without objects",
            help = "name the kernel_objects to link",
            objects = [],
            python_version = "3.13",
        ),
        _variant(
            name = "package_for_one_python_and_the_stable_abi_fails",
            attribute = "stable_abi",
            problem = "pybind11 needs torch's own headers",
            help = "remove it, or remove `python_version`",
            python_version = "3.13",
            stable_abi = "2.9",
        ),
        _variant(
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
