"""What is said where no Python has torch."""

from __future__ import annotations

import pytest

from py_driver.authoring import machine
from py_driver.errors import DriverError


@pytest.mark.parametrize(
    ("named", "said", "advice"),
    [
        ("", "no python3 on PATH has torch", "--torch 2.13"),
        ("/env/bin/python", "/env/bin/python has no torch", "install"),
    ],
)
def test_without_torch_the_python_is_named(monkeypatch: pytest.MonkeyPatch, named: str, said: str, advice: str) -> None:
    monkeypatch.setattr(machine, "importable_torch", lambda _: None)
    monkeypatch.setenv(machine.TORCH_PYTHON, named)
    with pytest.raises(DriverError) as raised:
        machine.this_machine()
    [diagnostic] = raised.value.diagnostics
    assert diagnostic.message == said
    assert advice in diagnostic.help
