"""docs/ci: the workflow and the image, as far as they can be checked where there is neither GitHub nor an engine."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from py_driver.bazel.remote import config_file, remote_of

ROOT = Path(__file__).parents[3]
CI = ROOT / "docs" / "ci"


def tool(name: str, *arguments: str) -> None:
    """Run a program of the environment that the tests run in."""
    done = subprocess.run([Path(sys.executable).parent / name, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def steps() -> list[dict[str, Any]]:
    workflow = yaml.safe_load((CI / "kernel.yml").read_text())
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def script(name: str) -> str:
    return str(next(step["run"] for step in steps() if step.get("name") == name))


def test_workflow_has_the_form_that_github_wants() -> None:
    tool("check-jsonschema", "--builtin-schema", "vendor.github-workflows", str(CI / "kernel.yml"))


def test_image_is_what_hadolint_wants() -> None:
    tool("hadolint", "--strict-labels", str(CI / "Dockerfile"))


@pytest.mark.parametrize("line", [step["run"] for step in steps() if step.get("run", "").startswith("rules/driver")])
def test_driver_understands_what_the_workflow_asks(line: str, tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "py_driver", *line.split()[1:]]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert "error[E105]: there is no kernel/build.toml" in done.stderr
    assert done.returncode == 2


@pytest.mark.parametrize("headers", ["", "Authorization: Bearer x"])
def test_workflow_sets_up_a_remote_cache(headers: str, tmp_path: Path) -> None:
    environ = {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "GITHUB_WORKSPACE": "/w",
        "GITHUB_ENV": str(tmp_path / "env"),
        "REMOTE_CACHE": "grpcs://cache.example.org",
        "REMOTE_HEADERS": headers,
    }
    subprocess.run(["sh", "-e", "-c", script("Set up")], env=environ, check=True)
    assert (tmp_path / "env").read_text() == "RULES_TORCH_KERNELS_CACHE=/w/cache\n"
    assert "/w/kernel" in (tmp_path / ".gitconfig").read_text()
    place = tmp_path / ".config" / "rules_torch_kernels"
    read = remote_of(None, None, config_file({"XDG_CONFIG_HOME": str(tmp_path / ".config")}))
    assert read.cache == "grpcs://cache.example.org"
    assert read.headers == (place / "headers" if headers else None)
    if headers:
        assert stat.S_IMODE((place / "headers").stat().st_mode) == 0o600


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
