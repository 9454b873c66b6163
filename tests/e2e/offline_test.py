"""A mirror that `driver fetch` filled is all that a build needs: no network at all, nothing in the store."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from clone import CPU, CU130, PROJECTS, TWO, copy_project, digests, make_cache

from py_driver.system.cache import cache_root

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Built, Driver

pytestmark = pytest.mark.e2e

_UNPLUGGED = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "-"]


@pytest.fixture(scope="module")
def unplugged() -> list[str]:
    """A command that runs a command where there is no network but the loopback."""
    done = subprocess.run([*_UNPLUGGED, "cat", "/proc/net/dev"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this user may not have a network of their own: {done.stderr.strip()}")
    assert [line.split(":")[0].strip() for line in done.stdout.splitlines()[2:]] == ["lo"]
    return _UNPLUGGED


def test_build_without_network(installed: Driver, tiny: Built, base: Path, unplugged: list[str]) -> None:
    here = base / "offline"
    mirror = here / "mirror"
    told = json.loads(installed.run("fetch", "--json", "--mirror", mirror, TWO).stdout)
    assert (told["variants"], told["mirror"]) == ([CPU, CU130], str(mirror))
    assert sorted(path.name for path in mirror.iterdir()) == sorted(archive["file"] for archive in told["archives"])
    assert sum(path.stat().st_size for path in mirror.iterdir()) == told["bytes"]
    cache = make_cache(here / "cache", {name: cache_root() / name for name in ("bazel", "venvs")})
    environ = {"RULES_TORCH_KERNELS_MIRROR": str(mirror)}
    driver = replace(installed, cache=cache, output=here / "output", environ=environ)
    project = copy_project(PROJECTS / "tiny", here / "tiny")
    result = driver.build(project, TWO, within=unplugged)
    assert result["bytes-fetched"] == 0
    assert digests(project / "build") == digests(tiny.build)
