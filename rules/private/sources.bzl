"""The files of a project as compilers read them: without comments, so that an edit of a comment compiles nothing."""

load(":actions.bzl", "ACTION", "package_path")

def _mirrored(file):
    """The path of a file below the root of the sources: its path below the execution root or its output directory."""
    path = file.short_path
    return "external/" + path[len("../"):] if path.startswith("../") else path

def bare_sources(ctx, lines):
    """Writes the files of a target without comments, with the same relative paths as in the project.

    Args:
        ctx: rule context, with the attributes `srcs` and `hdrs` of files, and `_compile`.
        lines: bool, whether the written files name the project's files and lines.

    Returns:
        dict of the written File by the original File.
    """
    arguments = ctx.actions.args()
    arguments.add("sources")
    arguments.add_all(["--lines"] if lines else [])
    made = {}
    for file in ctx.files.srcs + ctx.files.hdrs:
        if file not in made:
            made[file] = ctx.actions.declare_file("%s.sources/%s" % (ctx.label.name, _mirrored(file)))
            arguments.add(file)
            arguments.add(made[file])
    ctx.actions.run(
        executable = ctx.executable._compile,
        arguments = [arguments],
        inputs = made.keys(),
        outputs = made.values(),
        mnemonic = "KernelSources",
        progress_message = "Removing comments from the sources of %{label}",
        **ACTION
    )
    return made

def include_directories(ctx, includes):
    """The directories that `includes` names: in the target's package, and in each package with a listed file.

    Args:
        ctx: see `bare_sources`.
        includes: list of string, paths relative to the package; one may lead out of it, as in `../other/include`.

    Returns:
        dict by string of list of string, the paths from the root of the sources by entry; empty if no listed file is
        below any of them.
    """
    files = [(_mirrored(file), package_path(file)) for file in ctx.files.srcs + ctx.files.hdrs]
    own = [_mirrored_package(ctx.label)]
    packages = {package: None for package in own + [path[:-len(name)].removesuffix("/") for path, name in files]}
    found = {}
    for include in includes:
        directories = {_joined(package, include): None for package in (own if ".." in include.split("/") else packages)}
        found[include] = [
            directory
            for directory in directories
            if directory != None and any([not directory or path.startswith(directory + "/") for path, _ in files])
        ]
    return found

def _mirrored_package(label):
    """The path of a package below the root of the sources."""
    return "/".join([part for part in (label.workspace_root, label.package) if part])

def _joined(directory, path):
    """A path relative to a directory, without `.` and `..`; None if it is absolute or leads out of the root."""
    parts = [part for part in directory.split("/") if part]
    if path.startswith("/"):
        return None
    for part in path.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ["", "."]:
            parts.append(part)
    return "/".join(parts)

def add_directories(arguments, sources, directories, before_each):
    """Adds an option for each directory.

    Args:
        arguments: Args to add to.
        sources: dict that `bare_sources` returned.
        directories: list of string, paths from the root of the sources.
        before_each: string to put before each path.
    """
    if not directories:
        return
    original, any_file = sources.items()[0]
    length = len(_mirrored(original)) + 1

    def found(file):
        root = file.path[:-length]
        return [root + "/" + directory if directory else root for directory in directories]

    arguments.add_all([any_file], map_each = found, allow_closure = True, before_each = before_each)

def source_prefix_map(arguments, sources, source, before_each):
    """Adds the options that remove a package's path from `__FILE__`, so that it is the same in every workspace.

    Args:
        arguments: Args to add to.
        sources: dict that `bare_sources` returned.
        source: File of the package.
        before_each: string to put before each option, or None.
    """
    length = len(package_path(source))
    arguments.add_all(
        [source, sources[source]],
        map_each = lambda file: ["-ffile-prefix-map=%s=" % file.path[:-length]] if len(file.path) > length else [],
        allow_closure = True,
        before_each = before_each,
    )
