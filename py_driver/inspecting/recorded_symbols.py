"""The symbols and libraries of the releases of torch, CUDA and Python, as recorded in toolchains/lock."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import tomli

from py_driver.inspecting.library_needs import is_torch
from py_driver.matrix.backends import BUILT, backend_of
from py_driver.matrix.installation import module_root
from py_driver.matrix.matrix import CPYTHON_PART
from py_driver.matrix.releases import exports_file, python_exports_file
from py_driver.matrix.torch_symbols import PYTHON_LIBRARIES, hash_of, read_table
from py_driver.resources import resource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from py_driver.matrix.releases import Releases
    from py_driver.matrix.torch_symbols import Column, Table

_CPU: Final = "cpu"
_OLDEST: Final = "oldest"


class Policy(NamedTuple):
    """A policy of manylinux.

    Attributes:
        name: `manylinux_2_17`.
        alias: the older name, `manylinux2014`; empty if it has none.
        versions: the newest version of each family of symbols that its systems have, `{"GLIBC": "2.17"}`, by CPU.
    """

    name: str
    alias: str
    versions: Mapping[str, Mapping[str, str]]


class Recorded:
    """The records of a lock's releases; each file is read once, when it is first needed."""

    def __init__(self, releases: Releases) -> None:
        """Read nothing yet.

        Args:
            releases: the matrix and the lock.
        """
        self.releases = releases

    @cached_property
    def torch(self) -> tuple[tuple[Column, ...], Table]:
        """The symbols of torch's libraries.

        Raises:
            DriverError: BAD_VALUE if the file is damaged.
        """
        return read_table(exports_file())

    @cached_property
    def torch_python(self) -> tuple[tuple[Column, ...], Table]:
        """The symbols of libtorch_python.so.

        Raises:
            DriverError: BAD_VALUE if the file is damaged.
        """
        return read_table(python_exports_file())

    def is_of_torch(self, symbol: str) -> bool:
        """Whether a symbol belongs to torch: a release defines it, or its name is in one of torch's namespaces."""
        key = hash_of(symbol)
        return is_torch(symbol) or key in self.torch[1] or key in self.torch_python[1]

    def torch_defines(self, symbol: str, version: str, cpu: str, family: str) -> bool:
        """Whether a build of torch defines a symbol.

        Args:
            symbol: the symbol.
            version: the release of torch, `2.13`.
            cpu: the CPU of the build.
            family: `cpu` or `cuda`. The symbols of builds for ROCm are not recorded: they count as builds for CUDA.
        """
        key, wheel = hash_of(symbol), self.releases.lock.torch_wheel(version, cpu)
        kinds = {_CPU, *PYTHON_LIBRARIES, *([] if family == _CPU else ["cuda"])}
        return any(
            table.get(key, 0) >> index & 1
            for columns, table in (self.torch, self.torch_python)
            for index, column in enumerate(columns)
            if column.torch == version and column.backend in kinds and (not wheel or column.sha256 == wheel)
        )

    def torch_abi(self, version: str) -> str:
        """The C++ ABI of the build of torch whose symbols are recorded; empty for an unknown release."""
        return next((column.abi for column in self.torch[0] if column.torch == version), "")

    @cached_property
    def toolkits(self) -> Mapping[str, Mapping[str, frozenset[str]]]:
        """The libraries of each release of CUDA and ROCm, with their symbols: `["cu130"]["libcudart.so.13"]`."""
        files = self.releases.symbols_files()
        return {name: dict(_libraries(path.read_text(encoding="ascii"))) for name, path in files.items()}

    @cached_property
    def toolkit_symbols(self) -> Mapping[str, frozenset[str]]:
        """The symbols of all libraries of each release of CUDA and ROCm."""
        return {name: frozenset().union(*libraries.values()) for name, libraries in self.toolkits.items()}

    @cached_property
    def toolkit_patterns(self) -> tuple[re.Pattern[str], ...]:
        """The names of the libraries of CUDA and ROCm: `libcudart.so.NUMBER`."""
        return tuple(_pattern(name) for name, beginnings in self._library_names if beginnings)

    @cached_property
    def system_libraries(self) -> frozenset[str]:
        """The libraries that every Linux system has, or torch provides."""
        return frozenset(
            name for name, beginnings in self._library_names if not beginnings and name not in self.torch_libraries
        )

    def is_of_system(self, symbol: str, cpu: str) -> bool:
        """Whether glibc or a library of gcc defines a symbol, in any version."""
        return symbol in self._system.get(cpu, ())

    @cached_property
    def _system(self) -> Mapping[str, set[str]]:
        """The symbols of the system's libraries, by CPU."""
        found: dict[str, set[str]] = {}
        own: set[str] = set()
        for line in _policy("system_symbols.txt"):
            if line.startswith("["):
                own = found.setdefault(line[1:].partition(" ")[0], set())
            else:
                own.add(line.partition(" ")[0])
        return found

    @cached_property
    def torch_libraries(self) -> Mapping[str, str]:
        """The libraries of torch, each with the backend whose builds have it: `{"libc10_cuda.so": "cuda"}`."""
        found = {
            name: family
            for family, backend in BUILT.items()
            for name in (*backend.torch_libraries, *(backend.recorded or ()))
        }
        return {**found, **{name: _CPU for names in PYTHON_LIBRARIES.values() for name in names}}

    @cached_property
    def stable_python(self) -> Mapping[str, str]:
        """The symbols of Python's stable ABI, each with the version that added it."""
        pairs = (line.split() for line in _policy("python_stable_abi.txt") if line)
        return {name: version for name, version in pairs if name != _OLDEST}

    @cached_property
    def pythons(self) -> Mapping[str, frozenset[str]]:
        """The symbols that each locked Python exports."""
        versions = self.releases.matrix.cpython
        files = {version: self.releases.symbols_file(CPYTHON_PART, version) for version in versions}
        return {
            version: frozenset().union(*(symbols for _, symbols in _libraries(path.read_text(encoding="ascii"))))
            for version, path in files.items()
        }

    @cached_property
    def known_pythons(self) -> tuple[str, ...]:
        """The Pythons with wheels of any torch release, ascending."""
        every = {version for torch in self.releases.matrix.torch for version in torch.pythons}
        return tuple(sorted(every, key=lambda version: (int(version[2:].removesuffix("t")), version[-1] == "t")))

    @cached_property
    def policies(self) -> tuple[Policy, ...]:
        """The policies of manylinux, oldest first."""
        rows = tomli.loads(resource("manylinux.toml"))["policy"]
        return tuple(Policy(row.pop("name"), row.pop("alias", ""), dict(row)) for row in rows)

    @cached_property
    def _library_names(self) -> tuple[tuple[str, str], ...]:
        """The libraries that an extension may need, each with the prefix of its symbols; `#` stands for a number."""
        lines = (line.partition(" ") for line in _policy("libraries.txt"))
        return tuple((name, beginnings) for name, _, beginnings in lines)


def family_of(backend: str) -> str:
    """The backend of a release without its version: `cuda` for `cu130`."""
    known = backend_of(backend)
    return known.family if known else backend


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(re.escape(name).replace(r"\#", r"\d[\d.]*"))


def _policy(name: str) -> Iterator[str]:
    """The lines of a file of the ABI check's policy, without comments."""
    path = module_root() / "rules" / "private" / "policy" / name
    lines = path.read_text(encoding="utf-8").splitlines()
    return (line for line in lines if line and not line.startswith("#"))


def _libraries(text: str) -> Iterator[tuple[str, frozenset[str]]]:
    """The libraries of a file of symbols, see `library_symbols`."""
    for part in re.split(r"^\[", text, flags=re.MULTILINE)[1:]:
        head, *symbols = part.splitlines()
        yield head.partition("]")[0], frozenset(symbols)
