"""Commands for several projects: which are meant, that one which fails stops no other, and the one exit code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sections import CPU, CUDA, GENERAL, TORCH, make

from py_driver import __main__
from py_driver.actions.estimate import estimate
from py_driver.actions.executed import VariantActions
from py_driver.authoring import example
from py_driver.building import build as building
from py_driver.building import installed_torch
from py_driver.errors import Code, error
from py_driver.plan.buildfile import HEADER
from py_driver.plan.projects import find_projects, is_project, projects_below
from py_driver.publishing import verify

METAL = '[kernel.m]\nbackend = "metal"\ndepends = []\nsrc = ["m.metal"]\n'
GOOD = ("a", "group/b")
CPU213 = "torch213-cxx11-cpu-x86_64-linux"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two projects that are right, one that is wrong, one that is for another backend, and what is no project."""
    for name in GOOD:
        make(tmp_path / name, GENERAL + TORCH + CPU + CUDA)
    for name in ("broken", "a/build/x", "group/.hidden", "a/third_party/y"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "build.toml").write_text("[general\n", encoding="utf-8")
    metal = GENERAL.replace('["cpu", "cuda"]', '["metal"]')
    shutil.copytree(tmp_path / "a", tmp_path / "metal", ignore=shutil.ignore_patterns("build", "third_party"))
    (tmp_path / "metal" / "m.metal").touch()
    (tmp_path / "metal" / "build.toml").write_text(metal + TORCH + METAL, encoding="utf-8")
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RULES_TORCH_KERNELS_BAZEL", "/none")
    return tmp_path


def git(*words: str) -> None:
    identity = {f"GIT_{who}_{what}": "me" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environ = {**os.environ, **identity, "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", *words], check=True, capture_output=True, env=environ)


def test_directories_that_cannot_be_read(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "loop").symlink_to("loop")
    assert __main__.main(["check", "loop", "a"]) == Code.PERMISSION.exit_code
    long = "x" * 250
    place = repository / "deep"
    place.mkdir()
    descriptor = os.open(place, os.O_RDONLY)
    for _ in range(20):
        os.mkdir(long, dir_fd=descriptor)
        below = os.open(long, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)
    assert __main__.main(["check", "deep", "a"]) == Code.PERMISSION.exit_code
    assert "cannot read deep/" in capsys.readouterr().err


@pytest.mark.usefixtures("repository")
def test_which_projects_are_meant() -> None:
    assert [*map(str, projects_below(Path()))] == ["a", "broken", "group/b", "metal"]
    assert [*map(str, find_projects([Path("group"), Path("a"), Path("./a"), Path("docs")]))] == ["group/b", "a", "docs"]
    assert is_project(Path("a"))
    assert not is_project(Path("group"))


@pytest.mark.usefixtures("repository")
def test_check_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["check", "."]) == 2
    said = capsys.readouterr().err
    assert "error[E001]" in said
    assert "--> broken/build.toml:1:" in said
    for name in GOOD:
        assert f"{name}/build.toml is valid: " in said
    assert said.splitlines()[-1] == "4 projects: 3 valid, 1 failed (broken)"


@pytest.mark.usefixtures("repository")
def test_check_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["check", "--json", "broken", "group"]) == 2
    broken, good = json.loads(capsys.readouterr().out)["projects"]
    assert (broken["directory"], [problem["code"] for problem in broken["errors"]]) == ("broken", ["E001"])
    assert (good["directory"], good["file"], good["errors"]) == ("group/b", "group/b/build.toml", [])
    assert CPU213 in good["variants"]


@pytest.mark.usefixtures("repository")
def test_one_directory_is_as_ever(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["check", "--json", "a"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == ["file", "edition", "variants", "notes", "errors"]
    assert __main__.main(["check", "--json", "docs"]) == 2
    assert [problem["code"] for problem in json.loads(capsys.readouterr().out)["errors"]] == ["E105"]


def test_gen_writes_the_files_of_several(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["gen", "."]) == 2
    said = capsys.readouterr().err
    assert "--> broken/build.toml:1:" in said
    assert said.splitlines()[-1] == "4 projects: 2 generated, 1 skipped, 1 failed (broken)"
    assert sorted(str(path.relative_to(repository)) for path in repository.rglob("BUILD.bazel")) == [
        f"{name}/BUILD.bazel" for name in GOOD
    ]
    assert __main__.main(["gen", "--check", *GOOD]) == 0
    (repository / "a" / "BUILD.bazel").write_text(f"{HEADER}\n")
    capsys.readouterr()
    assert __main__.main(["gen", "--check", *GOOD]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "2 projects: 1 up to date, 1 failed (a)"


@pytest.mark.usefixtures("repository")
def test_variants_of_several(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["variants", "a", "metal", "group/b", "--explain"]) == 0
    shown = capsys.readouterr()
    lines = [line.split() for line in shown.out.splitlines()]
    assert lines[0] == ["project", "variant", "default", "archs"]
    assert ["a", CPU213, "yes", "-"] in lines
    assert ["group/b", CPU213, "yes", "-"] in lines
    assert "metal is skipped: nothing to build for `re_lu`" in shown.err
    assert shown.err.splitlines()[-1] == "3 projects: 2 planned, 1 skipped"
    assert __main__.main(["variants", "--json", "a", "metal"]) == 0
    first, second = json.loads(capsys.readouterr().out)["projects"]
    assert (first["directory"], first["name"]) == ("a", "re_lu")
    assert [problem["code"] for problem in second["errors"]] == ["E202"]


def changed(*words: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    __main__.main(["check", "--json", "--changed-since", *words])
    return [project["directory"] for project in json.loads(capsys.readouterr().out)["projects"]]


def test_only_what_has_changed(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git("init", "-q")
    (repository / ".gitignore").write_text("ignored\n")
    git("add", "-A")
    git("commit", "-qm", "one")
    assert changed("HEAD", capsys=capsys) == []
    (repository / "a" / "c.cpp").write_text("int a;\n")
    (repository / "metal" / "build" / "new").mkdir(parents=True)
    (repository / "metal" / "build" / "new" / "x").touch()
    (repository / "metal" / "ignored").touch()
    (repository / "docs" / "page.md").touch()
    assert changed("HEAD", ".", capsys=capsys) == ["a"]
    git("commit", "-qam", "two")
    (repository / "group" / "b" / "new.py").touch()
    assert changed("HEAD", capsys=capsys) == ["group/b"]
    assert changed("HEAD~", capsys=capsys) == ["a", "group/b"]
    assert changed("HEAD~...HEAD", "a", "metal", capsys=capsys) == ["a"]
    assert changed("HEAD", "a", capsys=capsys) == []


@pytest.mark.parametrize("revision", ["nonsense", "--output=x"])
def test_no_such_commit(revision: str, repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git("init", "-q")
    assert __main__.main(["check", f"--changed-since={revision}"]) == 2
    assert "error[E200]: git cannot list the changes in a since" in capsys.readouterr().err
    assert not [path for path in repository.rglob("x") if path.is_file()]


def actions(run: int) -> VariantActions:
    return VariantActions(variant=CPU213, directory="", run=run, shared=0, cached=1, seconds=0.5)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The projects that were built, in their order, by a build that compiles nothing and fails for `group/b`."""
    done: list[str] = []

    def instead(projects: list[building.Prepared], *_others: object) -> dict[Path, building.Result]:
        done.extend(str(project.directory) for project in projects)
        return {project.directory: result(project) for project in projects}

    def result(one: building.Prepared) -> building.Result:
        if one.directory.name == "b":
            return error(Code.BUILD_FAILED, "the build failed: //projects/b")
        variants = tuple(
            building.Built(variant=variant, path=one.directory / "build", size=1000, actions=actions(2))
            for variant in one.chosen
        )
        ahead = estimate([], {}, jobs=1, memory=None)
        return building.Build(
            directory=one.directory, plan=one.plan, estimate=ahead, variants=variants, bytes_fetched=0, seconds=1.0
        )

    monkeypatch.setattr(building, "build_all", instead)
    return done


def build(*words: str, capsys: pytest.CaptureFixture[str], code: int) -> tuple[Any, str]:
    assert __main__.main(["build", "--torch=2.13", "--backend=cpu", *words]) == code
    said = capsys.readouterr()
    return (json.loads(said.out) if "--json" in words else said.out), said.err


@pytest.mark.usefixtures("repository")
def test_build_plans_all_and_then_builds(built: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    out, err = build("group", "a", "broken", "metal", capsys=capsys, code=5)
    assert built == ["group/b", "a"]
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["project", "variant", "size", "GPU", "archs", "run", "shared", "cached", "seconds"]
    assert lines[1] == ["a", CPU213, "1.0", "kB", "-", "2", "0", "1", "0.5"]
    assert lines[2][0] == "total"
    assert len(lines) == 3
    assert err.index("error[E001]") < err.index("error[E401]")
    assert err.splitlines()[-1] == "4 projects: 1 built, 1 skipped, 2 failed (group/b, broken)"


@pytest.mark.usefixtures("repository", "built")
def test_builds_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    answer, _ = build("a", "broken", "group/b", "--json", capsys=capsys, code=2)
    good, broken, failed = answer["projects"]
    assert (good["directory"], good["name"]) == ("a", "re_lu")
    assert [variant["variant"] for variant in good["variants"]] == [CPU213]
    assert [directory["errors"][0]["code"] for directory in (broken, failed)] == ["E001", "E401"]


@pytest.mark.usefixtures("repository")
def test_nothing_to_build_in_any(built: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["build", "--backend=rocm", "a", "metal", "group"]) == 3
    assert "a is skipped: no variant is for the backend `rocm`" in capsys.readouterr().err
    assert built == []


def test_each_project_has_a_page_of_its_own(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: dict[str, Path | None] = {}

    def instead(projects: list[building.Prepared], *_others: object) -> dict[Path, building.Result]:
        asked.update({str(project.directory): project.report for project in projects})
        return {project.directory: error(Code.BUILD_FAILED, "the build failed") for project in projects}

    monkeypatch.setattr(building, "build_all", instead)
    (repository / "x-re_lu.html").mkdir()
    build("group", "a", "--report=x.html", capsys=capsys, code=2)
    assert asked == {"a": Path("x-re_lu-2.html")}


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("words", [("a", "group"), ("group",)])
def test_several_projects_always_keep_going(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[bool] = []

    def instead(
        projects: list[building.Prepared], _releases: object, _output: object, options: building.Options
    ) -> dict[Path, building.Result]:
        asked.append(options.choices.keep_going)
        return {project.directory: error(Code.BUILD_FAILED, "the build failed") for project in projects}

    monkeypatch.setattr(building, "build_all", instead)
    build(*words, capsys=capsys, code=5)
    assert asked == [True]


@pytest.mark.usefixtures("repository")
def test_demo_of_several(built: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(directory: Path, _python: str) -> str:
        if directory.name == "third":
            raise error(Code.FILE_MISSING, "third/example.py is missing")
        return f"{directory.name} is loaded"

    shutil.copytree("a", "third")
    monkeypatch.setattr(installed_torch, "python_for", lambda *_, **_more: "python3")
    monkeypatch.setattr(example, "run_example", run)
    words = ["--torch=2.13", "--backend=cpu", "a", "group", "third", "metal"]
    assert __main__.main(["demo", *words]) == 5
    shown = capsys.readouterr()
    assert built == ["a", "group/b", "third"]
    lines = shown.out.splitlines()
    assert lines[:3] == ["a:", "a is loaded", ""]
    assert [line.split()[0] for line in lines[3:]] == ["project", "a", "total"]
    said = "4 projects: 1 built, and their examples run, 1 skipped, 2 failed (group/b, third)"
    assert shown.err.splitlines()[-1] == said


@pytest.mark.usefixtures("repository")
def test_verify_of_several(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def instead(tasks: list[SimpleNamespace], *_others: object) -> dict[Path, verify.Result]:
        same = verify.Verified(variant=CPU213, place="p", differences=())
        other = verify.Verified(variant=CPU213, place="q", differences=("x has other bytes", "y is missing"))
        found = {"a": [same], "b": [same, other], "third": error(Code.BUILD_FAILED, "the build failed")}
        return {job.directory: found[job.directory.name] for job in tasks}  # type: ignore[misc]

    def task(directory: Path, *_others: object) -> SimpleNamespace:
        if directory.name == "broken":
            raise error(Code.FILE_MISSING, "broken/build has no variant")
        return SimpleNamespace(directory=directory)

    monkeypatch.setattr(verify, "verify", instead)
    monkeypatch.setattr(verify, "make_task", task)
    shutil.copytree("a", "third")
    assert __main__.main(["verify", "a", "group", "broken", "third"]) == 1
    shown = capsys.readouterr()
    assert [line.split(maxsplit=2) for line in shown.out.splitlines()] == [
        ["project", "variant", "outcome"],
        ["a", CPU213, "the same"],
        ["group/b", CPU213, "the same"],
        ["group/b", CPU213, "2 differences"],
        ["broken", "-", "failed: E101"],
        ["third", "-", "failed: E401"],
    ]
    assert shown.err.index("error[E101]") < shown.err.index("error[E401]")
    assert "error[E403]: q does not match its sources: x has other bytes; y is missing" in shown.err
    said = "4 projects: 1 built without any cache, every byte the same, 3 failed (group/b, broken, third)"
    assert shown.err.splitlines()[-1] == said
    assert __main__.main(["verify", "a", "group", "--json"]) == 1
    first, second = json.loads(capsys.readouterr().out)["projects"]
    assert (first["directory"], len(first["variants"]), first["errors"]) == ("a", 1, [])
    assert ([problem["code"] for problem in second["errors"]], len(second["variants"])) == (["E403"], 2)
    assert __main__.main(["verify", "a", "group", "--published", "--repo-id=me/x"]) == 2
