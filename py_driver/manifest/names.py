"""What projects and kernel sections may be called."""

from __future__ import annotations

import keyword
import re
from typing import TYPE_CHECKING

from py_driver.errors import Code, Span
from py_driver.manifest.model import Located

if TYPE_CHECKING:
    from py_driver.manifest.model import Text
    from py_driver.manifest.section import Findings, Section

NAME_LIMIT = 100
"""Most characters of a name. A variant's longest file name has about 40 more; file systems take 255."""

_PROJECT = re.compile(r"[a-z][a-z0-9_-]*[a-z0-9]")
_SECTION = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def project_name(table: Section) -> Text:
    """`name` of [general], in edition 0 of [torch], checked.

    The `kernels` client reads the name from metadata.json and takes only `[a-z][-a-z0-9]*[a-z0-9]`; `_` is
    admitted besides because the early form uses it, and is written there as `-`.

    Returns:
        The name; a stand-in where it is absent or wrong, which is collected as an error.
    """
    stand_in = Located(value="name", span=table.span)
    name = table.text("name")
    if name is None:
        return stand_in
    problem = ""
    if not _PROJECT.fullmatch(name.value):
        problem = "must match `[a-z][a-z0-9_-]*[a-z0-9]`: small letters, digits, `-` and `_`"
    elif len(name.value) > NAME_LIMIT:
        problem = f"has {len(name.value)} characters; at most {NAME_LIMIT} are allowed"
    elif keyword.iskeyword(name.value.replace("-", "_")):
        problem = "is a Python keyword, so nobody could import it"
    if problem:
        table.findings.add(Code.BAD_NAME, f"the project's name {problem}", name.span)
        return stand_in
    return name


def check_section_name(findings: Findings, name: str, span: Span) -> None:
    """Collect an error unless a kernel section's name can be that of a Bazel target."""
    if not _SECTION.fullmatch(name) or len(name) > NAME_LIMIT:
        message = f"a kernel section's name must match `[A-Za-z_][A-Za-z0-9_-]*`, at most {NAME_LIMIT} characters"
        findings.add(Code.BAD_NAME, message, span, advice="it becomes the name of a Bazel target")
