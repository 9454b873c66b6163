"""The workflows, the action and the image, as far as that goes where there is neither GitHub nor an engine."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from actions import ACTION, EXTENSION, OWN, WORKFLOW, Runner, evaluate, filled, load

from py_driver.bazel.remote import config_file, remote_of
from py_driver.system.cache import cache_root

ROOT = Path(__file__).parents[3]
CI = ROOT / "docs" / "ci"
CALLER = CI / "kernel.yml"
EXTENSION_CALLER = CI / "extension.yml"
GITHUB = ROOT / ".github"
OWN_CI = GITHUB / "workflows" / "ci.yml"
JOBS = load(WORKFLOW)["jobs"]
STEPS = [(name, step) for name, job in JOBS.items() for step in job["steps"]]
STEPS += [("action", step) for step in load(ACTION)["runs"]["steps"]]
EXTENSION_JOBS = load(EXTENSION)["jobs"]
EXTENSION_STEPS = [(f"extension {name}", step) for name, job in EXTENSION_JOBS.items() for step in job["steps"]]
SCRIPTS = [
    pytest.param(step["run"], id=f"{name}: {step['name']}")
    for name, step in (*STEPS, *EXTENSION_STEPS)
    if "run" in step
]
COMMANDS = [step["with"]["command"] for _, step in STEPS if step.get("uses") == OWN]
COMMANDS += [
    line.split(" > ")[0].removeprefix("driver ")
    for name, step in STEPS
    for line in step.get("run", "").splitlines()
    if name != "action" and line.startswith("driver ")
]

MAIN = {"event_name": "push", "ref": "refs/heads/main", "ref_name": "main"}
BRANCH = {"event_name": "push", "ref": "refs/heads/x", "ref_name": "x"}
TAG = {"event_name": "push", "ref": "refs/tags/v1.0", "ref_name": "v1.0"}
TAG_MAIN = {"event_name": "push", "ref": "refs/tags/main", "ref_name": "main"}
PULL = {"event_name": "pull_request", "ref": "refs/pull/1/merge", "ref_name": "1/merge"}
TARGET = {"event_name": "pull_request_target", "ref": "refs/heads/main", "ref_name": "main"}
COMMENT = {"event_name": "issue_comment", "ref": "refs/heads/main", "ref_name": "main"}


def tool(name: str, *arguments: str, text: str | None = None) -> None:
    """Run a program of the environment that the tests run in."""
    command = [str(Path(sys.executable).parent / name), *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """A machine on which `driver` finds its Python environment; the kernel is `kernels/relu` of its repository."""
    workspace = tmp_path / "workspace"
    (workspace / ".git").mkdir(parents=True)
    ignored = shutil.ignore_patterns("build", "__pycache__")
    shutil.copytree(ROOT / "examples" / "relu", workspace / "kernels" / "relu", ignore=ignored)
    return Runner(
        root=ROOT,
        workspace=workspace,
        temp=tmp_path / "temp",
        contexts={"github": {**MAIN, "sha": "a" * 40}, "inputs": {"directory": "kernels/relu"}},
        environ={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
    )


@pytest.fixture
def with_environment(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """The same, where the cache of the action has the Python environments of this user."""
    cache = runner.temp / "rules_torch_kernels"
    cache.mkdir(parents=True)
    (cache / "venvs").symlink_to(cache_root() / "venvs")
    monkeypatch.delenv("RULES_TORCH_KERNELS_CACHE", raising=False)
    return runner


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        ("github-workflows", CALLER),
        ("github-workflows", WORKFLOW),
        ("github-workflows", EXTENSION_CALLER),
        ("github-workflows", EXTENSION),
        ("github-workflows", OWN_CI),
        ("github-actions", ACTION),
        ("github-issue-config", GITHUB / "ISSUE_TEMPLATE" / "config.yml"),
        ("github-issue-forms", GITHUB / "ISSUE_TEMPLATE" / "bug.yml"),
        ("github-issue-forms", GITHUB / "ISSUE_TEMPLATE" / "feature.yml"),
    ],
    ids=lambda value: value.relative_to(ROOT).as_posix() if isinstance(value, Path) else value,
)
def test_files_have_the_form_that_github_wants(schema: str, file: Path) -> None:
    tool("check-jsonschema", "--builtin-schema", f"vendor.{schema}", str(file))


def test_zizmor_finds_no_hole() -> None:
    config = ROOT / ".github" / "zizmor.yml"
    files = map(str, (CALLER, WORKFLOW, EXTENSION_CALLER, EXTENSION, OWN_CI, ACTION))
    tool("zizmor", "--offline", "--no-progress", "--config", str(config), *files)


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_are_what_shellcheck_wants(script: str) -> None:
    subprocess.run(["bash", "-n", "-c", script], check=True)
    tool("shellcheck", "--shell=bash", "-", text=script)


def test_the_image_s_script_is_what_shellcheck_wants() -> None:
    tool("shellcheck", str(CI / "entrypoint.sh"))


def test_image_is_what_hadolint_wants() -> None:
    tool("hadolint", "--strict-labels", str(CI / "Dockerfile"))


@pytest.mark.parametrize(
    ("workflow", "caller"), [(WORKFLOW, CALLER), (EXTENSION, EXTENSION_CALLER)], ids=["kernel", "extension"]
)
def test_the_caller_gives_what_the_workflow_takes(workflow: Path, caller: Path) -> None:
    called, [job] = load(workflow)["on"]["workflow_call"], load(caller)["jobs"].values()
    assert job["uses"].split("@")[0] == f"owner/rules_torch_kernels/{workflow.relative_to(ROOT)}"
    assert set(job["with"]) <= set(called["inputs"])
    assert job.get("secrets", {}) == {name: f"${{{{ secrets.{name} }}}}" for name in called.get("secrets", ())}
    # GitHub starts no workflow that calls one which asks for more than it may give.
    jobs = load(workflow)["jobs"]
    asked = [jobs[name].get("permissions", load(workflow)["permissions"]) for name in jobs]
    assert {one: level for permissions in asked for one, level in permissions.items()} == job["permissions"]
    assert load(caller)["permissions"] == {}


def test_the_page_says_what_the_workflow_takes_and_does() -> None:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    first = re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)
    called, extension = (load(workflow)["on"]["workflow_call"] for workflow in (WORKFLOW, EXTENSION))
    assert first == [*JOBS, *called["inputs"], *EXTENSION_JOBS, *extension["inputs"]]
    assert all(f"`{name}`" in page for name in called["secrets"])


@pytest.mark.parametrize(
    ("github", "cache", "test", "index"),
    [
        (MAIN, "save", True, False),
        (BRANCH, "restore", True, False),
        (TAG, "restore", True, True),
        (PULL, "restore", False, False),
        (TARGET, "restore", False, False),
    ],
    ids=["main", "branch", "tag", "pull", "target"],
)
def test_what_an_event_may_of_an_extension(github: dict[str, str], cache: str, *, test: bool, index: bool) -> None:
    contexts: dict[str, Any] = {
        "github": {**github, "event": {"repository": {"default_branch": "main"}}},
        "inputs": {"pages": True, "gpu-runner": "gpu"},
        "needs": {"wheels": {"result": "success"}, "test": {"result": "success" if test else "skipped"}},
        "matrix": {"name": "cpu", "select": "--variant a"},
    }
    [build] = [step["with"] for step in EXTENSION_JOBS["wheels"]["steps"] if step.get("uses") == OWN]
    assert filled(build["cache"], contexts) == cache
    assert [bool(evaluate(EXTENSION_JOBS[name]["if"], contexts)) for name in ("test", "index")] == [test, index]
    for name, job in (("pages", "index"), ("gpu-runner", "test")):
        assert not evaluate(EXTENSION_JOBS[job]["if"], {**contexts, "inputs": {**contexts["inputs"], name: ""}})
    for failed in ("wheels", "test"):
        needs = {**contexts["needs"], failed: {"result": "failure"}}
        assert not evaluate(EXTENSION_JOBS["index"]["if"], {**contexts, "needs": needs})
    assert [name for name, job in EXTENSION_JOBS.items() if "permissions" in job] == ["index"]
    assert "secrets." not in EXTENSION.read_text(encoding="utf-8")
    checkouts = [step["with"] for _, step in EXTENSION_STEPS if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts == [{"persist-credentials": False}] * 3


def test_only_publishing_may_sign_and_has_the_token() -> None:
    assert load(WORKFLOW)["permissions"] == {"contents": "read"}
    assert [name for name, job in JOBS.items() if "permissions" in job] == ["publish"]
    secret = [(name, step.get("name")) for name, step in STEPS if "HF_TOKEN" in json.dumps(step)]
    assert secret == [("publish", "Publish")]
    headers = [(name, step.get("name")) for name, step in STEPS if "secrets.REMOTE_HEADERS" in json.dumps(step)]
    assert headers == [("build", "Build")]
    checkouts = [step["with"] for _, step in STEPS if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts == [{"persist-credentials": False}] * 4


@pytest.mark.parametrize(
    ("github", "cache", "remote", "test", "publish"),
    [
        (MAIN, "save", "grpcs://c", True, False),
        (BRANCH, "restore", "grpcs://c", True, False),
        (TAG, "restore", "grpcs://c", True, True),
        (TAG_MAIN, "restore", "grpcs://c", True, False),
        (PULL, "restore", "", False, False),
        (TARGET, "restore", "", False, False),
        (COMMENT, "restore", "", False, False),
    ],
    ids=["main", "branch", "tag", "tag-main", "pull", "target", "comment"],
)
def test_what_an_event_may(github: dict[str, str], cache: str, remote: str, *, test: bool, publish: bool) -> None:
    contexts: dict[str, Any] = {
        "github": {**github, "event": {"repository": {"default_branch": "main"}}},
        "inputs": {"publish": True, "gpu-runner": "gpu", "remote-cache": "grpcs://c"},
        "secrets": {"REMOTE_HEADERS": "Authorization: Bearer x"},
        "needs": {"build": {"result": "success"}, "test": {"result": "success" if test else "skipped"}},
        "matrix": {"name": "cpu"},
    }
    [build] = [step["with"] for step in JOBS["build"]["steps"] if step.get("uses") == OWN]
    given = {name: filled(value, contexts) for name, value in build.items()}
    headers = "Authorization: Bearer x" if remote else ""
    assert (given["cache"], given["remote-cache"], given["remote-headers"]) == (cache, remote, headers)
    assert [bool(evaluate(JOBS[name]["if"], contexts)) for name in ("test", "publish")] == [test, publish]
    for name, value in (("publish", False), ("gpu-runner", "")):
        fewer = {**contexts, "inputs": {**contexts["inputs"], name: value}}
        job = {"publish": "publish", "gpu-runner": "test"}[name]
        assert not evaluate(JOBS[job]["if"], fewer)
    for failed in ("build", "test"):
        needs = {**contexts["needs"], failed: {"result": "failure"}}
        assert not evaluate(JOBS["publish"]["if"], {**contexts, "needs": needs})


def test_the_job_that_publishes_reads_no_cache() -> None:
    [given] = [step["with"] for step in JOBS["publish"]["steps"] if step.get("uses") == OWN]
    assert given == {"directory": "${{ inputs.directory }}", "command": "verify"}


def test_only_github_s_own_actions_are_used() -> None:
    used = {step["uses"] for _, step in (*STEPS, *EXTENSION_STEPS) if "uses" in step}
    assert all(action == OWN or action.startswith("actions/") for action in used), used


@pytest.mark.parametrize("command", COMMANDS)
def test_driver_understands_what_the_workflow_asks(command: str, tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = filled(command, {"matrix": {"select": "--variant a --variant b"}}).split()
    done = subprocess.run(
        [sys.executable, "-m", "py_driver", *words],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "error[E105]: there is no build.toml" in done.stderr
    assert done.returncode == 2


def test_the_workflow_asks_the_driver_for_all_of_it() -> None:
    assert [command.split()[0] for command in COMMANDS] == ["check", "build", "verify", "variants", "publish"]


@pytest.mark.parametrize(
    ("event", "targets"),
    [
        ("push", ["lint", "test"]),
        ("pull_request", ["lint", "test"]),
        ("schedule", ["test-ci"]),
        ("workflow_dispatch", ["test-ci"]),
    ],
)
def test_own_ci_runs_targets_of_the_makefile(event: str, targets: list[str]) -> None:
    workflow = load(OWN_CI)
    assert event in workflow["on"]
    [job] = workflow["jobs"].values()
    expression = job["strategy"]["matrix"]["target"]
    assert filled(expression, {"github": {"event_name": event}}) == targets
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(f"\n{target}:\n" in makefile for target in targets)


def test_a_hook_runs_a_part_of_lint() -> None:
    [repository] = load(ROOT / ".pre-commit-config.yaml")["repos"]
    entries = [shlex.split(hook["entry"]) for hook in repository["hooks"]]
    lint = (ROOT / "tests" / "run.py").read_text(encoding="utf-8")
    words = [words[-1] for words in entries if words[:-1] == ["python3", "tests/run.py", "lint"]]
    assert [entry for entry in entries if entry[-1] not in words] == [["make", "lint"]]
    assert all(word.split()[-1] in lint for word in words)


def test_bazel_s_registry_gets_the_archive_of_the_release(tmp_path: Path) -> None:
    release = importlib.import_module("tests.release")
    archive = tmp_path / f"{release.NAME}-module-{release.__version__}.tar.gz"
    archive.touch()
    source = json.loads((ROOT / ".bcr" / "source.template.json").read_text(encoding="utf-8"))
    names = {"OWNER": "owner", "REPO": release.NAME, "VERSION": release.__version__, "TAG": f"v{release.__version__}"}
    expected = {key: value.format(**names) for key, value in source.items()}
    url = expected["url"].rpartition("/")[0]
    release.write_registry(ROOT, archive, tmp_path / "registry", f"{url}/{archive.name}")
    version = tmp_path / "registry" / "modules" / release.NAME / release.__version__
    written = json.loads((version / "source.json").read_text(encoding="utf-8"))
    assert written == {**expected, "integrity": written["integrity"]}
    assert load(version / "presubmit.yml")["tasks"]
    metadata = json.loads((ROOT / ".bcr" / "metadata.template.json").read_text(encoding="utf-8"))
    assert metadata.keys() == json.loads((version.parent / "metadata.json").read_text(encoding="utf-8")).keys()


@pytest.mark.parametrize("headers", ["", "Authorization: Bearer x"])
def test_the_action_sets_up_a_remote_cache(headers: str, runner: Runner, tmp_path: Path) -> None:
    given = {"cache": "restore", "cache-key": "cpu", "remote-cache": "grpcs://c.example.org", "remote-headers": headers}
    runner.run({"steps": [{"uses": OWN, "with": given}]})
    assert runner.failed is None
    assert runner.environ["RULES_TORCH_KERNELS_CACHE"] == str(runner.temp / "rules_torch_kernels")
    assert runner.environ["PATH"].split(":")[0] == str(ROOT)
    assert str(runner.workspace) in (tmp_path / ".gitconfig").read_text()
    place = tmp_path / ".config" / "rules_torch_kernels"
    read = remote_of(None, None, config_file({"XDG_CONFIG_HOME": str(tmp_path / ".config")}))
    assert read.cache == "grpcs://c.example.org"
    assert read.headers == (place / "headers" if headers else None)
    if headers:
        assert stat.S_IMODE((place / "headers").stat().st_mode) == 0o600
    [(action, asked)] = runner.used
    assert action == "actions/cache/restore@v5"
    assert asked["path"] == str(runner.temp / "rules_torch_kernels")
    assert asked["key"] == f"{asked['restore-keys']}{'a' * 40}"
    assert asked["restore-keys"].startswith("driver-cpu-")
    assert len(asked["restore-keys"]) == len("driver-cpu-") + 16 + 1


def test_without_a_remote_cache_nothing_is_configured(runner: Runner, tmp_path: Path) -> None:
    runner.run({"steps": [{"uses": OWN, "with": {"remote-headers": "Authorization: Bearer x"}}]})
    assert (runner.failed, runner.used) == (None, [])
    assert not (tmp_path / ".config").exists()


@pytest.mark.parametrize(
    ("variants", "matrix"),
    [
        (
            "",
            {
                "cpu": "--variant torch213-cxx11-cpu-x86_64-linux --variant torch215-cxx11-cpu-x86_64-linux",
                "cu130": "--variant torch213-cxx11-cu130-x86_64-linux --variant torch215-cxx11-cu130-x86_64-linux",
                "cu132": "--variant torch213-cxx11-cu132-x86_64-linux --variant torch215-cxx11-cu132-x86_64-linux",
                "rocm72": "--variant torch213-cxx11-rocm72-x86_64-linux",
            },
        ),
        (
            " *-cpu-*\n  torch213-*-{cu130,cu132}-* ",
            {"1": "--variant *-cpu-*", "2": "--variant torch213-*-{cu130,cu132}-*"},
        ),
    ],
    ids=["default", "globs"],
)
def test_a_project_without_mistakes_is_planned(with_environment: Runner, variants: str, matrix: dict[str, str]) -> None:
    with_environment.contexts["inputs"]["variants"] = variants
    outputs = with_environment.run(JOBS["check"])
    assert with_environment.failed is None
    assert with_environment.said == []
    assert {job["name"]: job["select"] for job in json.loads(outputs["matrix"])} == matrix
    assert outputs["kernel"] == "relu"


def test_several_kernels_are_an_error(with_environment: Runner) -> None:
    kernels = with_environment.workspace / "kernels"
    shutil.copytree(kernels / "relu", kernels / "other")
    with_environment.contexts["inputs"]["directory"] = "kernels"
    with_environment.run(JOBS["check"])
    assert with_environment.failed is not None
    said, code = with_environment.failed
    assert said.splitlines()[-1] == "::error::`directory` holds several kernels; call the workflow once for each"
    assert code == 1


def test_a_mistake_is_annotated_and_ends_the_job(with_environment: Runner) -> None:
    file = with_environment.workspace / "kernels" / "relu" / "build.toml"
    file.write_text(file.read_text().replace("license =", "licence ="))
    line = next(at for at, text in enumerate(file.read_text().splitlines(), 1) if "licence" in text)
    with_environment.run(JOBS["check"])
    assert with_environment.failed is not None
    assert with_environment.failed[1] == 2
    file_line = f"file=kernels/relu/build.toml,line={line},col=1"
    assert with_environment.said == [
        f"::error {file_line},title=E003::unknown key `licence` in [general] (did you mean `license`?)",
    ]
    assert with_environment.summary == ""


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"MAX_JOBS": "200", "CORES": "100"}, "`20000`"),
        ({"CORES": "0"}, "`0`"),
        ({"MAX_JOBS": "10000"}, "`10000`"),
        ({"MAX_JOBS": "08"}, "`08`"),
        ({"MAX_JOBS": "4,2", "CORES": "2"}, "`4,2`"),
    ],
)
def test_image_maps_the_variables_of_upstream(variables: dict[str, str], said: str, tmp_path: Path) -> None:
    """The driver says what it was given: no number of jobs that it takes."""
    (tmp_path / "driver").symlink_to(ROOT / "driver")
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", **variables}
    command = ["sh", str(CI / "entrypoint.sh"), "build"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert f"--jobs: {said} is not a number from 1 to 9999" in done.stderr
    assert done.returncode == 2
