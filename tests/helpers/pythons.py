"""Other Pythons than that of the tests, and torch for them: for tests/e2e/pythons_test.py."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.fetch.apt import Apt
from py_driver.output import Output
from py_driver.system.cache import cache_root

if TYPE_CHECKING:
    from collections.abc import Mapping

_SYSTEM = ("base-", "debconf", "debianutils", "dpkg", "mawk", "media-types", "perl-base", "tar")
"""Packages of a minimal machine that Python does not need."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interpreter:
    """A Python interpreter.

    Attributes:
        command: the command that starts it.
        uv: its name in uv.
        environ: the environment variables that it needs.
    """

    command: tuple[str, ...]
    uv: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)

    def run(self, *words: str, paths: tuple[Path, ...]) -> subprocess.CompletedProcess[str]:
        """Run it with the given directories on its import path."""
        environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
            **self.environ,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
        }
        command = [*self.command, *words]
        return subprocess.run(command, env=environ, cwd="/", capture_output=True, text=True, check=False)


class _Sources(Apt):
    """Debian's source packages."""

    def fetch(self, package: str, into: Path) -> None:
        """Fetch the files of a source package from the archive that `update` chose."""
        self._sources.write_text(self._sources.read_text().replace("deb ", "deb-src ", 1))
        self._read(self._private("-q", "update"))
        subprocess.run(self._private("-q", "source", "--download-only", package), cwd=into, check=True)


def debian_python(version: str, suite: str, to: Path) -> Interpreter:
    """A Python of a Debian suite, with the C++ library of this machine.

    A Python of a newer suite than this machine's uses its own C library, one of an older suite the machine's.

    Args:
        version: as `3.14`.
        suite: the Debian suite.
        to: the directory to install it in.
    """
    apt, root, debs = Apt(to / f"apt-{suite}"), to / version, to / f"{version}-debs"
    apt.update(suite, ["main"])
    wanted = {name: v for name, v in apt.closure(f"python{version}").items() if not name.startswith(_SYSTEM)}
    debs.mkdir()
    with Output().task(f"python{version}") as task:
        apt.download(wanted, debs, task)
    for package in debs.iterdir():
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    libraries = root / "usr" / "lib" / "x86_64-linux-gnu"
    shutil.copy("/usr/lib/x86_64-linux-gnu/libstdc++.so.6", libraries)
    loader = libraries / "ld-linux-x86-64.so.2"  # suites before trixie have it in /lib
    own = (str(loader), "--library-path", str(libraries)) if loader.is_file() else ()
    return Interpreter(
        command=(*own, str(root / "usr" / "bin" / f"python{version}")),
        uv=("--python-version", version, "--python-platform", "x86_64-manylinux_2_28"),
        environ={"PYTHONHOME": str(root / "usr"), **({} if own else {"LD_LIBRARY_PATH": str(libraries)})},
    )


def free_threaded_python(version: str, suite: str, to: Path) -> Interpreter:
    """A free-threaded Python, compiled with the machine's C compiler from a Debian suite's source package.

    It stays in the cache: on two idle cores the compile takes minutes.

    Args:
        version: as `3.13`.
        suite: the Debian suite.
        to: a directory for temporary files.
    """
    prefix = cache_root() / "tools" / f"python-{version}t-{suite}"
    program = str(prefix / "bin" / f"python{version}t")
    interpreter = Interpreter(command=(program,), uv=("--python", program))
    if Path(program).is_file():
        return interpreter
    sources = to / f"{version}t"
    sources.mkdir()
    apt = _Sources(to / f"apt-{suite}-sources")
    apt.update(suite, ["main"])
    apt.fetch(f"python{version}", sources)
    [archive] = [path for path in sources.glob("*.orig.tar.*") if path.suffix != ".asc"]
    subprocess.run(["tar", "-xf", archive, "--strip-components=1"], cwd=sources, check=True)
    options = ["--disable-gil", "--without-ensurepip", "--disable-test-modules", "CFLAGS=-O1"]
    for command in (["./configure", f"--prefix={prefix}", *options], ["make", "-j2"], ["make", "install"]):
        with (to / f"{command[0].removeprefix('./')}.log").open("wb") as log:
            subprocess.run(command, cwd=sources, check=True, stdout=log, stderr=log)
    shutil.rmtree(sources)
    return interpreter


def installed(python: Interpreter, to: Path, *requirements: str) -> subprocess.CompletedProcess[str]:
    """Install packages of the index and their requirements for a Python with uv, only from wheels.

    Args:
        python: the interpreter.
        to: the directory to install them in.
        requirements: requirements as for pip.
    """
    uv = Path(sys.executable).with_name("uv")
    command = [
        str(uv),
        "pip",
        "install",
        "--quiet",
        "--only-binary=:all:",
        "--target",
        str(to),
        *python.uv,
        *requirements,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)
