"""What of a project has its device code linked, and with what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sections import CPU, CUDA, GENERAL, TORCH, failure, make

from py_driver.errors import Code
from py_driver.plan.buildfile import render

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.plan.plan import Plan

CU124 = "torch25-cxx11-cu124-x86_64-linux"
CU130 = "torch213-cxx11-cu130-x86_64-linux"


def section(name: str, *flags: str, more: str = "") -> str:
    words = ", ".join(f'"{flag}"' for flag in flags)
    return f"""[kernel.{name}]
backend = "cuda"
depends = []
src = ["{name}.cu"]
cuda-flags = [{words}]
{more}
"""


def planned(directory: Path, *sections: str) -> Plan:
    for name in ("p", "q", "r"):
        (directory / f"{name}.cu").touch()
    return make(directory, "".join([GENERAL, TORCH, *sections, CPU]))


def test_all_relocatable_device_code_of_a_variant_is_linked_together(tmp_path: Path) -> None:
    plan = planned(
        tmp_path,
        section("p", "-rdc=true", "-maxrregcount=32", "-g"),
        section("q", "-g", "-dc"),
        section("r", "-g", "-rdc=false"),
    )
    links = plan.device_links
    assert {link.name for link in links.values()} == {"device_link"}
    assert [group.name for group in links[CU130].groups] == ["p", "q"]
    assert (links[CU130].flags, links[CU130].depends, links[CU130].optimized) == (("-g",), (), False)
    assert not any(variant.configuration.family == "cpu" and variant.name in links for variant in plan.variants)
    text = render(plan, "")
    assert (
        'kernel_device_link(\n    name = "device_link",\n    flags = ["-g"],\n'
        '    objects = [\n        ":p",\n        ":q",\n    ],\n)'
    ) in text
    assert text.count('":device_link"') == sum(variant.configuration.family == "cuda" for variant in plan.variants)


def test_variants_with_other_sections_link_for_themselves(tmp_path: Path) -> None:
    plan = planned(tmp_path, section("p", "-dc"), section("q", "-dc", more='cuda-minver = "13.0"'))
    links = plan.device_links
    assert [[group.name for group in links[name].groups] for name in (CU124, CU130)] == [["p"], ["p", "q"]]
    assert links[CU124].name != links[CU130].name
    assert render(plan, "").count("kernel_device_link(") == 2


def test_without_relocatable_device_code_nothing_is_linked(tmp_path: Path) -> None:
    plan = planned(tmp_path, CUDA)
    assert plan.device_links == {}
    assert "device_link" not in render(plan, "")


def test_torch_is_no_matter_of_what_does_not_include_it(tmp_path: Path) -> None:
    plan = planned(tmp_path, CUDA.replace('"-DX=', '"-rdc=true", "-DX='), section("p", "-rdc=true"))
    assert plan.device_links[CU130].depends == ("torch",)


def test_optimized_device_code_is_linked_with_no_other(tmp_path: Path) -> None:
    for name in ("p", "q"):
        (tmp_path / f"{name}.cu").touch()
    text = GENERAL + TORCH + section("p", "-dlto") + section("q", "-rdc=true") + CPU
    [found] = failure(tmp_path, text).diagnostics
    assert found.code is Code.BAD_FLAG
    assert found.message == "the device code of [kernel.q] is linked with that of [kernel.p], which has `-dlto`"
    assert found.span
    plan = planned(tmp_path, section("p", "-dlto"), section("q", "-lto"))
    assert plan.device_links[CU130].optimized


def test_a_section_may_be_called_as_the_link_is(tmp_path: Path) -> None:
    (tmp_path / "device_link.cu").touch()
    plan = planned(tmp_path, section("device_link", "-rdc=true"))
    assert plan.device_links[CU130].name not in {group.name for group in plan.groups}
