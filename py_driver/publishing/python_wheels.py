"""Wheels of a project with a build.toml that is bound by pybind11: one for each Python, with all variants for it.

They are built for this alone and leave nothing in `build/`: the Hub has variants for every Python only.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from py_driver.building.build import build
from py_driver.plan.project import load
from py_driver.publishing.release import read_built
from py_driver.publishing.wheel import check_unclaimed, make_wheel, wheel_name
from py_driver.system.files import writing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from py_driver.building.build import Build, Built, Options
    from py_driver.matrix.pythons import Python
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output


class PythonWheels(NamedTuple):
    """The wheels of a project.

    Attributes:
        done: the build that they are of.
        contents: the names of the variants in each wheel, by its path, in the order of the Pythons.
    """

    done: Build
    contents: Mapping[Path, Sequence[str]]


def make_python_wheels(  # noqa: PLR0913  (whose, of what, where to, beside which others, how, and where it is shown)
    directory: Path,
    patterns: Sequence[str],
    releases: Releases,
    out: Path,
    taken: Mapping[Path, Path],
    options: Options,
    output: Output,
) -> PythonWheels:
    """Build variants of a project for each Python, and write the wheel of each Python.

    Args:
        directory: of the project.
        patterns: globs of identifiers; none means the default variants.
        releases: to build for.
        out: the directory of the wheels.
        taken: the projects whose wheels are there, by the paths of these.
        options: how; they name the Pythons.
        output: where progress is shown.

    Raises:
        DriverError: what `build` and `make_wheel` raise; FOREIGN_FILE if the wheel of another project has the name of
            one; NO_SPACE or PERMISSION.
    """
    manifest = load(directory, releases, pybind=True).manifest
    with tempfile.TemporaryDirectory(prefix="driver-") as scratch:
        done = build(directory, patterns, releases, output, replace(options, destination=Path(scratch)))
        contents: dict[Path, list[str]] = {}
        for python, variants in by_python(done.variants).items():
            shipped = [read_built(built.path) for built in variants]
            names = [variant.name for variant in shipped]
            path = out / wheel_name(manifest, names, python=python)
            check_unclaimed(path, directory, taken)
            with writing(out):
                out.mkdir(parents=True, exist_ok=True)
                make_wheel(manifest, shipped, path, python=python)
            contents[path] = names
    return PythonWheels(done, contents)


def by_python(variants: Iterable[Built]) -> dict[Python, list[Built]]:
    """Variants by the Python that they are for; those with Python files alone are for each.

    Args:
        variants: that were built.
    """
    listed = list(variants)
    pythons = dict.fromkeys(built.variant.python for built in listed if built.variant.python)
    return {python: [built for built in listed if built.variant.python in {None, python}] for python in pythons}
