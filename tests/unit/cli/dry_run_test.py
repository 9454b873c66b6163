"""`driver build --dry-run`: the plan of a build, while another one has the project, and without Bazel."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest

from py_driver.actions.workspace import one_at_a_time
from py_driver.cli import run_command_line
from py_driver.errors import Code, DriverError
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.plan.plan import plan_directory
from py_driver.system.cache import CACHE_VARIABLE

TINY = Path(__file__).parents[3] / "tests" / "e2e" / "projects" / "tiny"
OLD = "torch25-cxx11-cu124-x86_64-linux"
VARIANTS = ["torch213-cxx11-cu130-x86_64-linux", "torch215-cxx11-cu130-x86_64-linux"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("RULES_TORCH_KERNELS_BAZEL", "/nonexistent")
    return Path(shutil.copytree(TINY, tmp_path / "tiny"))


def _ran(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = run_command_line(["build", "--dry-run", *words], Output(out, err, {}))
    return code, out.getvalue(), err.getvalue()


def test_a_plan_waits_for_nobody(project: Path) -> None:
    with one_at_a_time(project, plan_directory(project, Releases()), Output(io.StringIO(), io.StringIO(), {})):
        code, out, err = _ran(str(project), *(f"--variant={name}" for name in VARIANTS))
    assert code == 0
    assert "plan: 2 variants, " in err
    assert "waiting" not in err
    assert [line.split()[0] for line in out.splitlines()] == ["variant", *VARIANTS]
    assert not (project / "build").exists()


def test_a_plan_as_json(project: Path) -> None:
    _, out, _ = _ran(str(project), "--json", *(f"--variant={name}" for name in VARIANTS))
    told = json.loads(out)
    first, second = told["variants"]
    assert [first["variant"], second["variant"]] == VARIANTS
    assert first["actions"]["run"] > second["actions"]["run"] > 0
    assert second["actions"]["shared"] > 0
    assert told["plan"]["run"] == first["actions"]["run"] + second["actions"]["run"]
    assert told["plan"]["seconds"] > 0


def test_a_compression_that_a_fatbinary_does_not_know_is_an_error(project: Path) -> None:
    for choice in ("balance", "size"):
        assert _ran(str(project), f"--compress={choice}", f"--variant={VARIANTS[0]}")[0] == 0
        with pytest.raises(DriverError) as caught:
            _ran(str(project), f"--compress={choice}", f"--variant={VARIANTS[0]}", f"--variant={OLD}")
        [wrong] = caught.value.diagnostics
        assert wrong.message == f"--compress: fatbinary of CUDA 12.4 cannot compress for `{choice}`"
        assert wrong.help == "choose none or speed, or build without cu124"
    for choice in ("none", "release", "speed"):
        assert _ran(str(project), f"--compress={choice}", f"--variant={OLD}")[0] == 0


def test_plans_of_several_projects(project: Path, tmp_path: Path) -> None:
    shutil.copytree(project, tmp_path / "other")
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong" / "build.toml").write_text("[general]")
    words = [str(tmp_path / name) for name in ("tiny", "other", "wrong")]
    code, out, err = _ran(*words, f"--variant={VARIANTS[0]}")
    assert code == 2
    assert "plan: 2 variants, " in err
    rows = [line.split()[:2] for line in out.splitlines()]
    assert rows == [["project", "variant"], [words[0], VARIANTS[0]], [words[1], VARIANTS[0]]]


def test_what_is_wrong_with_a_project_is_an_error(project: Path) -> None:
    with pytest.raises(DriverError) as caught:
        _ran(str(project), "--variant=torch1-*")
    assert caught.value.diagnostics[0].code is Code.NO_SUCH_VARIANT
