# ruff: noqa: INP001  (a part of a program of its own)
"""The tables of docs/build-toml.md: the keys of build.toml, and the default architectures."""

from __future__ import annotations

from docs.tables import heading, releases, row
from py_driver.manifest.keys import Key, Kind, Table
from py_driver.manifest.model import NEWEST
from py_driver.manifest.parts import PYTHON_PACKAGES
from py_driver.manifest.schema import example
from py_driver.manifest.tables import TABLES
from py_driver.matrix.backends import BUILT

_TYPES = {
    Kind.TEXT: "string",
    Kind.TEXTS: "list of strings",
    Kind.INTEGER: "integer",
    Kind.BOOLEAN: "boolean",
    Kind.VERSION: "version",
    Kind.VERSIONS: "version, or table of versions by backend",
    Kind.TABLE: "table",
    Kind.TABLES: "list of tables",
}
_REQUESTS = ("8.0 9.0", "9.0 9.0a", "7.0 8.0 12.0+PTX", "8.0 10.1a", "7.0 10.1a")
"""The requests in the table of architectures."""


def _since(declared: Table, key: Key) -> int:
    """The first edition that has a key in a table: not before the table itself."""
    parent, _, name = declared.path.rpartition(".")
    around = [own.since for outer in TABLES if outer.path == parent for own in outer.keys if own.name == name]
    return max([key.since, *around])


def _key(declared: Table, key: Key) -> str:
    """The row of a key."""
    since = _since(declared, key)
    editions = str(since) if since == key.until else f"{since} to {key.until}"
    required = "no" if key.required is None else f"from edition {key.required}"
    meaning = f"In sections for `{'`, `'.join(key.backends)}`. {key.doc}" if key.backends else key.doc
    return row(
        f"`{key.name}`",
        _TYPES[key.kind],
        "yes" if key.required is not None and key.required <= since else required,
        "all" if (since, key.until) == (0, NEWEST) else editions,
        f"{meaning} One of: {', '.join(f'`{choice}`' for choice in key.choices)}." if key.choices else meaning,
        f"`{example(declared.path, key)}`" if key.example else "",
    )


def keys(declared: Table) -> str:
    """The keys of a table of build.toml."""
    head = heading("key", "type", "required", "editions", "meaning", "example")
    return head + "".join(_key(declared, key) for key in declared.keys)


def python_packages() -> str:
    """The packages that `python-depends` allows."""
    lines = [heading("table", "packages")]
    for backend, names in PYTHON_PACKAGES.items():
        title = f"[general.{backend}]" if backend else "[general]"
        lines.append(row(f"`{title}`", ", ".join(f"`{name}`" for name in names) or "none"))
    return "".join(lines)


def archs() -> str:
    """The architectures that CUDA 13.0 compiles for a few requests."""
    toolkit = releases().matrix.toolkit("cu130")
    if toolkit is None:
        message = "the matrix has no cu130, which the table of architectures is about"
        raise ValueError(message)
    lines = [heading("asked for", "compiled", "excluded")]
    for request in _REQUESTS:
        found = BUILT["cuda"].choose(request.split(), toolkit)
        kept = f"`{' '.join(found.kept)}`" if found.kept else "nothing, which is an error"
        dropped = "; ".join(f"`{excluded.arch}`: {excluded.reason}" for excluded in found.dropped)
        lines.append(row(f"`{request}`", kept, dropped))
    return "".join(lines)


def default_archs() -> str:
    """The default capabilities of each CUDA release."""
    found = releases().matrix.toolkits_of("cuda")
    rows = (row(cuda.version, f"`{' '.join(cuda.default_archs)}`") for cuda in found)
    return heading("CUDA", "capabilities") + "".join(rows)
