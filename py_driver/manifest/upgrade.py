"""Rewrites a build.toml of any edition as the current one and leaves comments, order and layout alone. Pure.

The text is edited where its keys stand, since libraries that keep comments, such as tomlkit, can only add a key at the
end of its table. What comes out is read again, and must mean the same.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from py_driver.errors import Code, DriverError, error
from py_driver.manifest.edits import Edits, LayoutError
from py_driver.manifest.model import BACKENDS, CURRENT, NOARCH, TORCH, UNIVERSAL, Located, Manifest
from py_driver.manifest.parts import PYTHON_PACKAGES
from py_driver.manifest.reader import read
from py_driver.manifest.text import parse

_FIRST = ("name", "version", "edition", "license", "backends")
"""The keys of [general] that every file has, in the order in which they are added."""


def upgrade(content: bytes, manifest: Manifest) -> bytes:
    """A build.toml in the current edition.

    Args:
        content: what it is now.
        manifest: what it says now; without errors.

    Returns:
        The new file; the same bytes if it is of the current edition already.

    Raises:
        DriverError: UNSUPPORTED if the layout of the file cannot be edited so that it means the same.
    """
    if manifest.edition == CURRENT:
        return content
    _, locations, source = parse(content, manifest.file)
    edits = Edits(source.text, locations)
    new = b""
    try:
        for step in _STEPS[manifest.edition]:
            step(edits, manifest)
        new = edits.apply().encode()
        again, findings = read(new, manifest.file)
        problem = findings.diagnostics()[0].message if findings.has_errors else _difference(manifest, again)
    except LayoutError as layout:
        problem = str(layout)
    except DriverError as failure:
        problem = failure.diagnostics[0].message
    if problem:
        message = f"{manifest.file} cannot be rewritten as it is laid out: {problem}"
        advice = "write each table below a header of its own, such as [general], one key a line; then try again"
        raise error(Code.UNSUPPORTED, message, help=advice)
    return new.replace(b"\n", b"\r\n") if b"\r\n" in content else new


def _difference(old: Manifest, new: Manifest) -> str:
    """The first part in which two manifests differ, as a sentence, or nothing; places and editions do not count."""
    before, after = _bare(old), _bare(new)
    return next((f"`{key}` would mean something else" for key, value in before.items() if after[key] != value), "")


def _bare(manifest: Manifest) -> dict[str, Any]:
    """What a manifest says, without places and as the current edition can say it."""

    def bare(value: object) -> object:
        if isinstance(value, Located):
            return bare(value.value)
        if dataclasses.is_dataclass(value):
            return {one.name: bare(getattr(value, one.name)) for one in dataclasses.fields(value) if one.name != "span"}
        if isinstance(value, tuple):
            return [bare(one) for one in value]
        if isinstance(value, dict):
            return {key: found for key, one in value.items() if (found := bare(one)) != {"python": [], "kernels": []}}
        return value

    whole: dict[str, Any] = {one.name: bare(getattr(manifest, one.name)) for one in dataclasses.fields(manifest)}
    if whole["backends"] == [UNIVERSAL]:
        whole["backends"] = list(BACKENDS)
    if manifest.framework.noarch:
        # A project of Python files has no binding: what it says of one has no effect.
        whole["framework"] = {key: whole["framework"][key] for key in ("table", "pyext", "capabilities", "rocm_archs")}
    built = {key: value for key, value in whole["framework"].get("stable_abi", {}).items() if key in whole["backends"]}
    whole["framework"] |= {"stable_abi": built}
    return {key: value for key, value in whole.items() if key not in {"file", "edition", "python_root"}}


def _general(edits: Edits, manifest: Manifest) -> None:
    """Add what every file has in [general] and this one lacks, each behind the one that stands before it."""
    universal = [one.value for one in manifest.backends] == [UNIVERSAL]
    backends = BACKENDS if universal else tuple(one.value for one in manifest.backends)
    values = {"version": manifest.version, "edition": CURRENT, "license": manifest.license, "backends": list(backends)}
    anchor = "name" if edits.has("general", "name") else "version"
    for key in _FIRST:
        if edits.has("general", key):
            anchor = key
        elif key in values:
            edits.insert_after(f"{key} = {json.dumps(values[key])}", "general", anchor)


def _name(edits: Edits, manifest: Manifest) -> None:
    """Edition 0 has the name in [torch], a string for a version, and a place for the Python package."""
    line = f"name = {json.dumps(manifest.name.value)}{edits.comment('torch', 'name')}"
    edits.insert_first(line, "general")
    edits.delete("torch", "name", keep_comment=False)
    edits.delete("torch", "pyroot")
    if edits.has("general", "version"):
        edits.replace(str(manifest.version), "general", "version")
    else:
        edits.insert_first(f"version = {manifest.version}", "general")


def _capabilities(edits: Edits, manifest: Manifest) -> None:
    """Edition 0 has no word for the backend in the key of the capabilities."""
    for kernel in manifest.kernels:
        edits.rename("cuda-capabilities", "kernel", kernel.name.value, "capabilities")


def _sections(edits: Edits, manifest: Manifest) -> None:
    """Editions 0 and 1 have no `backend`; a section of 1 for both CUDA and ROCm becomes two."""
    names = [kernel.name.value for kernel in manifest.kernels]
    for kernel in manifest.kernels:
        name = kernel.name.value
        if not edits.has("kernel", name):
            continue
        edits.insert_first(f'backend = "{kernel.backend.value}"', "kernel", name)
        if edits.has("kernel", name, "language"):
            edits.delete("kernel", name, "language")
        twin = f"{name}_rocm"
        if twin in names and not edits.has("kernel", twin):
            keys = [key for key in ("rocm-archs", "depends", "src", "include") if edits.has("kernel", name, key)]
            lines = [f"{key} = {edits.raw('kernel', name, key)}" for key in keys]
            edits.append("\n".join(["", f"[kernel.{twin}]", 'backend = "rocm"', *lines, ""]), "kernel", name)
        if edits.has("kernel", name, "rocm-archs"):
            edits.delete("kernel", name, "rocm-archs")
        if kernel.backend.value != "cuda" and edits.has("kernel", name, "cuda-capabilities"):
            edits.delete("kernel", name, "cuda-capabilities")


def _universal(edits: Edits, manifest: Manifest) -> None:
    """Editions 1 and 2 say with a key what the name of the framework table says now."""
    for table in ("torch", "general"):
        if edits.has(table, "universal"):
            edits.delete(table, "universal")
    if manifest.framework.noarch:
        edits.rename(NOARCH, TORCH)
        for key in ("src", "include", "minver", "maxver"):
            if edits.has(TORCH, key):
                edits.delete(TORCH, key)


def _cuda(edits: Edits, manifest: Manifest) -> None:
    """Edition 2 has in [general] what is in [general.cuda] now."""
    lines = []
    for bound in ("minver", "maxver"):
        if edits.has("general", f"cuda-{bound}"):
            value, comment = edits.raw("general", f"cuda-{bound}"), edits.comment("general", f"cuda-{bound}")
            lines.append(f"{bound} = {value}{comment}")
            edits.delete("general", f"cuda-{bound}", keep_comment=False)
    theirs = [
        one for one in manifest.depends.get("cuda", manifest.depends[""]).python if one in PYTHON_PACKAGES["cuda"]
    ]
    if theirs:
        lines.append(f"python-depends = {json.dumps(theirs)}")
        rest = list(manifest.depends[""].python)
        if rest:
            edits.replace(json.dumps(rest), "general", "python-depends")
        else:
            edits.delete("general", "python-depends")
    if lines:
        edits.append("\n".join(["", "[general.cuda]", *lines, ""]), "general")


def _noarch(edits: Edits, manifest: Manifest) -> None:
    """Edition 3 takes a file without a framework table for a project of Python files."""
    if manifest.framework.noarch:
        edits.append(f"\n[{NOARCH}]\n")


_STEPS = (
    (_name, _general, _capabilities, _sections),
    (_general, _sections, _universal),
    (_general, _universal, _cuda),
    (_general, _noarch),
    (_general,),
)
"""What is to do for each edition before the current one."""
