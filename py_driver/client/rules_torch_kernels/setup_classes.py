"""What a setup.py names of `cpp_extension`: its modules, and the command that lets the driver build them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setuptools import Extension
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

from rules_torch_kernels.build_backend import built
from rules_torch_kernels.loading import BuildError

if TYPE_CHECKING:
    from collections.abc import Sequence


def CppExtension(name: str, sources: Sequence[str], *args: Any, **kwargs: Any) -> Extension:  # noqa: ANN401, N802  (torch's)
    """A module of C++ sources.

    Args:
        name: dotted.
        sources: paths.
        args: of setuptools' Extension.
        kwargs: likewise; `extra_compile_args` may be a dict of lists for `cxx` and `nvcc`.
    """
    return Extension(name, list(sources), *args, **{**kwargs, "language": "c++"})


def CUDAExtension(name: str, sources: Sequence[str], *args: Any, **kwargs: Any) -> Extension:  # noqa: ANN401, N802  (torch's)
    """A module of C++ and CUDA sources; see `CppExtension`."""
    kwargs.pop("dlink", None)
    return CppExtension(name, sources, *args, **kwargs)


class BuildExtension(build_ext):  # type: ignore[misc]
    """Builds all modules of a setup.py by the driver, for the torch of this Python and the GPUs of this machine.

    The driver runs the setup.py by itself, see docs/setup-py.md; this command copies what came of it.
    """

    @classmethod
    def with_options(cls, **_options: Any) -> type[BuildExtension]:  # noqa: ANN401  (torch's)
        """The class; the options of torch's, e.g. `use_ninja`, have no meaning."""
        return cls

    def run(self) -> None:
        """Build, and put each module where setuptools expects it.

        Raises:
            CompileError: the driver cannot build the project, or a module is not in what it built.
        """
        try:
            installed = Path(built()["path"])
            files = {extension.name: files_of(installed, extension.name) for extension in self.extensions}
        except (BuildError, FileNotFoundError) as problem:
            raise CompileError(str(problem)) from None
        for name, found in files.items():
            target = Path(self.get_ext_fullpath(name)).parent
            target.mkdir(parents=True, exist_ok=True)
            for file in found:
                self.announce(f"copying {file.name} -> {target}", level=2)
                shutil.copyfile(file, target / file.name)


def files_of(root: Path, name: str) -> list[Path]:
    """The files of a module that was built.

    Args:
        root: the directory to import from.
        name: the module's, dotted.

    Raises:
        FileNotFoundError: there are none.
    """
    parent, _, last = name.rpartition(".")
    directory = root.joinpath(*parent.split(".")) if parent else root
    files = [directory / f"{last}.py", directory / f"lib{last}.so", *sorted(directory.glob(f"{last}.*so"))]
    found = [file for file in files if file.is_file()]
    if not found:
        raise FileNotFoundError(f"the build in {root} has no module `{name}`")
    return found
