"""`driver publish --oci` with a real docker-registry: what oras, skopeo and cosign find in it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import tuned
from keys import bundle, write_key, write_policy
from oci import PASSWORDS, program, registry
from token_server import SETTINGS, USER, token_server

from py_driver.system.cache import CACHE_VARIABLE, cache_root

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e

_VARIANTS = ("torch-cpu", "torch-cuda")
_TYPES = ["application/vnd.cyclonedx+json", "application/vnd.dev.sigstore.bundle.v0.3+json"]
_IN_TOTO = "application/vnd.in-toto+json"
_VENVS = cache_root() / "venvs"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of Python files, built, with a statement of a builder of each variant; its key is beside it."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "venvs").symlink_to(_VENVS)
    monkeypatch.setenv(CACHE_VARIABLE, str(cache))
    project = tmp_path / "tuned"
    package = project / "torch-ext" / "tuned"
    package.mkdir(parents=True)
    (project / "build.toml").write_text(tuned.MANIFEST)
    for name in ("__init__.py", "weights.bin"):
        (package / name).write_bytes(tuned.FILES[name])
    key = write_key(tmp_path, "ann")
    for variant in _VARIANTS:
        tuned.build(project, variant, tuned.FILES)
        about: dict[str, Any] = {"repository": tuned.REPO, "version": 3, "variant": variant}
        path = project / "statements" / variant / "ann.sigstore.json"
        path.parent.mkdir(parents=True)
        path.write_bytes(bundle(key, _files(project, variant), **about))
    return project


def _files(project: Path, variant: str) -> dict[str, str]:
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in tuned.on_disk(project).items()}
    return {name: digest for name, digest in digests.items() if name.startswith(f"build/{variant}/")}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[str]:
    with registry(tmp_path) as host:
        yield host


def _driver(*args: str | Path, code: int = 0, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "py_driver", *map(str, args)]
    given = {**os.environ, "PYTHONPATH": str(tuned.ROOT), **environ}
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    assert "internal error" not in done.stderr
    assert done.returncode == code, done.stdout + done.stderr
    return done


def _publish(project: Path, reference: str, *options: str, code: int = 0, **environ: str) -> Any:  # noqa: ANN401  (JSON)
    done = _driver("publish", project, f"--oci={reference}", "--json", *options, code=code, **environ)
    return json.loads(done.stdout)


def _run(name: str, *args: str | Path) -> str:
    command = [program(name), *map(str, args)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _attached(reference: str) -> list[dict[str, Any]]:
    """What oras finds that is attached to a manifest."""
    value = json.loads(_run("oras", "discover", "--plain-http", "--format=json", reference))
    found: list[dict[str, Any]] = value.get("referrers", value.get("manifests"))
    return found


def test_oras_pulls_what_was_published_and_a_policy_confirms_it(project: Path, host: str, tmp_path: Path) -> None:
    program("oras")
    result = _publish(project, f"{host}/me/tuned:v3")
    assert (result["reference"], result["changed"]) == (f"{host}/me/tuned:v3", True)
    assert [variant["variant"] for variant in result["variants"]] == [*_VARIANTS]
    here = tmp_path / "pulled"
    for variant in _VARIANTS:
        _run("oras", "pull", "--plain-http", f"{host}/me/tuned:v3-{variant}", "-o", here)
    pulled = {path.relative_to(here).as_posix(): path.read_bytes() for path in here.rglob("*") if path.is_file()}
    assert pulled == tuned.on_disk(project)

    # The statements come from the registry as well.
    for variant in result["variants"]:
        found = _attached(f"{host}/me/tuned@{variant['digest']}")
        assert sorted(entry["artifactType"] for entry in found) == [*_TYPES, _IN_TOTO]
        assert {entry["digest"] for entry in found} == {entry["digest"] for entry in variant["attached"]}
        [signed] = [entry["digest"] for entry in found if entry["artifactType"] == _TYPES[1]]
        place = here / "statements" / variant["variant"]
        _run("oras", "pull", "--plain-http", f"{host}/me/tuned@{signed}", "-o", place)
    policy = write_policy(tmp_path, 1, "ann")
    options = [f"--policy={policy}", f"--repo-id={tuned.REPO}", "--branch=v3"]
    assert "2 variants confirmed by 1 or more" in _driver("verify", here, *options).stderr
    weights = here / "build" / "torch-cuda" / "weights.bin"
    weights.write_bytes(b"\1" + weights.read_bytes()[1:])
    failed = _driver("verify", here, *options, code=1)
    assert "torch-cuda/weights.bin has other bytes here" in failed.stderr
    assert "torch-cpu/" not in failed.stderr


def test_cosign_verifies_each_file_by_the_bundle(project: Path, tmp_path: Path) -> None:
    program("cosign")
    statement = project / "statements" / "torch-cpu" / "ann.sigstore.json"
    command = [program("cosign"), "verify-blob-attestation", f"--bundle={statement}", f"--key={tmp_path / 'ann.pub'}"]
    command += ["--type=urn:rules_torch_kernels:rebuilt:1", "--insecure-ignore-tlog=true"]
    files = sorted((project / "build" / "torch-cpu").iterdir())
    assert len(files) == 4
    for path in files:
        done = subprocess.run([*command, path], capture_output=True, text=True, check=False)
        assert (done.returncode, "Verified OK" in done.stderr) == (0, True), done.stderr
    files[-1].write_bytes(b"\1" + files[-1].read_bytes()[1:])
    done = subprocess.run([*command, files[-1]], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "do not match" in done.stderr


def test_the_same_variants_are_sent_once(project: Path, host: str) -> None:
    would = _publish(project, f"{host}/me/tuned", "--dry-run")
    assert would["dry-run"]
    first = _publish(project, f"{host}/me/tuned")
    assert first["variants"][0]["sent"] == would["variants"][0]["sent"] > 0
    assert (first["reference"], first["digest"]) == (f"{host}/me/tuned:v3", would["digest"])
    again = _publish(project, f"{host}/me/tuned")
    assert [part["sent"] for part in again["variants"]] == [0, 0]
    assert (again["changed"], again["digest"]) == (False, first["digest"])
    said = _driver("publish", project, f"--oci={host}/me/tuned").stderr
    assert f"{host}/me/tuned:v3 is up to date: {first['digest']}" in said


def test_other_variants_of_the_index_stay(project: Path, host: str) -> None:
    whole = _publish(project, f"{host}/me/tuned")
    (project / "torch-ext" / "tuned" / "weights.bin").write_bytes(b"other")
    tuned.build(project, "torch-cpu", {**tuned.FILES, "weights.bin": b"other"})
    part = _publish(project, f"{host}/me/tuned", "--variant=torch-cpu", "--allow-dirty")
    note = f"{project}/statements/torch-cpu/ann.sigstore.json is for other files, and stays here"
    assert part["notes"] == [note]
    index = json.loads(_run("oras", "manifest", "fetch", "--plain-http", f"{host}/me/tuned:v3"))
    listed = {entry["annotations"]["rules_torch_kernels.variant"]: entry["digest"] for entry in index["manifests"]}
    assert listed == {"torch-cpu": part["variants"][0]["digest"], "torch-cuda": whole["variants"][1]["digest"]}
    assert listed["torch-cpu"] != whole["variants"][0]["digest"]


def test_skopeo_copies_a_variant(project: Path, host: str, tmp_path: Path) -> None:
    program("skopeo")
    _publish(project, f"{host}/me/tuned")
    source = f"docker://{host}/me/tuned:v3-torch-cpu"
    raw = json.loads(_run("skopeo", "inspect", "--raw", "--tls-verify=false", source))
    digests = {layer["annotations"]["org.opencontainers.image.title"]: layer["digest"][7:] for layer in raw["layers"]}
    assert digests == _files(project, "torch-cpu")
    _run("skopeo", "--insecure-policy", "copy", "--src-tls-verify=false", source, f"dir:{tmp_path / 'copy'}")
    assert set(digests.values()) < {path.name for path in (tmp_path / "copy").iterdir()}


def test_a_tag_of_something_else_is_left_alone(project: Path, host: str, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("x")
    _run("oras", "push", "--plain-http", "--disable-path-validation", f"{host}/me/tuned:v3", tmp_path / "other.txt")
    failed = _driver("publish", project, f"--oci={host}/me/tuned:v3", code=4)
    assert "error[E310]: the tag belongs to another artifact" in failed.stderr


def test_a_registry_with_passwords(project: Path, tmp_path: Path) -> None:
    with registry(tmp_path, PASSWORDS) as host:
        failed = _driver("publish", project, f"--oci={host}/me/tuned", code=4)
        assert f"error[E310]: {host} answered 401: " in failed.stderr
        assert "docker login" in failed.stderr
        auth = base64.b64encode(b"ann:secret").decode()
        (tmp_path / "docker").mkdir()
        (tmp_path / "docker" / "config.json").write_text(json.dumps({"auths": {host: {"auth": auth}}}))
        done = _driver("publish", project, f"--oci={host}/me/tuned", DOCKER_CONFIG=str(tmp_path / "docker"))
        assert "v3-torch-cpu  sha256:" in done.stdout
        assert auth not in done.stdout + done.stderr


def test_a_registry_with_a_token_server(project: Path, tmp_path: Path) -> None:
    with token_server(tmp_path) as tokens:
        more = SETTINGS.format(realm=tokens.realm, certificate=tokens.certificate)
        with registry(tmp_path, more=more) as host:
            failed = _driver("publish", project, f"--oci={host}/me/tuned", code=4)
            assert f"error[E310]: {host} answered 401: " in failed.stderr
            assert "docker login" in failed.stderr
            (tmp_path / "docker").mkdir()
            auths = {"auths": {host: {"auth": USER.removeprefix("Basic ")}}}
            (tmp_path / "docker" / "config.json").write_text(json.dumps(auths))
            tokens.asked.clear()
            done = _driver("publish", project, f"--oci={host}/me/tuned", DOCKER_CONFIG=str(tmp_path / "docker"))
            assert "v3-torch-cpu  sha256:" in done.stdout
            assert USER[6:] not in done.stdout + done.stderr
            # One for reading, one for writing, both for all that follows.
            assert len(tokens.asked) == 2
            assert {*tokens.asked[1].rpartition(":")[2].split(",")} == {"pull", "push"}
