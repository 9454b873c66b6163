"""`driver wheel`: packs built variants into Python wheels."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py_driver.cli import add_command
from py_driver.cli.arguments import releases_of, words_of
from py_driver.cli.bindings import EVERY, add_bindings, all_pythons, bindings_of, pythons_of_build_toml
from py_driver.cli.build import add_arguments, add_report, options_for, options_of
from py_driver.cli.further import add_further, check_no_further
from py_driver.cli.projects import exit_code, extensions_of, for_each, projects_of, run_extensions, summary
from py_driver.cli.sources import add_hash, located
from py_driver.errors import Code, ExitCode, error
from py_driver.output import printable
from py_driver.recording.source_archive import Source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from py_driver.cli import Subparsers
    from py_driver.manifest.model import Manifest
    from py_driver.matrix.releases import Releases
    from py_driver.matrix.select import Words
    from py_driver.output import Output
    from py_driver.publishing.release import BuiltVariant
    from py_driver.publishing.wheel_others import Other


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(
        subparsers,
        "wheel",
        "relu --backend cuda --out wheels",
        "causal-conv1d==1.7.0 --torch 2.13 --backend cuda",
        more="The wheel of a build.toml loads the variant for the installed torch. A project with a setup.py, "
        "also a release on the package index, is built first, and has a wheel for each variant.",
    )
    add_arguments(parser, default="the variants in build/; with a setup.py all default variants", several=True)
    add_bindings(parser, EVERY)
    add_report(parser)
    parser.group("report").add_argument(
        "--json", action="store_true", help="print the wheels of a single project as JSON"
    )
    add_hash(parser)
    parser.add_argument(
        "--out", metavar="DIR", type=Path, default=Path("dist"), help="write the wheels to DIR (default: dist)"
    )
    add_further(parser, "put its variants in build/ into the wheel, which imports them; needs the `kernels` client")
    parser.add_argument(
        "--slice",
        action="store_true",
        help="write a wheel for each GPU capability instead, of the slices in build-slices/",
    )
    parser.add_argument(
        "--merge",
        action="store_true",
        help="with a setup.py: write a single wheel of all variants, which loads the variant for the installed torch "
        "(default: a wheel for each variant; with a build.toml always a single wheel)",
    )
    parser.add_argument(
        "--variants",
        action="store_true",
        help="write wheel variants instead, among which an installer chooses by the GPU; with --slice also a variant "
        "for each slice (experimental: PEP 825, CUDA and CPU; --slice for a build.toml)",
    )
    parser.add_argument(
        "--index", action="store_true", help="also write a package index of the wheels, like `driver index`"
    )


def run(args: argparse.Namespace, output: Output) -> int:
    """Make the wheel of each project, and the index of all; returns the exit code.

    Raises:
        DriverError: USAGE for `--json` with several projects; see `_pack` and `write_index`.
    """
    code = _pack(args, output)
    if args.index and args.out.is_dir():
        from py_driver.cli.index import write

        write(args.out, output)
    return code


def _others(  # noqa: PLR0913  (the project, its variants, options and output)
    directory: Path,
    manifest: Manifest,
    built: Sequence[BuiltVariant],
    releases: Releases,
    args: argparse.Namespace,
    output: Output,
) -> tuple[Other, ...]:
    """The kernels of the command line that variants depend on, with the variants needed for these.

    Args:
        directory: the directory of the project.
        manifest: the manifest of the project.
        built: its variants.
        releases: the releases to build for.
        args: the command line.
        output: where to report that another run is building a project.

    Raises:
        DriverError: USAGE if nothing depends on a kernel; see `check_depends`, `serving` and
            what `_make` raises for the project itself.
    """
    from py_driver.actions.workspace import held
    from py_driver.authoring.dev_build import repositories_of
    from py_driver.authoring.further_kernels import Kernel, check_depends
    from py_driver.building.variant_dir import present
    from py_driver.matrix.configurations import parse
    from py_driver.plan.plan import make_plan
    from py_driver.plan.project import load
    from py_driver.plan.projects import find_projects
    from py_driver.publishing.release import read_to_ship
    from py_driver.publishing.wheel import backends, describe
    from py_driver.publishing.wheel_others import Other, serving

    if not args.further:
        return ()

    def kernel(path: Path, manifest: Manifest, variants: Sequence[BuiltVariant]) -> Kernel:
        depends = tuple(entry for variant in variants for entry in variant.metadata["kernel-depends"])
        return Kernel(path, manifest.name.value, manifest.version, repositories_of(manifest), depends)

    kernels, found = [kernel(directory, manifest, built)], []
    for path in find_projects([directory, *args.further])[1:]:
        project = load(path, releases)
        plan = make_plan(project, releases.matrix, strict_archs=args.strict_archs)
        with held(path, plan, output):
            shipped = read_to_ship(path, plan, present(path, plan, ()), releases.lock)
        described = [describe(parse(variant.name), variant) for variant in shipped]
        own = project.manifest
        chosen = serving([variant.name for variant in built], own.name.value, described, backends())
        shipped = [variant for variant in shipped if variant.name in chosen]
        found.append(Other(own, repositories_of(own), shipped))
        kernels.append(kernel(path, own, shipped))
    check_depends(kernels)
    asked = {entry["repo-id"] for known in kernels for entry in known.depends}
    for known in kernels[1:]:
        if not asked.intersection(known.repositories):
            message = f"no kernel of this wheel lists {known.directory} in kernel-depends"
            raise error(Code.USAGE, message, help="leave it out of --with")
    return tuple(found)


def _pack(args: argparse.Namespace, output: Output) -> int:
    """Make the wheel of each project; returns the exit code.

    Raises:
        DriverError: USAGE for --with or --merge, and slices or wheel variants; see `_check_no_build`, `_make` and
            `located`; with several projects only errors that concern all.
    """
    words = located(args.directories, args.hash, output)
    sources = {word.directory: word for word in words if isinstance(word, Source)}
    directories = [word.directory if isinstance(word, Source) else word for word in words]
    args = argparse.Namespace(**{**vars(args), "directories": directories, "hash": []})
    extensions = extensions_of(args)
    if args.merge and (args.variants or (args.slice and not extensions)):
        option = "--variants" if args.variants else "--slice"
        message = f"--merge packs all variants into one wheel, and {option} makes several"
        raise error(Code.USAGE, message, help="leave out one of the two")
    if len(extensions) < len(directories) and (extensions or not args.binding):
        _check_no_build(args)
    if extensions:
        pages = set[Path]()
        return run_extensions(
            args,
            output,
            lambda directory: _extension(directory, args, output, pages, sources.get(directory)),
            _pack,
            as_json=args.json,
        )
    if args.further and (args.slice or args.variants):
        message = "--with is for a wheel of whole variants; it cannot be combined with --slice or --variants"
        raise error(Code.USAGE, message)
    make = _make_for_pythons if pythons_of_build_toml(args) else _make
    projects = projects_of(args)
    if projects is not None and args.json:
        raise error(Code.USAGE, "--json is for a single project", help="name one directory, without --changed-since")
    releases, selection = releases_of(args), words_of(args, several=projects is not None)
    if projects is None:
        packed = make(args.directories[0], releases, selection, {}, args, output)
        _show([{"file": str(path), "size": path.stat().st_size, **variants} for path, variants in packed], args, output)
        return ExitCode.OK
    taken: dict[Path, Path] = {}
    outcomes = for_each(projects, lambda path: make(path, releases, selection, taken, args, output), output)
    rows = [
        [printable(str(outcome.directory)), printable(str(path))]
        for outcome in outcomes
        for path, _ in outcome.value or ()
    ]
    if rows:
        output.table(("project", "wheel"), rows)
    output.say(summary(outcomes, "packed"))
    return exit_code(outcomes)


def _check_no_build(args: argparse.Namespace) -> None:
    """Refuse options that change a build, for wheels of variants that exist.

    Raises:
        DriverError: USAGE.
    """
    options = {
        "--archs": args.archs,
        "--cuda-compile": args.cuda_compile,
        "--headers": args.headers,
        "--cxx": args.cxx,
        "--compress": args.compress,
        "--report": args.report,
    }
    if option := next((option for option, value in options.items() if value is not None), ""):
        message = f"{option}: with a build.toml, `driver wheel` packs the variants in build/ and builds nothing"
        raise error(Code.USAGE, message, help=f"call it without {option}; `driver build` accepts it")


def _extension(
    directory: Path, args: argparse.Namespace, output: Output, pages: set[Path], source: Source | None = None
) -> int:
    """Build a project with a setup.py, and write its wheels; returns the exit code.

    Args:
        directory: the directory of the project.
        args: the command line.
        output: where progress is shown.
        pages: see `build.options_for`.
        source: the source archive, if the project is from the package index.
    """
    from py_driver.cli.extension import wheels

    check_no_further(args, directory)
    if args.slice:
        advice = "make wheels for one GPU capability: --archs 9.0"
        raise error(Code.USAGE, f"--slice: {directory} has a setup.py, and no slices", help=advice)
    _show(wheels(directory, args, output, options_for(directory, args, pages), source), args, output)
    return ExitCode.OK


def _show(wheels: Sequence[Mapping[str, Any]], args: argparse.Namespace, output: Output) -> None:
    """Print the wheels of a project."""
    if args.json:
        output.json({"directory": str(args.out), "wheels": [*wheels]})
        return
    for wheel in wheels:
        output.data(wheel["file"])


def _make(  # noqa: PLR0913  (the project, its variants, other wheels, options and output)
    directory: Path,
    releases: Releases,
    words: Words,
    taken: dict[Path, Path],
    args: argparse.Namespace,
    output: Output,
) -> list[tuple[Path, dict[str, Any]]]:
    """Make the wheel of a project, or those of its slices; returns their paths, and the variants in each.

    Args:
        directory: the directory of the project.
        releases: the releases to build for.
        words: the selection of the command line, besides globs.
        taken: the projects of the wheels written before, by the paths of the wheels; this project is added.
        args: the command line.
        output: where to report that another run is building the project.

    Raises:
        DriverError: CHANGED_BUILD or UNSUPPORTED; FOREIGN_FILE if the wheel of another project has the same name;
            NO_SPACE
            or PERMISSION; what `variant_dir.present` and reading the project raise.
    """
    from py_driver.actions.workspace import held
    from py_driver.building.variant_dir import present
    from py_driver.plan.plan import make_plan
    from py_driver.plan.project import load
    from py_driver.plan.slices import sliced
    from py_driver.publishing.release import read_to_ship
    from py_driver.publishing.slices import read_slices
    from py_driver.publishing.wheel import check_unclaimed, make_wheel, wheel_name
    from py_driver.system.files import writing

    project = load(directory, releases)
    plan = make_plan(project, releases.matrix, strict_archs=args.strict_archs)
    with held(directory, plan, output):
        chosen = present(directory, plan, args.variant, words=words)
        built = read_to_ship(directory, plan, chosen, releases.lock)
        contents: list[tuple[str, Sequence[BuiltVariant]]] = [] if args.slice and not args.variants else [("", built)]
        if args.slice:
            parts = read_slices(directory, sliced(plan, chosen), releases.lock)
            contents += [(part.name, part.built) for part in parts]
        if args.variants:
            contents = [(part, [variant]) for part, listed in contents for variant in listed]
        others = _others(directory, project.manifest, built, releases, args, output)
        inner = [variant.name for other in others for variant in other.built]
        packed: list[tuple[Path, dict[str, Any]]] = []
        for part, listed in contents:
            names = [variant.name for variant in listed]
            path = args.out / wheel_name(project.manifest, names, part, labelled=args.variants, others=inner)
            check_unclaimed(path, directory, taken)
            with writing(args.out):
                args.out.mkdir(parents=True, exist_ok=True)
                make_wheel(project.manifest, listed, path, labelled=args.variants, others=others)
            taken[path] = directory
            packed.append((path, {"variants": names}))
    return packed


def _make_for_pythons(  # noqa: PLR0913  (as `_make`)
    directory: Path,
    releases: Releases,
    words: Words,
    taken: dict[Path, Path],
    args: argparse.Namespace,
    output: Output,
) -> list[tuple[Path, dict[str, Any]]]:
    """Build a project that is bound by pybind11, and make its wheel for each Python.

    Args:
        directory: see `_make`.
        releases: see `_make`.
        words: see `_make`.
        taken: see `_make`.
        args: see `_make`.
        output: where progress is shown.

    Raises:
        DriverError: USAGE for slices, wheel variants and further kernels; see `make_python_wheels`.
    """
    from py_driver.cli.build import show
    from py_driver.publishing.python_wheels import make_python_wheels

    if option := "--slice" if args.slice else "--variants" if args.variants else "--with" if args.further else "":
        message = f"`{option}` is for wheels that fit every Python, and `--binding pybind` makes one for each"
        raise error(Code.USAGE, message, help=f"call it without {option}")
    pythons = bindings_of(args, releases.matrix, all_pythons).pythons
    options = replace(options_of(args), words=words, pythons=pythons)
    interpreters = [word for word in args.python if "/" in word]
    wheels = make_python_wheels(directory, args.variant, releases, args.out, taken, options, output, interpreters)
    if not args.json:
        show(wheels.done, output)
    taken |= dict.fromkeys(wheels.contents, directory)
    return [(path, {"variants": [*names]}) for path, names in wheels.contents.items()]
