"""Variants for another CPU than that of the machine that builds: which there are, why not, and what words mean them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sections import CPU, CUDA, GENERAL, TORCH, make

from py_driver.building.selection import choose
from py_driver.errors import Code, DriverError
from py_driver.matrix.releases import Releases
from py_driver.matrix.select import Words
from py_driver.plan.buildfile import render

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.plan.plan import Plan

ARM = "aarch64"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return make(tmp_path, GENERAL + TORCH + CUDA + CPU)


def chosen(plan: Plan, *patterns: str, torch: tuple[str, ...] = (), cpus: tuple[str, ...] = ()) -> list[str]:
    return [one.name for one in choose(plan, patterns, Words(torch=torch, cpus=cpus))]


def test_they_are_there_on_request(plan: Plan) -> None:
    arm = [one for one in plan.variants if one.cell.cpu == ARM]
    assert {one.cell.backend for one in arm} == {"cpu", "cu130", "cu132"}
    assert not any(one.bundled for one in arm)
    text = render(plan, "")
    assert text.count('    cpu = "aarch64",') == len(arm)
    assert 'cpu = "x86_64"' not in text


def test_what_is_default_here_is_it_there(plan: Plan) -> None:
    here = chosen(plan)
    assert chosen(plan, cpus=(ARM,)) == [one.replace("x86_64", ARM) for one in here if "rocm" not in one]
    assert {*chosen(plan, cpus=("x86_64", ARM))} == {*here, *chosen(plan, cpus=(ARM,))}


def test_default_releases_come_first(plan: Plan) -> None:
    assert chosen(plan, f"*-{ARM}-*") == chosen(plan, cpus=(ARM,))


@pytest.mark.parametrize(
    ("patterns", "words", "expected"),
    [
        (["torch210-*"], {}, {"x86_64"}),
        (["torch210-*"], {"cpus": (ARM,)}, {ARM}),
        ([f"torch210-*-{ARM}-*"], {}, {ARM}),
        (["torch213-*-cpu-{x86_64,aarch64}-*"], {}, {"x86_64", ARM}),
        ([f"*-{ARM}-*"], {"torch": ("2.10",)}, {ARM}),
        ([], {"torch": ("2.10",)}, {"x86_64"}),
        ([], {"torch": ("2.10",), "cpus": (ARM,)}, {ARM}),
    ],
)
def test_this_machine_is_meant_unless_the_other_is_named(
    plan: Plan, patterns: list[str], words: dict[str, tuple[str, ...]], expected: set[str]
) -> None:
    found = chosen(plan, *patterns, **words)
    assert {name.split("-")[-2] for name in found} == expected


@pytest.mark.parametrize("cpus", [("x86_64", ARM), (ARM,)])
def test_a_matrix_says_which_cpus_are_the_default(plan: Plan, tmp_path: Path, cpus: tuple[str, ...]) -> None:
    matrix = tmp_path / "my.toml"
    matrix.write_text(f"[platform]\ncpus = {[*cpus]}\n", encoding="utf-8")
    other = make(tmp_path, GENERAL + TORCH + CUDA + CPU, Releases(matrix))
    assert {one.name for one in other.variants} == {one.name for one in plan.variants}
    expected = chosen(plan, cpus=cpus)
    assert {*chosen(other)} == {one.name for one in other.variants if one.bundled} == {*expected}
    assert [one.bundled for one in other.variants] == sorted((one.bundled for one in other.variants), reverse=True)
    assert {*chosen(other, torch=("2.10",))} == {*chosen(plan, torch=("2.10",), cpus=cpus)}
    for cpu in ("x86_64", ARM):
        assert {*chosen(other, cpus=(cpu,))} == {*chosen(plan, cpus=(cpu,))}
        assert {*chosen(other, f"torch210-*-{cpu}-*")} == {*chosen(plan, f"torch210-*-{cpu}-*")}
    bundle = render(other, "").partition('name = "all_variants"')[2].partition(")")[0]
    assert bundle.count(f"-{ARM}-linux") == sum(ARM in one for one in expected) > 0


def test_flags_of_a_cpu(tmp_path: Path) -> None:
    plan = make(tmp_path, GENERAL + TORCH + CUDA + CPU + 'cxx-flags = ["-mavx2"]\n')
    reasons = {one.reason for one in plan.excluded if one.cell.cpu == ARM}
    assert reasons == {"[kernel.c] is compiled with `-mavx2`, which is for x86_64"}
    assert {one.cell.backend for one in plan.variants if one.cell.cpu == ARM} == {"cu130", "cu132"}


def test_flags_of_nvcc(tmp_path: Path) -> None:
    flags = CUDA.replace('["-DX', '["-maxrregcount=64", "-DX')
    assert any(one.cell.cpu == ARM for one in make(tmp_path, GENERAL + TORCH + flags + CPU).variants if one.archs)
    flags = CUDA.replace('["-DX', '["-Xcompiler=-mavx2", "-DX')
    assert not any(one.cell.cpu == ARM for one in make(tmp_path, GENERAL + TORCH + flags + CPU).variants if one.archs)


def test_no_variant_for_a_cpu(tmp_path: Path) -> None:
    plan = make(tmp_path, GENERAL.replace('"cpu", "cuda"', '"cpu"') + TORCH + CPU + 'cxx-flags = ["-mavx2"]\n')
    with pytest.raises(DriverError) as caught:
        chosen(plan, cpus=(ARM,))
    assert caught.value.diagnostics[0].code is Code.NO_SUCH_VARIANT
