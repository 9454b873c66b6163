"""Which sources are compiled together: sections of any name, sources that several list, CUDA in the binding."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from sections import CPU, CUDA, GENERAL, TORCH, make

from py_driver.errors import Code
from py_driver.manifest.targets import binding_target, section_target

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.plan.groups import Group
    from py_driver.plan.plan import Plan

CU130 = "torch213-cxx11-cu130-x86_64-linux"
CU132 = "torch213-cxx11-cu132-x86_64-linux"
CPU213 = "torch213-cxx11-cpu-x86_64-linux"
G = CUDA + 'include = ["g"]\ncuda-capabilities = ["8.0", "9.0"]\n'
H = """\
[kernel.h]
backend = "cuda"
depends = []
src = ["g/a.cu", "h.cu", "g/z.cuh"]
cuda-flags = ["-DH"]
include = ["."]
cuda-capabilities = ["9.0+PTX", "12.0"]
"""


def planned(directory: Path, text: str) -> Plan:
    (directory / "h.cu").touch()
    return make(directory, text)


def compiled(plan: Plan, variant: str) -> dict[str, list[Group]]:
    """The groups of a variant that compile each source."""
    [names] = [candidate.groups for candidate in plan.variants if candidate.name == variant]
    groups = [group for group in plan.groups if group.name in names]
    return {
        source: [group for group in groups if source in group.sources] for group in groups for source in group.sources
    }


def test_a_source_of_two_sections_is_compiled_once(tmp_path: Path) -> None:
    plan = planned(tmp_path, GENERAL + TORCH + G + H + CPU)
    found = compiled(plan, CU130)
    assert {source: len(groups) for source, groups in found.items()} == dict.fromkeys(
        ("torch-ext/b.cpp", "g/a.cu", "g/b.cu", "h.cu"), 1
    )
    [both] = found["g/a.cu"]
    assert both.title == "[kernel.g] and [kernel.h]"
    assert both.cuda_flags == ('-DX="é"', "-DH")
    assert both.includes == (".", "g")
    assert both.depends == ("torch",)
    assert both.headers == ("g/z.cuh",)
    assert both.archs["cu130"].kept == ("8.0", "9.0+PTX", "12.0")
    assert [group.name for group in (*found["g/b.cu"], *found["h.cu"])] == ["g", "h"]
    [note] = [note for note in plan.notes if note.code is Code.DUPLICATE_FILE]
    assert note.message == "[kernel.g] lists `g/a.cu` too: it is compiled once, with the flags of both"
    assert note.span.text.startswith('src = ["g/a.cu", "h.cu"')


def test_a_section_that_is_left_out_gives_no_flags(tmp_path: Path) -> None:
    plan = planned(tmp_path, GENERAL + TORCH + G + H + 'cuda-minver = "13.2"\n')
    old, new = (compiled(plan, name)["g/a.cu"] for name in (CU130, CU132))
    assert [group.cuda_flags for group in (*old, *new)] == [('-DX="é"',), ('-DX="é"', "-DH")]
    assert ("cu130" in old[0].archs, "cu132" in old[0].archs) == (True, False)
    assert "h.cu" not in compiled(plan, CU130)
    assert "h.cu" in compiled(plan, CU132)
    assert old[0].name != new[0].name


def test_a_name_says_which_sections_count(tmp_path: Path) -> None:
    third = H.replace("kernel.h", "kernel.i").replace('"h.cu"', '"g/b.cu"') + 'cuda-minver = "13.2"\n'
    plan = planned(tmp_path, GENERAL + TORCH + G + H + third)
    names = [group.name for group in plan.groups]
    assert len({*names}) == len(names)
    for variant, count in ((CU130, 2), (CU132, 3)):
        found = compiled(plan, variant)
        assert all(len(groups) == 1 for groups in found.values())
        assert found["g/a.cu"][0].cuda_flags.count("-DH") == count - 1


def test_a_source_of_the_binding_and_a_section(tmp_path: Path) -> None:
    text = CPU.replace("c.cpp", "torch-ext/b.cpp").replace("depends = []", 'depends = []\ncxx-flags = ["-DC"]')
    plan = planned(tmp_path, GENERAL + TORCH + 'cxx-flags = ["-DB"]\n' + text)
    [group] = [group for groups in compiled(plan, CPU213).values() for group in groups]
    assert (group.cxx_flags, group.identity, group.depends) == (("-DB", "-DC"), "cpu_id", ("torch",))
    assert group.headers == ("torch-ext/b.h",)
    assert group.title == "[torch] and [kernel.c]"


def test_cuda_in_the_binding(tmp_path: Path) -> None:
    torch = TORCH.replace('"torch-ext/b.cpp"', '"torch-ext/b.cpp", "h.cu"')
    plan = planned(tmp_path, GENERAL + torch + G + CPU)
    assert "h.cu" not in compiled(plan, CPU213)
    [binding] = compiled(plan, CU130)["h.cu"]
    assert (binding.name, binding.identity) == ("binding_cuda", "cuda_id")
    assert binding.sources == ("h.cu", "torch-ext/b.cpp")
    assert binding.archs["cu130"].kept == ("8.0", "9.0")
    assert [group.archs for group in plan.groups if group.name == "binding_cpu"] == [{}]
    said = "`h.cu` is CUDA, and is compiled for cuda only, for the GPU architectures of all sections"
    assert said in [note.message for note in plan.notes]
    alone = planned(tmp_path, GENERAL + torch + CPU)
    assert [note.message for note in alone.notes if "h.cu" in note.message] == [
        "`h.cu` is CUDA, and no backend of this project compiles it"
    ]


@pytest.mark.parametrize(
    "name",
    ["a b", 'quo"te', "dot.ted", "größe", "", "-", "9", "a/b", "//x:y", "$(id)", "\\", "'", "x" * 300, "a.objects/b",
     "all_variants", "cuda_id", "binding_cpu", "universal_id", CPU213, "torch-cuda"],
)  # fmt: skip
def test_a_section_of_any_name(tmp_path: Path, name: str) -> None:
    key = name.replace("\\", "\\\\").replace('"', '\\"')
    plan = planned(tmp_path, GENERAL + TORCH + CPU.replace("kernel.c]", f'kernel."{key}"]') + CUDA)
    target = section_target(name)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}\.[0-9a-f]{12}", target)
    assert [group.name for group in plan.groups] == ["binding_cpu", target, "binding_cuda", "g"]
    [group] = compiled(plan, CPU213)["c.cpp"]
    assert group.title in {f'[kernel."{key}"]', f"[kernel.{name}]"}


def test_names_that_labels_carry_stay() -> None:
    for name in ("relu", "_x", "a-b", "A9"):
        assert section_target(name) == name
    assert section_target("a b") != section_target("a-b") != section_target("a.b") != section_target("a b")
    assert binding_target("cpu") == "binding_cpu"
