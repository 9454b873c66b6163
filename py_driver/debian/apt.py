"""A private apt: Debian's packages of any suite, fetched through the mirror that the machine's own apt uses.

Of the machine's apt only the mirror's address, proxy settings and archive keys are read; nothing of it is changed.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from py_driver.errors import Code, DriverError, error
from py_driver.fetch.debian import MIRROR_VARIABLE
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from py_driver.output import Task

_POLL_SECONDS = 0.2
_MEGABYTE = 1e6
_FULL = 4_000_000
_INSTALL = re.compile(r"^Inst (\S+) \((\S+)", re.MULTILINE)
_RELEASE = re.compile(r"^'(\S+/)dists/\S+/InRelease' ", re.MULTILINE)
_DOWNLOAD = re.compile(r"^'(\S+)' (\S+) (\d+) (?:SHA256:([0-9a-f]{64}))?", re.MULTILINE)
HELP = (
    "install Bazelisk (npm install -g @bazel/bazelisk), or set RULES_TORCH_KERNELS_BAZEL to the path of a Bazel of the "
    "expected version"
)
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
    """One package that was fetched.

    Attributes:
        name: the package.
        version: Debian's version.
        file: name of the `.deb`.
        size: its bytes.
        sha256: its digest, as the signed index gives it; apt has checked it.
    """

    name: str
    version: str
    file: str
    size: int
    sha256: str


def failure(program: str, text: str) -> DriverError:
    """The error for a package program that failed, from what it printed.

    Args:
        program: its name, for the message.
        text: its standard error.

    Returns:
        An error that tells a full disk, a missing network and a missing package apart.
    """
    for pattern, code, meaning in _FAILURES:
        for line in text.splitlines():
            if pattern.search(line):
                return error(code, f"{meaning}: {program}: {line.strip()}", help=HELP)
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no message")
    return error(Code.SET_UP, f"{program} failed: {last}", help=HELP)


def require_programs() -> None:
    """Raise NOT_DEBIAN unless apt-get and dpkg-deb are on PATH."""
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            message = (
                f"no Bazel of the expected version is installed, and the driver cannot install it without `{program}`"
            )
            raise error(Code.NOT_DEBIAN, message, help=HELP)


class Apt:
    """An apt whose whole state lies in one directory.

    Args:
        state: the directory; created.
        suite: Debian's release, e.g. `forky`.
        component: part of the archive, e.g. `main`.
        architecture: Debian's name of the machine, e.g. `amd64`.
    """

    def __init__(self, state: Path, *, suite: str, component: str, architecture: str) -> None:
        self._state = state
        self._suite = suite
        self._component = component
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
            "Acquire::Languages": "none",
            "Acquire::Retries": "2",
        }
        hooks = ("APT::Architectures", "APT::Update::Pre-Invoke", "APT::Update::Post-Invoke")
        lines = [f"#clear {hook};" for hook in (*hooks, "APT::Update::Post-Invoke-Success")]
        lines += [f'{name} "{value}";' for name, value in settings.items()]
        self._options.write_text("\n".join(lines) + "\n")

    def _command(self, *args: str) -> list[str]:
        return ["apt-get", "-c", str(self._options), *args]

    def _private(self, *args: str) -> list[str]:
        return self._command(f"-oDir::Etc::SourceList={self._sources}", "-oDir::Etc::SourceParts=/dev/null", *args)

    def _read(self, command: Sequence[str]) -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=curated(extra={"LC_ALL": "C"}))
        if done.returncode:
            raise failure("apt-get", done.stderr)
        return done.stdout

    def _mirrors(self) -> list[str]:
        """The mirrors that the environment names and those of the machine's own apt, likely ones first."""
        own = [f"{mirror.rstrip('/')}/" for mirror in os.environ.get(MIRROR_VARIABLE, "").split()]
        found = _RELEASE.findall(self._read(self._command("update", "--print-uris")))
        likely = sorted((m for m in found if "security" not in m), key=lambda m: not m.endswith("/debian/"))
        return list(dict.fromkeys([*own, *likely]))

    def update(self) -> None:
        """Fetch the suite's index from the first of the machine's mirrors that has it."""
        mirrors = self._mirrors()
        if not mirrors:
            raise error(Code.NOT_DEBIAN, "this machine's apt names no Debian mirror", help=HELP)
        first: DriverError | None = None
        for mirror in mirrors:
            self._sources.write_text(f"deb {mirror} {self._suite} {self._component}\n")
            try:
                self._read(self._private("-q", "update"))
            except DriverError as problem:
                first = first or problem
            else:
                return
        if first is not None:
            raise first

    def closure(self, package: str) -> dict[str, str]:
        """What an empty machine would install for a package: name to version."""
        plan = self._read(self._private("--simulate", "install", package))
        return {name.partition(":")[0]: version for name, version in _INSTALL.findall(plan)}

    def download(self, wanted: dict[str, str], into: Path, task: Task) -> list[Package]:
        """Fetch packages, showing how many of them and how many megabytes are there.

        Args:
            wanted: name to version.
            into: an empty directory for the `.deb` files.
            task: where to show progress.

        Returns:
            What was fetched, in the order of their names.
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
            cwd=into, stdout=subprocess.DEVNULL, stderr=stream, env=curated(extra={"LC_ALL": "C"}),
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
            raise failure("apt-get", log.read_text(errors="replace"))
        return packages


def _sizes(directory: Path) -> list[int]:
    """Sizes of a directory's files, some of which may vanish while they are looked at."""
    sizes = []
    for path in directory.iterdir():
        try:
            sizes.append(path.stat().st_size)
        except FileNotFoundError:
            continue
    return sizes
