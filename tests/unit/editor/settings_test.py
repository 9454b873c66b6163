"""Settings of editors: what is written, what stays, and what problem matchers find in the driver's output."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import yaml

from py_driver.editor.database import recorded_variant
from py_driver.editor.settings import editor_files, write_settings
from py_driver.errors import Code, Diagnostic, DriverError, Span
from py_driver.manifest.schema import make_schema
from py_driver.output import Output

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

FILES = editor_files(["torch-ext"], 5)


def plain(text: str) -> str:
    """JSON without the comments of VS Code's files, each of which has a line of its own."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("//"))


def test_each_file_can_be_read() -> None:
    documents = [*yaml.safe_load_all(FILES[".clangd"])]
    assert documents[0]["Diagnostics"]["Suppress"]
    for path, text in FILES.items():
        if path.endswith(".json"):
            assert json.loads(plain(text))
    assert json.loads(plain(FILES[".vscode/settings.json"]))["python.analysis.extraPaths"] == ["torch-ext"]
    assert json.loads(FILES[".vscode/build-toml.schema.json"]) == make_schema(5)
    assert ".vscode/build-toml.schema.json" not in editor_files([], None)


def test_files_of_the_user_stay(tmp_path: Path) -> None:
    (tmp_path / ".clangd").write_text("# mine\n")
    own, users = write_settings(tmp_path, FILES)
    assert users == [".clangd"]
    assert (tmp_path / ".clangd").read_text() == "# mine\n"
    assert sorted(own) == sorted({*FILES} - {".clangd"})
    assert all((tmp_path / path).read_text() == FILES[path] for path in own)


def test_own_files_are_written_anew(tmp_path: Path) -> None:
    write_settings(tmp_path, FILES)
    (tmp_path / ".clangd").write_text(FILES[".clangd"].split("\n", 1)[0] + "\nDiagnostics: {}\n")
    (tmp_path / ".vscode" / "build-toml.schema.json").write_text(editor_files([], 6)[".vscode/build-toml.schema.json"])
    write_settings(tmp_path, FILES)
    assert {path: (tmp_path / path).read_text() for path in FILES} == FILES


def test_an_own_file_in_another_encoding_is_written_anew(tmp_path: Path) -> None:
    write_settings(tmp_path, FILES)
    file = tmp_path / ".clangd"
    text = file.read_bytes()
    file.write_bytes(text + "# é".encode("latin-1"))
    write_settings(tmp_path, FILES)
    assert file.read_bytes() == text


def test_problem_matchers_find_errors(capsys: pytest.CaptureFixture[str]) -> None:
    span = Span(file="build.toml", line=3, column=5, length=4, text='name = "relu"')
    Output().fail(DriverError([Diagnostic(code=Code.UNKNOWN_KEY, message="unknown key `licence`", span=span)]))
    lines = capsys.readouterr().err.splitlines()
    [own, compiler] = json.loads(plain(FILES[".vscode/tasks.json"]))["tasks"][0]["problemMatcher"]
    head, place = (re.match(pattern["regexp"], line) for pattern, line in zip(own["pattern"], lines, strict=False))
    assert head is not None
    assert head[own["pattern"][0]["message"]] == "unknown key `licence`"
    assert place is not None
    assert [place[own["pattern"][1][key]] for key in ("file", "line", "column")] == ["build.toml", "3", "5"]
    pattern = compiler["pattern"]
    found = re.match(pattern["regexp"], "csrc/relu.cu:12:9: error: use of undeclared identifier 'nope'")
    assert found is not None
    assert [found[pattern[key]] for key in ("file", "line", "severity")] == ["csrc/relu.cu", "12", "error"]


def test_databases_of_others_are_known(tmp_path: Path) -> None:
    path = tmp_path / "compile_commands.json"
    assert recorded_variant(path) is None
    for text in ("", "{}", "[]", "[1]", '[{"output": "a.o"}]', '[{"file": "a.cpp"}]'):
        path.write_text(text)
        assert recorded_variant(path) is None
    path.write_text('[{"output": "torch-kernels/torch213-cxx11-cpu-x86_64-linux/csrc/a.cpp.o"}]')
    assert recorded_variant(path) == "torch213-cxx11-cpu-x86_64-linux"
