"""Which setup.py reads no other file, so that its recording serves every edit of the sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rules_torch_kernels.inline_project import Inline

from py_driver.recording.generated_script import reads_itself_alone
from py_driver.recording.project_copy import entries

if TYPE_CHECKING:
    from pathlib import Path

OURS = "from setuptools import setup\nfrom torch.utils.cpp_extension import CppExtension\n"
CALL = "setup(name='a', packages=[], ext_modules=[CppExtension('a', ['a.cpp'], extra_compile_args=[{}])])\n"


def reads_nothing(root: Path, script: str, *others: str) -> bool:
    (root / "setup.py").write_text(script, encoding="utf-8")
    for name in ("a.cpp", *others):
        (root / name).write_text("", encoding="utf-8")
    return reads_itself_alone(entries(root.resolve()))


def test_the_script_of_load_inline_reads_itself_alone(tmp_path: Path) -> None:
    flags = {"cxx": ["-O2", "-DA=1"], "nvcc": []}
    inline = Inline(
        name="scaled",
        texts={"main.cpp": b""},
        sources=["main.cpp"],
        include_dirs=["sources/x"],
        flags=flags,
        link_flags=["-lcublas"],
    )
    inline._write(tmp_path)  # noqa: SLF001  (what `build` starts with)
    assert reads_itself_alone(entries(tmp_path.resolve()))


@pytest.mark.parametrize(
    "script",
    [
        OURS + CALL.format("open('flags').read()"),
        OURS + CALL.format("'@flags'"),
        OURS + CALL.format("*FLAGS"),
        OURS + "import os\n" + CALL.format(""),
        OURS + "FLAGS = []\n" + CALL.format(""),
        OURS + "from os import environ\n" + CALL.format(""),
        OURS + "setup(name='a', version='0', **{})\n",
        OURS + "setup(name='a', long_description='file: README')\n",
        OURS + "setup(name='a', packages=[])\n",
        OURS + CALL.replace("packages=[]", "packages=['a']").format(""),
        OURS + CALL.replace("packages=[]", "py_modules=['a']").format(""),
        OURS + "setup(\n",
        "",
    ],
    ids=[
        "call",
        "response",
        "splat",
        "import",
        "assignment",
        "from",
        "keywords",
        "keyword",
        "discovery",
        "packages",
        "modules",
        "syntax",
        "empty",
    ],
)
def test_a_script_that_may_read_more_is_recorded_with_all_files(tmp_path: Path, script: str) -> None:
    assert not reads_nothing(tmp_path, script)


@pytest.mark.parametrize("name", ["pyproject.toml", "setup.cfg", "MANIFEST.in", "README.md", "LICENSE", "a.py"])
def test_a_file_that_setuptools_reads_counts(tmp_path: Path, name: str) -> None:
    assert reads_nothing(tmp_path, OURS + CALL.format("'-O2'"))
    assert not reads_nothing(tmp_path, OURS + CALL.format("'-O2'"), name)
