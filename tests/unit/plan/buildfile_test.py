"""From a project to its plan and its BUILD.bazel."""

from __future__ import annotations

import ast
import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sections import CPU, CUDA, GENERAL, TORCH, failure, make, names

from py_driver import __version__
from py_driver.errors import Code
from py_driver.matrix.configurations import spell
from py_driver.matrix.installation import label_prefix, module_root
from py_driver.matrix.releases import Releases
from py_driver.plan.buildfile import HEADER, quote, render

ROOT = Path(__file__).parents[3]


def test_plan_of_both_backends(tmp_path: Path) -> None:
    plan = make(tmp_path, GENERAL + TORCH + CUDA + CPU)
    configurations = [
        (configuration, default)
        for configuration, default in Releases().matrix.configurations()
        if configuration.family in {"cpu", "cuda"}
    ]
    assert names(plan) == [spell(configuration) for configuration, _ in configurations]
    assert [variant.default for variant in plan.variants] == [default for _, default in configurations]
    assert plan.python == ("torch-ext/re_lu/__init__.py", "torch-ext/re_lu/sub/x.py")
    groups = {group.name: group for group in plan.groups}
    assert groups["g"].sources == ("g/a.cu", "g/b.cu")
    assert groups["g"].headers == ("g/z.cuh",)
    assert groups["binding_cuda"].headers == ("g/z.cuh", "torch-ext/b.h")
    assert groups["binding_cpu"].headers == ("torch-ext/b.h",)
    assert (groups["c"].depends, groups["g"].depends) == ((), ("torch",))
    metadata = plan.variants[1].metadata
    assert metadata["name"] == "re-lu"
    assert metadata["backend"]["archs"][:2] == ["10.0", "11.0"]
    assert plan.identities[1].files == (
        "g/a.cu", "g/b.cu", "g/z.cuh", "torch-ext/b.cpp", "torch-ext/b.h", *plan.python
    )  # fmt: skip


def test_bounds_leave_variants_out_with_a_reason(tmp_path: Path) -> None:
    text = GENERAL + "[general.cuda]\nmaxver = '13.0'\n" + TORCH + "minver = '2.13'\nmaxver = '2.13'\n" + CUDA + CPU
    plan = make(tmp_path, text)
    here = [f"torch213-cxx11-{backend}-x86_64-linux" for backend in ("cpu", "cu130", "cu126")]
    assert names(plan) == [*here, *(f"torch213-cxx11-{backend}-aarch64-linux" for backend in ("cpu", "cu130"))]
    reasons = {exclusion.reason for exclusion in plan.excluded}
    assert reasons == {"CUDA must be at most 13.0", "torch must be at least 2.13 and at most 2.13"}


def test_cuda_minver_leaves_a_section_out(tmp_path: Path) -> None:
    other = CUDA.replace("kernel.g", "kernel.h").replace("g/a.cu", "h.cu") + "cuda-minver = '13.2'\n"
    (tmp_path / "h.cu").touch()
    other = other.replace('"g/b.cu", ', "")
    plan = make(tmp_path, GENERAL + TORCH + CUDA + other + CPU)
    objects = {variant.name: variant.groups for variant in plan.variants}
    assert objects["torch213-cxx11-cu130-x86_64-linux"] == ("binding_cuda", "g")
    assert objects["torch213-cxx11-cu132-x86_64-linux"] == ("binding_cuda", "g", "h")
    assert list(next(group for group in plan.groups if group.name == "h").archs) == ["cu132", "cu135"]
    alone = make(tmp_path, GENERAL + TORCH + other + CPU)
    assert {variant.configuration.backend for variant in alone.variants} == {"cpu", "cu132", "cu135"}


def test_noarch_variants(tmp_path: Path) -> None:
    mixed = make(tmp_path, GENERAL + TORCH + CPU)
    assert names(mixed)[-1] == "torch215-cxx11-cpu-aarch64-linux"
    assert [variant.name for variant in mixed.variants if variant.default][-1] == "torch-cuda"
    plan = make(tmp_path, GENERAL + '[torch-noarch]\ncuda_capabilities = ["9.0", "10.0"]\n')
    assert names(plan) == ["torch-cpu", "torch-cuda"]
    assert plan.variants[1].metadata["backend"] == {"type": "cuda", "archs": ["10.0", "9.0"]}
    universal = make(tmp_path, '[general]\nname = "re_lu"\n[torch]\nuniversal = true\npyext = ["py", "json"]\n')
    assert names(universal) == ["torch-universal"]
    assert universal.python[1] == "torch-ext/re_lu/data.json"
    assert universal.variants[0].metadata["license"] == "unknown"
    text = render(universal, "")
    assert 'load("//rules:defs.bzl", "kernel_bundle", "kernel_id", "kernel_variant")' in text
    assert 'backend = "universal"' in text


def test_seed_form_builds_cuda_only(tmp_path: Path) -> None:
    seed = '[kernel.g]\ndepends = []\nsrc = ["g/a.cu"]\ncuda-capabilities = ["8.0"]\n'
    plan = make(tmp_path, '[general]\nname = "re_lu"\n' + TORCH + seed)
    assert {variant.configuration.family for variant in plan.variants} == {"cuda"}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (GENERAL + TORCH.replace(', "torch-ext/b.cpp"', "") + CUDA, Code.MISSING_KEY),
        (GENERAL + TORCH + CUDA + "cuda-capabilities = ['5.0']\n", Code.EMPTY_ARCHS),
        (GENERAL + TORCH + "minver = '3.0'\n" + CUDA + CPU, Code.NO_VARIANTS),
        (GENERAL.replace('"cpu", "cuda"', '"xpu"') + TORCH, Code.NO_VARIANTS),
        (GENERAL + TORCH + CPU.replace("c.cpp", "g/a.cu"), Code.FILE_KIND),
        (GENERAL + TORCH + CPU.replace('["g"]', '["c.cpp"]'), Code.FILE_KIND),
        (GENERAL + TORCH + CPU.replace('["g"]', '["nowhere"]'), Code.FILE_MISSING),
    ],
)
def test_plans_that_fail(tmp_path: Path, text: str, code: Code) -> None:
    assert {diagnostic.code for diagnostic in failure(tmp_path, text).diagnostics} == {code}


def test_links_in_the_package(tmp_path: Path) -> None:
    project, outside = tmp_path / "p", tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    (outside / "secret.py").touch()
    text = GENERAL + TORCH + CPU
    make(project, text)
    package = project / "torch-ext" / "re_lu"
    for link, target, code in [
        ("a.py", outside / "secret.py", Code.PATH_ESCAPES),
        ("loop.py", package / "loop.py", Code.FILE_MISSING),
        ("folder", package / "sub", Code.FILE_KIND),
    ]:
        (package / link).symlink_to(target)
        assert [diagnostic.code for diagnostic in failure(project, text).diagnostics] == [code]
        (package / link).unlink()
    (package / "same.py").symlink_to("__init__.py")
    assert "torch-ext/re_lu/same.py" in make(project, text).python
    (package / "sub" / "BUILD.bazel").touch()
    assert Code.FOREIGN_FILE in [note.code for note in make(project, text).notes]


def test_compiled_python_is_not_shipped(tmp_path: Path) -> None:
    text = GENERAL + TORCH.replace("[torch]\n", '[torch]\npyext = ["py", "pyc"]\n') + CPU
    make(tmp_path, text)
    package = tmp_path / "torch-ext" / "re_lu"
    (package / "__pycache__").mkdir(exist_ok=True)
    (package / "__pycache__" / "y.cpython-311.pyc").touch()
    assert not [name for name in make(tmp_path, text).python if name.endswith(".pyc")]
    (package / "y.pyc").touch()
    [found] = failure(tmp_path, text).diagnostics
    assert found.code is Code.FILE_KIND
    assert found.message.startswith("`torch-ext/re_lu/y.pyc` is compiled Python")


def test_order_of_sources_and_sections_means_nothing(tmp_path: Path) -> None:
    one = render(make(tmp_path, GENERAL + TORCH + CUDA + CPU), "")
    shuffled = CUDA.replace('["g/z.cuh", "g/b.cu", "g/a.cu"]', '["g/a.cu", "g/z.cuh", "g/b.cu"]')
    assert render(make(tmp_path, GENERAL + TORCH + shuffled + CPU), "") == one
    assert render(make(tmp_path, GENERAL + TORCH + CPU + CUDA), "") == one


def test_config_follows_what_is_compiled(tmp_path: Path) -> None:
    def configs(text: str) -> dict[str, str]:
        return {identity.backend: identity.config for identity in make(tmp_path, text).identities}

    base = configs(GENERAL + TORCH + CUDA + CPU)
    flag = configs(GENERAL + TORCH + CUDA.replace("-DX", "-DY") + CPU)
    assert (flag["cpu"] == base["cpu"], flag["cuda"] == base["cuda"]) == (True, False)
    assert configs(GENERAL + TORCH + "minver = '2.13'\n" + CUDA + CPU) == base
    assert configs(GENERAL.replace("version = 2", "version = 3") + TORCH + CUDA + CPU).items().isdisjoint(base.items())


def test_text_is_python_with_these_calls(tmp_path: Path) -> None:
    text = render(make(tmp_path, GENERAL + TORCH + CUDA + CPU), "@rules_torch_kernels")
    assert text.startswith(HEADER + "\n")
    assert 'load("@rules_torch_kernels//rules:defs.bzl",' in text
    calls = [node.value for node in ast.parse(text).body if isinstance(node, ast.Expr)]
    attributes = [
        {word.arg: ast.literal_eval(word.value) for word in call.keywords}
        for call in calls
        if isinstance(call, ast.Call)
    ]
    named = {attribute["name"]: attribute for attribute in attributes if "name" in attribute}
    group = named["g"]
    assert group["cuda_flags"] == ['-DX="é"']
    assert set(group["archs"]) == {release.backend for release in Releases().matrix.toolkits_of("cuda")}
    assert "depends" not in named["c"]
    variant = named["torch211-cxx11-cu130-x86_64-linux"]
    assert variant["tags"] == ["manual"]
    assert variant["objects"] == [":binding_cuda", ":g"]
    assert json.loads(variant["metadata"])["backend"]["type"] == "cuda"
    assert len(named["all_variants"]["variants"]) == 6
    references = {
        label for attribute in attributes for label in [attribute.get("id"), *attribute.get("objects", [])] if label
    }
    assert {label.removeprefix(":") for label in references} <= set(named)


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_quote_round_trips(text: str) -> None:
    literal = quote(text)
    assert ast.literal_eval(literal) == text
    assert "\n" not in literal


def test_prefix_follows_the_module(tmp_path: Path) -> None:
    assert label_prefix(tmp_path) == "@rules_torch_kernels"
    if (ROOT / "MODULE.bazel").exists():
        assert label_prefix(ROOT / "examples") == ""
    assert module_root() == ROOT


def test_one_version_everywhere() -> None:
    assert f'VERSION = "{__version__}"' in (ROOT / "rules/private/version.bzl").read_text()
    assert f'    version = "{__version__}",\n' in (ROOT / "MODULE.bazel").read_text()
    for user in ("tests/e2e/smoke/MODULE.bazel", "docs/start.md"):
        text = (ROOT / user).read_text()
        assert f'bazel_dep(name = "rules_torch_kernels", version = "{__version__}")\n' in text, user


def test_suffixes_are_sorted_as_buildifier_does(tmp_path: Path) -> None:
    files = ["B.cu", "a.cu", "a-b.cu", "a/b.cu", "a10.cu", "a2.cu", "a_b.cu"]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    shuffled = random.Random(1).sample(files, len(files))  # noqa: S311  (a fixed shuffle)
    listed = ", ".join(f'"{name}"' for name in shuffled)
    text = GENERAL + TORCH + f'[kernel.g]\nbackend = "cuda"\ndepends = []\nsrc = [{listed}]\n'
    rendered = render(make(tmp_path, text), "")
    block = rendered.partition('name = "g",\n    srcs = [\n')[2].partition("]")[0]
    assert [line.strip()[1:-2] for line in block.strip().splitlines()] == files


def test_group_includes_from_the_directories_of_its_own_files(tmp_path: Path) -> None:
    plan = make(tmp_path, GENERAL + TORCH + "include = ['g']\n" + CUDA + CPU)
    includes = {group.name: group.includes for group in plan.groups}
    assert includes["binding_cuda"] == ("g",)
    assert includes["binding_cpu"] == ()
