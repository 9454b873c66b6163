"""CMake in a recording: its programs, the input of its toolchain file and find_package(Torch), and library names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from py_driver.recording import stand_ins
from py_driver.recording.facts import facts

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.recording.stand_ins import Torch

NAME: Final = "cmake"
"""The program that a project without such a requirement calls."""

_OUTPUT: Final = b"# recorded, not compiled\n"
"""The first bytes of compilers' outputs: MAGIC of setup_recorder/compiler.py."""

_ARCH: Final = re.compile(r"(\d+)\.(\d[af]?)(\+PTX)?")


def is_there(packages: Path) -> bool:
    """Whether a recording has CMake.

    Args:
        packages: the directory of its build requirements.
    """
    return (packages / programs()[NAME]).is_file()


def programs() -> dict[str, str]:
    """CMake's programs, each with its path below the packages; a recording with the packages runs them."""
    table: dict[str, str] = facts()["cmake"]["programs"]
    return table


def is_output(path: Path) -> bool:
    """Whether a compiler of a recording wrote a file.

    Args:
        path: the file.
    """
    with path.open("rb") as file:
        return file.read(len(_OUTPUT)) == _OUTPUT


def write(scratch: Path, base: str, torch: Torch, cpu: str) -> None:
    """Prepare a recording for CMake.

    Args:
        scratch: the directory that `stand_ins.write` wrote to.
        base: the path of that directory for a program in the run.
        torch: the torch of the recording.
        cpu: e.g. `x86_64`.
    """
    table = facts()["cmake"]
    for name, program in programs().items():
        path = scratch / stand_ins.PROGRAMS / name
        path.unlink(missing_ok=True)
        path.symlink_to(f"{base}/{stand_ins.PYTHON}/{stand_ins.site_packages()}/{program}")
    (scratch / stand_ins.PROGRAMS / "ar").write_text(stand_ins.recorded("ar", base), encoding="utf-8")
    (scratch / stand_ins.PROGRAMS / "ar").chmod(0o755)
    archs = architectures(torch.arch_list) if torch.cuda else []
    values = {
        "CPU": cpu,
        "PROGRAMS": f"{base}/{stand_ins.PROGRAMS}",
        "TOOLKIT": f"{base}/{stand_ins.TOOLKIT}",
        "TORCH": f"{base}/{stand_ins.STAND_IN}/torch",
        "RELEASE": torch.version.partition("+")[0],
        "CXX11": str(int(torch.cxx11)),
        "GCC": facts()["answers"]["gcc"]["short"].strip(),
        "CUDA": torch.build if torch.cuda else "",
        "DEFAULT_ARCH": re.sub(r"\D.*", "", archs[0]) if archs else "",
    }
    lines = [f'set(RECORDED_{name} "{value}")\n' for name, value in values.items()]
    (scratch / stand_ins.STAND_IN / "cmake" / "configuration.cmake").write_text("".join(lines), encoding="utf-8")
    for name in table["torch-libraries"]:
        if torch.cuda or "cuda" not in name:
            (scratch / stand_ins.STAND_IN / "torch" / "lib" / name).touch()
    for name in table["libraries"] if torch.cuda else ():
        (scratch / stand_ins.TOOLKIT / "lib64" / name).touch()
    if torch.cuda:
        (scratch / stand_ins.TOOLKIT / "include" / "cuda_runtime.h").touch()


def environment(base: str, torch: Torch, jobs: str) -> dict[str, str]:
    """The variables through which CMake finds the files of `write`.

    Args:
        base: the path of the directory for a program in the run.
        torch: the torch of the recording.
        jobs: how many programs may run at once.
    """
    found = {
        "CMAKE_BUILD_PARALLEL_LEVEL": jobs,
        "CMAKE_GENERATOR": "Ninja",
        "CMAKE_TOOLCHAIN_FILE": f"{base}/{stand_ins.STAND_IN}/cmake/toolchain.cmake",
        "RECORDED_LOG": f"{base}/{stand_ins.OUT}/linked.log",
        "SKBUILD_BUILD_DIR": "build/cmake",  # of scikit-build-core: in the project, so that generated files are kept
    }
    return {**found, "CUDAARCHS": ";".join(architectures(torch.arch_list))} if torch.cuda else found


def architectures(arch_list: str) -> list[str]:
    """TORCH_CUDA_ARCH_LIST in the form of CMAKE_CUDA_ARCHITECTURES: `80-real`, and `90` for `9.0+PTX`.

    Args:
        arch_list: architectures, separated by `;` or blanks.
    """
    found = [_ARCH.fullmatch(arch) for arch in re.split(r"[;\s]+", arch_list) if arch]
    return [f"{match[1]}{match[2]}{'' if match[3] else '-real'}" for match in found if match]
