"""The Bazel workspace in which a project is built: the repository of the rules, or one in the user's cache."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py_driver.bazel.servers import copy_of
from py_driver.errors import Code, error
from py_driver.matrix.installation import MODULE_NAME, label_prefix, module_root
from py_driver.matrix.installed_python import kept_pythons
from py_driver.plan.buildfile import render
from py_driver.plan.staging import staged
from py_driver.system.cache import cache_root, storage_errors
from py_driver.system.files import looking_twice, path_digest, replacing
from py_driver.system.memory import builds_at_once
from py_driver.system.turns import is_free, turn, whom

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Plan
    from py_driver.system.turns import Ticket

_MODULE = """\"\"\"Kernel projects of this user, one package each; written and rewritten by the driver.\"\"\"

module(name = "kernel_projects")

bazel_dep(name = "{module}")
local_path_override(
    module_name = "{module}",
    path = {path},
)
"""
_EXTEND = """
toolchains = use_extension("@{module}//toolchains:extensions.bzl", "toolchains")
toolchains.extend(lock = "//:matrix.lock.json")
"""
_INSTALLED = """
pythons = use_extension("@{module}//toolchains:extensions.bzl", "toolchains")
pythons.installed(pythons = "//:pythons.json")
"""
_SETTINGS = (".bazelrc", ".bazelversion")
_PROJECTS = "projects"


@dataclass(frozen=True, kw_only=True, slots=True)
class Workspace:
    """The workspace of a project, and its package there.

    Attributes:
        root: the directory of MODULE.bazel.
        package: the project's Bazel package, e.g. `examples/relu`; empty for the root package.
    """

    root: Path
    package: str

    def label(self, target: str) -> str:
        """The label of one of the project's targets."""
        return f"//{self.package}:{target}"


def workspace_for(directory: Path, plan: Plan, releases: Releases, copy: int = 0) -> Workspace:
    """The workspace for a project.

    A project inside the repository of the rules is built there, with the checked-in BUILD.bazel, unless it has files
    whose names labels do not support, or the plan differs from build.toml. All others share a workspace in the cache,
    and thus one copy of the toolchains; nothing is written into the project. There is a separate workspace for each
    user's own matrix. A project is identified there by its name alone, so another checkout of it, in another directory
    or on another machine, has the same action keys. If two checkouts are built at once, the second one is built in a
    copy of the workspace.

    Args:
        directory: the project's directory.
        plan: its plan.
        releases: the releases to build for.
        copy: the number of the workspace; see `one_at_a_time`.

    Raises:
        DriverError: STALE_BUILD_FILE if the project is in the repository and its BUILD.bazel does not match build.toml;
            STALE_LOCK if the user's own matrix is not locked; NO_SPACE or PERMISSION if the workspace cannot be
            written.
    """
    project = directory.resolve()
    root = module_root()
    own = releases.user_lock_file
    is_other = plan.only_archs or plan.is_changed or any(variant.module for variant in plan.variants)
    checked_in = not label_prefix(project) and not plan.own_names and not is_other
    if checked_in and releases.user is None:
        build_file = project / "BUILD.bazel"
        text = build_file.read_text(encoding="utf-8") if build_file.is_file() else ""
        if text != render(plan, ""):
            message = f"{directory / 'BUILD.bazel'} does not match build.toml"
            raise error(Code.STALE_BUILD_FILE, message, help=f"run `driver gen {directory}`")
        package = project.relative_to(root).as_posix()
        return Workspace(root=root, package="" if package == "." else package)
    name = path_digest(root) if own is None else f"{path_digest(root)}-{path_digest(own)}"
    workspace = copy_of(cache_root() / "workspaces" / name, copy)
    package = f"{_PROJECTS}/{plan.module}"
    with storage_errors(workspace):
        _write_module(workspace, root, releases)
        _write_package(workspace / package, project, plan)
    return Workspace(root=workspace, package=package)


def common_workspace() -> Path:
    """The workspace in the cache in which the rules' own programs are built.

    Raises:
        DriverError: NO_SPACE or PERMISSION if it cannot be written.
    """
    root = module_root()
    workspace = cache_root() / "workspaces" / path_digest(root)
    with storage_errors(workspace):
        _write_module(workspace, root, None)
    return workspace


@contextmanager
def held(directory: Path, plan: Plan, output: Output) -> Iterator[None]:
    """Lock the files of a project: other processes that build it in the same directory, or read its outputs, wait.

    Raises:
        DriverError: NO_SPACE or PERMISSION if the cache cannot be written.
    """

    def waiting(before: Sequence[Ticket]) -> None:
        output.say(f"{plan.name} is in use; waiting for {whom(before, time.time())}.")

    with turn(_files(directory, plan), waiting):
        yield


@contextmanager
def one_at_a_time(directory: Path, plan: Plan, output: Output) -> Iterator[int]:
    """Lock a project from its files to its variants, see `held`, and its place in a workspace.

    Other checkouts of the project have the same place in each workspace, so they are built in copies of it; the number
    of copies depends on the machine's memory.

    Yields:
    The number of the copy.

    Raises:
        DriverError: NO_SPACE or PERMISSION if the cache cannot be written.
    """

    def waiting(before: Sequence[Ticket]) -> None:
        output.say(f"Other checkouts of {plan.name} are built; waiting for {whom(before, time.time())}.")

    with held(directory, plan, output), turn(_place(plan), waiting, places=builds_at_once()) as mine:
        yield mine.place


def is_busy(directory: Path, plan: Plan) -> bool:
    """Whether a build of a project would have to wait now.

    Raises:
        DriverError: NO_SPACE or PERMISSION if the cache cannot be written.
    """
    return not (is_free(_files(directory, plan)) and is_free(_place(plan), places=builds_at_once()))


def _files(directory: Path, plan: Plan) -> Path:
    """The queue for the files of a project."""
    return cache_root() / "turns" / _PROJECTS / f"{plan.module}.{path_digest(directory.resolve())}"


def _place(plan: Plan) -> Path:
    """The queue for the place of a project in the workspaces of this installation."""
    return cache_root() / "turns" / "places" / f"{plan.module}.{path_digest(module_root())}"


def _write_module(workspace: Path, root: Path, releases: Releases | None) -> None:
    """Write the files that make a directory a workspace.

    Args:
        workspace: the directory.
        root: the root of the Bazel module of the rules.
        releases: the releases, whose user lock it gets, if there is one.
    """
    workspace.mkdir(parents=True, exist_ok=True)
    text = _MODULE.format(module=MODULE_NAME, path=json.dumps(str(root), ensure_ascii=False))
    if releases and releases.user_lock_file:
        text += _EXTEND.format(module=MODULE_NAME)
        _put(workspace / "matrix.lock.json", json.dumps(releases.user_lock).encode())
        for name, content in releases.user_symbols().items():
            _put(workspace / f"matrix.{name}", content)
        _put(workspace / "BUILD.bazel", b"")
    if pythons := kept_pythons():
        text += _INSTALLED.format(module=MODULE_NAME)
        _put(workspace / "pythons.json", json.dumps(pythons).encode())
        _put(workspace / "BUILD.bazel", b"")
    _put(workspace / "MODULE.bazel", text.encode())
    for setting in _SETTINGS:
        _put(workspace / setting, (root / setting).read_bytes())


def _write_package(package: Path, project: Path, plan: Plan) -> None:
    """Make a directory contain exactly a project's files.

    Copies, not links: a sandbox shows the files of the workspace, not the targets of links.
    """
    with looking_twice():
        contents = {staged(file): plan.path_of(project, file).read_bytes() for file in plan.files}
    contents["BUILD.bazel"] = render(plan, f"@{MODULE_NAME}").encode()
    for old in sorted(package.rglob("*"), reverse=True):
        if old.is_dir() and not any(old.iterdir()):
            old.rmdir()
        elif not old.is_dir() and old.relative_to(package).as_posix() not in contents:
            old.unlink()
    for name, content in contents.items():
        _put(package / name, content)


def _put(path: Path, content: bytes) -> None:
    """Write a file atomically, unless it already has the content, so that Bazel sees no change."""
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(content)
