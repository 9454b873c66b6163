"""Loads a variant: its library, then its Python package. Runs in a Python that has torch and nothing of the driver.

Arguments: the library; `package` or `library`; the C++ ABI of the variant, or nothing. For an extension module of a
setup.py: its file; `module`; the ABI; its dotted name. The exit code is 77 if the package or the module needs a module
that is not there, and 78 if torch has the other ABI; else that of Python.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import pathlib
import sys
import sysconfig
import types
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable


def load(name: str, path: pathlib.Path) -> None:
    """Import a library, a module, or a package from its `__init__.py`."""
    if path.suffix == ".so":
        loader = importlib.machinery.ExtensionFileLoader(name, str(path))
        spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    else:
        places = [str(path.parent)] if path.name == "__init__.py" else None
        spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=places)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    try:
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    except ImportError as problem:
        # pybind11 says no more than "initialization failed" of what Python raised.
        if path.suffix == ".so" and isinstance(problem.__cause__, Exception):
            raise problem.__cause__ from None
        raise


def load_module(name: str, path: pathlib.Path) -> None:
    """Import an extension module without its packages, or open the library if there is no function to import it."""
    *parents, last = name.split(".")
    above = None
    for depth, own in enumerate(parents, start=1):
        package = types.ModuleType(".".join(parents[:depth]))
        package.__path__ = [str(path.parents[len(parents) - depth])]
        package.__getattr__ = inside(package.__name__)  # type: ignore[method-assign]
        sys.modules[package.__name__] = package
        if above is not None:
            setattr(above, own, package)
        above = package
    if path.suffix != ".so" or hasattr(ctypes.CDLL(str(path)), f"PyInit_{last}"):
        load(name, path)


def inside(package: str) -> Callable[[str], object]:
    """What looks up a name in a package: a module, or something that is not there, which is no fault of the module."""

    def lookup(name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return importlib.import_module(f"{package}.{name}")

    return lookup


place, what, abi, *names = sys.argv[1:]
library = pathlib.Path(place)
identity = library.name.partition(".")[0]
if abi and (abi == "cxx11") != torch.compiled_with_cxx11_abi():
    sys.stderr.write("torch has the other C++ ABI\n")
    sys.exit(78)
if names:
    try:
        load_module(names[0], library)
    except ModuleNotFoundError as missing:
        sys.stderr.write(f"it needs `{missing.name}`, which is not there\n")
        sys.exit(77)
    sys.exit()
# Two modules of one library would both register the classes of pybind11: then the package imports it.
once = what == "package" and ".abi3." not in library.name
if ".abi3." in library.name and sysconfig.get_config_var("Py_GIL_DISABLED"):  # as a variant's own _ops.py
    torch.ops.load_library(library)
elif not once:
    load(identity, library)
if what == "package":
    try:
        load(f"{identity}_package", library.parent / "__init__.py")
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith(f"{identity}_package"):
            raise
        if once and f"{identity}_package.{identity}" not in sys.modules:
            load(identity, library)
        sys.stderr.write(f"its library is; its Python package needs `{missing.name}`, which is not there\n")
        sys.exit(77)
