"""Signed statements: an in-toto statement in a DSSE envelope in a sigstore bundle, signed with the key of a file.

Formats: DSSE v1 and in-toto Statement v1; sigstore bundle v0.3 with a public key, which `cosign
verify-blob-attestation --bundle` reads. Keys are PEM files: ECDSA on P-256 with SHA-256, or Ed25519. `cryptography`
does the arithmetic; the `kernels` client needs it too.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    PublicKey = EllipticCurvePublicKey | Ed25519PublicKey

_STATEMENT: Final = "https://in-toto.io/Statement/v1"
REBUILT: Final = "urn:rules_torch_kernels:rebuilt:1"
"""The type of the predicate: a variant was built again, and every byte is the same."""

SUFFIX: Final = ".sigstore.json"
"""How the names of files with a signed statement end."""

TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
"""The form of the time in a statement, in UTC."""

_BUNDLE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
_PAYLOAD: Final = "application/vnd.in-toto+json"
LONGEST: Final = 1 << 24
"""Bytes of a bundle, at most."""

_KINDS: Final = "an ECDSA key on the curve P-256 or an Ed25519 key, as PEM"


class StatementError(ValueError):
    """A key or a bundle is not as it has to be; the message says how, and has no subject."""


class Signed(NamedTuple):
    """What a bundle has.

    Attributes:
        payload: the statement, as it was signed.
        signature: of that.
        hint: which key it is said to be of: its fingerprint, if the bundle is made here. Nobody has signed this.
    """

    payload: bytes
    signature: bytes
    hint: str


def make_statement(files: Mapping[str, str], predicate: Mapping[str, Any], builder: str, time: datetime) -> bytes:
    """The statement that a variant was rebuilt.

    Args:
        files: of the variant: the SHA-256 of each in hexadecimal, by its path in a repository.
        predicate: what is stated of them.
        builder: the fingerprint of the key of who states it.
        time: when, in UTC.
    """
    statement = {
        "_type": _STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": files[name]}} for name in sorted(files)],
        "predicateType": REBUILT,
        "predicate": {**predicate, "builder": {"id": f"sha256:{builder}"}, "time": time.strftime(TIME)},
    }
    return (json.dumps(statement, indent=2) + "\n").encode()


def sign(private_key: bytes, payload: bytes) -> bytes:
    """A bundle with a signed statement.

    Args:
        private_key: PEM, not encrypted.
        payload: the statement.

    Raises:
        StatementError: it is no such key.
    """
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    try:
        key = serialization.load_pem_private_key(private_key, None)
    except TypeError:
        raise StatementError("is encrypted: decrypt it with `openssl pkey`") from None
    except Exception as wrong:
        raise StatementError(f"is no private key, which is {_KINDS}") from wrong
    if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
        signature = key.sign(_encoded(payload), ec.ECDSA(hashes.SHA256()))
    elif isinstance(key, ed25519.Ed25519PrivateKey):
        signature = key.sign(_encoded(payload))
    else:
        raise StatementError(f"is of another kind than {_KINDS}")
    # cosign 3.1 accepts no signature that names its key: it gives its own keys no name.
    bundle = {
        "mediaType": _BUNDLE,
        "verificationMaterial": {"publicKey": {"hint": _digest(key.public_key())}, "tlogEntries": []},
        "dsseEnvelope": {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": _PAYLOAD,
            "signatures": [{"sig": base64.b64encode(signature).decode()}],
        },
    }
    return (json.dumps(bundle) + "\n").encode()


def fingerprint(public_key: bytes) -> str:
    """The SHA-256, in hexadecimal, of a public key in DER.

    Args:
        public_key: PEM.

    Raises:
        StatementError: it is no such key.
    """
    return _digest(_public_key(public_key))


def signer(private_key: bytes) -> str:
    """The fingerprint of the public key that belongs to a private one.

    Args:
        private_key: PEM, not encrypted.

    Raises:
        StatementError: it is no such key.
    """
    return read_bundle(sign(private_key, b"")).hint


def read_bundle(bundle: bytes) -> Signed:
    """What a bundle has; no signature is looked at.

    Raises:
        StatementError: it is no bundle with one signature of an in-toto statement.
    """
    if len(bundle) > LONGEST:
        raise StatementError(f"has more than {LONGEST} bytes")
    try:
        value = json.loads(bundle)
        envelope = value["dsseEnvelope"]
        [signature] = envelope["signatures"]
        payload = base64.b64decode(envelope["payload"], validate=True)
        material = value.get("verificationMaterial", {}).get("publicKey", {})
        signed = Signed(payload, base64.b64decode(signature["sig"], validate=True), str(material.get("hint", "")))
        kinds = str(value["mediaType"]), envelope["payloadType"]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise StatementError("is no sigstore bundle with one signature") from None
    if kinds != (_BUNDLE, _PAYLOAD):
        raise StatementError("is no sigstore bundle (v0.3) with an in-toto statement")
    return signed


def signed_by(signed: Signed, public_keys: Mapping[str, bytes]) -> str:
    """The name of the key that signed a statement; empty if it is none of them.

    Args:
        signed: what a bundle has.
        public_keys: PEM, by their names.

    Raises:
        StatementError: one is no public key.
    """
    return next((name for name, key in public_keys.items() if _verifies(_public_key(key), signed)), "")


def read_statement(payload: bytes) -> tuple[dict[str, str], dict[str, Any]]:
    """What a statement says: the SHA-256 of each file, and its predicate.

    Args:
        payload: of a bundle.

    Raises:
        StatementError: it is no in-toto statement that a variant was rebuilt.
    """
    try:
        value = json.loads(payload)
        kinds = value["_type"], value["predicateType"]
        subjects = [(str(subject["name"]), str(subject["digest"]["sha256"])) for subject in value["subject"]]
        files, predicate = dict(subjects), value["predicate"]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise StatementError("is no in-toto statement") from None
    if kinds != (_STATEMENT, REBUILT) or not isinstance(predicate, dict):
        raise StatementError("is no statement about a rebuilt variant")
    if len(files) < len(subjects):
        raise StatementError("is no in-toto statement: it names a file twice")
    return files, predicate


def _encoded(payload: bytes) -> bytes:
    """What is signed: DSSE's pre-authentication encoding."""
    return b"DSSEv1 %d %s %d %s" % (len(_PAYLOAD), _PAYLOAD.encode(), len(payload), payload)


def _public_key(pem: bytes) -> PublicKey:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    try:
        key = serialization.load_pem_public_key(pem)
    except Exception as wrong:
        raise StatementError(f"is no public key, which is {_KINDS}") from wrong
    if isinstance(key, ed25519.Ed25519PublicKey) or (
        isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)
    ):
        return key
    raise StatementError(f"is of another kind than {_KINDS}")


def _verifies(key: PublicKey, signed: Signed) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signed.signature, _encoded(signed.payload), ec.ECDSA(hashes.SHA256()))
        else:
            key.verify(signed.signature, _encoded(signed.payload))
    except InvalidSignature:
        return False
    return True


def _digest(key: Any) -> str:  # noqa: ANN401  (a public key of any kind)
    from cryptography.hazmat.primitives import serialization

    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_bytes(serialization.Encoding.DER, form)).hexdigest()
