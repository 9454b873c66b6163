"""A project that holds the sources of one call of `cpp_extension.load` or `load_inline`, and what is built of it.

Its directory is named by a digest of all that a build depends on, so a build is found again by the same call in any
process, and another text never meets it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rules_torch_kernels.loading import DRIVER, BuildError, build_shown, replace_text, settings, turn, version_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

COPIED = "sources"
"""The directory of a project with copies of files, each at its absolute path."""

_CACHE, _ROOT = "RULES_TORCH_KERNELS_CACHE", "inline"
_MADE = "made.json"
_PARTS = ("py_driver", "rules", "toolchains")
"""The directories of a checkout of the driver that decide what it builds."""

_SETUP = """# Written by rules_torch_kernels.cpp_extension.
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, {kind}

setup(
    name={name!r},
    version="0",
    packages=[],
    py_modules=[],
    ext_modules=[
        {kind}(
            {name!r},
            {sources!r},
            include_dirs={include_dirs!r},
            extra_compile_args={flags!r},
            extra_link_args={link_flags!r},
        )
    ],
    cmdclass={{"build_ext": BuildExtension}},
)
"""
_INCLUDED = re.compile(r"""(?:\binclude(?:_next)?|\b__has_include(?:_next)?)\s*\(?\s*(["<])([^">\n]+)[">]""")
_NAMED = re.compile(r"""^\s*#\s*define\s.*?["<]([^">\n]+)[">]""", re.MULTILINE)
"""A macro whose value may be the name of a file, for `#include MACRO`."""
_PLAIN = "A-Za-z0-9_.+,@~^!/-"
"""The characters of paths in a project, without `=`, which stands in front of the number of any other byte."""
_ODD = re.compile(rf"[^{_PLAIN}]".encode())
_ESCAPED = re.compile(rb"=([0-9a-f]{2})")


@dataclass(frozen=True, kw_only=True)
class Inline:
    """What is to be built.

    Attributes:
        name: of the module.
        texts: the files of the project, by their paths in it.
        sources: those of them that are compiled.
        include_dirs: directories of the project for `#include`.
        flags: options of the compilers, by `cxx` and `nvcc`.
        link_flags: options of the linker.
        backend: `cpu`, `cuda` or `rocm`.
        gpus: what it is built for beside TORCH_CUDA_ARCH_LIST: the compute capabilities of this machine's GPUs.
    """

    name: str
    texts: Mapping[str, bytes]
    sources: Sequence[str]
    include_dirs: Sequence[str] = ()
    flags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    link_flags: Sequence[str] = ()
    backend: str = "cpu"
    gpus: Sequence[str] = ()

    def key(self) -> str:
        """A digest of all that a build of this depends on: these, torch, Python, architectures, the driver."""
        about = [
            {path: hashlib.sha256(text).hexdigest() for path, text in self.texts.items()},
            [self.name, self.sources, self.include_dirs, self.link_flags, self.backend, self.gpus],
            self.flags,
            [sys.implementation.cache_tag, sys.prefix, version_of("torch")],
            settings(),
            _checkout(),
        ]
        return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()

    def build(self, parent: Path | None, *, verbose: bool) -> Path:
        """Build this, unless it is built; the directory to import it from.

        Args:
            parent: where the project is put; in the user's cache if None.
            verbose: show what the driver says; else it is shown in a terminal and in a notebook.

        Raises:
            BuildError: it cannot be built. The next call tries again.
        """
        directory = (parent or _cache()) / f"{self.name}-{self.key()[:24]}"
        if path := _made(directory):
            return path
        with turn(directory):
            if path := _made(directory):  # by another process, meanwhile
                return path
            self._write(directory)
            try:
                variant = build_shown(directory, self.backend, show=verbose or None)
            except BuildError as problem:
                raise BuildError(told(str(problem), directory)) from None
            replace_text(directory / _MADE, json.dumps({"path": variant["path"]}))
            return Path(variant["path"])

    def _write(self, directory: Path) -> None:
        """Write the project's files that do not say that already."""
        kind = "CppExtension" if self.backend == "cpu" else "CUDAExtension"
        script = _SETUP.format(
            kind=kind,
            name=self.name,
            sources=list(self.sources),
            include_dirs=list(self.include_dirs),
            flags={key: list(flags) for key, flags in self.flags.items()},
            link_flags=list(self.link_flags),
        )
        for path, text in {**self.texts, "setup.py": script.encode()}.items():
            file = directory / path
            if not file.is_file() or file.read_bytes() != text:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(text)


def told(message: str, directory: Path) -> str:
    """A message with the user's files in the directory of their copies.

    Args:
        message: of the driver.
        directory: the project's directory.
    """
    pattern = rf"(?:(?<![\w/.-])|{re.escape(str(directory))}/){COPIED}(/[={_PLAIN}]+)"
    return re.sub(pattern, lambda found: _original(found[1]), message)


def copies(sources: Mapping[Path, bytes], include_dirs: Iterable[Path]) -> dict[str, bytes]:
    """Sources with all that they include of files beside them and of directories, for the texts of a project.

    What the preprocessor would leave out is in it too. A name that no directory has is the toolchain's.

    Args:
        sources: their texts by their absolute paths.
        include_dirs: absolute.

    Returns:
        The texts, by where the copies are in the project.

    Raises:
        OSError: a file cannot be read.
        ValueError: two files have one path in the project, since links lead to them.
    """
    directories = [(Path(os.path.normpath(path)), path) for path in include_dirs]
    found = {Path(os.path.normpath(path)): text for path, text in sources.items()}
    waiting = [(Path(os.path.normpath(path)), path) for path in sources]
    origins = {path: os.path.realpath(file) for path, file in waiting}
    while waiting:
        path, file = waiting.pop()
        text = found[path].decode("utf-8", "replace").replace("\\\n", "")
        names = {name for _, name in _INCLUDED.findall(text)} | set(_NAMED.findall(text))
        # `link/../x.h` is beside what the link leads to. The project has no links, so there it is beside the link.
        for parent, directory in ((path.parent, file.parent), *directories):
            for name in names:
                target, actual = Path(os.path.normpath(parent / name)), directory / name
                if not actual.is_file() or origins.get(target) == (origin := os.path.realpath(actual)):
                    continue
                content = actual.read_bytes()
                if found.setdefault(target, content) != content:
                    raise ValueError(f"`{name}`, which {file} includes, is behind a link: {origin}, not {target}")
                if target not in origins:
                    origins[target] = origin
                    waiting.append((target, actual))
    return {copied(path): text for path, text in sorted(found.items())}


def copied(path: Path) -> str:
    """Where the copy of a file or directory is in the project, which has few characters in its paths."""
    plain = os.fsencode(os.path.normpath(path))
    return COPIED + _ODD.sub(lambda found: b"=%02x" % found[0][0], plain).decode()


def _original(path: str) -> str:
    """The path of the file or directory of a copy."""
    return os.fsdecode(_ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), path.encode()))


def _checkout() -> list[tuple[str, int, int]]:
    """The state of the driver's files, if DRIVER is that of a checkout, whose version says nothing; else empty.

    Not of the directories: they change when Python puts its `__pycache__` there, in the first build of a new checkout.
    """
    root = Path(os.environ.get(DRIVER, "")).absolute().parent
    if not (root / "py_driver" / "__main__.py").is_file():
        return []
    paths = sorted(path for part in _PARTS for path in (root / part).rglob("*") if "__pycache__" not in path.parts)
    states = ((str(path), path.lstat()) for path in paths)
    return [(path, state.st_size, state.st_mtime_ns) for path, state in states if not stat.S_ISDIR(state.st_mode)]


def _cache() -> Path:
    """The directory of such projects in the user's cache; see `driver`'s own."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base if base.startswith("/") else Path.home() / ".cache", "rules_torch_kernels")
    return Path(os.environ.get(_CACHE) or root).absolute() / _ROOT


def _made(directory: Path) -> Path | None:
    """The directory to import from, if a build was completed."""
    try:
        path = Path(json.loads((directory / _MADE).read_text(encoding="utf-8"))["path"])
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return path if path.is_dir() else None
