"""Compares the commands of each nvcc's dry run with those recorded when its phases were defined."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from halves import sdks

if TYPE_CHECKING:
    from clone import Driver

_COMPILE: Final = ("-c", "source.cu", "-o", "object.o")
_EXPECTED: Final = Path(__file__).parents[1] / "e2e" / "dryrun"

# When nvcc only links, its files are not beside its output, and their names contain its process id.
_TEMPORARY: Final = re.compile(r"/\S*?tmpxft_[0-9a-f]+_[0-9a-f]+-\d+")
_CALLS: Final = {
    "": ("-std=c++17", *_COMPILE),
    "_relocatable": ("-std=c++17", "-rdc=true", *_COMPILE),
    "_device_link": ("-dlink", "object.o", "-o", "link.o"),
}
"""The options of calls, by the suffix of their files."""


def expect_known_commands(clone: Driver, version: str, directory: Path, name: str = "") -> None:
    """Check that nvcc runs the recorded commands: an nvcc with other commands must not be split without a review.

    UPDATE_EXPECTED=1 rewrites the record.
    """
    cuda, host = sdks(clone, version)
    (directory / "source.cu").touch()
    command: list[str | Path] = [cuda / "bin" / "nvcc", "--dryrun", "-ccbin", host / "clang++", "--objdir-as-tempdir"]
    archs = ["-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=[sm_90,compute_90]"]
    done = subprocess.run(
        [*command, *archs, "-Xcompiler=-fPIC", *_CALLS[name]],
        cwd=directory,
        env={"PATH": "/nonexistent", "LANG": "C"},
        check=True,
        capture_output=True,
        text=True,
    )
    text = done.stderr
    for word, path in {"CUDA": cuda, "HOST": host, "HERE": directory}.items():
        text = text.replace(str(path), word)
    text = _TEMPORARY.sub("TEMPORARY", text)
    shown = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    expected = _EXPECTED / f"cuda_{version}{name}.txt"
    if os.environ.get("UPDATE_EXPECTED") == "1":
        expected.write_text(shown, encoding="utf-8")
    assert shown == expected.read_text(encoding="utf-8")
