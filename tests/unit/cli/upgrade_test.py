"""What callers of 0.1.0 find again: the keys of its JSON.

json_keys_0_1_0.json has the keys that 0.1.0 printed, by command. `driver build --json` is not there: its `steps` of a
variant are `actions` now, as the changelog says.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from py_driver import __main__

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
KEYS: dict[str, list[str]] = json.loads(Path(__file__).with_name("json_keys_0_1_0.json").read_text(encoding="utf-8"))


def keys_of(value: Any, place: str = "") -> Iterator[str]:  # noqa: ANN401  (JSON)
    if isinstance(value, dict):
        for name, inner in value.items():
            yield f"{place}.{name}"
            yield from keys_of(inner, f"{place}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner, f"{place}[]")


@pytest.mark.parametrize("command", KEYS)
def test_json_has_the_keys_that_it_had_in_0_1_0(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    __main__.main(command.split())
    assert set(KEYS[command]) <= set(keys_of(json.loads(capsys.readouterr().out)))


def test_the_changelog_names_the_key_that_changed() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "`steps` of `driver build --json`, which are `actions` now" in " ".join(text.split())
