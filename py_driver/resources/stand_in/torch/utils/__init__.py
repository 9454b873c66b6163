"""torch.utils, of which a setup.py needs cpp_extension.

torch imports that module when it is first asked for, so `torch.utils.cpp_extension` works after `import torch`.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from torch._facts import lacks

cmake_prefix_path: str = str(Path(__file__).parents[1] / "share" / "cmake")


def __getattr__(name: str) -> object:
    return importlib.import_module("torch.utils.cpp_extension") if name == "cpp_extension" else lacks(__name__, name)
