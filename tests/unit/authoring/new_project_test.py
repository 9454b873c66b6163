"""New projects: every template, with every set of its backends, is a project without a mistake or a doubt."""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import kernels  # type: ignore[import-untyped]
import pytest
from rules_torch_kernels import load

from py_driver import __main__
from py_driver.authoring.new_project import (
    KEPT,
    Surroundings,
    begin_repository,
    check_name,
    create,
    rendered,
    surroundings,
    template_of,
    templates,
)
from py_driver.cli import parse_command_line
from py_driver.errors import Code, DriverError, ExitCode
from py_driver.matrix.releases import Releases
from py_driver.plan.plan import plan_directory
from py_driver.plan.project import load as load_project
from py_driver.publishing.markdown import arguments
from py_driver.publishing.public_api import offers
from py_driver.system.git import ask, names
from py_driver.tuning.header import header
from py_driver.tuning.space import find_space

if TYPE_CHECKING:
    from collections.abc import Iterator


def subsets() -> Iterator[tuple[str, tuple[str, ...]]]:
    for template in templates().values():
        for size in range(1, len(template.backends) + 1):
            for chosen in itertools.combinations(template.backends, size):
                yield template.name, chosen


@pytest.mark.parametrize(("template", "backends"), [*subsets()], ids=str)
def test_a_project_has_no_mistake(tmp_path: Path, template: str, backends: tuple[str, ...]) -> None:
    files = rendered(template_of(template), "my-kernel", "owner", backends)
    create(tmp_path, files, Releases())
    project = load_project(tmp_path, Releases())
    assert project.notes == ()
    assert {variant.configuration.family for variant in plan_directory(tmp_path, Releases()).variants} <= {
        *backends,
        "universal",
    }
    for path, text in files.items():
        assert (tmp_path / path).read_text(encoding="utf-8") == text
        assert max(map(len, text.splitlines())) <= 120, path
        assert not {"[%", "%]", "[[", "NAME"} & {*text.replace("OWNER/NAME", "").split()}, path
        if path.endswith(".py"):
            compile(text, path, "exec")
        # What no backend of the project compiles is not there.
        assert not path.startswith("csrc/") or f'"{path}"' in files["build.toml"], path


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
    for directory in ("file", "file/below", "dangling", "project", "x" * 300):
        with pytest.raises(DriverError) as caught:
            create(tmp_path / directory, files, Releases())
        assert caught.value.diagnostics[0].code in {Code.FOREIGN_FILE, Code.PERMISSION}
    assert [*(tmp_path / "project").iterdir()] == [tmp_path / "project" / "csrc"]
    assert [*(tmp_path / "elsewhere").iterdir()] == []
    create(tmp_path / "link", files, Releases())
    assert (tmp_path / "elsewhere" / "build.toml").is_file()


def test_a_name_that_no_kernel_can_have(tmp_path: Path) -> None:
    with pytest.raises(DriverError) as caught:
        create(tmp_path, rendered(template_of("elementwise"), "class", "", ()), Releases())
    codes = {Code.BAD_NAME, Code.OP_REGISTRATION}  # torch takes no op of this name either
    assert {(diagnostic.code, diagnostic.span) for diagnostic in caught.value.diagnostics} == {
        (code, None) for code in codes
    }
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


AROUND = Surroundings(author="Ada & Co [% x %]", year=2026)


@pytest.mark.parametrize("below_root", [False, True])
@pytest.mark.parametrize("template", templates())
def test_the_readme_names_what_is_there(tmp_path: Path, template: str, below_root: bool) -> None:  # noqa: FBT001
    around = AROUND._replace(below_root=below_root)
    create(tmp_path, rendered(template_of(template), "my-kernel", "me", (), around), Releases())
    for name in ("README.md", "AGENTS.md"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        listed = {*re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)} if name == "README.md" else set()
        spans = {
            span
            for span in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)
            if span == "LICENSE" or re.fullmatch(r"[\w.-]+/|[\w./-]+\.\w{2,4}", span)
        }
        words = {word for line in _commands(text) for word in line if re.search(r"\w\.\w{2,4}$", word)}
        paths = {path for path in listed | spans | words if not path.startswith(("torch.", ".dev/", "my_kernel."))}
        assert name != "README.md" or {"build.toml", "LICENSE", "torch-ext/my_kernel/"} <= paths
        assert [path for path in sorted(paths) if not (tmp_path / path).exists()] == []
    readme = (tmp_path / "README.md").read_text(encoding="utf-8")
    # All directories and files that are no parts of a tree, but for those that tools look for.
    own = {path.name + "/" * path.is_dir() for path in tmp_path.iterdir() if not path.name.startswith(".")}
    assert own - {path.partition("/")[0] + "/" * ("/" in path) for path in re.findall(r"`([^`\n]+)`", readme)} == {
        "README.md"
    }
    assert (".github/workflows/kernel.yml" in readme) is not below_root


def _commands(text: str) -> list[list[str]]:
    """The command lines of a page: in its blocks for a shell, and in its spans of code."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`((?:driver|pip|python) [^`\n]+)`", text)
    return [shlex.split(line, comments=True) for line in [*spans, *"".join(blocks).splitlines()]]


@pytest.mark.parametrize("template", templates())
def test_the_readme_names_commands_that_there_are(template: str) -> None:
    files = rendered(template_of(template), "my-kernel", "me", ())
    lines = _commands(files["README.md"]) + _commands(files["AGENTS.md"])
    assert {"test", "bench", "build", "publish", "check"} <= {line[1] for line in lines if line[0] == "driver"}
    for line in lines:
        assert line[0] in {"driver", "pip", "python"}, line
        if line[0] == "driver":
            parse_command_line([word.replace("CODE", "E003") for word in line[1:]])
    assert ["python", "-m", "pytest"] in lines


@pytest.mark.parametrize("template", templates())
def test_the_readme_describes_the_arguments_of_each_function(template: str) -> None:
    files = rendered(template_of(template), "my-kernel", "me", ())
    package = {"__init__.py": files["torch-ext/my_kernel/__init__.py"]}
    plain = " ".join(files["README.md"].split())
    found = offers(package)
    assert found
    for offer in found:
        assert f"### `my_kernel.{offer.name}`" in plain
        assert offer.arguments
        for line in arguments(offer):
            assert line in plain
        assert all(argument.type and argument.text for argument in offer.arguments), offer


def test_the_code_that_the_readme_loads_with_is_what_the_client_takes() -> None:
    files = rendered(template_of("elementwise"), "my-kernel", "", ())
    first, second = re.findall(r"```python\n(.*?)```", files["README.md"], re.DOTALL)
    calls = {
        ast.unparse(call.func): call
        for text in (first, second)
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call)
    }
    for function, name in ((kernels.get_kernel, "kernels.get_kernel"), (load, "load")):
        call = calls[name]
        inspect.signature(function).bind(*call.args, **{str(keyword.arg): None for keyword in call.keywords})
    assert 'repository = "OWNER/my-kernel"' in first


def test_the_license_is_that_of_build_toml_and_names_the_author() -> None:
    files = rendered(template_of("elementwise"), "my-kernel", "", (), AROUND)
    general = tomllib.loads(files["build.toml"])["general"]
    own = (Path(__file__).parents[3] / "LICENSE").read_text(encoding="utf-8")
    line = "Copyright [yyyy] [name of copyright owner]"
    assert general["license"] == "Apache-2.0"
    assert "Apache License" in own
    assert files["LICENSE"] == own.replace(line, "Copyright 2026 Ada & Co [% x %]")
    assert rendered(template_of("elementwise"), "my-kernel", "", ())["LICENSE"] == own


def test_the_ci_file_is_that_of_the_pages() -> None:
    files = rendered(template_of("elementwise"), "my-kernel", "", ())
    page = Path(__file__).parents[3] / "docs" / "ci" / "kernel.yml"
    assert files[".github/workflows/kernel.yml"] == page.read_text(encoding="utf-8")
    inside = rendered(template_of("elementwise"), "my-kernel", "", (), Surroundings(below_root=True))
    assert {*files} - {*inside} == {".github/workflows/kernel.yml"}


def test_what_the_driver_writes_is_ignored(tmp_path: Path) -> None:
    create(tmp_path, rendered(template_of("elementwise"), "my-kernel", "", ()), Releases())
    begin_repository(tmp_path)
    written = ["build/torch-cpu/x.so", ".dev/1/x", "dist/x.whl", "tests/__pycache__/x.pyc", "my_kernel.egg-info/x"]
    for path in [*written, "csrc/new.cu"]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    shown = names(ask(tmp_path, "ls-files", "-z", "--others", "--exclude-standard"))
    assert "csrc/new.cu" in shown
    assert {*written} & {*shown} == set()
    assert ask(tmp_path, "symbolic-ref", "HEAD") == b"refs/heads/main\n"


@pytest.mark.parametrize("kind", ["file", "link", "directory"])
def test_a_readme_that_is_there_is_kept(tmp_path: Path, kind: str) -> None:
    for name in KEPT:
        if kind == "file":
            (tmp_path / name).write_text("mine")
        elif kind == "link":
            (tmp_path / name).symlink_to("nowhere")
        else:
            (tmp_path / name).mkdir()
    files = rendered(template_of("elementwise"), "xy", "", ())
    assert sorted(create(tmp_path, files, Releases())) == sorted(KEPT)
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()} == {*files} - (
        set() if kind == "file" else {*KEPT}
    )
    assert kind != "file" or [(tmp_path / name).read_text() for name in KEPT] == ["mine"] * 3
    assert not (tmp_path / "nowhere").exists()


def test_git_is_asked_for_the_author_and_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert surroundings(tmp_path / "a" / "b").author == ""
    (tmp_path / ".gitconfig").write_text('[user]\nname = "Ada\u202e L."\n', encoding="utf-8")
    found = surroundings(tmp_path / "a" / "b")
    assert (found.author, found.in_repository, found.has_git) == ("Ada\\u202e L.", False, True)
    (tmp_path / "a").mkdir()
    ask(tmp_path / "a", "init", "-q")
    for directory, below_root in (("a/b/c", True), ("a", False)):
        found = surroundings(tmp_path / directory)
        assert (found.in_repository, found.below_root) == (True, below_root)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert surroundings(tmp_path) == Surroundings(year=found.year)


def test_a_new_project_is_a_repository_unless_it_is_in_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outer").mkdir()
    (tmp_path / "outer" / "README.md").write_text("mine")
    assert __main__.main(["init", "outer", "--json"]) == ExitCode.OK
    made = json.loads(capsys.readouterr().out)
    assert (made["repository"], made["kept"]) == (True, ["README.md"])
    assert "README.md" not in made["files"]
    assert (tmp_path / "outer" / ".git").is_dir()
    assert __main__.main(["init", "outer/inner"]) == ExitCode.OK
    assert not (tmp_path / "outer" / "inner" / ".git").exists()
    assert not (tmp_path / "outer" / "inner" / ".github").exists()
    assert "no .github/workflows/kernel.yml: it belongs at the root" in capsys.readouterr().err
    subprocess.run(["git", "init", "-q", "cloned"], check=True)
    assert __main__.main(["init", "cloned", "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["repository"] is False
    assert (tmp_path / "cloned" / ".github" / "workflows" / "kernel.yml").is_file()
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "LICENSE").write_text("MIT")
    monkeypatch.setenv("PATH", str(tmp_path))
    capsys.readouterr()
    assert __main__.main(["init", "plain"]) == ExitCode.OK
    assert "kept plain/LICENSE, which existed before" in capsys.readouterr().err
    assert not (tmp_path / "plain" / ".git").exists()
    assert (tmp_path / "plain" / "LICENSE").read_text() == "MIT"


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert __main__.main(["init", "--name", "me/fast-silu", "--json"]) == ExitCode.OK
    made = json.loads(capsys.readouterr().out)
    assert made["directory"] == "fast-silu"
    assert sorted(made["files"]) == sorted(
        path.relative_to("fast-silu").as_posix()
        for path in Path("fast-silu").rglob("*")
        if path.is_file() and ".git" not in path.parts
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
    assert space.section in {kernel.name.value for kernel in load_project(tmp_path, Releases()).manifest.kernels}
