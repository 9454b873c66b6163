"""Where the compiler looks for what the files of a section include."""

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
"""What a section depends on that includes OpenMP's header without OpenMP; upstream's gcc has it in sight."""


_TELLS = re.compile(rf"-[DU] ?({'|'.join(family.macro for family in BUILT.values())})(=| |$)")
ALWAYS = "csrc"
"""Searched for every source of an extension, after the directories of its section: `define_gpu_extension_target` of
upstream's generated CMake (kernel-builder, templates/utils.cmake)."""


class Section:
    """What decides which headers the files of a section find.

    Attributes:
        told: whether its flags define, or undefine, a macro by which `Include.backends` tells backends apart.
        libraries: folders of the headers that its `depends` brings.
        foreign: whether its `depends` names a library of a matrix of the user's own, whose headers nobody knows here.
    """

    def __init__(  # noqa: PLR0913  (what a section says, and what others do)
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
        """What messages call where the compiler may find what no `src` lists; empty if nothing is known to have it.

        Args:
            path: of the file that includes.
            target: the file of the project that has the name.
            include: what is included.
        """
        known = next((name for folder, name in self._libraries.items() if include.path.startswith(folder)), "")
        beside = include.quoted and posixpath.normpath(posixpath.join(posixpath.dirname(path), include.path)) == target
        return known or ("a toolchain" if may_be_of_a_toolchain(include.path) and not beside else "")

    def needs_openmp(self, include: Include, sources: Iterable[str]) -> bool:
        """Whether an include is the header of OpenMP, and a source does not see it without further ado."""
        if include.path != _OPENMP_HEADER or include.with_openmp:
            return False
        return not asks_for_openmp(self._flags) or any(owner_of(source) for source in sources)

    def undeclared(self, include: Include) -> str:
        """The value of `depends` that the section lacks for an include, or nothing."""
        if include.path.startswith(TORCH_FOLDERS) and not self.torch and not self.tvm_ffi:
            return TORCH
        return self.others if include.path.startswith(CUTLASS_FOLDERS) else ""

    def folders(self, path: str, include: Include) -> tuple[str, ...]:
        """The directories of the project that are searched for an include of a file, in their order."""
        return (*([posixpath.dirname(path)] if include.quoted else []), *self.include, ALWAYS)

    def target(self, files: ProjectFiles, path: str, include: Include) -> tuple[str | None, bool]:
        """The file of the project that an include of a file means, or None; and whether `ALWAYS` leads to it."""
        folders = self.folders(path, include)
        paths = [posixpath.normpath(posixpath.join(folder, include.path)) for folder in folders]
        listed = next((number for number, path in enumerate(paths) if files.has(path)), None)
        there = (number for number, path in enumerate(paths) if files.exists(path))  # what no `src` lists is no input
        chosen = next(there, None) if listed is None else listed
        return (None, False) if chosen is None else (paths[chosen], chosen == len(folders) - 1)
