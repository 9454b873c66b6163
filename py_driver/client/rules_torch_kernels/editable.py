"""What a package that was installed with `pip install -e .` does when it is imported: it becomes the newest build."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rules_torch_kernels.loading import load

if TYPE_CHECKING:
    from types import ModuleType


def follow(name: str, directory: str) -> None:
    """Put what a project's sources say in the place of a module that is being imported.

    Args:
        name: of the module.
        directory: of the project.

    Raises:
        ImportError: the project is not there any more.
        BuildError: the sources cannot be built.
    """
    if not Path(directory, "build.toml").is_file():
        message = f"{name} was installed from {directory}, which has no build.toml any more; run `pip install -e` again"
        raise ImportError(message, name=name)
    put_in_place(name, load(directory))


def put_in_place(name: str, package: ModuleType) -> None:
    """Give a module a further name.

    Args:
        name: which.
        package: the module.
    """
    # Under both names there is one module, with what it has imported of itself.
    for own in [module for module in sys.modules if module.startswith(f"{package.__name__}.")]:
        sys.modules[name + own.removeprefix(package.__name__)] = sys.modules[own]
    sys.modules[name] = package
