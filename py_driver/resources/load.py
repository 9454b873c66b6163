"""Loads variants, each in a process of its own. Runs in a Python that has torch and nothing of the driver.

torch is imported once, and the process is forked for each variant. The argument is the number of seconds that torch,
and each variant, may take. stdin has a JSON list with an entry for each variant: the library; `package` or `library`;
the C++ ABI, or an empty text. For an extension module of a setup.py: its file; `module`; the ABI; its dotted name.

stdout has a line of JSON for each variant: the exit code, and the text of stderr. The code is 77 if the package or the
module needs a missing module, and 78 if torch has the other ABI; it is negative if a signal ended the process, SIGALRM
after the time.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import signal
import sys
import sysconfig
import tempfile
import types
from typing import TYPE_CHECKING

SECONDS = int(sys.argv[1])
signal.alarm(SECONDS)
import torch  # noqa: E402  (it may hang, too)

signal.alarm(0)

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


def check_own_name(missing: ModuleNotFoundError, identity: str) -> None:
    """Refuse an import of the package by the name in its identity, `_<name>_<backend>_<hash>`."""
    name = (missing.name or "").partition(".")[0]
    if identity.rsplit("_", 2)[0] == f"_{name}":
        message = f"the package imports itself as `{name}`, which is its name in a wheel only: use relative imports"
        raise ImportError(message) from missing


def load_variant(place: str, what: str, abi: str, *names: str) -> None:
    """Load a variant, as the head of this file says; `what` is its second word, `names` has the name of a module."""
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
        return
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
            check_own_name(missing, identity)
            if once and f"{identity}_package.{identity}" not in sys.modules:
                load(identity, library)
            sys.stderr.write(f"its library is; its Python package needs `{missing.name}`, which is not there\n")
            sys.exit(77)


for variant in json.load(sys.stdin):
    with tempfile.TemporaryFile() as err:
        process = os.fork()
        if not process:
            # The process ends as any other: what a library does at its end is part of the check.
            signal.alarm(SECONDS)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(err.fileno(), 2)
            load_variant(*variant)
            sys.exit()
        status = os.waitpid(process, 0)[1]
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        err.seek(0)
        print(json.dumps([code, err.read().decode(errors="replace")]), flush=True)  # noqa: T201
