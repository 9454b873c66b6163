"""The torch that is installed on this machine, and Python environments that can load a built variant."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import tomli

from py_driver.matrix.backends import TOOLKITS, backend_of
from py_driver.matrix.toolkits import numbers
from py_driver.resources import resource
from py_driver.system.machine import machine_cpu
from py_driver.system.venv import ensure_venv

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from py_driver.matrix.configurations import Configuration
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output

_PROBE = """
import importlib.util, json, pathlib, sys
found = importlib.util.find_spec("torch")
facts = {}
exec(pathlib.Path(found.origin).with_name("version.py").read_text(), facts)
print("\\ntorch is", json.dumps([facts["__version__"], *(facts.get(name) for name in sys.argv[1:])]))
"""
"""Reads torch/version.py, which has the values of torch.version; importing torch takes seconds."""

_MARK: Final = "torch is "
_PATIENCE: Final = 60
"""The longest time, in seconds, for an interpreter to report its torch."""

_IMPORTS: Final = ("torch", "torch._dynamo", "kernels", "pytest")
"""The modules of a new environment that tests import: 12.6 s without bytecode, 4.5 s with it (2 cores)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Torch:
    """A torch that can be imported.

    Attributes:
        python: the interpreter that imports it.
        version: `2.13`, without patch release and local part.
        backend: `cpu`, or `cu130` for a build with CUDA 13.0, `rocm72` for one with ROCm 7.2.
    """

    python: str
    version: str
    backend: str


def importable_torch(named: str = "") -> Torch | None:
    """The torch of the first python3 on PATH or of the driver's own Python; None if neither has one.

    Args:
        named: the only interpreter to ask, instead of these.
    """
    for python in dict.fromkeys(filter(None, (named,) if named else (shutil.which("python3"), sys.executable))):
        versions = _probed(python)
        if versions is None:
            continue
        version, *toolkits = map(_minor, versions)
        built = (backend.name_of(toolkit) for backend, toolkit in zip(TOOLKITS, toolkits, strict=True) if toolkit)
        return Torch(python=python, version=version, backend=next(built, "cpu"))
    return None


def _probed(python: str) -> list[str | None] | None:
    """The version of an interpreter's torch, and its version of each toolkit, if any; None without torch."""
    command = [python, "-c", _PROBE, *(backend.torch_attribute for backend in TOOLKITS)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, cwd="/", timeout=_PATIENCE
        )
        # Startup code of the interpreter may print, too.
        told = next(line for line in reversed(done.stdout.splitlines()) if line.startswith(_MARK))
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError, StopIteration):
        return None
    found: list[str | None] = json.loads(told.removeprefix(_MARK))
    return found


def _minor(version: str | None) -> str:
    """A version without its patch release and local part."""
    return ".".join((version or "").split(".")[:2])


def fits(torch: Torch, configuration: Configuration) -> bool:
    """Whether a torch on this machine can load a variant, by the client's rules.

    The release must be the same, or not older for the stable ABI; for the backend see `runs_with`.
    """
    if (
        configuration.cpu != machine_cpu()
        or configuration.torch is None
        or (torch.version != configuration.torch and not configuration.stable)
    ):
        return False
    if numbers(torch.version) < numbers(configuration.torch):
        return False
    ours, theirs = backend_of(configuration.backend), backend_of(torch.backend)
    return ours is not None and ours is theirs and ours.runs_with(configuration.backend, torch.backend)


def python_for(
    configurations: Sequence[Configuration],
    releases: Releases,
    output: Output,
    started: Callable[[subprocess.Popen[str]], None] | None = None,
    more: Sequence[str] = (),
) -> str:
    """An interpreter with the `kernels` client and a torch that can load a configuration.

    Args:
        configurations: the built configurations; a torch that has to be installed is of the first release among them,
            or of the default release.
        releases: the releases with the lock, which has the exact version of each torch release.
        output: where progress is shown.
        started: see `ensure_venv`.
        more: further requirements.

    Returns:
        The interpreter of an environment on top of an installed torch that fits, or with its own torch.

    Raises:
        DriverError: the environment cannot be created; see `ensure_venv`.
    """
    installed = importable_torch()
    if installed and any(fits(installed, configuration) for configuration in configurations):
        return python_on(installed, configurations, releases, output, started, more)
    version = next(
        (configuration.torch for configuration in configurations if configuration.torch and not configuration.stable),
        _facts()["torch"],
    )
    return python_with(version, configurations, releases, output, started, more)


def python_on(  # noqa: PLR0913  (as `python_for`)
    torch: Torch,
    configurations: Sequence[Configuration],
    releases: Releases,
    output: Output,
    started: Callable[[subprocess.Popen[str]], None] | None = None,
    more: Sequence[str] = (),
) -> str:
    """An interpreter with the `kernels` client on top of an installed torch; see `python_for`."""
    requirements = [*_requirements(configurations, releases), *more]
    return str(ensure_venv("load", requirements, output, python=torch.python, inherit=True, started=started))


def python_with(  # noqa: PLR0913  (as `python_for`)
    version: str,
    configurations: Sequence[Configuration],
    releases: Releases,
    output: Output,
    started: Callable[[subprocess.Popen[str]], None] | None = None,
    more: Sequence[str] = (),
) -> str:
    """An interpreter with the `kernels` client and its own torch.

    Args:
        version: the release of torch, e.g. `2.13`.
        configurations: see `python_for`.
        releases: see `python_for`.
        output: see `python_for`.
        started: see `python_for`.
        more: see `python_for`.

    Raises:
        DriverError: see `python_for`.
    """
    torch = f"torch=={releases.lock.torch_release(version)}"
    requirements = [torch, *_requirements(configurations, releases), *more]
    return str(ensure_venv("load", requirements, output, imports=_IMPORTS, started=started))


def _facts() -> dict[str, Any]:
    return tomli.loads(resource("load.toml"))


def _requirements(configurations: Sequence[Configuration], releases: Releases) -> list[str]:
    """The requirements for loading variants, besides torch."""
    facts = _facts()
    bound = sorted(
        {
            releases.lock.tvm_ffi_requirement(configuration.tvm_ffi)
            for configuration in configurations
            if configuration.tvm_ffi
        }
    )
    return [f"kernels=={facts['kernels']}", *facts["requirements"], *bound]
