"""The lock of the toolchains: which pinned archives the cells of a build need."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from py_driver.errors import Code, error
from py_driver.fetch.entry import Entry, parse_entry
from py_driver.matrix.cells import cuda_version, rocm_version
from py_driver.matrix.installation import module_root, user_matrix

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from py_driver.matrix.cells import Cell


def lock_files() -> dict[str, Path]:
    """The files of the lock by what they are for.

    Raises:
        DriverError: SET_UP if the installation is broken.
    """
    kinds = ("cc", "cuda", "cutlass", "hipify", "rocm", "torch")
    return {kind: module_root() / "toolchains" / "lock" / f"{kind}.json" for kind in kinds}


def exports_file() -> Path:
    """What the torch releases of the lock export, see `torch_symbols`; the user's own releases are not in it.

    Raises:
        DriverError: SET_UP if the installation is broken.
    """
    return lock_files()["torch"].with_name("torch_exports.bin")


def symbols_file(kind: str, version: str, matrix: Path | None) -> Path:
    """What the libraries of a release define, see `py_driver.matrix.library_symbols`; whether the file is there or not.

    Args:
        kind: `cuda` or `rocm`.
        version: e.g. `13.0`.
        matrix: the user's own, if the release is of that.

    Raises:
        DriverError: SET_UP if the installation is broken.
    """
    name = f"{kind}_{version}.symbols"
    return matrix.with_suffix(f".{name}") if matrix else lock_files()[kind].with_name(name)


def symbols_files() -> dict[str, Path]:
    """The files of `symbols_file` of all releases that have one, by backend: `cu130`, `rocm72`.

    Raises:
        DriverError: SET_UP if the installation is broken; STALE_LOCK, see `read_user_lock`.
    """
    own = read_user_lock()
    return {
        f"{prefix}{version.replace('.', '')}": symbols_file(
            kind, version, user_matrix() if version in own.get(kind, {}) else None
        )
        for kind, prefix in (("cuda", "cu"), ("rocm", "rocm"))
        for version, release in read_part(kind).items()
        if release.get("libraries")
    }


def user_symbols() -> dict[str, bytes]:
    """The contents of these files for the releases of the user's matrix, each by `KIND_VERSION.symbols`.

    Raises:
        DriverError: STALE_LOCK if one is not there; see `read_user_lock`.
    """
    found = {}
    for kind in ("cuda", "rocm"):
        for version, release in read_user_lock().get(kind, {}).items():
            path = symbols_file(kind, version, user_matrix())
            if not release.get("libraries"):
                continue
            if not path.is_file():
                advice = f"run `driver lock --matrix {user_matrix()}`"
                raise error(Code.STALE_LOCK, f"the lock of your matrix lacks {path}", help=advice)
            found[f"{kind}_{version}.symbols"] = path.read_bytes()
    return found


def user_lock() -> Path | None:
    """The lock of the user's own matrix, which lies beside it as NAME.lock.json; whether it is there or not."""
    matrix = user_matrix()
    return matrix.with_suffix(".lock.json") if matrix else None


def read_user_lock() -> dict[str, Any]:
    """The parts of the lock of the user's own matrix; none if there is no such matrix.

    Raises:
        DriverError: STALE_LOCK if there is no lock beside the matrix, or one that is not JSON.
    """
    own = user_lock()
    try:
        value: dict[str, Any] = json.loads(own.read_text(encoding="utf-8")) if own else {}
    except (OSError, ValueError) as wrong:
        why = wrong.strerror if isinstance(wrong, OSError) else wrong
        advice = f"run `driver lock --matrix {user_matrix()}`"
        raise error(Code.STALE_LOCK, f"cannot read the lock of your matrix, {own}: {why}", help=advice) from None
    return value


def read_part(kind: str) -> dict[str, Any]:
    """A part of the lock, with the user's own releases.

    Args:
        kind: as in `lock_files`.

    Raises:
        DriverError: SET_UP if the installation is broken; STALE_LOCK, see `read_user_lock`.
    """
    value: dict[str, Any] = json.loads(lock_files()[kind].read_text(encoding="utf-8"))
    return {**value, **read_user_lock().get(kind, {})}


def entries_for(cells: Iterable[Cell]) -> list[Entry]:
    """The archives that building some cells needs, in a fixed order, each once.

    Args:
        cells: what is built; cells without an extension need only the compiler.

    Returns:
        The entries of toolchains/lock/*.json; versions that are not locked are left to Bazel, which names them.
    """
    chosen = list(cells)
    cc, cuda, rocm, torch = (read_part(kind) for kind in ("cc", "cuda", "rocm", "torch"))
    backends = sorted({cell.backend for cell in chosen})
    amd = [rocm[version] for version in map(rocm_version, backends) if version in rocm]
    toolkits = [*(cuda[version] for version in map(cuda_version, backends) if version in cuda), *amd]
    found = [cc["zig"][zig] for zig in dict.fromkeys([cc["default"], *(one["host"] for one in toolkits)])]
    found += cc["gcc"]
    for version in sorted({cell.torch for cell in chosen if cell.torch}):
        found += [torch[version]["archive"]] if version in torch else []
    for one in toolkits:
        found += one["archives"]
    if amd:
        hipify = read_part("hipify")
        found += [*hipify["python"], torch[hipify["torch"]]["archive"]]
    return list({entry.key: entry for entry in map(parse_entry, found)}.values())


def toolchain_digests() -> dict[str, str]:
    """A digest of what is pinned of `cc` and of each backend (`cu130`), torch release (`2.13`) and `cutlass_4_0`.

    The libraries of a release are left out: no compile step reads what they define.
    """
    found: dict[str, Any] = {"cc": read_part("cc"), **read_part("torch")}
    found |= {f"cu{version.replace('.', '')}": _compiled(one) for version, one in read_part("cuda").items()}
    hipify = read_part("hipify")
    found |= {f"rocm{version.replace('.', '')}": [_compiled(one), hipify] for version, one in read_part("rocm").items()}
    found |= {f"cutlass_{version.replace('.', '_')}": one for version, one in read_part("cutlass").items()}
    return {name: hashlib.sha256(json.dumps(one).encode()).hexdigest() for name, one in found.items()}


def _compiled(release: dict[str, Any]) -> dict[str, Any]:
    """What the lock says of a release that compile steps may depend on."""
    return {key: value for key, value in release.items() if key != "libraries"}


def rules_digest() -> str:
    """A digest of the rules, by which a step is called."""
    digest = hashlib.sha256()
    for path in sorted((module_root() / "rules" / "private").rglob("*")):
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def release_of(version: str) -> str:
    """The release of torch that a version is locked to: `2.13.0` for `2.13`.

    Raises:
        KeyError: it is not locked.
    """
    release: str = read_part("torch")[version]["archive"]["version"]
    return release
