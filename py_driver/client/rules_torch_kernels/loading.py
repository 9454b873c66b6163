"""Builds a project if something in it has changed, and loads what was built."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rules_torch_kernels.progress import in_terminal, notebook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import ModuleType

DRIVER = "RULES_TORCH_KERNELS_DRIVER"
"""Environment variable with the command that builds; if not set, `driver` of this Python's environment or
of PATH, or else the package that this Python imports."""

MATRIX = "RULES_TORCH_KERNELS_MATRIX"
"""Environment variable that names a file with releases of the user's own."""

_KNOWN = "known.json"
"""The file, beside the builds, that says of which state of the files the last one is."""

_LOCK = "known.lock"
"""The file beside it that a process has locked while it builds."""

NOT_SOURCES = frozenset(
    {
        ".dev",
        ".git",
        "build",
        "build-slices",
        ".venv",
        ".pytest_cache",
        ".hypothesis",
        ".mypy_cache",
        ".ruff_cache",
        ".idea",
        ".vscode",
    }
)
"""Directories of a project that hold no sources."""

CACHE = "__pycache__"
"""What Python leaves in any directory."""


class BuildError(RuntimeError):
    """A project could not be built; the message is what the driver and the compilers said."""


class _Loaded(NamedTuple):
    """What was loaded last of a project.

    Attributes:
        state: of its files and of what it was built for, at that time: see `state_of`.
        path: the directory of the variant.
        module: what came of it.
    """

    state: str
    path: str
    module: ModuleType


ARCH_LISTS = ("TORCH_CUDA_ARCH_LIST", "PYTORCH_ROCM_ARCH")
"""Variables that name the GPU architectures that the driver builds for."""

_loaded: dict[Path, _Loaded] = {}
_one_at_a_time = threading.RLock()


def _unlock_after_fork() -> None:
    """Give a process a lock of its own: the thread that held the parent's does not run here, and never frees it."""
    global _one_at_a_time  # noqa: PLW0603
    _one_at_a_time = threading.RLock()


os.register_at_fork(after_in_child=_unlock_after_fork)


def load(directory: str | os.PathLike[str], *, backend: str = "", verbose: bool | None = None) -> ModuleType:
    """The module of a kernel project, built for this Python and this machine.

    The first call builds, as `driver run` does, unless another process has built the very same. A later one builds only
    if a file has changed since, and then returns the new module, while the old one keeps working. The sources and
    build.toml are those that `driver build` ships.

    Args:
        directory: of the project.
        backend: `cpu`, `cuda` or `rocm`; if empty, that of the GPU if there is one that torch can use, else `cpu`.
        verbose: show what the driver says while it builds; if None, in a terminal and in a notebook only.

    Raises:
        BuildError: it cannot be built; what was loaded before keeps working.
    """
    root = Path(directory).resolve()
    if not (root / "build.toml").is_file():
        has_script = (root / "setup.py").is_file()
        remedy = "; install a project with a setup.py by `pip install`, and import its modules" if has_script else ""
        raise BuildError(f"there is no {root / 'build.toml'}{remedy}")
    with _one_at_a_time:
        return _load(root, backend, show=verbose)


def _load(root: Path, backend: str, *, show: bool | None) -> ModuleType:
    """See `load`; no other thread loads meanwhile."""
    state = state_of(root, backend)
    last = _loaded.get(root)
    if last is not None and last.state == state:
        return last.module
    variant = newest(root, backend, show=show, state=state)
    module = last.module if last is not None and last.path == variant["path"] else load_variant(variant)
    _loaded[root] = _Loaded(state=state, path=variant["path"], module=module)
    return module


def newest(root: Path, backend: str, *, show: bool | None = None, state: str = "") -> dict[str, Any]:
    """The build of what a project's files say now; made if neither this process nor another one has.

    Args:
        root: the project's directory.
        backend: see `load`.
        show: show what the driver says, see `load`.
        state: of the files, if that is known.

    Raises:
        BuildError: it cannot be built.
    """
    state = state or state_of(root, backend)
    variant = _known(root, state)
    if variant is None:
        with _turn(root):
            # Another process may have built it meanwhile.
            variant = _known(root, state)
            if variant is None:
                variant = build_shown(root, backend, show=show)
                replace_text(root / ".dev" / _KNOWN, json.dumps({"state": state, "made": variant}))
    return variant


def build_shown(root: Path, backend: str, *, show: bool | None) -> dict[str, Any]:
    """Let the driver build a project, and show what it says; see `build`.

    Args:
        root: the project's directory.
        backend: see `load`.
        show: show what the driver says, see `verbose` of `load`.

    Raises:
        BuildError: it fails.
    """
    follow = None if show is False else notebook()
    return build(root, backend, verbose=in_terminal() if show is None else show, follow=follow)


def replace_text(file: Path, text: str) -> None:
    """Write a file at once: who reads it meanwhile finds the old text or the new one.

    Args:
        file: to write.
        text: what it is to say.
    """
    new = file.with_suffix(f".{os.getpid()}")
    new.write_text(text, encoding="utf-8")
    new.replace(file)


@contextmanager
def _turn(root: Path) -> Iterator[None]:
    """Wait until no other process builds a project for Python."""
    directory = root / ".dev"
    with turn(directory):
        if not (ignored := directory / ".gitignore").exists():
            ignored.write_text("*\n", encoding="utf-8")
        yield


@contextmanager
def turn(directory: Path) -> Iterator[None]:
    """Wait until no other process builds into a directory, which is made if it is not there.

    Args:
        directory: with the file that is locked meanwhile.

    Raises:
        BuildError: it cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as problem:
        raise BuildError(f"{directory} cannot be written: {problem.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        # A process that another thread has forked meanwhile has the descriptor too, and would keep the lock.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _known(root: Path, state: str) -> dict[str, Any] | None:
    """What was built of a project in this state, by this process or another one; None if that is not known."""
    try:
        known = json.loads((root / ".dev" / _KNOWN).read_text(encoding="utf-8"))
        variant: dict[str, Any] = known["made"]
        path = Path(variant["path"], *(["metadata.json"] if "module" in variant else []))
        # An earlier version of this package wrote the file without `import-from`.
        is_current = "module" not in variant or "import-from" in variant
        return variant if known["state"] == state and is_current and path.exists() else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def load_variant(variant: dict[str, Any]) -> ModuleType:
    """The module of a variant that was built.

    Args:
        variant: what `driver run --json` says of it.
    """
    import kernels  # type: ignore[import-untyped]

    module: ModuleType = kernels.get_local_kernel(Path(variant["path"]).parent, backend=_asked(variant["backend"]))
    return module


def _asked(backend: str) -> str | None:
    """What to ask the client for; it finds out the GPU's backend by itself, and calls that of both makers otherwise."""
    return "cpu" if backend == "cpu" else None


def settings() -> list[str]:
    """What a build for this Python depends on besides sources and torch: the driver, the architectures, a matrix."""
    values = [version_of("rules-torch-kernels"), *(os.environ.get(name, "") for name in (*ARCH_LISTS, DRIVER, MATRIX))]
    if named := os.environ.get(MATRIX):
        paths = (Path(named), Path(named).with_suffix(".lock.json"))
        values += [hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "" for path in paths]
    return values


def state_of(root: Path, backend: str) -> str:
    """A digest of what a build depends on: this Python, and each file with its size and its times.

    Args:
        root: the project's directory.
        backend: see `load`.
    """
    about = [sys.executable, version_of("torch"), backend, *settings()]
    digest = hashlib.sha256("\0".join(about).encode(errors="surrogateescape"))
    for path in _files(root):
        try:
            file = os.stat(path)  # noqa: PTH116  (called for each file, and pathlib is slow)
        except OSError:  # an editor's, or a link to nothing
            continue
        # An edit can keep size and modification time (`touch -r`, a restored backup), but not the time of the change.
        values = (path, file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns)
        digest.update("".join(f"{value}\0" for value in values).encode(errors="surrogateescape"))
    return digest.hexdigest()


def _files(root: Path) -> Iterator[str]:
    """The files of a project that may be sources, also behind links to directories of its repository."""
    repository = next((str(parent) for parent in (root, *root.parents) if (parent / ".git").exists()), str(root))
    entered = {os.path.realpath(root)}

    def is_new(path: str) -> bool:
        if not os.path.islink(path):  # noqa: PTH114  (as below)
            return True
        real = os.path.realpath(path)
        if real in entered or os.path.commonpath([repository, real]) != repository:
            return False
        entered.add(real)
        return True

    for directory, directories, files in os.walk(root, followlinks=True):
        inner = sorted(sources_among(root, directory, directories))
        directories[:] = [name for name in inner if is_new(os.path.join(directory, name))]  # noqa: PTH118
        for name in sorted(files):
            yield os.path.join(directory, name)  # noqa: PTH118  (thousands of them)


def sources_among(root: str | os.PathLike[str], directory: str, directories: Iterable[str]) -> list[str]:
    """Those of a place's directories that may hold sources.

    Args:
        root: of the project.
        directory: in it.
        directories: there.
    """
    others = NOT_SOURCES if os.fspath(root) == directory else ()
    return [directory for directory in directories if directory != CACHE and directory not in others]


def version_of(distribution: str) -> str:
    """The version of an installed distribution; empty if there is none.

    Args:
        distribution: its name.
    """
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def build(  # noqa: PLR0913  (which, for whom, and where it is shown)
    root: Path,
    backend: str,
    *,
    command: Sequence[str] = (),
    environ: Mapping[str, str] = os.environ,
    verbose: bool = False,
    follow: Callable[[str], Any] | None = None,
) -> dict[str, Any]:
    """Let the driver build a project for this Python; what it says of the result.

    Args:
        root: the project's directory.
        backend: see `load`.
        command: what starts the driver; looked up if empty.
        environ: the variables that it sees.
        verbose: show what it says, where stderr of this process goes.
        follow: called with each line that it says, which the error has then not; if `verbose`, with none.

    Raises:
        BuildError: it fails.
    """
    words = [*(command or _driver()), "run", str(root), "--json", *(["--backend", backend] if backend else [])]
    lines = []
    # Lines that are read here are text: ipykernel sets FORCE_COLOR, and colours would be control codes in them.
    plain = {} if verbose else {"NO_COLOR": "1"}
    with subprocess.Popen(
        words,
        env={**environ, **plain, "RULES_TORCH_KERNELS_TORCH_PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        stderr=None if verbose else subprocess.PIPE,
        encoding="utf-8",
        errors="replace",  # a compiler shows lines of a source as they are
    ) as process:
        for line in process.stderr or ():
            if follow:
                follow(line)
            else:
                lines.append(line)
        # stdout is one short value, which a pipe holds until then.
        written = process.stdout.read() if process.stdout else ""
    if process.returncode:
        details = f":\n{''.join(lines).rstrip()}" if lines else ""
        raise BuildError(f"the build of {root} failed with exit code {process.returncode}{details}")
    variant: dict[str, Any] = json.loads(written)
    return variant


def _driver() -> list[str]:
    """The command of the driver."""
    if named := os.environ.get(DRIVER):
        return shlex.split(named)
    beside = Path(sys.executable).with_name("driver")
    if found := str(beside) if beside.is_file() else shutil.which("driver"):
        return [found]
    if importlib.util.find_spec("py_driver"):
        return imported_driver()
    raise BuildError(f"there is no `driver`; install rules-torch-kernels into this Python, or set {DRIVER}")


def imported_driver() -> list[str]:
    """The command of the driver that this Python imports, whose program `pip install --user` puts elsewhere."""
    program = f"import sys; sys.path[:0] = {sys.path!r}; from py_driver.__main__ import main; sys.exit(main())"
    return [sys.executable, "-c", program]
