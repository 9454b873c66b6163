"""Projects that are bound with tvm-ffi: their variants, what their groups see, and what is said of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sections import CPU, CUDA, GENERAL, names

from py_driver.building.selection import archives
from py_driver.errors import Code, DriverError
from py_driver.matrix.configurations import is_identifier, parse, spell
from py_driver.matrix.releases import Releases
from py_driver.plan.buildfile import render
from py_driver.plan.plan import plan_directory

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.plan.plan import Plan

_RELEASES = Releases()
_TVM_FFI = '[tvm-ffi]\nsrc = ["tvm-ffi-ext/b.cpp"]\ninclude = ["g"]\ncxx-flags = ["-DX"]\n'
_FILES = ("tvm-ffi-ext/re_lu/__init__.py", "tvm-ffi-ext/b.cpp", "g/z.cuh", "g/a.cu", "g/b.cu", "c.cpp")
_SECTIONS = CPU + CUDA.replace('["torch"]', "[]")


def _make(directory: Path, text: str, source: str = "") -> Plan:
    for name in _FILES:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(source if name == "c.cpp" else "", encoding="utf-8")
    (directory / "build.toml").write_text(text, encoding="utf-8")
    return plan_directory(directory, _RELEASES)


def test_variants_are_named_as_upstream_names_them(tmp_path: Path) -> None:
    made = _make(tmp_path, GENERAL + _TVM_FFI + _SECTIONS)
    default = [variant.name for variant in made.variants if variant.default]
    assert default == [f"tvm-ffi01-{backend}-x86_64-linux" for backend in ("cpu", "cu130", "cu132")]
    assert set(names(made)) - set(default) == {"tvm-ffi01-cu126-x86_64-linux"}
    for name in names(made):
        assert is_identifier(name)
        configuration = parse(name)
        assert (spell(configuration), configuration.tvm_ffi, configuration.torch, configuration.is_noarch) == (
            name,
            "0.1",
            None,
            False,
        )


def test_every_group_sees_tvm_ffi_and_none_torch(tmp_path: Path) -> None:
    made = _make(tmp_path, GENERAL + _TVM_FFI + CPU + CUDA)
    assert {group.depends for group in made.groups} == {("tvm_ffi",)}
    assert [note.message for note in made.notes] == [
        "`torch` in `depends` of [kernel.g] has no effect: torch's headers are not available of a [tvm-ffi] project"
    ]
    assert {identity.settings["framework"] for identity in made.identities} == {"tvm-ffi"}
    [binding] = [group for group in made.groups if group.name == "binding_cpu"]
    assert (binding.sources, binding.cxx_flags, binding.identity) == (("tvm-ffi-ext/b.cpp",), ("-DX",), "cpu_id")
    text = render(made, "")
    assert text.count('tvm_ffi = "0.1"') == len(made.variants)
    assert "torch = " not in text


def test_archives_are_those_of_tvm_ffi(tmp_path: Path) -> None:
    made = _make(tmp_path, GENERAL + _TVM_FFI + _SECTIONS)
    needed = {entry.name for entry in archives(made, made.variants[:1], _RELEASES.lock)}
    assert "apache-tvm-ffi" in needed
    assert "torch" not in needed


def test_metadata_has_the_form_of_any_other_kernel(tmp_path: Path) -> None:
    made = _make(tmp_path, GENERAL + _TVM_FFI + _SECTIONS)
    assert made.variants[0].metadata == {
        "name": "re-lu",
        "version": 2,
        "license": "mit",
        "python-depends": [],
        "kernel-depends": [],
        "kernels-minver": "0.14.0",
        "backend": {"type": "cpu"},
    }


def test_backends_without_variants_are_noted(tmp_path: Path) -> None:
    rocm = '[kernel.r]\nbackend = "rocm"\ndepends = []\nsrc = ["g/a.cu"]\n'
    made = _make(tmp_path, GENERAL.replace('"cuda"]', '"cuda", "rocm", "xpu"]') + _TVM_FFI + CPU + rocm)
    assert {variant.configuration.family for variant in made.variants} == {"cpu"}
    assert [note.message for note in made.notes] == [
        "the backend `cuda` is excluded: no [kernel.*] section is for it",
        "the backend `rocm` is excluded: tvm-ffi has no variant for it",
        "the backend `xpu` is excluded: the driver does not build it yet",
    ]


def test_headers_of_torch_are_an_error(tmp_path: Path) -> None:
    text = GENERAL + _TVM_FFI + _SECTIONS
    with pytest.raises(DriverError) as caught:
        _make(tmp_path, text, "#include <torch/all.h>\n")
    [wrong] = caught.value.diagnostics
    assert (wrong.code, wrong.span and wrong.span.line) == (Code.UNSUPPORTED, 1)
    assert _make(tmp_path, text, "#include <tvm/ffi/tvm_ffi.h>\n").notes == ()
    [note] = _make(tmp_path, text, "#ifdef WITH_TORCH\n#include <torch/all.h>\n#endif\n").notes
    assert note.message.startswith("`torch/all.h` is included here, but torch's headers are not available")


def test_a_binding_without_a_source(tmp_path: Path) -> None:
    with pytest.raises(DriverError) as caught:
        _make(tmp_path, GENERAL + "[tvm-ffi]\nsrc = []\n" + _SECTIONS)
    [wrong] = caught.value.diagnostics
    assert (wrong.code, wrong.help) == (
        Code.MISSING_KEY,
        'list it: src = ["tvm-ffi-ext/b.cpp"]',
    )
