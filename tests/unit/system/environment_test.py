"""What programs see of the environment."""

from __future__ import annotations

import pwd
from typing import TYPE_CHECKING, NoReturn

from py_driver.system.environment import curated

if TYPE_CHECKING:
    import pytest


def test_a_user_without_a_name_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_number: int) -> NoReturn:
        raise KeyError

    assert "USER" not in curated({"HOME": "/h"})
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr("os.getuid", lambda: 4711)
    assert curated({"HOME": "/h"}) == {"HOME": "/h", "USER": "user4711"}
    assert curated({"USER": "me"}) == {"USER": "me"}
