"""Sections for ROCm: which variants, architectures, flags, archives and compile actions they get."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import kernels.archs  # type: ignore[import-untyped]
import kernels.validate  # type: ignore[import-untyped]
import pytest
from sections import GENERAL, TORCH, failure, make, names

from py_driver.actions.executed import Did, VariantAction, place_of
from py_driver.actions.expected import Settings, expected_actions
from py_driver.errors import Code
from py_driver.manifest.flags import read_hip_flags
from py_driver.manifest.locate import Source
from py_driver.manifest.model import Located
from py_driver.manifest.section import Findings
from py_driver.matrix.backends import BUILT
from py_driver.matrix.configurations import Configuration, parse, spell
from py_driver.matrix.releases import Releases
from py_driver.plan.buildfile import render

if TYPE_CHECKING:
    from py_driver.actions.expected import ExpectedAction
    from py_driver.plan.plan import Plan

VARIANT = "torch213-cxx11-rocm72-x86_64-linux"
ROCM = """\
[kernel.r]
backend = "rocm"
depends = []
src = ["g/z.cuh", "g/a.cu"]
"""
ARCHS = 'rocm-archs = ["gfx1100", "gfx942:xnack-", "gfx90a", "gfx940"]\n'
MNEMONICS = ["HipPreprocess", "HipDeviceCompile", "HipAssemble", "HipLink"]


def plan(directory: Path, section: str = ROCM) -> Plan:
    """The plan of a project with a section for ROCm."""
    return make(directory, GENERAL.replace('"cpu", "cuda"', '"rocm"') + TORCH + section)


def test_variants_are_those_of_the_matrix(tmp_path: Path) -> None:
    made = plan(tmp_path)
    variants = [
        (spell(configuration), default)
        for configuration, default in Releases().matrix.configurations()
        if configuration.family == "rocm"
    ]
    assert [(variant.name, variant.default) for variant in made.variants] == variants
    assert names(made)[0] == VARIANT
    assert parse(VARIANT) == Configuration(torch="2.13", abi="cxx11", backend="rocm72", cpu="x86_64", os="linux")


@pytest.mark.parametrize(
    ("backend", "version"),
    [("rocm72", "7.2"), ("rocm64", "6.4"), ("rocm710", "7.10"), ("rocm7", None), ("cu130", None), ("cpu", None)],
)
def test_version_of_a_backend(backend: str, version: str | None) -> None:
    assert BUILT["rocm"].version_of(backend) == version


def test_archs_are_those_that_both_name(tmp_path: Path) -> None:
    made = plan(tmp_path, ROCM + ARCHS)
    [archs] = {group.archs["rocm72"] for group in made.groups if group.name == "r"}
    assert archs.kept == ("gfx90a", "gfx942:xnack-", "gfx1100")
    assert [(exclusion.arch, exclusion.reason) for exclusion in archs.dropped] == [
        ("gfx940", "ROCm 7.2 does not compile for gfx940")
    ]
    assert made.variants[0].metadata["backend"] == {"type": "rocm", "archs": ["gfx1100", "gfx90a", "gfx942"]}


@pytest.mark.parametrize(
    ("gpu", "fits"), [("gfx942:sramecc+:xnack-", True), ("gfx90a", True), ("gfx1100", True), ("gfx1201", False)]
)
def test_client_finds_its_gpu_among_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpu: str, *, fits: bool
) -> None:
    """The client is the real one; torch says of the GPU what it would."""
    cuda = SimpleNamespace(
        is_available=lambda: True,
        current_device=lambda: 0,
        get_device_properties=lambda _: SimpleNamespace(gcnArchName=gpu),
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda, version=SimpleNamespace(hip="7.2")))
    monkeypatch.setattr(kernels.archs, "has_torch", True)
    built = {"id": "_r_rocm_0", "digest": {"algorithm": "sha256", "files": {}}}
    (tmp_path / "metadata.json").write_text(json.dumps({**plan(tmp_path, ROCM + ARCHS).variants[0].metadata, **built}))
    metadata = kernels.Metadata.read_from_file(tmp_path / "metadata.json")
    validator = kernels.validate.ArchValidator()
    if fits:
        validator.validate_metadata(metadata=metadata, variant=VARIANT)
    else:
        with pytest.raises(RuntimeError, match="gfx1201 of the current device is not supported"):
            validator.validate_metadata(metadata=metadata, variant=VARIANT)


@pytest.mark.parametrize(
    ("asked", "stated", "exact"),
    [
        (["gfx942:xnack-", "gfx942:xnack+", "gfx1100"], ["gfx1100", "gfx942"], True),
        (["gfx90a:sramecc+:xnack-"], ["gfx90a"], True),
        (["gfx90a", "gfx1100"], ["gfx1100", "gfx90a"], False),
    ],
)
def test_features_are_checked_and_not_stated(
    tmp_path: Path, asked: list[str], stated: list[str], *, exact: bool
) -> None:
    made = plan(tmp_path, f"{ROCM}rocm-archs = {json.dumps(asked)}\n")
    assert made.variants[0].metadata["backend"]["archs"] == stated
    assert made.variants[0].exact_archs == (tuple(sorted(asked)) if exact else ())
    block = render(made, "").partition(f'    name = "{VARIANT}",')[2].partition("\n)\n")[0]
    assert all((f'"{arch}"' in block) is exact for arch in asked if arch != "gfx1100")
    assert ("archs = [" in block) is exact


def test_default_archs_are_those_of_the_release(tmp_path: Path) -> None:
    release = Releases().matrix.toolkit("rocm72")
    assert release
    assert plan(tmp_path).variants[0].archs == tuple(sorted(release.default_archs))
    assert sorted(release.default_archs, key=BUILT["rocm"].order) == list(release.default_archs)


def test_archs_that_are_wrong(tmp_path: Path) -> None:
    archs = ["gfx9422", "gfx942:wave-", "gfx942:xnack-:sramecc+", "gfx1100:xnack-", "gfx90a", "gfx90a:xnack+"]
    wrong = f"rocm-archs = {archs}\n"
    found = failure(tmp_path, GENERAL.replace('"cpu", "cuda"', '"rocm"') + TORCH + ROCM + wrong).diagnostics
    assert {diagnostic.code for diagnostic in found} == {Code.UNKNOWN_ARCH}
    assert [diagnostic.message for diagnostic in found] == [
        "no clang compiles for the architecture `gfx9422`",
        *(f"`{arch}` is not an architecture with valid features" for arch in archs[1:]),
    ]
    order = "only `:sramecc` and `:xnack`, in this order, each with `+` or `-`, may follow"
    beside = "it conflicts with `{}`: name the same features for an architecture everywhere, or none"
    labels = [order, order, "gfx1100 has no `xnack`", beside.format("gfx90a:xnack+"), beside.format("gfx90a")]
    assert [diagnostic.label for diagnostic in found[1:]] == labels
    assert "did you mean `gfx942`" in found[0].label


def test_archs_of_which_none_is_left(tmp_path: Path) -> None:
    text = GENERAL.replace('"cpu", "cuda"', '"rocm"') + TORCH + ROCM + 'rocm-archs = ["gfx940"]\n'
    [found] = failure(tmp_path, text).diagnostics
    assert found.code is Code.EMPTY_ARCHS
    assert found.message == "[kernel.r] has no GPU architecture that ROCm 7.2 supports"
    assert found.help.startswith("ROCm 7.2 supports gfx900, ")
    assert "gfx940" not in found.help


def test_hip_source_is_for_rocm_alone(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "h.hip").touch()
    assert plan(tmp_path, ROCM.replace("g/a.cu", "g/h.hip")).groups[1].sources == ("g/h.hip",)
    for backend in ("cuda", "cpu"):
        section = ROCM.replace('"rocm"', f'"{backend}"').replace("g/a.cu", "g/h.hip")
        [found] = failure(tmp_path, GENERAL + TORCH + section).diagnostics
        assert found.code is Code.FILE_KIND
        assert found.message == f"`g/h.hip` is HIP, but [kernel.r] is for the backend {backend}"
        assert found.help == 'list it in a [kernel.*] section for "rocm"'


def test_build_file_has_flags_and_archs(tmp_path: Path) -> None:
    text = render(plan(tmp_path, f'{ROCM}{ARCHS}hip-flags = ["-ffast-math", "-mcumode"]\n'), "")
    block = text.partition('    name = "r",')[2].partition("\n)\n")[0]
    assert '    hip_flags = [\n        "-ffast-math",\n        "-mcumode",\n    ],' in block
    assert (
        '"rocm72": [\n            "gfx90a",\n            "gfx942:xnack-",\n            "gfx1100",\n        ],' in block
    )
    assert 'name = "rocm_id"' in text
    assert 'backend = "rocm72",' in text


def test_identity_depends_on_flags_and_archs(tmp_path: Path) -> None:
    configs = {
        plan(tmp_path, section).identities[0].config
        for section in (ROCM, ROCM + ARCHS, f'{ROCM}hip-flags = ["-DX"]\n', f"{ROCM}rocm-archs = ['gfx942']\n")
    }
    assert len(configs) == 4


def _refused(flags: list[str]) -> list[str]:
    span = Source("build.toml", "").span(0, 1)
    findings = Findings({}, span)
    read_hip_flags(findings, tuple(Located(value=flag, span=span) for flag in flags))
    return [f"{diagnostic.message} {diagnostic.help}" for diagnostic in findings.diagnostics()]


@pytest.mark.parametrize(
    "flags",
    [
        ["-O3", "-DX=1", "-ffast-math", "-munsafe-fp-atomics", "-mno-cumode", "-mwavefrontsize64", "-Wno-unused-value"],
        ["-fgpu-flush-denormals-to-zero", "-fno-hip-fp32-correctly-rounded-divide-sqrt", "-fgpu-inline-threshold=100"],
        ["-fno-gpu-rdc"],
        ["-mllvm", "-amdgpu-early-inline-all=true", "-mllvm", "-amdgpu-function-calls=false"],
    ],
)
def test_flags_that_are_admitted(flags: list[str]) -> None:
    assert _refused(flags) == []


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--offload-arch=gfx942", "list the archs in `rocm-archs`"),
        ("-fgpu-rdc", "device code of HIP is not linked: define what a kernel calls in its own file"),
        ("-mcpu=native", "name the instruction set"),
        ("-mcpu=gfx942", "list the archs in `rocm-archs`"),
        ("-mfpmath=sse", ""),
        ("--rocm-path=/opt/rocm", ""),
        ("-I/opt/rocm/include", "list the directory in `include`"),
        ("--use_fast_math", ""),
        ("-Xpreprocessor", ""),
    ],
)
def test_flags_that_are_refused(flag: str, said: str) -> None:
    [found] = _refused([flag])
    assert found.startswith(f"the flag `{flag}` is not admitted in hip-flags")
    assert said in found


@pytest.mark.parametrize("flags", [["-mllvm"], ["-mllvm", "-load=x.so"], ["-mllvm", "-O3"]])
def test_what_llvm_is_given_is_looked_at(flags: list[str]) -> None:
    assert len(_refused(flags)) == 1


def test_archives_of_a_variant() -> None:
    found = {entry.name: entry for entry in Releases().lock.entries_for([parse(VARIANT)])}
    assert {"libamdhip64-dev", "rocm-device-libs-22", "libclang-common-22-dev", "python3.11-minimal", "torch"} <= set(
        found
    )
    assert not [name for name in found if "nvidia" in name]
    zigs = [entry.version for entry in Releases().lock.entries_for([parse(VARIANT)]) if entry.name == "ziglang"]
    assert zigs == [Releases().lock.parts["cc"]["default"], Releases().lock.parts["rocm"]["7.2"]["host"]]
    assert not [
        entry
        for entry in Releases().lock.entries_for([parse("torch213-cxx11-cu130-x86_64-linux")])
        if "hip" in entry.name
    ]


def _actions(made: Plan, **files: bytes) -> list[ExpectedAction]:
    """The actions of the section in CONFIGURATION; files are empty but for those given, by name without directory."""
    torch = {release.version: release.cxx_standard for release in Releases().matrix.torch}
    settings = Settings(
        split=True, whole=(), needed=True, gcc=False, compress="", standards=torch, toolchains={}, rules=""
    )
    names = {name for identity in made.identities for name in identity.files}
    contents = {name: files.get(Path(name).stem, b"") for name in names}
    chosen = [variant for variant in made.variants if variant.name == VARIANT]
    return [action for action in expected_actions(made, chosen, contents, settings) if action.section == "r"]


def test_actions_of_a_source(tmp_path: Path) -> None:
    archs = 'rocm-archs = ["gfx90a", "gfx1100"]\n'
    each = [(mnemonic, arch) for arch in ("gfx90a", "gfx1100") for mnemonic in MNEMONICS]
    rest = [("HipBundle", None), ("HipPreprocess", None), ("HipHostCompile", None)]
    found = [(action.mnemonic, action.arch) for action in _actions(plan(tmp_path, ROCM + archs))]
    assert found == [*each, *rest]


def test_every_source_of_a_section_is_read_with_the_others(tmp_path: Path) -> None:
    section = ROCM.replace('"g/a.cu"', '"g/a.cu", "g/b.cu"')
    made = plan(tmp_path, section)
    before, after = ({action.place: action.reads for action in _actions(made, a=text)} for text in (b"", b"int i;"))
    new = {key.split("|")[2] for key in before if key.startswith("r|g/b.cu") and before[key] != after[key]}
    assert new == {"HipPreprocess"}


def test_cutlass_is_for_cuda_alone(tmp_path: Path) -> None:
    text = GENERAL.replace('"cpu", "cuda"', '"rocm"') + TORCH + ROCM.replace("[]", '["cutlass_3_6"]', 1)
    [found] = failure(tmp_path, text).diagnostics
    assert (found.code, found.message) == (Code.UNSUPPORTED, "CUTLASS is for CUDA only")


def test_actions_are_told_by_what_they_make() -> None:
    directory = "bazel-out/k8/bin/p/r.objects/g/a.cu"
    spelled = f"{directory}.phases/gfx942_srameccp_xnackm/device.s"
    action = VariantAction(variant="v", path=spelled, key="", did=Did.RUN, seconds=0.0, spawn=None)
    assert place_of(action, "bazel-out/k8/bin/p/v", {spelled}).arch == "gfx942:sramecc+:xnack-"
    files = {f"gfx90a/device.{kind}" for kind in ("hipi", "s", "o", "co")} | {"bundle.o", "host.hipi"}
    paths = {f"{directory}.phases/{name}" for name in files} | {f"{directory}.o"}
    found = []
    for path in paths:
        action = VariantAction(variant="v", path=path, key="", did=Did.RUN, seconds=0.0, spawn=None)
        place = place_of(action, "bazel-out/k8/bin/p/v", paths)
        assert (place.section, place.source) == ("r", "g/a.cu")
        found.append((place.mnemonic, place.arch))
    rest = [("HipBundle", None), ("HipPreprocess", None), ("HipHostCompile", None)]
    assert sorted(found, key=str) == sorted([*((mnemonic, "gfx90a") for mnemonic in MNEMONICS), *rest], key=str)
