"""`driver publish --oci`: the built variants of a project as an OCI artifact, with their statements attached."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from py_driver.actions.workspace import held
from py_driver.building.selection import made_from
from py_driver.building.variant_dir import present
from py_driver.errors import DriverError
from py_driver.matrix.select import ANY
from py_driver.output import counted
from py_driver.plan.plan import make_plan
from py_driver.plan.project import MANIFEST, load
from py_driver.publishing.artifact import (
    PROVENANCE,
    SBOM,
    STATEMENT,
    attached,
    index,
    read_reference,
    variant_manifest,
)
from py_driver.publishing.provenance import documents
from py_driver.publishing.registry import Registry
from py_driver.publishing.release import read_to_ship
from py_driver.publishing.shipment import check_libraries, committed
from py_driver.publishing.shipped_statements import shipped_statements

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from py_driver.manifest.model import Manifest
    from py_driver.matrix.releases import Releases
    from py_driver.matrix.select import Words
    from py_driver.output import Output
    from py_driver.publishing.artifact import Document, Reference
    from py_driver.publishing.provenance import Sources


class OciOptions(NamedTuple):
    """How to publish to a registry.

    Attributes:
        reference: `HOST/NAME`, optionally with a tag instead of `v<version>`.
        dry_run: whether to report only what would be sent.
        allow_dirty: whether files may differ from the commit.
        strict: whether probable mistakes that upstream's builder accepts are errors.
        strict_archs: whether a variant that lacks an architecture of its section is an error.
        words: torch releases and backends of the variants.
    """

    reference: str
    dry_run: bool = False
    allow_dirty: bool = False
    strict: bool = False
    strict_archs: bool = False
    words: Words = ANY


class Sent(NamedTuple):
    """A variant that was sent to a registry, or would be.

    Attributes:
        variant: its identifier.
        tag: the tag of its manifest.
        digest: the digest of its manifest.
        attached: digest and media type of each document attached to it.
        sent: how many files and documents were sent, or would be.
        same: how many the registry had already.
    """

    variant: str
    tag: str
    digest: str
    attached: tuple[tuple[str, str], ...]
    sent: int
    same: int


class Artifact(NamedTuple):
    """An artifact that was published, or would be.

    Attributes:
        reference: its address.
        digest: the digest of the index.
        variants: the variants that were sent.
        changed: whether the index changed.
        notes: what was not done although the user may expect it.
    """

    reference: Reference
    digest: str
    variants: tuple[Sent, ...]
    changed: bool
    notes: tuple[str, ...]


def publish_oci(
    directory: Path, patterns: Sequence[str], releases: Releases, output: Output, options: OciOptions
) -> Artifact:
    """Publish the variants in `build/` to a registry.

    The index is sent last, so that all its entries exist.

    Args:
        directory: the directory of the project.
        patterns: globs of identifiers; empty for all in `build/`.
        releases: the releases to build for.
        output: where progress is shown.
        options: where and how.

    Raises:
        DriverError: USAGE; DIRTY_TREE; CHANGED_BUILD; NOT_COMPLIANT; HUB_REFUSED; NO_NETWORK; PERMISSION; what
            `variant_dir.present` and reading the project raise; if `options.strict` the codes of its notes.
    """
    project = load(directory, releases)
    if options.strict and project.doubts:
        raise DriverError(project.doubts)
    manifest = project.manifest
    reference = read_reference(options.reference, f"v{manifest.version}")
    plan = make_plan(project, releases.matrix, strict_archs=options.strict_archs)
    commit = committed(directory, {MANIFEST, *plan.files}, allow_dirty=options.allow_dirty)
    with held(directory, plan, output), output.task(f"publishing to {reference}") as task:
        chosen = present(directory, plan, patterns, words=options.words)
        built = read_to_ship(directory, plan, chosen, releases.lock)
        check_libraries(zip(chosen, built, strict=True), releases, output)
        stated, notes = shipped_statements(directory, built)
        registry = Registry(reference)
        manifests: dict[str, Document] = {}
        sent: list[Sent] = []
        for variant, shipped in zip(chosen, built, strict=True):
            archives = made_from(plan, variant, shipped.metadata, releases.lock)
            provenance, sbom = documents(manifest, shipped, archives, commit)
            own = variant_manifest(shipped.files, _annotations(manifest, shipped.name, commit))
            statements = [file for file in stated if file.path.split("/")[1] == shipped.name]
            kinds = [(PROVENANCE, provenance), (SBOM, sbom), *((STATEMENT, file) for file in statements)]
            more = [(kind, attached(kind, file, own)) for kind, file in kinds]
            tag = f"{reference.tag}-{shipped.name}"
            counts = _send(registry, own, more, tag, dry_run=options.dry_run)
            listed = tuple((document.digest, kind) for kind, document in more)
            sent.append(Sent(shipped.name, tag, own.digest, listed, *counts))
            manifests[shipped.name] = own
        known = registry.document(reference.tag)
        listing = index(manifests, known)
        changed = listing.file.content != known
        if changed and not options.dry_run:
            registry.send(listing, reference.tag)
        task.done(
            f"{counted(sum(part.sent for part in sent), 'blob')} sent, {sum(part.same for part in sent)} the same"
        )
    return Artifact(reference, listing.digest, tuple(sent), changed, tuple(notes))


def _annotations(manifest: Manifest, variant: str, commit: Sources) -> dict[str, str]:
    """The annotations of a variant, with keys of the OCI image-spec."""
    found = {
        "title": f"{manifest.name.value} {variant}",
        "version": str(manifest.version),
        "licenses": manifest.license,
        "source": manifest.source or "",
        "revision": "" if commit.dirty else commit.commit,
    }
    return {f"org.opencontainers.image.{key}": value for key, value in found.items() if value}


def _send(
    registry: Registry, manifest: Document, more: Sequence[tuple[str, Document]], tag: str, *, dry_run: bool
) -> tuple[int, int]:
    """Send a variant and its documents unless the registry has them; returns the counts of sent and present."""
    sent = same = 0
    blobs = {blob.sha256: blob for document in (manifest, *(own for _, own in more)) for blob in document.blobs}
    for blob in blobs.values():
        if registry.has_blob(blob):
            same += 1
            continue
        sent += 1
        if not dry_run:
            registry.send_blob(blob)
    is_current = registry.document(tag) == manifest.file.content
    found = [is_current, *(registry.has(document) for _, document in more)]
    sent, same = sent + found.count(False), same + found.count(True)
    if dry_run:
        return sent, same
    if not is_current:
        registry.send(manifest, tag)
    # Documents are sent even if present: the answer reports whether the registry itself lists them.
    listed = [registry.send(document) for _, document in more]
    if not all(listed):
        registry.list_referrers(manifest, more)
    return sent, same
