"""What other checkers say of libraries, as JSON: kernel-abi-check, auditwheel and abi3audit, each what it can judge.

python tests/abi/judges.py LIBRARY...
"""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_MANYLINUX = "manylinux_2_28"
_PYTHON = "3.9"


def kernel_abi_check(path: Path) -> dict[str, list[str]]:
    """Versions of symbols that are too new, and symbols of Python that are too new or not stable."""
    library = importlib.import_module("kernel_abi_check").ObjectFile(path)
    versions = {f"{finding.dep}_{finding.version}" for finding in library.check_manylinux(_MANYLINUX)}
    return {
        "versions": sorted(versions),
        "python": sorted(finding.name for finding in library.check_python_abi(_PYTHON)),
    }


def auditwheel(path: Path) -> bool:
    """Whether a wheel with the library could be a manylinux_2_28, by its versions of symbols."""
    policies = importlib.import_module("auditwheel.policy").WheelPolicies(
        libc=importlib.import_module("auditwheel.libc").Libc.GLIBC,
        arch=importlib.import_module("auditwheel.architecture").Architecture.x86_64,
    )
    elffile = importlib.import_module("elftools.elf.elffile").ELFFile
    find: Any = importlib.import_module("auditwheel.elfutils").elf_find_versioned_symbols
    symbols: dict[str, set[str]] = {}
    with path.open("rb") as file:
        for soname, version in find(elffile(file)):
            symbols.setdefault(soname, set()).add(version)
    policy = policies.versioned_symbols_policy(symbols)
    return not policy < policies.get_policy_by_name(f"{_MANYLINUX}_x86_64")


def abi3audit(paths: list[Path]) -> dict[str, list[str]]:
    """For each library, symbols of Python that are too new or not stable."""
    with tempfile.TemporaryDirectory() as directory:
        named = [Path(directory, f"{path.stem}.abi3.so") for path in paths]
        for path, name in zip(paths, named, strict=True):
            shutil.copy(path, name)
        options = ["--report", "--assume-minimum-abi3", _PYTHON, *map(str, named)]
        command = [sys.executable, "-m", "abi3audit", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    results = [spec["object"] for spec in json.loads(done.stdout)["specs"].values()]
    return {
        result["name"].removesuffix(".abi3.so"): sorted(
            [*result["result"]["non_abi3_symbols"], *result["result"]["future_abi3_objects"]]
        )
        for result in results
    }


def main() -> None:
    """Print what they say."""
    paths = [Path(name) for name in sys.argv[1:]]
    audited = abi3audit(paths)
    said = {
        path.stem: {
            "kernel-abi-check": kernel_abi_check(path),
            "auditwheel": auditwheel(path),
            "abi3audit": audited[path.stem],
        }
        for path in paths
    }
    sys.stdout.write(json.dumps(said, indent=2))


if __name__ == "__main__":
    main()
