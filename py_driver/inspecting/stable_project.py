"""A project moved to torch's stable ABI: its sources rewritten in place, and the release in its build.toml."""

from __future__ import annotations

import re
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import tomli

from py_driver.errors import Code, error
from py_driver.inspecting.stable_fix import Fixed, fix_source
from py_driver.inspecting.stable_uses import macros_of
from py_driver.plan.links import is_in_repository
from py_driver.system.files import together
from py_driver.system.git import ask, names, said

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

_TORCH: Final = re.compile(r"^\[torch\][^\n]*\n", re.MULTILINE)
_SECTION: Final = re.compile(r"^\[", re.MULTILINE)
_KEY: Final = re.compile(r"^stable-abi\s*=\s*\"([\d.]+)\"", re.MULTILINE)
_EDITION: Final = 4
"""The first edition of build.toml with `stable-abi`."""


class FixedProject(NamedTuple):
    """The result of moving a project.

    Attributes:
        files: each source with uses.
        written: the old content of the changed files.
        since: the first release with all equivalents.
        note: what to do about build.toml, if it was not written; else empty.
    """

    files: Mapping[Path, Fixed]
    written: Mapping[Path, bytes]
    since: str
    note: str

    @property
    def done(self) -> bool:
        """Whether nothing is left to do by hand."""
        return not self.note and not any(fixed.left or fixed.refused for fixed in self.files.values())

    def undo(self) -> None:
        """Restore the files.

        Raises:
            DriverError: PERMISSION, NO_SPACE.
        """
        with together() as files:
            for path, content in self.written.items():
                files.write(path, content)

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Restore the files temporarily.

        Raises:
            DriverError: PERMISSION, NO_SPACE.
        """
        new = {path: path.read_bytes() for path in self.written}
        self.undo()
        yield
        with together() as files:
            for path, content in new.items():
                files.write(path, content)


def fix_project(sources: Iterable[Path], manifest: Path | None, *, force: bool) -> FixedProject:
    """Rewrite sources in place, and set `stable-abi` if nothing is left to do by hand.

    A source that cannot be understood stays unchanged, and so do all others if a file with uncommitted changes would be
    written.

    Args:
        sources: the sources to rewrite.
        manifest: the build.toml of the project.
        force: whether files with uncommitted changes may be written.

    Raises:
        DriverError: DIRTY_TREE if there are such files, or git fails; PERMISSION, NO_SPACE.
    """
    contents = {source: _read(source) for source in sources}
    own = frozenset[str]().union(*(macros_of(content.decode(errors="replace")) for content in contents.values()))
    files: dict[Path, Fixed] = {}
    ported: list[Fixed] = []
    new: dict[Path, bytes] = {}
    for source, content in contents.items():
        try:
            text = content.decode()
        except UnicodeDecodeError:
            files[source] = Fixed("", 0, [], frozenset(), "it is not UTF-8")
            continue
        fixed = fix_source(text, str(source), own)
        if fixed.uses or fixed.left:
            files[source] = fixed
        else:
            ported.append(fixed)
        if fixed.text != text:
            new[source] = fixed.text.encode()
    since = max((name for fixed in (*files.values(), *ported) for name in fixed.since), key=_numbers, default="")
    done = not any(fixed.left or fixed.refused for fixed in files.values())
    note = ""
    if manifest is not None and since:
        old = _read(manifest).decode(errors="replace")
        text, note = with_release(old, since) if done else (old, _by_hand(old, since))
        if text != old:
            new[manifest] = text.encode()
    if not force:
        _refuse_changed(new)
    old_contents = {path: _read(path) for path in new}
    with together() as written:
        for path, content in new.items():
            written.write(path, content)
    return FixedProject(files, old_contents, since, note)


def with_release(text: str, since: str) -> tuple[str, str]:
    """A build.toml with `stable-abi`, and what remains to be done by hand, possibly empty.

    A later release in it stays.

    Args:
        text: the build.toml.
        since: the release.
    """
    table = tomli.loads(text)
    torch = table.get("torch", {})
    edition = table.get("general", {}).get("edition")
    found = _TORCH.search(text)
    if isinstance(edition, int) and edition < _EDITION:
        return text, f'`driver upgrade` it, and set `stable-abi = "{since}"` in [torch]'
    key = torch.get("stable-abi")
    if isinstance(key, str) and _numbers(key) >= _numbers(since):
        return text, ""
    if found is None or (key is not None and not isinstance(key, str)):
        return text, _by_hand(text, since)
    after = _SECTION.search(text, found.end())
    end = after.start() if after else len(text)
    section = text[found.end() : end]
    newline = "\r\n" if found[0].endswith("\r\n") else "\n"
    if key is not None:
        section, count = _KEY.subn(f'stable-abi = "{since}"', section)
        return (text[: found.end()] + section + text[end:], "") if count == 1 else (text, _by_hand(text, since))
    keys = [line.end() for line in re.finditer(r"^[ \t]*[^#\s][^\n]*(?:\n|\Z)", section, re.MULTILINE)]
    at = found.end() + (keys[-1] if keys else 0)
    before = "" if text[:at].endswith("\n") else newline
    changed = f'{text[:at]}{before}stable-abi = "{since}"{newline}{text[at:]}'
    if tomli.loads(changed) != {**table, "torch": {**torch, "stable-abi": since}}:
        return text, _by_hand(text, since)
    return changed, ""


def _by_hand(text: str, since: str) -> str:
    return "" if f'stable-abi = "{since}"' in text else f'set `stable-abi = "{since}"` in [torch] when nothing is left'


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        message = f"cannot read {path}: {problem.strerror}"
        raise error(Code.PERMISSION, message, help="name a source that you may read") from None


def _refuse_changed(paths: Iterable[Path]) -> None:
    """Raise if a file has uncommitted changes; without a repository there are none."""
    for directory, group in _by_directory(paths).items():
        try:
            changed = names(
                ask(directory, "status", "--porcelain", "-z", "--untracked-files=all", "--ignored", "--", *group)
            )
        except FileNotFoundError:
            return
        except subprocess.CalledProcessError as problem:
            if not is_in_repository(directory):
                continue
            message = f"git cannot report whether files in {directory} have changes: {said(problem)}"
            raise error(Code.DIRTY_TREE, message, help="see `git status`, or use --force") from None
        if changed:
            message = f"{directory / changed[0][3:].rsplit('/', 1)[-1]} has changes that are not committed"
            raise error(Code.DIRTY_TREE, message, help="commit them, or use --force to overwrite them")


def _by_directory(paths: Iterable[Path]) -> dict[Path, list[str]]:
    grouped: dict[Path, list[str]] = {}
    for path in paths:
        grouped.setdefault(path.parent, []).append(path.name)
    return grouped


def _numbers(version: str) -> tuple[int, ...]:
    return (*map(int, version.split(".")),)
