"""Which signed statements count for a policy, and what is said of those that do not."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from keys import NOW, bundle, write_key, write_policy
from rules_torch_kernels.confirmed import digests
from rules_torch_kernels.policies import PolicyError, read_policy
from rules_torch_kernels.rebuilders import Verdict, Wanted, judge, statements_below
from rules_torch_kernels.statements import SUFFIX, StatementError, read_bundle, sign
from securesystemslib.dsse import Envelope
from securesystemslib.signer._key import SSlibKey

from py_driver.publishing import rebuilt_statement

if TYPE_CHECKING:
    from pathlib import Path

FILES = {"build/torch-cpu/__init__.py": "a" * 64, "build/torch-cpu/_relu.so": "b" * 64}
OTHER = {**FILES, "build/torch-cpu/_relu.so": "c" * 64}
_COSIGN = b"-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED SIGSTORE PRIVATE KEY-----\n"
WANTED = Wanted("me/relu", 1, "torch-cpu", FILES)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """The keys of three builders and of a stranger."""
    for name in ("ann", "bob", "cyd", "mallory"):
        write_key(tmp_path, name, edwards=name == "bob")
    return tmp_path


def verdict(keys: Path, require: int, *bundles: bytes, wanted: Wanted = WANTED, more: str = "") -> Verdict:
    policy = read_policy(write_policy(keys, require, "ann", "bob", "cyd", more=more))
    return judge(policy, wanted, {str(number): own for number, own in enumerate(bundles)}, NOW)


def test_two_of_three(keys: Path) -> None:
    signed = {name: bundle(keys / f"{name}.pem", FILES) for name in ("ann", "bob", "cyd")}
    assert verdict(keys, 2, signed["bob"], signed["ann"]) == (("ann", "bob"), {}, "")
    assert verdict(keys, 2, *signed.values()).builders == ("ann", "bob", "cyd")
    alone = verdict(keys, 2, signed["bob"])
    message = "1 of 3 builders (bob) have confirmed torch-cpu of me/relu, and the policy requires 2"
    assert alone == (("bob",), {}, message)
    assert verdict(keys, 2).problem.startswith("0 of 3 builders have confirmed")


def test_a_builder_counts_once(keys: Path) -> None:
    first, second = (bundle(keys / "ann.pem", FILES, NOW - timedelta(days=days)) for days in (0, 1))
    assert verdict(keys, 2, first, second).builders == ("ann",)
    assert verdict(keys, 2, first, second).problem


def test_one_byte_is_other(keys: Path) -> None:
    found = verdict(keys, 1, bundle(keys / "ann.pem", OTHER))
    reason = "of ann is for other files: build/torch-cpu/_relu.so has other bytes here"
    assert (found.builders, found.refused) == ((), {"0": reason})
    assert found.problem.endswith(f"the policy requires 1; the statement 0 {reason}")


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({**FILES, "build/torch-cpu/more.py": "d" * 64}, "build/torch-cpu/more.py is missing here"),
        ({"build/torch-cpu/_relu.so": "b" * 64}, "it lacks build/torch-cpu/__init__.py"),
        ({}, "it lacks build/torch-cpu/__init__.py"),
    ],
)
def test_every_file_counts(keys: Path, files: dict[str, str], reason: str) -> None:
    found = verdict(keys, 1, bundle(keys / "ann.pem", files))
    assert found.refused == {"0": f"of ann is for other files: {reason}"}


def _changed(signed: bytes, change: str) -> bytes:
    """A bundle with one change that its signature is not for."""
    value: dict[str, Any] = json.loads(signed)
    envelope = value["dsseEnvelope"]
    if change == "payload":
        payload = base64.b64decode(envelope["payload"]).replace(b"c" * 64, b"b" * 64)
        envelope["payload"] = base64.b64encode(payload).decode()
    elif change == "signature":
        signature = bytearray(base64.b64decode(envelope["signatures"][0]["sig"]))
        signature[-1] ^= 1
        envelope["signatures"][0]["sig"] = base64.b64encode(signature).decode()
    else:
        envelope["signatures"][0]["sig"] = ""
    return json.dumps(value).encode()


@pytest.mark.parametrize("change", ["payload", "signature", "none"])
@pytest.mark.parametrize("builder", ["ann", "bob"])
def test_a_forged_signature(keys: Path, change: str, builder: str) -> None:
    forged = _changed(bundle(keys / f"{builder}.pem", OTHER if change == "payload" else FILES), change)
    assert verdict(keys, 1, forged).refused == {"0": f"has no valid signature of {builder}"}


def test_a_stranger_s_key(keys: Path) -> None:
    signed = bundle(keys / "mallory.pem", FILES)
    assert verdict(keys, 1, signed).refused == {"0": "has a key that the policy lacks"}
    value = json.loads(signed)
    hint = read_bundle(bundle(keys / "ann.pem", FILES)).hint
    value["verificationMaterial"]["publicKey"]["hint"] = hint  # it says that it is ann's
    assert verdict(keys, 1, json.dumps(value).encode()).refused == {"0": "has no valid signature of ann"}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"repository": "evil/relu"}, "is for repository evil/relu"),
        ({"variant": "torch-cuda"}, "is for variant torch-cuda"),
        ({"version": 2}, "is for version 2"),
        ({"result": "other"}, "does not state that the bytes are the same"),
    ],
)
def test_a_statement_for_something_else(keys: Path, changed: dict[str, Any], reason: str) -> None:
    found = verdict(keys, 1, bundle(keys / "ann.pem", FILES, **changed))
    assert found.refused == {"0": f"of ann {reason}"}


def test_a_version_that_nobody_asks_for(keys: Path) -> None:
    signed = bundle(keys / "ann.pem", FILES, version=2)
    assert not verdict(keys, 1, signed, wanted=WANTED._replace(version=None)).problem


def test_an_old_statement_is_replayed(keys: Path) -> None:
    old = bundle(keys / "ann.pem", FILES, NOW - timedelta(days=31))
    assert not verdict(keys, 1, old).problem
    assert not verdict(keys, 1, old, more="max-age-days = 31").problem
    found = verdict(keys, 1, old, more="max-age-days = 30")
    assert found.refused == {"0": "of ann is 31 days old, and the policy allows 30"}
    new = bundle(keys / "ann.pem", FILES, NOW + timedelta(days=2))
    assert found.problem
    assert verdict(keys, 1, new).refused == {"0": "of ann is dated 2026-11-30T12:00:00Z, which is in the future"}


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"dsseEnvelope": {"signatures": []}}', b" " * ((1 << 24) + 1)],
)
def test_what_is_no_bundle(keys: Path, content: bytes) -> None:
    found = verdict(keys, 1, content, bundle(keys / "ann.pem", FILES))
    assert found.builders == ("ann",)
    assert len(found.refused) == 1


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{}",
        b'{"_type": "https://in-toto.io/Statement/v1", "predicateType": "x", "subject": [], "predicate": {}}',
        b'{"_type": "https://in-toto.io/Statement/v1", "predicateType": "urn:rules_torch_kernels:rebuilt:1", '
        b'"subject": [], "predicate": []}',
        b'{"_type": "https://in-toto.io/Statement/v1", "predicateType": "urn:rules_torch_kernels:rebuilt:1", '
        b'"subject": [{"name": "a", "digest": {"sha256": "b"}}, {"name": "a", "digest": {"sha256": "c"}}], '
        b'"predicate": {}}',
        b'{"_type": "https://in-toto.io/Statement/v1", "predicateType": "urn:rules_torch_kernels:rebuilt:1", '
        b'"subject": [{"name": "a", "digest": {"sha512": "b"}}], "predicate": {}}',
    ],
)
def test_a_signed_statement_of_something_else(keys: Path, payload: bytes) -> None:
    found = verdict(keys, 1, sign((keys / "ann.pem").read_bytes(), payload))
    assert found.problem
    [reason] = found.refused.values()
    assert reason.startswith(("is no in-toto statement", "is no statement about a rebuilt variant"))


def test_another_library_verifies_the_envelope(keys: Path) -> None:
    """securesystemslib has its own DSSE."""
    for name, scheme in (("ann", "ecdsa-sha2-nistp256"), ("bob", "ed25519")):
        value = json.loads(bundle(keys / f"{name}.pem", FILES))["dsseEnvelope"]
        value["signatures"][0]["keyid"] = "any"
        pem = (keys / f"{name}.pub").read_text()
        public = pem if name == "ann" else _raw(keys / "bob.pub")
        key = SSlibKey("any", scheme.partition("-")[0], scheme, {"public": public})
        assert Envelope.from_dict(value).verify([key], 1) == {"any": key}


def _raw(pem: Path) -> str:
    """The 32 bytes of an Ed25519 key: they are the last ones of its DER."""
    body = "".join(pem.read_text().splitlines()[1:-1])
    return base64.b64decode(body)[-32:].hex()


def _openssl(*args: str) -> bytes:
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl is not installed")
    return subprocess.run([program, *args], check=True, capture_output=True).stdout


def test_keys_that_openssl_makes(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    for options in (["-algorithm", "ed25519"], ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]):
        key.write_bytes(_openssl("genpkey", *options))
        (tmp_path / "own.pub").write_bytes(_openssl("pkey", "-in", str(key), "-pubout"))
        policy = read_policy(write_policy(tmp_path, 1, "own"))
        assert judge(policy, WANTED, {"own": bundle(key, FILES)}, NOW).builders == ("own",)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"], "is of another kind than an ECDSA key"),
        (["-algorithm", "RSA"], "is of another kind than an ECDSA key"),
        (["-algorithm", "ed25519", "-aes256", "-pass", "pass:secret"], "is encrypted: decrypt it"),
    ],
)
def test_keys_that_do_not_sign(options: list[str], reason: str) -> None:
    with pytest.raises(StatementError, match=reason):
        sign(_openssl("genpkey", *options), b"{}")
    with pytest.raises(StatementError, match="is no private key"):
        sign(
            b"-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED SIGSTORE PRIVATE KEY-----\n", b""
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("require = 1", "`schema` is not 1"),
        ("schema = 1\nrequire = 1", r"`\[builders\]` is missing"),
        (
            'schema = 1\nrequired = 1\n[builders]\nann = "ann.pub"',
            "unknown key `required`; the keys are",
        ),
        ('schema = 1\n[builders]\nann = "ann.pub"', "`require` is missing"),
        ('schema = 1\nrequire = 0\n[builders]\nann = "ann.pub"', "`require` is not a number from 1 to 1"),
        ('schema = 1\nrequire = true\n[builders]\nann = "ann.pub"', "`require` is not a number from 1 to 1"),
        ('schema = 1\nrequire = 2\n[builders]\nann = "ann.pub"', "`require` is not a number from 1 to 1"),
        ('schema = 1\nrequire = 1\nmax-age-days = 0\n[builders]\nann = "ann.pub"', "`max-age-days` is not a number"),
        ('schema = 1\nrequire = 1\nstatements = "a"\n[builders]\nann = "ann.pub"', "`statements` is not a list"),
        (
            'schema = 1\nrequire = 1\nstatements = ["*"]\n[builders]\nann = "ann.pub"',
            r"`statements` names .*\*, which is no directory",
        ),
        ('schema = 1\nrequire = 1\n[builders]\n"*" = "ann.pub"', r"the builder `\*` is no short name"),
        ('schema = 1\nrequire = 1\n[builders]\nann = "ann.pub"\nann2 = "ann.pub"', "ann and ann2 have the same key"),
        ('schema = 1\nrequire = 1\n[builders]\nann = "dan.pub"', "the key of ann cannot be read"),
        ('schema = 1\nrequire = 1\n[builders]\nann = "ann.pem"', "the key of ann is no public key"),
        ('schema = 1\nrequire = 1\n[builders]\n"a b" = "ann.pub"', "the builder `a b` is no short name"),
        ("schema = ", "cannot be read"),
    ],
)
def test_policies_that_are_wrong(keys: Path, text: str, message: str) -> None:
    (keys / "policy.toml").write_text(text)
    with pytest.raises(PolicyError, match=message):
        read_policy(keys / "policy.toml")
    with pytest.raises(PolicyError, match=r"missing[.]toml cannot be read"):
        read_policy(keys / "missing.toml")


def test_statements_of_a_directory(keys: Path) -> None:
    statements = keys / "statements" / "torch-cpu"
    statements.mkdir(parents=True)
    for name in ("a.sigstore.json", "b\n.sigstore.json", "c.json"):
        (statements / name).write_bytes(b"{}")
    assert statements_below(keys / "statements", "torch-cpu", "there") == {"there/torch-cpu/a.sigstore.json": b"{}"}
    assert statements_below(keys / "statements", "torch-cuda") == {}
    assert rebuilt_statement.SUFFIX == SUFFIX


def test_a_file_that_cannot_be_read_stops_no_other(keys: Path) -> None:
    statements = keys / "statements" / "torch-cpu"
    (statements / "a-directory.sigstore.json").mkdir(parents=True)
    os.mkfifo(statements / "a-pipe.sigstore.json")
    (statements / "a-link.sigstore.json").symlink_to("a-link.sigstore.json")
    with (statements / "large.sigstore.json").open("wb") as file:
        file.truncate(1 << 40)
    (statements / "right.sigstore.json").write_bytes(bundle(keys / "ann.pem", FILES))
    bundles = statements_below(keys / "statements", "torch-cpu")
    found = verdict(keys, 1, *bundles.values())
    assert (found.builders, found.problem, len(found.refused)) == (("ann",), "", 4)


def test_a_statement_that_names_a_file_by_a_number(keys: Path) -> None:
    payload = json.loads(read_bundle(bundle(keys / "ann.pem", FILES)).payload)
    payload["subject"].append({"name": 5, "digest": {"sha256": 6}})
    found = verdict(keys, 1, sign((keys / "ann.pem").read_bytes(), json.dumps(payload).encode()))
    assert found.refused == {"0": "of ann is for other files: 5 is missing here"}


def test_a_link_to_a_directory_is_not_what_was_stated(tmp_path: Path) -> None:
    variant, other = tmp_path / "torch-cpu", tmp_path / "other"
    for path in (variant, other, variant / "layers"):
        path.mkdir()
    for path in (variant / "layers" / "a.py", other / "a.py"):
        path.write_text("")
    assert [*digests(variant)] == ["build/torch-cpu/layers/a.py"]
    for name in ("more", "__pycache__"):
        (variant / name).symlink_to(other)
    assert {name: found for name, found in digests(variant).items() if found == "a link"} == {
        "build/torch-cpu/__pycache__": "a link",
        "build/torch-cpu/more": "a link",
    }
