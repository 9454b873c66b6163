"""The slice that is loaded for a GPU: which one fits, when all device code is loaded, and what is said if none fits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from rules_torch_kernels.slices import Slice, choose, fits, read_index

from py_driver.publishing.wheel_loader import has_code

if TYPE_CHECKING:
    from collections.abc import Sequence

ARCHS = ("8.0", "8.6", "9.0", "9.0a", "9.0a+PTX", "10.0f", "10.3", "12.0+PTX", "gfx90a", "gfx942", "odd")
GPUS = ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1", "13.0", "gfx90a", "gfx942", "gfx1100")
PAIRS = [(arch, gpu) for arch in ARCHS for gpu in GPUS if arch.startswith("gfx") == gpu.startswith("gfx")]


def slices(listed: Sequence[str]) -> list[Slice]:
    """A slice for each text of architectures, named by these."""
    return [Slice(archs, f"v1-{archs}", tuple(archs.split()), "", "") for archs in listed]


@pytest.mark.parametrize(
    ("listed", "gpu", "expected"),
    [
        (["8.0", "9.0", "12.0+PTX"], "9.0", "9.0"),
        (["8.0", "8.6", "9.0"], "8.9", "8.6"),
        (["8.6", "8.0", "9.0"], "8.9", "8.6"),
        (["8.6", "9.0"], "8.0", None),
        (["9.0a", "10.0f"], "9.0", "9.0a"),
        (["9.0a", "10.0f"], "10.3", "10.0f"),
        (["10.0a", "12.0"], "10.3", None),
        (["10.0f", "10.3"], "10.3", "10.3"),
        (["8.0+PTX", "9.0+PTX"], "12.0", "9.0+PTX"),
        (["8.0", "12.0+PTX"], "9.0", None),
        (["8.0", "12.0+PTX"], "12.1", "12.0+PTX"),
        (["gfx90a", "gfx942"], "gfx942", "gfx942"),
        (["gfx90a", "gfx942"], "gfx1100", None),
        # Sections that are for other architectures: all of the code has to run.
        (["10.0 8.0", "8.0"], "8.0", "8.0"),
        (["8.0 8.6", "8.0"], "8.6", "8.0 8.6"),
        (["8.0 8.6", "8.0"], "8.9", "8.0 8.6"),
        (["8.0 8.0+PTX", "9.0 9.0+PTX"], "12.0", None),
        ([], "9.0", None),
    ],
)
def test_the_best_slice_is_chosen(listed: list[str], gpu: str, expected: str | None) -> None:
    chosen = choose(slices(listed), gpu)
    assert (chosen.name if chosen else None) == expected


@pytest.mark.parametrize(("arch", "gpu"), PAIRS)
def test_code_fits_where_the_loader_of_wheels_says_so(arch: str, gpu: str) -> None:
    assert (fits(arch, gpu) > (0, 0, 0)) == has_code([arch], gpu)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"schema": 2}', b'{"schema": 1, "slices": {"a": 1}}'])
def test_what_is_no_index_has_no_slices(text: bytes) -> None:
    assert read_index(text, "torch-cuda") == []


def test_an_index_lists_the_slices_of_a_variant() -> None:
    about = {"archs": ["9.0"], "size": 1, "digest": "d", "variant-digest": "w"}
    variants = {"a": "x", "b": "y"}
    entries = {name: {"branch": f"v1-{name}", "variants": {variant: about}} for name, variant in variants.items()}
    text = json.dumps({"schema": 1, "slices": entries}).encode()
    assert read_index(text, "x") == [Slice("a", "v1-a", ("9.0",), "d", "w")]
