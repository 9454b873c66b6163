"""Variants as OCI artifacts: an index of variants, a manifest for each, and the documents attached to each. Pure.

Each file of a variant is a layer of its own, so that a layer's digest equals the file's digest in statements.
Formats: OCI image-spec 1.1 (manifest with `artifactType` and `subject`, empty config), and its fallback for registries
that list no referrers, the referrers tag schema of distribution-spec 1.1. No time is recorded: the same variants give
the same digests.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py_driver.errors import Code, error
from py_driver.publishing.release import make_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from py_driver.publishing.release import File

MANIFEST_TYPE: Final = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE: Final = "application/vnd.oci.image.index.v1+json"
VARIANT: Final = "rules_torch_kernels.variant"
"""The annotation, in an index, that names a variant."""

PROVENANCE: Final = "application/vnd.in-toto+json"
SBOM: Final = "application/vnd.cyclonedx+json"
STATEMENT: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"

_KERNEL: Final = "application/vnd.rules-torch-kernels.kernel.v1"
_VARIANT: Final = "application/vnd.rules-torch-kernels.variant.v1"
_FILE: Final = "application/octet-stream"
_EMPTY_TYPE: Final = "application/vnd.oci.empty.v1+json"
_TITLE: Final = "org.opencontainers.image.title"
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}", re.ASCII)
_REFERENCE: Final = re.compile(
    r"(?P<host>localhost|[A-Za-z0-9.-]+\.[A-Za-z0-9.-]+|[A-Za-z0-9.-]+(?=:)|\[[0-9a-f:]+\])(?P<port>:[0-9]{1,5})?"
    r"/(?P<name>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)(?::(?P<tag>[^:/@]+))?",
    re.ASCII,
)

EMPTY: Final = make_file("{}", b"{}")
"""The config of an artifact without a config; it is uploaded as a blob, too."""


class Reference(NamedTuple):
    """The address of an artifact.

    Attributes:
        registry: the host, with its port.
        name: the repository.
        tag: the artifact's tag.
    """

    registry: str
    name: str
    tag: str

    def __str__(self) -> str:
        return f"{self.registry}/{self.name}:{self.tag}"


class Document(NamedTuple):
    """A manifest or an index.

    Attributes:
        media_type: the media type of a manifest or of an index.
        file: its content.
        blobs: files that the registry needs before the document.
    """

    media_type: str
    file: File
    blobs: tuple[File, ...] = ()

    @property
    def digest(self) -> str:
        """The digest under which a registry stores it."""
        return f"sha256:{self.file.sha256}"

    @property
    def descriptor(self) -> dict[str, Any]:
        """The descriptor with which other documents refer to it."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.file.size}


def read_reference(text: str, tag: str) -> Reference:
    """Read `HOST[:PORT]/NAME[:TAG]`.

    Args:
        text: the user's text.
        tag: the tag if `text` has none.

    Raises:
        DriverError: USAGE if the text has another form.
    """
    found = _REFERENCE.fullmatch(text)
    if not found or not _TAG.fullmatch(found["tag"] or tag):
        advice = "write HOST/NAME:TAG, such as localhost:5000/me/relu:v1; NAME has small letters"
        raise error(Code.USAGE, f"--oci: `{text}` is not the name of an artifact", help=advice)
    return Reference(f"{found['host']}{found['port'] or ''}", found["name"], found["tag"] or tag)


def variant_manifest(files: Sequence[File], annotations: Mapping[str, str]) -> Document:
    """The manifest of a variant.

    Args:
        files: the files of the variant; their paths are those of a repository on the Hub, and where clients put them.
        annotations: the annotations of the manifest.
    """
    layers = [{**_blob(file, _FILE), "annotations": {_TITLE: file.path}} for file in files]
    return _manifest(_VARIANT, layers, {"annotations": dict(annotations)}, (EMPTY, *files))


def attached(kind: str, file: File, subject: Document) -> Document:
    """The manifest of a document that is attached to a manifest.

    Args:
        kind: the media type of `file`.
        file: the attached file; the last part of its path is its name.
        subject: the manifest that it is attached to.
    """
    layer = {**_blob(file, kind), "annotations": {_TITLE: file.path.rpartition("/")[2]}}
    return _manifest(kind, [layer], {"subject": subject.descriptor}, (EMPTY, file))


def index(manifests: Mapping[str, Document], known: bytes | None) -> Document:
    """The index of a kernel's variants.

    Args:
        manifests: the manifests of the variants, by identifier.
        known: the registry's present index, whose entries for other variants stay; None if it has none.

    Raises:
        DriverError: HUB_REFUSED if something else has the tag.
    """
    entries = {
        name: {**manifest.descriptor, "artifactType": _VARIANT, "annotations": {VARIANT: name}}
        for name, manifest in manifests.items()
    }
    if known is not None:
        entries = {**_entries(known), **entries}
    listed = [entries[name] for name in sorted(entries)]
    return _document(INDEX_TYPE, {"artifactType": _KERNEL, "manifests": listed}, ())


def referrers(documents: Iterable[tuple[str, Document]], known: bytes | None) -> Document:
    """The index of the documents attached to a manifest, for a registry that does not maintain one itself.

    Args:
        documents: the attached documents, each with its media type.
        known: the registry's present index, whose entries stay; None if it has none.

    Raises:
        DriverError: HUB_REFUSED if `known` is not an index.
    """
    try:
        entries = {entry["digest"]: entry for entry in (json.loads(known)["manifests"] if known is not None else [])}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        message = "the registry's tag for the documents attached to a variant is not an index"
        raise error(Code.HUB_REFUSED, message, help="delete it there") from None
    entries |= {document.digest: {**document.descriptor, "artifactType": kind} for kind, document in documents}
    return _document(INDEX_TYPE, {"manifests": list(entries.values())}, ())


def referrers_tag(subject: Document) -> str:
    """The tag under which `referrers` are published."""
    return subject.digest.replace(":", "-")


def _entries(known: bytes) -> dict[str, Any]:
    """The entries of an index of variants, by identifier."""
    try:
        value = json.loads(known)
        if value["artifactType"] == _KERNEL:
            return {str(entry["annotations"][VARIANT]): entry for entry in value["manifests"]}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        pass
    raise error(Code.HUB_REFUSED, "the tag belongs to another artifact", help="choose another tag, or delete it there")


def _blob(file: File, media_type: str) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{file.sha256}", "size": file.size}


def _manifest(
    kind: str, layers: Sequence[Mapping[str, Any]], more: Mapping[str, Any], blobs: tuple[File, ...]
) -> Document:
    value = {"artifactType": kind, "config": _blob(EMPTY, _EMPTY_TYPE), "layers": layers, **more}
    return _document(MANIFEST_TYPE, value, blobs)


def _document(media_type: str, value: Mapping[str, Any], blobs: tuple[File, ...]) -> Document:
    text = json.dumps({"schemaVersion": 2, "mediaType": media_type, **value}, indent=2)
    return Document(media_type, make_file("", text.encode()), blobs)
