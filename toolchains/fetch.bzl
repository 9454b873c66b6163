"""Repository rules get pinned archives through the project's own fetcher, which runs with the host's Python.

The fetcher uses the mirrors that pip and apt are configured with, and keeps archives in one store for the whole
machine. It runs in repository rules, never inside an action.
"""

_FETCHER = Label("//toolchains:fetch.py")

# Read, but not declared to Bazel: neither the interpreter nor the mirror can change a repository's content.
_PYTHON = "RULES_TORCH_KERNELS_PYTHON"

def host_python(rctx):
    """The interpreter that repository rules run.

    Args:
        rctx: repository_ctx.

    Returns:
        path or string, the value of RULES_TORCH_KERNELS_PYTHON, or else `python3` on PATH.
    """
    python = rctx.os.environ.get(_PYTHON) or rctx.which("python3")
    if not python:
        fail("python3 (3.11 or newer) is not on PATH; it is needed to fetch the toolchains. " +
             "Install it or set %s." % _PYTHON)
    return python

def run(rctx, arguments, what, environment = {}):
    """Runs a program in a repository rule; shows its stderr, and fails with its output if it fails.

    Args:
        rctx: repository_ctx.
        arguments: list, the command.
        what: string, what the program does, for messages.
        environment: dict, additional variables.

    Returns:
        string, the program's stdout.
    """
    rctx.report_progress(what)
    result = rctx.execute(arguments, environment = environment, timeout = 3600)
    if result.return_code != 0:
        fail("%s failed (exit code %d):\n%s%s" % (what, result.return_code, result.stdout, result.stderr))
    if result.stderr:
        print(result.stderr.strip())  # buildifier: disable=print
    return result.stdout

def fetch(rctx, entry, destination, strip_prefix = "", include = [], exclude = []):
    """Fetches an archive of the lock and unpacks it.

    Args:
        rctx: repository_ctx.
        entry: dict, an entry of the lock: name, version, filename, size, sha256, origin.
        destination: string, the directory to unpack into, relative to the repository.
        strip_prefix: string, a directory to strip from names in the archive.
        include: list of string, the files and directories to unpack; empty for all.
        exclude: list of string, files and directories among them to skip.
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
    """Fetches archives of the lock and unpacks the parts that it names, each to its directory.

    Args:
        rctx: repository_ctx.
        archives: list of dict, entries of the lock with `unpack`: the prefix to strip, the names below it, and the
            destination.
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
    """The result of a repository rule whose output depends on its arguments alone.

    Args:
        rctx: repository_ctx.

    Returns:
        repo_metadata on a Bazel that has it (8.3), else None.
    """
    return rctx.repo_metadata(reproducible = True) if hasattr(rctx, "repo_metadata") else None
