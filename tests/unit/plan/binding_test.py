"""Projects of a binding alone, without kernel sections: for which backends it is compiled, and what is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sections import BINDING, GENERAL, TORCH, make, names

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.plan.plan import Plan

BACKENDS = '"cpu", "cuda"'


def plan(directory: Path, backends: str, src: str = '"torch-ext/b.h", "torch-ext/b.cpp"') -> Plan:
    device = directory / "g" / "a.cu"
    device.parent.mkdir(exist_ok=True)
    device.write_text(BINDING, encoding="utf-8")
    return make(directory, GENERAL.replace(BACKENDS, backends) + f"[torch]\nsrc = [{src}]\n")


@pytest.mark.parametrize("backend", ["cpu", "cuda", "rocm"])
def test_binding_is_compiled_for_each_backend(tmp_path: Path, backend: str) -> None:
    made = plan(tmp_path, f'"{backend}"')
    assert [(group.name, group.sources) for group in made.groups] == [(f"binding_{backend}", ("torch-ext/b.cpp",))]
    assert {variant.groups for variant in made.variants} == {(f"binding_{backend}",)}
    assert {variant.archs for variant in made.variants} == {None}
    assert not any(variant.configuration.is_noarch for variant in made.variants)
    assert "torch-ext/b.cpp" in made.files
    assert made.notes == ()


def test_device_code_of_a_binding_has_the_default_architectures(tmp_path: Path) -> None:
    made = plan(tmp_path, '"cuda"', '"g/a.cu"')
    [group] = made.groups
    assert group.archs["cu130"].kept
    assert {variant.archs for variant in made.variants if variant.configuration.backend == "cu130"} == {
        tuple(sorted(group.archs["cu130"].kept))
    }


def test_backend_that_no_source_is_for_is_told(tmp_path: Path) -> None:
    made = plan(tmp_path, BACKENDS, '"g/a.cu"')
    assert "torch-cpu" in names(made)
    said = [note.message for note in made.notes]
    assert "no source of [torch] is for `cpu`: torch-cpu will have Python files only, not `g/a.cu`" in said
    assert "`g/a.cu` is CUDA, and is compiled for cuda only, for the default GPU architectures" in said


@pytest.mark.parametrize("src", ["", '"torch-ext/b.h"'])
def test_without_a_source_there_are_python_files_only(tmp_path: Path, src: str) -> None:
    made = plan(tmp_path, BACKENDS, src)
    assert names(made) == ["torch-cpu", "torch-cuda"]
    assert made.groups == ()


def test_binding_of_tvm_ffi(tmp_path: Path) -> None:
    text = GENERAL.replace(BACKENDS, '"cpu"') + TORCH.replace("[torch]", "[tvm-ffi]")
    (tmp_path / "tvm-ffi-ext" / "re_lu").mkdir(parents=True)
    (tmp_path / "tvm-ffi-ext" / "re_lu" / "__init__.py").touch()
    made = make(tmp_path, text)
    assert [group.name for group in made.groups] == ["binding_cpu"]
    assert all(variant.configuration.tvm_ffi for variant in made.variants)
