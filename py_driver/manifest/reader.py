"""From the bytes of build.toml to the manifest: its edition, and all its errors at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.errors import DriverError
from py_driver.manifest.current import read_current
from py_driver.manifest.early import read_edition0, read_edition1, read_edition2
from py_driver.manifest.editions import edition_of
from py_driver.manifest.section import Findings, Section
from py_driver.manifest.tables import table
from py_driver.manifest.text import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from py_driver.manifest.model import Manifest

_READERS = (read_edition0, read_edition1, read_edition2, *[read_current] * 4)
"""The reader of each edition."""


def read(content: bytes, file: str, libraries: Sequence[str] = ()) -> tuple[Manifest, Findings]:
    """Read a build.toml of any edition.

    Args:
        content: the bytes of the file.
        file: its path for errors.
        libraries: the libraries of a user's matrix that sections may depend on.

    Returns:
        The manifest, and its errors so far: UNKNOWN_KEY, MISSING_KEY, WRONG_TYPE, BAD_VALUE, BAD_NAME, BAD_FLAG. In the
        manifest, placeholders replace invalid values.

    Raises:
        DriverError: TOML_SYNTAX, TOML_LIMIT or EDITION if it cannot be read; the errors if there are more than are
            collected.
    """
    values, locations, source = parse(content, file)
    findings = Findings(locations, source.span(0, 1), libraries=libraries)
    edition = edition_of(values, findings)
    if edition is None:
        raise DriverError(findings.diagnostics())
    root = Section(findings, (), values, table(""), edition)
    return _READERS[edition](root, file), findings
