"""`driver tune`: finds the fastest configuration of a kernel for each problem."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from py_driver.cli import add_command
from py_driver.cli.arguments import releases_of
from py_driver.cli.run import add_local, check_project, local_choices, machine_of
from py_driver.errors import Code, ExitCode, error
from py_driver.output import counted
from py_driver.system.files import is_file, reading, together, write, writing

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from py_driver.cli import Subparsers
    from py_driver.output import Output
    from py_driver.tuning.records import Records
    from py_driver.tuning.space import Space
    from py_driver.tuning.tuner import Tuned

_HEADER = ("case", "best", "us", "default us", "faster", "as good")
_NUMBERS = (2, 3, 4, 5)


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    from py_driver.cli.build import positive

    parser = add_command(subparsers, "tune", "softmax --dry-run", "softmax --budget 600")
    measure = parser.group("measure")
    add_local(parser, archs=False)
    parser.add_argument(
        "space", metavar="SPACE", nargs="?", default="", help="the name of tuning/SPACE.toml (default: the only one)"
    )
    only = measure.add_mutually_exclusive_group()
    only.add_argument("--dry-run", action="store_true", help="print the number of configurations; build nothing")
    only.add_argument(
        "--budget",
        metavar="S",
        type=positive,
        help="start no new configuration after S seconds; visit configurations in random order",
    )
    only.add_argument(
        "--apply",
        action="store_true",
        help="write the header (or JSON files) from existing records of all GPUs, without measuring",
    )
    parser.group("report").add_argument(
        "--json", action="store_true", help="print the result as JSON instead of a table"
    )


def run(args: argparse.Namespace, output: Output) -> int:
    """Tune; returns the exit code.

    Raises:
        DriverError: see `find_space` and `Tuner.run`; LOAD_FAILED if no configuration is correct.
    """
    from py_driver.tuning.space import find_space
    from py_driver.tuning.tuner import Tuner

    check_project(args.directory)
    space = find_space(args.directory, args.space)
    if args.dry_run:
        return _dry_run(args, space, output)
    if args.apply:
        return _apply(args, space, output)
    tuner = Tuner(
        directory=args.directory,
        space=space,
        machine=machine_of(args),
        releases=releases_of(args),
        choices=local_choices(args),
        output=output,
    )
    done = tuner.run(args.budget)
    _show(args, space, done, output)
    if not any(done.records.correct(case) for case in space.cases):
        raise error(Code.LOAD_FAILED, "no configuration is correct", help=f"see the reasons in {done.file}")
    return ExitCode.OK


def _dry_run(args: argparse.Namespace, space: Space, output: Output) -> int:
    """Print the number of configurations for each case."""
    excluded = {
        space.shown_case(case): sum(
            bool(space.violated(configuration, case, {})) for configuration in space.configurations
        )
        for case in space.cases
    }
    if args.json:
        output.json({"space": space.name, "configurations": space.count, "excluded": excluded})
        return ExitCode.OK
    output.table(
        ("case", "configurations", "excluded"),
        [(name, str(space.count - count), str(count)) for name, count in excluded.items()],
        right=(1, 2),
    )
    output.say(f"{space.count} configurations; conditions on the GPU are not counted")
    return ExitCode.OK


def _show(args: argparse.Namespace, space: Space, done: Tuned, output: Output) -> None:
    """Print the best configurations."""
    from py_driver.tuning.choice import best, cover, slower

    records = done.records
    chosen = cover(space, records)
    if args.json:
        table = records.as_json(space)
        table["file"] = str(done.file)
        table["built"], table["actions"], table["skipped"] = done.built, done.actions, done.skipped
        table["cover"] = [
            {"case": dict(zip(space.sizes, case, strict=True)), "config": space.named(config)}
            for case, config in chosen.items()
        ]
        output.json(table)
        return
    rows = []
    for case in space.cases:
        found = best(records, case)
        if found is None:
            rows.append((space.shown_case(case), "none", "", "", "", ""))
            continue
        usual = records.correct(case).get(space.default)
        rows.append(
            (
                space.shown_case(case),
                space.shown(found.configuration),
                f"{found.record.us:.2f}",
                f"{usual.us:.2f}" if usual else "",
                f"{usual.us / found.record.us:.2f}x" if usual else "",
                str(len(found.ties)),
            )
        )
    output.table(_HEADER, rows, right=_NUMBERS)
    if done.skipped:
        output.say(f"note: the budget is used up; {done.skipped} configurations were not measured")
    if (ratio := slower(records, space.default, space.cases)) is not None:
        output.say(f"the default is {ratio:.2f}x slower than the best per case (geometric mean)")
    if not chosen:
        return
    several = len(set(chosen.values()))
    output.say(f"{counted(several, 'configuration')} serve{'s' * (several == 1)} all cases within 2 %")
    following = (
        f"; next: driver tune {shlex.quote(str(args.directory))} --apply" if space.header or space.configs else ""
    )
    output.say(f"recorded: {done.file}{following}")


def _apply(args: argparse.Namespace, space: Space, output: Output) -> int:
    """Write the header, or the JSON files, from all records of the project.

    Raises:
        DriverError: FILE_MISSING if there are no records of these sources; see `_check_header` and `_write_configs`.
    """
    if space.configs:
        return _write_configs(args, space, output)
    from py_driver.tuning.choice import cover
    from py_driver.tuning.header import Chosen, conflicts, header
    from py_driver.tuning.space import FACTS

    _check_header(args, space)
    chosen: dict[int, Chosen] = {}
    for records in _records(args, space, output):
        if records.capability in chosen:
            gpu = records.machine["gpu"]
            output.warn(f"{gpu} is ignored: another GPU of capability {records.capability} has records, too")
            continue
        found = cover(space, records)
        cases = {case: found.get(case, space.default) for case in space.cases}
        facts = {name: int(records.machine.get(name, 0)) for name in FACTS}
        chosen[records.capability] = Chosen(cases=cases, facts=facts)
        for case, other in conflicts(space, cases):
            message = f"{space.shown_case(case)} and {space.shown_case(other)} have the same `{space.key}`"
            output.warn(f"{message} and need different configurations; the first one's is used")
    path = args.directory / space.header
    write(path, header(space, [*chosen.values()]).encode())
    output.data(str(path))
    return ExitCode.OK


def _write_configs(args: argparse.Namespace, space: Space, output: Output) -> int:
    """Write the JSON files of all GPUs.

    Raises:
        DriverError: USAGE if they would not be shipped; FOREIGN_FILE if another program wrote a file; see `_records`.
    """
    from py_driver.plan.project import load
    from py_driver.tuning.choice import cover
    from py_driver.tuning.configs import config_files, is_of

    manifest = load(args.directory, releases_of(args)).manifest
    if "json" not in manifest.framework.extensions:
        advice = f'add `pyext = ["json", "py"]` to [{manifest.framework.table}]'
        raise error(Code.USAGE, "the files in `configs` would not be part of the kernel", help=advice)
    package = f"torch-ext/{manifest.module}/"
    if not f"{space.configs}/".startswith(package):
        message = f"`configs` in tuning/{space.name}.toml is not below {package}: {space.configs}"
        raise error(Code.USAGE, message, help="only files there are part of the kernel")
    texts: dict[Path, str] = {}
    for records in _records(args, space, output):
        found = cover(space, records)
        cases = {case: found.get(case, space.default) for case in space.cases}
        for name, text in config_files(space, str(records.machine["gpu"]), cases).items():
            texts[args.directory / space.configs / name] = text
    for path in texts:
        if is_file(path) or path.is_symlink():
            with reading(path):
                before = path.read_bytes().decode(errors="replace")
            if not is_of(space, before):
                raise error(Code.FOREIGN_FILE, f"{path} would be overwritten", help="move it away")
    with together() as written:
        for path, text in texts.items():
            with writing(path.parent):
                path.parent.mkdir(parents=True, exist_ok=True)
            written.write(path, text.encode())
    for path in texts:
        output.data(str(path))
    return ExitCode.OK


def _check_header(args: argparse.Namespace, space: Space) -> None:
    """Check that the header may be overwritten.

    Raises:
        DriverError: USAGE if build.toml does not list it, or it is not a header; FOREIGN_FILE if `driver tune` did not
            write it.
    """
    from py_driver.manifest.paths import HEADERS
    from py_driver.plan.plan import plan_directory
    from py_driver.tuning.header import MARK

    if not space.header:
        message = f"tuning/{space.name}.toml names no `header`, and no `configs`"
        advice = "name a file that the section lists in `src`; for Triton, a directory of the Python package"
        raise error(Code.USAGE, message, help=advice)
    if not space.header.endswith(HEADERS):
        raise error(Code.USAGE, f"`header` in tuning/{space.name}.toml is not a header: {space.header}")
    if space.header not in plan_directory(args.directory, releases_of(args)).files:
        message = f"build.toml lists no {space.header}"
        raise error(Code.USAGE, message, help=f"add it to `src` of [kernel.{space.section}], and include it there")
    path = args.directory / space.header
    with reading(path):
        text = path.read_bytes()
    if text.strip() and not text.startswith(MARK.encode()):
        advice = f"empty it, or begin its first line with `{MARK}`"
        raise error(Code.FOREIGN_FILE, f"{path} would be overwritten", help=advice)


def _records(args: argparse.Namespace, space: Space, output: Output) -> list[Records]:
    """The records of all GPUs for these sources.

    Raises:
        DriverError: FILE_MISSING if there are none.
    """
    from py_driver.tuning.records import read_records
    from py_driver.tuning.space import PLACE
    from py_driver.tuning.tuner import digest

    sources = digest(args.directory, releases_of(args), space)
    found = []
    for path in sorted((args.directory / PLACE).glob(f"{space.name}.*.json")):
        records = read_records(path, space)
        if records is None:
            continue
        if records.sources != sources:
            output.warn(f"{path} was measured with other sources and is ignored; measure again with `driver tune`")
        elif any(records.correct(case) for case in space.cases):
            found.append(records)
    if not found:
        message = f"no correct configuration of these sources is recorded for tuning/{space.name}.toml"
        raise error(Code.FILE_MISSING, message, help=f"measure first: driver tune {args.directory}")
    return found
