"""The differences between two releases, and the breaking ones among them. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py_driver.inspecting.call_breaks import breaks, op_call, python_call
from py_driver.inspecting.python_api import ASYNC, CLASS, STATIC
from py_driver.inspecting.release_facts import ENTRY_POINT

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from py_driver.inspecting.call_breaks import Call
    from py_driver.inspecting.release_facts import LibraryFacts, ReleaseFacts

_REMOVED, _ADDED = "removed", "added"
_METADATA: Final = "METADATA "
_BREAKING_KEYS: Final = ("METADATA requires-python", "METADATA requires-dist", "METADATA name")
_DEPENDS: Final = ("python-depends", "kernel-depends")
"""Keys of metadata.json with requirements for loading a variant."""

_NAMED: Final = "/metadata.json name"
_OPS: Final = "torch.ops."
_EXTRA: Final = "extra =="
_STORED: Final = "size"
_TORCH: Final = "torch "


class ReleaseChange(NamedTuple):
    """A difference.

    Attributes:
        kind: `function`, `op`, `export`, `architecture`, `PTX`, `device function`, `needed library`, `needed symbol`,
            `loads with`, `library`, `size`, `metadata`.
        subject: its subject, with its library if it has one.
        before: the old state; empty for an addition.
        after: the new state; empty for a removal.
        breaking: why callers or users of the old release fail; empty if they do not.
    """

    kind: str
    subject: str
    before: str
    after: str
    breaking: str = ""

    def as_json(self) -> dict[str, Any]:
        """The change as a value for JSON."""
        return self._asdict()


def release_changes(old: ReleaseFacts, new: ReleaseFacts) -> list[ReleaseChange]:
    """The differences between two releases, breaking ones first.

    Args:
        old: the old release.
        new: the new release.
    """
    found = [*_functions(old.functions, new.functions), *_ops(old.libraries, new.libraries)]
    for name, before in _paired(old.libraries, new.libraries):
        if before in new.libraries:
            found += _library(name, old.libraries[name], new.libraries[before])
        else:
            found.append(ReleaseChange("library", name, f"{old.libraries[name].size:,} bytes", "", "it is removed"))
    kept = {after for _, after in _paired(old.libraries, new.libraries)}
    found += [
        ReleaseChange("library", name, "", f"{library.size:,} bytes")
        for name, library in new.libraries.items()
        if name not in kept
    ]
    compiled = {name.partition("/")[0] for name in old.libraries}
    found += _metadata(old.metadata, new.metadata, compiled)
    return sorted(found, key=lambda change: not change.breaking)


def _paired(old: Mapping[str, LibraryFacts], new: Mapping[str, LibraryFacts]) -> list[tuple[str, str]]:
    """The old libraries, each with the corresponding new one.

    It has the same name, or both are the only library. A removed library may correspond to another variant's, such as
    one for torch's stable ABI: an added library with the same file name that loads wherever the old one loaded.
    """
    if len(old) == len(new) == 1:
        return [(next(iter(old)), next(iter(new)))]
    return [(name, name if name in new else _in_place(name, old, new)) for name in old]


def _in_place(name: str, old: Mapping[str, LibraryFacts], new: Mapping[str, LibraryFacts]) -> str:
    """The new library that replaces a removed one; its own name if there is none."""
    file, loads = name.rpartition("/")[2], {release for release in old[name].loads if release.startswith(_TORCH)}
    found = (
        other
        for other in sorted(new)
        if other not in old and other.rpartition("/")[2] == file and loads and loads <= new[other].loads
    )
    return next(found, name)


def _functions(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[ReleaseChange]:
    """The differences between Python functions and classes."""
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name, ""), new.get(name, "")
        if before != after:
            is_op = name.startswith(_OPS)
            broken = _broken_op if is_op else _broken_lines
            why = "it is removed" if not after else "; ".join(broken(before, after)) if before else ""
            yield ReleaseChange("op" if is_op else "function", name, before, after, why)


def _broken_op(before: str, after: str) -> Iterator[str]:
    """The reasons why calls of an op that Python registers fail, from its schema or the signature of its function."""
    old, new = op_call(before), op_call(after)
    if old and new and "::" in before and "::" in after:
        yield from breaks(old[1], new[1])
        return
    calls = python_call(before), python_call(after)
    if calls[0] and calls[1]:
        yield from breaks(calls[0], calls[1])


def _broken_lines(before: str, after: str) -> Iterator[str]:
    """The reasons why calls of a function, or of the methods of a class, fail."""
    old, new = ({_name(line): line.strip() for line in text.split("\n")} for text in (before, after))
    for name, line in old.items():
        if name not in new:
            yield f"`{name}` is removed"
            continue
        if line.startswith(CLASS) and new[name].startswith(CLASS):
            yield from (f"it is no `{base}` any more" for base in sorted(_bases(line) - _bases(new[name])))
            continue
        calls = python_call(line), python_call(new[name])
        if calls[0] and calls[1]:
            yield from breaks(calls[0], calls[1])
        elif bool(calls[0]) != bool(calls[1]) and CLASS not in line + new[name]:
            yield f"`{name}` is {'a' if calls[1] else 'no'} function {'now' if calls[1] else 'any more'}"
        elif line.startswith(CLASS):
            yield f"`{name}` is no class any more"


def _name(line: str) -> str:
    """The name in a line of a signature, with no distinction between function and class."""
    return line.strip().removeprefix(CLASS).removeprefix(STATIC).removeprefix(ASYNC).partition("(")[0]


def _bases(line: str) -> set[str]:
    """The public bases of a class."""
    names = line.partition("(")[2].removesuffix(")").split(", ")
    return {name for name in names if name and not name.startswith("_")}


def _ops(old: Mapping[str, LibraryFacts], new: Mapping[str, LibraryFacts]) -> Iterator[ReleaseChange]:
    """The differences between the schemas of ops, in all libraries together."""
    before, after = _calls(old), _calls(new)
    # Inside of a TORCH_LIBRARY a schema may have no namespace.
    lost = {name for name in before if name not in after}
    fresh = {name.rpartition("::")[2]: name for name in after if name not in before}
    for name in sorted(lost):
        if (bare := name.rpartition("::")[2]) in fresh:
            after[name] = after.pop(fresh.pop(bare))
    for name in dict.fromkeys((*before, *after)):
        texts = [calls[name][0] if name in calls else "" for calls in (before, after)]
        if name in before and name in after and before[name][1] == after[name][1]:
            continue
        why = ""
        if name in before:
            why = "; ".join(breaks(before[name][1], after[name][1])) if name in after else "it is removed"
        yield ReleaseChange("op", name, texts[0], texts[1], why)


def _calls(libraries: Mapping[str, LibraryFacts]) -> dict[str, tuple[str, Call]]:
    """The ops of libraries by name, each with its schema and its call."""
    texts = sorted({schema for library in libraries.values() for schema in library.schemas})
    read = ((text, op_call(text)) for text in texts)
    return {found[0]: (text, found[1]) for text, found in read if found}


def _library(name: str, old: LibraryFacts, new: LibraryFacts) -> Iterator[ReleaseChange]:
    """The differences between two libraries."""
    if old.size != new.size:
        yield ReleaseChange(_STORED, name, f"{old.size:,} bytes", f"{new.size:,} bytes")
    yield from _sets("export", name, old.exports, new.exports, lost="users that link with it do not find it")
    yield from _sets("architecture", name, old.machine_code, new.machine_code, lost="its GPUs have no machine code")
    yield from _sets("PTX", name, old.ptx, new.ptx, lost="newer GPUs have nothing to compile")
    yield from _sets("loads with", name, old.loads, new.loads, lost="it does not load there any more")
    yield from _sets("needed library", name, old.libraries, new.libraries)
    yield from _sets("needed symbol", name, old.symbols, new.symbols)
    for key in dict.fromkeys((*old.functions, *new.functions)):
        before, after = (
            f"{own[key].registers} registers, {own[key].stack} bytes of stack" if key in own else ""
            for own in (old.functions, new.functions)
        )
        if before != after:
            yield ReleaseChange("device function", f"{name}: {key[1]} for {key[0]}", before, after)


def _sets(kind: str, name: str, old: frozenset[str], new: frozenset[str], *, lost: str = "") -> Iterator[ReleaseChange]:
    """The entries that only one of two libraries has.

    Args:
        kind: the kind of the change.
        name: the name of the library.
        old: the old library's entries.
        new: the new library's entries.
        lost: why a removal breaks callers; empty if it does not.
    """
    for subject in sorted(old - new):
        yield ReleaseChange(kind, f"{name}: {subject}", _REMOVED, "", lost)
    for subject in sorted(new - old):
        yield ReleaseChange(kind, f"{name}: {subject}", "", _ADDED)


def _metadata(old: Mapping[str, str], new: Mapping[str, str], compiled: Container[str]) -> Iterator[ReleaseChange]:
    """The differences between metadata.

    Args:
        old: the metadata of the old release.
        new: the metadata of the new one.
        compiled: the directories of the old release with libraries, whose removal is reported separately.
    """
    is_wheel = any(key.startswith(_METADATA) for key in new)
    for key in dict.fromkeys((*old, *new)):
        before, after = old.get(key, ""), new.get(key, "")
        if before != after and (is_wheel or not key.startswith(ENTRY_POINT)):
            is_gone = key.endswith(_NAMED) and not after and key.removesuffix(_NAMED) not in compiled
            why = "the variant is removed" if is_gone else _stated_break(key, before, after)
            yield ReleaseChange("metadata", key, before, after, why)


def _stated_break(key: str, before: str, after: str) -> str:
    """Why a difference in metadata breaks users; empty if it does not."""
    if key.startswith(ENTRY_POINT):
        return "" if after else "it is removed"
    if key.rpartition(" ")[2] in _DEPENDS:
        more = {*_listed(after)} - {*_listed(before)}
        return "another package is required" if after and more else ""
    fresh = [text for text in {*after.split("\n")} - {*before.split("\n"), ""} if _EXTRA not in text]
    return "another environment is required" if key in _BREAKING_KEYS and fresh else ""


def _listed(text: str) -> Iterator[str]:
    """The elements of a value of metadata.json, each as JSON."""
    value = json.loads(text) if text else []
    parts = value.items() if isinstance(value, dict) else value if isinstance(value, list) else [value]
    return (json.dumps(part, sort_keys=True) for part in parts)


def is_new_major(old: str, new: str) -> bool:
    """Whether a version is a later major version: another first number, or second one for 0.x (SemVer, 4 and 8).

    Args:
        old: the version of the old release.
        new: the version of the new one; without numbers it does not count as later.
    """
    before, after = (_leading(version) for version in (old, new))
    if not before or not after:
        return False
    return after > before if before[0] != after[0] else not before[0] and before[:2] < after[:2]


def _leading(version: str) -> tuple[int, ...]:
    """The leading numbers of a version."""
    numbers: list[int] = []
    for part in version.strip('"').split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    return tuple(numbers)
