"""What a script lists as its requirements."""

from __future__ import annotations

from pathlib import Path

import pytest

from py_driver.authoring.script_requirements import requirements_of_command, requirements_of_script
from py_driver.errors import Code, DriverError

ROOT = Path(__file__).parents[3]
_LISTED = '# /// script\n# requires-python = ">=3.11"\n# dependencies = [\n#   "one==1",\n#   "two>=2",\n# ]\n# ///\n'


def _script(directory: Path, text: str) -> Path:
    path = directory / "script.py"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import one\n", ()),
        (_LISTED + "import one\n", ("one==1", "two>=2")),
        ("#!/usr/bin/env python3\n\n" + _LISTED, ("one==1", "two>=2")),
        ("# /// script\n#\n# ///\n", ()),
        ("# /// other\n# dependencies = 1\n# ///\n", ()),
    ],
    ids=["no-block", "block", "later-block", "empty-block", "another-block"],
)
def test_a_block_lists_requirements(tmp_path: Path, text: str, expected: tuple[str, ...]) -> None:
    assert requirements_of_script(_script(tmp_path, text)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# /// script\n# dependencies = []\n", "has no end"),
        ("# /// script\n# dependencies = []\nimport one\n# ///\n", "has no end"),
        ("# /// script\n# dependencies = [\n# ///\n", "is not TOML"),
        ('# /// script\n# dependencies = "one"\n# ///\n', "is not a list of strings"),
        ("# /// script\n# dependencies = [1]\n# ///\n", "is not a list of strings"),
    ],
    ids=["no-end", "interrupted", "no-toml", "no-list", "no-string"],
)
def test_a_wrong_block_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DriverError, match=message) as caught:
        requirements_of_script(_script(tmp_path, text))
    assert caught.value.diagnostics[0].code is Code.LOAD_FAILED


def test_the_first_python_file_of_a_command_is_its_script(tmp_path: Path) -> None:
    script = str(_script(tmp_path, _LISTED))
    assert requirements_of_command(["python", "-u", script, "--out", "missing.py"]) == ("one==1", "two>=2")
    assert requirements_of_command(["python", "-m", "pytest"]) == ()
    assert requirements_of_command([str(tmp_path / "missing.py")]) == ()


def test_the_model_script_pins_what_it_needs() -> None:
    [requirement] = requirements_of_script(ROOT / "examples" / "transformer" / "example.py")
    assert requirement.startswith("transformers==")
