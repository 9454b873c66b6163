"""The commands of a new project's AGENTS.md, and those of the skill, as an assistant calls them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest
from hub import served
from tree import write_files

from py_driver.errors import Code
from py_driver.resources import resource

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from clone import Driver

pytestmark = pytest.mark.e2e

TORCH = "--torch=2.13"
NARROW = (TORCH, "--backend=cpu")
SKILL = resource("skills/torch-kernels/SKILL.md")
WITH_TORCH = ("run", "test", "bench", "profile", "tune")
WITHOUT_GPU = {
    "asm": Code.NO_SUCH_VARIANT,
    "profile": Code.USAGE,
    "tune": Code.FILE_MISSING,
    "test --under memcheck": Code.USAGE,
    "test --under racecheck": Code.USAGE,
}
"""What a project for the CPU cannot do, and the error that says so."""

SETUP_PY = {
    "setup.py": "from setuptools import setup\nfrom torch.utils.cpp_extension import BuildExtension, CppExtension\n"
    "setup(name='lone-op', version='1.0', ext_modules=[CppExtension('lone_op', ['lone.cpp'])],\n"
    "      cmdclass={'build_ext': BuildExtension})\n",
    "lone.cpp": "#include <torch/extension.h>\n"
    'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("one", [] { return 1; }); }\n',
    "tests/test_lone.py": "import torch\nimport lone_op\n\n\ndef test_one():\n    assert lone_op.one() == 1\n",
}


def section(title: str) -> list[str]:
    """The command lines of a section of the skill."""
    body = SKILL.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return "".join(re.findall(r"^```sh\n(.*?)^```", body, re.MULTILINE | re.DOTALL)).splitlines()


def call(clone: Driver, directory: Path, line: str, env: Mapping[str, str] | None = None) -> None:
    """Run a command line of a page, for the CPU and one torch; what it prints as JSON is validated by `run`."""
    name, *words = shlex.split(line.replace("CODE", "E108"))[1:]
    end = words.index("--") if "--" in words else len(words)
    own = [word for word in words[:end] if word not in {"--torch", "2.13", "--backend", "cpu"}]
    narrow = (TORCH,) if name in WITH_TORCH else NARROW if name in {"build", "verify", "wheel"} else ()
    key = " ".join([name, *own[own.index("--under") :]]) if "--under" in own else name
    wrong = WITHOUT_GPU.get(key)
    code = wrong.exit_code if wrong else 0
    done = clone.run(name, *own, *narrow, *words[end:], cwd=directory, env=env, code=code)
    if wrong and "--json" in own:
        assert json.loads(done.stdout)["errors"][0]["code"] == wrong.number
    if wrong:
        assert f"error[{wrong.number}]" in done.stderr


@pytest.mark.slow
def test_a_new_project_from_its_page_to_its_release(clone: Driver, base: Path) -> None:
    here = base / "assistant"
    here.mkdir()
    listed, made = section("A new project")
    clone.run(*shlex.split(listed)[1:], cwd=here)
    clone.run(*shlex.split(made.replace("cpu,cuda", "cpu"))[1:], cwd=here)
    project = here / "fast-relu"
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@b"]
    subprocess.run([*git, "add", "-A"], cwd=project, check=True)
    subprocess.run([*git, "commit", "-qm", "begin"], cwd=project, check=True)
    page = re.findall(r"^\| [^|]* \| `(driver [^`]*)`", (project / "AGENTS.md").read_text(), re.MULTILINE)
    assert {line.split()[1] for line in page} >= {"check", "run", "test", "bench", "asm", "profile", "tune", "publish"}
    lines = [*page, *section("The loop"), *section("Faster"), *section("Release")]
    with served() as hub:
        for line in dict.fromkeys(lines):
            call(clone, project, line, {"HF_ENDPOINT": hub.address, "HF_TOKEN": "hf_token"})
        assert "me/fast-relu" not in hub.repositories  # of all that is on the pages, nothing publishes


@pytest.mark.slow
def test_a_setup_py_as_the_skill_has_it(clone: Driver, base: Path) -> None:
    project = write_files(base / "lone", SETUP_PY)
    for line in section("A project with a setup.py"):
        call(clone, project, line)
