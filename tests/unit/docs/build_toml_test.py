"""docs/build-toml.md: its examples are read, and what it says of flags, editions and layout is true."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tomli

from py_driver.errors import Code, Span
from py_driver.manifest.flags import read_cuda_flags, read_cxx_flags
from py_driver.manifest.model import CURRENT, Located
from py_driver.manifest.paths import HEADERS, SOURCES
from py_driver.manifest.reader import read
from py_driver.manifest.section import Findings
from py_driver.matrix.backends import BUILT
from py_driver.matrix.releases import Releases
from py_driver.plan.checks import check
from py_driver.plan.present_files import PresentFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from py_driver.manifest.model import Manifest, Texts

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "build-toml.md"
TEXT = PAGE.read_text(encoding="utf-8")
RELEASES = Releases()

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def span(length: int = 1) -> Span:
    return Span(file="build.toml", line=1, column=1, length=length)


def fences(language: str) -> list[str]:
    return [body for kind, body in FENCE.findall(TEXT) if kind == language]


def section(title: str) -> str:
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def manifest_of(text: str) -> Manifest:
    manifest, findings = read(text.encode("utf-8"), "build.toml")
    check(manifest, RELEASES, PresentFiles(Path()), findings)
    assert findings.diagnostics() == ()
    return manifest


def test_whole_files_are_read() -> None:
    whole = [manifest_of(text) for text in fences("toml") if text.startswith("[general]")]
    assert [manifest.framework.table for manifest in whole] == ["torch", "torch-noarch"]
    assert all(manifest.edition == CURRENT for manifest in whole)


def test_parts_are_read_in_the_example() -> None:
    complete, *rest = fences("toml")
    for part in (block for block in rest if not block.startswith("[general]")):
        _, findings = read(f"{complete}\n{part}".encode(), "build.toml")
        assert findings.diagnostics() == ()


def test_the_layout_is_that_of_the_example() -> None:
    manifest = manifest_of(fences("toml")[0])
    layout = section("Project layout")
    listed = [
        text.value for texts in (manifest.framework.src, *(kernel.src for kernel in manifest.kernels)) for text in texts
    ]
    for path in (*listed, f"{manifest.python_root}/__init__.py"):
        assert path in layout
    assert " ".join(f"`{source}`" for source in SOURCES) in layout
    assert " ".join(f"`{header}`" for header in HEADERS) in layout


def test_the_errors_it_names_exist() -> None:
    assert set(re.findall(r"\bE\d{3}\b", TEXT)) <= {code.number for code in Code}


def flags(title: str) -> list[str]:
    """The flags of a list of the page."""
    text = section("Compiler flags").partition(title)[2].strip().partition("\n\n")[0]
    return [code for code in re.findall(r"`([^`]*)`", text) if re.match(r"[-@]", code) and code != "-f"]


def refused(flag: str, checker: Callable[[Findings, Texts], None]) -> bool:
    findings = Findings({}, span())
    checker(findings, (Located(value=flag, span=span()),))
    return any(diagnostic.code is Code.BAD_FLAG for diagnostic in findings.diagnostics())


@pytest.mark.parametrize(
    ("title", "checkers", "expected"),
    [
        ("Allowed in `cxx-flags`:", [read_cxx_flags], False),
        ("Allowed in `cuda-flags`:", [read_cuda_flags], False),
        ("Errors in both, among others:", [read_cxx_flags, read_cuda_flags], True),
    ],
)
def test_flags_are_what_the_page_says(
    title: str, checkers: list[Callable[[Findings, Texts], None]], *, expected: bool
) -> None:
    assert len(flags(title)) >= 8
    for flag in flags(title):
        for checker in checkers:
            assert refused(flag, checker) == expected, flag


MARKS = (
    ('[torch]\nname = "relu"\npyroot = "ext-torch"\nsrc = []\n[kernel.relu]\nsrc = []\n', 0),
    ("[torch]\nuniversal = true\n", 1),
    ("[torch]\n[kernel.relu]\ncuda-capabilities = []\n", 1),
    ('[torch]\n[kernel.relu]\nbackend = "cuda"\n', 2),
    ('[general]\nname = "relu"\nbackends = ["cuda"]\n', 3),
    ('[general]\nname = "relu"\nbackends = ["cuda"]\nversion = 1\nlicense = "mit"\n', 4),
    ('[general]\nname = "relu"\nbackends = ["cuda"]\n[torch-noarch]\n', 4),
    ('[general]\nname = "relu"\nedition = 5\n', 5),
)


@pytest.mark.parametrize(("text", "edition"), MARKS)
def test_the_marks_of_editions(text: str, edition: int) -> None:
    manifest, _ = read(text.encode("utf-8"), "build.toml")
    assert manifest.edition == edition
    words = {word for pair in tomli.loads(text).values() for word in pair} & {
        "pyroot",
        "universal",
        "backends",
        "edition",
    }
    line = next(line for line in section("Editions").splitlines() if line.startswith(f"| {edition} |"))
    assert all(f"`{word}" in line for word in words if (word, edition) != ("backends", 4))


def test_the_backends_that_are_built_are_named() -> None:
    *first, last = (f"`{backend}`" for backend in BUILT)
    assert f"{', '.join(first)} and {last} are built here" in section("What `backends` means")
