"""`driver abi-check`: checks whether built libraries load wherever they should, beside others."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.cli import add_command
from py_driver.cli.arguments import releases_of
from py_driver.errors import DriverError, ExitCode, as_json
from py_driver.matrix.backends import BUILT
from py_driver.matrix.configurations import CPUS

if TYPE_CHECKING:
    from py_driver.building.abi_check import Checked
    from py_driver.cli import Subparsers
    from py_driver.output import Output


def _matching(pattern: str, what: str, text: str) -> str:
    if not re.fullmatch(pattern, text):
        raise argparse.ArgumentTypeError(f"`{text}` is not {what}")
    return text


def _archs(text: str) -> str:
    """A list of GPU architectures from the command line."""
    lists = (rf"{arch}(,{arch})*" for arch in filter(None, (known.arch for known in BUILT.values())))
    return _matching(rf"none|{'|'.join(lists)}", "a list like 8.0,9.0a,12.0+PTX or gfx90a,gfx942, or none", text)


def _version(text: str) -> str:
    """A version of torch from the command line."""
    return _matching(r"\d+\.\d+", "a version like 2.9", text)


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(
        subparsers,
        "abi-check",
        "build/torch213-cxx11-cu130-x86_64-linux",
        "relu_ops.so --torch 2.13 --cxx-abi cxx11 --archs 9.0,12.0+PTX",
        more="The directory of a variant states the requirements of its libraries. The options override them, and "
        "state them for other libraries.",
    )
    parser.add_argument("paths", metavar="PATH", nargs="+", type=Path, help="a library, or a directory of libraries")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--cpu", choices=CPUS, help="the required CPU (default: the CPU of the library)")
    parser.add_argument("--torch", metavar="M.N", type=_version, help="the torch that loads the library, e.g. 2.13")
    parser.add_argument("--cxx-abi", choices=["cxx11", "cxx98"], help="the C++ ABI of that torch")
    parser.add_argument(
        "--archs",
        metavar="LIST",
        type=_archs,
        help="all GPU architectures of its device code, e.g. 8.0,9.0a,12.0+PTX or gfx942; or none",
    )
    parser.add_argument(
        "--torch-stable-abi",
        metavar="M.N",
        type=_version,
        help="allow only torch's stable ABI, up to this torch release",
    )


def run(args: argparse.Namespace, output: Output) -> int:
    """Check; the exit code.

    Raises:
        DriverError: FILE_MISSING; FILE_KIND and NOT_COMPLIANT, one for each such library; all that building the
            program raises.
    """
    from py_driver.building.abi_check import build_program, check, expectations, find_libraries

    flags = {
        "--cpu": args.cpu,
        "--torch": args.torch,
        "--cxx-abi": args.cxx_abi,
        "--archs": args.archs,
        "--torch-stable-abi": args.torch_stable_abi,
    }
    chosen = {flag: value for flag, value in flags.items() if value is not None}
    wanted = {library: {**expectations(library), **chosen} for library in find_libraries(args.paths)}
    if args.archs is not None:
        for options in wanted.values():
            options.pop("--metadata-archs", None)
    program = build_program(output)
    releases = releases_of(args)
    results = [check(program, library, options, releases) for library, options in wanted.items()]
    wrong = [diagnostic for diagnostic in (result.diagnostic() for result in results) if diagnostic is not None]
    if args.json:
        libraries = [
            {
                "file": str(checked.path),
                "compliant": not checked.failure and not checked.findings,
                "findings": list(checked.findings),
                "notes": list(checked.notes),
                "gpu-code": list(checked.gpu_code),
            }
            for checked in results
        ]
        output.json({"libraries": libraries, "errors": [as_json(diagnostic) for diagnostic in wrong]})
        return wrong[0].code.exit_code if wrong else ExitCode.OK
    for result in results:
        _show(result, output)
    if wrong:
        raise DriverError(wrong)
    return ExitCode.OK


def _show(checked: Checked, output: Output) -> None:
    """Print what was found in a library: a line for each finding, and the help once for those that share it."""
    if checked.failure:
        return
    notes = [f"  note: {note}" for note in checked.notes]
    if not checked.findings:
        lines = [f"{checked.path}: passes the ABI check; device code: {' '.join(checked.gpu_code) or 'none'}", *notes]
        output.data("\n".join(lines))
        return
    output.data("\n".join([f"{checked.path}:", *notes]))
    following = [*(finding["help"] for finding in checked.findings[1:]), None]
    for finding, after in zip(checked.findings, following, strict=True):
        output.data(
            f"  {finding['rule']}: {finding['subject']}{': ' if finding['subject'] else ''}{finding['message']}"
        )
        if finding["help"] != after:
            output.data(f"    help: {finding['help']}")
