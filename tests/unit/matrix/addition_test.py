"""Releases that `driver lock --add` writes: their text in a matrix, and what headers and metadata of wheels say."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli

from py_driver import __main__
from py_driver.errors import Code, DriverError
from py_driver.matrix.addition import Addition, inserted, request
from py_driver.matrix.new_cuda import cuda_of, earlier_cudnn, host_of, max_clang, python_tag

MATRIX = Path(__file__).parents[3] / "toolchains" / "matrix.toml"
TEXT = MATRIX.read_text(encoding="utf-8")
TABLE = tomli.loads(TEXT)
CLANG = "#if (__GRCO_CLANG_COMPILER__ == 1) && ((__clang_major__ < 16) || (__clang_major__ > 21))"


def addition(kind: str, version: str, **more: object) -> Addition:
    pairs = more.pop("pairs", {})
    assert isinstance(pairs, dict)
    return Addition(kind, version, {"version": version, **more}, ["`a`: b"], ["look at c"], pairs)


@pytest.mark.parametrize("kind", ["torch", "cuda"])
def test_the_text_of_a_table_is_what_it_was_made_of(kind: str) -> None:
    for table in TABLE[kind]:
        text = Addition(kind, table["version"], table, [], []).text
        assert tomli.loads(text) == {kind: [table]}
        assert all(len(line) <= 120 for line in text.splitlines() if "{" not in line)


@pytest.mark.parametrize(
    ("kind", "version", "before"),
    [("cuda", "13.1", "13.2"), ("cuda", "12.5", "12.6"), ("cuda", "13.10", None), ("torch", "2.16", None)],
)
def test_a_release_is_put_before_the_next_one_and_changes_nothing_else(
    kind: str, version: str, before: str | None
) -> None:
    text = inserted(TEXT, addition(kind, version))
    table = tomli.loads(text)
    versions = [release["version"] for release in table[kind]]
    assert versions.pop(versions.index(version)) == version
    assert versions == [release["version"] for release in TABLE[kind]]
    names = [release["version"] for release in table[kind]]
    at = names.index(version)
    assert (names[at + 1] if at + 1 < len(names) else None) == before
    table[kind].pop(at)
    assert table == TABLE
    assert text.replace(f'[[{kind}]]\nversion = "{version}"\n\n', "", 1) == TEXT


@pytest.mark.parametrize("kind", ["torch", "cuda"])
def test_the_comment_of_the_next_part_stays_with_it(kind: str) -> None:
    lines = inserted(TEXT, addition(kind, "99.0")).splitlines()
    at = lines.index('version = "99.0"')
    assert lines[at + 1] == ""
    assert lines[at + 2].startswith("# ")
    assert lines[at - 2] == ""
    assert lines[at - 3] != ""


@pytest.mark.parametrize("text", ["", "[platform]\ncpus = ['x86_64']", "[platform]\ncpus = ['x86_64']\n"])
def test_a_matrix_of_ones_own_gets_a_release_and_its_pair(text: str) -> None:
    first = inserted(text, addition("cuda", "13.4", pairs={"2.15": ["cu134"]}))
    both = inserted(first, addition("cuda", "13.1", pairs={"2.15": ["cu131"]}))
    table = tomli.loads(both)
    assert [release["version"] for release in table["cuda"]] == ["13.1", "13.4"]
    assert table["torch"] == [{"version": "2.15", "on-request": ["cu134", "cu131"]}]
    assert both.startswith(text)


def test_the_request_has_what_was_read_the_digests_and_what_is_open() -> None:
    text = request(addition("cuda", "13.4"), [{"name": "nvcc", "version": "13.4.92", "sha256": "ab"}])
    assert text.startswith("Add CUDA 13.4\n")
    assert "- `a`: b\n" in text
    assert "| nvcc | 13.4.92 | `ab` |\n" in text
    assert text.endswith("- [ ] look at c")


def test_the_newest_clang_is_that_of_the_header() -> None:
    assert max_clang(f"{CLANG}\n#if (__clang_major__ >= 22)\n") == 21


@pytest.mark.parametrize(
    ("header", "newest", "expected"),
    [
        ("__GNUC_PREREQ(2,41)", 21, "0.14.1"),
        ("__GLIBC_PREREQ(2,41)", 22, "0.12.1"),
        ("", 19, "0.12.1"),
        ("__GNUC_PREREQ(2,41)", 18, "0.12.1"),
        ("", 15, "0.9.1"),
    ],
)
def test_the_host_compiler_is_one_that_nvcc_takes_without_a_clash_of_headers(
    header: str, newest: int, expected: str
) -> None:
    assert host_of(header, newest, TABLE["cc"]["zig"]) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cuda-toolkit[cublas,cudart]==13.0.3; platform_system == 'Linux'", "13.0"),
        ("nvidia-cuda-runtime-cu12==12.8.90; platform_system == 'Linux'", "12.8"),
        ("nvidia-cuda-runtime-cu12 (==12.1.105) ; platform_system == 'Linux'", "12.1"),
        ("nvidia-cudnn-cu13==9.26.0.51", ""),
    ],
)
def test_the_cuda_of_a_torch_wheel_is_in_its_metadata(line: str, expected: str) -> None:
    assert cuda_of(["filelock", line]) == expected


@pytest.mark.parametrize(
    ("kind", "version", "message"),
    [
        ("cuda", "13.0", "the matrix has cuda 13.0 already"),
        ("rocm", "7.3", "`--add rocm 7.3` names no release that can be added"),
        ("cuda", "13", "`--add cuda 13` names no release that can be added"),
    ],
)
def test_what_cannot_be_added_is_an_error_before_anything_is_looked_up(
    kind: str, version: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert __main__.main(["lock", "--add", kind, version]) == 2
    assert f"error[E006]: {message}" in capsys.readouterr().err
    assert MATRIX.read_text(encoding="utf-8") == TEXT


def test_a_cuda_release_without_cudnn_is_passed_over() -> None:
    [known] = [cuda for cuda in TABLE["cuda"] if cuda["version"] == "13.2"]
    expected = ([library["wheel"] for library in known["libraries"]][-1], "13.2")
    for own in ({"version": "13.3"}, {"version": "13.3", "libraries": [{"redistributable": "libcublas"}]}):
        table = {"cuda": [*TABLE["cuda"], own]}
        assert earlier_cudnn("13.4", table) == expected
    with pytest.raises(DriverError) as caught:
        earlier_cudnn("13.4", {"cuda": [{"version": "13.3", "libraries": []}]})
    [problem] = caught.value.diagnostics
    assert problem.code is Code.BAD_VALUE
    assert "names a cuDNN" in problem.message


@pytest.mark.parametrize(
    ("pythons", "tag"), [(["3.11", "3.14", "3.14t"], "cp314"), (["3.14t"], ""), (["3.9"], "cp39"), (None, "")]
)
def test_the_wheel_of_a_torch_release_that_is_read(pythons: list[str] | None, tag: str) -> None:
    assert python_tag({"version": "2.16"} | ({} if pythons is None else {"pythons": pythons})) == tag
