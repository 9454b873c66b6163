"""Which torch is installed, what it can load, and the environment that is made for it."""

from __future__ import annotations

import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

from py_driver.building import installed_torch
from py_driver.building.installed_torch import Torch, fits, importable_torch, python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.resources import resource

if TYPE_CHECKING:
    from pathlib import Path

_PYTHON = """#!/bin/sh
PYTHONPATH={place} exec {python} "$@"
"""


def _python(place: Path, version: str = "", cuda: str | None = None, hip: str | None = None) -> Path:
    """A python3 with a torch that says of itself what is given; without a version one that has none."""
    place.mkdir()
    if version:
        (place / "torch").mkdir()
        (place / "torch" / "__init__.py").write_text("raise ImportError('nobody asked for more than the version')\n")
        (place / "torch" / "version.py").write_text(f"__version__ = {version!r}\ncuda, hip = {cuda!r}, {hip!r}\n")
    python = place / "python3"
    python.write_text(_PYTHON.format(place=place, python=sys.executable))
    python.chmod(0o755)
    return python


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (("2.13.0+cu130", "13.0", None), ("2.13", "cu130")),
        (("2.15.1+cpu", None, None), ("2.15", "cpu")),
        (("2.13.0+rocm7.2", None, "7.2.53211-e1a6bc5663"), ("2.13", "rocm72")),
    ],
)
def test_torch_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: tuple[str, str | None, str | None], expected: tuple[str, str]
) -> None:
    one, none = _python(tmp_path / "one", *said), _python(tmp_path / "none")
    found = Torch(python=str(one), version=expected[0], backend=expected[1])
    monkeypatch.chdir(none.parent)  # what lies where the driver is started is not imported
    for on_path, own in ((one, none), (none, one)):
        monkeypatch.setenv("PATH", f"{on_path.parent}:/usr/bin:/bin")
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", str(own))
            assert importable_torch() == found
    monkeypatch.setattr(sys, "executable", str(none))
    assert importable_torch() is None


def test_no_torch_is_taken_from_where_the_driver_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = _python(tmp_path / "here", "2.13.0")
    monkeypatch.chdir(here.parent)
    monkeypatch.setenv("PATH", f"{_python(tmp_path / 'none').parent}:/usr/bin:/bin")
    monkeypatch.setattr(sys, "executable", "")
    assert importable_torch() is None


@pytest.mark.parametrize(
    ("variant", "version", "backend", "answer"),
    [
        ("torch213-cxx11-cpu-x86_64-linux", "2.13", "cpu", True),
        ("torch213-cxx11-cpu-x86_64-linux", "2.13", "cu130", False),
        ("torch213-cxx11-cpu-x86_64-linux", "2.15", "cpu", False),
        ("torch213-cxx11-cu130-x86_64-linux", "2.13", "cu130", True),
        ("torch213-cxx11-cu130-x86_64-linux", "2.13", "cu132", True),
        ("torch213-cxx11-cu132-x86_64-linux", "2.13", "cu130", False),
        ("torch213-cxx11-cu130-x86_64-linux", "2.13", "cu126", False),
        ("torch213-cxx11-cu130-x86_64-linux", "2.13", "cpu", False),
        ("torch-stable-abi29-cpu-x86_64-linux", "2.9", "cpu", True),
        ("torch-stable-abi29-cpu-x86_64-linux", "2.13", "cpu", True),
        ("torch-stable-abi210-cpu-x86_64-linux", "2.9", "cpu", False),
        ("torch-stable-abi29-cu130-x86_64-linux", "2.13", "cu132", True),
        ("torch-stable-abi29-cu130-x86_64-linux", "2.13", "cpu", False),
        ("torch-cpu", "2.13", "cpu", False),
    ],
)
def test_torch_loads_older_minor_versions_of_its_cuda(
    variant: str, version: str, backend: str, *, answer: bool
) -> None:
    assert fits(Torch(python="", version=version, backend=backend), parse(variant)) is answer


def test_environment_lies_on_top_of_a_torch_that_fits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[tuple[str, list[str], Output, dict[str, object]]] = []

    def ensure(name: str, requirements: list[str], output: Output, **options: object) -> Path:
        made.append((name, requirements, output, options))
        return tmp_path

    monkeypatch.setattr(installed_torch, "ensure_venv", ensure)
    there = Torch(python="/python", version="2.13", backend="cpu")
    monkeypatch.setattr(installed_torch, "importable_torch", lambda: there)
    configurations = [parse(f"torch{version}-cxx11-cpu-x86_64-linux") for version in ("215", "213")]
    stable = parse("torch-stable-abi29-cu130-x86_64-linux")
    output, started = Output(), list[object]().append
    bound = parse("tvm-ffi01-cpu-x86_64-linux")
    for built in (configurations, [stable, *configurations[:1]], [stable], [], [bound]):
        assert python_for(built, Releases(), output, started) == str(tmp_path)
    facts = tomllib.loads(resource("load.toml"))
    client = [f"kernels=={facts['kernels']}", *facts["requirements"]]
    new = {"imports": ("torch", "torch._dynamo", "kernels", "pytest"), "started": started}
    usual = f"torch=={Releases().lock.torch_release(facts['torch'])}"
    assert made == [
        ("load", client, output, {"python": "/python", "inherit": True, "started": started}),
        ("load", [f"torch=={Releases().lock.torch_release('2.15')}", *client], output, new),
        ("load", [usual, *client], output, new),
        ("load", [usual, *client], output, new),
        ("load", [usual, *client, Releases().lock.tvm_ffi_requirement("0.1")], output, new),
    ]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("echo noise; {} ; echo more", "2.13"),
        ("echo 'torch is garbage'; exit 1", None),
        ("exec sleep 60", None),
        ("printf '\\377\\n'", None),
    ],
)
def test_an_interpreter_that_says_more_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, expected: str | None
) -> None:
    quiet = _python(tmp_path / "quiet", "2.13.0")
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\n" + program.format(f'{quiet} "$@"') + "\n")
    python.chmod(0o755)
    monkeypatch.setattr(installed_torch, "_PATIENCE", 2)
    found = importable_torch(str(python))
    assert (found.version if found else None) == expected
