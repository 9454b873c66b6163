"""The private apt: which archives it asks, and what it makes of apt's answers. A script stands in for apt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from py_driver.errors import Code, DriverError
from py_driver.fetch.apt import MIRROR_VARIABLE, Apt
from py_driver.fetch.debian import debian_archives, resolve_debian

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_URIS = """\
'http://a.example/x/dists/bookworm/InRelease' a_x 0
'http://b.example/debian/dists/bookworm/InRelease' b_debian 0
'http://b.example/debian/dists/bookworm-updates/InRelease' b_debian 0
'http://b.example/debian-security/dists/bookworm-security/InRelease' b_security 0
'http://b.example/debian/dists/bookworm/main/binary-amd64/Packages.xz' b_debian 0
"""
_PARAGRAPH = f"""\
Package: hello
Version: 2.10-3
Filename: pool/main/h/hello/hello_2.10-3_amd64.deb
Size: 53000
SHA256: {"0" * 64}
"""


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes the machine's apt a script, which is told the archive that it is to use."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv(MIRROR_VARIABLE, raising=False)
    (tmp_path / "uris").write_text(_URIS)
    (tmp_path / "paragraph").write_text(_PARAGRAPH)

    def script(lines: str) -> None:
        for name in ("apt-get", "apt-cache"):
            head = f"#!/bin/sh\ncd {tmp_path}\n"
            list_ = 'for word; do case $word in -oDir::Etc::SourceList=*) archive=$(cat "${word#*=}");; esac; done\n'
            (tmp_path / name).write_text(f'{head}case "$*" in *--print-uris) cat uris; exit;; esac\n{list_}{lines}\n')
            (tmp_path / name).chmod(0o755)

    return script


def test_archives_are_those_of_the_environment_and_of_apt(
    apt: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    apt("exit 1")
    assert Apt(tmp_path / "state").machine_archives() == ("http://b.example/debian", "http://a.example/x")
    assert debian_archives() == ((), ("http://b.example/debian",))
    monkeypatch.setenv(MIRROR_VARIABLE, "http://c.example/d/ /srv/debian")
    assert debian_archives() == (("http://c.example/d", "/srv/debian"), ("http://b.example/debian",))


def test_an_apt_that_is_set_up_wrong(
    apt: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    apt("")
    (tmp_path / "uris").unlink()
    with pytest.raises(DriverError, match="apt-get failed: cat: uris") as caught:
        debian_archives()
    assert caught.value.diagnostics[0].code is Code.SET_UP
    monkeypatch.setenv(MIRROR_VARIABLE, "/srv/debian")
    assert debian_archives() == (("/srv/debian",), ())


def test_the_first_archive_with_the_suite_is_used(apt: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MIRROR_VARIABLE, "/srv/debian")
    found = '*show*hello) test "$archive" = "deb http://b.example/debian/ sid main" && cat paragraph'
    apt(f'case "$archive $*" in *file:///srv*) echo E: 404 Not Found >&2; exit 100;; {found};; esac')
    [entry] = resolve_debian(["hello"], "sid")
    assert (entry.version, entry.size) == ("2.10-3", 53000)


@pytest.mark.parametrize(
    ("said", "code", "expected"),
    [
        ("E: Could not resolve 'u:secret@b.example'", Code.NO_NETWORK, "E: Could not resolve"),
        ("E: Failed to fetch http://u:secret@b.example/x  404  Not Found", Code.NOT_FOUND_UPSTREAM, "b.example/x"),
        ("E: Malformed", Code.SET_UP, "apt-get failed: E: Malformed"),
    ],
)
def test_what_the_first_archive_says_is_the_error(
    apt: Callable[[str], None], said: str, code: Code, expected: str
) -> None:
    apt(f'case "$archive" in *b.example*) echo "{said}" >&2;; *) echo E: other >&2;; esac; exit 100')
    with pytest.raises(DriverError) as caught:
        resolve_debian(["hello"], "sid")
    [diagnostic] = caught.value.diagnostics
    assert diagnostic.code is code
    assert expected in diagnostic.message
    assert "://u:secret" not in diagnostic.message


def test_a_package_that_is_not_there(apt: Callable[[str], None]) -> None:
    apt('case "$*" in *show*) echo E: No packages found >&2; exit 100;; esac')
    with pytest.raises(DriverError) as caught:
        resolve_debian(["hello"], "sid")
    [diagnostic] = caught.value.diagnostics
    assert diagnostic.code is Code.NOT_FOUND_UPSTREAM
    assert diagnostic.message.endswith("apt-cache: Unable to locate package hello")


def test_a_machine_without_apt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DriverError, match="which this machine does not have"):
        resolve_debian(["hello"], "sid")
