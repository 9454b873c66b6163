"""What earlier builds took, as it is kept in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from py_driver.actions.estimate import Known
from py_driver.actions.history import read_history, write_history

if TYPE_CHECKING:
    from pathlib import Path


def test_history_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RULES_TORCH_KERNELS_CACHE", str(tmp_path))
    assert read_history("p") == {}
    history = {"g|g.cu|CudaFrontend||cu130": Known(reads=("a", "b"), key="k", seconds=1.5)}
    write_history("p", history)
    assert read_history("p") == history


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"version": 0, "steps": {}}',
        '{"version": 1, "steps": {"a": 1}}',
        '{"version": 1, "steps": {"a": [["x"], "k", 1.5]}}',
        '{"version": 1, "steps": {"g|g.cu|m||p": [["x"], "k", NaN]}}',
        '{"version": 1, "steps": {"g|g.cu|m||p": [["x"], "k", Infinity]}}',
        '{"version": 1, "steps": {"g|g.cu|m||p": [["x"], "k", -1]}}',
        f'{{"version": 1, "steps": {{"g|g.cu|m||p": [["x"], "k", {"9" * 400}]}}}}',
        "[" * 100_000,
    ],
    ids=range(11),
)
def test_history_that_is_none_of_ours_is_ignored(content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RULES_TORCH_KERNELS_CACHE", str(tmp_path))
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "p.json").write_text(content)
    assert read_history("p") == {}
