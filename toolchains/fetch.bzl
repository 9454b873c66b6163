"""How repository rules get pinned archives: through the project's own fetcher, run with the host's Python.

The fetcher asks pip and apt for the user's own mirrors and keeps what it got in one store for the whole machine.
It runs while repositories are made, never inside an action.
"""

_FETCHER = Label("//toolchains:fetch.py")

# Read, but not declared to Bazel: neither the interpreter nor the mirror can change what a repository holds.
_PYTHON = "RULES_TORCH_KERNELS_PYTHON"

def host_python(rctx):
    """The interpreter that repository rules run.

    Args:
        rctx: repository_ctx.

    Returns:
        path or string, the value of RULES_TORCH_KERNELS_PYTHON or else `python3` on PATH.
    """
    python = rctx.os.environ.get(_PYTHON) or rctx.which("python3")
    if not python:
        fail("python3 (3.11 or newer) is not on PATH; it is needed to fetch the toolchains. " +
             "Install it or set %s." % _PYTHON)
    return python

def run(rctx, arguments, what, environment = {}):
    """Runs a program while a repository is made; shows what it wrote to stderr, and fails with that if it fails.

    Args:
        rctx: repository_ctx.
        arguments: list, the command.
        what: string, what the program does, for messages.
        environment: dict, variables to set besides the client's.

    Returns:
        string, what the program printed to stdout.
    """
    rctx.report_progress(what)
    result = rctx.execute(arguments, environment = environment, timeout = 3600)
    if result.return_code != 0:
        fail("%s failed (exit code %d):\n%s%s" % (what, result.return_code, result.stdout, result.stderr))
    if result.stderr:
        print(result.stderr.strip())  # buildifier: disable=print
    return result.stdout

def fetch(rctx, entry, destination, strip_prefix = "", include = [], exclude = []):
    """Gets one archive of the lock and unpacks it.

    Args:
        rctx: repository_ctx.
        entry: dict, an entry of the lock: name, version, filename, size, sha256, origin.
        destination: string, the directory to unpack into, relative to the repository.
        strip_prefix: string, a directory to strip from names in the archive.
        include: list of string, the files and directories to unpack; empty for all.
        exclude: list of string, those of them not to unpack.
    """
    arguments = [
        host_python(rctx),
        "-I",
        rctx.path(_FETCHER),
        "get",
        "--entry",
        json.encode(entry),
        "--dest",
        rctx.path(destination),
    ]
    if strip_prefix:
        arguments += ["--strip-prefix", strip_prefix]
    for prefix in include:
        arguments += ["--include", prefix]
    for prefix in exclude:
        arguments += ["--exclude", prefix]
    run(rctx, arguments, "Fetching %s %s" % (entry["name"], entry["version"]))

def fetch_parts(rctx, archives):
    """Gets archives of the lock and unpacks the parts that it names, each to its place.

    Args:
        rctx: repository_ctx.
        archives: list of dict, entries of the lock with `unpack`: what to strip, the names below that, and where to.
    """
    for archive in archives:
        for part in archive["unpack"]:
            fetch(
                rctx,
                archive,
                part["to"],
                strip_prefix = part["strip"],
                include = [part["strip"] + "/" + name for name in part["names"]],
            )

def reproducible(rctx):
    """What a repository rule returns whose result its arguments determine.

    Args:
        rctx: repository_ctx.

    Returns:
        repo_metadata on a Bazel that has it (8.3), else None.
    """
    return rctx.repo_metadata(reproducible = True) if hasattr(rctx, "repo_metadata") else None
