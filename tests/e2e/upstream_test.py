"""What upstream's builder takes, and this one refused once: headers of other sections, csrc, slips in lists."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from clone import BINDING, CPU, CU130, PROJECTS, copy_project, cuda_actions, torch_actions

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

pytestmark = pytest.mark.e2e

_LOAD = """
import pathlib, sys
from kernels import get_local_kernel
kernel = get_local_kernel(pathlib.Path(sys.argv[1]))
print(getattr(kernel, sys.argv[2])(*map(int, sys.argv[3:])))
"""


def _load(project: Path, function: str, *words: str) -> str:
    """What a function of a kernel that was built for the CPU returns."""
    python = python_for([parse(CPU)], Releases(), Output())
    env = curated(extra={"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"})
    command = [python, "-c", _LOAD, str(project / "build"), function, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_project_as_upstream_takes_it(clone: Driver, base: Path) -> None:
    project = copy_project(PROJECTS / "spread", base / "spread")
    result = clone.build(project, CPU, CU130)
    archs = {variant["variant"]: variant["archs"] for variant in result["variants"]}
    assert archs == {CPU: [], CU130: ["9.0"]}
    assert _load(project, "twice_and_one", "20") == "41"
    # What the other sections list, and the section does not reach, is no input of it.
    (project / "csrc" / "sum.h").write_text("#pragma once\n\nint sum(int count);  // changed\n", encoding="utf-8")
    actions = clone.build(project, CU130)["variants"][0]["actions"]
    assert actions["run"] > 0
    (project / "lib" / "scale.cpp").write_text('#include "scale.hpp"\n\nint scale(int c) { return 2 * c; }\n')
    assert clone.build(project, CU130)["variants"][0]["actions"]["run"] == 0


def test_a_source_of_several_sections_is_compiled_once(clone: Driver, base: Path) -> None:
    """Sections of names that no label carries; a source of two of them; CUDA in the binding; a macro of the rules."""
    project = copy_project(PROJECTS / "merged", base / "merged")
    result = clone.build(project, CPU, CU130)
    made = {variant["variant"]: variant for variant in result["variants"]}
    assert made[CU130]["archs"] == ["8.0", "9.0"]
    # The binding, and host.cpp in one action; for CUDA the binding, and two sources for two architectures.
    cuda = BINDING + cuda_actions(2) + torch_actions(2)
    assert [sum(counts["actions"].values()) for counts in (made[CPU], made[CU130])] == [BINDING + 1, cuda]
    assert _load(project, "sum") == "42"
    checked = clone.run("abi-check", project / "build" / CU130, "--json")
    [library] = json.loads(checked.stdout)["libraries"]
    assert (library["findings"], library["gpu-code"]) == ([], ["sm_80", "sm_90"])
    image = next((project / "build" / CU130).glob("*.so")).read_bytes()
    assert all(name in image for name in (b"_Z4fillPi", b"_Z14of_the_bindingPi"))


def test_nested_projects_share_sources_by_a_link_within_one_repository(clone: Driver, base: Path) -> None:
    repository = copy_project(PROJECTS / "nested_shared", base / "nested_shared")
    projects = [repository / "attn", repository / "attn" / "decode"]
    for project in projects:
        (project / "common").symlink_to("../common" if project.name == "attn" else "../../common")
    for words in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", "-C", str(repository), *words], check=True)
    for project in projects:
        result = clone.build(project, CPU)
        assert result["variants"][0]["actions"]["run"] == BINDING + 1
        assert _load(project, "nothing") == "0"
    subprocess.run(["git", "-C", str(repository), "rm", "--quiet", "--cached", "-r", "common"], check=True)
    wrong = clone.run("check", projects[1], code=2)
    assert wrong.stderr.count("error[E102]") == wrong.stderr.count("error[") == 2  # the source and the header
