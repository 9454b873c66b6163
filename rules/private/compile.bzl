"""The action that compiles one C++ source, and the flags that it shares with those of CUDA sources."""

load("//rules/facts:backends.bzl", "OTHER_LANGUAGES")
load("//rules/facts:compilers.bzl", "CXX_STANDARD", "SETUPTOOLS_FLAGS", "VISIBILITY")
load(":actions.bzl", "dirname", "package_path")
load(":gcc.bzl", "gcc_compiler")
load(":hipify.bzl", "hip_name", "renamed")
load(":phase.bzl", "headers_file", "object_file", "phase_file", "run_phase")
load(":sources.bzl", "add_directories", "source_prefix_map")

# Debug sections name the directory that clang runs in; for gcc, our program passes the option.
NO_DIRECTORY = "-fdebug-compilation-dir=."

# What torch's setup.py classes define for all sources.
_HAS_EXTENSION_HEADER = "-DTORCH_API_INCLUDE_EXTENSION_H"

def _repository_prefix_map(file):
    """Removes an external repository's path from `__FILE__`: it differs between Bazel versions and root modules."""
    root = file.owner.workspace_root
    return ["-ffile-prefix-map=%s/=" % root] if root else []

def _sdks(job):
    """The SDKs with headers besides the compilers' and the section's own, in the order of the search."""
    return job.libraries + ([job.torch] if job.torch else [])

def prefix_maps(arguments, job, source, compiler, before_each = None, gpu = True):
    """Adds the options that remove the paths of packages and repositories from `__FILE__`.

    Args:
        arguments: Args to add to.
        job: struct of what all sources of a target have in common; see kernel_objects.bzl.
        source: File to compile.
        compiler: File of the host compiler.
        before_each: string to put before each option, or None.
        gpu: bool, whether the paths of the GPU's toolkit are included: not for a preprocessed text, which is compiled
            for several releases of the toolkit and already contains the names of files.
    """
    files = [compiler, job.registration] + (job.gpu.markers if job.gpu and gpu else [])
    arguments.add_all(files, map_each = _repository_prefix_map, before_each = before_each)
    roots = [sdk.root for sdk in _sdks(job) if sdk.root]
    arguments.add_all(["-ffile-prefix-map=%s/=" % root for root in roots], before_each = before_each)
    if job.hipified:
        roots = [job.hipified]
        arguments.add_all(roots, expand_directories = False, format_each = "-ffile-prefix-map=%s/=", before_each = before_each)
    else:
        source_prefix_map(arguments, job.sources, source, before_each)

def add_source(arguments, job, source):
    """Adds the path of a source without its comments, or as hipify made it.

    Args:
        arguments: Args to add to.
        job: see `prefix_maps`.
        source: File, as it stands in the project.
    """
    if job.hipified:
        name = hip_name(package_path(source))
        arguments.add_all([job.hipified], expand_directories = False, format_each = "%s/" + name.replace("%", "%%"))
    else:
        arguments.add(job.sources[source])

def language_flags(job, dialect = "gnu"):
    """Options for the optimization and the language, as in a CMake release build, which upstream runs.

    Args:
        job: see `prefix_maps`.
        dialect: `gnu`, CMake's and g++'s default, with `typeof` and the type traits of `__int128`; or `c`, nvcc's only
            one, which torch also requests for a setup.py.

    Returns:
        list of string.
    """
    return ["-O3", "-std=%s++%d" % (dialect, job.torch.cxx_standard if job.torch else CXX_STANDARD)]

def id_header(job):
    """The header that defines TORCH_EXTENSION_NAME as the id of the kernel.

    Args:
        job: see `prefix_maps`.

    Returns:
        File, or None if the sources see no id.
    """
    return job.id.header if job.id else None

def _cxx_abi(job):
    """The define that chooses the C++ ABI."""
    return [] if job.cxx_abi == "none" else ["-D_GLIBCXX_USE_CXX11_ABI=%d" % (1 if job.cxx_abi == "cxx11" else 0)]

def preprocessor_flags(arguments, job, needed, name):
    """Adds the defines and the include directories.

    Args:
        arguments: Args to add to.
        job: see `prefix_maps`.
        needed: File, a directory of torch's headers without the parts that a source does not need, or None.
        name: File, a header that defines TORCH_EXTENSION_NAME, or None.
    """
    arguments.add("-DNDEBUG")
    arguments.add_all(job.backend.options)
    arguments.add_all(_cxx_abi(job))
    arguments.add_all(job.target_version)
    for library in job.libraries:
        arguments.add_all(library.defines)
    arguments.add_all(job.pybind_defines)
    arguments.add_all([job.registration], map_each = dirname, before_each = "-I")
    if job.binding:
        # Before the project's own directories: they may contain a copy of pybind11.
        arguments.add_all([job.binding.marker], map_each = dirname, before_each = "-I")
    if job.hipified:
        for include in job.includes:
            form = "%s" if include == "." else "%s/" + renamed(include).replace("%", "%%")
            arguments.add_all([job.hipified], expand_directories = False, format_each = form, before_each = "-I")
    else:
        add_directories(arguments, job.sources, job.includes, "-I")
    if needed:
        arguments.add(needed, format = "--needed-headers=%s")
    for sdk in _sdks(job):
        arguments.add_all(sdk.includes, before_each = "-isystem")
    if name:
        arguments.add("-include", name)

def scanned(job, source, needed):
    """The files whose words determine which of torch's headers a source needs.

    Args:
        job: see `prefix_maps`.
        source: File to compile.
        needed: see `preprocessor_flags`.

    Returns:
        list of File; empty if all headers are read.
    """
    return [job.sources[source]] + job.headers if needed else []

def preprocessor_inputs(job, source, sdk_files, name, needed = None):
    """The inputs of preprocessing a source, with each header of the toolchains as a file of its own.

    Args:
        job: see `prefix_maps`.
        source: File to compile.
        sdk_files: list of depset of File, of the compilers.
        name: see `preprocessor_flags`.
        needed: see `preprocessor_flags`.

    Returns:
        depset of File.
    """
    direct = _own_files(job, source, name) + ([needed] if needed else [])
    return depset(direct, transitive = sdk_files + [sdk.headers for sdk in _sdks(job)])

def _own_files(job, source, name):
    """The files of the project and of the rules that a source reads."""
    direct = [job.hipified] if job.hipified else [job.sources[source]] + job.headers
    return [job.registration] + (job.binding.headers if job.binding else []) + direct + ([name] if name else [])

def packed_inputs(job, source, compilers, name, needed = None):
    """The inputs of preprocessing a source, with each toolchain's headers in one file, if all toolchains have a pack.

    Args:
        job: see `prefix_maps`.
        source: File to compile.
        compilers: list of struct, see `packed`: the SDKs with headers besides libraries and torch.
        name: see `preprocessor_flags`.
        needed: see `preprocessor_flags`.

    Returns:
        struct, see `packed`.
    """
    own = _own_files(job, source, name)
    brought = packed(compilers + _sdks(job), own)
    inputs = depset(own + ([needed] if needed else []), transitive = [brought.inputs])
    return struct(inputs = inputs, packs = brought.packs, readers = brought.readers)

def packed(sdks, readers):
    """The headers of toolchains for a program that reads packs: the packs, or each header if a toolchain has no pack.

    Args:
        sdks: list of struct with `headers`, depset of File, and `pack`, the same headers in one File, or None.
        readers: list of File, or directories of them, whose includes are resolved.

    Returns:
        struct of `inputs`, depset of File; `packs` and `readers`, list of File, for `add_packs`.
    """
    packs = [sdk.pack for sdk in sdks]
    if not packs or None in packs:
        return struct(inputs = depset(transitive = [sdk.headers for sdk in sdks]), packs = [], readers = [])
    return struct(inputs = depset(packs), packs = packs, readers = readers)

def add_packs(arguments, packed):
    """Adds the options that name packs, and the files whose includes are resolved.

    Args:
        arguments: Args to add to, of a program that reads packs.
        packed: struct, see `packed`.
    """
    arguments.add_all(packed.packs, before_each = "--pack")
    arguments.add_all(packed.readers, before_each = "--reads")

def _flags_of(language, flags):
    """An author's flags with the standards of a language alone: of C++, `c`, or none of `assembler-with-cpp`."""
    found = []
    for flag in flags:
        named = flag.startswith("-std=") or flag.startswith("--std=")
        if not named or (("++" in flag) == (not language) and language != OTHER_LANGUAGES["S"]):
            found.append(flag)
    return found

def without_definitions(flags):
    """An author's flags without the options that only preprocessing reads, so that more of the later phases are shared.

    Args:
        flags: list of string.

    Returns:
        list of string.
    """
    found = []
    for i, flag in enumerate(flags):
        before = flags[i - 1] if i else ""
        passed_on = before.startswith("-X") or before.startswith("--X") or before.endswith("-options")
        if before not in ["-D", "-U"] and (passed_on or flag[:2] not in ["-D", "-U"]):
            found.append(flag)
    return found

def compile_cxx(ctx, job, source):
    """Compiles a source in C++, C or assembly with the host compiler, or C++ with gcc if the target asks for it.

    A source that sees the id of the kernel is preprocessed in an action of its own, and the id is then inserted into
    its text: the id changes with every edit of any source, but the text does not if the source gets the id through
    registration.h alone. Each source that gcc compiles is also preprocessed separately: releases of CUDA share the
    compile of an equal text.

    Args:
        ctx: rule context.
        job: struct of what all sources of a target have in common; see kernel_objects.bzl.
        source: File to compile.

    Returns:
        list of File, the object to link; list of File, the first output of each action.
    """
    toolchain = Label("//toolchains/cc:toolchain_type")

    def run(mnemonic, what, arguments, inputs, outputs, program):
        run_phase(ctx, job, source, toolchain, mnemonic, what, arguments, inputs, outputs, program)

    object = object_file(ctx, source)
    language = OTHER_LANGUAGES.get(source.extension)
    needed = None if language else job.needed
    name = ctx.file._extension_name if job.id and not language else None
    scan = scanned(job, source, needed)
    header = None
    if job.gcc and not language:
        compiler = gcc_compiler(ctx, job, scan)
        headers = preprocessor_inputs(job, source, compiler.files + ([job.gpu.headers] if job.gpu else []), name, needed)
    else:
        brought = packed_inputs(job, source, [job.cc] + ([job.gpu] if job.gpu else []), name, needed)
        headers = brought.inputs
        compiler = _clang_compiler(ctx, job, scan, brought)
        header = job.precompiled if needed and job.precompiled and job.precompiled.header and not name else None
        if header:
            headers = depset([header.header, header.text], transitive = [headers])

    def common(gpu = True):
        arguments = ctx.actions.args()
        arguments.add_all(compiler.options)
        arguments.add_all(VISIBILITY)
        arguments.add_all(["-Wno-unused-command-line-argument", "-O3"] if language else language_flags(job))
        prefix_maps(arguments, job, source, job.cc.compiler, gpu = gpu)
        return arguments

    find = ctx.actions.args()
    find.add_all(compiler.includes, before_each = "-isystem")
    preprocessor_flags(find, job, needed, name)
    if job.gpu:
        find.add("-isystem", job.gpu.include)
    find.add_all(_flags_of(language, compiler.flags))
    read = [headers_file(ctx, source)] if needed else []
    if not name and not compiler.by_text:
        find.add_all(["-x", language] if language else [])
        find.add_all(compiler.compile)
        add_source(find, job, source)
        find.add("-o", object)
        program, first = compiler.start("compile", [], read, header)
        run("KernelCxxCompile", "Compiling", first + [common(), find], headers, [object] + read, program)
        return [object], [object]
    text = phase_file(ctx, source, "KernelCxxPreprocess")

    # The fallback if the compiler rejects the text with the headers that seem to be needed.
    full = [ctx.actions.declare_file("full.ii", sibling = text)] if needed else []
    tried = [headers_file(ctx, source, "tried.txt")] if needed else []
    find.add("-E")
    add_source(find, job, source)
    find.add("-o", text)
    program, first = compiler.start("preprocess", full, tried)
    made = [text] + full
    run("KernelCxxPreprocess", "Preprocessing", first + [common(), find], headers, made + tried, program)
    texts = made
    if name:
        texts = [phase_file(ctx, source, "KernelCxxName")] + [ctx.actions.declare_file("named-full.ii", sibling = text) for _ in full]
        naming = ctx.actions.args()
        naming.add("name")
        naming.add(job.id.text)
        for file, to in zip(made, texts):
            naming.add_all([file, to])
        program = {"executable": ctx.executable._compile}
        run("KernelCxxName", "Naming", [naming], [job.id.text] + made, texts, program)
    flags = ctx.actions.args()
    flags.add_all(compiler.before_text)
    flags.add_all(without_definitions(compiler.flags))
    flags.add_all(compiler.at_text)
    flags.add(texts[0])
    flags.add("-o", object)
    program, first = compiler.start("compile-text", texts[1:], tried + read)
    arguments = first + [common(gpu = not compiler.by_text), flags]
    run("KernelCxxCompile", "Compiling", arguments, texts + tried, [object] + read, program)
    return [object], ([text, texts[0], object] if name else [text, object])

def _clang_compiler(ctx, job, scan, packed):
    """clang as `compile_cxx` calls a compiler; `gcc_compiler` documents the fields."""

    def start(step, full, read, header = None):
        if step != "compile-text":
            guard, first = guarded(ctx, job.cc.compiler, packed, scan, full, read, header)
            return guard, [first]
        if not full:
            guard, first = confined(ctx, job.cc.compiler)
            return guard, [first]
        first = ctx.actions.args()
        first.add("either")
        first.add_all(full, before_each = "--full")
        first.add("--read")
        first.add_all(read)
        first.add("--")
        first.add(job.cc.compiler)
        return {"executable": ctx.executable._compile, "tools": [job.cc.compiler]}, [first]

    return struct(
        at_text = ["-Wno-gnu-line-marker", NO_DIRECTORY, "-c"],

        # Options for the search for headers are unused there, and the text has clang's line markers.
        before_text = ["-Wno-unused-command-line-argument"],
        by_text = False,
        compile = [NO_DIRECTORY, "-c"],
        flags = job.cxx_flags,
        includes = job.cc.includes,
        options = ["clang"] + job.cc.flags,
        start = start,
    )

def precompiled_command(job, args, header, text):
    """The command with which clang precompiles a header, with the options of `compile_cxx` that all projects share.

    An author's options are not among them: a source with options that matter is compiled without the precompiled
    header.

    Args:
        job: struct of `source`, File, and the fields of a job of `compile_cxx` that matter here.
        args: function that returns new Args.
        header: File to write.
        text: File to write, with the text of the header.

    Returns:
        struct of `arguments`, list of Args, and `inputs`, depset of File.
    """
    own = [job.registration, job.source] + job.binding.headers
    brought = packed([job.cc, job.torch], own)
    first = args()
    first.add("precompile")
    add_packs(first, brought)
    first.add("--text", text)
    first.add("--")
    first.add(job.cc.compiler)
    arguments = args()
    arguments.add("clang")
    arguments.add_all(job.cc.flags)
    arguments.add_all(VISIBILITY)
    arguments.add_all(language_flags(job, dialect = "c"))
    arguments.add_all([job.cc.compiler, job.registration], map_each = _repository_prefix_map)
    arguments.add("-ffile-prefix-map=%s/=" % job.torch.root)
    arguments.add_all(job.cc.includes, before_each = "-isystem")
    arguments.add_all(["-DNDEBUG", _HAS_EXTENSION_HEADER] + SETUPTOOLS_FLAGS)
    arguments.add_all(_cxx_abi(job))
    arguments.add_all([job.registration, job.binding.marker], map_each = dirname, before_each = "-I")
    arguments.add(job.torch.needed, format = "--needed-headers=%s")
    arguments.add_all(job.torch.includes, before_each = "-isystem")
    arguments.add_all([NO_DIRECTORY, "-c"])
    arguments.add(job.source)
    arguments.add("-o", header)
    return struct(
        arguments = [first, arguments],
        inputs = depset(own + [job.torch.needed], transitive = [brought.inputs]),
    )

def guarded(ctx, compiler, packed, scan = [], full = [], read = [], precompiled = None):
    """A compiler that reads an action's inputs alone: outside of a sandbox, it fails if it has read another file.

    Args:
        ctx: rule context, with the attribute `_compile`.
        compiler: File, a static clang.
        packed: struct, see `packed`.
        scan: list of File, see `scanned`.
        full: list of File, the text with all headers, if the action writes it too.
        read: list of File, see `headers_file`, if the action writes it.
        precompiled: PrecompiledHeaderInfo of the header that the source may include first, or None.

    Returns:
        dict, `executable` and `tools` of an action; and its first Args.
    """
    arguments = ctx.actions.args()
    arguments.add("guarded")
    if precompiled:
        arguments.add("--precompiled", precompiled.header)
        arguments.add("--precompiled-text", precompiled.text)
    add_packs(arguments, packed)
    arguments.add_all(scan, before_each = "--scan")
    arguments.add_all(full, before_each = "--full")
    arguments.add_all(read, before_each = "--read")
    arguments.add("--")
    arguments.add(compiler)
    return {"executable": ctx.executable._compile, "tools": [compiler]}, arguments

def confined(ctx, compiler):
    """A compiler of preprocessed text, or an assembler, confined to an action's inputs where the kernel supports that.

    Args:
        ctx: rule context, with the attribute `_compile`.
        compiler: File, a static clang.

    Returns:
        dict, `executable` and `tools` of an action; and its first Args.
    """
    arguments = ctx.actions.args()
    arguments.add_all(["confined", "--"])
    arguments.add(compiler)
    return {"executable": ctx.executable._compile, "tools": [compiler]}, arguments
