"""Write python_stable_abi.txt from the package `abi3info`, and torch_shims.txt from torch's headers. Run by hand.

    python -m pip install abi3info && python rules/private/policy/update.py [TORCH_INCLUDE]

TORCH_INCLUDE is the directory `torch/include` of the newest torch. Without it torch_shims.txt stays as it is.
"""

from __future__ import annotations

import importlib
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path(__file__).parent
_OLDEST = "3.9"
# Symbols of Windows and of debug builds, which no release of Python for Linux has.
_ELSEWHERE = {"MS_WINDOWS", "USE_STACKCHECK", "Py_REF_DEBUG"}
_HEADERS = ("torch/csrc/stable/c/*.h", "torch/csrc/inductor/aoti_torch/c/*.h")
_GENERATED = "torch/csrc/inductor/aoti_torch/generated/*.h"
_CONDITION = re.compile(r"^\s*#\s*(if|endif)\w*\b(.*)")
_GUARD = re.compile(r"TORCH_FEATURE_VERSION\s*>=\s*TORCH_VERSION_(\d+)_(\d+)_\d+")
_FUNCTION = re.compile(r"\b((?:aoti_)?torch_\w+)\s*\(")


def python_symbols() -> dict[str, str]:
    """The symbols of Python's stable ABI, each with the Python that added it."""
    abi3info = importlib.import_module("abi3info")
    return {
        symbol.name: f"{one.added.major}.{one.added.minor}"
        for symbol, one in [*abi3info.FUNCTIONS.items(), *abi3info.DATAS.items()]
        if one.ifdef is None or one.ifdef.name not in _ELSEWHERE
    }


def shims(include: Path) -> dict[str, str]:
    """The functions of torch's C shim behind a version guard, each with its version."""
    found: dict[str, str] = {}
    for header in sorted(path for pattern in (*_HEADERS, _GENERATED) for path in include.glob(pattern)):
        guards: list[str] = []
        for line in header.read_text(encoding="utf-8").splitlines():
            if condition := _CONDITION.match(line):
                if condition[1] == "endif":
                    guards.pop()
                else:
                    guard = _GUARD.search(condition[2])
                    guards.append(f"{guard[1]}.{guard[2]}" if guard else "")
                continue
            since = next(filter(None, reversed(guards)), "")
            for name in _FUNCTION.findall(line):
                found[name] = since if found.get(name, since) else ""
    return {name: since for name, since in found.items() if since}


def write(name: str, head: str, symbols: Mapping[str, str]) -> None:
    """Write a file: a comment, then one symbol on each line."""
    lines = [head, *(f"{symbol} {since}" for symbol, since in sorted(symbols.items()))]
    (HERE / name).write_text("\n".join(lines) + "\n", encoding="ascii")


def main() -> None:
    """Write the files."""
    write(
        "python_stable_abi.txt",
        f"# CPython's stable ABI and the version that brought each symbol, from abi3info {version('abi3info')} by\n"
        f"# update.py. `oldest` is the Python that an extension must load into.\noldest {_OLDEST}",
        python_symbols(),
    )
    if len(sys.argv) > 1:
        include = Path(sys.argv[1])
        defines = (include / "torch/headeronly/version.h").read_text(encoding="utf-8")
        name = ".".join(re.findall(r"^#define TORCH_VERSION_(?:MAJOR|MINOR) (\d+)", defines, re.MULTILINE))
        write(
            "torch_shims.txt",
            f"# Functions of torch's C shim and the torch that brought each, from the headers of torch {name} by\n"
            "# update.py. What is not listed is older than the guards.",
            shims(include),
        )


if __name__ == "__main__":
    main()
