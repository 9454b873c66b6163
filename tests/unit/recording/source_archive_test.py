"""Source archives of a package index on the loopback: which one is taken, and that it stays the same."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import stat
import subprocess
import sys
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest
from fetch_server import Server, wheel
from sdists import SETUP, tarred

from py_driver.errors import Code, Diagnostic, DriverError
from py_driver.fetch import transfer
from py_driver.fetch.fetcher import Fetcher
from py_driver.fetch.pip_settings import PipSettings
from py_driver.fetch.store import Store
from py_driver.output import Output
from py_driver.recording import source_archive
from py_driver.recording.source_archive import Source, check_metadata, fetch_source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def link(target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo()
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def files_of(*versions: str, name: str = "demo") -> dict[str, bytes]:
    return {f"{name}-{version}.tar.gz": tarred(f"{name}-{version}") for version in versions}


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(transfer, "RETRY_DELAYS", (0.01, 0.02, 0.03))
    monkeypatch.setenv("RULES_TORCH_KERNELS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RULES_TORCH_KERNELS_MIRROR", raising=False)
    monkeypatch.delenv("NETRC", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


class Fetching:
    """A run of the driver for each call; what it said last is kept."""

    def __init__(self, url: str, cache: Path) -> None:
        self.said = ""
        self._url = url
        self._cache = cache

    def __call__(self, requirement: str, *hashes: str, mirror: Path | None = None) -> Source:
        err = io.StringIO()
        settings = PipSettings(indexes=(f"{self._url}/simple",))
        fetcher = Fetcher(Store(self._cache / "sources"), mirror, settings)
        try:
            return fetch_source(requirement, Output(err=err), hashes=hashes, fetcher=fetcher)
        finally:
            self.said = err.getvalue()

    def refused(self, requirement: str, *hashes: str) -> Diagnostic:
        with pytest.raises(DriverError) as caught:
            self(requirement, *hashes)
        [diagnostic] = caught.value.diagnostics
        assert diagnostic.help
        return diagnostic


@pytest.fixture
def fetch(server: Server, tmp_path: Path) -> Fetching:
    return Fetching(server.url, tmp_path / "cache")


def test_an_archive_is_fetched_and_unpacked_once(server: Server, fetch: Fetching) -> None:
    files = files_of("1.0")
    server.offer("demo", files)
    source = fetch("demo==1.0")
    digest = hashlib.sha256(files["demo-1.0.tar.gz"]).hexdigest()
    assert source.requirement == f"demo==1.0 --hash=sha256:{digest}"
    assert (source.directory / "setup.py").read_bytes() == SETUP
    assert source.directory.name == "demo-1.0"
    before = len(server.asked)
    assert fetch(source.requirement) == source
    assert fetch("Demo == 1") == source
    assert len(server.asked) == before
    assert fetch.said == ""


def test_nothing_can_be_written_there(server: Server, fetch: Fetching) -> None:
    server.offer("demo", {"demo-1.0.tar.gz": tarred("demo-1.0", {"demo-1.0/a/b.cu": b"x"})})
    directory = fetch("demo==1.0").directory
    paths = [directory, *directory.rglob("*")]
    assert len(paths) == 4
    assert not any(stat.S_IMODE(path.stat().st_mode) & 0o222 for path in paths)


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(
    ("requirement", "version"),
    [
        ("demo", "1.10.0"),
        ("demo>=1.2", "1.10.0"),
        ("demo<1.10", "1.9"),
        ("demo>=2.0a1", "2.0rc1"),
        ("demo==2.0rc1", "2.0rc1"),
        ("demo==1.11", "1.11"),
        ("demo==1.1*", ""),
    ],
)
def test_the_newest_that_fits(server: Server, fetch: Fetching, requirement: str, version: str, as_json: bool) -> None:  # noqa: FBT001
    server.offer(
        "demo",
        files_of("1.9", "1.10.0", "1.11", "2.0rc1", "0.1"),
        as_json=as_json,
        yanked={"demo-1.11.tar.gz": "wrong results"},
    )
    if not version:
        assert fetch.refused(requirement).code is Code.USAGE
        return
    assert fetch(requirement).version == version
    warned = "demo 1.11 was withdrawn by its authors: wrong results" in fetch.said
    assert warned is (version == "1.11")


def test_pre_release_if_there_is_nothing_else(server: Server, fetch: Fetching) -> None:
    server.offer("demo", files_of("1.0b1", "1.0b2"))
    assert fetch("demo").version == "1.0b2"


def test_withdrawn_without_a_reason(server: Server, fetch: Fetching) -> None:
    for as_json in (False, True):
        server.offer("demo", files_of("1.0"), as_json=as_json, yanked={"demo-1.0.tar.gz": ""})
        refused = fetch.refused("demo>=1")
        assert refused.code is Code.NOT_FOUND_UPSTREAM
        assert refused.help == "demo==1.0 was withdrawn; it is built if it is named so"
    fetch("demo==1.0")
    assert "demo 1.0 was withdrawn by its authors\n" in fetch.said


def test_release_with_wheels_only(server: Server, fetch: Fetching) -> None:
    body = wheel({"demo/a": b"a"})
    server.offer("demo", {"demo-2.0-cp311-cp311-linux_x86_64.whl": body, "demo-2.0-py3-none-any.whl": body})
    for requirement in ("demo==2.0", "demo"):
        refused = fetch.refused(requirement)
        assert refused.message == "demo 2.0 has no source archive on the package index, only 2 wheels"
        assert refused.code is Code.NOT_FOUND_UPSTREAM
    server.offer("demo", {"demo-2.0-py3-none-any.whl": body, **files_of("1.0")})
    assert fetch("demo").version == "1.0"
    assert "demo 2.0 has no source archive; demo 1.0 is the newest that has" in fetch.said


def test_no_such_release(server: Server, fetch: Fetching) -> None:
    server.offer("demo", files_of("1.7.0", "1.6.2", "1.5.1"))
    refused = fetch.refused("demo==1.62")
    assert refused.message == "the package index has no release of `demo==1.62`"
    assert refused.help == "did you mean demo==1.6.2? the newest release is demo==1.7.0"
    assert fetch.refused("demo>2").help == "the newest release is demo==1.7.0"
    refused = fetch.refused("dem0==1.0")
    assert refused.code is Code.NOT_FOUND_UPSTREAM
    assert refused.message.startswith("the package index has no project `dem0`: ")


def test_replaced_archive_is_refused_until_it_is_demanded(server: Server, fetch: Fetching, tmp_path: Path) -> None:
    server.offer("demo", files_of("1.0"))
    before = fetch("demo==1.0")
    new = tarred("demo-1.0", {"demo-1.0/evil.cu": b""})
    server.offer("demo", {"demo-1.0.tar.gz": new})
    assert fetch("demo==1.0") == before
    digest = hashlib.sha256(new).hexdigest()
    for requirement in ("demo", "demo>=1", "demo==1.0"):
        refused = fetch.refused(requirement)
        assert refused.code is Code.BAD_DIGEST
        assert f"it has sha256:{digest}, and had sha256:{before.archive.sha256}" in refused.message
        Store(tmp_path / "cache" / "sources").path(before.archive).unlink(missing_ok=True)
    assert fetch("demo==1.0", f"sha256:{digest}").archive.sha256 == digest
    assert fetch("demo").archive.sha256 == digest


def test_archive_that_is_not_the_demanded_one(server: Server, fetch: Fetching) -> None:
    server.offer("demo", files_of("1.0"))
    for known in (False, True):
        refused = fetch.refused(f"demo==1.0 --hash=sha256:{'0' * 64}")
        assert refused.code is Code.BAD_DIGEST
        assert f"and sha256:{'0' * 64} is required" in refused.message
        if not known:
            fetch("demo==1.0")


def test_archive_of_other_bytes_than_the_index_says(server: Server, fetch: Fetching) -> None:
    server.offer("demo", files_of("1.0"))
    server.pages["/files/demo-1.0.tar.gz"].script = ["wrong"] * 9
    assert fetch.refused("demo==1.0").code is Code.BAD_DIGEST


def test_without_a_network(server: Server, fetch: Fetching) -> None:
    server.offer("demo", files_of("1.0", "1.1"))
    sources = [fetch("demo==1.0"), fetch("demo")]
    server.close()
    assert [fetch("demo==1.0"), fetch("demo")] == sources
    assert "demo 1.1 is used, which was fetched before" in fetch.said
    assert fetch("demo<1.1") == sources[0]
    for requirement in ("demo==1.2", "demo>=2", "other==1"):
        assert fetch.refused(requirement).code is Code.NO_NETWORK


def test_damaged_archive_of_the_store_is_fetched_again(server: Server, fetch: Fetching, tmp_path: Path) -> None:
    server.offer("demo", files_of("1.0"))
    source = fetch("demo==1.0")
    path = Store(tmp_path / "cache" / "sources").path(source.archive)
    content = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(bytes(len(content)))
    assert fetch("demo==1.0") == source
    assert path.read_bytes() == content


def test_index_without_digests(server: Server, fetch: Fetching) -> None:
    files = files_of("1.0")
    server.offer("demo", files, digest=False)
    source = fetch("demo==1.0")
    assert source.archive.sha256 == hashlib.sha256(files["demo-1.0.tar.gz"]).hexdigest()


def test_mirror_directory(server: Server, fetch: Fetching, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    for name, content in files_of("1.0").items():
        (mirror / name).write_bytes(content)
    server.close()
    assert fetch("demo==1.0", mirror=mirror).version == "1.0"
    assert fetch.said.count("\n") == 2
    assert fetch("demo", mirror=mirror).version == "1.0"
    assert "; demo 1.0 is the newest of the other indexes\n" in fetch.said


def test_zip_and_names_with_hyphens(server: Server, fetch: Fetching) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("my-demo-1.0/pyproject.toml", "")
    server.offer("my-demo", {"my-demo-1.0.zip": stream.getvalue(), **files_of("0.9", name="my_demo")})
    source = fetch("my.demo==1.0")
    assert (source.name, source.directory.name) == ("my-demo", "my-demo-1.0")
    assert fetch("my_demo<1").version == "0.9"


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"../escaped": b""}, Code.PATH_ESCAPES),
        ({"/escaped": b""}, Code.PATH_ESCAPES),
        ({"demo-1.0/link": link("../../escaped")}, Code.PATH_ESCAPES),
        ({"demo-1.0/link": link("/etc")}, Code.PATH_ESCAPES),
        ({"demo-1.0/link": link("."), "demo-1.0/link/file": b""}, Code.PATH_ESCAPES),
        ({"demo-1.0/large": bytes(3 << 20)}, Code.UNSUPPORTED),
        ({f"demo-1.0/{number}": b"" for number in range(600)}, Code.UNSUPPORTED),
    ],
    ids=["up", "absolute", "link-up", "link-absolute", "through-link", "large", "many"],
)
def test_unsafe_archive(  # noqa: PLR0913  (fixtures, and two parameters)
    server: Server,
    fetch: Fetching,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, bytes | tarfile.TarInfo],
    code: Code,
) -> None:
    monkeypatch.setattr(source_archive, "_MOST_BYTES", 2 << 20)
    server.offer("demo", {"demo-1.0.tar.gz": tarred("demo-1.0", files)})
    assert fetch.refused("demo==1.0").code is code
    assert not list((tmp_path / "cache" / "sources" / "unpacked").iterdir())
    assert not list(tmp_path.rglob("escaped"))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (gzip.compress(b"no tar", mtime=0), Code.BAD_DIGEST),
        (b"<html>", Code.BAD_DIGEST),
        (tarred("demo-1.0")[:-30], Code.BAD_DIGEST),
    ],
)
def test_damaged_archive(server: Server, fetch: Fetching, body: bytes, code: Code) -> None:
    server.offer("demo", {"demo-1.0.tar.gz": body})
    assert fetch.refused("demo==1.0").code is code


def test_archive_that_builds_nothing(server: Server, fetch: Fetching) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("demo-1.0/README"))
    server.offer("demo", {"demo-1.0.tar.gz": stream.getvalue()})
    refused = fetch.refused("demo==1.0")
    assert refused.code is Code.FILE_MISSING
    assert refused.message == "demo-1.0.tar.gz has neither a setup.py nor a pyproject.toml at its top"


def test_release_whose_setup_says_another_name_or_version(server: Server, fetch: Fetching) -> None:
    server.offer("my-demo", files_of("1.0", name="my_demo"))
    source = fetch("my-demo")
    check_metadata(source, "My.Demo", "1.0.0")
    for name, version in (("demo", "1.0"), ("my-demo", "1.0+cu130"), ("my-demo", "unknown")):
        with pytest.raises(DriverError) as caught:
            check_metadata(source, name, version)
        [diagnostic] = caught.value.diagnostics
        assert diagnostic.code is Code.BAD_VALUE
        assert diagnostic.message == f"my_demo-1.0.tar.gz is named my-demo 1.0, and its metadata says {name} {version}"


def test_links_within_stay(server: Server, fetch: Fetching) -> None:
    server.offer("demo", {"demo-1.0.tar.gz": tarred("demo-1.0", {"demo-1.0/a/link": link("../setup.py")})})
    path = fetch("demo==1.0").directory / "a" / "link"
    assert path.is_symlink()
    assert path.read_bytes() == SETUP


def test_archive_that_setuptools_makes(server: Server, fetch: Fetching, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "csrc").mkdir(parents=True)
    (project / "csrc" / "a.cu").write_text("// a\n")
    (project / "MANIFEST.in").write_text("recursive-include csrc *.cu\n")
    (project / "setup.py").write_text("from setuptools import setup\nsetup(name='My-Demo', version='1.0.post1')\n")
    program = "from setuptools import build_meta; print(build_meta.build_sdist('dist'))"
    done = subprocess.run([sys.executable, "-c", program], cwd=project, check=True, capture_output=True, text=True)
    name = done.stdout.split()[-1]
    server.offer("my-demo", {name: (project / "dist" / name).read_bytes()})
    source = fetch("my-demo==1.0.post1")
    assert (source.directory / "csrc" / "a.cu").read_text() == "// a\n"


def test_pip_accepts_what_names_the_archive(server: Server, fetch: Fetching, tmp_path: Path) -> None:
    setup = b"from setuptools import setup\nsetup(name='demo', version='1.0')\n"
    server.offer("demo", {"demo-1.0.tar.gz": tarred("demo-1.0", {"demo-1.0/setup.py": setup})})
    source = fetch("demo==1.0")
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(f"{source.requirement}\n")
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-build-isolation", f"--dest={tmp_path}"]
    pip += ["--index-url", f"{server.url}/simple", "--require-hashes", "--no-binary=:all:", "-r", str(requirements)]
    environ = {**os.environ, "PIP_CONFIG_FILE": os.devnull}
    done = subprocess.run(pip, capture_output=True, text=True, check=False, env=environ)
    assert re.search(r"Saved .*demo-1\.0\.tar\.gz", done.stdout), done.stdout + done.stderr
