"""Undefined symbols whose names stand in C, in assembly, or in a file that is not compiled."""

from __future__ import annotations

import pytest

from py_driver.diagnosing.plain_names import plainly_defined

FILES = {"k/a.c": frozenset({"first", "int", "return"}), "k/b.asm": frozenset({"third", "global"})}


@pytest.mark.parametrize(
    ("symbol", "said"),
    [
        ("first()", ['`k/a.c` has `first`, as a C symbol: declare it with `extern "C"` where C++ calls it']),
        ("ns::first(int)", ['`k/a.c` has `first`, as a C symbol: declare it with `extern "C"` where C++ calls it']),
        ("third", ["`k/b.asm` has `third`, and is not compiled: .S .c .cc .cpp .cu .cxx .hip are"]),
        ("first", []),
        ("second()", []),
        ("third()", []),
    ],
)
def test_what_is_said_of_a_symbol(symbol: str, said: list[str]) -> None:
    assert plainly_defined(symbol, FILES) == said
