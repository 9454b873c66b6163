"""Every field of the driver's types is read, by its name, in the driver or in a template."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).parents[2] / "py_driver"
TEMPLATES = "\n".join(path.read_text(encoding="utf-8") for path in sorted((PACKAGE / "resources").glob("*.j2")))
NOT_READ = {
    "Kernel.sycl_flags": "nothing is built for XPUs; `driver upgrade` compares it with all other fields",
    "Seconds.rest": "for JSON, with `_asdict`",
    "Toolkit.host": "for the tables of docs/toolchains.md",
}
"""Fields that nobody reads by name, each with the reason."""


@cache
def trees() -> dict[str, ast.Module]:
    """The files of the driver, by their paths in it."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
        if PACKAGE / "resources" / "projects" not in path.parents
    }


def fields() -> Iterator[tuple[str, str, str]]:
    """The fields of all NamedTuples and dataclasses: the file, the class and the name."""
    for file, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                kinds = " ".join(ast.unparse(part) for part in (*node.bases, *node.decorator_list))
                targets = [part.target for part in node.body if isinstance(part, ast.AnnAssign)]
                if "NamedTuple" in kinds or "dataclass" in kinds:
                    yield from ((file, node.name, target.id) for target in targets if isinstance(target, ast.Name))


def test_every_field_is_read() -> None:
    nodes = (node for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    read = {node.attr for node in nodes if isinstance(node.ctx, ast.Load)} | set(re.findall(r"\w+", TEMPLATES))
    unread = {f"{kind}.{name}": file for file, kind, name in fields() if name not in read}
    faults = [f"nobody reads {field} of {file}" for field, file in unread.items() if field not in NOT_READ]
    faults += [f"{field} is read, or there is no such field" for field in NOT_READ if field not in unread]
    assert not faults, "\n".join(faults)
