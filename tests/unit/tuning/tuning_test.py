"""Tuning by simulation: 225 records of a softmax on an H200 (three variants, five shapes), whose answers are known."""

from __future__ import annotations

import dataclasses
import json
import math
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest

from py_driver.errors import Code, DriverError
from py_driver.tuning.choice import best, cover, slower
from py_driver.tuning.configs import config_files, is_of
from py_driver.tuning.expression import Expression
from py_driver.tuning.header import Chosen, conflicts, header
from py_driver.tuning.picture import picture, so_far
from py_driver.tuning.records import Record, Records, read_records, write_records
from py_driver.tuning.space import Case, Configuration, Space, find_space, read_space

HERE = Path(__file__).parent
SPACE = """
section = "softmax_cuda"
header = "csrc/tuned.h"
workload = "Softmax.softmax"

[space]
VARIANT = [0, 1, 2]
THREADS = [64, 128, 256, 512, 1024]
VEC = [1, 2, 4]

[constraints]
whole = "cols % VEC == 0"
fits = "VARIANT != 2 or cols * 4 <= smem"

[default]
VARIANT = 1
THREADS = 256
VEC = 1

[cases]
key = "cols"
shapes = [
    {rows = 262144, cols = 128}, {rows = 8192, cols = 4096}, {rows = 64, cols = 524288}, {rows = 4096, cols = 1001},
    {rows = 32768, cols = 2048},
]
"""


@pytest.fixture
def space(tmp_path: Path) -> Space:
    file = tmp_path / "softmax.toml"
    file.write_text(SPACE, encoding="utf-8")
    return read_space(file)


@pytest.fixture
def records(space: Space) -> Records:
    found = read_records(HERE / "softmax.nvidia-h200.json", space)
    assert found is not None
    assert len(found.found) == 180
    return found


def excluded() -> dict[str, int]:
    """How many records each condition excluded when they were measured."""
    lines = json.loads((HERE / "softmax.nvidia-h200.json").read_text(encoding="utf-8"))["records"]
    assert len(lines) == 225
    return dict(Counter(line["reason"] for line in lines if line["outcome"] == "constraints"))


def test_constraints_exclude_what_was_not_measured(space: Space, records: Records) -> None:
    facts = {"capability": 90, "smem": 232448, "sms": 132}
    assert space.count == len({*space.configurations}) == 45
    texts = Counter(
        space.violated(configuration, case, facts) for configuration in space.configurations for case in space.cases
    )
    assert texts == {"": 180, "cols % VEC == 0": 30, "VARIANT != 2 or cols * 4 <= smem": 15}
    assert excluded() == {"cols % VEC": 30, "shared memory": 15}
    assert not any(space.violated(*at, facts) for at in records.found)
    assert not any(space.violated(configuration, (64, 524288), {}) for configuration in space.configurations)


def test_the_default_is_far_off_and_four_serve_all(space: Space, records: Records) -> None:
    ratio = slower(records, space.default, space.cases)
    assert ratio == pytest.approx(1.86, abs=0.01)
    others = {
        configuration: found
        for configuration in space.configurations
        if (found := slower(records, configuration, space.cases)) is not None
    }
    assert min(others, key=lambda one: others[one]) == space.default
    chosen = cover(space, records)
    assert len(set(chosen.values())) == 4
    for case, one in chosen.items():
        fastest = best(records, case)
        assert fastest is not None
        assert records.correct(case)[one].us <= 1.02 * fastest.record.us


def test_ties(records: Records) -> None:
    found = best(records, (8192, 4096))
    assert found is not None
    assert len(found.ties) == 4
    assert {values[0] for values in (found.configuration, *found.ties)} == {2}


def test_what_is_as_good_as_the_default_is_the_default(space: Space, records: Records) -> None:
    case: Case = (8192, 4096)
    fastest = best(records, case)
    assert fastest is not None
    own = dict(records.found)
    own[space.default, case] = dataclasses.replace(fastest.record, us=fastest.record.us * 1.019)
    alone = dataclasses.replace(space, cases=(case,))
    assert cover(alone, dataclasses.replace(records, found=own)) == {case: space.default}
    assert cover(alone, records) == {case: fastest.configuration}


def test_more_than_can_be_tried(space: Space) -> None:
    """One configuration for each of seven cases: found one after another."""
    cases: tuple[Case, ...] = tuple((1, 1 << n) for n in range(7))
    many = dataclasses.replace(space, cases=cases)
    found = {
        (configuration, case): Record(outcome="correct", us=1.0 if number == at else 9.0, interval=(1, 1), runs=1)
        for number, configuration in enumerate(space.configurations)
        for at, case in enumerate(cases)
    }
    chosen = cover(many, Records(machine={}, sources="", found=found))
    assert [*chosen.values()] == [*space.configurations][:7]


def test_files_of_configurations_for_triton(space: Space, records: Records) -> None:
    """One for each shape but the key, with a row for each value of the key, which has what serves that case."""
    files = config_files(space, "NVIDIA H200", cover(space, records))
    assert [*files] == [f"rows={rows},device_name=NVIDIA_H200.json" for rows in (262144, 4096, 32768, 8192, 64)]
    assert json.loads(files["rows=4096,device_name=NVIDIA_H200.json"]) == {
        "1001": {"VARIANT": 0, "THREADS": 512, "VEC": 1}
    }
    same: dict[Case, Configuration] = {(8, 4096): (2, 128, 2), (8, 128): (0, 128, 4), (9, 128): (1, 256, 1)}
    rows = config_files(space, "A  B", same)
    assert {name: [*json.loads(text)] for name, text in rows.items()} == {
        "rows=8,device_name=A__B.json": ["128", "4096"],
        "rows=9,device_name=A__B.json": ["128"],
    }
    assert all(is_of(space, text) for text in (*files.values(), *rows.values(), "{}"))
    assert not any(is_of(space, text) for text in ("", "[]", '{"1": 2}', '{"1": {"VARIANT": 1}}'))


def test_header(space: Space, records: Records) -> None:
    chosen: dict[Case, Configuration] = {
        (262144, 128): (0, 128, 4),
        (4096, 1001): (0, 128, 1),
        (32768, 2048): (2, 128, 2),
        (8192, 4096): (2, 128, 2),
        (64, 524288): (1, 1024, 4),
    }
    assert cover(space, records).keys() == chosen.keys()
    facts = {"capability": 90, "smem": 232448, "sms": 132}
    lines = header(space, [Chosen(chosen, facts)]).splitlines()
    place = lines.index("#else")
    assert lines[place + 1 : lines.index("#endif")] == [
        "  if (capability == 90 && cols <= 128) {",
        "    if ((floor_mod(cols, 4) == 0)) return call(Config<0, 128, 4>());",
        "    return call(Config<1, 256, 1>());",
        "  }",
        "  if (capability == 90 && cols <= 1001) {",
        "    if ((floor_mod(cols, 1) == 0)) return call(Config<0, 128, 1>());",
        "    return call(Config<1, 256, 1>());",
        "  }",
        "  if (capability == 90 && cols <= 4096) {",
        "    if ((floor_mod(cols, 2) == 0) && bool(((cols * 4) <= 232448))) return call(Config<2, 128, 2>());",
        "    return call(Config<1, 256, 1>());",
        "  }",
        "  if (capability == 90 && cols <= 524288) {",
        "    if ((floor_mod(cols, 4) == 0)) return call(Config<1, 1024, 4>());",
        "    return call(Config<1, 256, 1>());",
        "  }",
        "  return call(Config<1, 256, 1>());  // default",
    ]
    assert conflicts(space, chosen) == []
    other: dict[Case, Configuration] = {(1, 128): (0, 64, 1), (2, 128): (0, 64, 2)}
    assert conflicts(space, other) == [((1, 128), (2, 128))]


def test_picture(space: Space, records: Records) -> None:
    drawn = ET.fromstring(picture(space, records))  # noqa: S314  (our own)
    texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "softmax on NVIDIA H200: times as slow as the best of each case"
    assert texts[1:3] == ["configuration, the best first; bold: the default", "case"]
    assert texts[3:13] == [line for case in space.cases for line in reversed(space.shown_case(case).split())]
    assert texts[13:19] == ["VARIANT=1 THREADS=256 VEC=1", "5.33", "1.08", "3.23", "1.20", "1.02"]
    assert texts[-9:-5] == ["1: the best", "1.5", "2 or slower", "no time"]
    assert texts[-5:] == [
        "best so far: times as slow as the best (linear scale)",
        "2.35",
        "1.00",
        "configurations tried",
        "45",
    ]
    assert len([*drawn.iter("{http://www.w3.org/2000/svg}rect")]) == 1 + 45 * 5 + 4
    assert "" in {text or "" for text in texts}
    [line] = drawn.iter("{http://www.w3.org/2000/svg}polyline")
    assert len(line.attrib["points"].split()) == sum(map(math.isfinite, so_far(space, records)))


def test_best_so_far(space: Space, records: Records) -> None:
    found = so_far(space, records)
    assert len(found) == len({one for (one, _), record in records.found.items() if record.outcome != "constraints"})
    assert found == sorted(found, reverse=True)
    assert found[-1] == 1.0
    # The first configuration that has a time for every case is the best one that is known then.
    first = next(at for at, value in enumerate(found) if math.isfinite(value))
    order = list(dict.fromkeys(one for (one, _), record in records.found.items() if record.outcome != "constraints"))
    known = order[: first + 1]
    shares = [
        min(
            records.correct(case)[configuration].us for configuration in known if configuration in records.correct(case)
        )
        / min(record.us for record in records.correct(case).values())
        for case in space.cases
    ]
    assert found[first] == pytest.approx(math.prod(shares) ** (1 / len(shares)))


def test_records_are_written_as_they_are_read(space: Space, records: Records, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    write_records(file, records, space)
    assert read_records(file, space) == records
    assert {record.outcome for record in records.found.values()} == {"correct"}
    assert len(json.loads(file.read_text(encoding="utf-8"))["records"]) == 180
    assert read_records(tmp_path / "none.json", space) is None
    other = dataclasses.replace(space, parameters=("A", "B", "C"))
    again = read_records(file, other)
    assert again is not None
    assert again.found == {}
    fewer = dataclasses.replace(space, values=((0, 1), *space.values[1:]), cases=space.cases[:2])
    less = read_records(file, fewer)
    assert less is not None
    assert {(values[0], case) for values, case in less.found} == {(v, case) for v in (0, 1) for case in space.cases[:2]}
    tighter = dataclasses.replace(space, constraints=(*space.constraints, Expression("VARIANT == 1 or rows < 100")))
    left = read_records(file, tighter)
    assert left is not None
    assert {values[0] for values, case in left.found if case[0] >= 100} == {1}


@pytest.mark.parametrize(
    "line",
    [
        {"us": 0.0},
        {"us": float("nan")},
        {"us": -1.0},
        {"runs": float("inf")},
        {"outcome": "x"},
        {"interval_us": [1]},
        {"config": 1},
    ],
)
def test_damaged_records(space: Space, records: Records, tmp_path: Path, line: dict[str, object]) -> None:
    table = records.as_json(space)
    own = next(record for record in table["records"] if record["outcome"] == "correct")
    own |= line
    file = tmp_path / "x.json"
    file.write_text(json.dumps(table), encoding="utf-8")
    with pytest.raises(DriverError) as caught:
        read_records(file, space)
    assert caught.value.diagnostics[0].code is Code.WRONG_TYPE


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"records": [1], "machine": {}, "sources": ""}', "[" * 100000])
def test_no_records(space: Space, tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DriverError) as caught:
        read_records(file, space)
    assert caught.value.diagnostics[0].code is Code.WRONG_TYPE


@pytest.mark.parametrize(
    ("text", "values", "expected", "cpp"),
    [
        ("a % 4 == 0", {"a": 8}, True, "(floor_mod(a, 4) == 0)"),
        ("a // 3 > 2 and not b", {"a": 9, "b": 0}, True, "((floor_div(a, 3) > 2) && (!b))"),
        ("1 < a <= 3 or b != -1", {"a": 4, "b": -1}, False, "(((1 < a) && (a <= 3)) || (b != -1))"),
    ],
)
def test_conditions(text: str, values: dict[str, int], expected: bool, cpp: str) -> None:  # noqa: FBT001
    made = Expression(text)
    assert made.holds(values) is expected
    assert made.as_cpp({}) == cpp
    assert made.as_cpp(values) == str(expected).lower()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a.b",
        "f()",
        "a if b else c",
        "__import__('os')",
        "[1]",
        "1.5",
        "'x'",
        "a ** 2",
        "lambda: 1",
        "a := 1",
        "(",
        "(" * 5000,
        "a and",
        "True",
    ],
)
def test_what_is_no_condition(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no expression|is not allowed|characters"):
        Expression(text)


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("-(-c // V) <= 250", {"V": 4}, "((-floor_div((-c), 4)) <= 250)"),
        ("(c and V > 2) == 1", {"V": 4}, "(bool(c) == 1)"),
        ("V == 0 or 128 % V == 0 or c > 5", {"V": 0}, "true"),
        ("V > 9 and c > 5", {"V": 4}, "false"),
        ("not c % 2 and V", {"V": 1}, "bool((!floor_mod(c, 2)))"),
    ],
)
def test_conditions_of_which_a_part_is_known(text: str, values: dict[str, int], expected: str) -> None:
    assert Expression(text).as_cpp(values) == expected


def test_division_by_zero() -> None:
    with pytest.raises(ValueError, match="divides by zero"):
        Expression("a % b == 0").holds({"a": 1, "b": 0})


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("[space]", "[spaces]", Code.UNKNOWN_KEY),
        ('workload = "Softmax.softmax"', "", Code.MISSING_KEY),
        ("VEC = [1, 2, 4]", "VEC = []", Code.WRONG_TYPE),
        ("VEC = [1, 2, 4]", "VEC = [1.5]", Code.WRONG_TYPE),
        ("VEC = [1, 2, 4]", '"V C" = [1]', Code.BAD_NAME),
        ("VEC = [1, 2, 4]", "int = [1]", Code.BAD_NAME),
        ("THREADS = 256", "THREADS = 7", Code.BAD_VALUE),
        ("THREADS = 256", "", Code.MISSING_KEY),
        ("{rows = 8192, cols = 4096}", "{rows = 8192}", Code.BAD_VALUE),
        ('key = "cols"', 'key = "columns"', Code.BAD_VALUE),
        ("cols * 4 <= smem", "colls * 4 <= smem", Code.BAD_VALUE),
        ("cols * 4 <= smem", "cols **", Code.BAD_VALUE),
        ("[1, 2, 4]", f"{[*range(1, 9000)]}", Code.BAD_VALUE),
        ("[cases]", "[[cases]]", Code.WRONG_TYPE),
        ("key = ", "keys = ", Code.UNKNOWN_KEY),
        ("VEC = [1, 2, 4]", "VEC = [1, 3000000000]", Code.WRONG_TYPE),
        ("cols = 128", "cols = 9223372036854775808", Code.BAD_VALUE),
        ("cols", "sms", Code.BAD_VALUE),
    ],
)
def test_wrong_spaces(tmp_path: Path, old: str, new: str, code: Code) -> None:
    file = tmp_path / "softmax.toml"
    assert old in SPACE
    file.write_text(SPACE.replace(old, new), encoding="utf-8")
    with pytest.raises(DriverError) as caught:
        read_space(file)
    assert caught.value.diagnostics[0].code is code
    assert str(file) in caught.value.diagnostics[0].message


def test_which_space(tmp_path: Path) -> None:
    with pytest.raises(DriverError) as caught:
        find_space(tmp_path, "")
    assert caught.value.diagnostics[0].code is Code.FILE_MISSING
    (tmp_path / "tuning").mkdir()
    for name in ("one", "other"):
        (tmp_path / "tuning" / f"{name}.toml").write_text(SPACE, encoding="utf-8")
    for name in ("", "onne"):
        with pytest.raises(DriverError) as caught:
            find_space(tmp_path, name)
        assert caught.value.diagnostics[0].code is Code.USAGE
    assert find_space(tmp_path, "other").name == "other"
