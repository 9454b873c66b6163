"""What values of a build.toml say together."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from relu import MANIFEST, codes, notes, plan, write

from py_driver import __main__
from py_driver.errors import Code, DriverError
from py_driver.matrix.releases import Releases
from py_driver.plan.plan import plan_directory

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write(tmp_path)


def test_a_good_project_has_no_notes(project: Path) -> None:
    assert notes(project) == []


def test_backends_and_sections_that_disagree(project: Path) -> None:
    assert notes(project, '["cuda"]', '["cuda", "cpu"]') == [
        "no [kernel.*] section is for `cpu`: torch-cpu will have Python files only, not `torch-ext/binding.cpp`"
    ]
    assert "torch-cpu" in [variant.name for variant in plan(project, '["cuda"]', '["cuda", "cpu"]').variants]
    metal = '[kernel.m]\nbackend = "metal"\ndepends = []\nsrc = ["csrc/other.metal"]\n[kernel.relu]'
    assert notes(project, "[kernel.relu]", metal) == [
        "[kernel.m] is excluded: `backends` in [general] does not list `metal`"
    ]
    assert notes(project, '["cuda"]', '["cuda", "xpu"]') == [
        "the backend `xpu` is excluded: the driver does not build it yet"
    ]
    noarch = MANIFEST[MANIFEST.index("[torch]") : MANIFEST.index("[kernel.relu]")]
    assert notes(project, noarch, "[torch-noarch]\n") == [
        "[kernel.relu] is excluded: the project has Python files only"
    ]


def test_paths_with_commas_are_refused_where_nvcc_splits_them(project: Path) -> None:
    (project / "csrc" / "d,e").mkdir()
    for name in ("a,b.cu", "a,b.h", "a,b.cpp", "d,e/c.h"):
        (project / "csrc" / name).touch()
    old = 'include = ["."]\nsrc = ["csrc/relu.cu", "csrc/relu.h"]'
    new = 'include = [".", "csrc/d,e"]\nsrc = ["csrc/a,b.cu", "csrc/relu.h", "csrc/a,b.h", "csrc/d,e/c.h"]'
    with pytest.raises(DriverError) as caught:
        plan(project, old, new)
    assert [(diagnostic.code, diagnostic.message) for diagnostic in caught.value.diagnostics] == [
        (Code.BAD_VALUE, "the path `csrc/d,e` has a comma, at which nvcc splits it"),
        (Code.BAD_VALUE, "the path `csrc/a,b.cu` has a comma, at which nvcc splits it"),
    ]
    cpu = f'[kernel.c]\nbackend = "cpu"\ndepends = []\n{new.replace(".cu", ".cpp")}\n[kernel.relu]'
    text = MANIFEST.replace('["cuda"]', '["cpu", "cuda"]').replace("[kernel.relu]", cpu)
    (project / "build.toml").write_text(text, encoding="utf-8")
    groups = {group.name: group for group in plan_directory(project, Releases()).groups}
    assert (groups["c"].sources, groups["c"].includes) == (("csrc/a,b.cpp",), (".", "csrc/d,e"))


@pytest.mark.parametrize(
    ("backend", "files"), [("metal", '"csrc/gone.metal", "csrc"'), ("cpu", '"../x.cpp", "csrc/gone.h"')]
)
def test_files_of_sections_that_are_not_built_may_be_wrong(project: Path, backend: str, files: str) -> None:
    section = f'[kernel.m]\nbackend = "{backend}"\ndepends = []\nsrc = [{files}]\n[kernel.relu]'
    made = plan(project, "[kernel.relu]", section)
    found = [note for note in made.notes if "the section is not built" in note.message]
    assert [diagnostic.code for diagnostic in found] == (
        [Code.FILE_MISSING, Code.FILE_KIND] if backend == "metal" else [Code.PATH_ESCAPES, Code.FILE_MISSING]
    )
    assert not any("gone" in name or ".." in name for group in made.groups for name in group.headers)


def test_a_shared_source_finds_what_any_of_its_sections_finds(project: Path) -> None:
    (project / "inc").mkdir()
    (project / "inc" / "x.h").touch()
    (project / "csrc" / "relu.cu").write_text('#include "inc/x.h"\n')
    other = '[kernel.more]\nbackend = "cuda"\ndepends = []\nsrc = ["csrc/relu.cu", "csrc/relu.h", "inc/x.h"]\n'
    text = MANIFEST.replace('include = ["."]\nsrc = ["csrc', 'src = ["csrc') + other
    (project / "build.toml").write_text(text)
    with pytest.raises(DriverError):
        plan_directory(project, Releases())
    (project / "build.toml").write_text(text + 'include = ["."]\n')
    shared = [group for group in plan_directory(project, Releases()).groups if "csrc/relu.cu" in group.sources]
    assert [(group.includes, "inc/x.h" in group.headers) for group in shared] == [((".",), True)]


def test_the_order_of_sections_counts_where_they_share_a_source(project: Path) -> None:
    section = '[kernel.NAME]\nbackend = "cuda"\ndepends = []\nsrc = ["SRC", "csrc/relu.h"]\ncuda-flags = ["-DX=NAME"]\n'
    (project / "csrc" / "one.cu").touch()
    start = MANIFEST[: MANIFEST.index("[kernel.relu]")]
    ids = []
    for source in ("csrc/relu.cu", "csrc/one.cu"):
        for names in ("ab", "ba"):
            sections = {"a": section.replace("SRC", "csrc/relu.cu"), "b": section.replace("SRC", source)}
            text = start + "".join(sections[name].replace("NAME", name) for name in names)
            (project / "build.toml").write_text(text, encoding="utf-8")
            ids.append(plan_directory(project, Releases()).identities[0].settings)
    assert ids[0] != ids[1]
    assert ids[2] == ids[3]


def test_nobody_looks_at_sections_for_other_backends(project: Path) -> None:
    cpu = (
        '[kernel.c]\nbackend = "cpu"\ndepends = []\ncxx-flags = ["-march=native"]\nsrc = ["csrc/a,b.cu"]\n[kernel.relu]'
    )
    (project / "csrc" / "a,b.cu").touch()
    assert "the backend" not in " ".join(notes(project, "[kernel.relu]", cpu))


def test_gencode_adds_to_the_architectures(project: Path) -> None:
    flags = (
        'depends = []\ncuda-flags = ["-gencode", "arch=compute_90a,code=sm_90a", "-gencode=arch=compute_50,code=sm_50"]'
    )
    [usual] = [group for group in plan(project).groups if group.name == "relu"]
    [group] = [group for group in plan(project, "depends = []", flags).groups if group.name == "relu"]
    archs = group.archs["cu130"]
    assert {*archs.kept} == {*usual.archs["cu130"].kept, "9.0a"}
    assert "5.0" in [exclusion.arch for exclusion in archs.dropped]
    assert group.cuda_flags == ()


def test_ops_outside_the_namespace_are_noted(project: Path) -> None:
    package = project / "torch-ext" / "relu" / "__init__.py"
    package.write_text(
        "import torch\nfrom torch.library import custom_op as custom_op\n"
        '@custom_op("é::b", mutates_args=())\ndef b(x: int) -> int: ...\n'
        'torch.library.register_fake(add("b"))(b)\ntorch.library.register_fake("a::c", b)\nprint("a::d")\n'
        'torch.library.impl("aten::add.Tensor", "CPU")\n'
    )
    found = [note for note in plan(project).notes if note.code is Code.OP_NAMESPACE]
    assert [(diagnostic.span.line, diagnostic.span.column, diagnostic.span.text[:12]) for diagnostic in found] == [
        (3, 12, '@custom_op("'),
        (6, 29, "torch.librar"),
    ]
    package.write_text("torch.library.custom_op('a::b'")
    assert [note for note in plan(project).notes if note.code is Code.OP_NAMESPACE] == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("depends = []", 'depends = ["cutlass_2_10", "sycl_tla"]', [Code.UNSUPPORTED] * 2),
        ("[torch]", '[torch]\nstable-abi = { cuda = "2.8", cpu = "1.0" }', [Code.BAD_VALUE]),
        ("[torch]", '[torch]\nstable-abi = "2.9.1"', [Code.BAD_VALUE]),
        ("[torch]", '[torch]\nstable-abi = "9.9"', [Code.NO_VARIANTS]),
        ("depends = []", 'depends = []\ncuda-capabilities = ["8.4", "9.0f"]', [Code.UNKNOWN_ARCH] * 2),
        ("depends = []", 'depends = []\ncuda-capabilities = ["7.0", "5.0"]', [Code.EMPTY_ARCHS]),
        ("depends = []", 'depends = []\ncuda-capabilities = ["7.0"]\ncuda-minver = "13.2"', [Code.EMPTY_ARCHS]),
        ("torch-ext/binding.cpp", "csrc/relu.h", [Code.MISSING_KEY]),
        ('src = ["torch-ext/binding.cpp"]\n', "", [Code.MISSING_KEY]),
        ('src = ["torch-ext/binding.cpp"]', 'src = []\nminvre = "2.11"', [Code.UNKNOWN_KEY, Code.MISSING_KEY]),
        ('["torch-ext/binding.cpp"]', "[7]", [Code.WRONG_TYPE]),
        ('["csrc/relu.cu", "csrc/relu.h"]', "[]", [Code.MISSING_KEY, Code.UNLISTED_HEADER]),
        ('["csrc/relu.cu", "csrc/relu.h"]', "7", [Code.WRONG_TYPE, Code.UNLISTED_HEADER]),
        ("[torch]", '[torch]\npyext = ["json"]', [Code.BAD_VALUE]),
        ("[torch]", "[torch]\npyext = []", [Code.BAD_VALUE]),
        ("[torch]", '[torch]\npyext = ["json", "p y"]', [Code.BAD_VALUE]),
        ("csrc/relu.cu", "csrc/Relu.cu", [Code.FILE_MISSING]),
    ],
)
def test_what_is_wrong_with_a_manifest_as_a_whole(project: Path, old: str, new: str, expected: list[Code]) -> None:
    assert sorted(codes(project, old, new), key=lambda one: one.number) == expected


def test_a_stable_abi_for_a_backend_that_is_not_asked_for_is_ignored(project: Path) -> None:
    assert notes(project, "[torch]", '[torch]\nstable-abi = { cpu = "2.10" }') == []


def test_errors_of_values_and_of_files_come_together(project: Path) -> None:
    text = MANIFEST.replace("csrc/relu.cu", "csrc/gone.cu").replace('"mit"', "7").replace("depends = []", "depend = []")
    (project / "build.toml").write_text(text, encoding="utf-8")
    with pytest.raises(DriverError) as caught:
        plan_directory(project, Releases())
    found = [diagnostic.code for diagnostic in caught.value.diagnostics]
    assert found == [Code.WRONG_TYPE, Code.UNKNOWN_KEY, Code.FILE_MISSING]


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('src = ["csrc/relu.cu"', 'src = ["csrc/relu.cu", "csrc/relu.cu"', Code.DUPLICATE_FILE),
        ('src = ["csrc/relu.cu"', 'src = ["csrc/other.metal", "csrc/relu.cu"', Code.FILE_KIND),
        ('["csrc/relu.cu", "csrc/relu.h"]', '["csrc/relu.h"]', Code.MISSING_KEY),
        ("depends = []", 'depends = []\ncuda-capabilities = ["8.0", "8.4"]', Code.UNKNOWN_ARCH),
    ],
)
def test_what_upstream_takes_is_an_error_only_if_that_is_asked_for(
    project: Path, old: str, new: str, code: Code, capsys: pytest.CaptureFixture[str]
) -> None:
    made = plan(project, old, new)
    assert [note.code for note in made.notes] == [code]
    assert len(made.variants) > 1
    assert __main__.main(["check", str(project)]) == 0
    assert __main__.main(["check", "--strict", str(project)]) == code.exit_code
    assert f"error[{code.number}]: {made.notes[0].message}" in capsys.readouterr().err


def test_the_id_tells_which_release_a_section_gets_that_names_none(project: Path) -> None:
    names = ("cutlass_3_6", "cutlass_4_0")
    (project / "csrc/other.cu").write_text("#include <cutlass/cutlass.h>\n", encoding="utf-8")
    (project / "csrc/more.cu").touch()
    made = []
    for first, second in (names, names[::-1]):
        text = MANIFEST.replace("depends = []", f'depends = ["{first}"]')
        text += f'[kernel.z]\nbackend = "cuda"\ndepends = ["{second}"]\nsrc = ["csrc/more.cu"]\n'
        text += '[kernel.other]\nbackend = "cuda"\ndepends = []\nsrc = ["csrc/other.cu"]\n'
        (project / "build.toml").write_text(text, encoding="utf-8")
        made.append(plan_directory(project, Releases()))
    assert [next(group.depends for group in one.groups if group.name == "other") for one in made] == [(names[0],)] * 2
    assert made[0].identities[0].settings["implied-depends"] == {"other": (names[0],)}


def test_a_longer_cuda_minver_admits_its_release(project: Path) -> None:
    same = [variant.name for variant in plan(project, "depends = []", 'depends = []\ncuda-minver = "13.0"').variants]
    assert "torch213-cxx11-cu130-x86_64-linux" in same
    assert [
        variant.name for variant in plan(project, "depends = []", 'depends = []\ncuda-minver = "13.0.0"').variants
    ] == same
    archs = 'depends = []\ncuda-capabilities = ["5.0"]\ncuda-minver = "13.0.0"'
    assert Code.EMPTY_ARCHS in codes(project, "depends = []", archs)


def test_a_name_that_is_not_there_has_no_package(project: Path) -> None:
    (project / "build.toml").write_text("general = 1\n" + MANIFEST[MANIFEST.index("[torch]") :], encoding="utf-8")
    with pytest.raises(DriverError) as caught:
        plan_directory(project, Releases())
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == [Code.WRONG_TYPE]


def test_check_passes_what_cannot_be_built_here(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = MANIFEST.replace('backends = ["cuda"]', 'backends = ["xpu"]').replace("edition = 5\n", "")
    (project / "build.toml").write_text(text, encoding="utf-8")
    assert __main__.main(["check", str(project)]) == 0
    error = capsys.readouterr().err
    assert "note: " in error
    assert "nothing to build for `relu`" in error
    assert "build.toml is valid: edition 4, 0 variants; `driver upgrade` writes edition 5" in error
    assert __main__.main(["variants", str(project)]) == 3


def test_check_as_json(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["check", "--json", str(project)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["edition"], answer["errors"], answer["notes"]) == (5, [], [])
    assert answer["variants"] == [variant.name for variant in plan(project).variants]
    (project / "build.toml").write_text(MANIFEST.replace("relu.cu", "rely.cu"), encoding="utf-8")
    assert __main__.main(["check", "--json", str(project)]) == 2
    captured = capsys.readouterr()
    (found,) = json.loads(captured.out)["errors"]
    assert found == {
        "code": "E101",
        "name": "file-missing",
        "message": "there is no file `csrc/rely.cu`",
        "file": str(project / "build.toml"),
        "line": 16,
        "column": 8,
        "length": 14,
        "label": "did you mean `csrc/relu.cu`?",
        "help": "",
    }
    assert "error[E101]" in captured.err


@pytest.mark.parametrize("verb", ["check", "variants", "gen"])
def test_strict_archs(project: Path, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = MANIFEST + 'cuda-capabilities = ["7.0", "8.0", "9.0", "9.0a"]\n'
    (project / "build.toml").write_text(text, encoding="utf-8")
    assert __main__.main([verb, str(project)]) == 0
    capsys.readouterr()
    assert __main__.main([verb, "--strict-archs", str(project)]) == 2
    assert capsys.readouterr().err.count("error[E204]") == 2
    (project / "build.toml").write_text(MANIFEST, encoding="utf-8")
    assert __main__.main([verb, "--strict-archs", str(project)]) == 0


@pytest.mark.parametrize("verb", [["publish", "--repo-id=me/relu", "--dry-run"], ["wheel"]])
def test_strict_archs_of_what_is_built(project: Path, verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    text = MANIFEST + 'cuda-capabilities = ["7.0", "8.0"]\n'
    (project / "build.toml").write_text(text, encoding="utf-8")
    assert __main__.main([*verb, "--strict-archs", str(project)]) == 2
    assert capsys.readouterr().err.count("error[E204]") == 1
    assert __main__.main([*verb, str(project)]) != 0
    assert "error[E204]" not in capsys.readouterr().err
