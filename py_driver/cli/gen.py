"""`driver gen`: writes BUILD.bazel from build.toml or setup.py, or checks that it is fresh."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING

from py_driver.cli import add_command
from py_driver.cli.arguments import add_project, releases_of
from py_driver.cli.bindings import EVERY, add_bindings, all_pythons, bindings_of, check_no_bindings
from py_driver.cli.projects import exit_code, extensions_of, for_each, projects_of, run_extensions, summary
from py_driver.errors import Code, ExitCode, error
from py_driver.output import counted, printable

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from py_driver.cli import Subparsers
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Plan

BUILD_FILE = "BUILD.bazel"
"""The name of the generated file."""

RECORDS = "setup.records.json"
"""The file beside it with the modules of a setup.py for each variant."""


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(subparsers, "gen", "relu", "relu --check")
    add_project(parser, several=True)
    add_bindings(parser, EVERY)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 with a diff if BUILD.bazel is out of date"
    )


def run(args: argparse.Namespace, output: Output) -> int:
    """Generate or check; returns the exit code.

    Raises:
        DriverError: BAD_VALUE if the name of a file is not possible in a label; STALE_BUILD_FILE if `--check` finds a
            difference; FOREIGN_FILE if the present BUILD.bazel is not generated; PERMISSION; and what `plan_directory`
            raises. With several projects only errors that concern all.
    """
    if extensions_of(args):
        return run_extensions(args, output, lambda directory: _generate_extension(directory, args, output), run)
    check_no_bindings(args)
    projects = projects_of(args)
    releases = releases_of(args)
    if projects is None:
        return _generate(args.directories[0], releases, args, output)
    outcomes = for_each(projects, lambda directory: _generate(directory, releases, args, output), output)
    output.say(summary(outcomes, "up to date" if args.check else "generated"))
    return exit_code(outcomes)


def _generate(directory: Path, releases: Releases, args: argparse.Namespace, output: Output) -> int:
    """Generate or check the file of a project with a build.toml; returns the exit code."""
    from py_driver.manifest.paths import SIGNS
    from py_driver.matrix.installation import label_prefix
    from py_driver.plan.buildfile import HEADER, render
    from py_driver.plan.plan import plan_directory

    plan = plan_directory(directory, releases, strict_archs=args.strict_archs)
    output.notes(plan.notes)
    if name := next(iter(plan.own_names.values()), ""):
        file = f"{plan.python_root}/{name}"
        message = f"BUILD.bazel cannot list `{file}`: its name has more than ASCII letters, digits and `{SIGNS}`"
        advice = "rename it, or build without `driver gen`: `driver build` needs no BUILD.bazel and accepts any name"
        raise error(Code.BAD_VALUE, message, help=advice)
    texts = {BUILD_FILE: render(plan, label_prefix(directory))}
    return _write(directory, texts, HEADER, len(plan.variants), output, check=args.check)


def _generate_extension(directory: Path, args: argparse.Namespace, output: Output) -> int:
    """Generate or check the files of a project with a setup.py; returns the exit code."""
    from py_driver.matrix.installation import label_prefix
    from py_driver.plan.buildfile import EXTENSION_HEADER, render

    plan, records = _recorded(directory, args, output)
    texts = {BUILD_FILE: render(plan, label_prefix(directory)), RECORDS: records}
    return _write(directory, texts, EXTENSION_HEADER, len(plan.variants), output, check=args.check)


def _recorded(directory: Path, args: argparse.Namespace, output: Output) -> tuple[Plan, str]:
    """The plan of a project with a setup.py, and its records as JSON.

    Raises:
        DriverError: UNSUPPORTED if setup.py creates sources, or has no extension module; what `plan_extension` raises.
    """
    from py_driver.building.build import Options
    from py_driver.building.extension import plan_extension

    releases = releases_of(args)
    bindings = bindings_of(args, releases.matrix, all_pythons)
    extension = plan_extension(directory, (), releases, output, Options(strict_archs=args.strict_archs), bindings)
    output.notes(extension.notes)
    variants = [variant for plan in extension.plans for variant in plan.variants]
    if installed := [
        variant.python for variant in variants if variant.python and variant.python.key != variant.python.version
    ]:
        message = f"BUILD.bazel cannot name Python {installed[0].version}, which is installed only on this machine"
        raise error(Code.UNSUPPORTED, message, help=f"choose from the lock: {', '.join(releases.matrix.cpython)}")
    created = sorted({name for plan in extension.plans for name in plan.generated})
    if created or len(extension.plans) != 1:
        message = f"{directory} has sources that setup.py creates: {', '.join(created) or 'others for each variant'}"
        advice = "add them to the project, or build with `driver build`, which runs setup.py"
        raise error(Code.UNSUPPORTED, message, help=advice)
    if not extension.plans[0].variants:
        message = f"{directory} has no extension module, so there is nothing for Bazel to build"
        raise error(Code.UNSUPPORTED, message, help="`driver wheel` makes its wheel")
    records = {
        configured.variant.name: json.loads(configured.recording.record.as_json())
        for configured in extension.configured
    }
    return extension.plans[0], json.dumps(records, indent=2, sort_keys=True) + "\n"


def _write(  # noqa: PLR0913  (what is written, where, and the option)
    directory: Path, texts: dict[str, str], header: str, variants: int, output: Output, *, check: bool
) -> int:
    """Write generated files, or check them; returns the exit code.

    Args:
        directory: the directory of the project.
        texts: the texts, by file name.
        header: the first line of BUILD.bazel.
        variants: the number of variants.
        output: where to report the written files.
        check: whether to write nothing, and to fail if a file differs.
    """
    from py_driver.system.files import difference, write

    for name, text in texts.items():
        path = directory / name
        old = _read(path)
        if name == BUILD_FILE and old is not None and not old.startswith(header + "\n"):
            advice = f"move it, or let `driver gen` overwrite it by making its first line `{header}`"
            raise error(Code.FOREIGN_FILE, f"{path} was not written by `driver gen`", help=advice)
        if old == text:
            output.say(f"{printable(str(path))} is up to date")
            continue
        if check:
            output.data(difference(old or "", text, str(path), f"{path} (generated)"))
            source = "build.toml" if len(texts) == 1 else "setup.py"
            advice = f"run `driver gen {directory}`"
            raise error(Code.STALE_BUILD_FILE, f"{path} does not match {source}", help=advice)
        write(path, text.encode())
        output.say(f"wrote {printable(str(path))}: {counted(variants, 'variant')}")
    return ExitCode.OK


def _read(path: Path) -> str | None:
    """The text of a regular file, or None if there is no file."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise error(Code.FOREIGN_FILE, f"{path} is not a regular file", help="move it away")
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        if path.is_symlink():
            advice = "remove it, or create the file that it leads to"
            raise error(Code.FOREIGN_FILE, f"{path} is a dangling symbolic link", help=advice) from None
        return None
    except OSError as problem:
        raise error(Code.PERMISSION, f"cannot read {path}: {problem.strerror}") from None
