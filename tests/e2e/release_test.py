"""What `make release` makes: the same bytes twice, a wheel that installs, and a module that plain Bazel builds with."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from clone import ROOT, another, copy_checkout
from elftools.elf.elffile import ELFFile

from py_driver import __version__
from py_driver.building.installed_torch import python_for
from py_driver.debian.provide import place_of
from py_driver.matrix.configurations import parse
from py_driver.matrix.facts import facts
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

pytestmark = pytest.mark.e2e

_CPU, _CUDA = (f"torch213-cxx11-{backend}-x86_64-linux" for backend in ("cpu", "cu130"))
_PROGRAMS = "rules/private/tools/prebuilt"
_RUN = """
import sys, torch
from pathlib import Path
from kernels import get_local_kernel
smoke = get_local_kernel(Path(sys.argv[1]), backend="cpu")
x = torch.randn(1001)
assert torch.equal(smoke.scale(x, 2.0), 2 * x)
"""


def _git(place: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=place, check=True)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("release") / "checkout"
    copy_checkout(place)
    _git(place, "init", "-q")
    _git(place, "add", "-A")
    _git(place, "commit", "-qm", "release")
    return place


def _release(clone: Driver, checkout: Path, out: Path, code: int = 0) -> str:
    """Make a release of a checkout; what Bazel builds for it goes where it builds for the clone."""
    command = [sys.executable, "tests/release.py", str(out)]
    env = clone.environment()
    done = subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


@pytest.fixture(scope="module")
def released(clone: Driver, checkout: Path) -> Path:
    out = checkout.parent / "out"
    sums = _release(clone, checkout, out).splitlines()
    for line in sums:
        digest, _, name = line.partition("  ")
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest
    files = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert {line.partition("  ")[2] for line in sums} == files - {"SHA256SUMS"}
    return out


@pytest.mark.slow
def test_twice_the_same_bytes(clone: Driver, checkout: Path, released: Path) -> None:
    """From another clone, with other times and another umask."""
    other = checkout.parent / "other"
    _git(checkout.parent, "clone", "-q", str(checkout), str(other))
    old = os.umask(0o077)
    try:
        _release(clone, other, other.parent / "again")
    finally:
        os.umask(old)
    ours, theirs = (
        (directory / "SHA256SUMS").read_text().splitlines() for directory in (released, other.parent / "again")
    )
    # The address of the archive is that of the directory.
    assert [path for path in ours if "source.json" not in path] == [
        path for path in theirs if "source.json" not in path
    ]


def test_what_is_refused(clone: Driver, checkout: Path, released: Path) -> None:
    assert "is not empty" in _release(clone, checkout, released, code=2)
    extra = checkout / "extra"
    extra.touch()
    try:
        said = _release(clone, checkout, checkout.parent / "new", code=2)
        assert "git has changes that are not committed: ?? extra" in said
    finally:
        extra.unlink()


def test_what_it_consists_of(released: Path) -> None:
    names = {path.name for path in released.iterdir()}
    assert names == {
        "SHA256SUMS",
        "registry",
        f"rules_torch_kernels-{__version__}-py3-none-any.whl",
        f"rules_torch_kernels-{__version__}.tar.gz",
        f"rules_torch_kernels-{__version__}.cdx.json",
        f"rules_torch_kernels-module-{__version__}.tar.gz",
    }
    with zipfile.ZipFile(released / f"rules_torch_kernels-{__version__}-py3-none-any.whl") as wheel:
        scripts = wheel.read(f"rules_torch_kernels-{__version__}.dist-info/entry_points.txt").decode()
        packed = {name for name in wheel.namelist() if not name.endswith("/")}
    assert "driver = " in scripts
    assert "torch-kernels = " in scripts
    assert not [name for name in packed if "__pycache__" in name or name.endswith(".pyc")]
    with tarfile.open(released / f"rules_torch_kernels-module-{__version__}.tar.gz") as module:
        members = {name.partition("/")[2] for name in module.getnames()}
    assert {f"py_driver/module/{name}" for name in members if name.startswith(("rules/", "toolchains/"))} <= packed
    assert not [name for name in packed if name.startswith("py_driver/module/py_driver/")]
    assert {f"{_PROGRAMS}/x86_64/{name}" for name in facts("programs")["MAIN"]} <= members
    with tarfile.open(released / f"rules_torch_kernels-{__version__}.tar.gz") as source:
        assert not [name for name in source.getnames() if _PROGRAMS in name]
    bill = json.loads((released / f"rules_torch_kernels-{__version__}.cdx.json").read_text())
    archives = {component["hashes"][0]["content"] for component in bill["components"]}
    assert archives == {entry.sha256 for entry in Releases().lock.entries}


def test_the_programs_are_those_of_the_source(clone: Driver, released: Path, base: Path) -> None:
    """The released module has them; a machine without any result, asked for the source, makes the same bytes."""
    place = base / "released"
    place.mkdir()
    with tarfile.open(released / f"rules_torch_kernels-module-{__version__}.tar.gz") as module:
        module.extractall(place, filter="data")
    [root] = place.iterdir()
    driver = replace(another(clone, base / "elsewhere"), root=root)
    names = [f"//rules/private/tools:{name}" for name in facts("programs")["MAIN"]]
    digests = {}
    for choice in ("prebuilt", "source"):
        option = f"--//rules/settings:programs={choice}"
        driver.bazel("build", option, *names)
        digests[choice] = [hashlib.sha256(driver.place(name, option).read_bytes()).hexdigest() for name in names]
        built = driver.bazel("aquery", option, "--output=summary", "+".join(names))
        assert ("ZigBuild" in built) is (choice == "source")
    assert digests["prebuilt"] == digests["source"]


@pytest.mark.slow
def test_plain_bazel_builds_with_the_module(clone: Driver, released: Path, tmp_path: Path) -> None:
    """No driver, no checkout: the registry, Bazel, and a Python for the fetcher."""
    smoke = tmp_path / "smoke"
    shutil.copytree(ROOT / "tests" / "e2e" / "smoke", smoke)
    shutil.copy(ROOT / ".bazelrc", smoke)
    environment = curated(extra={"RULES_TORCH_KERNELS_CACHE": str(clone.cache)})
    bazel = [str(place_of(clone.cache) / "bazel"), f"--output_user_root={clone.output}"]
    command = [*bazel, "build", f"--registry={(released / 'registry').as_uri()}", "//:smoke"]
    try:
        done = subprocess.run(command, cwd=smoke, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        bundle = smoke / "bazel-bin" / "smoke"
        assert {path.name for path in bundle.iterdir()} == {_CPU, _CUDA}
        [library] = (bundle / _CUDA).glob("*.so")
        with library.open("rb") as file:
            assert ELFFile(file).get_section_by_name(".nv_fatbin") is not None
        python = python_for([parse(_CPU)], Releases(), Output())
        own = curated(extra={"HF_HUB_OFFLINE": "1"})
        subprocess.run([python, "-c", _RUN, str(bundle)], check=True, env=own, cwd="/", timeout=300)
    finally:
        subprocess.run([*bazel, "shutdown"], cwd=smoke, env=environment, check=False, capture_output=True)
