"""Checks of a machine: whether builds, tests and GPUs work on it, and what to do if not."""

from __future__ import annotations

import os
import threading
import time
from contextlib import closing
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import tomli

from py_driver.authoring.gpu_driver import check_gpu
from py_driver.authoring.machine_check import RIGHT, UNKNOWN, WRONG, Check
from py_driver.bazel.find import OUTPUT_VARIABLE, output_root, present_bazel, wanted_version
from py_driver.bazel.sandbox import has_namespaces, landlock_version, worker_files
from py_driver.building.clean import outputs_of
from py_driver.building.installed_torch import importable_torch
from py_driver.cache.contents import contents, size_of
from py_driver.errors import DriverError
from py_driver.fetch.debian import debian_archives
from py_driver.fetch.fetcher import MIRROR_VARIABLE
from py_driver.fetch.http_client import Http
from py_driver.fetch.package_index import local_path
from py_driver.fetch.pip_settings import read_pip_settings
from py_driver.fetch.transfer import OriginError, redacted
from py_driver.plan.projects import is_extension, is_project
from py_driver.resources import resource
from py_driver.system.cache import CACHE_VARIABLE, cache_root

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from py_driver.building.installed_torch import Torch
    from py_driver.matrix.lock import Lock
    from py_driver.matrix.releases import Releases

_GIGABYTE: Final = 1e9
_CACHES: Final = "caches"
_LARGE: Final = {"archives": "store", "results": "actions", "output": "Bazel"}
"""The parts of the cache that grow, with their names in the output."""


def examine(root: Path, releases: Releases) -> list[Check]:
    """Check this machine; takes a few seconds at most, also without a network.

    Args:
        root: the workspace whose Bazel is checked.
        releases: the releases to compare the installed torch with.
    """
    facts = tomli.loads(resource("doctor.toml"))
    # The sandbox is tried in a child process before threads start.
    first = [_checked("disk", lambda: check_disk(facts)), _checked("cache", _cache), _checked("sandbox", _sandbox)]
    later: list[tuple[Sequence[str], Callable[[], list[Check]]]] = [
        (("package index", "clock"), lambda: _index(facts)),
        (("Debian archive",), lambda: [check_debian()]),
        (("Bazel",), lambda: [_bazel(root)]),
        (("torch", "GPU driver"), lambda: _torch_and_gpu(facts, releases)),
        ((_CACHES,), lambda: [check_caches(cache_root(), releases.lock, Path())]),
    ]
    found: dict[str, Check] = {}

    def work(names: Sequence[str], check: Callable[[], list[Check]]) -> None:
        try:
            found.update({result.name: result for result in check()})
        except (DriverError, OSError, ValueError) as problem:
            found.update({name: _failed(name, problem) for name in names if name not in found})

    threads = [threading.Thread(target=work, args=arguments, daemon=True) for arguments in later]
    for thread in threads:
        thread.start()
    end = time.monotonic() + facts["patience-seconds"]
    for thread in threads:
        thread.join(max(end - time.monotonic(), 0))
    late = f"no answer within {facts['patience-seconds']} s"
    advice = {_CACHES: "there are many files: `driver cache info` lists the sizes"}
    names = [name for group, _ in later for name in group]
    return first + [found.get(name) or Check(name, UNKNOWN, late, advice.get(name, "")) for name in names]


def _failed(name: str, problem: Exception) -> Check:
    """The result of a check that failed unexpectedly."""
    if isinstance(problem, DriverError):
        diagnostic = problem.diagnostics[0]
        return Check(name, WRONG, diagnostic.message, diagnostic.help)
    return Check(name, UNKNOWN, str(problem))


def _checked(name: str, check: Callable[[], Check]) -> Check:
    """Run a check that may raise."""
    try:
        return check()
    except (DriverError, OSError) as problem:
        return _failed(name, problem)


def _existing(path: Path) -> Path:
    """A directory, or its nearest existing parent."""
    return next(parent for parent in (path, *path.parents) if parent.is_dir())


def check_disk(facts: dict[str, Any]) -> Check:
    """Check the space for the cache, and for Bazel's outputs if they are on another disk."""
    directories = {CACHE_VARIABLE: cache_root(), OUTPUT_VARIABLE: output_root(os.environ)}
    disks, found = dict[int, str](), list[str]()
    for variable, directory in directories.items():
        disks.setdefault(_existing(directory).stat().st_dev, variable)
    for variable in disks.values():
        directory = directories[variable]
        status = os.statvfs(_existing(directory))
        free = status.f_bavail * status.f_frsize / _GIGABYTE
        if status.f_files and not status.f_favail:
            return Check("disk", WRONG, f"no inodes are left for {directory}", "remove files, or move the cache")
        found.append(f"{free:.1f} GB free for {directory}")
        if free < facts["free-gigabytes"]:
            advice = f"free {facts['free-gigabytes']} GB (`driver cache prune`), or set {variable} to a larger disk"
            return Check("disk", WRONG, found[-1], advice)
    return Check("disk", RIGHT, ", ".join(found))


def _cache() -> Check:
    root = cache_root()
    directory = _existing(root)
    if not os.access(directory, os.W_OK | os.X_OK):
        return Check("cache", WRONG, f"{directory} is not writable", f"make it writable, or set {CACHE_VARIABLE}")
    return Check("cache", RIGHT, f"{root} {'is writable' if root.is_dir() else 'does not exist yet, and can be made'}")


def check_caches(root: Path, lock: Lock, project: Path) -> Check:
    """The sizes of the caches, and the bytes that commands would free.

    Args:
        root: the root of the driver's cache.
        lock: the currently locked archives.
        project: a directory whose outputs count if it is a project.
    """
    parts = contents(root, lock)
    found = ", ".join(f"{_LARGE[part.name]} {part.size / _GIGABYTE:.1f} GB" for part in parts if part.name in _LARGE)
    spare = size_of(path for part in parts for path in part.spare)
    rebuilt = size_of(path for part in parts for path in part.made)
    freed = {"driver cache prune": spare, "driver cache clean": spare + rebuilt}
    if is_project(project) or is_extension(project):
        freed["driver clean"] = size_of(outputs_of(project).written)
    listed = [f"`{command}` frees {size / _GIGABYTE:.2f} GB" for command, size in freed.items() if size]
    return Check(_CACHES, RIGHT, found, ", ".join(listed))


def _sandbox() -> Check:
    worker_files()
    if has_namespaces():
        return Check("sandbox", RIGHT, "user namespaces hide the machine from compilers")
    advice = "allow user namespaces, or run the container with them, to share results with other machines"
    if (version := landlock_version()) > 0:
        return Check("sandbox", RIGHT, f"no user namespaces; Landlock {version} confines compilers", advice)
    return Check("sandbox", WRONG, "neither user namespaces nor Landlock: nothing confines compilers", advice)


def _index(facts: dict[str, Any]) -> list[Check]:
    """The package index, and the clock against the server's."""
    settings = read_pip_settings()
    unknown = Check("clock", UNKNOWN, "no server to compare it with")
    if not settings.indexes:
        return [Check("package index", UNKNOWN, "pip is set up without an index"), unknown]
    index = settings.indexes[0]
    if local_path(index) is not None:
        there = local_path(index)
        state = RIGHT if there is not None and there.is_dir() else WRONG
        advice = "" if state == RIGHT else "correct pip's index-url"
        return [Check("package index", state, f"{there}, a directory", advice), unknown]
    try:
        before = time.time()
        with closing(Http(settings.http).open(f"{index.rstrip('/')}/pip/")) as response:
            return [Check("package index", RIGHT, f"{redacted(index)} answers"), _clock(response.date, before, facts)]
    except OriginError as problem:
        advice = f"check the network and pip's index-url and proxy, or set {MIRROR_VARIABLE} (`driver fetch`)"
        return [Check("package index", WRONG, str(problem), advice), unknown]


def check_debian() -> Check:
    """Whether there is a Debian archive for the headers of libstdc++: apt of other distributions has none."""
    try:
        own, apt = debian_archives()
    except DriverError as problem:
        if directory := os.environ.get(MIRROR_VARIABLE):
            return Check("Debian archive", UNKNOWN, f"none but {directory}", f"`driver fetch --mirror {directory}`")
        return _failed("Debian archive", problem)
    return Check("Debian archive", RIGHT, ", ".join(map(redacted, own or apt)))


def _clock(date: str, now: float, facts: dict[str, Any]) -> Check:
    """This machine's clock compared with a server's date."""
    try:
        off = now - parsedate_to_datetime(date).timestamp()
    except ValueError:
        return Check("clock", UNKNOWN, "the package index sends no date")
    found = f"{abs(off):.0f} s {'ahead of' if off > 0 else 'behind'} the package index"
    if abs(off) > facts["clock-seconds"]:
        return Check("clock", WRONG, found, "set the clock: certificates and times of files depend on it")
    return Check("clock", RIGHT, found)


def _bazel(root: Path) -> Check:
    found = present_bazel(root)
    if found is not None:
        return Check("Bazel", RIGHT, f"{found.version}, {found.source.value}")
    return Check("Bazel", UNKNOWN, f"{wanted_version(root)} is not there yet", "the first build downloads it")


def _torch_and_gpu(facts: dict[str, Any], releases: Releases) -> list[Check]:
    torch = importable_torch()
    return [_torch(torch, releases), check_gpu(facts, torch.backend if torch else "")]


def _torch(torch: Torch | None, releases: Releases) -> Check:
    if torch is None:
        found = "no python3 on PATH imports a torch"
        return Check("torch", UNKNOWN, found, "builds need none; to run kernels, activate an environment with torch")
    found = f"{torch.version} for {torch.backend}, of {torch.python}"
    configurations = [configuration for configuration, _ in releases.matrix.configurations()]
    if any((item.torch, item.backend) == (torch.version, torch.backend) for item in configurations):
        return Check("torch", RIGHT, found)
    return Check("torch", WRONG, f"{found}: no variant is for it", "`driver variants --all` lists the releases")
