"""The contents of the user's package indexes for a project: versions, their Pythons, and members of wheels."""

from __future__ import annotations

import re
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.errors import Code, error
from py_driver.fetch.fetcher import Fetcher
from py_driver.fetch.pip_settings import read_pip_settings
from py_driver.fetch.resolution import WHEEL, resolve, resolve_members
from py_driver.fetch.store import Store
from py_driver.fetch.transfer import Meter, OriginError
from py_driver.fetch.unpacking import unpack
from py_driver.system.cache import cache_root

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NUMBERS: Final = re.compile(r"\d+(\.\d+)*(\.post\d+)?")
"""A version that is neither a pre-release nor a local build."""


def order(version: str) -> tuple[int, ...]:
    """The sort key of versions such as `12.4.127.post1`."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


class Offers:
    """The contents of indexes; each page is fetched once. May be shared by threads."""

    def __init__(self) -> None:
        self._settings = read_pip_settings()
        self._fetcher = Fetcher(settings=self._settings)

    def _wheels(self, project: str, cpu: str) -> list[re.Match[str]]:
        """The file names of a project's wheels for Linux on a CPU."""
        failures: list[OriginError] = []
        found = [
            match
            for link in self._fetcher.index.links(project, Meter(), failures)
            if (match := WHEEL.fullmatch(link.filename))
            and re.search(rf"(^|\.)(any|\w*linux\w*_{cpu})\b", match["platform"])
        ]
        if not found and failures:
            reasons = "; ".join(failure.reason for failure in failures)
            raise error(failures[-1].code, f"cannot look up {project}: {reasons}")
        return found

    def versions(self, project: str, prefix: str, cpu: str = "x86_64") -> list[str]:
        """The releases of a project with wheels for Linux, ascending.

        Args:
            project: its name.
            prefix: the first components of the version: `13.1` matches `13.1.80`, and not `13.10.2`.
            cpu: the CPU of the wheels.

        Raises:
            DriverError: NO_NETWORK or NOT_FOUND_UPSTREAM if no index could be read.
        """
        versions = {match["version"] for match in self._wheels(project, cpu)}
        known = {version for version in versions if _NUMBERS.fullmatch(version)}
        return sorted((version for version in known if f"{version}.".startswith(f"{prefix}.")), key=order)

    def pythons(self, project: str, version: str) -> list[str]:
        """The Pythons of a release's wheels, ascending: `3.13`, `3.13t` for a free-threaded one.

        Raises:
            DriverError: see `versions`.
        """
        tags = [match for match in self._wheels(project, "x86_64") if match["version"] == version]
        found = {
            f"{number[1]}.{number[2]}{'t' * match['abi'].endswith('t')}"
            for match in tags
            if (number := re.fullmatch(r"cp(3)(\d+)", match["python"]))
        }
        return sorted(found, key=lambda python: (order(python), python))

    @contextmanager
    def members(
        self, project: str, version: str, include: Sequence[str] = (), *, python_tag: str = "py3"
    ) -> Iterator[Path]:
        """A temporary directory with members of a wheel for x86_64, verified by its RECORD.

        Args:
            project: its name.
            version: the release.
            include: prefixes of the members; empty for the complete wheel.
            python_tag: the Python tag of the wheel.

        Raises:
            DriverError: see `resolve`, `resolve_members`, `Fetcher.fetch` and `unpack`.
        """
        entry = resolve(self._fetcher, project, version, python_tag=python_tag)
        if include:
            entry = resolve_members(self._fetcher, entry, include)
        root = cache_root()
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root) as work:
            tree = Path(work) / "tree"
            unpack(Fetcher(Store(Path(work) / "store"), settings=self._settings).fetch(entry).path, entry, tree)
            yield tree

    def requirements(self, project: str, version: str, *, python_tag: str = "py3") -> list[str]:
        """The lines `Requires-Dist` of a wheel's metadata.

        Raises:
            DriverError: see `members`; BAD_DIGEST if it has no metadata.
        """
        stem = project.replace("-", "_")
        with self.members(project, version, [f"{stem}-{version}.dist-info/"], python_tag=python_tag) as tree:
            for path in tree.glob("*.dist-info/METADATA"):
                return re.findall(r"^Requires-Dist: *(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        raise error(Code.BAD_DIGEST, f"the wheel of {project} {version} has no METADATA")
