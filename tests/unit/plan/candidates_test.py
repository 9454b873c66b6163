"""Which variants a project may have: those of the matrix, or for the stable ABI one for each version of a backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sections import CPU, CUDA, GENERAL, TORCH, make, names

from py_driver.matrix.configurations import spell
from py_driver.matrix.releases import Releases
from py_driver.matrix.toolkits import numbers
from py_driver.plan.buildfile import render

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.plan.plan import Plan

_ALONE = GENERAL.replace('["cpu", "cuda"]', '["cuda"]')


def _stable(directory: Path, more: str = "") -> Plan:
    """The plan of a CUDA kernel for the stable ABI of torch 2.9."""
    return make(directory, f"{_ALONE}{TORCH}stable-abi = '2.9'\n{more}{CUDA}")


def test_one_variant_for_each_backend_against_the_newest_torch_that_has_it(tmp_path: Path) -> None:
    made = _stable(tmp_path)
    releases: dict[str, list[str]] = {}
    for configuration, _ in Releases().matrix.configurations():
        if configuration.torch and numbers(configuration.torch) >= (2, 9) and configuration.family == "cuda":
            releases.setdefault(f"torch-stable-abi29-{configuration.backend}-{configuration.cpu}-linux", []).append(
                configuration.torch
            )
    assert {v.name: v.needs.torch for v in made.variants} == {
        name: max(versions, key=numbers) for name, versions in releases.items()
    }


def test_default_is_what_some_default_torch_has(tmp_path: Path) -> None:
    made = _stable(tmp_path)
    default = {
        configuration.backend
        for configuration, is_default in Releases().matrix.configurations()
        if is_default and configuration.family == "cuda"
    }
    assert {v.configuration.backend for v in made.variants if v.default} == default
    assert [v.default for v in made.variants] == sorted((v.default for v in made.variants), reverse=True)


def test_bounds_choose_the_torch_to_compile_against(tmp_path: Path) -> None:
    made = _stable(tmp_path, "minver = '2.9'\nmaxver = '2.13'\n")
    needs = {variant.configuration.backend: variant.needs.torch for variant in made.variants}
    assert (needs["cu130"], needs["cu132"]) == ("2.13", "2.13")
    old = _stable(tmp_path, "maxver = '2.11'\n")
    assert not any(variant.default for variant in old.variants)
    assert "torch-stable-abi29-cu130-x86_64-linux" in names(old)


def test_variants_without_a_torch_are_left_with_their_reason(tmp_path: Path) -> None:
    made = _stable(tmp_path, "maxver = '2.11'\n")
    reasons = {spell(exclusion.configuration): exclusion.reason for exclusion in made.excluded}
    assert reasons["torch-stable-abi29-cu132-x86_64-linux"] == "torch must be at most 2.11"
    without = "no torch release from 2.9 on is built with cu118"
    assert reasons["torch-stable-abi29-cu118-x86_64-linux"] == without


def test_backends_that_the_table_does_not_name_have_a_variant_for_each_torch(tmp_path: Path) -> None:
    found = names(make(tmp_path, f"{GENERAL}{TORCH}stable-abi = {{ cpu = '2.10' }}\n{CUDA}{CPU}"))
    stable = [f"torch-stable-abi210-cpu-{cpu}-linux" for cpu in ("x86_64", "aarch64")]
    assert [name for name in found if "-cpu-" in name] == stable
    assert "torch213-cxx11-cu130-x86_64-linux" in found


def test_build_file_says_what_a_stable_variant_is_compiled_against(tmp_path: Path) -> None:
    made = _stable(tmp_path, "maxver = '2.13'\n")
    text = render(made, "")
    block = text.partition('name = "torch-stable-abi29-cu130-x86_64-linux"')[2].partition(")\n")[0]
    for line in ('torch = "2.13"', 'cxx_abi = "cxx11"', 'stable_abi = "2.9"'):
        assert f"    {line},\n" in block
    assert "stable_abi" not in render(make(tmp_path, _ALONE + TORCH + CUDA), "")


def test_id_follows_the_stable_abi(tmp_path: Path) -> None:
    config = _stable(tmp_path).identities[0].config
    assert make(tmp_path, _ALONE + TORCH + CUDA).identities[0].config != config
    assert _stable(tmp_path, "maxver = '2.13'\n").identities[0].config == config


@pytest.mark.parametrize(("version", "expected"), [("2.9", (2, 9)), ("2.10", (2, 10)), ("13.0", (13, 0))])
def test_versions_compare_as_numbers(version: str, expected: tuple[int, ...]) -> None:
    assert numbers(version) == expected
