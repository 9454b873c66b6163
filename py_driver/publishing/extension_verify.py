"""Whether artifacts that `driver` built from a setup.py match their sources: they are rebuilt without any cache."""

from __future__ import annotations

import json
import shlex
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py_driver.bazel.invocation import Compress, Cxx
from py_driver.building.build import Built, Options
from py_driver.building.collect import collect
from py_driver.building.extension import assemble, candidates, plan_extension
from py_driver.building.file_names import true_names
from py_driver.building.selection import choose
from py_driver.building.variant_dir import BUILD, differences, remove_bytecode
from py_driver.errors import Code, DriverError, error
from py_driver.extensions.binding import Bindings
from py_driver.fetch.wheel_members import BROKEN_ZIP
from py_driver.matrix.configurations import Configuration, spell
from py_driver.plan.metadata import COMPRESS, CXX, chosen
from py_driver.publishing.extension_tree import lay_out, pack, pack_merged
from py_driver.publishing.extension_wheel import STATEMENT
from py_driver.publishing.merged_wheel import VARIANTS
from py_driver.publishing.rebuild import Chosen, Place, Task, rebuild
from py_driver.publishing.verify import Verified, VerifyOptions, diffoscope
from py_driver.publishing.wheel_archive import RECORD
from py_driver.publishing.wheel_variants import label_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from py_driver.actions.executed import VariantActions
    from py_driver.building.extension import BuiltExtension, Extension
    from py_driver.fetch.entry import Entry
    from py_driver.matrix.matrix import Matrix
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Plan

_OS: Final = "linux"
_NO_WHEEL: Final = (
    "name wheels that `driver wheel` made of a setup.py, or the project's directory for its build/; a wheel of a "
    "build.toml needs --source DIR"
)

MakeBindings = Callable[[str, Sequence[str]], Bindings]
"""How modules are bound, for a way and versions of Python; see `Bindings`."""


class Artifact(NamedTuple):
    """A wheel, or a directory of `build/`, that was built from a setup.py.

    Attributes:
        path: its path.
        parameters: its build parameters, from its statement.
        project: the sources in its statement: a name and an origin.
        variants: the parameters of each variant of a merged wheel; `parameters` includes those of the first.
    """

    path: Path
    parameters: Mapping[str, Any]
    project: Mapping[str, Any]
    variants: tuple[Mapping[str, Any], ...] = ()

    @property
    def parts(self) -> tuple[Artifact, ...]:
        """Each variant of a merged wheel as an artifact of its own; otherwise the artifact itself."""
        return tuple(self._replace(parameters=own, variants=()) for own in self.variants) or (self,)

    @property
    def configuration(self) -> Configuration:
        """The configuration that it was built for."""
        parameters = self.parameters
        return Configuration(
            parameters["backend"], parameters["torch"], abi=parameters["cxx-abi"], cpu=parameters["cpu"], os=_OS
        )

    @property
    def python(self) -> str:
        """The key of its Python; empty if it fits every Python."""
        return next((str(own["python"]) for own in self.variants or (self.parameters,) if "python" in own), "")

    @property
    def way(self) -> str:
        """How its modules are bound; empty if they differ. See `Bindings.way`."""
        variants = self.variants or (self.parameters,)
        ways = {way for own in variants for way in own.get("bindings", {}).values()}
        return ways.pop() if len(ways) == 1 else ""

    @property
    def how(self) -> Chosen:
        """The choices that it was built with."""
        stated = chosen(self.parameters)
        cxx = Cxx(stated[CXX]) if CXX in stated else None
        return Chosen(cxx, Compress(stated[COMPRESS]) if COMPRESS in stated else None)

    @property
    def archs(self) -> tuple[str, ...]:
        """The GPU architectures that setup.py built for."""
        return tuple(filter(None, self.parameters["archs"].split(";")))

    @property
    def requirement(self) -> tuple[str, str] | None:
        """The release on the package index that it was built from, and its digest; None for a directory."""
        digest = self.project.get("digest", {}).get("sha256")
        version = str(self.parameters["version"]).partition("+")[0]
        return (f"{self.parameters['name']}=={version}", f"sha256:{digest}") if digest else None


def read_artifact(path: Path) -> Artifact:
    """Read the statement of a wheel or of a directory of `build/`.

    Raises:
        DriverError: FILE_KIND if it is neither, or has no valid statement.
    """
    try:
        statement = json.loads(_statement(path))
        definition = statement["predicate"]["buildDefinition"]
        parameters = definition["externalParameters"]
        variants = tuple(parameters.get(VARIANTS, ()))
        found = Artifact(
            path, {**parameters, **(variants[0] if variants else {})}, definition["resolvedDependencies"][0], variants
        )
        for part in found.parts:
            _ = spell(part.configuration), part.requirement, part.way, part.archs, part.how
    except (OSError, *BROKEN_ZIP, TypeError, AttributeError, RecursionError):
        message = f"{path} does not say what the driver built it from"
        raise error(Code.FILE_KIND, message, help=_NO_WHEEL) from None
    return found


def _statement(path: Path) -> bytes:
    """The statement in a wheel, or in a directory with a wheel's files."""
    if path.is_dir():
        [file] = path.glob(f"*.dist-info/{STATEMENT}")
        return file.read_bytes()
    with zipfile.ZipFile(path) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(f".dist-info/{STATEMENT}")]
        return archive.read(name)


def built_here(directory: Path, patterns: Sequence[str], matrix: Matrix, options: Options) -> list[Artifact]:
    """The variants in `build/` of a project.

    Args:
        directory: the directory of the project.
        patterns: globs of identifiers; empty for all existing variants.
        matrix: the releases to build for.
        options: the options, which may select other variants.

    Raises:
        DriverError: FILE_MISSING if there are none; NO_SUCH_VARIANT.
    """
    statements = sorted((directory / BUILD).glob(f"*/*.dist-info/{STATEMENT}"))
    found = [read_artifact(file.parent.parent) for file in statements]
    if patterns or options.words.given:
        meant = {
            variant.configuration
            for variant in choose(candidates(directory, matrix, options.words.backends), patterns, options.words)
        }
        found = [artifact for artifact in found if artifact.configuration in meant]
    if not found:
        advice = f"build them first: driver build {shlex.quote(str(directory))}"
        raise error(Code.FILE_MISSING, f"{directory / BUILD} has no such variants", help=advice)
    return found


def verify_extension(  # noqa: PLR0913  (what, made from what, and how)
    directory: Path,
    source: Entry | None,
    artifacts: Sequence[Artifact],
    bindings: MakeBindings,
    releases: Releases,
    output: Output,
    options: VerifyOptions,
) -> list[Verified]:
    """Rebuild artifacts of a project without any earlier result, and compare them.

    Args:
        directory: the directory of the project.
        source: its source archive, if it is from the package index.
        artifacts: the artifacts to compare.
        bindings: see `Bindings`.
        releases: the releases to build for.
        output: where progress is shown.
        options: how to build and compare.

    Raises:
        DriverError: what `plan_extension` and the build raise.
    """
    alike: dict[tuple[tuple[str, ...], str, Chosen], list[Artifact]] = {}
    for artifact in artifacts:
        archs = next(filter(None, (_chosen(part, releases.matrix) for part in artifact.parts)), ())
        alike.setdefault((archs, artifact.way, artifact.how), []).append(artifact)
    found: dict[Path, Verified] = {}
    for (archs, way, how), group in alike.items():
        pythons = tuple(dict.fromkeys(artifact.python.partition("-")[0] for artifact in group if artifact.python))
        names = list(dict.fromkeys(spell(part.configuration) for artifact in group for part in artifact.parts))
        choices = options.build.choices
        choices = replace(choices, cxx=choices.cxx or how.cxx, compress=choices.compress or how.compress)
        own = replace(options.build, archs=archs, choices=choices)
        extension = plan_extension(directory, names, releases, output, own, bindings(way, pythons))
        with tempfile.TemporaryDirectory(prefix="driver-") as name:
            work = Path(name)
            built = {part.name: part for part in _rebuilt(extension, releases, output, own, work / "modules")}
            for artifact in group:
                found[artifact.path] = _compared(artifact, built, source, releases, work, options)
    return [found[artifact.path] for artifact in artifacts]


def _chosen(artifact: Artifact, matrix: Matrix) -> tuple[str, ...]:
    """The architectures that `--archs` named for an artifact; empty if it has the default ones."""
    toolkit = matrix.toolkit(artifact.configuration.backend)
    return () if toolkit is None or artifact.archs == tuple(toolkit.default_archs) else artifact.archs


def _rebuilt(
    extension: Extension, releases: Releases, output: Output, options: Options, destination: Path
) -> list[BuiltExtension]:
    """Build all variants of an extension into a directory, without any cache.

    Raises:
        DriverError: it cannot be built.
    """
    modules: list[tuple[Plan, Built]] = []
    for plan in extension.plans:
        planned = {variant.name: variant for variant in plan.variants}

        def take(task: Task, counts: VariantActions, fresh: Path) -> tuple[Plan, Built]:
            with true_names(fresh, task.plan) as named:
                path, size = collect(named, destination, counts.variant)
            variant = planned[counts.variant]  # noqa: B023  (it is called before the next plan)
            return task.plan, Built(variant=variant, path=path, size=size, actions=counts)

        task = Task(extension.directory, plan, plan.variants, Place(destination))
        [result] = rebuild([task], releases, output, options.choices, take).values()
        if isinstance(result, DriverError):
            raise result
        modules += result
    return assemble(extension, modules)


def _compared(  # noqa: PLR0913  (what, with what, and how)
    artifact: Artifact,
    built: Mapping[str, BuiltExtension],
    source: Entry | None,
    releases: Releases,
    work: Path,
    options: VerifyOptions,
) -> Verified:
    """Compare an artifact with the rebuilt one."""
    names = [_name_of(part) for part in artifact.parts]
    name = names[0] if len(names) == 1 else f"{len(names)} variants"
    if missing := [variant for variant in names if variant not in built]:
        message = f"the sources make nothing for {missing[0]}: {', '.join(built)}"
        return Verified(variant=name, place=str(artifact.path), differences=(message,))
    if artifact.variants:
        [fresh] = pack_merged([built[variant] for variant in names], releases, source, work)
    else:
        labelled = bool(label_in(artifact.path.name)[1])
        fresh = pack(built[name], releases, source, work, labelled=labelled)
    path = artifact.path
    if path.is_dir():
        remove_bytecode(path)
        new, old = lay_out(fresh, work / "new", name)[0], path
    elif path.name != fresh.name:
        return Verified(variant=name, place=str(path), differences=(f"the wheel is called {fresh.name}",))
    else:
        new, old = (_unpacked(wheel, work / side / name) for wheel, side in ((fresh, "new"), (path, "old")))
    found = differences_of(new, old)
    report = diffoscope(new, old) if found and options.diffoscope else ""
    return Verified(variant=name, place=str(path), differences=found, report=report)


def _name_of(artifact: Artifact) -> str:
    """The identifier of an artifact's variant, with its Python."""
    tag = f"-cp{artifact.python.partition('-')[0].replace('.', '')}" if artifact.python else ""
    return f"{spell(artifact.configuration)}{tag}"


def _unpacked(wheel: Path, directory: Path) -> Path:
    """The directory, with all files of a wheel in it."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory)
    return directory


def differences_of(new: Path, old: Path) -> tuple[str, ...]:
    """The differences of two directories with a wheel's files, apart from the commit of equal sources.

    Args:
        new: the rebuilt files.
        old: the files that they are compared with.
    """
    return tuple(difference for difference in differences(new, old) if not _is_of_sources(difference, new, old))


def _is_of_sources(difference: str, new: Path, old: Path) -> bool:
    """Whether a file differs only in what git reports for equal sources: the commit, and whether there are changes."""
    name = difference.removesuffix(" has other bytes")
    if name == difference:
        return False
    if name.endswith(f"/{STATEMENT}"):
        return bool(_facts(new / name) == _facts(old / name))
    if name.endswith(f"/{RECORD}"):
        return [*_others(new / name)] == [*_others(old / name)]
    return False


def _facts(statement: Path) -> Any:  # noqa: ANN401  (a value of JSON)
    """The content of a statement without the state of the sources; None if it has another form."""
    value = json.loads(statement.read_bytes())
    try:
        dependencies = value["predicate"]["buildDefinition"]["resolvedDependencies"]
        if "sha256" not in dependencies[0].get("digest", {}):
            del dependencies[0]
    except (LookupError, TypeError, AttributeError):
        return None
    return value


def _others(record: Path) -> Iterator[str]:
    """The lines of a RECORD except the statement's."""
    for line in record.read_text(encoding="utf-8").splitlines():
        if f"/{STATEMENT}," not in line:
            yield line
