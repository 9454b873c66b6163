"""Pythons other than the one that runs the tests, and torch for them: what tests/e2e/pythons_test.py tries."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.fetch.apt import Apt
from py_driver.output import Output
from py_driver.system.cache import cache_root

if TYPE_CHECKING:
    from collections.abc import Mapping

_SYSTEM = ("base-", "debconf", "debianutils", "dpkg", "mawk", "media-types", "perl-base", "tar")
"""Packages of an empty machine that no Python needs."""

_UNREAD = ("/include/", "/test/")
_UNREAD_ENDS = (".a", ".bc")
_UNREAD_LIBRARIES = ("libcudnn_", "libnvrtc-builtins.alt", "libnvrtc.alt")
"""Parts of wheels that no import reads, and their gigabytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interpreter:
    """A Python.

    Attributes:
        command: what starts it.
        environ: variables that it needs.
    """

    command: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)

    def run(self, *words: str, paths: tuple[Path, ...]) -> subprocess.CompletedProcess[str]:
        """Run it with directories to import from."""
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
        """Fetch the files of a source package; `update` has chosen the archive."""
        self._sources.write_text(self._sources.read_text().replace("deb ", "deb-src ", 1))
        self._read(self._private("-q", "update"))
        subprocess.run(self._private("-q", "source", "--download-only", package), cwd=into, check=True)


def debian_python(version: str, suite: str, to: Path) -> Interpreter:
    """A Python of a Debian suite with its own C library, beside the C++ library of this machine.

    Args:
        version: as `3.14`.
        suite: that has it.
        to: a directory for it.
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
    loader = (str(libraries / "ld-linux-x86-64.so.2"), "--library-path", str(libraries))
    return Interpreter(
        command=(*loader, str(root / "usr" / "bin" / f"python{version}")), environ={"PYTHONHOME": str(root / "usr")}
    )


def free_threaded_python(version: str, suite: str, to: Path) -> Interpreter:
    """A free-threaded Python, compiled of the source package of a Debian suite with the machine's C compiler.

    It stays in the cache: on two cores with nothing else to do the compile takes minutes.

    Args:
        version: as `3.13`.
        suite: that has it.
        to: a directory for what is temporary.
    """
    prefix = cache_root() / "tools" / f"python-{version}t-{suite}"
    interpreter = Interpreter(command=(str(prefix / "bin" / f"python{version}t"),))
    if Path(interpreter.command[0]).is_file():
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


def installed(version: str, to: Path, *requirements: str) -> Path:
    """Packages of the index and all that they need, unpacked for a Python; torch imports, and uses no GPU.

    Args:
        version: of Python, as `3.13t`.
        to: a directory for them.
        requirements: as pip understands them.

    Raises:
        subprocess.CalledProcessError: the index has no wheels for that Python.
    """
    site, wheels = to / f"site-{version}", to / f"wheels-{version}"
    abis = ["abi3"] if not version.endswith("t") else []
    abis = [word for abi in (f"cp{version.replace('.', '')}", *abis, "none") for word in ("--abi", abi)]
    glibcs = ("2_28", "2_27", "2_25", "2_18", "2_17", "2_12", "2_5")
    platforms = [word for glibc in glibcs for word in ("--platform", f"manylinux_{glibc}_x86_64")]
    options = ["--only-binary=:all:", "--implementation=cp", "--python-version", version.removesuffix("t"), *abis]
    pip = [sys.executable, "-m", "pip", "--quiet", "download", *options, *platforms, "--dest", str(wheels)]
    subprocess.run([*pip, *requirements], check=True, capture_output=True, text=True)
    for wheel in wheels.iterdir():
        _unpack(wheel, site)
        wheel.unlink()
    return site


def _unpack(wheel: Path, to: Path) -> None:
    """Unpack a wheel, without what no import reads."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            is_unread = any(part in name for part in _UNREAD) or name.endswith(_UNREAD_ENDS)
            if not is_unread and not name.rpartition("/")[2].startswith(_UNREAD_LIBRARIES):
                archive.extract(name, to)
