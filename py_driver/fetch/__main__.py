"""Runs as a program with any Python 3.11 or later, installed or not: `python3 -I .../fetch/__main__.py VERB ...`."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036  (a repository rule runs this with whatever python3 the machine has)
        sys.stderr.write(f"error[E308]: Python 3.11 or later is needed; {sys.executable} is {sys.version.split()[0]}\n")
        sys.exit(4)
    sys.dont_write_bytecode = True  # the module's directory is not ours to write into
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from py_driver.fetch.command import main

    sys.exit(main())
