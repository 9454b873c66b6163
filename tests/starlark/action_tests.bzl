"""Analysis tests: what must hold for every action of every rule."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load(":graph.bzl", "GraphInfo", "graph_aspect")
load(":suite.bzl", "declare_tests")

_MNEMONICS = [
    "CudaAssemble",
    "CudaDeviceCompile",
    "CudaDeviceFrontend",
    "CudaDeviceShare",
    "CudaFallback",
    "CudaFatbinary",
    "CudaFrontend",
    "CudaHostCompile",
    "CudaPreprocess",
    "HipAssemble",
    "HipBundle",
    "HipDeviceCompile",
    "HipHostCompile",
    "HipLink",
    "HipPreprocess",
    "Hipify",
    "KernelBundle",
    "KernelCheck",
    "KernelCudaCompile",
    "KernelCxxCompile",
    "KernelCxxName",
    "KernelCxxPrecompile",
    "KernelCxxPreprocess",
    "KernelId",
    "KernelIdObject",
    "KernelLink",
    "KernelSources",
    "KernelVariant",
    "TritonCompile",
    "ZigBuild",
]

# What Bazel itself makes for the rules: files with a fixed content or another name, and the runfiles of the programs.
_BAZELS = [
    "FileWrite",
    "Middleman",
    "RepoMappingManifest",
    "RunfilesTree",
    "SourceSymlinkManifest",
    "Symlink",
    "SymlinkTree",
    "TemplateExpand",
]

# The packages that files of the repository may come from.
_PACKAGES = [
    "rules/private/include/",
    "rules/private/policy/",
    "rules/private/tools/",
    "tests/starlark/project/",
    "toolchains/hipify/",
    "toolchains/lock/",
    "toolchains/triton/",
]

# The actions that do not compile, and what they do.
_ASSEMBLES = ["KernelBundle", "KernelId", "KernelVariant"]
_CHECKS = ["KernelCheck"]

def _make(implementation):
    return analysistest.make(implementation, extra_target_under_test_aspects = [graph_aspect])

def _actions(env):
    nodes = analysistest.target_under_test(env)[GraphInfo].nodes
    return [action for node in nodes for action in node.actions if action.mnemonic in _MNEMONICS]

def _named(action, problem):
    return "%s of %s: %s" % (action.mnemonic, action.outputs.to_list()[0].short_path, problem)

def _mnemonics_test_impl(ctx):
    env = analysistest.begin(ctx)
    nodes = analysistest.target_under_test(env)[GraphInfo].nodes
    found = {action.mnemonic: None for node in nodes for action in node.actions}
    asserts.equals(env, _MNEMONICS, sorted([name for name in found if name not in _BAZELS]))
    return analysistest.end(env)

mnemonics_test = _make(_mnemonics_test_impl)

def _environment_test_impl(ctx):
    env = analysistest.begin(ctx)
    for action in _actions(env):
        asserts.equals(env, {"LANG": "C", "PATH": "/nonexistent", "SOURCE_DATE_EPOCH": "0"}, action.env, _named(action, "environment"))
    return analysistest.end(env)

environment_test = _make(_environment_test_impl)

def _is_absolute(argument):
    return argument.startswith("/") or argument.startswith("-I/") or argument.startswith("-L/") or "=/" in argument

def _arguments_test_impl(ctx):
    env = analysistest.begin(ctx)
    for action in _actions(env):
        asserts.true(env, len(action.argv) > 1, _named(action, "no arguments to look at"))
        for argument in action.argv:
            asserts.false(env, _is_absolute(argument), _named(action, "absolute path in `%s`" % argument))
    return analysistest.end(env)

arguments_test = _make(_arguments_test_impl)

# Needs --experimental_output_paths=strip, which our .bazelrc sets. Bazel then shows mapped paths in the arguments of
# actions that support path mapping; a path in a string, or an action that does not support it, keeps its configuration.
def _path_mapping_test_impl(ctx):
    env = analysistest.begin(ctx)
    for action in _actions(env):
        paths = [argument for argument in action.argv if "bazel-out/" in argument]
        asserts.true(env, len(paths) > 0, _named(action, "no path to look at"))
        for argument in paths:
            unmapped = argument.replace("bazel-out/cfg/bin/", "")
            asserts.false(env, "bazel-out/" in unmapped, _named(action, "unmapped path in `%s`" % argument))
    return analysistest.end(env)

path_mapping_test = _make(_path_mapping_test_impl)

def _cell_names_test_impl(ctx):
    env = analysistest.begin(ctx)
    for action in _actions(env):
        if action.mnemonic not in ["KernelBundle", "KernelCheck", "KernelLink", "KernelVariant"]:
            for argument in action.argv:
                asserts.false(env, "cxx11" in argument, _named(action, "name of a variant in `%s`" % argument))
    return analysistest.end(env)

cell_names_test = _make(_cell_names_test_impl)

def _inputs_test_impl(ctx):
    env = analysistest.begin(ctx)
    for action in _actions(env):
        inputs = action.inputs.to_list()
        asserts.true(env, len(inputs) > 0, _named(action, "no inputs to look at"))
        for path in [file.path for file in inputs]:
            known = path.startswith("external/") or path.startswith("bazel-out/")
            known = known or [package for package in _PACKAGES if path.startswith(package)]
            asserts.true(env, known, _named(action, "input from elsewhere: `%s`" % path))
    return analysistest.end(env)

inputs_test = _make(_inputs_test_impl)

def _sdks_test_impl(ctx):
    env = analysistest.begin(ctx)
    for action in _actions(env):
        paths = [file.path for file in action.inputs.to_list()]
        sdks = {path.split("/")[1].split("torch_kernels_")[-1]: None for path in paths if path.startswith("external/")}
        for kind in ["cuda", "cutlass", "rocm", "torch"]:
            versions = [sdk for sdk in sdks if sdk.startswith(kind)]
            asserts.true(env, len(versions) < 2, _named(action, "two versions: %s" % ", ".join(versions)))
    return analysistest.end(env)

sdks_test = _make(_sdks_test_impl)

def _symbols_test_impl(ctx):
    env = analysistest.begin(ctx)
    for action in _actions(env):
        tables = [file.path for file in action.inputs.to_list() if file.basename == "symbols"]
        wanted = action.mnemonic == "KernelCheck" and "-cpu" not in action.outputs.to_list()[0].short_path
        asserts.equals(env, 1 if wanted else 0, len(tables), _named(action, "tables of symbols: %s" % ", ".join(tables)))
    return analysistest.end(env)

symbols_test = _make(_symbols_test_impl)

def _kind(action):
    return "assembles" if action.mnemonic in _ASSEMBLES else "checks" if action.mnemonic in _CHECKS else "compiles"

def _programs_test_impl(ctx):
    env = analysistest.begin(ctx)
    users = {}
    for action in _actions(env):
        for program in [file.basename for file in action.inputs.to_list() if file.basename.endswith("_program")]:
            users.setdefault(program, {})[_kind(action)] = None
    for program, kinds in users.items():
        asserts.equals(env, 1, len(kinds), "%s is an input of what %s" % (program, " and of what ".join(kinds)))
    found = {kind: None for kinds in users.values() for kind in kinds}
    asserts.equals(env, ["assembles", "checks", "compiles"], sorted(found))
    return analysistest.end(env)

programs_test = _make(_programs_test_impl)

def _program_sources_test_impl(ctx):
    env = analysistest.begin(ctx)
    users = {}
    builds = [action for action in _actions(env) if action.mnemonic == "ZigBuild"]
    asserts.equals(env, 4, len(builds), "programs")
    for action in builds:
        [program] = [file.basename for file in action.outputs.to_list()]
        runtime = [file for file in action.inputs.to_list() if file.basename == "runtime.o"]
        asserts.equals(env, 1, len(runtime), _named(action, "functions that zig builds anew"))
        sources = [file for file in action.inputs.to_list() if file.path.startswith("rules/")]
        asserts.true(env, len(sources) > 1, _named(action, "no sources of its own"))
        for source in sources:
            users.setdefault(source.path, {})[program] = None
    for source, programs in users.items():
        wanted = 4 if source.endswith("/common.zig") else 1
        asserts.equals(env, wanted, len(programs), "%s is an input of %s" % (source, ", ".join(programs)))
    return analysistest.end(env)

program_sources_test = _make(_program_sources_test_impl)

def action_test_suite(name):
    """Declares the tests of every action.

    Args:
        name: string, the name of the test suite.
    """
    declare_tests(
        name,
        {
            "actions_are_all_known": mnemonics_test,
            "actions_have_a_complete_environment": environment_test,
            "actions_have_mapped_paths_in_their_arguments": path_mapping_test,
            "actions_have_no_absolute_path_in_their_arguments": arguments_test,
            "actions_read_nothing_but_sdks_outputs_and_their_package": inputs_test,
            "actions_see_one_version_of_each_sdk": sdks_test,
            "checks_alone_read_what_libraries_define_and_of_one_release": symbols_test,
            "compile_actions_do_not_name_their_cell": cell_names_test,
            "compiling_assembling_and_checking_have_no_program_in_common": programs_test,
            "programs_have_no_source_but_one_in_common": program_sources_test,
        },
        target_under_test = "//tests/starlark/project:bundle",
    )
