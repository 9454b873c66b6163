"""What `driver publish` refuses to send."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from tuned import (
    FILES,
    MANIFEST,
    ROOT,
    below_build,
    build,
    bundle,
    on_disk,
    publish,
)

from py_driver.building.made import remember, remember_load
from py_driver.building.selection import made_from
from py_driver.matrix.releases import Releases
from py_driver.plan.plan import plan_directory

if TYPE_CHECKING:
    from pathlib import Path

    from hub import Hub


def _add(place: Path) -> None:
    (place / ".env").write_text("SECRET=1\n")


def _link(place: Path) -> None:
    (place / "passwd").symlink_to("/etc/passwd")


def _link_instead(place: Path) -> None:
    (place / "_ops.py").unlink()
    (place / "_ops.py").symlink_to("__init__.py")


def _change(place: Path) -> None:
    (place / "__init__.py").write_text("import os\n")


def _remove(place: Path) -> None:
    (place / "weights.bin").unlink()


def _forget(place: Path) -> None:
    (place / "metadata.json").write_text("{}")


def _swap(place: Path) -> None:
    shutil.copy(place.with_name("torch-cuda") / "metadata.json", place)


def _edit(place: Path) -> None:
    (place.parents[1] / "torch-ext" / "tuned" / "__init__.py").write_text("x = 2\n")


def _release(place: Path) -> None:
    manifest = place.parents[1] / "build.toml"
    manifest.write_text(MANIFEST.replace("version = 3", "version = 4"))


def _link_metadata(place: Path) -> None:
    (place / "metadata.json").rename(place / "metadata.json.sigstore")
    (place / "metadata.json").symlink_to("metadata.json.sigstore")


def _other_builder(place: Path) -> None:
    metadata = json.loads((place / "metadata.json").read_text())
    metadata["provenance"]["kernel-builder"]["version"] = "rules_torch_kernels 0.0.1"
    (place / "metadata.json").write_text(json.dumps(metadata))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_add, ".env was not built"),
        (_link, "passwd is a link"),
        (_link_instead, "_ops.py is a link; _ops.py is missing"),
        (_change, "__init__.py has other bytes"),
        (_remove, "weights.bin is missing"),
        (_forget, "metadata.json lists no files"),
        (_swap, "its `backend` belongs to another build; its sources have changed since"),
        (_edit, "its sources have changed since"),
        (_release, "its sources have changed since; its `version` belongs to another build"),
        (_link_metadata, "metadata.json is a link; metadata.json lists no files"),
        (_other_builder, "its `provenance` belongs to another build"),
    ],
)
def test_what_was_not_built_so_is_refused(hub: Hub, project: Path, spoil: Any, said: str) -> None:  # noqa: ANN401
    spoil(project / "build" / "torch-cpu")
    done = publish(hub, project, code=2)
    assert f"error[E404]: {project}/build/torch-cpu has changed since it was built: {said}" in done.stderr
    assert hub.requests == []


def test_what_python_leaves_is_removed(hub: Hub, project: Path) -> None:
    expected = on_disk(project)
    for directory in ("torch-cpu", "torch-cuda/deep"):
        (project / "build" / directory / "__pycache__").mkdir(parents=True)
        (project / "build" / directory / "__pycache__" / "x.pyc").write_bytes(b"x")
    (project / "build/torch-cuda/deep/__pycache__/deeper").mkdir()
    publish(hub, project)
    assert below_build(hub) == on_disk(project) == expected


def test_link_in_the_place_of_what_python_leaves(hub: Hub, project: Path) -> None:
    elsewhere = project / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.pyc").touch()
    (project / "build/torch-cpu/__pycache__").symlink_to(elsewhere)
    assert "__pycache__ is a link" in publish(hub, project, code=2).stderr
    assert (elsewhere / "x.pyc").exists()


def test_dirty_tree_is_refused(hub: Hub, project: Path) -> None:
    git = ["git", "-C", str(project), "-c", "user.name=n", "-c", "user.email=e@x"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "build.toml", "torch-ext"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "m"], check=True)
    publish(hub, project, "--dry-run")
    (project / "torch-ext" / "tuned" / "__init__.py").write_text("x = 2\n")
    done = publish(hub, project, "--dry-run", code=2)
    assert f"error[E405]: {project} has changes that are not committed: torch-ext/tuned/__init__.py" in done.stderr
    for variant in ("torch-cpu", "torch-cuda"):
        build(project, variant, FILES | {"__init__.py": b"x = 2\n"})
    publish(hub, project, "--dry-run", "--allow-dirty")


@pytest.mark.parametrize("how", ["ignored", "hidden"])
def test_source_that_git_does_not_have_is_noticed(hub: Hub, project: Path, how: str) -> None:
    git = ["git", "-C", str(project), "-c", "user.name=n", "-c", "user.email=e@x"]
    subprocess.run([*git, "init", "-q"], check=True)
    if how == "ignored":
        (project / ".gitignore").write_text("*.bin\n")
    else:
        subprocess.run([*git, "config", "status.showUntrackedFiles", "no"], check=True)
    wanted = ["build.toml", "torch-ext/tuned/__init__.py", *([".gitignore"] if how == "ignored" else [])]
    subprocess.run([*git, "add", *wanted], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "m"], check=True)
    assert "changes that are not committed: torch-ext/tuned/weights.bin" in publish(hub, project, code=2).stderr


def test_git_that_does_not_answer(hub: Hub, project: Path) -> None:
    (project / ".git").write_text("gitdir: nowhere\n")
    done = publish(hub, project, code=2)
    assert f"error[E405]: git cannot report whether {project} has changes: fatal:" in done.stderr


def test_nobody_says_where(hub: Hub, project: Path) -> None:
    (project / "build.toml").write_text(MANIFEST.replace('[general.hub]\nrepo-id = "me/tuned"\n', ""))
    assert "error[E004]: no repository on the Hub is given" in publish(hub, project, code=2).stderr


@pytest.mark.parametrize("text", [bundle(b"another metadata.json"), "[]", "no JSON"])
def test_signature_of_something_else_is_refused(hub: Hub, project: Path, text: str) -> None:
    (project / "build" / "torch-cpu" / "metadata.json.sigstore").write_text(text)
    assert "metadata.json.sigstore is not a sigstore bundle of metadata.json" in publish(hub, project, code=2).stderr
    assert hub.requests == []


@pytest.mark.parametrize("branch", ["a b", "v1^", "v1:x", "v*"])
def test_branch_that_git_forbids(hub: Hub, project: Path, branch: str) -> None:
    said = publish(hub, project, f"--branch={branch}", code=2).stderr
    assert f"error[E200]: `{branch}` is not the name of a branch" in said
    assert hub.requests == []


@pytest.mark.parametrize("name", ["no slash/or/two", "a b/c", "-x/y", "tuned"])
def test_name_that_is_none(hub: Hub, project: Path, name: str) -> None:
    assert (
        f"error[E200]: `{name}` is not the name of a repository"
        in publish(hub, project, f"--repo-id={name}", code=2).stderr
    )
    assert hub.requests == []


@pytest.mark.parametrize("command", ["publish", "wheel"])
def test_file_that_was_changed_with_its_digest(hub: Hub, project: Path, command: str) -> None:
    place = project / "build" / "torch-cpu"
    (place / "weights.bin").write_bytes(b"others")
    digest = base64.b64encode(hashlib.sha256(b"others").digest()).decode()
    metadata = json.loads((place / "metadata.json").read_text())
    metadata["digest"]["files"]["weights.bin"] = digest
    (place / "metadata.json").write_text(json.dumps(metadata))
    if command == "publish":
        said = publish(hub, project, code=2).stderr
    else:
        words = [sys.executable, "-m", "py_driver", "wheel", str(project), f"--out={project / 'dist'}"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
        assert (done.returncode, done.stdout) == (2, "")
        said = done.stderr
    assert f"error[E404]: no build here made {place} as it is" in said
    assert "torch-cuda" not in said
    assert hub.requests == []
    _remember(place, project)  # as a build does, or `driver verify`
    publish(hub, project, "--dry-run")


def _remember(place: Path, project: Path, *, but: int = 0) -> None:
    """What a build does that makes a variant from all that the lock pins, but for some of it."""
    plan = plan_directory(project, Releases())
    [variant] = [planned for planned in plan.variants if planned.name == place.name]
    remember(place, made_from(plan, variant, {}, Releases().lock)[but:])


def test_archives_of_another_lock(hub: Hub, project: Path) -> None:
    """What is told of the build names the archives of the lock; those of the build may be others."""
    place = project / "build" / "torch-cpu"
    with (place / "metadata.json").open("a") as metadata:  # so that no cache knows it
        metadata.write(" " * (time.time_ns() % (1 << 20)))
    _remember(place, project, but=1)
    said = publish(hub, project, "--variant=torch-cpu", code=2).stderr
    assert f"error[E404]: {place} was made from other archives (compilers, torch, libraries) than the lock has" in said
    assert hub.requests == []
    _remember(place, project)
    publish(hub, project, "--variant=torch-cpu", "--dry-run")


def test_a_variant_whose_load_failed_is_shipped_once_it_loads(hub: Hub, project: Path) -> None:
    place = project / "build" / "torch-cpu"
    wheel = [sys.executable, "-m", "py_driver", "wheel", str(project), f"--out={project / 'dist'}"]
    remember_load(place, "torch-cpu", "torch-cpu cannot be loaded in torch 2.13: NameError: name 'x' is not defined")
    assert "error[E501]: torch-cpu cannot be loaded in torch 2.13: NameError" in publish(hub, project, code=6).stderr
    done = subprocess.run(wheel, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout, (project / "dist").exists()) == (6, "", False)
    assert hub.requests == []
    publish(hub, project, "--variant=torch-cuda", "--dry-run")
    remember_load(place, "torch-cpu", "")
    publish(hub, project, "--dry-run")


@pytest.mark.parametrize("link", ["benchmarks", "benchmarks/benchmark_x.py", "benchmarks/reports.json"])
def test_benchmark_outside_of_the_project_is_not_sent(hub: Hub, project: Path, link: str) -> None:
    secret = project.parent / "secret"
    secret.mkdir()
    (secret / "benchmark_x.py").write_text("SECRET")
    (project / link).parent.mkdir(exist_ok=True)
    (project / link).symlink_to(secret if link == "benchmarks" else secret / "benchmark_x.py")
    said = publish(hub, project, code=2).stderr
    assert f"error[E102]: `benchmarks/{'reports.json' if 'json' in link else 'benchmark_x.py'}` is a symbolic" in said
    assert f"link out of the project, to {secret}/benchmark_x.py" in said
    assert hub.requests == []


def _git(place: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", "-C", str(place), *identity, *words], check=True, capture_output=True)


def test_what_links_lead_to_is_as_the_commit_has_it(hub: Hub, project: Path) -> None:
    shared = project.parent / "shared.py"
    shared.write_text("shared = 1\n")
    (project / "torch-ext/tuned/shared.py").symlink_to("../../../shared.py")
    (project.parent / ".gitignore").write_text("build/\nhf/\n")
    _git(project.parent, "init", "-q")
    _git(project.parent, "add", "-A")
    _git(project.parent, "commit", "-q", "-m", "x")
    build(project, "torch-cpu", FILES | {"shared.py": b"shared = 1\n"})
    publish(hub, project, "--variant=torch-cpu", "--dry-run")
    shared.write_text("shared = 2\n")
    build(project, "torch-cpu", FILES | {"shared.py": b"shared = 2\n"})
    said = publish(hub, project, "--variant=torch-cpu", "--dry-run", code=2).stderr
    assert "has changes that are not committed: ../shared.py" in said


def test_benchmark_that_git_ignores_is_a_change(hub: Hub, project: Path) -> None:
    (project / ".gitignore").write_text("build/\nbenchmark_secret.py\n")
    (project / "benchmarks").mkdir()
    (project / "benchmarks" / "benchmark_x.py").touch()
    _git(project, "init", "-q")
    _git(project, "add", "-A")
    _git(project, "commit", "-q", "-m", "x")
    publish(hub, project, "--dry-run")
    (project / "benchmarks" / "benchmark_secret.py").touch()
    said = publish(hub, project, "--dry-run", code=2).stderr
    assert "has changes that are not committed: benchmarks/benchmark_secret.py" in said
