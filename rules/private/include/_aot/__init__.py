"""The kernels of this package whose machine code was made ahead of time; Triton is not imported for them.

`from ._aot import kernels` has the functions of the module `kernels`, to be launched as Triton's are:
`kernels.forward[grid](...)`. What no machine code fits is left to Triton, with a warning. It is an error if aot.toml
says `strict` or RULES_TORCH_KERNELS_TRITON is `strict`; `jit` in that variable leaves everything to Triton.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path

from ._kernel import Kernel

_DIRECTORY = Path(__file__).parent
_INDEX = json.loads((_DIRECTORY / "index.json").read_text(encoding="utf-8"))
_PACKAGE = __name__.rpartition(".")[0]


class _Module:
    """A module of the package: its kernels of the index, and all else from itself."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> object:
        path = f"{self._path}.{name}"
        found: object
        if path in _INDEX["functions"]:
            found = Kernel(path, _INDEX, _DIRECTORY, _PACKAGE)
        elif any(function.startswith(f"{path}.") for function in _INDEX["functions"]):
            found = _Module(path)
        else:
            found = getattr(importlib.import_module(f"{_PACKAGE}.{self._path}"), name)
        setattr(self, name, found)
        return found


def __getattr__(name: str) -> _Module:
    """A module that has kernels."""
    if not any(function.startswith(f"{name}.") for function in _INDEX["functions"]):
        raise AttributeError(f"no function of {name!r} was compiled ahead of time; the list is in aot.toml")
    found = globals()[name] = _Module(name)
    return found
