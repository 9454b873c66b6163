"""The location of the client, the Python package `rules_torch_kernels` that users import."""

from __future__ import annotations

from pathlib import Path
from typing import Final

CLIENT: Final = Path(__file__).resolve().parents[1] / "client"
"""The directory that contains it."""
