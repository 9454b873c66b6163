"""Headers and symbols of an installed Python, copied into the cache under a digest of their content."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py_driver.errors import Code, error
from py_driver.matrix.pythons import VERSION, Python, locked
from py_driver.matrix.torch_symbols import defined
from py_driver.resources import resource
from py_driver.system.cache import cache_root, storage_errors
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from py_driver.matrix.matrix import Matrix

PYTHON_SYMBOLS: Final = "python.symbols"
"""The file in the directory of an installed Python with its symbols."""

_PROGRAM: Final = "python_facts.py"
_SECONDS: Final = 60
_DIGITS: Final = 12
_HEADERS: Final = (".h", ".hpp", ".inc")
_UV: Final = ".local/share/uv/python"
"""The directory of uv's Pythons below the home directory: "Storage" of its reference."""


def directory_of_pythons() -> Path:
    """The directory for the headers of installed Pythons, each in a directory named by its `Python.key`."""
    return cache_root() / "pythons"


def kept_pythons() -> dict[str, str]:
    """The directories of all installed Pythons whose headers are kept, by their names in variants."""
    root = directory_of_pythons()
    return {path.name: str(path) for path in sorted(root.iterdir()) if path.is_dir()} if root.is_dir() else {}


def find_interpreter(version: str) -> Path | None:
    """An installed interpreter of a version: on PATH, or one of uv's; or None.

    Args:
        version: e.g. `3.12`.
    """
    if found := shutil.which(f"python{version}"):
        return Path(found)
    root = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", "") or Path.home() / _UV)
    plain = version.removesuffix("t")
    wanted = glob.escape(str(root)) + f"/cpython-{plain}.*/bin/python{version}"
    return next((Path(path) for path in sorted(glob.glob(wanted))), None)  # noqa: PTH207  (a pattern with a root)


def version_of(interpreter: Path) -> str:
    """The version of an interpreter as `--python` names it: `3.13`, `3.13t`.

    Raises:
        DriverError: see `installed_python`.
    """
    return _version(_facts(interpreter))


def python_at(interpreter: Path, matrix: Matrix) -> Python:
    """The Python of an interpreter: the lock's if it has the version, else the installed one.

    Args:
        interpreter: a program.
        matrix: the matrix, which has the lock's versions.

    Raises:
        DriverError: see `installed_python`.
    """
    return locked(matrix, version_of(interpreter)) or installed_python(interpreter)


def installed_python(interpreter: Path) -> Python:
    """An installed Python, with its headers and symbols kept in the cache.

    Args:
        interpreter: a program.

    Raises:
        DriverError: SET_UP if it does not run, or has no headers; UNSUPPORTED if it is not CPython, or for another
            machine; NO_SPACE or PERMISSION.
    """
    facts = _facts(interpreter)
    include = Path(facts["include"][0])
    if not (include / "Python.h").is_file():
        advice = "install them, e.g. Debian's package `python3-dev`, or name another interpreter"
        raise error(Code.SET_UP, f"{interpreter} has no headers: {include / 'Python.h'} is missing", help=advice)
    files = _headers(facts)
    files[PYTHON_SYMBOLS] = _symbols(facts, interpreter)
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    version = _version(facts)
    python = Python(version=version, key=f"{version}-{digest.hexdigest()[:_DIGITS]}")
    _keep(directory_of_pythons() / python.key, files)
    return python


def _facts(interpreter: Path) -> dict[str, Any]:
    """The facts that an interpreter reports about itself."""
    command = [str(interpreter), "-I", "-S", "-c", resource(_PROGRAM)]
    try:
        ran = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=True, env=curated())
        facts: dict[str, Any] = json.loads(ran.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as problem:
        advice = "name an interpreter of Python: `--python /usr/bin/python3.13`"
        raise error(Code.SET_UP, f"{interpreter} does not run as Python: {_why(problem)}", help=advice) from None
    here = (platform.system(), platform.machine())
    if facts["implementation"] != "CPython" or (facts["system"], facts["machine"]) != here:
        kind = f"{facts['implementation']} for {facts['system']} on {facts['machine']}"
        message = f"{interpreter} is {kind}, and modules are built for CPython on this machine"
        raise error(Code.UNSUPPORTED, message, help="name another interpreter")
    if "d" in facts["abiflags"] or not VERSION.fullmatch(_version(facts)):
        message = f"{interpreter} is Python {_version(facts)} with the ABI flags `{facts['abiflags']}`"
        raise error(Code.UNSUPPORTED, message, help="name a Python 3 that is not a debug build")
    return facts


def _why(problem: Exception) -> str:
    """The reason why a program did not answer, in one line."""
    if isinstance(problem, subprocess.CalledProcessError):
        lines = problem.stderr.decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), f"exit code {problem.returncode}")
    if isinstance(problem, subprocess.TimeoutExpired):
        return f"no answer in {_SECONDS} seconds"
    return problem.strerror or str(problem) if isinstance(problem, OSError) else "its output is not as expected"


def _version(facts: dict[str, Any]) -> str:
    major, minor = facts["version"]
    return f"{major}.{minor}{'t' if 't' in facts['abiflags'] else ''}"


def _headers(facts: dict[str, Any]) -> dict[str, bytes]:
    """The headers of an interpreter, by their paths in the rules: `include/python/Python.h`."""
    files: dict[str, bytes] = {}
    for directory in dict.fromkeys(facts["include"]):
        files |= _below(Path(directory), "include/python")
    triplet, include = facts["multiarch"], Path(facts["include"][0])
    # Debian's pyconfig.h includes the CPU's, by the name of its directory.
    other = include.parent / triplet / include.name
    if triplet and (other / "pyconfig.h").is_file():
        files |= _below(other, f"include/{triplet}/{include.name}")
    return files


def _below(directory: Path, to: str) -> dict[str, bytes]:
    """The headers below a directory, by their paths in another directory."""
    return {
        f"{to}/{path.relative_to(directory).as_posix()}": path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.suffix in _HEADERS
    }


def _symbols(facts: dict[str, Any], interpreter: Path) -> bytes:
    """The symbols that an interpreter exports, as `library_symbols` writes them."""
    shared, program = Path(*facts["library"]), Path(facts["executable"]).resolve()
    library = shared if facts["shared"] and shared.is_file() else program
    names = sorted(name for name in defined(library) if name.startswith(("Py", "_Py")))
    if not names:
        message = f"{interpreter} exports nothing that a module could call: {library}"
        raise error(Code.SET_UP, message, help="name another interpreter")
    version = _version(facts)
    content = "".join(f"{name}\n" for name in names).encode("ascii")
    digest = hashlib.sha256(content).hexdigest()
    return f"Python {version}\n[{library.name}] installed {version} {digest}\n".encode() + content


def _keep(directory: Path, files: dict[str, bytes]) -> None:
    """Write files into a directory of the cache, which either has all of them or does not exist."""
    if directory.is_dir():
        return
    with storage_errors(directory):
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory.parent.parent) as work:
            for name, content in files.items():
                path = Path(work, "tree", name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            try:
                Path(work, "tree").rename(directory)
            except OSError:
                if not directory.is_dir():  # another run was faster
                    raise
