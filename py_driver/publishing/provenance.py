"""What a variant was built from, for its users: an in-toto statement with SLSA provenance, and an SBOM. Pure.

Both name every pinned archive with its SHA-256, and record neither machine nor time: equal sources give equal bytes.
Formats: in-toto Statement v1, SLSA Provenance v1, CycloneDX 1.6, package URLs (ECMA-427).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from py_driver import __version__
from py_driver.building.variant_dir import SIGNATURE
from py_driver.fetch.entry import Origin
from py_driver.plan.metadata import SLICE, chosen
from py_driver.publishing.release import make_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from py_driver.fetch.entry import Entry
    from py_driver.manifest.model import Manifest
    from py_driver.publishing.release import BuiltVariant, File

_NAME: Final = "rules_torch_kernels"
_BUILD_TYPE: Final = f"urn:{_NAME}:build:1"


class Sources(NamedTuple):
    """The state of a project's sources in git.

    Attributes:
        commit: its commit; empty if there is no git repository.
        dirty: whether it has changes that are not committed.
    """

    commit: str = ""
    dirty: bool = False


class Stated(NamedTuple):
    """The content of a statement: how a variant was built.

    Attributes:
        sources: the sources of the project.
        version: the version of rules_torch_kernels; empty if unknown.
    """

    sources: Sources = Sources()
    version: str = ""


def statement_path(variant: str) -> str:
    """The path of a variant's statement in a repository."""
    return f"provenance/{variant}.intoto.json"


def document_paths(variant: str) -> tuple[str, str]:
    """The paths of a variant's statement and SBOM in a repository."""
    return statement_path(variant), f"sbom/{variant}.cdx.json"


def documents(manifest: Manifest, built: BuiltVariant, archives: Sequence[Entry], sources: Sources) -> list[File]:
    """The statement and the SBOM of a variant.

    Args:
        manifest: the manifest of the project.
        built: the variant.
        archives: all archives that it was built with.
        sources: the state of the project's sources in git.
    """
    statement, sbom = document_paths(built.name)
    return [
        make_file(statement, _text(_statement(manifest, built, archives, sources))),
        make_file(sbom, _text(_sbom(manifest, built, archives))),
    ]


def _text(value: object) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


def _statement(manifest: Manifest, built: BuiltVariant, archives: Iterable[Entry], sources: Sources) -> dict[str, Any]:
    parameters = {
        "name": manifest.name.value,
        "version": manifest.version,
        "variant": built.name,
        "id": built.metadata["id"],
        **({SLICE: built.metadata[SLICE]} if SLICE in built.metadata else {}),
        **chosen(built.metadata),
    }
    subjects = [(file.path, file.sha256) for file in built.files if not file.path.endswith(SIGNATURE)]
    return _in_toto(subjects, parameters, [_project(sources, manifest.source), *map(_dependency, archives)])


def wheel_statement(
    files: Mapping[str, File], parameters: Mapping[str, Any], project: Entry | Sources, archives: Iterable[Entry]
) -> bytes:
    """The statement of a wheel, about its files.

    Args:
        files: the files of the wheel, by their paths in it.
        parameters: the build parameters: name, version, configuration.
        project: its source archive, or the state of its directory in git.
        archives: the archives that compiled and linked its libraries.
    """
    subjects = [(path, file.sha256) for path, file in files.items()]
    own = _project(project) if isinstance(project, Sources) else _dependency(project)
    return _text(_in_toto(subjects, parameters, [own, *map(_dependency, archives)]))


def _project(sources: Sources, address: str | None = None) -> dict[str, Any]:
    """The sources of a project in a directory."""
    project: dict[str, Any] = {"name": "sources", "annotations": {"dirty": sources.dirty}}
    if address:
        project["uri"] = address
    if sources.commit:
        project["digest"] = {"gitCommit": sources.commit}
    return project


def _dependency(archive: Entry) -> dict[str, Any]:
    return {"name": archive.label, **_pin(archive)}


def _in_toto(
    subjects: Iterable[tuple[str, str]], parameters: Mapping[str, Any], dependencies: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """A statement.

    Args:
        subjects: the subjects: names and SHA-256 in hexadecimal.
        parameters: the build parameters.
        dependencies: the materials of the build.
    """
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": sha256}} for name, sha256 in subjects],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD_TYPE,
                "externalParameters": parameters,
                "resolvedDependencies": dependencies,
            },
            "runDetails": {"builder": {"id": f"urn:{_NAME}", "version": {_NAME: __version__}}},
        },
    }


def read_statement(text: bytes) -> Stated:
    """Read a statement; fields are empty if it has another form than this module writes."""
    try:
        predicate = json.loads(text)["predicate"]
        project = predicate["buildDefinition"]["resolvedDependencies"][0]
        commit, dirty = project.get("digest", {}).get("gitCommit", ""), project["annotations"]["dirty"]
        version = predicate["runDetails"]["builder"]["version"][_NAME]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return Stated()
    return Stated(Sources(commit=str(commit), dirty=dirty is True), str(version))


def _pin(archive: Entry) -> dict[str, Any]:
    return {"uri": package_url(archive), "digest": {"sha256": archive.sha256}}


def _sbom(manifest: Manifest, built: BuiltVariant, archives: Iterable[Entry]) -> dict[str, Any]:
    """The SBOM; its archives compiled and linked the variant, which contains little of them."""
    kernel = {
        "type": "library",
        "bom-ref": built.name,
        "name": manifest.name.value,
        "version": str(manifest.version),
        "licenses": [{"license": {"name": manifest.license}}],
    }
    return bill_of(kernel, archives)


def bill_of(subject: Mapping[str, Any], archives: Iterable[Entry]) -> dict[str, Any]:
    """An SBOM in CycloneDX 1.6.

    Args:
        subject: the component that it is about, with a `bom-ref`.
        archives: the archives that it was built with and does not contain.
    """
    components = {
        reference: {
            "type": "library",
            "bom-ref": reference,
            "name": archive.name,
            "version": archive.version,
            "scope": "excluded",
            "purl": package_url(archive),
            "hashes": [{"alg": "SHA-256", "content": archive.sha256}],
        }
        for archive in archives
        if (reference := f"{package_url(archive)}#{archive.sha256[:16]}")
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "tools": {"components": [{"type": "application", "name": _NAME, "version": __version__}]},
            "component": subject,
        },
        "components": list(components.values()),
        "dependencies": [{"ref": subject["bom-ref"], "dependsOn": list(components)}],
    }


def package_url(archive: Entry) -> str:
    """The package URL of a pinned archive, e.g. `pkg:pypi/torch@2.13.0`."""
    name, version = quote(archive.name.lower(), safe=""), quote(archive.version, safe="")
    if archive.origin is Origin.PYTHON_INDEX:
        return f"pkg:pypi/{name.replace('_', '-')}@{version}"
    if archive.origin is Origin.DEBIAN:
        return f"pkg:deb/debian/{name}@{version}?arch={'arm64' if archive.filename.endswith('_arm64.deb') else 'amd64'}"
    return f"pkg:generic/{name}@{version}?download_url={quote(archive.url, safe='')}"
