"""Which variant of a project a machine runs: by its torch, its GPUs, and what is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sections import CPU, CUDA, GENERAL, TORCH, make

from py_driver.authoring.local_variant import local_variant, usable_archs
from py_driver.building.installed_torch import Torch
from py_driver.errors import Code, DriverError

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.plan.plan import Plan


def torch(version: str = "2.13", backend: str = "cpu") -> Torch:
    return Torch(python="python3", version=version, backend=backend)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return make(tmp_path, GENERAL + TORCH + CPU + CUDA)


@pytest.mark.parametrize(
    ("asked", "archs", "family", "expected"),
    [
        (torch(), (), "", "torch213-cxx11-cpu-x86_64-linux"),
        (torch("2.15"), ("9.0",), "", "torch215-cxx11-cpu-x86_64-linux"),
        (torch(backend="cu130"), ("9.0",), "", "torch213-cxx11-cu130-x86_64-linux"),
        (torch("2.11", "cu130"), ("9.0",), "cuda", "torch211-cxx11-cu130-x86_64-linux"),
        (torch(backend="cu132"), ("9.0",), "", "torch213-cxx11-cu132-x86_64-linux"),
        (torch(backend="cu130"), (), "", "torch213-cxx11-cpu-x86_64-linux"),
        (torch(backend="cu130"), ("gfx942",), "", "torch213-cxx11-cpu-x86_64-linux"),
        (torch(backend="cu130"), ("9.0",), "cpu", "torch213-cxx11-cpu-x86_64-linux"),
    ],
)
def test_a_machine_has_one_variant(
    plan: Plan, asked: Torch, archs: tuple[str, ...], family: str, expected: str
) -> None:
    assert local_variant(plan, asked, archs, family).name == expected


def test_stable_abi_and_python_files(tmp_path: Path) -> None:
    stable = make(tmp_path / "a", GENERAL + TORCH + 'stable-abi = "2.9"\n' + CPU + CUDA)
    assert local_variant(stable, torch("2.14"), ()).name == "torch-stable-abi29-cpu-x86_64-linux"
    assert local_variant(stable, torch("2.14", "cu130"), ("8.0",)).configuration.backend == "cu130"
    noarch = make(tmp_path / "b", GENERAL + "[torch-noarch]\n")
    assert local_variant(noarch, torch("2.14", "cu130"), ("8.0",)).name == "torch-cuda"
    assert local_variant(noarch, torch("2.14", "cu130"), ()).name == "torch-cpu"


def test_usable_gpus() -> None:
    assert usable_archs(torch(backend="cu130"), ("9.0", "gfx942")) == ("9.0",)
    assert usable_archs(torch(backend="rocm72"), ("9.0", "gfx942")) == ("gfx942",)
    assert usable_archs(torch(), ("9.0",)) == ()


@pytest.mark.parametrize(
    ("asked", "family", "message", "advice"),
    [
        (
            torch("2.16"),
            "",
            "`x` has no variant for torch 2.16 (cpu) on this machine",
            "the nearest are torch215-cxx11-cpu-x86_64-linux, torch214-cxx11-cpu-x86_64-linux, ",
        ),
        (
            torch(),
            "cuda",
            "`x` has no variant for torch 2.13 (cpu) with CUDA on this machine: no GPU that this torch can use is "
            "found",
            "use --backend cpu",
        ),
        (
            torch(backend="cu130"),
            "cuda",
            "`x` has no variant for torch 2.13 (cu130) with CUDA on this machine: no GPU that this torch can use is "
            "found",
            "use --backend cpu, or name architectures by --archs or, for a setup.py or cpp_extension, by TORCH_CUDA",
        ),
    ],
)
def test_none_fits(plan: Plan, asked: Torch, family: str, message: str, advice: str) -> None:
    with pytest.raises(DriverError) as caught:
        local_variant(plan, asked, (), family)
    [found] = caught.value.diagnostics
    assert (found.code, found.message.replace(plan.name, "x")) == (Code.NO_SUCH_VARIANT, message)
    assert found.help.startswith(advice)
