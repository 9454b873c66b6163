"""`driver verify --policy`: statements of builders about what is in `build/` or on a Hub. Nothing is built."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from keys import bundle, write_key, write_policy
from tuned import REPO, environment, on_disk, publish

from py_driver.output import Output
from py_driver.publishing.provenance import Sources
from py_driver.publishing.rebuilt_statement import About, Same
from py_driver.publishing.signing import Signer
from py_driver.system.cache import cache_root

if TYPE_CHECKING:
    from pathlib import Path

    from hub import Hub

VARIANTS = ("torch-cpu", "torch-cuda")
_VENVS = cache_root() / "venvs"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """The keys of three builders, and a policy that requires two of them; what signs is in this user's cache."""
    (tmp_path / "cache").mkdir(exist_ok=True)
    (tmp_path / "cache" / "venvs").symlink_to(_VENVS)
    keys = tmp_path / "keys"
    keys.mkdir()
    for name in ("ann", "bob", "cyd"):
        write_key(keys, name)
    write_policy(keys, 2, "ann", "bob", "cyd")
    return keys


def verify(hub: Hub | str, project: Path, *options: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "py_driver", "verify", str(project), *options]
    environ = environment(hub, project)
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert "internal error" not in done.stderr
    assert done.returncode == code, done.stdout + done.stderr
    return done


def files(project: Path, variant: str) -> dict[str, str]:
    """The digests of a variant's files."""
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in on_disk(project).items()}
    return {name: digest for name, digest in digests.items() if name.startswith(f"build/{variant}/")}


def state(project: Path, keys: Path, builder: str, *variants: str, **changed: Any) -> None:  # noqa: ANN401  (JSON)
    """Put a builder's statements of variants into a project."""
    for variant in variants or VARIANTS:
        path = project / "statements" / variant / f"{builder}.sigstore.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        about = {"repository": REPO, "version": 3, "variant": variant, **changed}
        path.write_bytes(bundle(keys / f"{builder}.pem", files(project, variant), datetime.now(UTC), **about))


def test_two_of_three_builders_have_confirmed_what_is_built(project: Path, keys: Path) -> None:
    policy = f"--policy={keys / 'policy.toml'}"
    state(project, keys, "ann")
    failed = verify("http://127.0.0.1:9", project, policy, code=1)
    message = f"1 of 3 builders (ann) have confirmed torch-cpu of {REPO}, and the policy requires 2"
    assert f"error[E406]: {project}/build/torch-cpu: {message}" in failed.stderr
    state(project, keys, "cyd")
    right = verify("http://127.0.0.1:9", project, policy)
    assert right.stdout == "torch-cpu  ann, cyd\ntorch-cuda  ann, cyd\n"
    assert "2 variants confirmed by 2 or more of the builders" in right.stderr


def test_statements_are_published_and_one_byte_on_the_hub_is_found(hub: Hub, project: Path, keys: Path) -> None:
    state(project, keys, "ann")
    state(project, keys, "bob")
    publish(hub, project)
    repository = hub.repositories[REPO]
    there = dict(repository.files("v3") or {})
    assert {path for path in there if path.startswith("statements/")} == {
        f"statements/{variant}/{builder}.sigstore.json" for variant in VARIANTS for builder in ("ann", "bob")
    }
    elsewhere = project.parent / "elsewhere"
    elsewhere.mkdir()
    options = [f"--policy={keys / 'policy.toml'}", "--published", f"--repo-id={REPO}", "--branch=v3"]
    assert "2 variants confirmed" in verify(hub, elsewhere, *options).stderr
    assert "1 variant confirmed" in verify(hub, elsewhere, *options, "--variant={torch-cpu}").stderr

    there["build/torch-cuda/weights.bin"] = b"\1" + there["build/torch-cuda/weights.bin"][1:]
    repository.put("v3", there)
    result = json.loads(verify(hub, elsewhere, *options, "--json", code=1).stdout)
    right, wrong = result["variants"]
    assert (right["variant"], right["builders"], right["required"]) == ("torch-cpu", ["ann", "bob"], 2)
    assert (wrong["variant"], wrong["builders"]) == ("torch-cuda", [])
    changed = "is for other files: build/torch-cuda/weights.bin has other bytes here"
    reasons = [f"of {name} {changed}" for name in ("ann", "bob")]
    assert [refused["reason"] for refused in wrong["refused"]] == reasons
    assert wrong["refused"][0]["statement"].startswith(f"{hub.address}/kernels/{REPO}/tree/")
    [error] = result["errors"]
    assert error["code"] == "E406"
    assert "0 of 3 builders have confirmed torch-cuda of me/tuned" in error["message"]


def test_statements_of_an_earlier_build_are_not_published(hub: Hub, project: Path, keys: Path) -> None:
    state(project, keys, "ann", "torch-cpu")
    (project / "statements" / "torch-cuda").mkdir()
    (project / "statements" / "torch-cuda" / "ann.sigstore.json").write_bytes(
        (project / "statements" / "torch-cpu" / "ann.sigstore.json").read_bytes()
    )
    done = publish(hub, project)
    assert f"note: {project}/statements/torch-cuda/ann.sigstore.json is for other files, and stays here" in done.stderr
    there = hub.repositories[REPO].files("v3") or {}
    assert [path for path in there if path.startswith("statements/")] == ["statements/torch-cpu/ann.sigstore.json"]


def test_an_old_release_with_its_statements(hub: Hub, project: Path, keys: Path) -> None:
    """Who has the Hub can put back what was right once; only the time tells."""
    for builder in ("ann", "bob"):
        for variant in VARIANTS:
            path = project / "statements" / variant / f"{builder}.sigstore.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            about = {"repository": REPO, "version": 3, "variant": variant}
            old = datetime.now(UTC) - timedelta(days=100)
            path.write_bytes(bundle(keys / f"{builder}.pem", files(project, variant), old, **about))
    publish(hub, project)
    policy = write_policy(keys, 2, "ann", "bob", more="max-age-days = 90")
    failed = verify(hub, project, "--published", f"--policy={policy}", code=1)
    assert "of ann is 100 days old, and the policy allows 90" in failed.stderr


def test_statements_for_another_repository(project: Path, keys: Path) -> None:
    """The bytes of a kernel that builders have confirmed elsewhere."""
    for builder in ("ann", "bob"):
        state(project, keys, builder, repository="evil/tuned")
    failed = verify("http://127.0.0.1:9", project, f"--policy={keys / 'policy.toml'}", code=1)
    assert "of ann is for repository evil/tuned" in failed.stderr


def test_a_link_in_a_variant_is_not_confirmed(project: Path, keys: Path) -> None:
    for builder in ("ann", "bob"):
        state(project, keys, builder)
    path = project / "build" / "torch-cpu" / "weights.bin"
    path.rename(project / "weights.bin")
    path.symlink_to(project / "weights.bin")
    failed = verify("http://127.0.0.1:9", project, f"--policy={keys / 'policy.toml'}", code=1)
    assert "build/torch-cpu/weights.bin has other bytes here" in failed.stderr


def test_a_signer_writes_what_a_policy_reads(project: Path, keys: Path) -> None:
    for builder in ("ann", "bob"):
        signer = Signer(keys / f"{builder}.pem", Output())
        about = About(REPO, 3, Sources("c" * 40))
        same = [Same(about, variant, "id", files(project, variant), ()) for variant in VARIANTS]
        paths = signer.sign(same, project / "statements")
        assert [path.parent.name for path in paths] == [*VARIANTS]
        assert {path.name for path in paths} == {f"{signer.fingerprint[:16]}.sigstore.json"}
    right = verify("http://127.0.0.1:9", project, f"--policy={keys / 'policy.toml'}")
    assert right.stdout == "torch-cpu  ann, bob\ntorch-cuda  ann, bob\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sign-with=KEY", "--policy=POLICY"], "--sign-with rebuilds variants, and --policy builds nothing"),
        (["--statements=x"], "--statements needs --sign-with or --policy"),
        (["--branch=x"], "--repo-id and --branch need --published"),
        (["--policy=POLICY", "--torch=2.13"], "--policy accepts one directory, and variants only by --variant"),
        (["--policy=missing.toml"], "--policy: "),
        (["--policy=POLICY", "--source=."], "--sign-with and --policy are for variants of a project with a build.toml"),
        (["--sign-with=POLICY"], "policy.toml is no private key"),
        (["--sign-with=missing.pem"], "missing.pem"),
    ],
)
def test_wrong_options(project: Path, keys: Path, options: list[str], message: str) -> None:
    names = {"KEY": str(keys / "ann.pem"), "POLICY": str(keys / "policy.toml")}
    given = [names.get(value, value) for option in options for value in option.split("=", 1)]
    failed = verify("http://127.0.0.1:9", project, *given, code=2)
    assert "error[E200]: " in failed.stderr
    assert message in failed.stderr


def test_only_a_commit_is_signed(project: Path, keys: Path) -> None:
    key = f"--sign-with={keys / 'ann.pem'}"
    failed = verify("http://127.0.0.1:9", project, key, code=2)
    assert f"error[E405]: {project} is in no git repository" in failed.stderr
    subprocess.run(["git", "-C", str(project), "init", "-q"], check=True)
    failed = verify("http://127.0.0.1:9", project, key, code=2)
    assert f"error[E405]: {project} has changes that are not committed: " in failed.stderr
    assert not (project / "statements").exists()
