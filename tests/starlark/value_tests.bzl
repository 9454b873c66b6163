"""Analysis tests: a value that has no effect, or that a compiler would reject in its own words, fails with a remedy."""

load("//rules:defs.bzl", "kernel_bundle", "kernel_id", "kernel_objects", "kernel_triton", "kernel_variant")
load("//toolchains:own_lock.bzl", "own_lock")
load(":failures.bzl", "PROJECT", "failing_objects", "failing_target", "failing_variant", "python_cell_test", "rocm_cell_test")

def _arch(name, arch, problem, help, **attributes):
    """Declares a kernel_objects with wrong architectures, and the test of its message."""
    values = {"archs": {"cu130": arch}, "srcs": [PROJECT + "csrc/plain.cu"]} | attributes
    return failing_objects(name = name, attribute = "archs", problem = problem, help = help, **values)

def _arch_values():
    return [
        _arch("arch_in_the_spelling_of_nvcc_fails", ["sm_90"], "`sm_90` is not an architecture of CUDA", "write it as in \"8.0\""),
        _arch("arch_without_a_name_fails", [""], "`` is not an architecture of CUDA", "write it as in \"8.0\""),
        _arch(
            "arch_that_the_toolkit_does_not_know_fails",
            ["5.0"],
            "`5.0` is unknown to the variant's release of CUDA",
            "choose from 7.5, 8.0, ",
        ),
        _arch("arch_with_and_without_ptx_fails", ["8.0", "8.0+PTX"], "`8.0` and `8.0+PTX` are one architecture", "remove one"),
        _arch(
            "arch_of_cuda_in_a_rocm_group_fails",
            [],
            "`9.0` is not an architecture of ROCm",
            "write it as in \"gfx942\"",
            archs = {"rocm72": ["9.0"]},
            backend = "rocm",
            test_rule = rocm_cell_test,
        ),
    ]

def _source_values():
    native.genrule(
        name = "twins",
        outs = [
            "csrc/plain.cpp",
            "csrc/plain.h",
            "csrc/two words.cu",
            "torch-ext/fixture/__init__.py",
        ],
        cmd = "exit 1",
        tags = ["manual"],
    )
    return [
        failing_objects(
            name = "group_without_sources_fails",
            attribute = "srcs",
            problem = "no source: the target has nothing to compile",
            help = "name at least one file",
            srcs = [],
        ),
        failing_objects(
            name = "sources_of_two_packages_with_one_path_fail",
            attribute = "srcs",
            problem = "`%s` and `%s` have the same path in their packages" % (
                Label(PROJECT + "csrc/plain.cpp"),
                Label("//tests/starlark:twins"),
            ),
            help = "rename one, or compile it in a target of its own",
            srcs = [
                PROJECT + "csrc/plain.cpp",
                "csrc/plain.cpp",
            ],
        ),
        failing_objects(
            name = "headers_of_two_packages_with_one_path_fail_for_rocm",
            attribute = "hdrs",
            problem = "`%s` and `%s` have the same path in their packages" % (
                Label(PROJECT + "csrc/plain.h"),
                Label("//tests/starlark:twins"),
            ),
            help = "rename one: hipify writes all files into one directory",
            archs = {"rocm72": ["gfx942"]},
            backend = "rocm",
            hdrs = [
                PROJECT + "csrc/plain.h",
                "csrc/plain.h",
            ],
            test_rule = rocm_cell_test,
        ),
        failing_objects(
            name = "source_that_nvcc_cannot_name_fails",
            attribute = "srcs",
            problem = "nvcc cannot compile `csrc/two words.cu` of this target: `csrc/two words.cu` has ` `",
            help = "rename it with letters, digits and `_ . + = @ ~ ^ ! - / ,`",
            archs = {"cu130": ["8.0"]},
            srcs = ["csrc/two words.cu"],
        ),
        failing_objects(
            name = "absolute_include_directory_fails",
            attribute = "includes",
            problem = "no listed file is below `/usr/include`",
            help = "list its headers in `hdrs`",
            includes = ["/usr/include"],
        ),
        failing_objects(
            name = "headers_of_an_unknown_python_fail",
            attribute = "depends",
            problem = "no headers of Python `3.99`",
            help = "set `python_version` of the variant, e.g. `3.13`",
            backend = "cpu",
            depends = [
                "cpython",
                "torch",
            ],
            test_rule = python_cell_test,
        ),
    ]

def _variant_values():
    object = "it is not a JSON object whose `backend` is an object"
    encode = "write it with `json.encode({...})`"
    _kernel_triton("more_triton")
    kernel_id(name = "other_id", backend = "cpu", module = "fixture", srcs = [], tags = ["manual"])
    kernel_objects(name = "sees_other_id", srcs = ["csrc/plain.cpp"], backend = "cpu", id = "other_id", tags = ["manual"])
    return [
        failing_variant(
            name = "objects_that_see_the_id_of_another_kernel_fail",
            attribute = "id",
            problem = "the sources of `sees_other_id` see another id: `%s`" % Label("//tests/starlark:other_id"),
            help = "name one kernel_id in the variant and in all of `objects`",
            objects = ["sees_other_id"],
        ),
        failing_variant(name = "metadata_that_is_no_json_fails", attribute = "metadata", problem = object, help = encode, metadata = "name"),
        failing_variant(name = "metadata_that_is_a_list_fails", attribute = "metadata", problem = object, help = encode, metadata = "[]"),
        failing_variant(
            name = "metadata_whose_backend_is_a_text_fails",
            attribute = "metadata",
            problem = object,
            help = encode,
            metadata = "{\"backend\": \"cuda\"}",
        ),
        failing_variant(
            name = "metadata_whose_archs_are_a_text_fails",
            attribute = "metadata",
            problem = "`archs` of `backend` is not a list",
            help = "write a list of strings",
            metadata = "{\"backend\": {\"archs\": \"8.0\"}}",
        ),
        failing_variant(
            name = "further_options_for_no_target_fail",
            attribute = "more_flags",
            problem = "no target of `objects` is named `plain`",
            help = "write first the name of the target, then its options",
            more_flags = [
                "plain",
                "-O1",
            ],
        ),
        failing_variant(
            name = "variant_for_an_unknown_python_fails",
            attribute = "python_version",
            problem = "no Python `3.99`",
            help = "name a Python of the lock, e.g. `3.13`, or an installed one",
            library_suffix = ".so",
            python_version = "3.99",
        ),
        failing_variant(
            name = "stable_abi_of_a_later_torch_fails",
            attribute = "stable_abi",
            problem = "torch 2.13, which the variant is built with, has no stable ABI of 2.14",
            help = "name that release or an earlier one",
            stable_abi = "2.14",
        ),
        failing_variant(
            name = "variant_with_two_targets_of_triton_fails",
            attribute = "triton",
            problem = "`%s` and `%s`: a variant has one index of compiled functions" % (
                Label(PROJECT + "triton"),
                Label("//tests/starlark:more_triton"),
            ),
            help = "name one kernel_triton with the functions of both",
            triton = [
                PROJECT + "triton",
                "more_triton",
            ],
        ),
        failing_variant(
            name = "variant_for_an_unknown_tvm_ffi_fails",
            attribute = "tvm_ffi",
            problem = "no tvm-ffi `9.9`",
            help = "choose from 0.1",
            tvm_ffi = "9.9",
        ),
        failing_variant(
            name = "python_files_of_two_packages_with_one_path_fail",
            attribute = "python",
            problem = "`%s` and `%s` would both be `__init__.py`" % (
                Label(PROJECT + "torch-ext/fixture/__init__.py"),
                Label("//tests/starlark:twins"),
            ),
            help = "rename one, or remove it",
            python = [
                PROJECT + "torch-ext/fixture/__init__.py",
                "torch-ext/fixture/__init__.py",
            ],
        ),
    ]

def _bundle_values():
    variant = "torch213-cxx11-cpu"
    kernel_variant(
        name = variant,
        backend = "cpu",
        cxx_abi = "cxx11",
        id = PROJECT + "id",
        metadata = "{}",
        objects = [PROJECT + "plain_cpu"],
        python = [PROJECT + "torch-ext/fixture/__init__.py"],
        python_root = "torch-ext/fixture",
        tags = ["manual"],
        torch = "2.13",
    )
    kernel_bundle(
        name = "variants_of_two_kernels_in_a_bundle_fail.target",
        tags = ["manual"],
        variants = [
            PROJECT + variant,
            variant,
        ],
    )
    kernel_bundle(name = "bundle_of_nothing_fails.target", tags = ["manual"], variants = [])
    kernel_id(name = "id_for_no_identifier_fails.target", backend = "cpu", module = "my-kernel", srcs = [], tags = ["manual"])
    return [
        failing_target(
            "variants_of_two_kernels_in_a_bundle_fail",
            "variants",
            "`%s` and `%s` would be one directory" % (Label(PROJECT + variant), Label("//tests/starlark:" + variant)),
            "put variants of several kernels into several bundles",
        ),
        failing_target("bundle_of_nothing_fails", "variants", "a bundle without variants", "name at least one kernel_variant"),
        failing_target(
            "id_for_no_identifier_fails",
            "module",
            "`my-kernel` is not a name in C++ and Python",
            "use letters, digits and `_`",
        ),
    ]

def _kernel_triton(name, **attributes):
    """Declares a kernel_triton."""
    values = {
        "archs": ["9.0"],
        "backend": "cuda",
        "functions": "{}",
        "module": "fixture",
        "python_root": "torch-ext/fixture",
        "release": "3.9",
        "requests": {"copy": "{\"function\": \"kernels.copy\"}"},
        "srcs": [PROJECT + "torch-ext/fixture/__init__.py"],
    } | attributes
    kernel_triton(name = name, tags = ["manual"], **values)

def _triton(name, attribute, problem, help, **attributes):
    """Declares a wrong kernel_triton and the test of its message."""
    _kernel_triton(name + ".target", **attributes)
    return failing_target(name, attribute, problem, help)

def _triton_values():
    request = "`copy` is not a JSON object with the name of a function"
    encode = "write e.g. `json.encode({\"function\": "
    return [
        _triton(
            name = "triton_for_an_arch_of_the_other_backend_fails",
            attribute = "archs",
            problem = "`gfx942` is not an architecture of CUDA",
            help = "write it as in \"8.0\"",
            archs = ["gfx942"],
        ),
        _triton(
            name = "triton_without_archs_fails",
            attribute = "archs",
            problem = "no architectures",
            help = "name at least one, e.g. \"8.0\"",
            archs = [],
        ),
        _triton(
            name = "triton_functions_that_are_no_json_fail",
            attribute = "functions",
            problem = "it is not a JSON object",
            help = "write the parameters of each function with `json.encode`",
            functions = "copy",
        ),
        _triton(name = "triton_request_that_is_no_json_fails", attribute = "requests", problem = request, help = encode, requests = {"copy": "copy"}),
        _triton(name = "triton_request_without_function_fails", attribute = "requests", problem = request, help = encode, requests = {"copy": "{}"}),
        _triton(
            name = "triton_request_with_a_slash_fails",
            attribute = "requests",
            problem = "`../copy` has a slash",
            help = "rename it: files are named after it",
            requests = {"../copy": "{\"function\": \"kernels.copy\"}"},
        ),
        _triton(
            name = "triton_modules_of_two_packages_with_one_path_fail",
            attribute = "srcs",
            problem = "`%s` and `%s` have the same path in their packages" % (
                Label(PROJECT + "torch-ext/fixture/__init__.py"),
                Label("//tests/starlark:twins"),
            ),
            help = "rename one: all modules are in one package",
            srcs = [
                PROJECT + "torch-ext/fixture/__init__.py",
                "torch-ext/fixture/__init__.py",
            ],
        ),
        _triton(
            name = "triton_function_that_reads_an_unlisted_file_fails",
            attribute = "reads",
            problem = "`kernels.copy` reads `other.py`, which is not in `srcs`",
            help = "add it to `srcs`, or remove it",
            reads = {"kernels.copy": ["other.py"]},
        ),
    ]

def _lock_impl(ctx):
    own_lock(ctx.label, ctx.attr.text, ["cuda"])

_lock = rule(
    implementation = _lock_impl,
    attrs = {"text": attr.string(mandatory = True, doc = "The content of a lock.")},
    doc = "Reads a user's lock.",
)

def _lock_values():
    help = "name the file `.lock.json` that `driver lock --matrix FILE` writes"
    tests = []
    for name, text, problem in [
        ("matrix_instead_of_a_lock_fails", "[[cuda]]", "it is not a JSON object"),
        ("lock_of_another_kind_fails", "{\"cc\": {}}", "a lock of your own has no `cc`"),
        ("lock_with_a_list_of_releases_fails", "{\"cuda\": []}", "`cuda` is not an object"),
    ]:
        _lock(name = name + ".target", tags = ["manual"], text = text)
        tests.append(failing_target(name, "lock", problem, help))
    return tests

def value_test_suite(name):
    """Declares the tests of messages, each with its wrong target.

    Args:
        name: string, the name of the test suite.
    """
    tests = _arch_values() + _source_values() + _variant_values() + _bundle_values() + _triton_values() + _lock_values()
    native.test_suite(name = name, tests = tests)
