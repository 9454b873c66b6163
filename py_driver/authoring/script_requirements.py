"""The requirements of a Python script in its own metadata: a block of comments with TOML.

The format is that of https://packaging.python.org/en/latest/specifications/inline-script-metadata/, which uv, pipx and
hatch read, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import tomli

from py_driver.errors import Code, error
from py_driver.system.files import is_file

if TYPE_CHECKING:
    from collections.abc import Sequence

_BEGIN: Final = "# /// script"
_END: Final = "# ///"
_COMMENT: Final = "#"


def requirements_of_command(command: Sequence[str]) -> tuple[str, ...]:
    """The requirements of a command's script; empty if no word of the command is a Python file.

    Args:
        command: the command, e.g. `python example.py --fast`.

    Raises:
        DriverError: see `requirements_of_script`.
    """
    script = next((Path(word) for word in command if word.endswith(".py") and is_file(Path(word))), None)
    return () if script is None else requirements_of_script(script)


def requirements_of_script(path: Path) -> tuple[str, ...]:
    """The requirements of a script for pip; empty if it lists none.

    Args:
        path: the path of the script, which exists.

    Raises:
        DriverError: LOAD_FAILED if the block is not TOML, or its `dependencies` are not a list of strings.
    """
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    if _BEGIN not in lines:
        return ()
    first = lines.index(_BEGIN) + 1
    block: list[str] = []
    for line in lines[first:]:
        if line == _END or not line.startswith(_COMMENT):
            break
        block.append(line.removeprefix(_COMMENT).removeprefix(" "))
    if lines[first + len(block) :][:1] != [_END]:
        raise error(Code.LOAD_FAILED, f"{path}:{first}: the block `{_BEGIN}` has no end", help=f"add a line `{_END}`")
    try:
        listed = tomli.loads("\n".join(block)).get("dependencies", [])
    except tomli.TOMLDecodeError as problem:
        raise error(Code.LOAD_FAILED, f"{path}:{first}: the block `{_BEGIN}` is not TOML: {problem}") from None
    if not isinstance(listed, list) or not all(isinstance(requirement, str) for requirement in listed):
        message = f"{path}:{first}: `dependencies` is not a list of strings"
        raise error(Code.LOAD_FAILED, message, help='write `# dependencies = ["transformers==5.21.1"]`')
    return tuple(listed)
