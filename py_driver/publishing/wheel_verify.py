"""Whether wheels of a build.toml match its sources: their variants are rebuilt without any cache."""

from __future__ import annotations

import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.building.selection import check_split
from py_driver.building.variant_dir import BUILD, SLICES, read_metadata
from py_driver.errors import Code, DriverError, error
from py_driver.fetch.wheel_members import BROKEN_ZIP
from py_driver.matrix.configurations import Configuration, is_identifier, parse, spell
from py_driver.matrix.pythons import Python
from py_driver.plan.for_pythons import for_pythons
from py_driver.plan.metadata import ONLY_ARCHS, SLICE
from py_driver.plan.narrow import narrowed
from py_driver.plan.plan import make_plan
from py_driver.plan.project import load
from py_driver.plan.slices import sliced
from py_driver.publishing.rebuild import Place, Task
from py_driver.publishing.release import read_built
from py_driver.publishing.verify import Verified, verify
from py_driver.publishing.wheel import make_wheel, wheel_name
from py_driver.publishing.wheel_loader import PLACE
from py_driver.publishing.wheel_variants import label_in
from py_driver.system.files import sha256

if TYPE_CHECKING:
    from collections.abc import Sequence

    from py_driver.manifest.model import Manifest
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.publishing.verify import VerifyOptions

_NAME: Final = re.compile(r"(?P<module>\w+)-[^-]+-(?:cp3\d+|py3)-(?P<abi>abi3|none|cp3\d+t?)-\w+\.whl")
_OTHER: Final = "files beside its variants have other bytes"

FindPythons = Callable[[tuple[str, ...]], "tuple[Python, ...]"]
"""Finds the Pythons of versions such as `3.13`."""


class KernelWheel(NamedTuple):
    """A wheel of a build.toml.

    Attributes:
        path: its path.
        module: the name of its package.
        names: the identifiers of its variants.
        version: the version of its one Python; empty for every Python.
        archs: the architectures that `--archs` named for it; empty for all of the project.
        part: the capability of its slices, `sm90`; empty for whole variants.
        labelled: whether it is a wheel variant, with a label after the tag.
    """

    path: Path
    module: str
    names: tuple[str, ...]
    version: str
    archs: tuple[str, ...]
    part: str = ""
    labelled: bool = False

    def place(self, scratch: Path, name: str) -> Path:
        """The directory for an unpacked variant, as in a project.

        Args:
            scratch: the directory instead of the project.
            name: the identifier of the variant.
        """
        return scratch / SLICES / self.part / name if self.part else scratch / BUILD / self.directory(name)

    def directory(self, name: str) -> str:
        """The name of a variant's directory in a build.

        Args:
            name: the identifier of the variant.
        """
        if self.part:
            return f"{name}-{self.part}"
        tag = Python(self.version, self.version).tag
        return f"{name}-{tag}" if self.version and not parse(name).is_noarch else name


def unpack_wheel(path: Path, scratch: Path) -> KernelWheel:
    """Unpack the variants of a wheel of a build.toml into `scratch/build/`, slices into `scratch/build-slices/`.

    Raises:
        DriverError: FILE_KIND if `driver wheel` did not make it.
    """
    plain, label = label_in(path.name)
    found = _NAME.fullmatch(plain)
    wrong = error(Code.FILE_KIND, f"{path} is not a wheel of a build.toml", help="name a wheel of this project")
    if found is None:
        raise wrong
    version = found["abi"].replace("cp3", "3.", 1) if found["abi"].startswith("cp") else ""
    prefix = f"{found['module']}/{PLACE}/"
    try:
        with zipfile.ZipFile(path) as archive:
            members = [name for name in archive.namelist() if name.startswith(prefix)]
            archive.extractall(scratch / "unpacked" / path.name, members)
    except (OSError, *BROKEN_ZIP):
        raise wrong from None
    names = tuple(dict.fromkeys(name.removeprefix(prefix).partition("/")[0] for name in members))
    if not names or not all(map(is_identifier, names)):
        raise wrong
    variants = scratch / "unpacked" / path.name / prefix
    stated = [read_metadata(variants / name) or {} for name in names]
    part, *others = dict.fromkeys(str(metadata.get(SLICE, "")) for metadata in stated)
    if others or not re.fullmatch(r"[a-z0-9]*", part):
        raise wrong
    named = (metadata.get(ONLY_ARCHS) for metadata in stated)
    archs = next((tuple(map(str, listed)) for listed in named if isinstance(listed, list)), ())
    wheel = KernelWheel(path, found["module"], names, version, archs, part, labelled=bool(label))
    for name in names:
        target = wheel.place(scratch, name)
        if target.exists():
            message = f"{path} has the variant {name}, which another of the wheels has"
            raise error(Code.USAGE, message, help="verify them one after the other")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(variants / name, target)
    return wheel


def verify_wheels(  # noqa: PLR0913  (the wheels, their sources, and the options)
    paths: Sequence[Path],
    source: Path,
    find: FindPythons,
    releases: Releases,
    output: Output,
    options: VerifyOptions,
) -> list[Verified]:
    """Rebuild the variants of wheels without any earlier result, and compare the wheels.

    Args:
        paths: the paths of the wheels.
        source: the directory of the project.
        find: finds the Pythons of wheels for one Python.
        releases: the releases to build for.
        output: where progress is shown.
        options: how to verify.

    Raises:
        DriverError: FILE_KIND, USAGE; NO_SUCH_VARIANT if the project lacks a variant or slice; see
            `check_split`; what a build raises.
    """
    verified: list[Verified] = []
    with tempfile.TemporaryDirectory(prefix="driver-") as name:
        scratch = Path(name)
        wheels = [unpack_wheel(path, scratch) for path in paths]
        for kind in dict.fromkeys((wheel.archs, bool(wheel.version)) for wheel in wheels):
            alike = [wheel for wheel in wheels if (wheel.archs, bool(wheel.version)) == kind]
            task, manifest = _task(alike, source, scratch, find, releases, options)
            [result] = verify([task], releases, output, options).values()
            if isinstance(result, DriverError):
                raise result
            by_name = {own.variant: own for own in result}
            for wheel in alike:
                own = [replace(by_name[wheel.directory(name)], place=str(wheel.path)) for name in wheel.names]
                rest = _rest(wheel, manifest, scratch)
                verified += [replace(own[0], differences=(*own[0].differences, *rest)), *own[1:]]
    return verified


def _task(  # noqa: PLR0913  (the wheels, their sources, and the options)
    wheels: Sequence[KernelWheel],
    source: Path,
    scratch: Path,
    find: FindPythons,
    releases: Releases,
    options: VerifyOptions,
) -> tuple[Task, Manifest]:
    """Prepare the rebuild of the variants in wheels for the same architectures."""
    versions = tuple(dict.fromkeys(wheel.version for wheel in wheels if wheel.version))
    project = load(source, releases, pybind=bool(versions))
    plan = make_plan(project, releases.matrix, strict_archs=options.build.strict_archs)
    plan = narrowed(plan, wheels[0].archs) if wheels[0].archs else plan
    names = dict.fromkeys(name for wheel in wheels for name in wheel.names)
    if missing := [name for name in names if name not in {variant.name for variant in plan.variants}]:
        message = f"the project {source} has no variant {missing[0]}"
        raise error(Code.NO_SUCH_VARIANT, message, help="name the project of the wheel with --source")
    chosen = [variant for variant in plan.variants if variant.name in names]
    if versions:
        pythons = find(versions)
        directories = {wheel.directory(name) for wheel in wheels for name in wheel.names}

        def fitting(configuration: Configuration) -> tuple[Python, ...]:
            return tuple(python for python in pythons if f"{spell(configuration)}-{python.tag}" in directories)

        plan = for_pythons(plan, chosen, releases.matrix, fitting)
        chosen = [*plan.variants]
    if any(wheel.part for wheel in wheels):
        check_split(chosen, releases.matrix, options.build.choices)
        plan = sliced(plan, chosen)
        known = {variant.name: variant for variant in plan.variants}
        asked = [wheel.directory(name) for wheel in wheels for name in wheel.names]
        if missing := [name for name in asked if name not in known]:
            message = f"the project {source} has no slice {missing[0]}"
            raise error(Code.NO_SUCH_VARIANT, message, help="name the project of the wheel with --source")
        chosen = [known[name] for name in asked]
    return Task(source, plan, chosen, Place(scratch, str(wheels[0].path))), project.manifest


def _rest(wheel: KernelWheel, manifest: Manifest, scratch: Path) -> tuple[str, ...]:
    """Compare the rest of a wheel with what `driver wheel` makes from its variants; a difference, or empty."""
    python = Python(wheel.version, wheel.version) if wheel.version else None
    copies = scratch / "again" / wheel.path.name
    for name in wheel.names:
        shutil.copytree(wheel.place(scratch, name), copies / BUILD / name)
    built = [read_built(copies / BUILD / name) for name in wheel.names]
    again = copies / wheel_name(manifest, wheel.names, wheel.part, labelled=wheel.labelled, python=python)
    if again.name != wheel.path.name:
        return (f"the wheel is called {again.name}",)
    make_wheel(manifest, built, again, labelled=wheel.labelled, python=python)
    return () if sha256(again.read_bytes()) == sha256(wheel.path.read_bytes()) else (_OTHER,)
