"""uv instead of pip, with pip's configuration translated if all of it can be. Standard library only.

uv needs a tenth of pip's time to install the driver's requirements, and a third for torch.
"""

from __future__ import annotations

import re
import shutil
import ssl
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py_driver.system.environment import curated
from py_driver.system.pip_config import is_on

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_RESOURCE: Final = Path(__file__).parents[1] / "resources" / "uv.toml"
_VERSION: Final = re.compile(r"uv (\d+)\.(\d+)\.")
_SECONDS: Final = 10

_NOTHING: Final = frozenset(
    {
        "break-system-packages",
        "compile",
        "config-file",
        "default-timeout",
        "disable-pip-version-check",
        "no-color",
        "no-compile",
        "no-input",
        "no-python-version-warning",
        "no-warn-script-location",
        "progress-bar",
        "quiet",
        "require-virtualenv",
        "root-user-action",
        "timeout",
        "verbose",
    }
)
"""Settings of pip without effect on what is installed, or that uv reads from its environment: see `_environment`."""

_TRANSLATED: Final = frozenset(
    {
        "cert",
        "client-cert",
        "constraint",
        "extra-index-url",
        "find-links",
        "index-url",
        "no-cache-dir",
        "no-index",
        "proxy",
        "retries",
        "trusted-host",
    }
)

_OWN: Final = {"UV_NO_CONFIG": "1", "UV_NO_PROGRESS": "1", "UV_PYTHON_DOWNLOADS": "never"}
"""uv's own configuration is ignored: pip's decides what the driver installs, whichever program installs."""

_PROXIES: Final = ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY")

_BUNDLES: Final = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables that name certificates for pip, besides its own setting."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Installer:
    """The settings with which uv installs as pip would.

    Attributes:
        options: options of `uv pip install`.
        variables: variables of its environment; they may contain credentials, which must not be on a command line.
        keeps: whether it may cache downloads.
    """

    options: tuple[str, ...]
    variables: Mapping[str, str]
    keeps: bool


def requirement() -> str:
    """The requirement of uv that is installed if there is no uv."""
    return str(_data()["requirement"])


def usable(environ: Mapping[str, str]) -> str | None:
    """The uv on PATH; None if there is none, or it is too old or does not run."""
    found = shutil.which("uv", path=environ.get("PATH"))
    if found is None:
        return None
    command = [found, "--version"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, cwd="/", env=curated(environ), timeout=_SECONDS
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    version = _VERSION.match(done.stdout)
    return found if version and [int(version[1]), int(version[2])] >= _data()["oldest"] else None


def as_uv(settings: Mapping[str, str], environ: Mapping[str, str]) -> Installer | None:
    """Translate pip's settings so that uv installs what pip would.

    Args:
        settings: pip's, for `pip install`.
        environ: the environment of pip.

    Returns:
        The settings for uv; None if a setting has no counterpart, so that pip has to install.
    """
    if not settings.keys() <= _NOTHING | _TRANSLATED:
        return None
    indexes = [*settings.get("index-url", "").split(), *settings.get("extra-index-url", "").split()]
    links = settings.get("find-links", "").split()
    # uv has another notation for a directory as an index, and reads links from its command line, which others can see.
    if not all("://" in index for index in indexes) or any("@" in link for link in links):
        return None
    # pip uses the newest version of all indexes; uv by default uses only the first index that has a project.
    options = ["--index-strategy=unsafe-best-match", "--color=never", *(f"--find-links={link}" for link in links)]
    if is_on(settings.get("no-index", "0")):
        options.append("--no-index")
    options += [f"--constraint={path}" for path in settings.get("constraint", "").split()]
    options += [f"--allow-insecure-host={host}" for host in settings.get("trusted-host", "").split()]
    return Installer(
        options=tuple(options),
        variables=_environment(settings, environ),
        keeps="no-cache-dir" not in settings,  # pip caches nothing, whatever the value
    )


def command_of(program: str, installer: Installer, interpreter: Path, requirements: Sequence[str]) -> list[str]:
    """The command line for installing requirements into an environment.

    Args:
        program: the path of uv.
        installer: the settings.
        interpreter: the interpreter of the environment.
        requirements: requirements in pip's form.
    """
    return [program, "pip", "install", f"--python={interpreter}", *installer.options, "--", *requirements]


def _environment(settings: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    own = dict(_OWN)
    if index := settings.get("index-url"):
        own["UV_DEFAULT_INDEX"] = index.strip()
    if more := settings.get("extra-index-url"):
        own["UV_INDEX"] = " ".join(more.split())
    if timeout := settings.get("timeout") or settings.get("default-timeout"):
        own["UV_HTTP_TIMEOUT"] = timeout
    if retries := settings.get("retries"):
        own["UV_HTTP_RETRIES"] = retries
    if certificates := settings.get("cert") or next(filter(None, map(environ.get, _BUNDLES)), None):
        own["SSL_CERT_DIR" if Path(certificates).is_dir() else "SSL_CERT_FILE"] = certificates
    elif _system_certificates():
        own |= {"UV_SYSTEM_CERTS": "1"}
    if certificate := settings.get("client-cert"):
        own["SSL_CLIENT_CERT"] = certificate
    if proxy := settings.get("proxy"):
        own |= dict.fromkeys((*_PROXIES, *map(str.lower, _PROXIES)), proxy)
    return own


def _system_certificates() -> bool:
    """Whether the machine has its own certificates: pip uses them, uv only on request."""
    paths = ssl.get_default_verify_paths()
    return bool(paths.cafile or (paths.capath and any(Path(paths.capath).iterdir())))


def _data() -> dict[str, Any]:
    return tomllib.loads(_RESOURCE.read_text(encoding="utf-8"))
