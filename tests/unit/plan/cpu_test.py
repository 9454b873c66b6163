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
from py_driver.plan.cpus import cpu_of

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.plan.plan import Plan

ARM = "aarch64"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return make(tmp_path, GENERAL + TORCH + CUDA + CPU)


def chosen(plan: Plan, *patterns: str, torch: tuple[str, ...] = (), cpus: tuple[str, ...] = ()) -> list[str]:
    return [variant.name for variant in choose(plan, patterns, Words(torch=torch, cpus=cpus))]


def test_they_are_there_on_request(plan: Plan) -> None:
    arm = [variant for variant in plan.variants if variant.configuration.cpu == ARM]
    assert {variant.configuration.backend for variant in arm} == {"cpu", "cu130", "cu132"}
    assert not any(variant.default for variant in arm)
    text = render(plan, "")
    assert text.count('    cpu = "aarch64",') == len(arm)
    assert 'cpu = "x86_64"' not in text


def test_what_is_default_here_is_it_there(plan: Plan) -> None:
    here = chosen(plan)
    assert chosen(plan, cpus=(ARM,)) == [name.replace("x86_64", ARM) for name in here if "rocm" not in name]
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
    assert {variant.name for variant in other.variants} == {variant.name for variant in plan.variants}
    expected = chosen(plan, cpus=cpus)
    assert {*chosen(other)} == {variant.name for variant in other.variants if variant.default} == {*expected}
    assert [variant.default for variant in other.variants] == sorted(
        (variant.default for variant in other.variants), reverse=True
    )
    assert {*chosen(other, torch=("2.10",))} == {*chosen(plan, torch=("2.10",), cpus=cpus)}
    for cpu in ("x86_64", ARM):
        assert {*chosen(other, cpus=(cpu,))} == {*chosen(plan, cpus=(cpu,))}
        assert {*chosen(other, f"torch210-*-{cpu}-*")} == {*chosen(plan, f"torch210-*-{cpu}-*")}
    bundle = render(other, "").partition('name = "all_variants"')[2].partition(")")[0]
    assert bundle.count(f"-{ARM}-linux") == sum(ARM in name for name in expected) > 0


def test_flags_of_a_cpu(tmp_path: Path) -> None:
    plan = make(tmp_path, GENERAL + TORCH + CUDA + CPU + 'cxx-flags = ["-mavx2"]\n')
    reasons = {exclusion.reason for exclusion in plan.excluded if exclusion.configuration.cpu == ARM}
    assert reasons == {"[kernel.c] is compiled with `-mavx2`, which is for x86_64"}
    assert {variant.configuration.backend for variant in plan.variants if variant.configuration.cpu == ARM} == {
        "cu130",
        "cu132",
    }


@pytest.mark.parametrize(
    ("flag", "cpu"),
    [
        ("-mavx2", "x86_64"),
        ("-mno-avx512f", "x86_64"),
        ("-march=x86-64-v3", "x86_64"),
        ("-mtune=znver4", "x86_64"),
        ("-march=armv8.2-a+fp16", ARM),
        ("-mcpu=neoverse-v2", ARM),
        ("-Xcompiler=-O2,-mcpu=cortex-a76", ARM),
        ("-Xcompiler=-O2,-mf16c", "x86_64"),
        ("-mtune=generic", None),
        ("-momit-leaf-frame-pointer", None),
        ("-maxrregcount=64", None),
        ("-Xptxas=-maxrregcount=64", None),
        ("-Dx-march=1", None),
    ],
)
def test_the_cpu_of_a_flag(flag: str, cpu: str | None) -> None:
    assert cpu_of(flag) == cpu


_FOR_BOTH = (
    CPU
    + 'cxx-flags = ["-O3", "-mavx2", "-mfma"]\n'
    + CPU.replace("kernel.c", "kernel.n").replace("c.cpp", "n.cpp")
    + 'cxx-flags = ["-march=armv8.2-a+dotprod"]\n'
    + CPU.replace("kernel.c", "kernel.common").replace('"c.cpp"', '"both.cpp", "n.cpp"')
)


def test_sections_for_either_cpu(tmp_path: Path) -> None:
    for name in ("n.cpp", "both.cpp"):
        (tmp_path / name).touch()
    plan = make(tmp_path, GENERAL + TORCH + CUDA + _FOR_BOTH)
    assert not [exclusion for exclusion in plan.excluded if exclusion.configuration.family == "cpu"]
    groups = {
        variant.configuration.cpu: variant.groups for variant in plan.variants if variant.configuration.backend == "cpu"
    }
    sources = {group.name: (group.sources, group.cxx_flags) for group in plan.groups}
    binding = ("torch-ext/b.cpp",), ()
    avx = ("c.cpp",), ("-O3", "-mavx2", "-mfma")
    assert [sources[name] for name in groups["x86_64"]] == [binding, avx, (("both.cpp",), ()), (("n.cpp",), ())]
    assert [sources[name] for name in groups[ARM]] == [
        binding,
        (("both.cpp",), ()),
        (("n.cpp",), ("-march=armv8.2-a+dotprod",)),
    ]
    assert [note.message for note in plan.notes if "alone" in note.message] == [
        "[kernel.c] is for x86_64 alone, since its flags have `-mavx2`",
        "[kernel.n] is for aarch64 alone, since its flags have `-march=armv8.2-a+dotprod`",
    ]
    text = render(plan, "")
    assert text.count('cpu = "aarch64"') == sum(variant.configuration.cpu == ARM for variant in plan.variants)


def test_flags_of_both_cpus(tmp_path: Path) -> None:
    text = GENERAL + TORCH + CUDA + CPU + 'cxx-flags = ["-mavx2", "-march=armv8-a"]\n'
    plan = make(tmp_path, text)
    assert {exclusion.reason for exclusion in plan.excluded if exclusion.configuration.family == "cpu"} == {
        "[kernel.c] is compiled with `-mavx2`, which is for x86_64",
        "[kernel.c] is compiled with `-march=armv8-a`, which is for aarch64",
    }
    assert not [variant for variant in plan.variants if variant.configuration.family == "cpu"]


def test_flags_of_the_binding(tmp_path: Path) -> None:
    for name in ("n.cpp", "both.cpp"):
        (tmp_path / name).touch()
    text = GENERAL + TORCH + 'cxx-flags = ["-march=armv8-a"]\n' + CUDA + _FOR_BOTH
    plan = make(tmp_path, text)
    assert {variant.configuration.cpu for variant in plan.variants} == {ARM}
    assert {exclusion.reason for exclusion in plan.excluded if exclusion.configuration.cpu == "x86_64"} == {
        "[torch] is compiled with `-march=armv8-a`, which is for aarch64"
    }
    with pytest.raises(DriverError) as caught:
        chosen(plan)
    assert caught.value.diagnostics[0].message == "no variant is for the CPU `x86_64`"


def test_flags_of_nvcc(tmp_path: Path) -> None:
    flags = CUDA.replace('["-DX', '["-maxrregcount=64", "-DX')
    assert any(
        variant.configuration.cpu == ARM
        for variant in make(tmp_path, GENERAL + TORCH + flags + CPU).variants
        if variant.archs
    )
    flags = CUDA.replace('["-DX', '["-Xcompiler=-mavx2", "-DX')
    assert not any(
        variant.configuration.cpu == ARM
        for variant in make(tmp_path, GENERAL + TORCH + flags + CPU).variants
        if variant.archs
    )


def test_no_variant_for_a_cpu(tmp_path: Path) -> None:
    plan = make(tmp_path, GENERAL.replace('"cpu", "cuda"', '"cpu"') + TORCH + CPU + 'cxx-flags = ["-mavx2"]\n')
    with pytest.raises(DriverError) as caught:
        chosen(plan, cpus=(ARM,))
    assert caught.value.diagnostics[0].code is Code.NO_SUCH_VARIANT
