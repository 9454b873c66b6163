"""`driver publish --slice`: the index of slices, and what is refused before anything is sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tuned import publish

from py_driver.publishing.release import BuiltVariant, make_file
from py_driver.publishing.slices import Sliced, SliceRow, make_index, slice_rows

if TYPE_CHECKING:
    from pathlib import Path

    from hub import Hub


def built(name: str, content: bytes, *archs: str) -> BuiltVariant:
    files = (make_file(f"build/{name}/__init__.py", b"code"), make_file(f"build/{name}/metadata.json", content))
    return BuiltVariant(name, {"backend": {"archs": archs}}, files)


def index(known: bytes | None, whole: BuiltVariant, **parts: BuiltVariant) -> Any:  # noqa: ANN401  (JSON)
    slices = [Sliced(name, (), (part,)) for name, part in parts.items()]
    return json.loads(make_index(known, "v1", [whole], slices))["slices"]


def test_an_entry_names_branch_architectures_size_and_both_builds() -> None:
    whole, part = built("a", b"whole"), built("a", b"part", "9.0")
    [digest, whole_digest] = [variant.files[1].sha256 for variant in (part, whole)]
    about = {"archs": ["9.0"], "size": 8, "digest": digest, "variant-digest": whole_digest}
    assert index(None, whole, sm90=part) == {"sm90": {"branch": "v1-sm90", "variants": {"a": about}}}


def test_other_variants_stay_and_earlier_slices_of_these_go() -> None:
    first = make_index(None, "v1", [built("a", b"1")], [Sliced("sm80", (), (built("a", b"1", "8.0"),))])
    second = make_index(first, "v1", [built("b", b"2")], [Sliced("sm80", (), (built("b", b"2", "8.0"),))])
    assert json.loads(second)["slices"]["sm80"]["variants"].keys() == {"a", "b"}
    third = index(second, built("a", b"3"), sm90=built("a", b"3", "9.0"))
    assert {name: [*entry["variants"]] for name, entry in third.items()} == {"sm80": ["b"], "sm90": ["a"]}
    fourth = index(json.dumps({"schema": 1, "slices": third}).encode(), built("b", b"4"), sm90=built("b", b"4", "9.0"))
    assert {name: [*entry["variants"]] for name, entry in fourth.items()} == {"sm90": ["a", "b"]}


def test_a_card_lists_what_fits_the_variants_of_the_branch() -> None:
    one, two = built("a", b"1"), built("b", b"2")
    sm90 = (built("a", b"11", "9.0"), built("b", b"2222", "9.0a", "8.0"))
    parts = [Sliced("sm90", (), sm90), Sliced("sm100", (), (built("a", b"1", "10.0"),))]
    known = make_index(None, "v1", [one, two], parts)
    row = SliceRow("sm90", ("8.0", "9.0", "9.0a"), 2, 6, 8)
    assert slice_rows(known, [one, two]) == [row, SliceRow("sm100", ("10.0",), 1, 5, 5)]
    assert slice_rows(known, [built("a", b"other")]) == [SliceRow("sm90", ("8.0", "9.0a"), 1, 8, 8)]
    assert slice_rows(None, [one]) == []


def test_what_others_write_into_an_index_is_not_on_a_card() -> None:
    variants = {"a": {"archs": ["9.0", "`", 1], "size": 1}, "b": {"archs": ["8.0"], "size": "x"}, "c": 1}
    index = {name: {"branch": "", "variants": variants} for name in ("sm90", "sm|90", "`")}
    text = json.dumps({"schema": 1, "slices": index}).encode()
    assert slice_rows(text, []) == [SliceRow("sm90", ("9.0",), 1, 1, 1)]


@pytest.mark.parametrize(
    "known", [b"", b"\xff", b"[]", b'{"schema": 2, "slices": {"x": 1}}', b'{"schema": 1, "slices": 1}']
)
def test_what_is_no_index_is_written_anew(known: bytes) -> None:
    assert index(known, built("a", b"1"), sm80=built("a", b"1", "8.0")).keys() == {"sm80"}


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--create-pr"], 2, "--slice: a pull request is for one branch"),
        ([], 2, "none of the variants has device code to slice"),
    ],
)
def test_nothing_is_sent_where_slices_cannot_be(
    options: list[str], code: int, said: str, hub: Hub, project: Path
) -> None:
    assert said in publish(hub, project, "--slice", *options, code=code).stderr
    assert hub.requests == []
