"""What a build uses besides this machine: addresses, the configuration, and credentials that nobody sees."""

from __future__ import annotations

import json
import re
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from py_driver import __main__
from py_driver.bazel.remote import Remote, bazel_options, config_file, reachable, read_headers, remote_of
from py_driver.errors import Code, DriverError

CANARY = "s3cret-t0ken"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    headers = tmp_path / "headers"
    headers.touch(0o600)
    headers.write_text(f"# for the cache\n\nAuthorization: Bearer {CANARY}\nx-team: a\nx-team: b\n", encoding="ascii")
    return tmp_path / "config.toml"


def _failure(file: Path) -> DriverError:
    with pytest.raises(DriverError) as caught:
        remote_of(None, None, file)
    return caught.value


def test_nothing_is_used_by_default(tmp_path: Path) -> None:
    remote = remote_of(None, None, tmp_path / "config.toml")
    assert remote == Remote()
    assert bazel_options(remote, tmp_path) == []


def test_the_configuration_and_what_comes_before_it(config: Path) -> None:
    config.write_text(
        '[remote]\ncache = "grpcs://cache.example:9092"\nexecutor = "unix:///run/executor"\ninstance-name = "kernels"\n'
        '[remote.exec-properties]\nPool = "large"\nOSFamily = "linux"\n'
    )
    assert bazel_options(remote_of(None, None, config), config.parent) == [
        "--remote_cache=grpcs://cache.example:9092",
        "--remote_executor=unix:///run/executor",
        "--strategy=ZigBuild=remote",
        "--remote_retries=10",
        "--remote_instance_name=kernels",
        "--remote_default_exec_properties=OSFamily=linux",
        "--remote_default_exec_properties=Pool=large",
    ]
    assert remote_of("http://[::1]:80/x", "", config).cache == "http://[::1]:80/x"
    assert remote_of("", "", config) == Remote(
        instance="kernels", properties=(("OSFamily", "linux"), ("Pool", "large"))
    )


def test_headers_reach_bazel_and_nobody_else(config: Path) -> None:
    config.write_text('[remote]\ncache = "grpc://cache.example"\nheaders-file = "headers"\n')
    scratch = config.parent / "scratch"
    scratch.mkdir(mode=0o700)
    options = bazel_options(remote_of(None, None, config), scratch)
    assert CANARY not in " ".join(options)
    [helper] = [Path(option.partition("=")[2]) for option in options if option.startswith("--credential_helper=")]
    said = subprocess.run([helper, "get"], input='{"uri": "x"}', capture_output=True, text=True, check=True).stdout
    assert json.loads(said) == {"headers": {"Authorization": [f"Bearer {CANARY}"], "x-team": ["a", "b"]}}
    for path in scratch.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_a_helper_of_ones_own(config: Path) -> None:
    (config.parent / "helper").touch()
    config.write_text('[remote]\ncache = "grpc://cache.example"\ncredential-helper = "helper"\n')
    [helper] = bazel_options(remote_of(None, None, config), config.parent)[1:]
    assert helper == f"--credential_helper={config.parent / 'helper'}"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[remote", Code.TOML_SYNTAX),
        ("[remotes]\n", Code.UNKNOWN_KEY),
        ("remote = 1\n", Code.WRONG_TYPE),
        ("[remote]\ncahce = ''\n", Code.UNKNOWN_KEY),
        ("[remote]\ncache = 1\n", Code.WRONG_TYPE),
        ("[remote]\ncache = 'cache.example'\n", Code.BAD_VALUE),
        ("[remote]\nexecutor = 'http://cache.example'\n", Code.BAD_VALUE),
        ("[remote]\nexec-properties = 1\n", Code.WRONG_TYPE),
        ("[remote]\nexec-properties = {a = 1}\n", Code.WRONG_TYPE),
        ("[remote]\nexec-properties = {'a=b' = 'c'}\n", Code.BAD_VALUE),
        ("[remote]\nheaders-file = 'nowhere'\n", Code.FILE_MISSING),
        ("[remote]\nheaders-file = 'headers'\ncredential-helper = 'headers'\n", Code.BAD_VALUE),
    ],
)
def test_what_is_wrong_with_the_configuration(config: Path, text: str, code: Code) -> None:
    config.write_text(text)
    [found] = _failure(config).diagnostics
    assert found.code is code
    assert str(config) in found.message


@pytest.mark.parametrize(
    "address",
    [
        *(
            "cache.example",
            "grpc://",
            "ftp://x",
            "grpc://a b",
            "grpc://x:0",
            "grpc://x:99999",
            "grpc://x\n",
            "file:///x",
        ),
        *("unix:socket", "unix:", "unix:/a\nb"),
    ],
)
def test_what_is_no_address(address: str, tmp_path: Path) -> None:
    with pytest.raises(DriverError) as caught:
        remote_of(address, None, tmp_path / "config.toml")
    assert caught.value.diagnostics[0].code is Code.USAGE


def test_the_path_of_a_socket_has_a_limit(tmp_path: Path) -> None:
    """Spaces and what would be a query elsewhere are parts of the path."""
    whole = f"unix:/{'a b?#' * 21}x"
    assert remote_of(whole, whole, tmp_path / "config.toml") == Remote(cache=whole, executor=whole)
    with pytest.raises(DriverError, match="--remote-executor: the path of a socket may have at most 107 bytes"):
        remote_of("", f"{whole}x", tmp_path / "config.toml")
    with socket.socket(socket.AF_UNIX) as probe, pytest.raises(FileNotFoundError):
        probe.connect(whole.removeprefix("unix:"))


def test_sockets_are_reached_over_tcp(tmp_path: Path) -> None:
    one, other = (f"unix:{tmp_path / name}" for name in ("one", "other"))
    with reachable(Remote(cache=one, executor=one, instance="kernels")) as remote:
        assert remote.cache == remote.executor
        assert re.fullmatch(r"grpc://127\.0\.0\.1:\d+", remote.cache)
        assert remote.instance == "kernels"
    with reachable(Remote(cache=one, executor=other)) as remote:
        assert remote.cache != remote.executor
    for remote in (Remote(), Remote(cache="grpc://cache.example", executor="grpcs://x")):
        with reachable(remote) as same:
            assert same == remote


@pytest.mark.parametrize(
    "address", [f"https://me:{CANARY}@x", f"https://{CANARY}@x", f"https://x/?token={CANARY}", f"grpc://x#{CANARY}"]
)
def test_a_secret_in_an_address_is_refused_and_not_repeated(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert __main__.main(["build", str(tmp_path), f"--remote-cache={address}"]) == 2
    captured = capsys.readouterr()
    assert "an address must not contain a user, password or token" in captured.err
    assert CANARY not in captured.err + captured.out


@pytest.mark.parametrize("line", [CANARY, f"{CANARY}:", f"a b: {CANARY}", f": {CANARY}", f"Authorization {CANARY}"])
def test_a_line_that_is_no_header_is_not_shown(config: Path, line: str) -> None:
    headers = config.parent / "headers"
    headers.write_text(f"x: y\n{line}\n", encoding="ascii")
    with pytest.raises(DriverError, match=r"headers:2: not of the form `Name: value`") as caught:
        read_headers(headers)
    assert CANARY not in str(caught.value)


def test_headers_that_others_may_read(config: Path) -> None:
    headers = config.parent / "headers"
    headers.chmod(0o640)
    config.write_text('[remote]\nheaders-file = "headers"\n')
    [found] = _failure(config).diagnostics
    assert found.code is Code.PERMISSION
    assert found.help == f"chmod 600 {headers}"


def test_where_the_configuration_is() -> None:
    assert config_file({"XDG_CONFIG_HOME": "/etc/x"}) == Path("/etc/x/rules_torch_kernels/config.toml")
    assert config_file({}) == Path.home() / ".config" / "rules_torch_kernels" / "config.toml"
