"""Keys of builders, and statements signed with them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from rules_torch_kernels.statements import make_statement, sign, signer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
PREDICATE = {"result": "same", "repository": "me/relu", "version": 1, "variant": "torch-cpu", "id": "relu_1"}


def write_key(directory: Path, name: str, *, edwards: bool = False) -> Path:
    """Write a new private key, `NAME.pem`, and its public key, `NAME.pub`; return the path of the private key."""
    key = ed25519.Ed25519PrivateKey.generate() if edwards else ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (directory / f"{name}.pem").write_bytes(private)
    (directory / f"{name}.pub").write_bytes(public)
    return directory / f"{name}.pem"


def bundle(key: Path, files: Mapping[str, str], time: datetime = NOW, **changed: Any) -> bytes:  # noqa: ANN401  (JSON)
    """A signed statement of a variant; `changed` replaces values of its predicate."""
    private = key.read_bytes()
    return sign(private, make_statement(files, {**PREDICATE, **changed}, signer(private), time))


def write_policy(directory: Path, require: int, *names: str, more: str = "") -> Path:
    """Write a policy with the given builders, whose public keys are beside it."""
    lines = "".join(f'{name} = "{name}.pub"\n' for name in names)
    (directory / "policy.toml").write_text(f"schema = 1\nrequire = {require}\n{more}\n[builders]\n{lines}")
    return directory / "policy.toml"
