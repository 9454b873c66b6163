"""Projects with a setup.py, for `driver build`, `driver check`, `driver test` and `driver wheel`."""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.cli.bindings import all_pythons, bindings_of, own_python
from py_driver.cli.build_tables import HEADER, NUMBERS, actions_as_json, figures, show_plan
from py_driver.errors import Code, ExitCode, error
from py_driver.extensions.binding import LIBRARY, PYBIND, way_of
from py_driver.output import counted, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence

    from py_driver.authoring.extension_session import InstalledExtension
    from py_driver.authoring.machine import Machine
    from py_driver.bazel.invocation import Choices
    from py_driver.building.build import Options
    from py_driver.building.extension import BuiltExtension, Extension
    from py_driver.extensions.binding import Bindings
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Variant
    from py_driver.recording.source_archive import Source


def check(directory: Path, args: argparse.Namespace, output: Output) -> int:
    """Record a project for its default variants, and show its modules; returns the exit code.

    Raises:
        DriverError: USAGE for `--headers`; what `plan_extension` raises.
    """
    from py_driver.building.build import Options
    from py_driver.building.extension import plan_extension
    from py_driver.cli.arguments import releases_of
    from py_driver.matrix.configurations import spell

    if args.headers:
        message = f"--headers: {directory} has a setup.py, and smaller headers are tried for a build.toml"
        raise error(Code.USAGE, message, help="call it without --headers, or make a build.toml with `driver adopt`")
    if args.strict:
        output.say(printable(f"note: --strict has no effect: {directory} has a setup.py, and it is for a build.toml"))
    releases = releases_of(args)
    bindings = bindings_of(args, releases.matrix, all_pythons)
    options = Options(strict_archs=args.strict_archs)
    extension = plan_extension(directory, (), releases, output, options, bindings)
    _say_unused(args, extension, options, output)
    if args.json:
        output.json(_checked_json(extension))
        return ExitCode.OK
    output.notes(extension.notes)
    variants = [variant for plan in extension.plans for variant in plan.variants]
    rows = [
        [
            spell(variant.configuration),
            printable(variant.module),
            str(_sources(extension, variant.groups)),
            variant.shown_archs,
            _WAYS[way_of(variant)],
            ", ".join(_versions(variants, variant)) or "every",
        ]
        for variant in {(variant.configuration, variant.module): variant for variant in variants}.values()
    ]
    if rows:
        output.table(("variant", "module", "sources", "GPU archs", "bound by", "Python"), rows, right=(2,))
    records = [configured.recording.record for configured in extension.configured]
    for line in dict.fromkeys(line for record in records for line in record.asked):
        output.say(printable(f"note: setup.py asked for {line}"))
    for name in _brought(extension):
        output.say(printable(f"note: the wheel has {name}, which the project ships compiled"))
    modules = {module.name for record in records for module in record.modules}
    found = f"{counted(len(modules), 'extension module')}, {counted(len(records), 'variant')}"
    advice = "" if modules else "; its wheel fits every torch"
    output.say(printable(f"{directory} is valid: {found}{advice}"))
    return ExitCode.OK


def _say_unused(args: argparse.Namespace, extension: Extension, options: Options, output: Output) -> None:
    """Report options that have no effect: about device code, if there is none; `--python`, if all fit every Python."""
    from py_driver.building.ahead import say_unused_archs, say_unused_choices

    planned = [variant for plan in extension.plans for variant in plan.variants]
    say_unused_archs(options.archs, planned, output)
    say_unused_choices(options.choices, planned, output)
    if args.python and not any(variant.python for variant in planned):
        output.say("note: --python has no effect: no module is bound by pybind11, so each is for every Python")


def _brought(extension: Extension) -> list[str]:
    """The libraries in the wheels of a project that are not compiled here, sorted."""
    found: set[str] = set()
    for configured in extension.configured:
        recording = configured.recording
        own = {module.file for module in recording.record.modules}
        with zipfile.ZipFile(recording.wheel) as wheel:
            found.update(name for name in wheel.namelist() if name.endswith(".so") and name not in own)
    return sorted(found)


_WAYS = {LIBRARY: "torch::Library", PYBIND: "pybind11", "": "itself"}
"""The binding of a module, for people."""


def _versions(variants: Iterable[Variant], module: Variant) -> list[str]:
    """The Pythons that a module is built for in a configuration; empty if one build fits every Python."""
    return [
        variant.python.version
        for variant in variants
        if variant.python and (variant.configuration, variant.module) == (module.configuration, module.module)
    ]


def _sources(extension: Extension, groups: tuple[str, ...]) -> int:
    """The number of sources of targets."""
    return sum(len(group.sources) for plan in extension.plans for group in plan.groups if group.name in groups)


def _version(variant: Variant) -> str | None:
    """The Python of a variant."""
    return variant.python.version if variant.python else None


def _checked_json(extension: Extension) -> dict[str, Any]:
    """A valid project as a value for JSON."""
    return {
        "directory": str(extension.directory),
        "records": {
            configured.variant.name: json.loads(configured.recording.record.as_json())
            for configured in extension.configured
        },
        "modules": {
            variant.name: {"module": variant.module, "binding": way_of(variant), "python": _version(variant)}
            for plan in extension.plans
            for variant in plan.variants
        },
        "notes": [note.as_json() for note in extension.notes],
        "errors": [],
    }


def build(directory: Path, args: argparse.Namespace, output: Output, options: Options) -> int:
    """Build variants of a project into `build/`, each as installed; returns the exit code.

    Args:
        directory: the directory of the project.
        args: the command line.
        output: where progress is shown.
        options: how.

    Raises:
        DriverError: what `plan_extension`, `build_extension`, `make_extension_wheel` and `check_loads` raise.
    """
    from py_driver.building.variant_dir import BUILD
    from py_driver.cli.arguments import releases_of
    from py_driver.publishing.extension_tree import lay_out, pack

    releases = releases_of(args)
    built = _built(directory, args, releases, output, options, bindings_of(args, releases.matrix, own_python))
    laid = []
    with tempfile.TemporaryDirectory(prefix="driver-") as scratch:
        for part in built:
            wheel = pack(part, releases, None, Path(scratch))
            laid.append(lay_out(wheel, directory / BUILD, part.name))
    _check_loads(built, args, output, f"the build stays in {directory / BUILD}; do not publish it")
    if args.json:
        variants = [_as_json(part, path, size) for part, (path, size) in zip(built, laid, strict=True)]
        output.json({"directory": str(directory), "variants": variants})
    else:
        _show(built, [size for _, size in laid], output)
    return ExitCode.OK


def show_planned(directory: Path, args: argparse.Namespace, output: Output, options: Options) -> int:
    """Show the plan of a build; returns the exit code.

    Args:
        directory: the directory of the project.
        args: the command line.
        output: where to print the plan.
        options: how to build.

    Raises:
        DriverError: what `plan_extension` raises.
    """
    from dataclasses import replace

    from py_driver.building.dry_run import dry_run
    from py_driver.building.extension import plan_extension, prepare_extension
    from py_driver.cli.arguments import releases_of

    releases, options = releases_of(args), replace(options, report=None)
    bindings = bindings_of(args, releases.matrix, own_python)
    extension = plan_extension(directory, args.variant, releases, output, options, bindings)
    _say_unused(args, extension, options, output)
    results = dry_run(prepare_extension(extension, options), releases, output, options)
    show_plan(*results, (), args, output, alone=True)
    return ExitCode.OK


def wheels(
    directory: Path, args: argparse.Namespace, output: Output, options: Options, source: Source | None = None
) -> list[dict[str, Any]]:
    """Build variants of a project, and write a wheel of each, or one of all, into `--out`; returns values for JSON.

    Args:
        directory: the directory of the project.
        args: the command line.
        output: where progress is shown.
        options: how to build.
        source: the source archive, if the project is from the package index.

    Raises:
        DriverError: what `plan_extension`, `build_extension`, `check_loads` and `make_extension_wheel` raise; NO_SPACE
            or PERMISSION.
    """
    from py_driver.cli.arguments import releases_of
    from py_driver.publishing.extension_tree import pack, pack_merged
    from py_driver.publishing.python_wheels import NO_WHEEL
    from py_driver.recording.source_archive import check_metadata
    from py_driver.system.files import writing

    releases = releases_of(args)
    shown = f"{source.name}-{source.version}" if source else ""
    bindings = bindings_of(args, releases.matrix, all_pythons)
    built = _built(directory, args, releases, output, options, bindings, shown)
    if source is not None:
        for part in built:
            check_metadata(source, part.record.name, part.record.version)
    _check_loads(built, args, output, NO_WHEEL)
    with writing(args.out):
        args.out.mkdir(parents=True, exist_ok=True)
        archive = source.archive if source else None
        if args.merge:
            paths = pack_merged(built, releases, archive, args.out)
            pythons = dict.fromkeys(part.python for part in built if part.python)
            contents = [[part for part in built if part.python in {None, python}] for python in pythons or [None]]
        else:
            paths = [pack(part, releases, archive, args.out, labelled=args.variants) for part in built]
            contents = [[part] for part in built]
    for part in built:
        _, archs, ran, shared, cached, seconds = figures(part.modules, part.shown_archs)
        actions = f"{counted(int(ran), 'action')} ran, {shared} shared, {cached} cached; {seconds} s"
        output.say(f"{part.name} ({archs}): {actions}")
    return [
        {
            "file": str(path),
            "size": path.stat().st_size,
            "variants": [part.name for part in parts],
            **actions_as_json([module for part in parts for module in part.modules]),
        }
        for path, parts in zip(paths, contents, strict=True)
    ]


def _built(  # noqa: PLR0913  (the project, the variants, and how to build)
    directory: Path,
    args: argparse.Namespace,
    releases: Releases,
    output: Output,
    options: Options,
    bindings: Bindings,
    shown: str = "",
) -> list[BuiltExtension]:
    """Record, plan and build the variants of a command line."""
    from py_driver.building.binding_advice import advising_pybind
    from py_driver.building.extension import build_extension, plan_extension
    from py_driver.editor.project import refresh
    from py_driver.publishing.extension_wheel import check_skeleton
    from py_driver.publishing.merged_wheel import Recorded, check_merge

    extension = plan_extension(directory, args.variant, releases, output, options, bindings, shown=shown)
    _say_unused(args, extension, options, output)
    for configured in extension.configured:
        check_skeleton(
            configured.recording.record, configured.recording.wheel, labelled=getattr(args, "variants", False)
        )
    if getattr(args, "merge", False):
        check_merge([Recorded(part.recording.record, part.recording.wheel) for part in extension.configured])
    with advising_pybind(extension):
        built = build_extension(extension, releases, output, options)
    refresh(directory, releases, output, extension.plans, complete=False)
    return built


def _check_loads(built: Sequence[BuiltExtension], args: argparse.Namespace, output: Output, stays: str) -> None:
    """Load each built module once; `stays` is the help if one fails."""
    from py_driver.building.load_check import check_loads

    modules = {module.variant.name: module for part in built for module in part.modules}
    interpreters = [word for word in args.python if "/" in word]
    check_loads([*modules.values()], output, interpreters=interpreters, help=stays)


def _show(built: Sequence[BuiltExtension], sizes: Sequence[int], output: Output) -> None:
    """Print the table of a build."""
    rows = [
        [part.name, *figures(part.modules, part.shown_archs, size)] for part, size in zip(built, sizes, strict=True)
    ]
    output.table(HEADER, rows, right=NUMBERS)


def _as_json(part: BuiltExtension, path: Path, size: int) -> dict[str, Any]:
    """A built variant as a value for JSON."""
    return {
        "variant": part.name,
        "path": str(path),
        "size": size,
        "modules": [module.name for module in part.record.modules],
        **actions_as_json(part.modules),
    }


def test(args: argparse.Namespace, output: Output, local: Local) -> int:
    """Build a project for this machine, and run its tests with the installed build; returns pytest's exit code.

    Args:
        args: the command line.
        output: where progress is shown.
        local: the machine, and how to build.

    Raises:
        DriverError: USAGE for options that need a build.toml; FILE_MISSING if the project has no tests; what
            `install_extension` raises.
    """
    from py_driver.authoring.extension_session import copied_tests, run_with

    if option := "--under" if args.under else "--debug" if args.debug else "":
        message = f"{option}: {args.directory} has a setup.py, and the tools run kernels of a build.toml"
        advice = "call the tool yourself: driver run DIR -- compute-sanitizer python -m pytest tests"
        raise error(Code.USAGE, message, help=advice)
    with copied_tests(args.directory) as (scratch, tests):
        installed = _installed(args, output, local)
        words = [_moved(word, args.directory, scratch) for word in args.command]
        named = any(word != old for word, old in zip(words, args.command, strict=True))
        command = ["python", "-m", "pytest", "-p", "no:cacheprovider", f"--rootdir={scratch}"]
        return run_with(installed, [*command, *([] if named else [tests]), *words], scratch)


def run(args: argparse.Namespace, output: Output, local: Local) -> int:
    """Build a project for this machine, and run a command with the installed build; returns the command's exit code.

    Args:
        args: the command line.
        output: where progress is shown.
        local: the machine, and how to build.

    Raises:
        DriverError: USAGE for options that need a build.toml; what `install_extension` raises.
    """
    from py_driver.authoring.extension_session import run_with

    if args.watch or args.under or args.debug or args.json == bool(args.command):
        message = "a project with a setup.py is run as `driver run DIR [--torch M.N] -- CMD`"
        raise error(Code.USAGE, message, help="name a command or --json, without --watch, --under and --debug")
    if args.json:
        output.json(_installed(args, output, local).as_json())
        return ExitCode.OK
    return run_with(_installed(args, output, local), args.command)


class Local(NamedTuple):
    """The machine that a project is built for, and how.

    Attributes:
        machine: a function that returns it, since it may have to be examined.
        choices: how to build.
        archs: GPU architectures; empty for those of the machine.
    """

    machine: Callable[[], Machine]
    choices: Choices
    archs: tuple[str, ...]


def _installed(args: argparse.Namespace, output: Output, local: Local) -> InstalledExtension:
    """Build the project of a command line for this machine, or for the architectures in torch's variables."""
    from py_driver.authoring.extension_session import install_extension
    from py_driver.authoring.local_variant import usable_archs
    from py_driver.cli.arguments import releases_of

    machine, archs = local.machine(), local.archs
    for variable, named in (getattr(args, "listed", None) or {}).items():
        if machine.family != "cpu" and (usable := usable_archs(machine.torch, named)):
            archs = usable
            output.say(f"note: --archs {','.join(usable)} comes from {variable}")
    installed = install_extension(
        args.directory, machine, releases_of(args), output, local.choices, archs, args.binding
    )
    output.say(f"{installed.variant}: {counted(installed.ran, 'action')} ran")
    return installed


def _moved(word: str, directory: Path, scratch: Path) -> str:
    """A word of pytest's command line, with a path to the project's tests replaced by the path to their copy."""
    path, separator, rest = word.partition("::")
    try:
        inside = Path(path).resolve(strict=True).relative_to(directory.resolve())
    except (OSError, ValueError):
        return word
    return f"{scratch / inside}{separator}{rest}"
