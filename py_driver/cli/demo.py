"""`driver demo`: builds a project and runs its example with the built variants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.cli import add_command
from py_driver.cli.arguments import releases_of
from py_driver.cli.build import add_arguments, build_projects, options_of, show, show_several
from py_driver.cli.projects import exit_code, projects_of, then
from py_driver.errors import Code, ExitCode, error
from py_driver.output import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from py_driver.building.build import Build
    from py_driver.cli import Subparsers
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Variant


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(subparsers, "demo", "relu", "relu --torch 2.13 --backend cpu")
    add_arguments(parser, several=True)


def run(args: argparse.Namespace, output: Output) -> int:
    """Build, load, run the example, and print its output; returns the exit code.

    Raises:
        DriverError: see `building.build`; LOAD_FAILED if the example fails, or its requirements cannot be read;
            with several projects only errors that concern all.
    """
    from py_driver.building.build import build_prepared, prepare
    from py_driver.building.installed_torch import python_for
    from py_driver.system.beside import beside

    projects = projects_of(args)
    releases = releases_of(args)
    if projects is None:
        options = options_of(args)
        prepared = prepare(args.directories[0], args.variant, releases, output, options)
        _check_cpu(prepared.chosen)
        configurations = [variant.configuration for variant in prepared.chosen]
        # torch is downloaded and unpacked while Bazel downloads and compiles.
        more = _requirements(args.directories[0])
        with beside(lambda work: python_for(configurations, releases, output, work.started, more)) as python:
            done = build_prepared(prepared, releases, output, options)
            _run_example(done, python.result(), output)
        show(done, output)
        return ExitCode.OK
    outcomes = then(
        build_projects(projects, args, output),
        lambda outcome: _run_example(
            outcome, _python_for(outcome, releases, output), output, title=f"{printable(str(outcome.directory))}:"
        ),
        output,
    )
    show_several(outcomes, output, "built, and their examples run")
    return exit_code(outcomes)


def _check_cpu(variants: Sequence[Variant]) -> None:
    """Raise UNSUPPORTED if all variants are for another CPU than this machine's."""
    from py_driver.system.machine import machine_cpu

    if all(variant.configuration.cpu not in (None, machine_cpu()) for variant in variants):
        message = f"no variant is for this machine's CPU, {machine_cpu()}"
        raise error(Code.UNSUPPORTED, message, help="run it on a machine with such a CPU; `driver build` builds it")


def _python_for(done: Build, releases: Releases, output: Output) -> str:
    """An interpreter for a build; see `_check_cpu` and `python_for`."""
    from py_driver.building.installed_torch import python_for

    _check_cpu([built.variant for built in done.variants])
    configurations = [built.variant.configuration for built in done.variants]
    return python_for(configurations, releases, output, more=_requirements(done.directory))


def _requirements(directory: Path) -> tuple[str, ...]:
    """The further requirements of a project's example; empty if there is no example."""
    from py_driver.authoring.example import EXAMPLE
    from py_driver.authoring.script_requirements import requirements_of_command

    return requirements_of_command([str(directory / EXAMPLE)])


def _run_example(done: Build, python: str, output: Output, title: str = "") -> Build:
    """Run the example of a project with its build, and print the output; returns the build.

    Args:
        done: the build.
        python: the interpreter that loads the build.
        output: where to print.
        title: a line above the output; empty for none.

    Raises:
        DriverError: see `run_example`.
    """
    from py_driver.authoring.example import run_example

    with output.task(f"running the example of {done.plan.name}") as task:
        printed = run_example(done.directory, python)
        task.done("done")
    for text in (*filter(None, [title]), printed, ""):
        output.data(text)
    return done
