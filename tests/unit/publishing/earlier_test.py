"""Which variants of an earlier release a new one is compared with."""

from __future__ import annotations

from pathlib import Path

import pytest

from py_driver.matrix.releases import Releases
from py_driver.plan.plan import plan_directory
from py_driver.publishing.earlier import stands_for

_STABLE = Path(__file__).parents[2] / "e2e" / "projects" / "stable"


@pytest.mark.parametrize(
    ("old", "stands"),
    [
        ("torch213-cxx11-cpu-x86_64-linux", True),
        ("torch28-cxx11-cpu-x86_64-linux", False),
        ("torch213-cxx11-cu118-x86_64-linux", False),
        ("torch-cpu", False),
        ("tvm-ffi01-cpu-x86_64-linux", False),
        ("something", False),
    ],
)
def test_a_variant_for_the_stable_abi_stands_for_later_releases(old: str, *, stands: bool) -> None:
    here = plan_directory(_STABLE, Releases()).variants
    [own] = [
        variant for variant in here if variant.configuration.backend == "cpu" and variant.configuration.cpu == "x86_64"
    ]
    assert own.configuration.stable
    assert own.configuration.torch == "2.9"
    found = stands_for(here, old)
    assert (found == own) is stands
    assert stands or found is None
    assert stands_for(here, own.name) == own
