"""What a build tells: which blocks of Bazel's it replaces, which warnings it remembers, and which variants failed."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from tree import write_files

from py_driver.actions.author_paths import BuiltProject
from py_driver.actions.workspace import Workspace
from py_driver.bazel.events import Action, Events
from py_driver.bazel.invocation import Choices
from py_driver.diagnosing.messages import Messages
from py_driver.errors import Code
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.plan.plan import plan_directory
from py_driver.system.cache import CACHE_VARIABLE

FILES = {
    "build.toml": """\
[general]
name = "pk"
version = 1
edition = 5
license = "MIT"
backends = ["cpu"]
[torch]
src = ["b.cpp"]
[kernel.one]
backend = "cpu"
depends = []
src = ["one.cpp"]
""",
    "one.cpp": "int one() {\n  int unused;\n}\n",
    "b.cpp": "REGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n",
    "torch-ext/pk/__init__.py": "\n",
}
OUT = "bazel-out/k8/bin/projects/pk"
ONE = f"{OUT}/one.objects/one.cpp.o"
WARNING = "projects/pk/one.cpp:2:7: warning: unused variable 'unused' [-Wunused-variable]\n"
SHOWN = WARNING.replace("projects/pk", "pk")
BLOCK = """\
ERROR: /w/projects/pk/BUILD.bazel:1:2: Compiling one.cpp for //projects/pk:one failed: (Exit 1): zig failed: error \
executing KernelCxxCompile command (from target //projects/pk:one) zig clang ... (remaining 3 arguments skipped)

projects/pk/one.cpp:2:3: error: no
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BuiltProject:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exec").mkdir()
    write_files(tmp_path / "pk", FILES)
    plan = plan_directory(Path("pk"), Releases())
    chosen = [variant for variant in plan.variants if variant.default]
    return BuiltProject(
        directory=Path("pk"), plan=plan, chosen=chosen, workspace=Workspace(root=tmp_path, package="projects/pk")
    )


def said(text: str, *, ok: bool = True) -> Action:
    command = ("zig", "-I", "bazel-out/cfg/bin/a b", "-o", "bazel-out/cfg/bin/projects/pk/one.objects/one.cpp.o")
    return Action(
        output=ONE,
        label="//projects/pk:one",
        mnemonic="KernelCxxCompile",
        succeeded=ok,
        exit_code=0 if ok else 1,
        command=command,
        text=text,
    )


def events(project: BuiltProject, *told: Action, ran: bool = True) -> Events:
    """A build in which that was said; all variants have the object."""
    records = []
    for variant in project.chosen:
        path = project.workspace.root / f"{variant.name}.json"
        record = {"variant": variant.name, "directory": f"{OUT}/{variant.name}", "steps": [ONE]}
        path.write_text(json.dumps(record), encoding="utf-8")
        records.append(path)
    return Events(
        groups={"steps": tuple(records)},
        exec_root=project.workspace.root / "exec",
        completed={ONE: ()} if ran else {},
        told=told,
    )


def warned(project: BuiltProject, build: Events, **how: bool) -> str:
    err = io.StringIO()
    choices = replace(Choices(), **how)  # type: ignore[arg-type]
    Messages(projects=[project], choices=choices, output=Output(io.StringIO(), err, {})).warn(build)
    return err.getvalue()


def test_warnings_are_counted(project: BuiltProject) -> None:
    assert warned(project, events(project, said(WARNING))) == "1 warning; --warnings shows it\n"
    assert warned(project, events(project, said(WARNING + WARNING.replace(":2:", ":1:")))).startswith("2 warnings; ")
    assert warned(project, events(project, said("hello\n" + WARNING))).startswith("1 warning, 1 message; ")
    assert warned(project, events(project)) == ""


def test_warnings_of_what_does_not_run_again_are_remembered(project: BuiltProject) -> None:
    names = ", ".join(variant.name for variant in project.chosen)
    shown = f"{SHOWN}  (in {len(project.chosen)} variants: {names})\n"
    assert warned(project, events(project, said(WARNING)), warnings=True) == shown
    up_to_date = events(project, ran=False)
    assert warned(project, up_to_date, warnings=True) == shown
    assert warned(project, replace(up_to_date, exec_root=project.workspace.root), warnings=True) == ""
    assert warned(project, events(project), warnings=True) == ""  # it ran, and said nothing
    assert warned(project, up_to_date, warnings=True) == ""


def test_what_is_kept_of_other_variants_is_not_shown(project: BuiltProject) -> None:
    warned(project, events(project, said(WARNING)))
    assert warned(project, replace(events(project, ran=False), groups={}), warnings=True) == ""
    assert warned(project, events(project, ran=False), warnings=True) != ""


@pytest.mark.parametrize("content", ["", "{}", '{"version": 1, "steps": 3}', '{"version": 1, "steps": {"ROOT": [1]}}'])
def test_what_is_kept_may_be_broken(project: BuiltProject, tmp_path: Path, content: str) -> None:
    kept = tmp_path / "cache" / "history" / "pk.told.json"
    kept.parent.mkdir(parents=True)
    kept.write_text(content.replace("ROOT", str(tmp_path / "exec")), encoding="utf-8")
    assert warned(project, events(project, ran=False)) == ""
    assert warned(project, events(project, said(WARNING))) == "1 warning; --warnings shows it\n"


def test_blocks_of_actions_are_replaced_and_others_stay(
    project: BuiltProject, capsys: pytest.CaptureFixture[str]
) -> None:
    [first, *_] = project.chosen
    failed = replace(
        events(project, said("projects/pk/one.cpp:2:3: error: no\n", ok=False), ran=False),
        failed=(f"@@//projects/pk:{first.name}",),
        unfinished=("//projects/pk:" + project.chosen[1].name,),
    )
    messages = Messages(projects=[project], choices=Choices(), output=Output())
    explained = messages.explain(failed, [BLOCK, "ERROR: something else"])
    assert capsys.readouterr().err == "ERROR: something else\n"
    [error] = explained.errors
    assert (error.code, error.message, error.span and error.span[:3]) == (Code.BUILD_FAILED, "no", ("pk/one.cpp", 2, 3))
    assert explained.summary == f"the build failed: {first.name}; 1 more was not finished"
    assert messages.failure(project, failed)[0] == explained.errors
    verbose = Messages(projects=[project], choices=Choices(keep_going=True, verbose=True), output=Output())
    assert verbose.explain(failed, [BLOCK, "ERROR: something else"]).help == ""
    err = capsys.readouterr().err
    assert BLOCK in err
    assert err.endswith(
        f"command: cd {project.workspace.root}/exec && env -i LANG=C PATH=/nonexistent SOURCE_DATE_EPOCH=0 "
        f"zig -I 'bazel-out/k8/bin/a b' -o {ONE}\n"
    )


def test_text_that_the_events_do_not_have_is_that_of_the_block(project: BuiltProject) -> None:
    messages = Messages(projects=[project], choices=Choices(), output=Output())
    [error] = messages.explain(events(project, said("", ok=False), ran=False), [BLOCK]).errors
    names = ", ".join(variant.name for variant in project.chosen)
    assert error.text == f"pk/one.cpp:2:3: error: no\n  (first seen in {len(project.chosen)} variants: {names})"


def test_actions_of_no_project_are_left_to_bazel(project: BuiltProject, capsys: pytest.CaptureFixture[str]) -> None:
    tool = replace(
        said("x.zig:1:2: error: no\n", ok=False), label="@@rules_torch_kernels~//rules/private/tools:compile"
    )
    block = BLOCK.replace("//projects/pk:one", tool.label)
    explained = Messages(projects=[project], choices=Choices(), output=Output()).explain(events(project, tool), [block])
    assert explained.errors == ()
    assert block in capsys.readouterr().err


def test_block_without_text_of_a_program_stays(project: BuiltProject, capsys: pytest.CaptureFixture[str]) -> None:
    head = BLOCK.partition("\n")[0]
    messages = Messages(projects=[project], choices=Choices(keep_going=True), output=Output())
    [error] = messages.explain(events(project, said("", ok=False), ran=False), [head]).errors
    assert error.message == "the compile failed with exit code 1"
    assert capsys.readouterr().err == f"{head}\n"


def test_compiler_that_was_killed(project: BuiltProject) -> None:
    messages = Messages(projects=[project], choices=Choices(), output=Output())
    [first, *_] = project.chosen
    killed = replace(said("step: killed by signal 9: zig\n", ok=False), exit_code=1)
    build = replace(events(project, killed), failed=(f"//projects/pk:{first.name}",))
    explained = messages.explain(build, [])
    assert explained.errors[0].message == "the compile was killed, or ran out of memory"
    assert explained.summary == f"the build failed: {first.name}; a compiler was killed"
    assert "lower --ram or --jobs" in explained.help
