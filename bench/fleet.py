# ruff: noqa: INP001  (a program of its own)
"""The cost of a repository with many projects: python bench/fleet.py write DIR COUNT, then measure DIR ARGUMENT...

`write` makes projects out of the templates of `driver init` and of bench/projects, each with a name of its own, so that
no two share an action. `measure` runs `driver build DIR ARGUMENT...` and prints one line of JSON: seconds, CPU seconds
and memory of the driver, and those of Bazel's server. With `--edit` one source of the first project is changed before.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
KERNELS: Final = ("light", "light_torch")
TEMPLATES: Final = ("elementwise", "reduction", "layer-norm", "stable-abi")


def write(directory: Path, count: int) -> None:
    """Make projects: those of a kind differ only in their names.

    Args:
        directory: the directory, empty or missing.
        count: the number of projects.
    """
    directory.mkdir(parents=True, exist_ok=True)
    kinds = (*KERNELS, *TEMPLATES)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        name = f"{kind.replace('_', '-')}-{number}"
        path = directory / name
        first = directory / f"{kind.replace('_', '-')}-{kinds.index(kind)}"
        if kind in TEMPLATES and number < len(kinds):
            command = [str(ROOT / "driver"), "init", str(path), "--template", kind, "--name", name]
            subprocess.run([*command, "--backends", "cpu", "cuda"], check=True, stdout=subprocess.DEVNULL)
        else:
            shutil.copytree(ROOT / "bench" / "projects" / kind if kind in KERNELS else first, path)
            _rename(path, kind, number)


def _rename(path: Path, kind: str, number: int) -> None:
    """Put the number of a copy of a project into its name, everywhere."""
    old = _name_of(path)
    new = f"{kind.replace('_', '-')}-{number}"
    words = {old: new, old.replace("-", "_"): new.replace("-", "_")}
    pattern = re.compile("|".join(rf"(?<![a-zA-Z0-9]){re.escape(word)}(?![0-9])" for word in words))
    for file in sorted(path.rglob("*"), key=lambda file: -len(file.parts)):
        if file.is_file():
            text = file.read_text(encoding="utf-8")
            file.write_text(pattern.sub(lambda found: words[found[0]], text), encoding="utf-8")
        if pattern.search(file.name):
            file.rename(file.with_name(pattern.sub(lambda found: words[found[0]], file.name)))


def _name_of(path: Path) -> str:
    found = re.search(r'^name = "([^"]*)"', (path / "build.toml").read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else path.name


def edit(directory: Path) -> None:
    """Change the code of one source of the first project."""
    source = min(directory.glob("*/csrc/*.cpp"))
    text = re.sub(r"\nint edited_\d+\(\) { return 0; }\n", "", source.read_text(encoding="utf-8"))
    source.write_text(f"{text}\nint edited_{time.time_ns()}() {{ return 0; }}\n", encoding="utf-8")


def measure(directory: Path, arguments: list[str]) -> dict[str, Any]:
    """One build of all projects.

    Raises:
        RuntimeError: it failed.
    """
    start = time.monotonic()
    command = [str(ROOT / "driver"), "build", str(directory), *arguments]
    before, _ = _servers(directory)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    told = process.stderr.read() if process.stderr else ""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}: {told[-2000:]}")
    after, peak = _servers(directory)
    return {
        "projects": sum(1 for _ in directory.glob("*/build.toml")),
        "arguments": " ".join(arguments),
        "seconds": round(time.monotonic() - start, 2),
        "driver_cpu": round(usage.ru_utime + usage.ru_stime, 2),
        "driver_mb": usage.ru_maxrss // 1024,
        "bazel_cpu": round(sum(cpu - before.get(process, 0.0) for process, cpu in after.items()), 2),
        "bazel_mb": peak,
    }


def _servers(directory: Path) -> tuple[dict[str, float], int]:
    """The CPU seconds of each Bazel server whose workspace has the first project, and the peak of memory in MB."""
    cpu, peak = dict[str, float](), 0
    ticks = os.sysconf("SC_CLK_TCK")
    project = _name_of(min(directory.glob("*/build.toml")).parent).replace("-", "_")
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode(errors="replace")
            workspace = re.search("--workspace_directory=([^\0]+)", command)
            if workspace is None or not (Path(workspace[1]) / "projects" / project).is_dir():
                continue
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            cpu[process.name] = (int(fields[11]) + int(fields[12])) / ticks
            status = (process / "status").read_text()
        except OSError:
            continue
        if found := re.search(r"VmHWM:\s+(\d+)", status):
            peak = max(peak, int(found[1]) // 1024)
    return cpu, peak


def main() -> None:
    """Write a fleet, or measure one."""
    command, directory, *rest = sys.argv[1:]
    if command == "write":
        write(Path(directory), int(rest[0]))
        return
    if "--edit" in rest:
        rest.remove("--edit")
        edit(Path(directory))
    sys.stdout.write(json.dumps(measure(Path(directory), rest)) + "\n")


if __name__ == "__main__":
    main()
