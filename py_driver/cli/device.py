"""`driver device`: shows the GPU and the tools of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from py_driver.cli import add_command
from py_driver.cli.arguments import releases_of
from py_driver.errors import Code, DriverError, ExitCode, error

if TYPE_CHECKING:
    import argparse

    from py_driver.cli import Subparsers
    from py_driver.output import Output

_TERA = 1e12


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(subparsers, "device", "--measure", "--project relu --json")
    parser.add_argument(
        "--measure",
        action="store_true",
        help="measure the GPU's throughput of memory copies and matrix products; `driver bench` compares with it",
    )
    parser.add_argument(
        "--project",
        metavar="DIR",
        type=Path,
        help="also show the variant of this project that `driver run` would build",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace, output: Output) -> int:
    """Show the machine; returns the exit code.

    Raises:
        DriverError: SET_UP if `--measure` finds no torch with a GPU; an error in the project.
    """
    from py_driver.authoring.ceilings import gpu_facts
    from py_driver.authoring.device import counters, gpus, may_count, tools
    from py_driver.building.installed_torch import importable_torch

    torch = importable_torch()
    found: dict[str, Any] = {
        "gpus": gpus(),
        "torch": {"version": torch.version, "backend": torch.backend, "python": torch.python} if torch else None,
        "counters": {"for": counters(), "allowed": may_count()},
        "tools": tools(),
    }
    if torch and torch.backend != "cpu" and found["gpus"]:
        try:
            facts = gpu_facts(torch.python)
        except DriverError as problem:
            output.warn(problem.diagnostics[0].message)
        else:
            found["gpus"][0] |= {"multiprocessors": facts["multiprocessors"], "l2_bytes": facts["l2_bytes"]}
    if args.project is not None:
        found["variant"] = _variant(args)
    if args.measure:
        found["ceilings"] = _ceilings(output)
    if args.json:
        output.json(found)
    else:
        _show(found, output)
    return ExitCode.OK


def _variant(args: argparse.Namespace) -> str:
    """The variant of a project that this machine runs.

    Raises:
        DriverError: SET_UP if no torch is installed; see `local_variant`.
    """
    from py_driver.authoring.local_variant import local_variant
    from py_driver.authoring.machine import this_machine
    from py_driver.plan.plan import plan_directory

    plan = plan_directory(args.project, releases_of(args))
    try:
        machine = this_machine()
    except DriverError as failure:
        advice = "activate an environment that has torch"
        raise DriverError(problem._replace(help=advice) for problem in failure.diagnostics) from None
    return local_variant(plan, machine.torch, machine.archs).name


def _ceilings(output: Output) -> dict[str, float]:
    """The maximum throughput of the GPU, measured now.

    Raises:
        DriverError: SET_UP without a torch for GPUs; LOAD_FAILED.
    """
    from py_driver.authoring.ceilings import measured
    from py_driver.building.installed_torch import importable_torch

    torch = importable_torch()
    if torch is None or torch.backend == "cpu":
        raise error(Code.SET_UP, "no python3 on PATH has a torch for GPUs", help="activate an environment that has one")
    return {**measured(torch.python, output, again=True)}


def _show(found: dict[str, Any], output: Output) -> None:
    """Print the facts for people."""
    rows: list[tuple[str, str]] = []
    for gpu in found["gpus"]:
        rows += [
            ("GPU", f"{gpu['name']}, {gpu['architecture']}, capability {gpu['capability']}, driver {gpu['driver']}"),
            ("memory", f"{gpu['memory_mib']} MiB"),
            ("clocks", f"up to {gpu['max_clock_mhz']} MHz, memory {gpu['max_memory_clock_mhz']} MHz"),
        ]
        if gpu.get("l2_bytes"):
            rows.append(("parts", f"{gpu['multiprocessors']} multiprocessors, {gpu['l2_bytes'] >> 20} MiB of L2 cache"))
        rows += [("throttled", reason) for reason in gpu["throttled_by"]]
        if gpu["registers_per_multiprocessor"]:
            shared, block = gpu["shared_kib"]
            registers = gpu["registers_per_multiprocessor"]
            rows.append(
                ("multiprocessor", f"{registers} registers, {shared} KiB of shared memory, {block} for a block")
            )
        for family, facts in gpu["instructions"].items():
            types = f" ({', '.join(facts['types'])})" if facts["types"] else ""
            rows.append((family, f"{facts['what'].partition(': ')[2]}{types}"))
        rows += [("note", gpu["note"])] if gpu["note"] else []
    rows += [] if found["gpus"] else [("GPU", "no NVIDIA GPU is found")]
    torch = found["torch"]
    rows.append(("torch", f"{torch['version']} for {torch['backend']}, of {torch['python']}" if torch else "none"))
    rows += [("variant", found["variant"])] if "variant" in found else []
    if found["counters"]["for"]:
        rows.append(("counters", f"for {found['counters']['for']}"))
    rows += [(name, f"{tool['version']} {tool['use']}, {tool['path']}") for name, tool in found["tools"].items()]
    for name, value in found.get("ceilings", {}).items():
        unit = "TB/s" if name == "copy" else "TFLOP/s"
        rows.append((name, f"{value / _TERA:.2f} {unit}, measured"))
    output.table(("what", "value"), rows)
