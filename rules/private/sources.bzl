"""The files of a project as compilers read them: without comments, so that an edit of a comment compiles nothing."""

load(":actions.bzl", "ACTION", "package_path")

def _mirrored(file):
    """The path of a file below the root of the sources: as below the execution root, wherever it was made."""
    path = file.short_path
    return "external/" + path[len("../"):] if path.startswith("../") else path

def bare_sources(ctx, lines):
    """Writes the files of a target without comments; together they lie to each other as they do in the project.

    Args:
        ctx: rule context, with the attributes `srcs` and `hdrs` of files, and `_compile`.
        lines: bool, whether what is made of them names them as they stand in the project.

    Returns:
        dict of File by the File that it is made of.
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
        progress_message = "Taking comments out of the sources of %{label}",
        **ACTION
    )
    return made

def include_directories(ctx):
    """Directories in which headers of a target may be.

    Args:
        ctx: see `bare_sources`.

    Returns:
        dict of string by string: the path from the root of the sources, by that in the package.
    """
    directories = {}
    for file in ctx.files.srcs + ctx.files.hdrs:
        path = package_path(file)
        root = _mirrored(file)[:-len(path)]
        parts = path.split("/")
        for depth in range(len(parts)):
            directory = "/".join(parts[:depth])
            directories.setdefault(directory or ".", (root + directory).removesuffix("/"))
    return directories

def add_directories(arguments, sources, directories, before_each):
    """Adds an option for each of some directories.

    Args:
        arguments: Args to add to.
        sources: dict that `bare_sources` made.
        directories: list of string, paths from the root of the sources.
        before_each: string to put before each path.
    """
    if not directories:
        return
    original, any_file = sources.items()[0]
    length = len(_mirrored(original)) + 1

    def found(file):
        root = file.path[:-length]
        return [root + "/" + one if one else root for one in directories]

    arguments.add_all([any_file], map_each = found, allow_closure = True, before_each = before_each)

def source_prefix_map(arguments, sources, source, before_each):
    """Adds the options that take the ways to a package out of `__FILE__`, so that it is the same in every workspace.

    Args:
        arguments: Args to add to.
        sources: dict that `bare_sources` made.
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
