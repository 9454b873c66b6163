# ruff: noqa: INP001  (a program of its own)
"""The CPU time of commands beyond the bare interpreter, in milliseconds: python bench/startup.py [RUNS]."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from py_driver.output import Output  # noqa: E402  (the checkout is no installed package)

PROJECT = str(ROOT / "examples" / "relu")
COMMANDS = (
    ("--help",),
    ("check", PROJECT),
    ("check", "--json", PROJECT),
    ("variants", PROJECT),
    ("gen", "--check", PROJECT),
)
# Isolated like an installed driver: no user site, no PYTHONPATH, no current directory.
_PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from py_driver.__main__ import main; sys.exit(main())"


def cpu_seconds(arguments: list[str]) -> float:
    """CPU time of a fresh interpreter with its children.

    Raises:
        RuntimeError: it failed.
    """
    command = [sys.executable, "-I", *arguments]
    null = os.open(os.devnull, os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, null, stream) for stream in (0, 1, 2)]
    process = os.posix_spawn(sys.executable, command, os.environ, file_actions=actions)
    os.close(null)
    _, status, usage = os.wait4(process, 0)
    if status != 0:
        raise RuntimeError(f"{command} ended with {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime


def best(arguments: list[str], runs: int) -> float:
    """The minimum CPU time of several runs, in milliseconds."""
    return 1000 * min(cpu_seconds(arguments) for _ in range(runs))


def main() -> None:
    """Measure, and print a table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    bare = best(["-c", "pass"], runs)
    rows = [["(bare interpreter)", f"{bare:.1f}", ""]]
    for command in COMMANDS:
        total = best(["-c", _PROGRAM, str(ROOT), *command], runs)
        name = " ".join(word.removeprefix(f"{ROOT}/") for word in command)
        rows.append([f"driver {name}", f"{total:.1f}", f"{total - bare:.1f}"])
    Output().table(["command", "total ms", "beyond ms"], rows, right=(1, 2))


if __name__ == "__main__":
    main()
