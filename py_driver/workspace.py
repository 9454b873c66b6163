"""The Bazel workspace in which a project is built: the one it lies in, or one of its own in the user's cache."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.buildfile import render
from py_driver.errors import Code, error
from py_driver.fetch.store import cache_root, storage_errors
from py_driver.layout import MODULE_NAME, label_prefix, module_root

if TYPE_CHECKING:
    from py_driver.plan import Plan

_MODULE = """\"\"\"A workspace around one kernel project; written by the driver, which removes and rewrites it at will.\"\"\"

module(name = "kernel_project")

bazel_dep(name = "{module}")
local_path_override(
    module_name = "{module}",
    path = {path},
)
"""
_SETTINGS = (".bazelrc", ".bazelversion")


@dataclass(frozen=True, kw_only=True, slots=True)
class Workspace:
    """Where Bazel runs and what it calls the project.

    Attributes:
        root: the directory of MODULE.bazel.
        package: the project's Bazel package, e.g. `examples/relu`; empty for the root package.
    """

    root: Path
    package: str

    def label(self, target: str) -> str:
        """The label of one of the project's targets."""
        return f"//{self.package}:{target}"


def workspace_for(directory: Path, plan: Plan) -> Workspace:
    """The workspace for a project.

    A project inside the repository of the rules is built there, with the BUILD.bazel that is checked in. Any other gets
    a workspace in the cache that consists of links to its files, so that nothing is left in the project.

    Args:
        directory: of the project.
        plan: what to build of it.

    Raises:
        DriverError: STALE_BUILD_FILE if the project lies in the repository and its BUILD.bazel is not what build.toml
            says; NO_SPACE or PERMISSION if the workspace cannot be written.
    """
    project = directory.resolve()
    root = module_root()
    if not label_prefix(project):
        build_file = project / "BUILD.bazel"
        text = build_file.read_text(encoding="utf-8") if build_file.is_file() else ""
        if text != render(plan, ""):
            message = f"{directory / 'BUILD.bazel'} is not what build.toml says"
            raise error(Code.STALE_BUILD_FILE, message, help=f"run `driver gen {directory}`")
        package = project.relative_to(root).as_posix()
        return Workspace(root=root, package="" if package == "." else package)
    name = hashlib.sha256(os.fsencode(project)).hexdigest()[:16]
    workspace = cache_root() / "workspaces" / name
    with storage_errors(workspace):
        _write(workspace, project, plan, root)
    return Workspace(root=workspace, package="")


def _write(workspace: Path, project: Path, plan: Plan, root: Path) -> None:
    workspace.mkdir(parents=True, exist_ok=True)
    wanted = {file for identity in plan.identities for file in identity.files}
    for old in sorted(workspace.rglob("*"), reverse=True):
        name = old.relative_to(workspace).as_posix()
        if name.startswith("bazel-") or name.partition("/")[0].startswith("bazel-"):
            continue
        if old.is_symlink() and name not in wanted:
            old.unlink()
        elif old.is_dir() and not old.is_symlink() and not any(old.iterdir()):
            old.rmdir()
    for file in wanted:
        link = workspace / file
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink() or link.readlink() != project / file:
            link.unlink(missing_ok=True)
            link.symlink_to(project / file)
    _put(workspace / "BUILD.bazel", render(plan, f"@{MODULE_NAME}"))
    _put(workspace / "MODULE.bazel", _MODULE.format(module=MODULE_NAME, path=json.dumps(str(root), ensure_ascii=False)))
    for setting in _SETTINGS:
        shutil.copyfile(root / setting, workspace / setting)


def _put(path: Path, text: str) -> None:
    """Write a file unless it has that text, so that Bazel sees no change where there is none."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
