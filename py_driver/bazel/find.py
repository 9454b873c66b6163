"""Finds the Bazel version of a workspace, and provides it if missing."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.bazel import bazelisk
from py_driver.debian import provide as debian
from py_driver.errors import Code, DriverError, error
from py_driver.output import Output
from py_driver.system.cache import cache_root
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

BAZEL_VARIABLE = "RULES_TORCH_KERNELS_BAZEL"
OUTPUT_VARIABLE = "RULES_TORCH_KERNELS_OUTPUT_USER_ROOT"
_ANSWER = re.compile(r"^bazel (\d[^\s]*?)-?(?:\s|$)", re.MULTILINE)
_ANSWER_SECONDS = 20.0


class Source(Enum):
    """The origin of a Bazel."""

    VARIABLE = "named by RULES_TORCH_KERNELS_BAZEL"
    PATH = "found on PATH"
    DEBIAN = "installed from Debian's packages"
    BAZELISK = "fetched by Bazelisk"


@dataclass(frozen=True, slots=True)
class Bazel:
    """A Bazel to run.

    Attributes:
        path: the program, absolute.
        version: the version that it reports, e.g. `7.7.1`.
        source: its origin.
        startup: startup options of all its commands.
        bytes_fetched: bytes of Debian's packages that were fetched for it.
    """

    path: Path
    version: str
    source: Source
    startup: tuple[str, ...] = ()
    bytes_fetched: int = 0


def find_bazel(root: Path, output: Output, environ: Mapping[str, str] | None = None) -> Bazel:
    """Find the Bazel for a workspace, or provide it.

    RULES_TORCH_KERNELS_BAZEL wins; then `bazelisk` and `bazel` on PATH if they report the version of `.bazelversion`;
    then a Bazel that is assembled in the cache from Debian's packages; and if these are unavailable, or of another
    version, a released Bazel, which Bazelisk fetches.

    Args:
        root: the workspace.
        output: reports skipped programs, and shows progress.
        environ: the environment; the process's own if None.

    Returns:
        A working Bazel.

    Raises:
        DriverError: no Bazel is found and none can be provided.
    """
    environ = os.environ if environ is None else environ
    wanted = wanted_version(root)
    return _installed(root, wanted, environ, output) or _provided(root, wanted, environ, output)


def present_bazel(root: Path, environ: Mapping[str, str] | None = None) -> Bazel | None:
    """The Bazel that `find_bazel` would use, if no network is needed for it; None without one.

    Args:
        root: the workspace.
        environ: the environment; the process's own if None.

    Raises:
        DriverError: NO_BAZEL if the named program does not report a version.
    """
    environ = os.environ if environ is None else environ
    wanted = wanted_version(root)
    if installed := _installed(root, wanted, environ):
        return installed
    kept = (provided for provided in _places(wanted, cache_root(environ)) if provided[0].is_dir())
    return next((Bazel(path, version, source, _startup(environ)) for path, version, source in kept), None)


def _installed(root: Path, wanted: str, environ: Mapping[str, str], output: Output | None = None) -> Bazel | None:
    """The user's program: the named one, or one of the wanted version on PATH; or None.

    Args:
        root: the workspace.
        wanted: the version.
        environ: the environment.
        output: reports skipped programs; None for no report.

    Raises:
        DriverError: NO_BAZEL if the named program does not report a version.
    """
    output = output or Output(io.StringIO(), io.StringIO(), {})
    startup = _startup(environ)
    if named := environ.get(BAZEL_VARIABLE):
        path = Path(named).absolute()
        found = _ask(path, root, environ)
        if found is None:
            message = f"{BAZEL_VARIABLE} is {named}, which does not answer to `--version` as Bazel does"
            raise error(Code.NO_BAZEL, message, help=f"correct {BAZEL_VARIABLE}, or unset it")
        if not _matches(wanted, found):
            output.warn(f"{BAZEL_VARIABLE} is Bazel {found}; {wanted} is expected")
        return Bazel(path, found, Source.VARIABLE, startup)
    for name in ("bazelisk", "bazel"):
        program = shutil.which(name, path=environ.get("PATH"))
        if program is None:
            continue
        found = _ask(Path(program).absolute(), root, environ)
        if found is not None and _matches(wanted, found):
            return Bazel(Path(program).absolute(), found, Source.PATH, startup)
        answer = "does not print its version" if found is None else f"is Bazel {found}"
        output.say(f"{program} {answer}; the driver expects {wanted}, and does not use it.")
    return None


def _places(wanted: str, cache: Path) -> Iterator[tuple[Path, str, Source]]:
    """The provided Bazels, in the order of preference: directory, version and source."""
    if is_debian := _matches(wanted, debian.version()):
        yield debian.place_of(cache), debian.version(), Source.DEBIAN
    yield bazelisk.place_of(cache), debian.version() if is_debian else wanted, Source.BAZELISK


def _provided(root: Path, wanted: str, environ: Mapping[str, str], output: Output) -> Bazel:
    """A Bazel in the cache, installed if missing."""
    cache = cache_root(environ)
    *preferred, (_, version, _) = _places(wanted, cache)
    if preferred:
        try:
            sizes: list[int] = []
            path = debian.provide(cache, output, sizes.append)
            return Bazel(path, version, Source.DEBIAN, _startup(environ), sum(sizes))
        except DriverError as failure:
            if failure.diagnostics[0].code not in {Code.NO_BAZEL, Code.NOT_DEBIAN, Code.PLATFORM}:
                raise
            output.say(f"{failure.diagnostics[0].message}; falling back to Bazelisk.")
    path = bazelisk.provide(cache, version, environ, output)
    if (found := _ask(path, root, environ)) is None or not _matches(version, found):
        message = f"{path}, fetched by Bazelisk, does not report version {version}"
        raise error(Code.NO_BAZEL, message, help=f"remove {path.parent} and try again")
    return Bazel(path, found, Source.BAZELISK, _startup(environ))


def _startup(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The option for Bazel's outputs, unless they are in Bazel's default directory."""
    root = output_root(environ)
    is_default = root == _default_root(environ) and not environ.get(OUTPUT_VARIABLE)
    return () if is_default else (f"--output_user_root={root}",)


def output_root(environ: Mapping[str, str]) -> Path:
    """The directory of Bazel's outputs: Bazel's default, unless the user names another or it is not writable."""
    if root := environ.get(OUTPUT_VARIABLE):
        return Path(root)
    default = _default_root(environ)
    there = next(path for path in (default, *default.parents) if path.is_dir())
    return default if os.access(there, os.W_OK) else cache_root(environ) / "output"


def _default_root(environ: Mapping[str, str]) -> Path:
    """The directory in the home directory that has Bazel's outputs by default."""
    return Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or "/", ".cache"), "bazel")


def wanted_version(root: Path) -> str:
    """The version in a workspace's `.bazelversion`; without that file, the version that can be provided."""
    try:
        text = (root / ".bazelversion").read_text(encoding="utf-8")
    except FileNotFoundError:
        return debian.version()
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return lines[0] if lines else debian.version()


def _matches(wanted: str, found: str) -> bool:
    """Whether a version is the wanted one; `7.x` and `7.*` match any that begins with `7.`."""
    if wanted.endswith((".x", ".*")):
        return found.startswith(wanted[:-1])
    return found == wanted


def _ask(program: Path, root: Path, environ: Mapping[str, str]) -> str | None:
    """The version that a program reports; None if it fails, reports none or takes too long."""
    try:
        process = subprocess.Popen(
            [program, "--version"],
            cwd=root,
            env=curated(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError:
        return None
    with process:
        try:
            answer, _ = process.communicate(timeout=_ANSWER_SECONDS)
        except BaseException as problem:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(problem, subprocess.TimeoutExpired):
                return None
            raise
    match = _ANSWER.search(answer)
    return match[1] if match and process.returncode == 0 else None
