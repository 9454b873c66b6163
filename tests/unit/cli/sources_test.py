"""Releases of the package index on a command line: through pip's own configuration, from an index on the loopback."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fetch_server import Server
from sdists import tarred

from py_driver import __main__
from py_driver.cli.sources import located
from py_driver.output import Output

if TYPE_CHECKING:
    from collections.abc import Iterator

BODY = tarred("demo-1.0")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    server = Server()
    server.offer("demo", {"demo-1.0.tar.gz": BODY})
    monkeypatch.setenv("RULES_TORCH_KERNELS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple")
    monkeypatch.chdir(tmp_path)
    yield server
    server.close()


@pytest.mark.usefixtures("server")
def test_directories_and_releases(tmp_path: Path) -> None:
    (tmp_path / "other==1").mkdir()
    words = [Path("other==1"), Path("demo==1.0"), Path("./a/b")]
    directory, source, nowhere = located(words, [], Output(err=io.StringIO()))
    assert (directory, nowhere) == (words[0], words[2])
    assert not isinstance(source, Path)
    assert (source.name, source.version) == ("demo", "1.0")
    assert source.directory.is_relative_to(tmp_path / "cache")


def test_hash_allows_some_archives(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    allowed = f"sha256:{hashlib.sha256(BODY).hexdigest()}"
    [source] = located([Path("demo==1.0")], [f"sha256:{'0' * 64}", allowed], Output(err=io.StringIO()))
    assert not isinstance(source, Path)
    fetched = [asked.path for asked in server.asked if not asked.span].count("/files/demo-1.0.tar.gz")
    assert __main__.main(["wheel", "demo==1.0", f"--hash=sha256:{'0' * 64}"]) == 4
    assert "error[E303]: demo-1.0.tar.gz on the package index has sha256:" in capsys.readouterr().err
    assert [asked.path for asked in server.asked if not asked.span].count("/files/demo-1.0.tar.gz") == fetched == 1


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (
            ["demo"],
            2,
            "error[E105]: there is no directory `demo`\n"
            " = help: to build demo from the package index, name a version: demo==1.0\n",
        ),
        (["demo=="], 2, "error[E200]: `demo==` is not a requirement\n"),
        (["demo==2.0"], 4, "error[E302]: the package index has no release of `demo==2.0`\n"),
        (["dem0==1"], 4, "error[E302]: the package index has no project `dem0`: "),
        ([".", "--hash=sha256:0"], 2, "error[E200]: --hash is for releases of the package index\n"),
        (["a/b"], 2, "error[E105]: there is no a/b/build.toml\n"),
    ],
)
def test_what_is_refused(words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["wheel", *words]) == code
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("command", ["build", "check", "variants"])
def test_commands_that_take_directories_name_those_that_take_releases(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert __main__.main([command, "demo==1.0"]) == 2
    advice = "`driver wheel` and `driver adopt` take a release of the package index; other commands take a directory"
    assert f"there is no demo==1.0/build.toml\n = help: {advice}\n" in capsys.readouterr().err
