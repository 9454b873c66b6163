"""Where the Python package is that a user's Python imports: `rules_torch_kernels`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

CLIENT: Final = Path(__file__).resolve().parents[1] / "client"
"""The directory that has it."""
