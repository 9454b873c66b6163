"""The variables of the environment that a setup.py sees: what the configuration needs, and what it names itself."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from py_driver.recording.build_system import SETUP
from py_driver.recording.facts import facts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_NAMED: Final = re.compile(r"""(["'])([A-Z][A-Z0-9_]{2,})\1""")
_FORCE_BUILD: Final = re.compile(r"""(["'])([A-Z][A-Z0-9_]*_FORCE_BUILD)\1""")
_MOST_BYTES: Final = 4 << 20


def scripts(directory: Path) -> list[Path]:
    """The Python files that may run in a build: those of the project's directory itself, setup.py first."""
    found = sorted(path for path in directory.glob("*.py") if path.is_file())
    return sorted(found, key=lambda path: path.name != SETUP)


def passed(directory: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of the user's environment that a project names in its scripts, without secrets; sorted.

    Args:
        directory: of the project.
        environ: where they are; the process's own if None.
    """
    environ = os.environ if environ is None else environ
    named = {name for _, name in _NAMED.findall(_text(directory))}
    return {name: environ[name] for name in sorted(named) if name in environ and _may_pass(name)}


def forced(directory: Path) -> dict[str, str]:
    """The variables by which a project is told not to look for a wheel that somebody has built, sorted."""
    return dict.fromkeys(sorted({name for _, name in _FORCE_BUILD.findall(_text(directory))}), "TRUE")


def _text(directory: Path) -> str:
    texts = [path.read_bytes()[:_MOST_BYTES].decode(errors="replace") for path in scripts(directory)]
    return "\n".join(texts)


def _may_pass(name: str) -> bool:
    table = facts()["variables"]
    return name not in table["never"] and not any(part in name for part in table["secret"])
