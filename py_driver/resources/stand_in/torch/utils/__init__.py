"""torch.utils, of which a setup.py needs cpp_extension.

torch imports that module when it is first asked for, so `torch.utils.cpp_extension` works after `import torch`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from torch._facts import FACTS, lacks

if TYPE_CHECKING:
    from types import ModuleType

cmake_prefix_path: str = f"{FACTS['home']}/share/cmake"


def __getattr__(name: str) -> ModuleType:
    if name == "cpp_extension":
        return importlib.import_module("torch.utils.cpp_extension")
    lacks(__name__, name)
