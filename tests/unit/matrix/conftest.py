"""What `driver lock` asks: a package index on the loopback, and nothing that this user has set."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from fetch_server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    """One that offers the archive of the test's module, if that has one."""
    for name in [n for n in os.environ if n.startswith(("PIP_", "RULES_TORCH_KERNELS_"))]:
        monkeypatch.delenv(name)
    server = Server()
    if body := getattr(request.module, "BODY", None):
        server.offer("demo", {request.module.NAME: body})
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield server
    server.close()
