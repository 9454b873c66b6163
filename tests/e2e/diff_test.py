"""`driver diff` against a git commit and against the Hub: that is built, or downloaded, and compared."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from clone import CPU, PROJECTS, copy_project
from hub import served

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Built

pytestmark = pytest.mark.e2e

_OTHER = CPU.replace("torch213", "torch215")


def test_what_is_published_and_what_was_committed(relu: Built, base: Path, tmp_path: Path) -> None:
    driver, project = relu.driver, copy_project(PROJECTS / "tiny", base / "diff" / "tiny")
    package, manifest = project / "torch-ext" / "tiny" / "__init__.py", project / "build.toml"
    text = package.read_text().replace('["_ops"]', '["_ops", "twice"]')
    package.write_text(f"{text}\n\ndef twice(x: int) -> int:\n    return 2 * x\n")
    git = ["git", "-C", str(project), "-c", "user.name=n", "-c", "user.email=e@x"]
    for command in (["init", "-q"], ["add", "build.toml", "torch-ext", "csrc"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *command], check=True)
    driver.build(project, f"{{{CPU},{_OTHER}}}")
    with served() as hub:
        environ = {"HF_ENDPOINT": hub.address, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path / "hf")}
        driver.run("publish", project, "--repo-id=me/tiny", env={**environ, "HF_TOKEN": "hf_token"})

        def differ(*words: str, code: int) -> tuple[str, list[tuple[str, str, str]]]:
            done = driver.run("diff", project, *words, "--breaking", "--json", env=environ, code=code)
            changes = json.loads(done.stdout)["changes"]
            return done.stderr, [(change["kind"], change["subject"], change["breaking"]) for change in changes]

        published = ("--published", "--repo-id=me/tiny")
        assert differ(*published, code=0)[1] == differ("--since=HEAD", code=0)[1] == []
        package.write_text(package.read_text().replace("twice(x: int)", "twice(y: int)"))
        driver.run("clean", project)
        driver.build(project, CPU)
        broken = [("function", "twice", "`x` is removed; `y` is new and required")]
        said, changes = differ(*published, code=1)
        assert "1 of the 2 published variants are not built here, and not compared" in said
        assert changes == differ("--since=HEAD", code=1)[1] == broken
        manifest.write_text(manifest.read_text().replace("version = 1", "version = 2"))
        driver.build(project, CPU)
        assert differ(*published, code=0)[1] == broken  # with v1, the newest before: a new major version may break
        failed = driver.run("diff", project, "--published", "--repo-id=me/none", env=environ, code=2)
        assert f"{hub.address}/kernels/me/none has no branch v2" in failed.stderr
    assert not (project / "build" / _OTHER).exists()
    assert "git has no commit `gone`" in driver.run("diff", project, "--since=gone", code=2).stderr
