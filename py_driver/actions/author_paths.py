"""Paths as the author of a project knows them, of those that compilers name in the workspace."""

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
    """The path in the workspace of the file that a path means, which may be that of its copy without comments.

    Args:
        path: as rules/private/sources.bzl makes it, less the way to Bazel's outputs; or another one.
    """
    return _BARE.sub("", path)


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltProject:
    """A project as it is built.

    Attributes:
        directory: as the user named it.
        plan: of it.
        chosen: the variants that are built.
        workspace: where it is built.
    """

    directory: Path
    plan: Plan
    chosen: Sequence[Variant]
    workspace: Workspace

    @property
    def shown(self) -> Path:
        """The directory as messages have it."""
        return Path(self.plan.shown) if self.plan.shown else self.directory

    @property
    def prefix(self) -> str:
        """What its paths in the workspace begin with."""
        return f"{self.workspace.package}/" if self.workspace.package else ""

    @property
    def variants(self) -> dict[str, str]:
        """The identifiers of the variants that are built, in their order, by their labels."""
        return {self.workspace.label(variant.name): variant.name for variant in self.chosen}


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """What an output of an action says of itself.

    Attributes:
        section: the target that it belongs to.
        source: path of the file that it is made from, within the project.
        arch: the directory of the architecture that it is for; empty if it is for none.
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
        """The project and the file in it that a path means.

        Args:
            path: as a compiler names it.
            own: the project that it compiles: what it names without a way to it is a file of that.
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
        """The name in a project of a file that Bazel may have under another."""
        names = self._staged.setdefault(project.prefix, {})
        if not names:
            names |= {staged(file): file for file in project.plan.files}
        path = _HIPIFIED.sub("", path)
        return names.get(path)

    def shown(self, path: str, own: BuiltProject | None) -> str:
        """A path for the user: of the project as it was named, of a toolchain in a short form.

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
        """A path in the middle of a text, where only what names the workspace or a toolchain is one for sure."""
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
        """What an object is made from: `relu/cpu.cpp, of [kernel.cpu]`; empty if that is unknown."""
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
        """The lines with a word in the source that an object is made from; none of an unknown one."""
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
        """The lines of a file; none if it cannot be read."""
        if path not in self._lines:
            try:
                self._lines[path] = path.read_text(encoding="utf-8", errors="replace").splitlines()
            except OSError:
                self._lines[path] = []
        return self._lines[path]


def section_of(project: BuiltProject, target: str) -> str:
    """A target as build.toml has it: `[kernel.relu]`, `[torch]` for a binding, or several that share or link code."""
    plan = project.plan
    linked = {link.name: " and ".join(group.title for group in link.groups) for link in plan.device_links.values()}
    names: Mapping[str, str] = {**linked, **{group.name: group.title for group in plan.groups}}
    return names.get(target, f"[kernel.{target}]")
