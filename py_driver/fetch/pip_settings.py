"""pip's settings: the package indexes of the user's machine, and how to access them.

No registry is named here: even the default index comes from pip's help text.
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
"""The timeout for pip to print its settings, which takes half a second, or more on a network file system."""

_DEFAULT_INDEX = re.compile(r"Package\s+Index\s+\(default\s+(\S+?)\)")


@dataclass(frozen=True, kw_only=True, slots=True)
class PipSettings:
    """pip's settings for downloads.

    Attributes:
        indexes: index URLs, or local directories, in pip's order; may contain credentials.
        find_links: directories, pages and files with archives; may contain credentials.
        http: certificates and the like.
    """

    indexes: tuple[str, ...]
    find_links: tuple[str, ...] = ()
    http: HttpSettings = field(default_factory=HttpSettings)


def read_pip_settings() -> PipSettings:
    """Ask pip for its settings, from its configuration files and the environment.

    Raises:
        DriverError: there is no pip, or it rejects its configuration (SET_UP).
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
    """The command that runs pip, and its printed settings.

    It tries the pip of this interpreter, of its base interpreter, and of python3 on PATH, and the pip programs on PATH.
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
            cwd="/",  # a user's directory named pip must not be imported
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
