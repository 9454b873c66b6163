"""New projects: every template, with every set of its backends, is a project without a mistake or a doubt."""

from __future__ import annotations

import itertools
import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from py_driver import __main__
from py_driver.authoring.new_project import check_name, create, rendered, template_of, templates
from py_driver.errors import Code, DriverError, ExitCode
from py_driver.matrix.releases import Releases
from py_driver.plan.plan import plan_directory
from py_driver.plan.project import load
from py_driver.tuning.header import header
from py_driver.tuning.space import find_space

if TYPE_CHECKING:
    from collections.abc import Iterator


def subsets() -> Iterator[tuple[str, tuple[str, ...]]]:
    for one in templates().values():
        for size in range(1, len(one.backends) + 1):
            for chosen in itertools.combinations(one.backends, size):
                yield one.name, chosen


@pytest.mark.parametrize(("template", "backends"), [*subsets()], ids=str)
def test_a_project_has_no_mistake(tmp_path: Path, template: str, backends: tuple[str, ...]) -> None:
    files = rendered(template_of(template), "my-kernel", "owner", backends)
    create(tmp_path, files, Releases())
    project = load(tmp_path, Releases())
    assert project.notes == ()
    assert {one.configuration.family for one in plan_directory(tmp_path, Releases()).variants} <= {
        *backends,
        "universal",
    }
    for path, text in files.items():
        assert (tmp_path / path).read_text(encoding="utf-8") == text
        assert max(map(len, text.splitlines())) <= 120, path
        assert not {"[%", "%]", "[[", "NAME"} & {*text.replace("OWNER/NAME", "").split()}, path
        if path.endswith(".py"):
            compile(text, path, "exec")


def test_what_a_project_is_called(tmp_path: Path) -> None:
    create(tmp_path, rendered(template_of("elementwise"), "my-kernel", "", ()), Releases())
    table = tomllib.loads((tmp_path / "build.toml").read_text(encoding="utf-8"))
    assert table["general"]["name"] == "my-kernel"
    assert "hub" not in table["general"]
    assert (tmp_path / "torch-ext" / "my_kernel" / "__init__.py").is_file()
    assert 'get_kernel("kernels-community/my-kernel"' in (tmp_path / "tests" / "test_my_kernel.py").read_text()


@pytest.mark.parametrize("kind", ["file", "link", "directory"])
def test_nothing_is_overwritten(tmp_path: Path, kind: str) -> None:
    there = tmp_path / "build.toml"
    if kind == "file":
        there.write_text("mine")
    elif kind == "link":
        there.symlink_to("x")
    else:
        there.mkdir()
    with pytest.raises(DriverError) as caught:
        create(tmp_path, rendered(template_of("elementwise"), "xy", "", ()), Releases())
    assert caught.value.diagnostics[0].code is Code.FOREIGN_FILE
    assert [*tmp_path.iterdir()] == [there]


def test_nothing_is_written_elsewhere(tmp_path: Path) -> None:
    files = rendered(template_of("elementwise"), "xy", "", ())
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "project").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "project" / "csrc").symlink_to("../elsewhere")
    (tmp_path / "link").symlink_to("elsewhere")
    for place in ("file", "file/below", "dangling", "project", "x" * 300):
        with pytest.raises(DriverError) as caught:
            create(tmp_path / place, files, Releases())
        assert caught.value.diagnostics[0].code in {Code.FOREIGN_FILE, Code.PERMISSION}
    assert [*(tmp_path / "project").iterdir()] == [tmp_path / "project" / "csrc"]
    assert [*(tmp_path / "elsewhere").iterdir()] == []
    create(tmp_path / "link", files, Releases())
    assert (tmp_path / "elsewhere" / "build.toml").is_file()


def test_a_name_that_no_kernel_can_have(tmp_path: Path) -> None:
    with pytest.raises(DriverError) as caught:
        create(tmp_path, rendered(template_of("elementwise"), "class", "", ()), Releases())
    codes = {Code.BAD_NAME, Code.OP_REGISTRATION}  # torch takes no op of this name either
    assert {(one.code, one.span) for one in caught.value.diagnostics} == {(code, None) for code in codes}
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    "name",
    [
        *("int", "std", "double", "namespace", "at", "c10", "me/template", "rules-torch-kernels", "pytest", "stdio"),
        *("debug", "", "x", "ab-", "torch", "me/random", "Upper", "a b", "a/b/c", "-x", "9x", "a/", "/a", "größe"),
    ],
)
def test_wrong_names(name: str) -> None:
    with pytest.raises(DriverError) as caught:
        check_name(name)
    assert caught.value.diagnostics[0].code is Code.USAGE


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert __main__.main(["init", "--name", "me/fast-silu", "--json"]) == ExitCode.OK
    made = json.loads(capsys.readouterr().out)
    assert made["directory"] == "fast-silu"
    assert sorted(made["files"]) == sorted(
        one.relative_to("fast-silu").as_posix() for one in Path("fast-silu").rglob("*") if one.is_file()
    )
    assert __main__.main(["init", "Some Where"]) == ExitCode.OK
    assert 'name = "some-where"' in Path("Some Where", "build.toml").read_text(encoding="utf-8")
    capsys.readouterr()
    for words in (["--template", "elementwis", "xy"], ["xy", "--backends", "metal"], []):
        assert __main__.main(["init", *words]) == ExitCode.INPUT
    said = capsys.readouterr().err
    assert "did you mean `elementwise`?" in said
    assert "is for: cpu, cuda, rocm" in said
    assert not Path("xy").exists()


def test_the_header_of_a_new_project_is_what_tuning_writes(tmp_path: Path) -> None:
    create(tmp_path, rendered(template_of("reduction"), "my-kernel", "", ("cuda",)), Releases())
    space = find_space(tmp_path, "")
    assert (tmp_path / space.header).read_text(encoding="utf-8") == header(space, [])
    assert space.section in {kernel.name.value for kernel in load(tmp_path, Releases()).manifest.kernels}
