"""A package index on the loopback, and a fetcher that nothing of this user's reaches and that does not wait long."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from fetch_server import Server

from py_driver.fetch import transfer
from py_driver.fetch.fetcher import Fetcher
from py_driver.fetch.pip_settings import PipSettings
from py_driver.fetch.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """One that offers the archive of the test's module."""
    server = Server()
    server.offer("demo", {request.module.NAME: request.module.BODY})
    yield server
    server.close()


@pytest.fixture
def fetcher(server: Server, tmp_path: Path) -> Fetcher:
    return Fetcher(Store(tmp_path / "cache"), None, PipSettings(indexes=(f"{server.url}/simple",)))


@pytest.fixture(autouse=True)
def _quick_and_clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(transfer, "RETRY_DELAYS", (0.01, 0.02, 0.03))
    for name in [n for n in os.environ if n.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name in ("CACHE", "MIRROR"):
        monkeypatch.delenv(f"RULES_TORCH_KERNELS_{name}", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("NETRC", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
