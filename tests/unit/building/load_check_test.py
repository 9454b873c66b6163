"""Extension modules of a setup.py are loaded one by one, without their packages, once for each release of torch."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import pytest
from tree import write_files

from py_driver.actions.executed import VariantActions
from py_driver.building.build import Built
from py_driver.building.extension import candidates
from py_driver.building.installed_torch import Torch
from py_driver.building.load_check import check_loads
from py_driver.building.loader import Loaded, loading
from py_driver.errors import Code, DriverError
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.cache import CACHE_VARIABLE
from py_driver.system.machine import machine_cpu

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_PYTHON = """#!/bin/sh
PYTHONPATH={place} exec {python} "$@"
"""
_MODULE = "pkg.inner._C"


@pytest.fixture
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Torch:
    """A Python whose torch has an ABI and nothing else."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    place = write_files(
        tmp_path / "site",
        {
            "torch/__init__.py": "def compiled_with_cxx11_abi():\n    return True\n",
            "python3": _PYTHON.format(place=tmp_path / "site", python=sys.executable),
        },
    )
    (place / "python3").chmod(0o755)
    return Torch(python=str(place / "python3"), version="2.13", backend="cpu")


def _built(
    place: Path, text: str, release: str = "torch213", backend: str = "cpu", more: Mapping[str, str] | None = None
) -> Built:
    """A module that is a Python file, as one on torch::Library is."""
    name = f"{release}-cxx11-{backend}-{machine_cpu()}-linux"
    [planned] = [variant for variant in candidates(place, Releases().matrix).variants if variant.name == name]
    variant = planned._replace(suffix=f"-{_MODULE}", module=_MODULE, binding=True)
    path = write_files(place / variant.name, {"metadata.json": "{}", "pkg/inner/_C.py": text, **(more or {})})
    actions = VariantActions(variant=variant.name, directory="", run=0, shared=0, cached=0, seconds=0.0)
    return Built(variant=variant, path=path, size=0, actions=actions)


def _said(built: list[Built], torch: Torch, *others: Torch) -> str:
    err = io.StringIO()
    check_loads(built, Output(err=err, environ={}), lambda: [torch, *others], help="no wheel was written")
    return err.getvalue()


def test_a_module_is_loaded_under_its_name_until_it_changes(tmp_path: Path, torch: Torch) -> None:
    text = f"import pkg.inner\nfrom . import near\nassert (__name__, near.here) == ('{_MODULE}', 'pkg.inner.near')\n"
    packages = dict.fromkeys(("pkg/__init__.py", "pkg/inner/__init__.py"), "raise RuntimeError('needs a GPU')\n")
    files = {"pkg/inner/near.py": "here = __name__\n", "pkg/inner/lib_C.so": "1", **packages}
    built = _built(tmp_path, text, more=files)
    assert f"loading {built.variant.name} in torch 2.13 (cpu): done" in _said([built], torch)
    assert _said([built], torch) == ""
    write_files(built.path, {"metadata.json": '{"id": "another"}'})
    assert _said([built], torch) == ""
    write_files(built.path, {"pkg/inner/lib_C.so": "2"})
    assert f"loading {built.variant.name}" in _said([built], torch)


def test_the_same_bytes_are_loaded_in_each_release(tmp_path: Path, torch: Torch) -> None:
    both = [_built(tmp_path, "", release) for release in ("torch213", "torch215")]
    next_torch = Torch(python=torch.python, version="2.15", backend="cpu")
    said = _said(both, torch, next_torch)
    assert "in torch 2.13 (cpu): done" in said
    assert "in torch 2.15 (cpu): done" in said


def test_torch_is_imported_once_for_all_modules(tmp_path: Path, torch: Torch) -> None:
    imported = tmp_path / "imported"
    counting = f"open({str(imported)!r}, 'a').write('x')\ndef compiled_with_cxx11_abi():\n    return True\n"
    write_files(tmp_path / "site", {"torch/__init__.py": counting})
    text = "import sys\nassert not hasattr(sys, 'loaded')\nsys.loaded = {}\n"
    said = _said([_built(tmp_path / str(number), text.format(number)) for number in range(3)], torch)
    assert said.count(": done") == 3
    assert imported.read_text() == "x"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import atexit, os\natexit.register(os._exit, 3)", "exit code 3"),
        ("print('said')\nimport os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "the process died with SIGSEGV"),
        ("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nos.abort()", "the process died with SIGKILL"),
    ],
)
def test_a_module_that_ends_the_process_is_named(tmp_path: Path, torch: Torch, text: str, message: str) -> None:
    both = [_built(tmp_path / "first", ""), _built(tmp_path / "second", text, "torch215")]
    said = io.StringIO()
    second = Torch(python=torch.python, version="2.15", backend="cpu")
    with pytest.raises(DriverError, match=message):
        check_loads(both, Output(err=said, environ={}), lambda: [torch, second])
    assert f"loading {both[0].variant.name} in torch 2.13 (cpu): done" in said.getvalue()
    assert f"loading {both[1].variant.name} in torch 2.15 (cpu): failed" in said.getvalue()


def test_a_torch_that_cannot_be_imported_is_named(tmp_path: Path, torch: Torch) -> None:
    write_files(tmp_path / "site", {"torch/__init__.py": "raise OSError('libtorch.so: no such file')\n"})
    with pytest.raises(DriverError, match=r"OSError: libtorch\.so: no such file"):
        _said([_built(tmp_path, "")], torch)


def test_what_has_no_torch_here_is_counted(tmp_path: Path, torch: Torch) -> None:
    built = [_built(tmp_path, "raise ValueError"), _built(tmp_path, "raise ValueError", backend="cu130")]
    other = Torch(python=torch.python, version="2.15", backend="cpu")
    assert _said(built, other) == "2 modules not loaded here for lack of a matching torch\n"


@pytest.mark.parametrize("text", ["import pkg.types", "from pkg import types", "import pkg; pkg.types", "import gone"])
def test_a_module_that_needs_another_is_no_error(tmp_path: Path, torch: Torch, text: str) -> None:
    needed = "gone" if "gone" in text else "pkg.types"
    built = _built(tmp_path, text)
    for _ in range(2):  # it is loaded again: the other module may be there by then
        assert f": it needs `{needed}`, which is not there" in _said([built], torch)


def test_a_module_that_fails_is_an_error(tmp_path: Path, torch: Torch) -> None:
    built = _built(tmp_path, "raise ValueError('no such table')")
    with pytest.raises(DriverError) as caught:
        _said([built], torch)
    [problem] = caught.value.diagnostics
    assert problem.code is Code.LOAD_FAILED
    what = "ValueError: no such table (_C.py, line 1)"
    assert problem.message == f"{built.variant.name} cannot be loaded in torch 2.13: {what}"
    assert problem.help == "no wheel was written"


@pytest.mark.parametrize(
    ("text", "wrong", "lacks"),
    [
        ("x = 1\ndef (:", "SyntaxError: invalid syntax (__init__.py, line 2)", ""),
        ("from .near import x", "NameError: name 'x' is not defined (near.py, line 1)", ""),
        ("import own.near", "ImportError: the package imports itself as `own`, which is its name in a wheel only", ""),
        ("import own_more", "", "its library is; its Python package needs `own_more`, which is not there"),
        ("import ow", "", "its library is; its Python package needs `ow`, which is not there"),
    ],
)
def test_a_package_is_loaded_as_the_client_loads_it(
    tmp_path: Path, torch: Torch, text: str, wrong: str, lacks: str
) -> None:
    files = {"__init__.py": text, "near.py": "x", "_own_cpu_0123456789ab.py": ""}
    library = write_files(tmp_path / "variant", files) / "_own_cpu_0123456789ab.py"
    with loading(torch, [[str(library), "package", "cxx11"]]) as results:
        loaded = next(results)
    assert (loaded.wrong.startswith(wrong), loaded._replace(wrong="")) == (True, Loaded(lacks=lacks))
    assert bool(loaded.wrong) == bool(wrong)


def test_a_machine_without_a_gpu_lacks_the_library_of_its_driver(tmp_path: Path, torch: Torch) -> None:
    text = "raise ImportError('{}: cannot open shared object file: No such file or directory')"
    built = _built(tmp_path, text.format("libcuda.so.1"))
    assert ": it needs libcuda.so.1 of NVIDIA's driver, which is missing" in _said([built], torch)
    with pytest.raises(DriverError, match=r"ImportError: libown\.so: cannot open"):
        _said([_built(tmp_path, text.format("libown.so"))], torch)
