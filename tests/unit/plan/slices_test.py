"""Slices in a plan: one for each capability, of the targets of their variant, and nobody takes one for a variant."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from sections import CPU, CUDA, GENERAL, TORCH, make

from py_driver.bazel.invocation import Choices, CudaCompile
from py_driver.building.selection import check_split
from py_driver.errors import Code, DriverError
from py_driver.matrix.releases import Releases
from py_driver.plan.buildfile import render
from py_driver.plan.slices import slice_names, sliced, slices_of

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.plan.plan import Plan, Variant

CU130 = "torch213-cxx11-cu130-x86_64-linux"
ROCM = "torch213-cxx11-rocm72-x86_64-linux"
AMD = '[kernel.r]\nbackend = "rocm"\ndepends = []\nsrc = ["g/a.cu"]\nrocm-archs = ["gfx942", "gfx90a:xnack-"]\n'
OTHER = '[kernel.h]\nbackend = "cuda"\ndepends = []\nsrc = ["h.cu"]\ncuda-capabilities = ["8.0", "10.0f"]\n'
LINKED = OTHER.replace("10.0f", "9.0+PTX") + 'cuda-flags = ["-rdc=true"]\n'


def plan(directory: Path, *archs: str, more: str = "", names: tuple[str, ...] = (CU130,)) -> Plan:
    (directory / "h.cu").touch()
    general = GENERAL.replace('"cuda"]', '"cuda", "rocm"]') if "rocm" in more else GENERAL
    made = make(directory, general + TORCH + CPU + CUDA + f"cuda-capabilities = {json.dumps(archs)}\n" + more)
    return sliced(made, [variant for variant in made.variants if variant.name in names])


def only(made: Plan, name: str) -> Variant:
    [variant] = slices_of(made, name)
    return variant


def test_each_capability_has_a_slice_and_the_newest_has_the_ptx(tmp_path: Path) -> None:
    made = plan(tmp_path, "8.0", "9.0a", "12.0+PTX")
    assert slice_names(made) == ("sm80", "sm90", "sm120")
    assert [only(made, name).archs for name in slice_names(made)] == [("8.0",), ("9.0a",), ("12.0+PTX",)]
    newest = only(made, "sm120")
    assert (newest.name, newest.identifier) == (f"{CU130}-sm120", CU130)
    assert newest.metadata["backend"] == {"type": "cuda", "archs": ["12.0+PTX"]}
    assert newest.metadata["slice"] == "sm120"


def test_a_slice_differs_from_its_variant_in_the_target_of_the_variant_alone(tmp_path: Path) -> None:
    made = plan(tmp_path, "8.0", "9.0")
    whole = made._replace(variants=tuple(variant for variant in made.variants if not variant.slice))
    added = {*render(made, "").split("\n\n")} - {*render(whole, "").split("\n\n")}
    assert {text.split('"')[1] for text in added} == {f"{CU130}-sm80", f"{CU130}-sm90"}
    assert all('slice = {\n        "g": ["' in text for text in added)


def test_each_section_keeps_what_a_gpu_would_run_of_it(tmp_path: Path) -> None:
    made = plan(tmp_path, "8.0", "8.6", "10.3", more=OTHER)
    kept = {name: dict(only(made, name).slice.archs) for name in slice_names(made)}  # type: ignore[union-attr]
    assert kept == {
        "sm80": {"g": ("8.0",), "h": ("8.0",)},
        "sm86": {"g": ("8.6",), "h": ("8.0",)},
        "sm100": {"g": ("8.0",), "h": ("10.0f",)},
        "sm103": {"g": ("10.3",), "h": ("10.0f",)},
    }


def test_linked_device_code_is_sliced_without_ptx(tmp_path: Path) -> None:
    made = plan(tmp_path, "8.6", more=LINKED)
    [link] = {link.name for link in made.device_links.values()}
    kept = {name: dict(only(made, name).slice.archs) for name in slice_names(made)}  # type: ignore[union-attr]
    assert kept["sm90"] == {"g": ("8.6",), "h": ("9.0+PTX",), link: ("9.0",)}
    assert kept["sm86"] == {"g": ("8.6",), "h": ("8.0",), link: ("8.0",)}


def test_slices_for_amd_have_the_name_without_features(tmp_path: Path) -> None:
    made = plan(tmp_path, "8.0", more=AMD, names=(ROCM,))
    assert slice_names(made) == ("gfx90a", "gfx942")
    assert only(made, "gfx90a").archs == ("gfx90a:xnack-",)
    assert only(made, "gfx90a").exact_archs == ("gfx90a:xnack-",)


@pytest.mark.parametrize(
    ("names", "choices", "code"),
    [
        ([CU130.replace("cu130", "cpu")], Choices(), Code.NO_SUCH_VARIANT),
        ([CU130], Choices(cuda_compile=CudaCompile.MONOLITHIC), Code.USAGE),
        ([CU130.replace("cu130", "cu128").replace("torch213", "torch210")], Choices(), Code.USAGE),
    ],
)
def test_what_cannot_be_sliced_is_refused(names: list[str], choices: Choices, code: Code, tmp_path: Path) -> None:
    made = plan(tmp_path, "8.0")
    chosen = [variant for variant in made.variants if variant.name in names]
    assert chosen
    with pytest.raises(DriverError) as caught:
        check_split(chosen, Releases().matrix, choices)
    assert caught.value.diagnostics[0].code is code
