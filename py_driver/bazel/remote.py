"""Remote caches and executors: their settings, and Bazel's options for them, without secrets on its command line."""

from __future__ import annotations

import json
import os
import re
import shlex
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import tomli

from py_driver.bazel.relay import relay
from py_driver.errors import Code, error
from py_driver.spelling import did_you_mean, near_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SCHEMES: Final = {"cache": ("grpc", "grpcs", "http", "https"), "executor": ("grpc", "grpcs")}
_KEYS: Final = ("cache", "executor", "instance-name", "credential-helper", "headers-file", "exec-properties")
REMOTE_JOBS: Final = 100
"""The number of actions for an executor at once, as in `--config=remote-exec` of .bazelrc."""

_RETRIES: Final = 10
"""The number of Bazel's retries with an executor: for half a minute, in which it may restart. As in .bazelrc."""

SOCKET_LENGTH: Final = 107
"""The maximum length of a Unix socket's path in bytes: `sun_path` of Linux is 108, with the zero at its end."""

_UNIX: Final = "unix:"
_PROPERTY: Final = re.compile(r"[^=\s]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Remote:
    """The remote cache and executor.

    Attributes:
        cache: address of a cache, or empty.
        executor: address of an executor, or empty; it is the cache too, unless `cache` names another.
        instance: name of an instance on the servers.
        helper: a program after Bazel's protocol for credential helpers, or None.
        headers: a file with headers, one `Name: value` on each line, for all requests, or None.
        properties: the properties of the machine on which an executor runs actions, e.g. `container-image`.
    """

    cache: str = ""
    executor: str = ""
    instance: str = ""
    helper: Path | None = None
    headers: Path | None = None
    properties: tuple[tuple[str, str], ...] = ()

    @property
    def is_used(self) -> bool:
        """Whether another machine is used."""
        return bool(self.cache or self.executor)


def config_file(environ: Mapping[str, str] | None = None) -> Path:
    """The user's configuration: `rules_torch_kernels/config.toml` in $XDG_CONFIG_HOME, or in ~/.config."""
    environ = os.environ if environ is None else environ
    base = environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base, "rules_torch_kernels", "config.toml")


def remote_of(cache: str | None, executor: str | None, file: Path | None = None) -> Remote:
    """The remote settings of a build: the user's configuration, overridden by the command line.

    Args:
        cache: the cache of the command line; empty for none, None for the configuration's.
        executor: the executor of the command line; empty for none, None for the configuration's.
        file: the configuration (default: `config_file`).

    Raises:
        DriverError: USAGE or BAD_VALUE for an invalid address, or an address with a password; the errors of the
            configuration (TOML_SYNTAX, UNKNOWN_KEY, WRONG_TYPE, FILE_MISSING).
    """
    found = _read(config_file() if file is None else file)
    if cache is not None:
        found = replace(found, cache=_address("cache", cache, "--remote-cache", Code.USAGE))
    if executor is not None:
        found = replace(found, executor=_address("executor", executor, "--remote-executor", Code.USAGE))
    return found


def _address(kind: str, text: str, origin: str, code: Code) -> str:
    """An address, checked; may be empty."""
    if not text:
        return ""
    if text.startswith(_UNIX):
        return _socket(text, origin, code)
    try:
        parts = urlsplit(text)
        secret = parts.username is not None or parts.query or parts.fragment
        is_complete = parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError as wrong:
        raise error(code, f"{origin}: invalid address: {wrong}") from None
    if parts.scheme not in _SCHEMES[kind] or not is_complete or not text.isprintable() or " " in text:
        forms = ", ".join(f"{scheme}://" for scheme in _SCHEMES[kind])
        advice = f"e.g. grpc://127.0.0.1:8980; schemes: {forms}, {_UNIX}"
        shown = re.split("[?#]", text.rpartition("@")[2])[0]
        raise error(code, f"{origin}: `{shown}` is not an address of a remote {kind}", help=advice)
    if secret:
        advice = "name a file with headers, or a credential helper, in the configuration: see docs/remote.md"
        raise error(code, f"{origin}: an address must not contain a user, password or token", help=advice)
    return text


def _socket(text: str, origin: str, code: Code) -> str:
    """The address of a Unix socket, checked."""
    path = text.removeprefix(_UNIX)
    if not path.startswith("/") or not path.isprintable():
        raise error(code, f"{origin}: not the absolute path of a socket", help=f"e.g. {_UNIX}/run/cache/socket")
    if len(os.fsencode(path)) > SOCKET_LENGTH:
        message = f"{origin}: the path of a socket may have at most {SOCKET_LENGTH} bytes"
        raise error(code, message, help="make a symbolic link to its directory, and name the socket through that")
    return text


@contextmanager
def reachable(remote: Remote) -> Iterator[Remote]:
    """The settings with addresses that every Bazel can reach within this context: Unix sockets are relayed.

    Raises:
        OSError: no port is free.
    """
    with ExitStack() as stack:
        found = {}
        for text in {remote.cache, remote.executor}:
            relayed = text.startswith(_UNIX)
            port = stack.enter_context(relay(text.removeprefix(_UNIX))) if relayed else 0
            found[text] = f"grpc://127.0.0.1:{port}" if relayed else text
        yield replace(remote, cache=found[remote.cache], executor=found[remote.executor])


def _read(file: Path) -> Remote:
    """The table `[remote]` of the configuration; empty if the file does not exist."""
    try:
        table: Any = tomli.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Remote()
    except OSError as wrong:
        raise error(Code.FILE_MISSING, f"cannot read {file}: {wrong.strerror}") from None
    except (ValueError, RecursionError) as wrong:
        raise error(Code.TOML_SYNTAX, f"{file}: {wrong}") from None
    for name in table.keys() - {"remote"}:
        raise error(Code.UNKNOWN_KEY, f"{file}: unknown table `{name}`", help="the only table is [remote]")
    remote = table.get("remote", {})
    if not isinstance(remote, dict):
        raise error(Code.WRONG_TYPE, f"{file}: `remote` must be a table: [remote]")
    _check_keys(remote, file)
    files = {name: _file(remote[name], file, name) for name in ("credential-helper", "headers-file") if name in remote}
    if len(files) > 1:
        raise error(Code.BAD_VALUE, f"{file}: [remote] has both `credential-helper` and `headers-file`; choose one")
    if headers := files.get("headers-file"):
        read_headers(headers)
    return Remote(
        cache=_address("cache", remote.get("cache", ""), f"{file}: [remote] `cache`", Code.BAD_VALUE),
        executor=_address("executor", remote.get("executor", ""), f"{file}: [remote] `executor`", Code.BAD_VALUE),
        instance=remote.get("instance-name", ""),
        helper=files.get("credential-helper"),
        headers=files.get("headers-file"),
        properties=tuple(sorted(remote.get("exec-properties", {}).items())),
    )


def _check_keys(remote: Mapping[str, Any], file: Path) -> None:
    for name, value in remote.items():
        if name not in _KEYS:
            advice = did_you_mean(name, _KEYS) or f"the keys are {', '.join(_KEYS)}"
            raise error(Code.UNKNOWN_KEY, f"{file}: [remote]: unknown key `{name}`", help=advice)
        if name == "exec-properties":
            if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
                raise error(Code.WRONG_TYPE, f"{file}: [remote] `{name}` must be a table of strings")
            if wrong := [key for key in value if not _PROPERTY.fullmatch(key)]:
                raise error(Code.BAD_VALUE, f"{file}: [remote] `{name}`: `{wrong[0]}` is not the name of a property")
        elif not isinstance(value, str):
            raise error(Code.WRONG_TYPE, f"{file}: [remote] `{name}` must be a string")


def _file(text: str, config: Path, name: str) -> Path:
    path = config.parent / Path(text).expanduser()
    if not path.is_file():
        raise error(Code.FILE_MISSING, f"{config}: [remote] `{name}`: there is no file {path}", help=near_path(path))
    return path


def read_headers(path: Path) -> dict[str, list[str]]:
    """The headers in a file: `Name: value`, one on each line; empty lines and comments with `#` are ignored.

    Raises:
        DriverError: FILE_MISSING; BAD_VALUE for a malformed line, which is not shown, since it may be secret;
            PERMISSION if others than the owner may read the file.
    """
    found: dict[str, list[str]] = {}
    try:
        if path.stat().st_mode & 0o077:
            advice = f"chmod 600 {shlex.quote(str(path))}"
            raise error(Code.PERMISSION, f"{path} holds credentials, and other users may read it", help=advice)
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError as wrong:
        raise error(Code.FILE_MISSING, f"cannot read {path}: {wrong.strerror}", help=near_path(path)) from None
    except UnicodeDecodeError:
        raise error(Code.BAD_VALUE, f"{path}: headers must be ASCII") from None
    for number, line in enumerate(lines, 1):
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not line.strip() or line.startswith("#"):
            continue
        if not colon or not value or not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            raise error(Code.BAD_VALUE, f"{path}:{number}: not of the form `Name: value`")
        found.setdefault(name, []).append(value)
    return found


def bazel_options(remote: Remote, scratch: Path) -> list[str]:
    """Bazel's options for the remote settings, without secrets.

    Args:
        remote: the settings.
        scratch: a directory that exists as long as Bazel runs, and that only this user can write to.

    Raises:
        DriverError: the file with headers has become invalid, see `read_headers`.
    """
    options = [f"--remote_cache={remote.cache}"] if remote.cache else []
    if remote.executor:
        options += [
            f"--remote_executor={remote.executor}",
            "--strategy=ZigBuild=remote",
            f"--remote_retries={_RETRIES}",
        ]
    options += [f"--remote_instance_name={remote.instance}"] if remote.instance else []
    options += [f"--remote_default_exec_properties={name}={value}" for name, value in remote.properties]
    helper = remote.helper
    if remote.headers:
        answer, helper = scratch / "headers.json", scratch / "credentials"
        answer.touch(0o600)
        answer.write_text(json.dumps({"headers": read_headers(remote.headers)}), encoding="ascii")
        helper.touch(0o700)
        helper.write_text(f"#!/bin/sh\nexec cat {shlex.quote(str(answer))}\n", encoding="utf-8")
    options += [f"--credential_helper={helper}"] if helper else []
    return options
