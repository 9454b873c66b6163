"""Debian packages, from the archives of the machine's apt."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.errors import Code, DriverError, error
from py_driver.fetch.apt import MIRROR_VARIABLE, Apt, named_archives
from py_driver.fetch.download import sha256_of
from py_driver.fetch.entry import Entry, Origin, parse_entry
from py_driver.fetch.transfer import OriginError, redacted
from py_driver.system.cache import storage_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from py_driver.fetch.transfer import Meter

APT_HELPER: Final = Path("/usr/lib/apt/apt-helper")
"""apt's own downloader, which knows apt's proxies, credentials and certificates."""

_POLL_SECONDS: Final = 0.1
_MISSING = re.compile(r"\b404\b|\b410\b|File not found", re.IGNORECASE)
_MISMATCH = re.compile(r"Hash Sum mismatch|unexpected size", re.IGNORECASE)


def debian_archives(environ: Mapping[str, str] | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The archives from the environment, and those of apt's configuration.

    Args:
        environ: the environment (default: the process's own).

    Raises:
        DriverError: there is no archive (NOT_DEBIAN).
    """
    own = named_archives(environ)
    apt: tuple[str, ...] = ()
    try:
        with tempfile.TemporaryDirectory(prefix="apt-") as state:
            apt = tuple(base for base in Apt(Path(state)).machine_archives() if base.endswith("/debian"))
    except DriverError:
        if not own:
            raise
    if not own and not apt:
        raise error(
            Code.NOT_DEBIAN,
            "Debian packages are needed, and this machine's apt has no Debian archive set up",
            help=f"set {MIRROR_VARIABLE} to the address of a Debian archive (the directory that has `pool/` in it), "
            "or name a directory with the packages in RULES_TORCH_KERNELS_MIRROR",
        )
    return own, apt


def apt_download(url: str, entry: Entry, partial: Path, meter: Meter) -> None:
    """Fetch a package with apt's downloader, which checks its digest and resumes earlier downloads.

    Args:
        url: its address.
        entry: the entry with its digest.
        partial: the file to write.
        meter: counts the bytes; ends the download when stopped.

    Raises:
        OriginError: apt could not get it.
        DriverError: no space left (NO_SPACE), not allowed to write (PERMISSION), stopped (INTERRUPTED).
    """
    with storage_errors(partial):
        before = partial.stat().st_size if partial.exists() else 0
        options = ["-qq", "-oAPT::Sandbox::User=root", "-oAcquire::Retries=3"]
        command = [str(APT_HELPER), *options, "download-file", url, str(partial), f"SHA256:{entry.sha256}"]
        with tempfile.TemporaryFile("w+", errors="replace") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            try:
                while process.poll() is None:
                    meter.stop.wait(_POLL_SECONDS)
                    meter.check()
            finally:
                if process.poll() is None:
                    process.terminate()
                    process.wait()
            log.seek(0)
            text = redacted(log.read())
        if process.returncode == 0 and partial.exists():
            meter.add(max(0, partial.stat().st_size - before))
            if sha256_of(partial) == entry.sha256:
                return
            partial.unlink()
            raise OriginError(Code.BAD_DIGEST, f"apt fetched other bytes from {url}")
        if "No space left" in text:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    lines = [line.removeprefix("E: ") for line in text.splitlines() if line.startswith("E: ")]
    reason = f"apt: {lines[0] if lines else text.strip() or 'failed without a reason'}"
    if _MISMATCH.search(text):
        raise OriginError(Code.BAD_DIGEST, reason)
    raise OriginError(Code.NOT_FOUND_UPSTREAM if _MISSING.search(text) else Code.NO_NETWORK, reason)


def resolve_debian(
    names: Sequence[str], suite: str, *, components: Sequence[str] = ("main",), architecture: str = "amd64"
) -> list[Entry]:
    """The lock entries of packages in a suite's current state.

    Args:
        names: binary packages.
        suite: e.g. `bookworm`.
        components: e.g. `main`, `non-free`.
        architecture: Debian's name of the CPU.

    Raises:
        DriverError: no archive (NOT_DEBIAN), no apt (NOT_DEBIAN), no answer (NO_NETWORK), no such package
            (NOT_FOUND_UPSTREAM).
    """
    if not shutil.which("apt-get"):
        raise error(Code.NOT_DEBIAN, "packages are looked up with apt, which this machine does not have")
    with tempfile.TemporaryDirectory(prefix="apt-") as state:
        apt = Apt(Path(state), architecture=architecture)
        apt.update(suite, components)
        return [_package(name, apt.show(name)) for name in names]


def _package(name: str, paragraph: str) -> Entry:
    """The lock entry of a package from its paragraph in the archive's index."""
    fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if re.match(r"[A-Z][\w-]*: ", line))
    try:
        entry = Entry(
            name=name,
            version=fields["Version"],
            filename=fields["Filename"],
            size=int(fields["Size"]),
            sha256=fields["SHA256"],
            origin=Origin.DEBIAN,
        )
    except (KeyError, ValueError) as wrong:
        raise error(Code.NOT_FOUND_UPSTREAM, f"{name}: the archive's index lacks {wrong}") from wrong
    return parse_entry(entry.to_json())
