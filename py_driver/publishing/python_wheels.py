"""Wheels of a project with a build.toml that is bound by pybind11: one for each Python, with all variants for it.

They are built in a scratch directory and leave nothing in `build/`: the Hub has only variants for every Python.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.building.build import build
from py_driver.building.load_check import check_loads
from py_driver.plan.project import load
from py_driver.publishing.release import read_built
from py_driver.publishing.wheel import check_unclaimed, make_wheel, wheel_name
from py_driver.system.files import writing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from py_driver.building.build import Build, Options
    from py_driver.manifest.model import Manifest
    from py_driver.matrix.pythons import Python
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Variant


NO_WHEEL: Final = "no wheel was written"
"""The message about a build that cannot be loaded."""


class PythonWheels(NamedTuple):
    """The wheels of a project.

    Attributes:
        done: the build of their variants.
        contents: the names of the variants in each wheel, by its path, in the order of the Pythons.
    """

    done: Build
    contents: Mapping[Path, Sequence[str]]


class PythonWheel(NamedTuple):
    """The wheel of a project for one Python.

    Attributes:
        name: the file's name.
        python: its Python.
        variants: the variants in it.
    """

    name: str
    python: Python
    variants: tuple[Variant, ...]


def make_python_wheels(  # noqa: PLR0913  (the project, its variants, the target, other wheels, options and output)
    directory: Path,
    patterns: Sequence[str],
    releases: Releases,
    out: Path,
    taken: Mapping[Path, Path],
    options: Options,
    output: Output,
    interpreters: Sequence[str] = (),
) -> PythonWheels:
    """Build variants of a project for each Python, load them, and write the wheel of each Python.

    Args:
        directory: the directory of the project.
        patterns: globs of identifiers; empty for the default variants.
        releases: the releases to build for.
        out: the directory of the wheels.
        taken: the projects of the wheels written before, by the paths of the wheels.
        options: how to build; they name the Pythons.
        output: where progress is shown.
        interpreters: see `check_loads`.

    Raises:
        DriverError: what `build`, `check_loads` and `make_wheel` raise; FOREIGN_FILE if another project's wheel has the
            same name; NO_SPACE or PERMISSION.
    """
    manifest = load(directory, releases, pybind=True).manifest
    with tempfile.TemporaryDirectory(prefix="driver-") as scratch:
        done = build(directory, patterns, releases, output, replace(options, destination=Path(scratch)))
        check_loads(done.variants, output, interpreters=interpreters, help=NO_WHEEL)
        places = {built.variant.name: built.path for built in done.variants}
        contents: dict[Path, list[str]] = {}
        for wheel in python_wheels(manifest, [built.variant for built in done.variants]):
            shipped = [read_built(places[variant.name]) for variant in wheel.variants]
            path = out / wheel.name
            check_unclaimed(path, directory, taken)
            with writing(out):
                out.mkdir(parents=True, exist_ok=True)
                make_wheel(manifest, shipped, path, python=wheel.python)
            contents[path] = [variant.name for variant in shipped]
    return PythonWheels(done, contents)


def python_wheels(manifest: Manifest, variants: Sequence[Variant]) -> list[PythonWheel]:
    """The wheel of each Python, with the variants for it; variants with only Python files are in each wheel.

    Args:
        manifest: the manifest of the project.
        variants: the variants of the plan for some Pythons.

    Raises:
        DriverError: UNSUPPORTED if the variants are for several CPUs.
    """
    wheels = []
    for python in dict.fromkeys(variant.python for variant in variants if variant.python):
        own = tuple(variant for variant in variants if variant.python in {None, python})
        name = wheel_name(manifest, [variant.identifier for variant in own], python=python)
        wheels.append(PythonWheel(name, python, own))
    return wheels
