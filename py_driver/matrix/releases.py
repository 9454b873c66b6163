"""The releases that a run of the driver works with: the matrix and the lock, each file read once and passed down."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

import tomli

from py_driver.errors import Code, error
from py_driver.matrix.backends import TOOLKITS
from py_driver.matrix.configurations import USUAL_CPU
from py_driver.matrix.installation import module_root
from py_driver.matrix.matrix import MACHINES_PART, TVM_FFI_PART, Matrix, make_matrix
from py_driver.matrix.user_matrix import Extension, extended, read_extension
from py_driver.system.machine import machine_cpu

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from py_driver.matrix.lock import Lock
    from py_driver.matrix.user_matrix import Table


def lock_file(kind: str) -> Path:
    """The file of a part of the lock, one of `lock.PARTS`.

    Raises:
        DriverError: SET_UP if the installation is broken.
    """
    return module_root() / "toolchains" / "lock" / f"{kind}.json"


def exports_file() -> Path:
    """The file with the exports of the lock's torch releases, see `torch_symbols`, without the user's own releases.

    Raises:
        DriverError: SET_UP if the installation is broken.
    """
    return lock_file("torch").with_name("torch_exports.bin")


def python_exports_file() -> Path:
    """The file with the symbols of libtorch_python.so of each torch release, see `torch_symbols`.

    Raises:
        DriverError: SET_UP if the installation is broken.
    """
    return lock_file("torch").with_name("torch_python_exports.bin")


def openmp_file() -> Path:
    """The file with the OpenMP runtimes of the lock's torch releases, see `torch_openmp`, without the user's own.

    Raises:
        DriverError: SET_UP if the installation is broken.
    """
    return lock_file("torch").with_name("torch_openmp.json")


class Releases:
    """The releases that are built for, and the archives that are pinned for them.

    Each file is read once, when it is first needed.

    Attributes:
        user: the user's own matrix, if there is one; `warn` gets a warning for each outdated key, once.
    """

    def __init__(self, user: Path | None = None, warn: Callable[[str], None] = lambda _: None) -> None:
        self.user = user.absolute() if user else None
        self._warn = warn

    @cached_property
    def extension(self) -> Extension:
        """The content of the user's matrix; empty if there is none.

        Raises:
            DriverError: see `read_extension`.
        """
        return read_extension(self.user, self._warn) if self.user else Extension({})

    @property
    def own(self) -> Mapping[str, list[Table]]:
        """The releases and libraries of the user's matrix by kind; possibly empty.

        Raises:
            DriverError: see `read_extension`.
        """
        return self.extension.tables if any(self.extension.tables.values()) else {}

    @cached_property
    def table(self) -> Table:
        """The content of toolchains/matrix.toml, with the user's releases.

        Raises:
            DriverError: SET_UP if the installation lacks it; the errors of the user's matrix, see `extended`.
        """
        table = tomli.loads((module_root() / "toolchains" / "matrix.toml").read_text(encoding="utf-8"))
        return extended(table, self.extension, str(self.user)) if self.user else table

    @cached_property
    def matrix(self) -> Matrix:
        """The matrix.

        Raises:
            DriverError: see `table`.
        """
        return make_matrix(self.table)

    @cached_property
    def lock(self) -> Lock:
        """The lock for this machine, with the user's own releases.

        Raises:
            DriverError: when a part of it is first read: SET_UP if the installation is broken; see `user_lock`.
        """
        from py_driver.matrix.lock import Lock  # noqa: PLC0415  (slow to load: what it needs of `fetch`)

        return Lock(_Parts(self), machine_cpu())

    @cached_property
    def toolchain_digests(self) -> dict[str, str]:
        """See `Lock.toolchain_digests`; computed once for all projects of a run."""
        return self.lock.toolchain_digests()

    @property
    def user_lock_file(self) -> Path | None:
        """The path of the lock of the user's own matrix, NAME.lock.json beside it, which need not exist.

        None if there is nothing to lock.

        Raises:
            DriverError: see `read_extension`.
        """
        return self.user.with_suffix(".lock.json") if self.user and self.own else None

    @property
    def lock_advice(self) -> str:
        """The help if the lock does not match the matrix."""
        return f"run `driver lock --matrix {self.user}`" if self.user else "run `driver lock`"

    @cached_property
    def user_lock(self) -> dict[str, Any]:
        """The parts of the lock of the user's own matrix; empty without such a matrix.

        Raises:
            DriverError: STALE_LOCK if there is no lock beside the matrix, or one that is not JSON.
        """
        path = self.user_lock_file
        try:
            value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path else {}
        except (OSError, ValueError) as wrong:
            why = wrong.strerror if isinstance(wrong, OSError) else wrong
            message = f"cannot read the lock of your matrix, {path}: {why}"
            raise error(Code.STALE_LOCK, message, help=self.lock_advice) from None
        if not isinstance(value, dict) or not all(isinstance(part, dict) for part in value.values()):
            message = f"the lock {path} does not match your matrix"
            raise error(Code.STALE_LOCK, message, help=self.lock_advice)
        return value

    def symbols_file(self, kind: str, version: str) -> Path:
        """The path of the file with the symbols of a release's libraries, see `library_symbols`, which need not exist.

        Args:
            kind: `cuda` or `rocm`.
            version: e.g. `13.0`.

        Raises:
            DriverError: SET_UP if the installation is broken.
        """
        name = f"{kind}_{version}.symbols"
        own = any(release["version"] == version for release in self.own.get(kind, ()))
        return self.user.with_suffix(f".{name}") if self.user and own else lock_file(kind).with_name(name)

    def symbols_files(self) -> dict[str, Path]:
        """The files of `symbols_file` of all releases that have one, by backend (`cu130`, `rocm72`), and of `tvm_ffi`.

        Raises:
            DriverError: see `lock`.
        """
        toolkits = {
            backend.name_of(version): self.symbols_file(backend.family, version)
            for backend in TOOLKITS
            for version, release in self.lock.parts[backend.family].items()
            if release.get("libraries")
        }
        [tvm_ffi] = self.lock.parts[TVM_FFI_PART]
        return {**toolkits, TVM_FFI_PART: self.symbols_file(TVM_FFI_PART, tvm_ffi)}

    def user_symbols(self) -> dict[str, bytes]:
        """The contents of these files for the releases of the user's matrix, by `KIND_VERSION.symbols`.

        Raises:
            DriverError: STALE_LOCK if one is missing; see `user_lock`.
        """
        found = {}
        for backend in TOOLKITS:
            for version, release in self.user_lock.get(backend.family, {}).items():
                path = self.symbols_file(backend.family, version)
                if not release.get("libraries"):
                    continue
                if not path.is_file():
                    message = f"the lock of your matrix lacks {path}"
                    raise error(Code.STALE_LOCK, message, help=self.lock_advice)
                found[f"{backend.family}_{version}.symbols"] = path.read_bytes()
        return found


class _Parts(dict[str, dict[str, Any]]):
    """The parts of the lock, each read when it is first needed."""

    def __init__(self, releases: Releases) -> None:
        super().__init__()
        self._releases = releases

    def __missing__(self, kind: str) -> dict[str, Any]:
        part: dict[str, Any] = json.loads(lock_file(kind).read_text(encoding="utf-8"))
        part = {**part, **self._releases.user_lock.get(kind, {})}
        if kind != MACHINES_PART and (machine := machine_cpu()) != USUAL_CPU and machine in self[MACHINES_PART]:
            from py_driver.matrix.lock import for_machine  # noqa: PLC0415  (as above)

            part = for_machine(kind, part, self[MACHINES_PART][machine])
        self[kind] = part
        return part
