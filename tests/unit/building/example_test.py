"""Running a project's example: what it prints, and a clear error where it is missing or fails."""

from __future__ import annotations

import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

from py_driver.building import example as loading
from py_driver.building.example import Torch, fits, importable_torch, python_for, run_example
from py_driver.errors import Code, DriverError
from py_driver.matrix.cells import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.resources import resource

if TYPE_CHECKING:
    from pathlib import Path

_PYTHON = """#!/bin/sh
PYTHONPATH={place} exec {python} "$@"
"""


def _python(place: Path, version: str = "", cuda: str | None = None, hip: str | None = None) -> Path:
    """A python3 that imports a torch which says of itself what is given; without a version one that has none."""
    place.mkdir()
    if version:
        (place / "torch.py").write_text(
            f"print('a banner')\n__version__ = {version!r}\nclass version:\n    cuda, hip = {cuda!r}, {hip!r}\n"
        )
    else:
        (place / "torch.py").write_text("raise ImportError\n")
    python = place / "python3"
    python.write_text(_PYTHON.format(place=place, python=sys.executable))
    python.chmod(0o755)
    return python


def test_output_of_the_example(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text("import os\nprint('one', os.environ['HF_HUB_OFFLINE'])\n")
    assert run_example(tmp_path, sys.executable) == "one 1"


def test_no_example(tmp_path: Path) -> None:
    with pytest.raises(DriverError) as caught:
        run_example(tmp_path, sys.executable)
    [found] = caught.value.diagnostics
    assert (found.code, found.message) == (Code.FILE_MISSING, f"{tmp_path / 'example.py'} is missing")
    assert found.help.startswith("write one: kernels.get_local_kernel(Path(__file__).parent / 'build')")


def test_an_example_leaves_no_bytecode(tmp_path: Path) -> None:
    (tmp_path / "beside.py").touch()
    (tmp_path / "example.py").write_text("import beside\n")
    assert run_example(tmp_path, sys.executable) == ""
    assert not (tmp_path / "__pycache__").exists()


@pytest.mark.parametrize(("text", "shown"), [("raise ValueError('wrong')", "ValueError: wrong"), ("exit(3)", "code 3")])
def test_example_that_fails(tmp_path: Path, text: str, shown: str) -> None:
    (tmp_path / "example.py").write_text(text)
    with pytest.raises(DriverError) as caught:
        run_example(tmp_path, sys.executable)
    assert caught.value.diagnostics[0].code is Code.LOAD_FAILED
    assert shown in caught.value.diagnostics[0].message
    assert caught.value.diagnostics[0].help == f"to see all of it, run {sys.executable} {tmp_path / 'example.py'}"


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
    ("cell", "version", "backend", "answer"),
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
def test_torch_loads_older_minor_versions_of_its_cuda(cell: str, version: str, backend: str, *, answer: bool) -> None:
    assert fits(Torch(python="", version=version, backend=backend), parse(cell)) is answer


def test_environment_lies_on_top_of_a_torch_that_fits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[tuple[str, list[str], Output, dict[str, object]]] = []

    def ensure(name: str, requirements: list[str], output: Output, **options: object) -> Path:
        made.append((name, requirements, output, options))
        return tmp_path

    monkeypatch.setattr(loading, "ensure_venv", ensure)
    there = Torch(python="/python", version="2.13", backend="cpu")
    monkeypatch.setattr(loading, "importable_torch", lambda: there)
    cells = [parse(f"torch{version}-cxx11-cpu-x86_64-linux") for version in ("215", "213")]
    stable = parse("torch-stable-abi29-cu130-x86_64-linux")
    output = Output()
    for built in (cells, [stable, *cells[:1]], [stable], []):
        assert python_for(built, Releases(), output) == str(tmp_path)
    facts = tomllib.loads(resource("load.toml"))
    client = [f"kernels=={facts['kernels']}", *facts["requirements"]]
    usual = f"torch=={Releases().lock.torch_release(facts['torch'])}"
    assert made == [
        ("load", client, output, {"python": "/python", "inherit": True}),
        ("load", [f"torch=={Releases().lock.torch_release('2.15')}", *client], output, {}),
        ("load", [usual, *client], output, {}),
        ("load", [usual, *client], output, {}),
    ]
