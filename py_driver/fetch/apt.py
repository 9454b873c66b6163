"""A private apt: Debian's packages of any suite, from the archives that the machine's own apt uses.

Only the archives' addresses, proxy settings and archive keys of the machine's apt are read; apt is not changed.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from py_driver.errors import Code, DriverError, error
from py_driver.fetch.transfer import redacted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from py_driver.output import Task

MIRROR_VARIABLE: Final = "RULES_TORCH_KERNELS_DEBIAN_MIRROR"
"""Environment variable with the URLs or directories of Debian archives (with `pool/` in them), tried before apt's."""

_POLL_SECONDS = 0.2
_MEGABYTE = 1e6
_FULL = 4_000_000
_INSTALL = re.compile(r"^Inst (\S+) \((\S+)", re.MULTILINE)
_RELEASE = re.compile(r"^'(\S+)/dists/\S+/InRelease' ", re.MULTILINE)
_DOWNLOAD = re.compile(r"^'(\S+)' (\S+) (\d+) (?:SHA256:([0-9a-f]{64}))?", re.MULTILINE)
_FAILURES = (
    (re.compile(r"No space left on device|enough free space", re.IGNORECASE), Code.NO_SPACE, "the disk is full"),
    (
        re.compile(r"could not resolve|could not connect|cannot initiate|unable to connect|timed out|unreachable|"
                   r"connection (?:failed|refused|reset)|temporary failure|NewConnectionError", re.IGNORECASE),
        Code.NO_NETWORK,
        "the package server cannot be reached",
    ),
    (
        re.compile(r"does not have a Release file|NO_PUBKEY|is not signed", re.IGNORECASE),
        Code.NOT_DEBIAN,
        "this machine's package mirror is not a Debian one",
    ),
    (
        re.compile(r"404 +Not Found|No matching distribution found|Unable to locate package", re.IGNORECASE),
        Code.NOT_FOUND_UPSTREAM,
        "the package server no longer has a package",
    ),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """A fetched package.

    Attributes:
        name: the package.
        version: Debian's version.
        file: the name of the `.deb`.
        size: its bytes.
        sha256: its digest in the signed index, which apt has checked.
    """

    name: str
    version: str
    file: str
    size: int
    sha256: str


def named_archives(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The addresses and directories of archives that the environment names.

    Args:
        environ: the environment (default: the process's own).
    """
    environ = os.environ if environ is None else environ
    return tuple(base.rstrip("/") for base in environ.get(MIRROR_VARIABLE, "").split())


def failure(program: str, text: str, advice: str = "") -> DriverError:
    """The error for a failed package program, from its output.

    Args:
        program: its name, for the message.
        text: its standard error.
        advice: what to do.

    Returns:
        An error that distinguishes a full disk, a missing network and a missing package.
    """
    for pattern, code, meaning in _FAILURES:
        for line in text.splitlines():
            if pattern.search(line):
                return error(code, f"{meaning}: {program}: {redacted(line.strip())}", help=advice)
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no message")
    return error(Code.SET_UP, f"{program} failed: {redacted(last)}", help=advice)


class Apt:
    """An apt whose complete state is in one directory.

    Args:
        state: the directory; created.
        architecture: Debian's name of the machine.
        advice: what to do if it fails.
    """

    def __init__(self, state: Path, *, architecture: str = "amd64", advice: str = "") -> None:
        self._state = state
        self._advice = advice
        self._options = state / "apt.conf"
        self._sources = state / "sources.list"
        for directory in ("lists/partial", "cache/archives/partial"):
            (state / directory).mkdir(parents=True, exist_ok=True)
        (state / "status").touch()
        settings = {
            "Dir::State": str(state),
            "Dir::State::Lists": str(state / "lists"),
            "Dir::State::status": str(state / "status"),
            "Dir::Cache": str(state / "cache"),
            "Dir::Cache::pkgcache": "pkgcache.bin",
            "Dir::Cache::srcpkgcache": "srcpkgcache.bin",
            "Dir::Etc::Preferences": "/dev/null",
            "Dir::Etc::PreferencesParts": "/dev/null",
            "APT::Architecture": architecture,
            "APT::Install-Recommends": "false",
            "APT::Sandbox::User": "root",
            "APT::Update::Error-Mode": "any",
            # An archive that is no longer updated is still signed, and fetched packages have a pinned version.
            "Acquire::Check-Valid-Until": "false",
            "Acquire::Languages": "none",
            "Acquire::Retries": "2",
        }
        hooks = ("APT::Architectures", "APT::Update::Pre-Invoke", "APT::Update::Post-Invoke")
        lines = [f"#clear {hook};" for hook in (*hooks, "APT::Update::Post-Invoke-Success")]
        lines += [f'{name} "{value}";' for name, value in settings.items()]
        self._options.write_text("\n".join(lines) + "\n")

    def _private(self, *args: str, program: str = "apt-get") -> list[str]:
        sources = (f"-oDir::Etc::SourceList={self._sources}", "-oDir::Etc::SourceParts=/dev/null")
        return [program, "-c", str(self._options), *sources, *args]

    def _read(self, command: Sequence[str], otherwise: str = "") -> str:
        """The output of a command; `otherwise` is the error if it fails with an unknown message."""
        environ = _environment()
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, env=environ)
        if done.returncode:
            raise failure(command[0], f"{done.stderr}\n{otherwise}", self._advice)
        return done.stdout

    def machine_archives(self) -> tuple[str, ...]:
        """The addresses of the archives in the machine's apt configuration, likely ones first; empty without apt.

        Raises:
            DriverError: apt does not report them.
        """
        if not shutil.which("apt-get"):
            return ()
        text = self._read(["apt-get", "-c", str(self._options), "update", "--print-uris"])
        found = dict.fromkeys(base for base in _RELEASE.findall(text) if "security" not in base)
        return tuple(sorted(found, key=lambda base: not base.endswith("/debian")))

    def update(self, suite: str, components: Iterable[str]) -> None:
        """Fetch a suite's index from the first archive that has it.

        Args:
            suite: Debian's release, e.g. `forky`.
            components: parts of the archive, e.g. `main`.

        Raises:
            DriverError: no archive has it; the error of the first one. NOT_DEBIAN if there is no archive.
        """
        archives = dict.fromkeys([*named_archives(), *self.machine_archives()])
        if not archives:
            raise error(Code.NOT_DEBIAN, "this machine's apt names no Debian mirror", help=self._advice)
        first: DriverError | None = None
        for archive in archives:
            base = archive if "://" in archive else Path(archive).absolute().as_uri()
            self._sources.write_text(f"deb {base}/ {suite} {' '.join(components)}\n")
            try:
                self._read(self._private("-q", "update"))
            except DriverError as problem:
                first = first or problem
            else:
                return
        if first is not None:
            raise first

    def show(self, package: str) -> str:
        """The paragraph of a package in the index.

        Raises:
            DriverError: NOT_FOUND_UPSTREAM if the package does not exist.
        """
        command = self._private("show", "--no-all-versions", package, program="apt-cache")
        return self._read(command, f"Unable to locate package {package}")

    def closure(self, package: str) -> dict[str, str]:
        """The packages that an empty machine would install for a package: version by name."""
        plan = self._read(self._private("--simulate", "install", package))
        return {name.partition(":")[0]: version for name, version in _INSTALL.findall(plan)}

    def download(self, wanted: dict[str, str], into: Path, task: Task) -> list[Package]:
        """Fetch packages, and show the number of packages and megabytes.

        Args:
            wanted: version by name.
            into: an empty directory for the `.deb` files.
            task: shows progress.

        Returns:
            The fetched packages, in the order of their names.
        """
        names = [f"{name}={version}" for name, version in sorted(wanted.items())]
        packages = []
        for _, file, size, digest in _DOWNLOAD.findall(self._read(self._private("download", "--print-uris", *names))):
            name, version, _ = file.split("_", 2)
            packages.append(Package(name=name, version=unquote(version), file=file, size=int(size), sha256=digest))
        total = sum(p.size for p in packages)
        log = self._state / "download.log"
        with log.open("wb") as stream, subprocess.Popen(
            self._private("-q", "download", *names),
            cwd=into, stdout=subprocess.DEVNULL, stderr=stream, env=_environment(),
        ) as process:  # fmt: skip
            try:
                while process.poll() is None:
                    sizes = _sizes(into)
                    text = f"{len(sizes)} of {len(packages)} packages, "
                    task.update(f"{text}{sum(sizes) / _MEGABYTE:.0f} of {total / _MEGABYTE:.0f} MB")
                    time.sleep(_POLL_SECONDS)
            except BaseException:
                process.kill()
                raise
        if process.returncode and shutil.disk_usage(into).free < _FULL:
            raise OSError(errno.ENOSPC, "No space left on device", str(into))  # the log had no space either
        if process.returncode:
            raise failure("apt-get", log.read_text(errors="replace"), self._advice)
        return packages


def _environment() -> dict[str, str]:
    """Apt's settings may come from the environment, but not its libraries; its messages must be in English."""
    return {**{name: value for name, value in os.environ.items() if not name.startswith("LD_")}, "LC_ALL": "C"}


def _sizes(directory: Path) -> list[int]:
    """Sizes of a directory's files, which may vanish meanwhile."""
    sizes = []
    for path in directory.iterdir():
        try:
            sizes.append(path.stat().st_size)
        except FileNotFoundError:
            continue
    return sizes
