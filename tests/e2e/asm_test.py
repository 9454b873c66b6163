"""`driver asm` on a kernel of ours: registers, instructions, PTX, source lines, what an edit changes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from clone import Driver

pytestmark = pytest.mark.e2e

VARIANT = "--variant=torch213-cxx11-cu130-x86_64-linux"
REGISTERS = {
    "8.0": {"__nv_bfloat16": 16, "__half": 18, "float": 32},
    "9.0": {"__nv_bfloat16": 21, "__half": 20, "float": 32},
}
"""Of relu_kernel, from ptxas 13.0; another number means other code for the GPU."""


@pytest.fixture(scope="module")
def project(clone: Driver, base: Path) -> Path:
    place = base / "asm" / "relu"
    return shutil.copytree(
        clone.root / "examples" / "relu", place, ignore=shutil.ignore_patterns("BUILD.bazel", "build")
    )


def asm(clone: Driver, project: Path, *words: str, code: int = 0) -> Any:  # noqa: ANN401  (JSON)
    return json.loads(clone.run("asm", project, *words, VARIANT, "--json", code=code).stdout)


def test_what_kernels_use(clone: Driver, project: Path) -> None:
    found = asm(clone, project, "--archs=8.0,9.0")["functions"]
    seen: dict[str, dict[str, int]] = {}
    for entry in found:
        kind = entry["name"].partition("<")[2].partition(">")[0]
        seen.setdefault(entry["arch"], {})[kind] = entry["registers"]
        assert entry["spills"] == entry["stack"] == entry["shared"] == 0
        assert entry["mix"]["memory"]["LDG.128"] >= 1
        assert "code" not in entry
    assert seen == REGISTERS
    assert not (project / "build").exists()
    assert "relu_cuda::relu_kernel<float>" in clone.run("asm", project, VARIANT, "--archs=9.0").stdout


def test_the_code_of_one(clone: Driver, project: Path) -> None:
    words = ("relu_kernel<float>", "--archs=9.0")
    [sass] = asm(clone, project, *words)["functions"]
    assert sass["code"].count("LDG.E.128") == sass["mix"]["memory"]["LDG.128"]
    [ptx] = asm(clone, project, *words, "--ptx")["functions"]
    assert ptx["code"].startswith(f".entry {sass['symbol']}(")
    [source] = asm(clone, project, *words, "--source")["functions"]
    line = "for (std::int64_t i = first; i < packs; i += stride) {"
    assert f"  {line}\n" in source["code"]
    assert source["instructions"] == sass["instructions"]


def test_what_an_edit_changes(clone: Driver, project: Path) -> None:
    git = ["git", "-C", str(project), "-c", "user.name=x", "-c", "user.email=x@y"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    same = asm(clone, project, "--archs=9.0", "--diff=HEAD")["functions"]
    assert [row["change"] for row in same] == ["same"] * 3
    source = project / "relu_cuda" / "relu.cu"
    text = source.read_text(encoding="utf-8")
    bounds = text.replace("__global__ void relu_kernel", "__global__ void __launch_bounds__(1024, 2) relu_kernel")
    source.write_text(bounds, encoding="utf-8")
    changed = asm(clone, project, "--archs=9.0", "--diff=HEAD", code=1)["functions"]
    source.write_text(text, encoding="utf-8")
    assert any(row["change"] != "same" for row in changed)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nothing"], 2, "no function has `nothing` in its name"),
        (["--ptx"], 2, "no FUNCTION is given to show"),
        (["--variant=*-cpu-*"], 3, "with CUDA code match `*-cpu-*`"),
    ],
)
def test_what_is_not_there(clone: Driver, project: Path, words: list[str], code: int, said: str) -> None:
    assert said in clone.run("asm", project, VARIANT, "--archs=9.0", *words, code=code).stderr


PAGE = Path(__file__).parents[2] / "docs" / "kernels.md"
SHOWN = re.findall(
    r"driver init (\S+) ([^\n]*)\ndriver asm \1 '([^'\n]+)' --variant '(\S+)' --archs (\S+)\n```"
    r"(?:(?!\n## ).)*?```asm\n(.*?)```",
    PAGE.read_text(encoding="utf-8"),
    re.DOTALL,
)
"""Of each kernel that the page shows: directory, options of `init`, function, variant, architecture, instructions."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "function", "variant", "arch", "shown"), SHOWN, ids=[case[0] for case in SHOWN]
)
def test_the_page_of_kernels_shows_what_they_are(  # noqa: PLR0913  (what the page has)
    clone: Driver, base: Path, name: str, options: str, function: str, variant: str, arch: str, shown: str
) -> None:
    place = base / "asm" / name
    clone.run("init", place, *options.split())
    [found] = json.loads(clone.run("asm", place, function, f"--variant={variant}", f"--archs={arch}", "--json").stdout)[
        "functions"
    ]
    if name == "fast-gemm":
        assert (found["registers"], found["spills"]) == (168, 0)
    rest = iter(re.findall(r"/\*[0-9a-f]{4,}\*/ +(?:@!?U?P\d+ )?([^;]+?) *;", found["code"]))
    for line in shown.splitlines():
        assert any(text.startswith(line) for text in rest), f"{line} is not there, or not in this order"


def test_the_page_of_kernels_has_all_of_them() -> None:
    assert [kernel[0] for kernel in SHOWN] == [
        "attend",
        "new-gemm",
        "fast-gemm",
        "wmma",
        "int4",
        "experts",
        "norm",
    ]
