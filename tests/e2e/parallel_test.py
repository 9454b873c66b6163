"""Builds at the same time: a short one does not wait for a long one, and has the same bytes as if it were alone."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from clone import CPU, PROJECTS, action_counts, copy_project, digests, wait_for_process

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

_WORK = """#include "one.h"

// Minutes of nothing but work for the compiler.
template <int N> constexpr int spin() {
  int sum = N;
  for (int at = 0; at < 250000; ++at) sum = (sum * 31 + at) % 65537;
  return sum;
}
template <int N> struct Sum { static constexpr int value = (spin<N>() + Sum<N - 1>::value) % 65537; };
template <> struct Sum<0> { static constexpr int value = 0; };

int one() { return Sum<900>::value; }
"""


def _project(place: Path, name: str) -> Path:
    project = copy_project(PROJECTS / "tiny", place / name)
    (project / "torch-ext" / "tiny").rename(project / "torch-ext" / name)
    manifest = project / "build.toml"
    manifest.write_text(manifest.read_text().replace('name = "tiny"', f'name = "{name}"'))
    return project


def test_a_short_build_does_not_wait_for_a_long_one(installed: Driver, base: Path) -> None:
    short, long = (_project(base / "turns", name) for name in ("short", "long"))
    installed.build(short, CPU)
    (long / "csrc" / "one.cpp").write_text(_WORK)
    source = short / "csrc" / "one.cpp"
    source.write_text(f"{source.read_text()}int two() {{ return 2; }}\n")
    with installed.start("build", long, f"--variant={CPU}") as process:
        wait_for_process("clang", "projects/long/csrc/one.cpp")
        meanwhile = installed.build(short, CPU)
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert action_counts(meanwhile)[0] > 0
    made = digests(short / "build")
    assert action_counts(installed.build(short, CPU))[0] == 0
    assert digests(short / "build") == made
    # The second server has unpacked nothing.
    [second] = installed.output.glob("*-1/external/*torch_kernels_cc/zig/zig")
    assert any(second.samefile(zig) for zig in installed.cache.glob("servers/*/external/*torch_kernels_cc/zig/zig"))
