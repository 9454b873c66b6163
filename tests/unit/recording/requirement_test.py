"""Releases of the package index, as users write them."""

from __future__ import annotations

import pytest

from py_driver.errors import Code, DriverError
from py_driver.recording.requirement import looks_like_requirement, parse_requirement

DIGEST = "3202758494eaa7b597ce1c282dfa188889506bfcb92cad3c407d26736bfcd32b"


@pytest.mark.parametrize(
    ("text", "name", "specifier", "exact"),
    [
        ("causal-conv1d==1.7.0", "causal-conv1d", "==1.7.0", True),
        ("Causal_Conv1d == 1.7.0", "causal-conv1d", "==1.7.0", True),
        ("causal-conv1d", "causal-conv1d", "", False),
        ("causal-conv1d>=1.6,<2", "causal-conv1d", "<2,>=1.6", False),
        ("causal-conv1d (>=1.6)", "causal-conv1d", ">=1.6", False),
        ("causal-conv1d==1.7.*", "causal-conv1d", "==1.7.*", False),
        ("causal-conv1d===1.7.0", "causal-conv1d", "===1.7.0", True),
        ("causal-conv1d~=1.7", "causal-conv1d", "~=1.7", False),
    ],
)
def test_what_is_wanted(text: str, name: str, specifier: str, exact: bool) -> None:  # noqa: FBT001
    wanted = parse_requirement(text)
    assert (wanted.name, str(wanted.specifier), wanted.exact, wanted.hashes) == (name, specifier, exact, frozenset())


def test_hashes_as_in_a_requirements_file_and_as_an_option() -> None:
    other = "0" * 64
    wanted = parse_requirement(f"a==1 --hash=sha256:{DIGEST} --hash sha256:{other.upper()}", [f"sha256:{'1' * 64}"])
    assert wanted.hashes == {DIGEST, other, "1" * 64}
    assert wanted.text == "a==1"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("causal conv1d==1.7.0", Code.USAGE, "`causal conv1d==1.7.0` is not a requirement"),
        ("a==", Code.USAGE, "`a==` is not a requirement"),
        ("a==1 --hash=md5:00", Code.USAGE, "`--hash=md5:00` is not a SHA-256"),
        (f"a==1 --hash=sha256:{DIGEST} more", Code.USAGE, "is not a requirement"),
        ("a==1 --no-binary", Code.USAGE, "is not a requirement"),
        ("a @ https://localhost/a-1.tar.gz", Code.UNSUPPORTED, "is an address"),
        ("a[triton]==1", Code.UNSUPPORTED, "a wheel is the same for all extras"),
        ("a==1; python_version < '3.9'", Code.UNSUPPORTED, "a marker does not choose"),
    ],
)
def test_what_is_refused(text: str, code: Code, said: str) -> None:
    with pytest.raises(DriverError) as caught:
        parse_requirement(text)
    [diagnostic] = caught.value.diagnostics
    assert diagnostic.code is code
    assert said in diagnostic.message
    assert diagnostic.help


@pytest.mark.parametrize("word", ["a==1", "a >= 1", "a~=1", "a<2", "a[x]==1", "a===1", "a@https://x", "a(==1)", "a!=1"])
def test_words_that_are_meant_as_requirements(word: str) -> None:
    assert looks_like_requirement(word)


@pytest.mark.parametrize("word", ["relu", "./a", "a/b", "../x==1", "a=1", ".", "", "-a==1", "kernels/a==1"])
def test_words_that_are_directories(word: str) -> None:
    assert not looks_like_requirement(word)
