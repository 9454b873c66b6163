"""Write `since` into py_driver/resources/stable_abi.toml: which torch first has each equivalent; tensor_methods.txt.

Run by hand:

    PYTHONPATH=. python rules/private/policy/stable.py

Each row is compiled by gcc with the headers of each locked torch since 2.10, with that torch as TORCH_TARGET_VERSION.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import tomli

from py_driver.fetch.entry import parse_entry
from py_driver.fetch.fetcher import Fetcher
from py_driver.fetch.store import Store
from py_driver.fetch.unpacking import unpack
from py_driver.matrix.releases import Releases
from py_driver.system.cache import cache_root

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HERE = Path(__file__).parent
TABLE: Final = HERE.parents[2] / "py_driver" / "resources" / "stable_abi.toml"
METHODS: Final = TABLE.with_name("tensor_methods.txt")
_HEAD: Final = "# Methods of at::Tensor in the newest locked torch, by rules/private/policy/stable.py."
_FIRST: Final = (2, 10)
_WRONG: Final = re.compile(r"^row:(\d+):.*error", re.MULTILINE)
_METHOD: Final = re.compile(
    r"^  (?!return|if|for|else)[\w:<>,&* ]*[\w>&*] ([a-z_]\w*)\(.*\) ?(?:const)? ?&* ?[;{]", re.MULTILINE
)
_OF_OTHERS: Final = {"all", "any", "count", "data", "index", "max", "min", "name", "names", "reset", "swap", "values"}
"""Methods that containers and other classes of C++ and CUDA also have: too often the object is no tensor."""

_USES: Final = "const torch::stable::Tensor& t, torch::stable::Tensor& m"


def compiling(rows: Sequence[Mapping[str, Any]], include: Path, version: str) -> set[int]:
    """The numbers of the rows that compile with the headers of a torch; each row names its errors by `#line`.

    Args:
        rows: the rows of the table.
        include: the directory `torch/include`.
        version: `2.13`.
    """
    headers = sorted({row["header"] for row in rows})
    lines = [f"#if __has_include(<{header}>)\n#include <{header}>\n#endif" for header in headers]
    for number, row in enumerate(rows, 1):
        body = row["check"].replace("\n", f'\n#line {number} "row"\n')
        lines.append(f'#line {number} "row"\nvoid row_{number}({_USES}) {{\n#line {number} "row"\n{body}\n}}')
    major, minor = version.split(".")
    target = f"-DTORCH_TARGET_VERSION=0x{int(major):02x}{int(minor):02x}000000000000ULL"
    command = [
        "g++",
        "-std=c++20",
        "-fsyntax-only",
        "-DUSE_CUDA=1",
        "-fmax-errors=0",
        target,
        f"-I{include}",
        "-xc++",
        "-",
    ]
    ran = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False)
    if ran.returncode and not _WRONG.search(ran.stderr):
        raise SystemExit(ran.stderr[:4000])
    wrong = {int(number) for number in _WRONG.findall(ran.stderr)}
    return {number for number in range(1, len(rows) + 1) if number not in wrong}


def methods(include: Path) -> list[str]:
    """The methods of tensors that the headers of a torch declare, ascending.

    Args:
        include: the directory `torch/include`.
    """
    headers = (include / "ATen" / "core" / name for name in ("TensorBase.h", "TensorBody.h"))
    texts = (
        re.split(r"^\};", header.read_text(encoding="utf-8").split("class TORCH_API Tensor", 1)[1], flags=re.MULTILINE)[
            0
        ]
        for header in headers
    )
    return sorted({name for text in texts for name in _METHOD.findall(text)} - _OF_OTHERS)


def headers_of(part: Mapping[str, Any], tree: Path) -> Path:
    """The directory `torch/include` of a locked torch, unpacked into a directory.

    Args:
        part: of the lock, for the release.
        tree: the directory, which does not exist.
    """
    entry = parse_entry(part["archive"])
    unpack(Fetcher(Store(cache_root())).fetch(entry).path, entry, tree)
    return tree / "torch" / "include"


def main() -> None:
    """Write the table."""
    text = TABLE.read_text(encoding="utf-8")
    rows = tomli.loads(text)["use"]
    found: dict[str, set[int]] = {}
    names: list[str] = []
    for version, part in Releases().lock.parts["torch"].items():
        if (*map(int, version.split(".")),) < _FIRST:
            continue
        with tempfile.TemporaryDirectory(dir=cache_root()) as work:
            include = headers_of(part, Path(work) / "tree")
            found[version] = compiling(rows, include, version)
            names = methods(include)
    METHODS.write_text("\n".join([_HEAD, *names, ""]), encoding="ascii")
    parts = text.split("[[use]]\n")
    for number in range(1, len(rows) + 1):
        since = ""
        for version in reversed(found):
            if number not in found[version]:
                break
            since = version
        parts[number] = re.sub(r'^since = ".*"$', f'since = "{since}"', parts[number], flags=re.MULTILINE)
    TABLE.write_text("[[use]]\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
