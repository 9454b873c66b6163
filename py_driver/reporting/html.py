"""Pages for people, each one self-contained file: their location and rendering."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from py_driver.errors import Code, error
from py_driver.output import printable
from py_driver.system.files import is_directory

if TYPE_CHECKING:
    from pathlib import Path


def check_place(page: Path, *others: Path) -> None:
    """Create the directory of a page, and refuse a path that cannot hold one.

    Args:
        page: its path.
        others: paths of files beside it.

    Raises:
        DriverError: FOREIGN_FILE or PERMISSION.
    """
    for path in (page, *others):
        if is_directory(path):
            raise error(Code.FOREIGN_FILE, f"{path} is a directory", help="choose another name for the page")
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise error(Code.PERMISSION, f"cannot make {page.parent}: {problem.strerror}") from None
    if not os.access(page.parent, os.W_OK | os.X_OK):
        raise error(Code.PERMISSION, f"cannot write {page}: its directory is not writable")


def draw(template: str, **values: object) -> str:
    """Render a page; all text in it is escaped, and so are invisible characters.

    Args:
        template: the text of the template.
        **values: its variables; a missing variable is an error.
    """
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415  (slow to load, and few commands need it)

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    return environment.from_string(template).render(values)
