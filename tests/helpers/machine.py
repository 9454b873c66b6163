"""A machine that appears to Python to have another CPU."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pretend_cpu(cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this machine's kernel report another CPU."""
    here = os.uname()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((*here[:4], cpu)))
