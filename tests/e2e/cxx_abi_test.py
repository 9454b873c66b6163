"""Both C++ ABIs: a std::string goes from a section without torch to its binding; a source of the other ABI is found."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from clone import PROJECTS, action_counts, copy_project, planned
from elftools.elf.elffile import ELFFile

from py_driver.system.environment import curated

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

pytestmark = pytest.mark.e2e

CXX11 = "torch26-cxx11-cpu-x86_64-linux"
CXX98 = "torch26-cxx98-cpu-x86_64-linux"
OLDER = "torch24-cxx98-cpu-x86_64-linux"
_NEW_STRING = "_ZNSt7__cxx1112basic_string"
_OLD_STRING = "_ZNSs"
_LOAD = """
import importlib.util, os, sys
name = os.path.basename(sys.argv[1]).partition(".")[0]
importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, sys.argv[1]))
"""


@pytest.fixture(scope="module")
def project(installed: Driver, base: Path) -> Path:
    """Built for three variants, of which the first has the ABI for itself."""
    project = copy_project(PROJECTS / "info", base / "info")
    result = installed.build(project, CXX11, CXX98, OLDER)
    # The section is compiled for each ABI. The text of the binding is made for each variant; with the id it is compiled
    # for each ABI. Of equal actions that run at once each counts.
    assert planned(result) == (2 + 2 * 2 + 3, 1 + 2, 0)
    assert 2 + 2 * 2 + 3 <= action_counts(result)[0] <= 2 + 2 * 3 + 3
    assert sum(action_counts(result)) == sum(planned(result))
    return project


def _library(project: Path, variant: str) -> Path:
    [library] = (project / "build" / variant).glob("*.so")
    return library


@pytest.mark.parametrize("variant", [CXX11, CXX98, OLDER])
def test_a_string_arrives(installed: Driver, project: Path, variant: str) -> None:
    torch = variant.partition("-")[0].replace("torch2", "torch_2_")
    # The library wants nothing of torch but its names, which the stubs have that it was linked with.
    [stubs] = {path.parent for path in installed.output.glob(f"*/external/*torch_kernels_{torch}/lib/libc10.so")}
    env = curated(extra={"LD_LIBRARY_PATH": os.fspath(stubs)})
    command = [sys.executable, "-c", _LOAD, str(_library(project, variant))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    said = "a name that is too long for a small string: xxx, 3\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")


def _wanted(library: Path) -> set[str]:
    """Which strings a library wants of libstdc++."""
    with library.open("rb") as file:
        table: Any = ELFFile(file).get_section_by_name(".dynsym")
        names = [symbol.name for symbol in table.iter_symbols()]
    return {string for string in (_NEW_STRING, _OLD_STRING) if any(name.startswith(string) for name in names)}


def test_a_right_library_can_want_strings_of_both(project: Path) -> None:
    """Why the check looks at the objects: libstdc++.a brings a use of old strings into a library of new ones."""
    assert _wanted(_library(project, CXX11)) == {_NEW_STRING, _OLD_STRING}
    assert _wanted(_library(project, CXX98)) == {_OLD_STRING}


@pytest.mark.parametrize(("variant", "other"), [(CXX11, 0), (CXX98, 1)])
def test_a_source_of_the_other_abi_is_found(
    installed: Driver, project: Path, base: Path, variant: str, other: int
) -> None:
    wrong = copy_project(project, base / f"mixed-{other}")
    source = wrong / "csrc" / "info.cpp"
    define = f"#undef _GLIBCXX_USE_CXX11_ABI\n#define _GLIBCXX_USE_CXX11_ABI {other}\n"
    source.write_text(define + source.read_text())
    said = installed.run("build", wrong, f"--variant={variant}", code=5).stderr
    abi = variant.split("-")[1]
    finding = f"not compiled for {abi}: symbols with the other ABI: "
    assert f"  cxx-abi: projects/info/describe.objects/csrc/info.cpp.o: {finding}" in said
    assert "error[E402]" in said
    assert not (wrong / "build").exists()
