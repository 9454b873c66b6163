"""The valid names of projects and sections."""

from __future__ import annotations

import keyword
import re
from typing import TYPE_CHECKING

from py_driver.errors import Code, Span
from py_driver.manifest.model import Located
from py_driver.manifest.section import unsafe_character

if TYPE_CHECKING:
    from py_driver.manifest.model import Text
    from py_driver.manifest.section import Findings, Section

NAME_LIMIT = 100
"""The maximum length of a name. A variant's longest file name has about 40 characters more; file systems allow 255."""

_PROJECT = re.compile(r"[a-z][a-z0-9_-]*[a-z0-9]")


def project_name(table: Section) -> Text:
    """`name` of [general], in edition 0 of [torch], checked.

    The `kernels` client reads the name from metadata.json and accepts only `[a-z][-a-z0-9]*[a-z0-9]`; `_` is also
    admitted because the early form uses it, and becomes `-` there.

    Returns:
        The name; a placeholder if it is absent or invalid, which is collected as an error.
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
        problem = "is a Python keyword, so it could not be imported"
    if problem:
        table.findings.add(Code.BAD_NAME, f"the project's name {problem}", name.span)
        return stand_in
    return name


def check_section_name(findings: Findings, name: str, span: Span) -> None:
    """Collect an error if the name of a kernel section contains characters that change how it reads."""
    if character := unsafe_character(name):
        message = f"a kernel section's name has {character}, which is a control or bidirectional character"
        findings.add(Code.BAD_NAME, message, span, advice="choose a name without it")
