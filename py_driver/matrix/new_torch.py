"""A new release of torch: the facts in its wheels on the package index."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from py_driver.errors import Code, error
from py_driver.matrix.addition import Addition
from py_driver.matrix.new_cuda import cuda_of
from py_driver.matrix.toolkits import numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from py_driver.fetch.offered import Offers

_FIRST: Final = (2, 9)
"""The first release with pybind11 3; earlier releases need `pybind-abi`, which no small part of a wheel contains."""

_STANDARD: Final = "torch/utils/cpp_extension.py"


def new_torch(
    version: str, table: Mapping[str, Any], offers: Offers, report: Callable[[str], None], *, own: bool = False
) -> Addition:
    """The addition to the matrix for a release of torch.

    Args:
        version: major and minor, e.g. `2.16`.
        table: the matrix.
        offers: the indexes.
        report: gets progress messages.
        own: whether it is for a user's own matrix, which has no other CPUs.

    Raises:
        DriverError: BAD_VALUE for an early release; NOT_FOUND_UPSTREAM if the index has none; see `Offers`; BAD_DIGEST
            if its wheel is not as expected.
    """
    if numbers(version) < _FIRST:
        first = ".".join(map(str, _FIRST))
        advice = "write its [[torch]] table by hand, with `pybind-abi`: see docs/toolchains.md"
        raise error(Code.BAD_VALUE, f"`--add torch` reads the facts of torch {first} and later", help=advice)
    releases = offers.versions("torch", version)
    if not releases:
        raise error(Code.NOT_FOUND_UPSTREAM, f"no torch {version} is on the package index")
    release = releases[-1]
    report(f"torch {release}")
    pythons = offers.pythons("torch", release)
    tag = f"cp{next(python for python in reversed(pythons) if 't' not in python).replace('.', '')}"
    asked = cuda_of(offers.requirements("torch", release, python_tag=tag))
    with offers.members("torch", release, [_STANDARD], python_tag=tag) as tree:
        standard = _number(tree / _STANDARD, r"-std=c\+\+(\d+)")
    known = {cuda["version"] for cuda in table["cuda"]}
    backend = f"cu{asked.replace('.', '')}"
    backends = ["cpu", *([backend] if asked in known else [])]
    arm = release in offers.versions("torch", version, cpu="aarch64") and not own
    compiled = [name for name in backends if name == "cpu" or _compiles_for_arm(asked, table)]
    newest = max(table["torch"], key=lambda torch: numbers(torch["version"]))
    return Addition(
        kind="torch",
        version=version,
        table={
            "version": version,
            "release": release,
            "cxx-standard": int(standard),
            "abis": ["cxx11"],
            "backends": backends,
            **({"cross": {"aarch64": compiled}} if arm else {}),
            "pythons": pythons,
            "default": False,
        },
        checked=[
            f"`release`: the last {version} on the index; `pythons`: the wheels that it has",
            f"`cxx-standard`: {_STANDARD}",
            f"`backends`: the CPU, and CUDA {asked or '(none)'}, which its wheels ask for",
            *(["`cross`: there is a wheel for aarch64 too"] if arm else []),
        ],
        open=[
            *(
                []
                if not asked or asked in known
                else [f"the matrix has no CUDA {asked}: `driver lock --add cuda {asked}`"]
            ),
            "`backends`: torch is published for other CUDA and ROCm releases too, on indexes of its own; RELEASE.md of "
            f"pytorch names them (torch {newest['version']} has {', '.join(newest['backends'])} here)",
            "`abis`: every torch since 2.7 has this one alone",
            "`default`: whether it is built without `--variant`",
            *([] if own else ["`driver gen` of the examples, the expected outputs, and the tests"]),
        ],
    )


def _compiles_for_arm(cuda: str, table: Mapping[str, Any]) -> bool:
    """Whether a release of CUDA compiles variants for Arm."""
    return any(release["version"] == cuda and "aarch64" in release.get("cross", ()) for release in table["cuda"])


def _number(path: Path, pattern: str) -> str:
    """The group of the first match of a pattern in a file."""
    found = re.search(pattern, path.read_text(encoding="utf-8")) if path.is_file() else None
    if found is None:
        raise error(Code.BAD_DIGEST, f"{path.name} of the wheel does not say what it is read for")
    return found[1]
