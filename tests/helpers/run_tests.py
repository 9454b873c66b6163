"""Runs the functions `test_*` of Python files, each file in its own process: for an interpreter without pytest."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys

if len(sys.argv) > 2:
    failed = [name for name in sys.argv[1:] if subprocess.run([sys.executable, __file__, name], check=False).returncode]
    sys.exit(f"failed: {' '.join(failed)}" if failed else 0)
found = {name: member for name, member in runpy.run_path(sys.argv[1]).items() if name.startswith("test_")}
for test in found.values():
    test()
sys.stdout.write(f"{os.path.relpath(sys.argv[1])}: {len(found)} passed\n")
