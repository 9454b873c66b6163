# ruff: noqa: INP001  (a program of its own)
"""The time from an edit to a loadable build, under `driver run --watch`: python bench/loop.py [RUNS].

It measures a kernel for one CUDA architecture, and needs no GPU: a stand-in for Python claims to have a torch for CUDA
13.0, and nothing is loaded. If the variable TORCH_PYTHON names a Python with torch, and g++ and ninja are on PATH,
it also times `torch.utils.cpp_extension.load_inline` for the same function in C++.
"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from py_driver.output import Output  # noqa: E402  (the checkout is no installed package)

DRIVER = str(ROOT / "driver")
CU = ("csrc/loop.cu", "T(x / (1.0f", "T({} * x / (1.0f")
BINDING = ("torch-ext/torch_binding.cpp", "loop: out must be contiguous", "loop {}: out must be contiguous")
COMMENT = ("csrc/loop.cu", "// As many elements", "// {} As many elements")
PYTHON = ("torch-ext/loop/__init__.py", "    return out\n", "    out = out if {} else None\n    return out\n")
EDITS = {".cu": CU, "binding": BINDING, "comment": COMMENT, "Python": PYTHON}
FAKE = """#!/bin/sh
PYTHONPATH={place} exec {python} "$@"
"""
INLINE = """
import sys, time, torch
from torch.utils.cpp_extension import load_inline
code = '''
#include <cmath>
torch::Tensor silu(torch::Tensor in) {{
  torch::Tensor out = torch::empty_like(in);
  const float* from = in.data_ptr<float>();
  float* to = out.data_ptr<float>();
  for (int64_t i = 0; i < in.numel(); ++i) to[i] = {number} * from[i] / (1.0f + std::exp(-from[i]));
  return out;
}}
'''
start = time.perf_counter()
load_inline("silu{number}", code, functions=["silu"], build_directory=sys.argv[1])
print(time.perf_counter() - start)
"""


def watched(place: Path, runs: int) -> list[list[str]]:
    """Seconds from writing a file to the build with it, for each kind of edit: median, minimum and maximum."""
    project = place / "loop"
    subprocess.run([DRIVER, "init", project, "--name=loop"], check=True, stdout=subprocess.DEVNULL)
    stand_in = place / "torch-13.0"
    (stand_in / "torch").mkdir(parents=True)
    (stand_in / "torch" / "__init__.py").touch()
    (stand_in / "torch" / "version.py").write_text(
        "__version__, cuda, hip = '2.13.0', '13.0', None\n", encoding="utf-8"
    )
    python = stand_in / "python3"
    python.write_text(FAKE.format(place=stand_in, python=sys.executable), encoding="utf-8")
    python.chmod(0o755)
    environ = {**os.environ, "RULES_TORCH_KERNELS_TORCH_PYTHON": str(python)}
    command = [DRIVER, "run", str(project), "--watch", "--archs=9.0"]
    process = subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL, start_new_session=True)
    pointer = project / ".dev" / "current.torch213-cxx11-cu130-x86_64-linux.json"  # see DevBuild.pointer
    try:
        wait(pointer, 0)
        rows = []
        first = int(time.time()) % 100_000 * 100
        for name, (file, old, new) in EDITS.items():
            path = project / file
            text = path.read_text(encoding="utf-8")
            taken = []
            # Numbers that no earlier run had: its results are in the cache.
            for number in range(first, first + runs + 1):
                before = pointer.stat().st_mtime_ns
                start = time.perf_counter()
                path.write_text(text.replace(old, new.format(number)), encoding="utf-8")
                wait(pointer, before)
                taken.append(time.perf_counter() - start)
            rows.append(row(f"driver run --watch: {name}", taken[1:]))
        return rows
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # in the background, SIGINT is ignored
        process.wait()


def wait(pointer: Path, before: int) -> None:
    """Wait for a newer build."""
    while not pointer.is_file() or pointer.stat().st_mtime_ns == before:
        time.sleep(0.005)


def inline(python: str, place: Path, runs: int) -> list[list[str]]:
    """Seconds of load_inline for a function in C++, with another text in each run."""
    taken = []
    for number in range(runs):
        directory = place / f"inline{number}"
        directory.mkdir()
        program = INLINE.format(number=number + 2)
        environ = {**os.environ, "PATH": f"{Path(python).parent}:{os.environ['PATH']}"}
        done = subprocess.run(
            [python, "-c", program, directory], check=True, capture_output=True, text=True, env=environ
        )
        taken.append(float(done.stdout.split()[-1]))
        shutil.rmtree(directory)
    return [row("load_inline, C++, in a new process", taken)]


def row(name: str, taken: list[float]) -> list[str]:
    """A row of the table."""
    return [name, *(f"{value:.2f}" for value in (statistics.median(taken), min(taken), max(taken)))]


def main() -> None:
    """Measure, and print a table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    python = os.environ.get("TORCH_PYTHON", "")
    with tempfile.TemporaryDirectory(prefix="loop-") as name:
        rows = watched(Path(name), runs)
        rows += inline(python, Path(name), runs) if python else []
    Output().table(["from edit to build", "median s", "least", "most"], rows, right=(1, 2, 3))


if __name__ == "__main__":
    main()
