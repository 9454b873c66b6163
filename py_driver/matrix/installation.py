"""The location of the driver's own files: the Bazel module of rules and toolchains that it belongs to."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from py_driver.errors import Code, error
from py_driver.system.files import sha256

MODULE_NAME = "rules_torch_kernels"
"""The name of the Bazel module, as MODULE.bazel has it."""


def module_root() -> Path:
    """The root of the Bazel module: the repository, or its copy inside an installed wheel.

    Raises:
        DriverError: SET_UP if neither exists, so the installation is broken.
    """
    package = Path(__file__).resolve().parents[1]
    for root in (package / "module", package.parent):
        if (root / "toolchains" / "matrix.toml").is_file():
            return root
    raise error(
        Code.SET_UP,
        f"toolchains/matrix.toml is missing beside {package}",
        help="reinstall rules-torch-kernels, or run from a checkout of its repository",
    )


@cache
def rules_digest() -> str:
    """SHA-256, in hex, of the rules that register actions; computed once for all projects of a run."""
    rules = module_root() / "rules"
    paths = sorted([*(rules / "facts").rglob("*"), *(rules / "private").rglob("*")])
    return sha256(b"".join(path.read_bytes() for path in paths if path.is_file()))


def label_prefix(project: Path) -> str:
    """The prefix of the rules' labels in a project: empty inside the module itself.

    Args:
        project: the directory of the project.
    """
    directories = (directory := project.resolve(), *directory.parents)
    nearest = next((path for path in directories if (path / "MODULE.bazel").is_file()), None)
    return "" if nearest == module_root() else f"@{MODULE_NAME}"
