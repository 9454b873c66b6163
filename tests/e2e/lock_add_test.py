"""`driver lock --add` reads from the package index what the matrix says of releases that were added by hand."""

from __future__ import annotations

from typing import Any

import pytest

from py_driver.fetch.offered import Offers
from py_driver.matrix.new_cuda import new_cuda
from py_driver.matrix.new_torch import new_torch
from py_driver.matrix.releases import Releases

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

TABLE = Releases().table


def without(kind: str, version: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The matrix without a release, and the release."""
    [release] = [release for release in TABLE[kind] if release["version"] == version]
    return {**TABLE, kind: [other for other in TABLE[kind] if other is not release]}, release


def test_a_cuda_release_is_read_as_it_stands_in_the_matrix() -> None:
    table, release = without("cuda", "13.5")
    addition = new_cuda("13.5", table, Offers(), print)
    of_cudnn = [library["wheel"] for library in addition.table["libraries"]][-1]
    assert f"cuDNN: no torch on the index says it; {of_cudnn} is that of 13.2" in addition.open
    assert addition.table["libraries"][:-1] == release["libraries"][:-1]
    assert {**addition.table, "libraries": release["libraries"]} == release


@pytest.mark.parametrize(("version", "cuda"), [("2.9", "cu128"), ("2.11", "cu130"), ("2.15", "cu132")])
def test_a_torch_release_is_read_as_it_stands_in_the_matrix(version: str, cuda: str) -> None:
    table, release = without("torch", version)
    addition = new_torch(version, table, Offers(), print)
    assert addition.table["backends"] == ["cpu", cuda]
    for key in ("version", "release", "cxx-standard", "abis", "pythons"):
        assert addition.table[key] == release[key]
