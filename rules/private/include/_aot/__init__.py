"""The kernels of this package whose machine code was made ahead of time; Triton is not imported for them.

`from ._aot import kernels` has the functions of the module `kernels`, to be launched as Triton's are:
`kernels.forward[grid](...)`. What no machine code fits is left to Triton, with a warning. It is an error if aot.toml
says `strict` or RULES_TORCH_KERNELS_TRITON is `strict`; `jit` in that variable leaves everything to Triton.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

from ._kernel import Kernel

_DIRECTORY = Path(__file__).parent
_INDEX = json.loads((_DIRECTORY / "index.json").read_text(encoding="utf-8"))
_PACKAGE = __name__.rpartition(".")[0]


class _Module(ModuleType):
    """A module of the package: its kernels of the index, and all else from itself."""

    def __getattr__(self, name: str) -> object:
        path = f"{self.__name__.removeprefix(f'{__name__}.')}.{name}"
        if path in _INDEX["functions"]:
            found: object = Kernel(path, _INDEX, _DIRECTORY, _PACKAGE)
        elif f"{__name__}.{path}" in sys.modules:
            found = sys.modules[f"{__name__}.{path}"]
        elif name.startswith("__"):
            raise AttributeError(name)
        else:
            found = getattr(importlib.import_module(f"{_PACKAGE}.{path.rpartition('.')[0]}"), name)
        setattr(self, name, found)
        return found


for _function in _INDEX["functions"]:
    _parts = _function.split(".")[:-1]
    for _end in range(1, len(_parts) + 1):
        _name = ".".join([__name__, *_parts[:_end]])
        if _name not in sys.modules:
            sys.modules[_name] = _Module(_name)


def __getattr__(name: str) -> ModuleType:
    """A module that has kernels."""
    if f"{__name__}.{name}" not in sys.modules:
        raise AttributeError(f"no function of {name!r} was compiled ahead of time; the list is in aot.toml")
    found = globals()[name] = sys.modules[f"{__name__}.{name}"]
    return found
