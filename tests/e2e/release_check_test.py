"""`driver release-check` on a real project: a harmless release passes, one that breaks callers fails at each step."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from clone import CPU

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_a_release_is_checked(clone: Driver, base: Path) -> None:
    project = base / "release-check" / "silu"
    clone.run("init", project, "--template=elementwise", "--backends=cpu")
    git = ["git", "-C", str(project), "-c", "user.name=n", "-c", "user.email=e@x"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *command], check=True)
    clone.build(project, CPU)
    package = project / "torch-ext" / "silu" / "__init__.py"

    def check(code: int) -> dict[str, tuple[str, int]]:
        words = ("--since=HEAD", "--torch=2.13", "--backend=cpu", "--json")
        said = json.loads(clone.run("release-check", project, *words, code=code).stdout)
        assert said["last-release"] == "HEAD"
        return {step["name"]: (step["verdict"], step["code"]) for step in said["steps"]}

    steps = check(0)
    assert list(steps) == ["what callers use", "tests", "numerics", "tests of the last release", "benchmarks"]
    assert steps["what callers use"] == ("no break", 0)
    assert steps["tests"] == ("skipped: all tests are numerics", 0)
    assert steps["numerics"] == steps["tests of the last release"] == ("passed", 0)
    assert steps["benchmarks"] == ("skipped: the same sources make the same build", 0)

    source = project / "csrc" / "silu.cpp"
    once, work = source.read_text(), "for (std::int64_t i = 0; i < count; ++i) {"
    assert work in once
    source.write_text(once.replace(work, f"for (int again = 0; again < 20; ++again)\n  {work}"))
    clone.build(project, CPU)
    steps = check(1)
    assert [verdict for verdict, _ in steps.values()][2:4] == ["passed", "passed"]
    assert steps["benchmarks"] == ("slower: BFloat16.silu, Float16.silu, Float32.silu", 1)
    source.write_text(once)

    text = package.read_text()
    assert "def silu(x: torch.Tensor" in text
    package.write_text(text.replace("def silu(x:", "def silu_of(x:").replace('["silu"', '["silu_of"'))
    for test in (project / "tests").glob("*.py"):
        test.write_text(test.read_text().replace("= kernel.silu\n", "= kernel.silu_of\n"))
    shutil.rmtree(project / "benchmarks")
    clone.build(project, CPU)
    steps = check(1)
    assert steps["what callers use"] == ("something breaks callers, without a new major version", 1)
    assert steps["tests of the last release"] == ("failed: exit code 2", 1)  # it has no op of that name
    assert steps["benchmarks"] == ("skipped: it has none", 0)
