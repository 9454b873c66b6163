"""One PTX for architectures that have the same preprocessed text: the same bytes, from fewer runs of cicc."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from clone import BINDING, CU130, PROJECTS, copy_project, cuda_steps, digests, planned, steps

if TYPE_CHECKING:
    from clone import Built

pytestmark = pytest.mark.e2e

_TEXT = "__attribute__((global)) void kernel() {}\n"  # preprocessed
_ARCHS = ("8.0", "8.6", "8.9")


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """The program that runs the phases of nvcc, with files for a step of cicc.

    Attributes:
        program: its path.
        directory: with `base.ii`, `base.ptx` and `base.stub`, of sm_80.
    """

    program: Path
    directory: Path

    def cicc(self, nvcc: str | Path, share: str, text: str, *options: str | Path) -> subprocess.CompletedProcess[str]:
        """Compile a text for sm_86, into `own.ptx` and `own.stub`."""
        (self.directory / "own.ii").write_text(text)
        roles = {"code": "own.ii", "base-code": "base.ii", "base-ptx": "base.ptx", "base-stub": "base.stub"}
        inputs = [word for role, name in roles.items() for word in ("--in", role, name)]
        command: list[str | Path] = [self.program, "phase", "cicc", "--source", "a.cu", "--section", "k", *inputs]
        command += ["--out", "own.ptx", "--stub", "own.stub"]
        command += ["--share", share, "--target", "sm_86", "--", nvcc, *options]
        command += ["--objdir-as-tempdir", "-gencode=arch=compute_86,code=sm_86", "-c", "source.cu", "-o", "object.o"]
        return subprocess.run(command, cwd=self.directory, capture_output=True, text=True, check=False)

    def own(self) -> tuple[str, str]:
        """PTX and stub."""
        return (self.directory / "own.ptx").read_text(), (self.directory / "own.stub").read_text()


@pytest.fixture
def step(relu: Built, tmp_path: Path) -> Step:
    root = Path(relu.driver.bazel("info", "execution_root").strip())
    program = next(root.glob("bazel-out/*exec*/bin/rules/private/tools/compile_program"))
    (tmp_path / "base.ii").write_text(_TEXT)
    (tmp_path / "base.ptx").write_text(".version 9.0\n.target sm_80, debug\n.entry kernel() // sm_80\n")
    (tmp_path / "base.stub").write_text("stub\n")
    return Step(program=program, directory=tmp_path)


def test_equal_text_takes_the_ptx_without_nvcc(step: Step) -> None:
    done = step.cicc("/nonexistent/nvcc", "on", _TEXT)
    assert (done.returncode, done.stderr) == (0, "")
    assert step.own() == (".version 9.0\n.target sm_86, debug\n.entry kernel() // sm_80\n", "stub\n")


def test_another_text_is_compiled(step: Step) -> None:
    done = step.cicc("/nonexistent/nvcc", "on", _TEXT.replace("kernel", "another"))
    assert done.returncode == 1
    assert "/nonexistent/nvcc" in done.stderr


def test_a_check_finds_ptx_that_is_not_what_cicc_makes(step: Step, relu: Built) -> None:
    cuda = next(relu.driver.output.glob("*/external/*torch_kernels_cuda_13_0"))
    host = next(relu.driver.output.glob("*/external/*torch_kernels_cc/clang++"))
    done = step.cicc(cuda / "bin" / "nvcc", "check", _TEXT, "-ccbin", host)
    assert done.returncode == 1
    assert done.stderr == (
        "step: a.cu: preprocessed for sm_86 it is the text of a lower architecture, but its PTX is another; "
        "compile it without ptx_sharing\n"
    )
    made = step.own()[0]
    assert ".target sm_86" in made
    (step.directory / "base.ptx").write_text(made.replace(".target sm_86", ".target sm_80"))
    done = step.cicc(cuda / "bin" / "nvcc", "check", _TEXT, "-ccbin", host)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_kernel_has_the_same_bytes_with_and_without(relu: Built, base: Path) -> None:
    project = copy_project(PROJECTS / "phases", base / "sharing")
    manifest = project / "build.toml"
    text = manifest.read_text()
    assert '"8.0", "9.0"]' in text
    manifest.write_text(text.replace('"8.0", "9.0"]', ", ".join(f'"{arch}"' for arch in (*_ARCHS, "9.0")) + "]"))
    count = 2 * cuda_steps(len(_ARCHS) + 1) + cuda_steps(2) + BINDING
    made = {}
    for mode in ("off", "on", "check"):
        options = [f"--variant={CU130}", f"--ptx-sharing={mode}"]
        result = json.loads(relu.driver.run("build", project, "--json", *options).stdout)
        assert sum(steps(result)) == count
        # Of the two sources, cicc for 8.6 and 8.9 is another step; it makes what is there already, so nothing follows.
        if mode != "off":
            assert steps(result) == (4, 0, count - 4), mode
            assert planned(result)[0] == 4, mode
        made[mode] = digests(project / "build")
    assert made["on"] == made["off"]
    assert made["check"] == made["off"]
