"""Fetches pinned archives for the repository rules: python3 -I fetch.py COMMAND ...

Any Python 3.11 or later runs it. The code is the driver's, in `py_driver/fetch/`: beside `toolchains/` in a checkout
or a released module, around the module in an installed wheel.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path


def _load_driver() -> None:
    """Load `py_driver` by its path: an installed driver lies beside packages for another Python, which stay hidden."""
    root = Path(__file__).resolve().parents[1]
    package = next((path for path in (root / "py_driver", root.parent) if (path / "fetch").is_dir()), None)
    if package is None:
        sys.stderr.write(f"error[E308]: py_driver/fetch is neither in {root} nor beside it: the module is incomplete\n")
        sys.exit(4)
    loader = SourceFileLoader("py_driver", str(package / "__init__.py"))
    spec = ModuleSpec("py_driver", loader, is_package=True)
    spec.submodule_search_locations = [str(package)]
    sys.modules["py_driver"] = module_from_spec(spec)
    loader.exec_module(sys.modules["py_driver"])


if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036  (a repository rule runs this with whatever python3 the machine has)
        sys.stderr.write(f"error[E308]: Python 3.11 or later is needed; {sys.executable} is {sys.version.split()[0]}\n")
        sys.exit(4)
    sys.dont_write_bytecode = True  # the module's directory may belong to someone else
    _load_driver()
    from py_driver.fetch.command import main

    sys.exit(main())
