"""The metadata.json of a variant, without id, digest and provenance, which the build adds."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import tomli

from py_driver.manifest.model import Depends
from py_driver.matrix.backends import BUILT, UNIVERSAL
from py_driver.matrix.facts import facts
from py_driver.resources import resource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from py_driver.manifest.model import KernelDepend, Manifest

METADATA = "metadata.json"
"""The file, in the directory of a variant."""

ONLY_ARCHS = "only-archs"
"""The key with the GPU architectures of a variant that has device code for only a part of them (`--archs`). The
`kernels` client does not read it; such a variant is not published."""


SLICE = "slice"
"""The key of a slice, a variant with the device code of one GPU capability (`driver build --slice`): its name, as
`sm90`. The `kernels` client does not read it."""

CXX = "cxx"
"""The key with the compiler of a variant whose C++ was all compiled by another compiler than clang (`--cxx`). The rules
add it; the `kernels` client does not read it."""

COMPRESS = "compress"
"""The key with the compression of device code, if it was chosen (`--compress`). The rules add it; the client does not
read it."""


def chosen(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The settings of the rules in a variant's metadata that differ from the default.

    Args:
        metadata: the variant's metadata.
    """
    flags = facts("settings")["FLAGS"]
    stated = {key: metadata[key] for key in (CXX, COMPRESS) if key in metadata}
    return {
        key: value for key, value in stated.items() if value in flags[key]["values"] and value != flags[key]["default"]
    }


def make_metadata(manifest: Manifest, family: str, archs: list[str] | None) -> dict[str, Any]:
    """The metadata of a backend.

    The `kernels` client accepts only names without `_`, and has no universal backend: such a variant says `cpu`, which
    the client reads and ignores. For an AMD GPU it looks for the architecture without features (kernels 0.17,
    `archs.py`).

    Args:
        manifest: the project's build.toml.
        family: `cpu`, `cuda`, `rocm` or `universal`.
        archs: the variant's GPU architectures, sorted, with their features; None for a variant without device code.
    """
    depends = tuple(manifest.depends.get(backend, Depends()) for backend in ("", family))
    backend: dict[str, Any] = {"type": "cpu" if family == UNIVERSAL else family}
    if archs is not None:
        backend["archs"] = sorted({BUILT[family].plain(arch) for arch in archs})
    kernels = [_kernel_depend(kernel) for depend in depends for kernel in depend.kernels]
    metadata: dict[str, Any] = {
        "name": manifest.name.value.replace("_", "-"),
        "version": manifest.version,
        "license": manifest.license,
        "python-depends": [name for depend in depends for name in depend.python],
        "kernel-depends": kernels,
        "kernels-minver": minver()["kernel-depends" if kernels else "metadata"],
        "backend": backend,
    }
    places = {"upstream": manifest.upstream, "source": manifest.source}
    return metadata | {key: value for key, value in places.items() if value is not None}


@cache
def minver() -> dict[str, str]:
    """The first releases of the `kernels` client that read any metadata.json, and one with `kernel-depends`."""
    minver: dict[str, str] = tomli.loads(resource("load.toml"))["minver"]
    return minver


def _kernel_depend(kernel: KernelDepend) -> dict[str, str | int]:
    if kernel.version is not None:
        return {"repo-id": kernel.repo_id, "version": kernel.version}
    return {"repo-id": kernel.repo_id, "revision": kernel.revision or ""}
