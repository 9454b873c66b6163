"""The name and version of each locked torch release's OpenMP runtime: toolchains/lock/torch_openmp.json.

By version of torch, for another CPU `2.13 aarch64`, it has the wheel's SHA-256, the file in the wheel, its SONAME, and
the newest version of each family of its symbols. The repository rules of gcc make the stubs from it that extensions
with OpenMP are linked with.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py_driver.errors import Code, error
from py_driver.fetch.entry import parse_entry
from py_driver.fetch.fetcher import Fetcher
from py_driver.fetch.store import Store
from py_driver.fetch.unpacking import unpack
from py_driver.matrix.configurations import USUAL_CPU
from py_driver.matrix.torch_symbols import soname, versions
from py_driver.system.cache import cache_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from py_driver.fetch.entry import Entry

RUNTIME: Final = "libgomp.so.1"
"""The families of symbols that an extension with OpenMP needs."""

_PLACES: Final = ("torch/lib/libgomp", "torch.libs/libgomp")
_FAMILIES: Final = ("GOMP", "OMP")


def read_file(path: Path) -> dict[str, Any]:
    """The records, by version of torch; empty if the file is missing or damaged."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def key_of(version: str, cpu: str | None) -> str:
    """The key of the runtime of a torch release for a CPU."""
    return version if cpu in {None, USUAL_CPU} else f"{version} {cpu}"


def _wheels(lock: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The wheels in the torch part of a lock, by the key of their record."""
    return {
        key_of(version, cpu): wheel
        for version, part in lock.items()
        for cpu, wheel in [(None, part["archive"]), *part.get("cross", {}).items()]
    }


def is_current(recorded: Mapping[str, Any], lock: Mapping[str, Any]) -> bool:
    """Whether the records are of exactly the wheels in the torch part of a lock."""
    wheels = {key: wheel.get("sha256") for key, wheel in _wheels(lock).items()}
    return wheels == {version: wheel["sha256"] for version, wheel in recorded.items()}


def update(recorded: Mapping[str, Any], lock: Mapping[str, Any], report: Callable[[str], None]) -> bytes:
    """The content of the file for a lock: existing records are kept, other wheels' libraries are fetched.

    Args:
        recorded: the result of `read_file`.
        lock: the torch part of the lock.
        report: gets progress messages.

    Raises:
        DriverError: see `Fetcher.fetch` and `unpack`; BAD_DIGEST if a wheel does not have exactly one such library.
    """
    found = {}
    for key, wheel in _wheels(lock).items():
        entry = parse_entry(wheel)
        found[key] = recorded.get(key, {})
        if found[key].get("sha256") != entry.sha256:
            report(f"torch {key}")
            found[key] = {"sha256": entry.sha256, **_read(entry)}
    return (json.dumps(found, indent=2) + "\n").encode()


def _read(entry: Entry) -> dict[str, Any]:
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root) as work:
        part = replace(entry, include=_PLACES, exclude=())
        tree = Path(work) / "tree"
        unpack(Fetcher(Store(Path(work) / "store")).fetch(part).path, part, tree)
        libraries = sorted(path for path in tree.rglob("libgomp*") if path.is_file())
        if len(libraries) != 1:
            raise error(
                Code.BAD_DIGEST, f"{entry.basename} has no {_PLACES[0]}*, or several", help="lock another wheel"
            )
        name, defined = soname(libraries[0]), versions(libraries[0])
        return {"file": libraries[0].relative_to(tree).as_posix(), "soname": name, "newest": _newest(defined)}


def _newest(names: Iterable[str]) -> dict[str, str]:
    """The newest version of each family."""
    numbers: dict[str, list[tuple[int, ...]]] = {family: [] for family in _FAMILIES}
    for name in names:
        family, _, number = name.partition("_")
        if family in numbers and number[:1].isdigit():
            numbers[family].append(tuple(map(int, number.split("."))))
    return {family: ".".join(map(str, max(found))) for family, found in numbers.items()}
