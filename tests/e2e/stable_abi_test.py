"""A kernel for torch's stable ABI: one variant for every torch from 2.9 on, which needs C functions of torch alone."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from clone import BINDING, PROJECTS, Built, Driver, action_counts, copy_project, cuda_actions
from elftools.elf.elffile import ELFFile

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e

_CPU, _CU130 = (f"torch-stable-abi29-{backend}-x86_64-linux" for backend in ("cpu", "cu130"))
_OF_TORCH = re.compile(r"(aoti_)?torch_\w+")
_OF_OTHERS = re.compile(r"(__)?cuda[A-Z]\w+|PyModule_Create2|_ITM_\w+TMCloneTable")
_SCALE = """
import sys, torch
from pathlib import Path
from kernels import get_local_kernel
kernel = get_local_kernel(Path(sys.argv[1]))
for x in (torch.randn(7, 5), torch.randn(5, 7).t(), torch.empty(0)):
    torch.testing.assert_close(kernel.scale(x, -2.5), x * -2.5)
try:
    kernel.scale(torch.ones(2, dtype=torch.float64), 1.0)
except RuntimeError as refused:
    assert "`input` is not float32" in str(refused)
else:
    raise AssertionError("float64 was taken")
print(Path(kernel.__file__).parent.name)
"""


@pytest.fixture(scope="module")
def stable(clone: Driver, base: Path) -> Built:
    """The project, built for the CPU and for one CUDA release."""
    project = copy_project(PROJECTS / "stable", base / "stable")
    return Built(driver=clone, project=project, result=clone.build(project, "torch-stable-abi29-{cpu,cu130}-*"))


def _undefined(directory: Path) -> Iterator[str]:
    """The names that a variant's library takes from others, less those with a version: torch's have none."""
    [library] = directory.glob("*.so")
    with library.open("rb") as file:
        elf = ELFFile(file)
        table: Any = elf.get_section_by_name(".dynsym")
        versions: Any = elf.get_section_by_name(".gnu.version")
        for number, symbol in enumerate(table.iter_symbols()):
            versioned = versions.get_symbol(number)["ndx"] not in {"VER_NDX_LOCAL", "VER_NDX_GLOBAL"}
            if symbol.name and symbol["st_shndx"] == "SHN_UNDEF" and not versioned:
                yield symbol.name


@pytest.mark.parametrize("variant", [_CPU, _CU130])
def test_torch_is_used_through_its_c_functions_alone(stable: Built, variant: str) -> None:
    names = set(_undefined(stable.build / variant))
    assert "aoti_torch_library_impl" in names
    assert [name for name in names if not _OF_TORCH.fullmatch(name) and not _OF_OTHERS.fullmatch(name)] == []


def test_torch_computes_with_it(stable: Built) -> None:
    python = python_for([parse(_CPU)], Releases(), Output())
    environment = curated(extra={"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1", "LD_BIND_NOW": "1"})
    command = [python, "-c", _SCALE, str(stable.build)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd="/")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == _CPU


def test_each_section_and_binding_is_compiled_once(stable: Built) -> None:
    assert sorted(path.name for path in stable.build.iterdir()) == [_CPU, _CU130]
    assert action_counts(stable.result) == (1 + 2 * BINDING + cuda_actions(1), 0, 0)


def test_what_is_newer_than_the_stable_abi_does_not_compile(stable: Built, base: Path) -> None:
    project = copy_project(stable.project, base / "newer")
    source = project / "csrc" / "scale.cpp"
    source.write_text(source.read_text().replace("input.data_ptr()", "input.const_data_ptr()"))
    wrong = stable.driver.run("build", project, "--variant", _CPU, code=5)
    assert "no member named 'const_data_ptr'" in wrong.stderr
