"""pip's own settings: which indexes the user's machine takes packages from, and how.

No registry is named here: even the default index is the one that pip's help text names.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import Final

from py_driver.errors import Code, error
from py_driver.fetch.http_client import HttpSettings
from py_driver.fetch.transfer import redacted
from py_driver.system.pip_config import is_on, pip_of, pythons, settings_of

_PIP_SECONDS: Final = 60
"""How long pip may take to print its settings; it takes half a second, more on a network file system."""

_DEFAULT_INDEX = re.compile(r"Package\s+Index\s+\(default\s+(\S+?)\)")


@dataclass(frozen=True, kw_only=True, slots=True)
class PipSettings:
    """What pip would use for a download.

    Attributes:
        indexes: index URLs, or local directories, in pip's order; may hold credentials.
        find_links: directories, pages and files to look for archives in; may hold credentials.
        http: certificates and the like.
    """

    indexes: tuple[str, ...]
    find_links: tuple[str, ...] = ()
    http: HttpSettings = field(default_factory=HttpSettings)


def read_pip_settings() -> PipSettings:
    """Ask pip for its settings, from its configuration files and the environment.

    Raises:
        DriverError: there is no pip, or it does not like its configuration (SET_UP).
    """
    pip, printed = _ask_pip()
    values = settings_of(printed, "download")
    indexes: tuple[str, ...] = ()
    if not is_on(values.get("no-index", "0")):
        first = values.get("index-url") or values.get("pypi-url") or _default_index(pip)
        indexes = (first.strip(), *values.get("extra-index-url", "").split())
    return PipSettings(
        indexes=indexes,
        find_links=tuple(values.get("find-links", "").split()),
        http=HttpSettings(
            certificates=values.get("cert", ""),
            client_certificate=values.get("client-cert", ""),
            proxy=values.get("proxy", ""),
            trusted_hosts=tuple(values.get("trusted-host", "").split()),
        ),
    )


def _ask_pip() -> tuple[list[str], str]:
    """The command that runs pip, and its settings as it prints them.

    Tried are the pip of this interpreter, of the one below it, and of the python3 on PATH, and those on PATH.
    """
    programs = [[path] for name in ("pip3", "pip") if (path := shutil.which(name))]
    refused = ""
    for command in [*map(pip_of, pythons()), *programs]:
        done = _run([*command, "config", "list"])
        if done.returncode == 0:
            return command, done.stdout
        complaint = done.stderr.strip().splitlines()[-1:]
        if complaint and "No module named" not in complaint[0]:
            refused = refused or f"{' '.join(command)} config list: {redacted(complaint[0])}"
    if refused:
        raise error(Code.SET_UP, f"pip does not print its settings: {refused}", help="see pip's configuration files")
    raise error(
        Code.SET_UP,
        "pip was not found, so the Python package index of this machine is unknown",
        help="install pip for python3, or name a directory with the archives in RULES_TORCH_KERNELS_MIRROR",
    )


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            check=False,
            text=True,
            errors="replace",
            cwd="/",  # a directory of the user's named pip must not be taken for it
            env={**os.environ, "COLUMNS": "1000", "PYTHONWARNINGS": "ignore"},
            timeout=_PIP_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as wrong:
        return subprocess.CompletedProcess(command, 1, "", str(wrong))


def _default_index(pip: list[str]) -> str:
    """The index pip uses when none is configured, from its help text."""
    found = _DEFAULT_INDEX.search(_run([*pip, "download", "--help"]).stdout)
    if found is None:
        raise error(
            Code.SET_UP,
            "pip does not report its default index",
            help="set one: `pip config set global.index-url URL`",
        )
    return found[1]
