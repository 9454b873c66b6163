"""The releases that `driver stable --fix --build` compiles against, and what it says of builds that differ."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from py_driver.errors import Code, DriverError
from py_driver.inspecting.release_facts import LibraryFacts, ReleaseFacts
from py_driver.inspecting.stable_build import cpu_releases, differences, unloadable
from py_driver.matrix.releases import Releases
from py_driver.plan.overrides import compiled_against
from py_driver.plan.plan import plan_directory

_PROJECTS = Path(__file__).parents[2] / "e2e" / "projects"
_NONE = frozenset[str]()


def _with(project: Path, line: str) -> Path:
    """A project with a further line in [torch]."""
    shutil.copytree(_PROJECTS / "portable", project)
    manifest = project / "build.toml"
    manifest.write_text(manifest.read_text().replace("[torch]\n", f"[torch]\n{line}\n"))
    return project


def test_the_releases_are_those_of_the_project(tmp_path: Path) -> None:
    every = cpu_releases(_PROJECTS / "portable", Releases(), "2.10")
    assert (every[0], every[-1]) == ("2.10", "2.15")
    assert cpu_releases(_PROJECTS / "portable_ext", Releases(), "2.10") == every
    bounded = _with(tmp_path / "a", 'maxver = "2.13"')
    assert cpu_releases(bounded, Releases(), "2.10")[-1] == "2.13"
    assert cpu_releases(_with(tmp_path / "b", 'stable-abi = "2.12"'), Releases(), "2.10")[0] == "2.12"
    with pytest.raises(DriverError) as caught:
        cpu_releases(bounded, Releases(), "2.14")
    assert caught.value.diagnostics[0].code is Code.NO_SUCH_VARIANT


def test_a_stable_variant_is_compiled_against_another_release_under_another_id(tmp_path: Path) -> None:
    plan = plan_directory(_with(tmp_path / "a", 'stable-abi = "2.10"'), Releases())
    changed = compiled_against(plan, "cpu", "2.10")
    assert {variant.needs.torch for variant in plan.variants} == {"2.15"}
    assert {variant.needs.torch for variant in changed.variants} == {"2.10"}
    assert [identity.config for identity in plan.identities] != [identity.config for identity in changed.identities]
    plain = plan_directory(_PROJECTS / "portable", Releases())
    assert compiled_against(plain, "cpu", "2.10") == plain


def _facts(*exports: str, loads: tuple[str, ...] = ()) -> ReleaseFacts:
    library = LibraryFacts(1, _NONE, frozenset(exports), _NONE, _NONE, _NONE, _NONE, {}, frozenset(loads))
    return ReleaseFacts("1", {}, {"x.so": library}, {})


def test_exports_of_torch_s_headers_do_not_count() -> None:
    old = _facts("mine", "_ZN2at6TensorD2Ev", "_Z1fRKN3c108ArrayRefIlEE")
    assert [*differences(old, _facts("mine"))] == []
    assert [*differences(old, _facts())] == ["the export x.so: mine is gone"]
    assert [*differences(_facts(), old)] == ["the export x.so: mine is new"]


def test_a_library_has_to_load_with_all_later_releases() -> None:
    facts = _facts(loads=("torch 2.10 cxx11 cpu", "torch 2.12 cxx11 cpu"))
    assert [*unloadable(facts, ("2.10", "2.12"))] == []
    assert [*unloadable(facts, ("2.10", "2.11", "2.12"))] == [
        "x.so, compiled against torch 2.10, does not load with torch 2.11"
    ]
