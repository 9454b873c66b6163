"""Translates paths in the workspace, which compilers print, into the author's paths."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.plan.staging import staged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from py_driver.actions.workspace import Workspace
    from py_driver.plan.plan import Plan, Variant

_SIGNS: Final = r"A-Za-z0-9_.+,=@~^!%-"
_PART: Final = f"[{_SIGNS}]+"
_ROOT: Final = re.compile(r"^.*/execroot/[^/]+/|^\./")
_OUTPUTS: Final = re.compile(r"^bazel-out/[^/]+/bin/")
_HIPIFIED: Final = re.compile(r"^[^/]+\.hipified/")
_BARE: Final = re.compile(r"^(?:[^/]+/)*?[^/]+\.sources/")
_EXTERNAL: Final = re.compile(r"^external/(?:[^/]*?torch_kernels_)?([^/]+)/(.*)$")
_RULES: Final = re.compile(r"^external/rules_torch_kernels[~+]?/(?:.*/)?([^/]+)$")
_OBJECT: Final = re.compile(r"^(?P<section>[^/]+)\.objects/(?P<source>.+?)(?:\.phases/(?:(?P<arch>\w+)/)?[^/]+|\.o)$")
_SHORT: Final = (
    (re.compile(r"^cc/gcc/include/(.*)$"), r"<libstdc++>/\1"),
    (re.compile(r"^(?:cc|host_\w+)/zig/lib/libc/include/[^/]+/(.*)$"), r"<libc>/\1"),
    (re.compile(r"^(?:cc|host_\w+)/zig/lib/include/(.*)$"), r"<clang>/\1"),
)
_ANYWHERE: Final = re.compile(rf"(?<![{_SIGNS}/<])/?(?:{_PART}/)+{_PART}")
_STRUCTURED: Final = re.compile(
    r"^(?P<before>In file included from | +from |.* at line \d+ of \"?|>>> (?:referenced by|defined at) )?"
    rf"(?P<path>{_PART}(?:/{_PART})*)(?=[:(\",]|$)"
)


def with_comments(path: str) -> str:
    """The path in the workspace of a file, from its path or from the path of its copy without comments.

    Args:
        path: the path that rules/private/sources.bzl creates, without Bazel's output directory; or another path.
    """
    return _BARE.sub("", path)


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltProject:
    """A project in a build.

    Attributes:
        directory: its directory as the user named it.
        plan: its plan.
        chosen: the variants to build.
        workspace: its workspace.
    """

    directory: Path
    plan: Plan
    chosen: Sequence[Variant]
    workspace: Workspace

    @property
    def shown(self) -> Path:
        """The directory for messages."""
        return Path(self.plan.shown) if self.plan.shown else self.directory

    @property
    def prefix(self) -> str:
        """The prefix of its paths in the workspace."""
        return f"{self.workspace.package}/" if self.workspace.package else ""

    @property
    def variants(self) -> dict[str, str]:
        """The identifiers of the variants to build, in order, by label."""
        return {self.workspace.label(variant.name): variant.name for variant in self.chosen}


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """The origin of an action's output.

    Attributes:
        section: the target that it belongs to.
        source: the path of its source in the project.
        arch: the directory of its architecture; empty without one.
    """

    section: str
    source: str
    arch: str


@dataclass(frozen=True, slots=True)
class AuthorPaths:
    """Translates the paths of a build of projects."""

    projects: Sequence[BuiltProject]
    _staged: dict[str, dict[str, str]] = field(default_factory=dict)
    _lines: dict[Path, list[str]] = field(default_factory=dict)

    def project_of(self, label: str) -> BuiltProject | None:
        """The project of a target."""
        package = label.lstrip("@").partition("//")[2].partition(":")[0]
        return next((project for project in self.projects if project.workspace.package == package), None)

    def file(self, path: str, own: BuiltProject | None) -> tuple[BuiltProject, str] | None:
        """The project of a path, and the file in it.

        Args:
            path: the path as a compiler prints it.
            own: the project that is compiled, to which relative paths belong.
        """
        path = _ROOT.sub("", path)
        inside = with_comments(_OUTPUTS.sub("", path))
        for project in self.projects:
            if inside.startswith(project.prefix) and (name := self._name(project, inside[len(project.prefix) :])):
                return project, name
        if own is not None and (name := self._name(own, path)):
            return own, name
        return None

    def _name(self, project: BuiltProject, path: str) -> str | None:
        """The name in a project of a file that may have another name in Bazel."""
        names = self._staged.setdefault(project.prefix, {})
        if not names:
            names |= {staged(file): file for file in project.plan.files}
        path = _HIPIFIED.sub("", path)
        return names.get(path)

    def shown(self, path: str, own: BuiltProject | None) -> str:
        """A path for the user: in the user's form for the project, in a short form for a toolchain.

        Args:
            path: see `file`.
            own: see `file`.
        """
        if found := self.file(path, own):
            return str(found[0].shown / found[1])
        path = _ROOT.sub("", path)
        if match := _RULES.match(path):
            return f"<rules_torch_kernels>/{match[1]}"
        if match := _EXTERNAL.match(path):
            name, rest = match.groups()
            for shape, short in _SHORT:
                if shape.match(f"{name}/{rest}"):
                    return shape.sub(short, f"{name}/{rest}")
            word, _, release = name.partition("_")
            release = re.sub(r"(?<=\d)_(?=\d)", ".", release).replace("_", " ")
            return f"<{word}{' ' if release else ''}{release}>/{rest}"
        return path

    def line(self, path: str, own: BuiltProject | None) -> str:
        """A line of a compiler with paths for the user.

        Args:
            path: the line.
            own: see `file`.
        """
        if match := _STRUCTURED.match(path):
            before, name = match["before"] or "", match["path"]
            if self.file(name, own):
                return before + self.shown(name, own) + path[match.end() :]
        return _ANYWHERE.sub(lambda match: self._translated(match[0]), path)

    def _translated(self, path: str) -> str:
        """A path within a text, where only paths of the workspace or a toolchain are certain."""
        inside = _OUTPUTS.sub("", _ROOT.sub("", path))
        if inside.startswith("external/") or any(
            project.prefix and inside.startswith(project.prefix) for project in self.projects
        ):
            if origin := self.made(path):
                return origin.source
            return self.shown(path, None)
        return path

    def made(self, output: str) -> Made | None:
        """Source, section and architecture of an action's output; None if it has no source."""
        inside = _OUTPUTS.sub("", _ROOT.sub("", output))
        for project in self.projects:
            if inside.startswith(project.prefix) and (match := _OBJECT.match(inside[len(project.prefix) :])):
                source = self._name(project, match["source"]) or match["source"]
                return Made(section=match["section"], source=source, arch=match["arch"] or "")
        return None

    def source_of(self, output: str) -> str:
        """The source of an object: `relu/cpu.cpp, of [kernel.cpu]`; empty if unknown."""
        origin = self.made(output)
        project = next(
            (built_project for built_project in self.projects if origin and origin.source in built_project.plan.files),
            None,
        )
        if origin is None or project is None:
            return ""
        return f"{project.shown / origin.source}, of {section_of(project, origin.section)}"

    def text_of(self, project: BuiltProject, name: str, line: int) -> str | None:
        """A line of a file of a project; None if there is no such line."""
        lines = self._texts(project.plan.path_of(project.directory, name))
        return lines[line - 1] if 0 < line <= len(lines) else None

    def lines_with(self, output: str, word: str) -> list[int]:
        """The lines with a word in the source of an object; empty if the source is unknown."""
        origin = self.made(output)
        project = next(
            (built_project for built_project in self.projects if origin and origin.source in built_project.plan.files),
            None,
        )
        return [] if origin is None or project is None else self.lines_of(project, origin.source, word)

    def lines_of(self, project: BuiltProject, name: str, word: str) -> list[int]:
        """The lines with a word in a file of a project."""
        shape = re.compile(rf"\b{re.escape(word)}\b")
        texts = self._texts(project.plan.path_of(project.directory, name))
        return [number for number, text in enumerate(texts, 1) if word and shape.search(text)]

    def _texts(self, path: Path) -> list[str]:
        """The lines of a file; empty if it cannot be read."""
        if path not in self._lines:
            try:
                self._lines[path] = path.read_text(encoding="utf-8", errors="replace").splitlines()
            except OSError:
                self._lines[path] = []
        return self._lines[path]


def section_of(project: BuiltProject, target: str) -> str:
    """A target's sections in build.toml: `[kernel.relu]`, `[torch]` for a binding, or several with shared code."""
    plan = project.plan
    linked = {link.name: " and ".join(group.title for group in link.groups) for link in plan.device_links.values()}
    names: Mapping[str, str] = {**linked, **{group.name: group.title for group in plan.groups}}
    return names.get(target, f"[kernel.{target}]")
