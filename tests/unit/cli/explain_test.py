"""`driver explain`, and its texts, which docs/errors.md has too."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import tomli

from py_driver import __main__
from py_driver.cli.explain import find, spell
from py_driver.errors import Code, DriverError
from py_driver.manifest.reader import read
from py_driver.manifest.tables import table
from py_driver.matrix.releases import Releases
from py_driver.plan.checks import check
from py_driver.plan.present_files import PresentFiles

ROOT = Path(__file__).parents[3]
RESOURCE = ROOT / "py_driver" / "resources" / "codes.toml"
TABLES = tomli.loads(RESOURCE.read_text(encoding="utf-8"))
TEXTS = {
    code: {key: text.strip("\n") for key, text in TABLES[code.number].items()} for code in Code if code.number in TABLES
}
"""The text of each error that has one; tests/unit/errors_test.py says which has none."""
RELEASES = Releases()

EXAMPLE = re.compile(r"^(Wrong|Right)(?:, [^\n]*)?:\n\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BASE: dict[str, Any] = {
    "general": {"name": "relu", "version": 1, "edition": 5, "license": "apache-2.0", "backends": ["cuda"]},
    "torch": {"src": ["torch-ext/torch_binding.cpp"]},
}
SAID_BY_THE_MANIFEST = [
    *(Code.UNKNOWN_KEY, Code.MISSING_KEY, Code.WRONG_TYPE, Code.BAD_VALUE, Code.BAD_NAME, Code.UNSUPPORTED),
    *(Code.EDITION, Code.BAD_FLAG, Code.UNKNOWN_ARCH, Code.EMPTY_ARCHS),
]
"""The errors that reading build.toml alone gives."""


def examples(code: Code) -> list[tuple[str, str, str]]:
    """The examples of a text: whether it is `Wrong` or `Right`, the language, and the code."""
    return EXAMPLE.findall(TEXTS[code]["text"])


def as_toml(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {as_toml(item)}" for key, item in value.items()) + "}"
    return f"[{', '.join(as_toml(item) for item in value)}]" if isinstance(value, list) else json.dumps(value)


def codes_of(example: str) -> set[Code]:
    """The errors of a file that says what an example says; the rest of it is right."""
    found = tomli.loads(example)
    whole = {**BASE, **found, "general": {**BASE["general"], **found.get("general", {})}}
    content = "".join(f"{json.dumps(key)} = {as_toml(value)}\n" for key, value in whole.items())
    try:
        manifest, findings = read(content.encode("utf-8"), "build.toml")
    except DriverError as failure:
        return {diagnostic.code for diagnostic in failure.diagnostics}
    check(manifest, RELEASES, PresentFiles(Path()), findings)
    return {diagnostic.code for diagnostic in findings.diagnostics()}


@pytest.mark.parametrize("code", TEXTS)
def test_a_text_is_tidy(code: Code) -> None:
    title, text = TEXTS[code]["title"], TEXTS[code]["text"]
    assert title
    assert not title.endswith(".")
    assert "|" not in title
    assert set(re.findall(r"E\d{3}", text)) <= {code.number for code in Code}
    assert all(len(line) <= 90 for line in text.splitlines())
    assert len(EXAMPLE.findall(text)) * 2 == text.count("```")
    kinds = [kind for kind, _, _ in examples(code)]
    assert kinds in ([], ["Wrong", "Right"])


@pytest.mark.parametrize("code", SAID_BY_THE_MANIFEST)
def test_the_wrong_example_has_this_error_and_the_right_one_none(code: Code) -> None:
    wrong, right = (text for _, _, text in examples(code))
    assert codes_of(wrong) == {code}
    assert codes_of(right) == set()


@pytest.mark.parametrize("code", [code for code in TEXTS if code not in SAID_BY_THE_MANIFEST])
def test_other_examples_are_read(code: Code) -> None:
    for kind, language, text in examples(code):
        if language == "toml" and (kind, code) != ("Wrong", Code.TOML_SYNTAX):
            assert codes_of(text) == set()


def test_the_wrong_example_of_syntax() -> None:
    with pytest.raises(tomli.TOMLDecodeError):
        tomli.loads(examples(Code.TOML_SYNTAX)[0][2])


def test_the_keys_that_texts_name_exist() -> None:
    names = {key.name for path in ("general", "general.cuda", "torch", "kernel.*") for key in table(path).keys}
    for word in (
        "depends",
        "include",
        "cuda-capabilities",
        "cuda-minver",
        "minver",
        "maxver",
        "stable-abi",
        "rocm-archs",
    ):
        assert word in names
        assert any(f"`{word}`" in text["text"] for text in TEXTS.values())


@pytest.mark.parametrize("word", ["E003", "e003", "UNKNOWN_KEY", "unknown-key", "Unknown-Key", "unknown_key"])
def test_a_code_is_found_by_number_and_name(word: str) -> None:
    assert find(word) is Code.UNKNOWN_KEY


@pytest.mark.parametrize(
    ("word", "near"),
    [("E013", "did you mean `E011`? "), ("unkown-key", "did you mean `unknown-key`? "), ("BADFLAG", None), ("7", "")],
)
def test_what_does_not_exist(word: str, near: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["explain", word]) == 2
    said = capsys.readouterr().err
    assert f"error[E200]: unknown error `{word}`" in said
    assert f"help: {'did you mean `bad-flag`? ' if near is None else near}`driver explain` lists all errors" in said


def test_one_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["explain", "e009"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    lines = captured.out.splitlines()
    assert lines[0] == "E009 edition: the edition is unknown"
    assert "    edition = 4" in lines
    assert lines[-1] == "exit code: 2 INPUT"
    assert "```" not in captured.out


def test_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["explain"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["code", "name", "exit", "meaning"]
    assert [row.split()[:2] for row in rows] == [[code.number, spell(code)] for code in Code]
    assert rows[-1].split()[2:4] == ["130", "INTERRUPT"]


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["explain", "--json"]) == 0
    every = json.loads(capsys.readouterr().out)
    assert [entry["code"] for entry in every] == [code.number for code in Code]
    assert __main__.main(["explain", "--json", "stale-build-file"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert one in every
    assert one["exit"] == {"code": 1, "name": "DIFFERENCE"}
    assert set(one) == {"code", "name", "exit", "title", "text"}
