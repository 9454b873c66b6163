"""The environment of programs that the driver starts: what they need, and nothing that could change a build."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES = frozenset(
    {
        "CURL_CA_BUNDLE",
        "HOME",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "LOGNAME",
        "NETRC",
        "NO_COLOR",
        "PATH",
        "REQUESTS_CA_BUNDLE",
        "SHELL",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "TERM",
        "TMPDIR",
        "USER",
        "USE_BAZEL_VERSION",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_RUNTIME_DIR",
    },
)
_BARE = frozenset({"GIT_DISCOVERY_ACROSS_FILESYSTEM", "HOME", "PATH", "SUDO_UID", "TMPDIR", "XDG_CONFIG_HOME"})
_PROXIES = frozenset({"all_proxy", "ftp_proxy", "http_proxy", "https_proxy", "no_proxy"})
_PREFIXES = ("BAZELISK_", "PIP_", "RULES_TORCH_KERNELS_")


def curated(environ: Mapping[str, str] | None = None, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of an environment that are passed on.

    Args:
        environ: the environment; the process's own if None.
        extra: further variables.

    Returns:
        A new dictionary, sorted by name.
    """
    environ = os.environ if environ is None else environ
    kept = {
        name: value
        for name, value in environ.items()
        if name in _NAMES or name.lower() in _PROXIES or name.startswith(_PREFIXES)
    }
    return dict(sorted({**_name(kept), **kept, **(extra or {})}.items()))


def _name(environ: Mapping[str, str]) -> dict[str, str]:
    """A name for a user without one in the system, as in many containers: Bazel does not start without a name."""
    if environ.get("USER"):
        return {}
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return {"USER": f"user{os.getuid()}"}
    return {}


def bare(extra: Mapping[str, str]) -> dict[str, str]:
    """The variables for a program that reads foreign files, and could be made to run foreign programs: no credentials.

    Args:
        extra: further variables.
    """
    return {**{name: value for name, value in os.environ.items() if name in _BARE}, **extra}
