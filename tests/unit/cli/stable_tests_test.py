"""What `driver stable --fix --build` makes of tests that fail before and after a project is rewritten."""

from __future__ import annotations

import pytest

from py_driver.cli.stable_tests import Outcome, blame, listed

_NONE = frozenset[str]()


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (Outcome(0, _NONE), Outcome(1, frozenset({"a"})), "fail with torch 2.13: exit code 1"),
        (Outcome(1, frozenset({"a", "b"})), Outcome(1, frozenset({"a"})), ""),
        (Outcome(1, frozenset({"a"})), Outcome(1, frozenset({"a"})), ""),
        (
            Outcome(1, frozenset({"a"})),
            Outcome(1, frozenset({"a", "c", "b"})),
            "fail with torch 2.13 where they did not before: b, c",
        ),
        (Outcome(5, _NONE), Outcome(5, _NONE), ""),
        (
            Outcome(1, frozenset({"a"})),
            Outcome(139, _NONE),
            "end with exit code 139 with torch 2.13, and with 1 before",
        ),
    ],
)
def test_a_rewriting_is_blamed_for_tests_that_passed_before(before: Outcome, after: Outcome, why: str) -> None:
    assert blame(before, after, "torch 2.13") == why


def test_of_many_tests_the_first_are_named() -> None:
    assert listed(frozenset("gfedcba")) == "a, b, c, d, e and 2 others"
    assert listed(frozenset("edcba")) == "a, b, c, d, e"
