"""The versions of torch and of what it was compiled with."""

from __future__ import annotations

from torch._facts import FACTS

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]

__version__: str = FACTS["release"] + (f"+{FACTS['local']}" if FACTS["local"] else "")
debug = False
cuda: str | None = FACTS["cuda"]
git_version = "Unknown"  # as torch has it where it was compiled without git
hip: str | None = FACTS["hip"]
rocm: str | None = FACTS["hip"]
xpu: str | None = None
