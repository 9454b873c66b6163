from __future__ import annotations

import io
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from py_driver.bazel import bazelisk, find
from py_driver.bazel.find import BAZEL_VARIABLE, Source, find_bazel, present_bazel
from py_driver.debian import provide as debian
from py_driver.errors import Code, DriverError, error
from py_driver.output import Output

if TYPE_CHECKING:
    from collections.abc import Callable

_ANSWER = "#!/bin/sh\necho 'bazel {}'\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / ".bazelversion").write_text("7.7.1\n")
    return root


@pytest.fixture
def provided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "provided" / "bazel"

    def provide(_cache: Path, _output: Output, fetched: Callable[[int], object]) -> Path:
        fetched(137)
        return path

    monkeypatch.setattr(debian, "provide", provide)
    return path


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str, str], Path]:
    def write(name: str, text: str) -> Path:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    return write


def _find(root: Path, **variables: str) -> tuple[find.Bazel, str]:
    err = io.StringIO()
    environ = {"PATH": f"{root.parent / 'bin'}:/usr/bin:/bin", "HOME": str(root), **variables}
    return find_bazel(root, Output(io.StringIO(), err, environ), environ), err.getvalue()


def test_right_version_on_path(root: Path, program: Callable[[str, str], Path]) -> None:
    path = program("bazel", _ANSWER.format("7.7.1"))
    bazel, said = _find(root)
    assert (bazel.path, bazel.version, bazel.source) == (path, "7.7.1", Source.PATH)
    assert said == ""


def test_bazelisk_goes_before_bazel(root: Path, program: Callable[[str, str], Path]) -> None:
    program("bazel", _ANSWER.format("7.7.1"))
    path = program("bazelisk", "#!/bin/sh\necho 2026/01/01 noise >&2\necho 'bazel 7.7.1'\n")
    bazel, said = _find(root)
    assert bazel.path == path
    assert said == ""


def test_wrong_version_is_passed_over(root: Path, program: Callable[[str, str], Path], provided: Path) -> None:
    path = program("bazel", _ANSWER.format("6.5.0"))
    bazel, said = _find(root)
    assert (bazel.path, bazel.source) == (provided, Source.DEBIAN)
    assert said == f"{path} is Bazel 6.5.0; the driver expects 7.7.1, and does not use it.\n"


def test_wrong_bazelisk_falls_through_to_bazel(root: Path, program: Callable[[str, str], Path]) -> None:
    program("bazelisk", "#!/bin/sh\necho could not download >&2\nexit 1\n")
    path = program("bazel", _ANSWER.format("7.7.1- (@non-git)"))
    bazel, said = _find(root)
    assert bazel.path == path
    assert "does not print its version" in said
    assert "could not download" not in said


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 3\n", "#!/bin/sh\necho hello\n", "#!/no/such\n", "\x00garbage"])
def test_failing_program_is_passed_over(
    root: Path, program: Callable[[str, str], Path], provided: Path, text: str
) -> None:
    program("bazel", text)
    bazel, said = _find(root)
    assert bazel.path == provided
    assert len(said.splitlines()) == 1


def test_hanging_program_is_killed_with_its_children(
    root: Path,
    program: Callable[[str, str], Path],
    provided: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(find, "_ANSWER_SECONDS", 0.5)
    program("bazelisk", "#!/bin/sh\nsleep 1000 & echo $! > child\nwait\n")
    bazel, _ = _find(root)
    assert bazel.path == provided
    child = Path("/proc", (root / "child").read_text().strip(), "status")
    # A killed process is there until it has run once more.
    until = time.monotonic() + 10
    while child.exists() and "State:\tZ" not in child.read_text() and time.monotonic() < until:
        time.sleep(0.05)
    assert not child.exists() or "State:\tZ" in child.read_text()


def test_absent(root: Path, provided: Path) -> None:
    bazel, said = _find(root)
    assert (bazel.path, bazel.version, bazel.bytes_fetched, said) == (provided, "7.7.1", 137, "")


def test_variable_wins(root: Path, program: Callable[[str, str], Path]) -> None:
    program("bazel", _ANSWER.format("7.7.1"))
    named = program("mine", _ANSWER.format("7.7.1"))
    bazel, _ = _find(root, RULES_TORCH_KERNELS_BAZEL=str(named))
    assert (bazel.path, bazel.source) == (named, Source.VARIABLE)


def test_variable_of_another_version_is_used_with_a_warning(root: Path, program: Callable[[str, str], Path]) -> None:
    named = program("mine", _ANSWER.format("8.0.0"))
    bazel, said = _find(root, RULES_TORCH_KERNELS_BAZEL=str(named))
    assert bazel.version == "8.0.0"
    assert said == "warning: RULES_TORCH_KERNELS_BAZEL is Bazel 8.0.0; 7.7.1 is expected\n"


def test_variable_that_names_nothing(root: Path) -> None:
    with pytest.raises(DriverError) as caught:
        _find(root, RULES_TORCH_KERNELS_BAZEL="/no/such")
    assert caught.value.diagnostics[0].code is Code.NO_BAZEL


@pytest.mark.parametrize(("wanted", "code"), [("9.0.0", None), ("7.7.1", Code.NOT_DEBIAN), ("7.x", Code.NO_BAZEL)])
def test_bazelisk_fetches_what_debian_does_not_have(
    root: Path, monkeypatch: pytest.MonkeyPatch, program: Callable[[str, str], Path], wanted: str, code: Code | None
) -> None:
    (root / ".bazelversion").write_text(f"# ours\n{wanted}\n")
    version = wanted.replace("x", "7.1")
    path = program("released", _ANSWER.format(version))
    asked: list[str] = []

    def refused(_cache: Path, _output: Output, _fetched: object) -> Path:
        assert code is not None
        raise error(code, "there is no apt")

    monkeypatch.setattr(debian, "provide", refused)

    def fetched(_cache: Path, version: str, *_: object) -> Path:
        asked.append(version)
        return path

    monkeypatch.setattr(bazelisk, "provide", fetched)
    found, said = _find(root)
    assert (found.path, found.version, found.source) == (path, version, Source.BAZELISK)
    assert asked == [version]
    assert said == ("there is no apt; falling back to Bazelisk.\n" if code else "")


@pytest.mark.parametrize("code", [Code.NO_SPACE, Code.PERMISSION, Code.NO_NETWORK])
def test_what_bazelisk_cannot_help(root: Path, monkeypatch: pytest.MonkeyPatch, code: Code) -> None:
    def refused(_cache: Path, _output: Output, _fetched: object) -> Path:
        raise error(code, "no")

    monkeypatch.setattr(debian, "provide", refused)
    with pytest.raises(DriverError) as caught:
        _find(root)
    assert caught.value.diagnostics[0].code is code


def test_a_released_bazel_of_another_version_is_an_error(
    root: Path, monkeypatch: pytest.MonkeyPatch, program: Callable[[str, str], Path]
) -> None:
    (root / ".bazelversion").write_text("9.0.0\n")
    path = program("released", _ANSWER.format("9.1.0"))
    monkeypatch.setattr(bazelisk, "provide", lambda *_: path)
    with pytest.raises(DriverError, match=r"fetched by Bazelisk, does not report version 9\.0\.0"):
        _find(root)


def test_a_home_that_is_read_only(
    root: Path, program: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    program("bazel", _ANSWER.format("7.7.1"))
    assert _find(root)[0].startup == ()
    monkeypatch.setattr(os, "access", lambda path, _mode: not str(path).startswith(str(root)))
    cache = root.parent / "cache"
    bazel, _ = _find(root, RULES_TORCH_KERNELS_CACHE=str(cache))
    assert bazel.startup == (f"--output_user_root={cache / 'output'}",)


@pytest.mark.parametrize("wanted", ["7.x", "7.*", "7.7.1", "", "# nothing\n"])
def test_spellings_of_the_wanted_version(root: Path, program: Callable[[str, str], Path], wanted: str) -> None:
    (root / ".bazelversion").write_text(wanted)
    path = program("bazel", _ANSWER.format("7.7.1"))
    assert _find(root)[0].path == path


def test_program_sees_the_workspace_and_a_curated_environment(
    root: Path, program: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    program("bazel", "#!/bin/sh\npwd > seen; env >> seen\necho 'bazel 7.7.1'\n")
    monkeypatch.setenv("HTTPS_PROXY", "x")
    _find(root, SECRET="1", https_proxy="y")  # noqa: S106  (no password)
    seen = (root / "seen").read_text().splitlines()
    assert Path(seen[0]) == Path(os.path.realpath(root))
    assert "https_proxy=y" in seen
    assert not any(line.startswith(("SECRET=", "HTTPS_PROXY=")) for line in seen)


def test_output_user_root(root: Path, program: Callable[[str, str], Path]) -> None:
    program("bazel", _ANSWER.format("7.7.1"))
    bazel, _ = _find(root, RULES_TORCH_KERNELS_OUTPUT_USER_ROOT="/big/disk")
    assert bazel.startup == ("--output_user_root=/big/disk",)


def test_the_present_bazel_is_the_one_that_is_found(root: Path, program: Callable[[str, str], Path]) -> None:
    program("bazelisk", _ANSWER.format("8.0.0"))
    program("bazel", _ANSWER.format("7.7.1"))
    environ = {"PATH": f"{root.parent / 'bin'}:/usr/bin:/bin", "HOME": str(root)}
    assert present_bazel(root, environ) == _find(root)[0]


def test_a_bazel_in_the_cache_is_present_if_the_workspace_wants_it(root: Path) -> None:
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(root), "RULES_TORCH_KERNELS_CACHE": str(root.parent / "cache")}
    assert present_bazel(root, environ) is None
    debian.place_of(root.parent / "cache").mkdir(parents=True)
    found = present_bazel(root, environ)
    assert found is not None
    assert (found.version, found.source) == ("7.7.1", Source.DEBIAN)
    (root / ".bazelversion").write_text("8.0.0\n")
    assert present_bazel(root, environ) is None


def test_a_named_bazel_that_does_not_answer_is_not_passed_over(root: Path) -> None:
    with pytest.raises(DriverError) as caught:
        present_bazel(root, {"PATH": "/usr/bin:/bin", "HOME": str(root), BAZEL_VARIABLE: "/bin/false"})
    assert caught.value.diagnostics[0].code is Code.NO_BAZEL
