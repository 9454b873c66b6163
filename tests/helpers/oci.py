"""A real OCI registry on the loopback interface, and its clients: programs that may be on PATH."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAMS = "RULES_TORCH_KERNELS_TEST_PROGRAMS"
"""The variable with a directory of further programs for tests, besides those on PATH."""

_SETTINGS = """\
version: 0.1
storage: {{filesystem: {{rootdirectory: {root}}}}}
http: {{addr: "127.0.0.1:{port}"}}
log: {{level: error, accesslog: {{disabled: true}}}}
{more}
"""
_PASSWORDS = 'auth: {{htpasswd: {{realm: here, path: "{file}"}}}}'
PASSWORDS = "ann:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n"
"""A password file (bcrypt, by crypt(3)): ann's password is `secret`."""


def program(name: str) -> str:
    """The path of a program; if it is missing, the test is skipped."""
    places = os.pathsep.join(filter(None, [os.environ.get(PROGRAMS), os.environ["PATH"]]))
    path = shutil.which(name, path=places)
    if path is None:
        pytest.skip(f"{name} is neither on PATH nor in ${PROGRAMS}: it is a package of Debian")
    return path


@contextmanager
def registry(place: Path, passwords: str = "", more: str = "") -> Iterator[str]:
    """The `HOST:PORT` of a docker-registry that runs until the end of the context.

    Args:
        place: a directory for its data.
        passwords: lines of an htpasswd file; none if everybody may write to the registry.
        more: further settings of the registry.
    """
    path = program("docker-registry")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    if passwords:
        (place / "htpasswd").write_text(passwords)
        more = _PASSWORDS.format(file=place / "htpasswd")
    (place / "registry.yml").write_text(_SETTINGS.format(root=place / "registry", port=port, more=more))
    with subprocess.Popen([path, "serve", str(place / "registry.yml")], stderr=subprocess.DEVNULL) as process:
        try:
            _wait(port)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()


def _wait(port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            assert time.monotonic() < deadline, "docker-registry does not answer"
            time.sleep(0.1)
