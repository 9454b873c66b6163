"""NVIDIA's archives, which no machine of ours can reach: all that follows them, with one of the same shape."""

from __future__ import annotations

import hashlib
import io
import tarfile
from typing import TYPE_CHECKING

import pytest
import tomlkit
from clone import BINDING, PROJECTS, Driver, action_counts, copy_project, make_cache

from py_driver.fetch.entry import parse_entry
from py_driver.fetch.fetcher import Fetcher
from py_driver.fetch.store import Store
from py_driver.fetch.unpacking import Selection, unpack
from py_driver.matrix.releases import Releases

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Built

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

_CUDA = "12.6"
_VARIANT = "torch28-cxx11-cu126-x86_64-linux"


def _archive(driver: Driver, directory: Path, stem: str) -> bytes:
    """nvcc 12.4 of Debian's package, arranged as in NVIDIA's archives; unlike them, not compressed well."""
    record = Releases().lock.parts["cuda"]["12.4"]["archives"][0]
    entry = parse_entry(record)
    fetched = Fetcher(Store(driver.cache)).fetch(entry)
    for part in record["unpack"]:
        include = [f"{part['strip']}/{name}" for name in part["names"]]
        unpack(fetched.path, entry, directory / part["to"], Selection(include=include, strip_prefix=part["strip"]))
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:xz", preset=0) as tar:
        tar.add(directory, stem)
    return content.getvalue()


def test_an_archive_of_that_shape_becomes_a_toolchain(relu: Built, base: Path) -> None:
    here = base / "redistributable"
    here.mkdir()
    driver = relu.driver
    [release] = [entry for entry in Releases().table["cuda"] if entry["version"] == _CUDA]
    wanted, *headers = release["archives"]
    name, _, version = wanted["redistributable"].partition("==")
    stem = f"{name}-linux-x86_64-{version}-archive"
    body = _archive(driver, here / "unpacked", stem)
    (here / "mirror").mkdir()
    (here / "mirror" / f"{stem}.tar.xz").write_bytes(body)
    ours = {**wanted, "sha256": hashlib.sha256(body).hexdigest(), "size": len(body)}
    matrix = here / "my.toml"
    matrix.write_text(tomlkit.dumps({"cuda": [{**release, "archives": [ours, *headers]}]}))
    links = {part: driver.cache / part for part in ("bazel", "store", "venvs")}
    another = Driver(
        command=driver.command,
        root=driver.root,
        cache=make_cache(here / "cache", links),
        output=here / "output",
        environ={"RULES_TORCH_KERNELS_MIRROR": str(here / "mirror"), "RULES_TORCH_KERNELS_MATRIX": str(matrix)},
    )
    another.run("lock")
    project = copy_project(PROJECTS / "tiny", here / "tiny")
    said = another.run("build", project, f"--variant={_VARIANT}").stderr
    assert f"note: nvcc {_CUDA} compiles monolithically" in said
    assert action_counts(another.build(project, _VARIANT)) == (0, 0, 1 + BINDING)
    [sdk] = [path for path in another.output.glob("*/external/*torch_kernels_cuda_12_6") if path.is_dir()]
    assert (sdk / "bin" / "nvcc").read_bytes() == (here / "unpacked" / "bin" / "nvcc").read_bytes()
