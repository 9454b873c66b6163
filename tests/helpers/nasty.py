"""Strings with a special meaning in Starlark, a shell, a template or a terminal, and projects with such strings."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STRINGS = (
    '")\nload("@evil//:x.bzl", "x")',
    '"], srcs = ["/etc/passwd"',
    'a"b',
    "a'b",
    '"""',
    "a\\",
    "\\n",
    "\n",
    "\r\n",
    "\t",
    "$(id)",
    "$$",
    "$(location :x)",
    "`id`",
    "%s",
    "%{x}",
    "{{7*7}}",
    "{name}",
    "#",
    "//evil:x",
    "@evil//:x",
    "\u202e",
    "\u200b",
    "\0",
    "\x1b[31m",
    "\x7f",
    "r\u0435lu",
    "e\u0301",
    "\u00e9",
    "\ufeff",
    "\U0001f600",
    "\ufffe",
    "\\u0041",
    "\\x41",
    "'; DROP TABLE",
    "<script>",
    "&amp;",
)


def quoted(text: str) -> str:
    """A string as TOML."""
    return '"' + "".join(c if c.isalnum() and c.isascii() else f"\\U{ord(c):08x}" for c in text) + '"'


PLACES = {
    "license": "mit",
    "upstream": "https://example.org/a",
    "source": "https://example.org/b",
    "depend": "owner/name",
    "revision": "main",
    "cxx": "-DX=1",
    "cuda": "-DX=1",
    "binding": "-DX=1",
    "file": "kernel.cpp",
    "include": "headers",
    "section": "g",
    "pyext": "json",
    "branch": "main",
}
"""Every key of a manifest with a free-form string, and a harmless value for it."""


def manifest(strings: Mapping[str, str]) -> str:
    """A manifest with the given strings in the given places."""
    at = {place: quoted(text) for place, text in (PLACES | dict(strings)).items()}
    return f"""\
[general]
name = "relu"
version = 1
edition = 5
license = {at["license"]}
backends = ["cpu", "cuda"]
upstream = {at["upstream"]}
source = {at["source"]}
kernel-depends = [{{ repo-id = {at["depend"]}, revision = {at["revision"]} }}]
[general.hub]
branch = {at["branch"]}
[torch]
src = ["binding.cpp"]
cxx-flags = [{at["binding"]}]
pyext = ["py", {at["pyext"]}]
[kernel.c]
backend = "cpu"
depends = []
src = [{at["file"]}]
cxx-flags = [{at["cxx"]}]
[kernel.{at["section"]}]
backend = "cuda"
depends = []
src = ["kernel.cu", "headers/k.h"]
include = [{at["include"]}]
cuda-flags = [{at["cuda"]}]
"""


def write(directory: Path, strings: Mapping[str, str], modules: tuple[str, ...] = ()) -> None:
    """Write a project with a manifest of strings, those of its files that a disk can hold, and Python modules."""
    places = PLACES | dict(strings)
    package = "torch-ext/relu"
    for name in ("binding.cpp", "kernel.cu", "kernel.cpp", "headers/k.h", f"{package}/__init__.py", places["file"],
                 f"{places['include']}/k.h", *(f"{package}/{name}" for name in modules)):  # fmt: skip
        path = directory / name
        if "\0" not in name and path.resolve().is_relative_to(directory.resolve()) and not path.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    (directory / "binding.cpp").write_text("REGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n", encoding="utf-8")
    (directory / "build.toml").write_text(manifest(strings), encoding="utf-8")
