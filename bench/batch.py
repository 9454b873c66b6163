# ruff: noqa: INP001  (a program of its own)
"""CPU seconds of `driver batch` for N candidates, and of torch's load_inline for a few: python bench/batch.py PYTHON N.

PYTHON has torch and finds ninja; g++ must be there. The candidates differ in their kernel. They have it in a file of
its own, or with --whole in the text that includes torch's headers, as load_inline needs it. With --only-batch or
--only-torch one of the two is measured. Nothing of them must have been built before: --first begins with another one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOOP = "for (long i = 0; i < n; i++) b[i] = a[i] * f + %d * 0.f;"
WHOLE = """torch::Tensor scaled(torch::Tensor x, double factor) {
  auto y = torch::empty_like(x);
  const float* a = x.data_ptr<float>();
  float* b = y.data_ptr<float>();
  float f = factor;
  long n = x.numel();
  %s
  return y;
}"""
BINDING = """void run(float* b, const float* a, float f, long n);
torch::Tensor scaled(torch::Tensor x, double factor) {
  auto y = torch::empty_like(x);
  run(y.data_ptr<float>(), x.data_ptr<float>(), factor, x.numel());
  return y;
}"""
KERNEL = "void run(float* b, const float* a, float f, long n) {\n  %s\n}\n"
CHECK = {"inputs": [{"shape": [1000, 3]}, 2.5], "reference": "def reference(x, f):\n    return x * f\n"}
TORCHS = """
import sys, tempfile
from torch.utils.cpp_extension import load_inline
load_inline("scaled", sys.argv[1], functions="scaled", build_directory=tempfile.mkdtemp(), extra_cflags=["-O3"])
"""
FEW = 3


def candidate(number: int, *, whole: bool) -> dict[str, Any]:
    """The candidate of a number; each number has another one."""
    loop = LOOP % number
    text = WHOLE % loop if whole else BINDING
    files = {} if whole else {"kernel.cpp": KERNEL % loop}
    return {
        "id": str(number),
        "name": "scaled",
        "functions": "scaled",
        "cpp_sources": text,
        "files": files,
        **CHECK,
    }


def timed(command: list[str]) -> tuple[float, float, str]:
    """CPU seconds of a command with its children, seconds, and what it wrote to stderr.

    Raises:
        RuntimeError: the command failed.
    """
    start = time.monotonic()
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=told)
        _, status, usage = os.wait4(process.pid, 0)
        told.seek(0)
        text = told.read().decode()
    if status != 0:
        raise RuntimeError(f"{command} ended with {os.waitstatus_to_exitcode(status)}: {text}")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - start, text


def main() -> None:
    """Measure, and print a line for each command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("python")
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--only-batch", action="store_true")
    parser.add_argument("--only-torch", action="store_true")
    args = parser.parse_args()
    numbers = range(args.first, args.first + args.count)
    if not args.only_torch:
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.writelines(json.dumps(candidate(number, whole=args.whole)) + "\n" for number in numbers)
            file.flush()
            command = [str(ROOT / "driver"), "batch", file.name, "--python", args.python]
            cpu, seconds, text = timed(command)
        [actions] = re.findall(r"ran, ([\d.]+) s of CPU time", text)
        total = cpu + float(actions)
        sys.stdout.write(
            f"batch of {args.count}: {total:.1f} s of CPU ({actions} of actions), {seconds:.1f} s; {text}\n"
        )
    if not args.only_batch:
        for number in numbers[:FEW]:
            cpu, seconds, _ = timed([args.python, "-c", TORCHS, WHOLE % (LOOP % number)])
            sys.stdout.write(f"load_inline: {cpu:.1f} s of CPU, {seconds:.1f} s\n")


if __name__ == "__main__":
    main()
