"""The include search of a section's files."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from py_driver.manifest.model import TORCH, TVM_FFI
from py_driver.manifest.openmp import asks_for_openmp
from py_driver.matrix.backends import BUILT, owner_of
from py_driver.plan.includes import CUTLASS_FOLDERS, TORCH_FOLDERS
from py_driver.plan.toolchain_headers import may_be_of_a_toolchain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from py_driver.manifest.model import Texts
    from py_driver.plan.includes import Include
    from py_driver.plan.project_files import ProjectFiles

_TVM_FFI_FOLDERS = ("tvm/", "dlpack/")
_OPENMP_HEADER = "omp.h"

OPENMP = "openmp"
"""The dependency of a section that includes OpenMP's header without OpenMP; upstream's gcc finds the header."""


_TELLS = re.compile(rf"-[DU] ?({'|'.join(family.macro for family in BUILT.values())})(=| |$)")
ALWAYS = "csrc"
"""Searched for every source of an extension, after the directories of its section: `define_gpu_extension_target` of
upstream's generated CMake (kernel-builder, templates/utils.cmake)."""


class Section:
    """The settings that decide which headers the files of a section find.

    Attributes:
        told: whether its flags define, or undefine, a macro of a backend, on which `Include.backends` relies.
        libraries: the folders of the headers of its `depends`.
        foreign: whether its `depends` names a library of a user's matrix, whose headers are unknown.
    """

    def __init__(  # noqa: PLR0913  (the section's settings, and others')
        self,
        title: str,
        files: tuple[Texts, Texts],
        depends: tuple[str, ...],
        bound: str,
        cutlass: list[str],
        flags: Iterable[str],
    ) -> None:
        self.src, include = files
        self.title = title
        self.tvm_ffi = bound == TVM_FFI
        self.torch = TORCH in depends and not self.tvm_ffi
        self.told = _TELLS.search(" ".join(flags)) is not None
        self.include = [text.value for text in include]
        self.cutlass = next((depend for depend in depends if depend.startswith("cutlass")), "")
        self.others = "" if self.cutlass else next(iter(cutlass), "")
        self.foreign = any(depend != TORCH and not depend.startswith("cutlass") for depend in depends)
        self._flags = flags
        self._libraries = {
            **(dict.fromkeys(TORCH_FOLDERS, TORCH) if self.torch else {}),
            **(dict.fromkeys(CUTLASS_FOLDERS, self.cutlass) if self.cutlass else {}),
            **(dict.fromkeys(_TVM_FFI_FOLDERS, TVM_FFI) if self.tvm_ffi else {}),
        }
        self.libraries = tuple(self._libraries)

    def library(self, path: str, target: str, include: Include) -> str:
        """The name in messages of the library in which the compiler may find an unlisted file; empty if none is known.

        Args:
            path: the path of the including file.
            target: the file of the project with the name.
            include: the include.
        """
        known = next((name for folder, name in self._libraries.items() if include.path.startswith(folder)), "")
        beside = include.quoted and posixpath.normpath(posixpath.join(posixpath.dirname(path), include.path)) == target
        return known or ("a toolchain" if may_be_of_a_toolchain(include.path) and not beside else "")

    def needs_openmp(self, include: Include, sources: Iterable[str]) -> bool:
        """Whether an include is OpenMP's header, and a source would not find it."""
        if include.path != _OPENMP_HEADER or include.with_openmp:
            return False
        return not asks_for_openmp(self._flags) or any(owner_of(source) for source in sources)

    def undeclared(self, include: Include) -> str:
        """The value of `depends` that the section lacks for an include, or an empty text."""
        if include.path.startswith(TORCH_FOLDERS) and not self.torch and not self.tvm_ffi:
            return TORCH
        return self.others if include.path.startswith(CUTLASS_FOLDERS) else ""

    def folders(self, path: str, include: Include) -> tuple[str, ...]:
        """The directories of the project that are searched for an include of a file, in order."""
        return (*([posixpath.dirname(path)] if include.quoted else []), *self.include, ALWAYS)

    def target(self, files: ProjectFiles, path: str, include: Include) -> tuple[str | None, bool]:
        """The file of the project that an include of a file means, or None; and whether `ALWAYS` leads to it."""
        folders = self.folders(path, include)
        paths = [posixpath.normpath(posixpath.join(folder, include.path)) for folder in folders]
        listed = next((number for number, path in enumerate(paths) if files.has(path)), None)
        there = (number for number, path in enumerate(paths) if files.exists(path))  # an unlisted file is not an input
        chosen = next(there, None) if listed is None else listed
        return (None, False) if chosen is None else (paths[chosen], chosen == len(folders) - 1)
