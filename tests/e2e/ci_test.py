"""The reusable workflow: the actions of the jobs that check, build and compare, as GitHub runs them."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from actions import EXTENSION, WORKFLOW, Runner, load
from clone import CPU, SHARED, copy_project, make_cache, stop_servers
from tree import write_files

from py_driver.system.cache import cache_root

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.e2e

JOBS = load(WORKFLOW)["jobs"]
EXTENSION_JOBS = load(EXTENSION)["jobs"]
DIRECTORY = "kernels/relu"


@pytest.fixture(scope="module")
def runner(base: Path, pristine: Path) -> Iterator[Runner]:
    """A machine with an empty HOME, that has restored a cache with archives, and nothing that was built."""
    here = base / "ci"
    (here / "workspace" / ".git").mkdir(parents=True)
    copy_project(pristine / "examples" / "relu", here / "workspace" / DIRECTORY)
    make_cache(here / "temp" / "rules_torch_kernels", {name: cache_root() / name for name in SHARED})
    output = {"RULES_TORCH_KERNELS_OUTPUT_USER_ROOT": str(here / "output")}
    marks = {name: os.environ[name] for name in ("PATH", "RULES_TORCH_KERNELS_TESTS")}
    yield Runner(
        root=pristine,
        workspace=here / "workspace",
        temp=here / "temp",
        contexts={
            "github": {
                "event_name": "push",
                "ref": "refs/heads/main",
                "sha": "a" * 40,
                "event": {"repository": {"default_branch": "main"}},
            },
            "inputs": {"directory": DIRECTORY, "variants": "torch213-*-cpu-*"},
        },
        environ={"HOME": str(here), **marks, **output},
    )
    stop_servers((here / "output").glob("*"))


def on_its_own(
    runner: Runner, job: str, jobs: Mapping[str, Any] = JOBS, **contexts: object
) -> tuple[Runner, dict[str, str]]:
    """Run a job on a machine that knows nothing of the others; the machine, and the job's outputs."""
    machine = replace(
        runner, contexts={**runner.contexts, **contexts}, environ={**runner.environ}, used=[], said=[], summary=""
    )
    outputs = machine.run(jobs[job])
    return machine, outputs


def total(summary: str) -> list[str]:
    """The last row of the table of a build: size, and how many actions were run, shared, and out of the cache."""
    [row] = [line for line in summary.splitlines() if line.startswith("total")]
    return row.split()


@pytest.mark.slow
def test_jobs_check_build_and_compare(runner: Runner) -> None:
    checked, outputs = on_its_own(runner, "check")
    assert (checked.failed, checked.said, checked.summary) == (None, [], "")
    [entry] = json.loads(outputs["matrix"])
    assert entry == {"name": "1", "select": "--variant torch213-*-cpu-*"}

    contexts = {"matrix": entry, "needs": {"check": {"outputs": outputs}}}
    built, _ = on_its_own(runner, "build", **contexts)
    assert built.failed is None
    assert built.summary.startswith("### driver build\n```text\nvariant ")
    assert built.summary.endswith("\n```\n")
    assert f"\n{CPU} " in built.summary
    ran = int(total(built.summary)[3])
    assert ran > 0
    project = runner.workspace / DIRECTORY
    assert [path.name for path in (project / "build").iterdir()] == [CPU]
    assert CPU in (project / "report.json").read_text()
    assert CPU in (project / "report.html").read_text()
    called = [name for name, _ in built.used]
    assert called == [
        "actions/checkout@v5",
        "actions/cache/restore@v5",
        "actions/cache/save@v5",
        "actions/upload-artifact@v6",
        "actions/upload-artifact@v6",
    ]
    restored, saved, *uploaded = (inputs for _, inputs in built.used[1:])
    assert saved == {name: restored[name] for name in ("path", "key")}
    assert saved["path"] == str(runner.temp / "rules_torch_kernels")
    assert [(inputs["name"], inputs["path"]) for inputs in uploaded] == [
        ("report-relu.1", f"{DIRECTORY}/report.*"),
        ("build-relu.1", f"{DIRECTORY}/build"),
    ]

    # Another machine, with what was saved: nothing is compiled.
    stop_servers((runner.workspace.parent / "output").glob("*"))
    elsewhere = {
        **runner.environ,
        "RULES_TORCH_KERNELS_OUTPUT_USER_ROOT": str(runner.workspace.parent / "second" / "output"),
    }
    shutil.rmtree(project / "build")
    again, _ = on_its_own(replace(runner, environ=elsewhere), "build", **contexts)
    assert again.failed is None
    assert total(again.summary)[3:6] == ["0", "0", str(ran)]

    (project / "report.html").unlink()
    (project / "report.json").unlink()
    # Signing and publishing need GitHub and the Hub.
    verified = replace(again, contexts=runner.contexts, used=[], said=[], summary="")
    verified.run(JOBS["publish"], "Build again without any cache, and compare")
    assert verified.failed is None
    assert verified.used == []

    source = project / "relu_cpu" / "relu.cpp"
    source.write_text(source.read_text().replace("const bool nan", "undeclared = 2; const bool nan", 1))
    wrong, _ = on_its_own(replace(runner, environ=elsewhere), "build", **contexts)
    assert wrong.failed is not None
    assert wrong.failed[1] == 5
    assert "upload-artifact" not in str(wrong.used)
    [error] = [line for line in wrong.said if "undeclared identifier" in line]
    assert error.startswith(f"::error file={DIRECTORY}/relu_cpu/relu.cpp,line=")
    assert f",title=E401::use of undeclared identifier 'undeclared'%0Ain {CPU}" in error
    stop_servers((runner.workspace.parent / "second" / "output").glob("*"))


SETUP = """from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    name="lone-op",
    version="1.0",
    py_modules=["lone"],
    ext_modules=[CppExtension("lone_op", ["lone.cpp"])],
    cmdclass={"build_ext": BuildExtension},
)
"""
LONE = """#include <torch/extension.h>

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("one", [] { return 1; }); }
"""
WHEEL = re.compile(r"\| (lone_op-1\.0\S*\.whl) \| \d+\.\d\d \| (\d+) run, (\d+) reused \| \d+\.\d \| (\w+) \|")


@pytest.mark.slow
def test_jobs_make_wheels_of_a_setup_py_and_their_index(runner: Runner) -> None:
    directory = "kernels/lone"
    project = write_files(
        runner.workspace / directory, {"setup.py": SETUP, "lone.cpp": LONE, "lone.py": "from lone_op import one\n"}
    )
    inputs = {"directory": directory, "variants": CPU, "options": "", "gpu-runner": "", "pages": True}
    own = replace(runner, contexts={**runner.contexts, "inputs": inputs})
    checked, outputs = on_its_own(own, "check", EXTENSION_JOBS)
    assert checked.failed is None
    [entry] = json.loads(outputs["matrix"])
    assert entry == {"name": "1", "select": f"--variant {CPU}"}

    contexts = {"matrix": entry, "needs": {"check": {"outputs": outputs}}}
    built, _ = on_its_own(own, "wheels", EXTENSION_JOBS, **contexts)
    assert built.failed is None
    [wheel] = (project / "dist").glob("*.whl")
    name, ran, _, verdict = WHEEL.findall(built.summary)[0]
    assert (name, verdict) == (wheel.name, "passed")
    assert int(ran) > 0
    [uploaded] = [inputs for action, inputs in built.used if action.startswith("actions/upload-artifact@")]
    assert uploaded == {
        "name": "wheels-1",
        "path": f"{directory}/dist/*.whl",
        "if-no-files-found": "error",
    }

    # What GitHub does with artifacts: it brings them to the next machine.
    (runner.workspace / "dist").mkdir()
    shutil.copy2(wheel, runner.workspace / "dist")
    listed, _ = on_its_own(own, "index", EXTENSION_JOBS)
    assert listed.failed is None
    assert wheel.name in (runner.workspace / "dist" / "simple" / "lone-op" / "index.html").read_text()
    assert [inputs["path"] for action, inputs in listed.used if "pages-artifact" in action] == ["dist"]

    wheel.write_bytes(wheel.read_bytes()[:1000])
    wrong = replace(built, used=[], said=[], summary="", contexts={**own.contexts, **contexts})
    wrong.run(EXTENSION_JOBS["wheels"], "Check the wheels")
    assert wrong.failed is not None


def test_a_kernel_is_not_for_the_workflow_of_a_setup_py(runner: Runner) -> None:
    refused, _ = on_its_own(runner, "check", EXTENSION_JOBS)
    assert refused.failed is not None
    assert "has no setup.py, or a build.toml: call kernel.yml" in refused.failed[0]
