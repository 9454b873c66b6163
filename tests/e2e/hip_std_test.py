"""CUDA sources in a variant for ROCm: their host code means what it says, and masks of 32 lanes are refused."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from clone import PROJECTS, ROCM, copy_project

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

pytestmark = pytest.mark.e2e


@pytest.mark.slow
def test_host_code_means_what_it_says(clone: Driver, base: Path, tmp_path: Path) -> None:
    project = copy_project(PROJECTS / "hip_std", base / "hip_std")
    clone.build(project, ROCM)
    [objects] = clone.output.glob("*/execroot/_main/bazel-out/*/bin/projects/hip_std_list/a.objects/k")
    linked = [*objects.glob("*.cu.o"), *objects.glob("*.phases/bundle.o")]
    assert len(linked) == 4
    program = tmp_path / "call"
    command = [sys.executable, "-m", "ziglang", "c++", "-o", *map(str, (program, project / "call.cpp", *linked))]
    subprocess.run(command, check=True, capture_output=True)
    said = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    assert said == ["0.75 0.25 1 1", "1.41421 1 64", "0.75 0.25 1 4294967295", "cudaMalloc USE_CUDA 7"]


def test_mask_of_32_lanes_is_refused_with_what_to_write(clone: Driver, base: Path) -> None:
    project = copy_project(PROJECTS / "hip_mask", base / "hip_mask")
    failed = clone.run("build", project, f"--variant={ROCM}", "--keep-going", "--warnings", code=5)
    assert "k/warp.cu:4:50: note: in instantiation" in failed.stderr
    assert "write a mask of 64 bits, `0xffffffffffffffffull`" in failed.stderr
    assert "k/warp.cu:9: warning: `__ballot_sync` has 64 bits in HIP, and 32 are kept here" in failed.stderr
