"""`driver abi-check`: checks whether built libraries and wheels load on all supported systems, and together."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.cli import add_command
from py_driver.cli.arguments import releases_of
from py_driver.errors import Code, DriverError, ExitCode, as_json, error
from py_driver.matrix.backends import BUILT
from py_driver.matrix.configurations import CPUS
from py_driver.output import joined

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from py_driver.building.abi_check import Checked
    from py_driver.cli import Subparsers
    from py_driver.output import Output
    from py_driver.publishing.wheel_check import CheckedWheel


_ALL: Final = "all"


def _matching(pattern: str, expected: str, text: str) -> str:
    if not re.fullmatch(pattern, text):
        raise argparse.ArgumentTypeError(f"`{text}` is not {expected}")
    return text


def _archs(text: str) -> str:
    """A list of GPU architectures from the command line."""
    lists = (rf"{arch}(,{arch})*" for arch in filter(None, (known.arch for known in BUILT.values())))
    return _matching(rf"none|{'|'.join(lists)}", "a list like 8.0,9.0a,12.0+PTX or gfx90a,gfx942, or none", text)


def _version(text: str) -> str:
    """A version of torch from the command line."""
    return _matching(r"\d+\.\d+", "a version like 2.9", text)


def _versions(text: str) -> str:
    """A version of torch from the command line, or `all`."""
    return _matching(rf"{_ALL}|\d+\.\d+", "a version like 2.9, or all", text)


def _python(text: str) -> str:
    """A version of Python from the command line."""
    return _matching(r"3\.\d+t?", "a version like 3.13", text)


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(
        subparsers,
        "abi-check",
        "build/torch213-cxx11-cu130-x86_64-linux",
        "torchvision-0.29.1-cp312-cp312-manylinux_2_28_x86_64.whl --torch all",
        more="The directory of a variant, and the metadata of a wheel, state the requirements of their libraries. The "
        "options override them, and state them for other libraries.",
    )
    parser.add_argument(
        "paths", metavar="PATH", nargs="+", type=Path, help="a library, a wheel, or a directory of them"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--cpu", choices=CPUS, help="the required CPU (default: the CPU of the library)")
    parser.add_argument(
        "--torch",
        metavar="M.N",
        type=_versions,
        help="the torch that loads the library, e.g. 2.13; all: print a table of the torch, CUDA, Python and glibc "
        "releases that any library, wheel or installed package loads with, and of what is missing",
    )
    parser.add_argument(
        "--python",
        metavar="M.N",
        type=_python,
        help="the single Python that loads the library, e.g. 3.13 (default: every Python)",
    )
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
    """Check; returns the exit code.

    Raises:
        DriverError: USAGE; FILE_MISSING; FILE_KIND and NOT_COMPLIANT, with a diagnostic for each such library or wheel;
            what building the program raises.
    """
    from py_driver.building.abi_check import build_program, check, expectations, find_libraries
    from py_driver.publishing.wheel_check import find_wheels

    flags = {
        "--cpu": args.cpu,
        "--torch": args.torch,
        "--python": args.python,
        "--cxx-abi": args.cxx_abi,
        "--archs": args.archs,
        "--torch-stable-abi": args.torch_stable_abi,
    }
    chosen = {flag: value for flag, value in flags.items() if value is not None}
    if args.torch == _ALL:
        from py_driver.cli.load_tables import show_load_tables

        if further := [flag for flag in chosen if flag != "--torch"]:
            raise error(Code.USAGE, f"`--torch all` excludes {joined(further)}", help="the table has every release")
        return show_load_tables(args.paths, releases_of(args), output, as_json=args.json)
    if args.archs is not None:
        chosen["--metadata-archs"] = ""
    paths, others = find_wheels(args.paths)
    libraries = {library: expectations(library) for library in (find_libraries(others) if others else ())}
    program = build_program(output)
    releases = releases_of(args)

    def judge(library: Path, options: Mapping[str, str]) -> Checked:
        wanted = {option: value for option, value in {**options, **chosen}.items() if value}
        return check(program, library, wanted, releases)

    results = [judge(library, options) for library, options in libraries.items()]
    wrong = [diagnostic for diagnostic in (result.diagnostic() for result in results) if diagnostic is not None]
    wheels = _wheels(paths, judge)
    wrong += [diagnostic for wheel in wheels for diagnostic in wheel.diagnostics()]
    results += [library for wheel in wheels for library in wheel.libraries]
    if args.json:
        shown = [
            {
                "file": str(checked.path),
                "compliant": not checked.failure and not checked.findings,
                "findings": list(checked.findings),
                "notes": list(checked.notes),
                "gpu-code": list(checked.gpu_code),
            }
            for checked in results
        ]
        output.json(
            {
                "libraries": shown,
                "wheels": [_as_json(wheel) for wheel in wheels],
                "errors": [as_json(diagnostic) for diagnostic in wrong],
            }
        )
        return wrong[0].code.exit_code if wrong else ExitCode.OK
    for result in results:
        _show(result, output)
    for wheel in wheels:
        if not wheel.problems:
            output.data(f"{wheel.path}: its RECORD and its metadata are valid; {wheel.described()}")
    if wrong:
        raise DriverError(wrong)
    return ExitCode.OK


def _wheels(paths: Sequence[Path], judge: Callable[[Path, Mapping[str, str]], Checked]) -> list[CheckedWheel]:
    """Check wheels.

    Args:
        paths: the paths of the wheels.
        judge: the ABI check of a library, with options that state the expectations.
    """
    import tempfile

    from py_driver.publishing.wheel_check import check_wheel

    checked = []
    for path in paths:
        with tempfile.TemporaryDirectory() as work:
            checked.append(check_wheel(path, Path(work), judge))
    return checked


def _as_json(wheel: CheckedWheel) -> dict[str, object]:
    """A wheel as a value for JSON."""
    return {
        "file": str(wheel.path),
        "torch": wheel.torch,
        "backend": wheel.backend,
        "libraries": [str(library.path) for library in wheel.libraries],
        "problems": list(wheel.problems),
    }


def _show(checked: Checked, output: Output) -> None:
    """Print the findings about a library: a line for each finding, and a shared help once."""
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
