"""Bazelisk from npm's package, and a released Bazel through it, if there are neither Bazel nor Debian's packages.

Bazelisk fetches the requested Bazel from the address in its own settings (`BAZELISK_BASE_URL`), or from Bazel's release
server. It is used only for that: afterwards the driver runs Bazel directly.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import tomli

from py_driver.errors import Code, error
from py_driver.fetch.fetcher import MIRROR_VARIABLE
from py_driver.system.cache import storage_errors
from py_driver.system.environment import curated
from py_driver.system.scratch import scratch, settle
from py_driver.system.venv import ensure_venv

if TYPE_CHECKING:
    from collections.abc import Mapping

    from py_driver.output import Output, Task

_RESOURCE: Final = Path(__file__).parents[1] / "resources" / "bazelisk.toml"
_HELP: Final = (
    "put a Bazel of that version on PATH, or name it with RULES_TORCH_KERNELS_BAZEL; BAZELISK_BASE_URL names a mirror "
    "of Bazel's releases"
)
_OF_NPM: Final = ("npm_config_", "node_extra_ca_certs")
_SECONDS: Final = 900.0
_DATE: Final = re.compile(r"^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d ")
"""The prefix of Bazelisk's lines on stderr."""


def place_of(cache_directory: Path) -> Path:
    """The directory for Bazelisk and its downloads.

    Args:
        cache_directory: the directory of the driver's cache.
    """
    return cache_directory / "bazel" / f"bazelisk-{_data()['version']}"


def provide(cache_directory: Path, version: str, environ: Mapping[str, str], output: Output) -> Path:
    """Provide a released Bazel.

    Args:
        cache_directory: the directory of the driver's cache.
        version: the version of Bazel, as in `.bazelversion`.
        environ: the environment with the settings of pip, npm and Bazelisk.
        output: shows progress.

    Returns:
        The program to run, which is fetched if missing.

    Raises:
        DriverError: PLATFORM if there is no Bazelisk for the machine; NO_NETWORK if npm or Bazelisk cannot reach a
            server; BAD_DIGEST if npm's package is not the pinned one; NO_BAZEL if Bazelisk fails; NO_SPACE, PERMISSION.
    """
    root = place_of(cache_directory)
    if (kept := root / "bazels" / version / "bazel").is_file():
        return kept
    with storage_errors(root):
        root.parent.mkdir(parents=True, exist_ok=True)
        with scratch(root.parent) as work, output.task(f"Bazel {version}, by Bazelisk") as task:
            if not (root / "bazelisk").is_file():
                _fetch(work, environ, output, task)
                root.mkdir(exist_ok=True)
                settle(work / "bazelisk", root / "bazelisk")
            task.update("fetching Bazel")
            fresh = work / version
            fresh.mkdir()
            _bring(root / "bazelisk", version, work, environ).rename(fresh / "bazel")
            kept.parent.parent.mkdir(exist_ok=True)
            settle(fresh, kept.parent)
            task.done(f"installed in {kept.parent}")
    return kept


def _data() -> dict[str, Any]:
    return tomli.loads(_RESOURCE.read_text(encoding="utf-8"))


def _fetch(work: Path, environ: Mapping[str, str], output: Output, task: Task) -> None:
    """Fetch npm's package and extract the program for this machine."""
    data = _data()
    member = data["programs"].get(platform.machine()) if sys.platform == "linux" else None
    if member is None:
        message = f"there is no Bazelisk for this machine: {platform.platform()}"
        raise error(Code.PLATFORM, message, help=_HELP)
    task.update("fetching Bazelisk")
    mirror = environ.get(MIRROR_VARIABLE)
    archive = Path(mirror, data["archive"]) if mirror else work / data["archive"]
    if not archive.is_file():
        archive = work / data["archive"]
        _pack(data, work, environ, output)
    content = archive.read_bytes()
    if (found := hashlib.sha256(content).hexdigest()) != data["sha256"]:
        message = f"{archive.name} has the SHA-256 {found}, and {data['sha256']} is pinned"
        raise error(Code.BAD_DIGEST, message, help="the registry of npm, or the mirror, has another file of that name")
    with tarfile.open(archive) as package:
        program = package.extractfile(member)
        if program is None:
            raise error(Code.BAD_DIGEST, f"{archive.name} has no file {member}", help=_HELP)
        (work / "bazelisk").write_bytes(program.read())
    (work / "bazelisk").chmod(0o755)


def _pack(data: Mapping[str, Any], work: Path, environ: Mapping[str, str], output: Output) -> None:
    """Have npm fetch the package with the user's configuration; a machine without npm gets npm in the cache."""
    npm = shutil.which("npm", path=environ.get("PATH"))
    path = environ.get("PATH", "")
    if npm is None:
        node = ensure_venv("node", [data["npm"]], output).parent
        npm, path = str(node / "npm"), f"{node}:{path}"
    settings = {name: value for name, value in environ.items() if name.lower().startswith(_OF_NPM)}
    own = {**settings, "PATH": path, "npm_config_cache": str(work / "npm"), "npm_config_update_notifier": "false"}
    wanted = f"{data['package']}@{data['version']}"
    done = subprocess.run(
        [npm, "pack", "--silent", "--pack-destination", str(work), wanted],
        cwd=work,
        env=curated(environ, own),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or not (work / data["archive"]).is_file():
        why = _last(done.stderr) or _last(done.stdout) or f"exit code {done.returncode}"
        advice = f"configure npm's registry, or name a directory with {data['archive']} in {MIRROR_VARIABLE}"
        raise error(Code.NO_NETWORK, f"npm cannot fetch {wanted}: {why}", help=advice)


def _bring(bazelisk: Path, version: str, work: Path, environ: Mapping[str, str]) -> Path:
    """Have Bazelisk fetch a Bazel, and return the path of the program."""
    home = work / "home"
    home.mkdir()
    own = {"BAZELISK_HOME": str(home), "USE_BAZEL_VERSION": version}
    try:
        done = subprocess.run(
            [bazelisk, "--version"],
            cwd=work,
            env=curated(environ, own),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        message = f"Bazelisk did not fetch Bazel {version} within {_SECONDS:.0f} s"
        raise error(Code.NO_NETWORK, message, help=_HELP) from None
    found = [path for path in home.rglob("bazel") if path.is_file() and os.access(path, os.X_OK)]
    if done.returncode or len(found) != 1:
        why = _DATE.sub("", _last(done.stderr)) or f"exit code {done.returncode}"
        raise error(Code.NO_BAZEL, f"Bazelisk cannot fetch Bazel {version}: {why}", help=_HELP)
    return found[0]


def _last(text: str) -> str:
    """The last line that is not blank."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
